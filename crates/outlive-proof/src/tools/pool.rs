//! Kills the process of a pool with many events over and over: each event must be handled, and recorded once.
#![expect(clippy::disallowed_methods, reason = "real processes run in real time")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outlive::job::{Push, WorkerPool, WorkerPoolCtx};
use outlive::{BoxError, Client, Cursor, Engine, LifecycleKind, Retry};

use crate::tools::{Lines, Order, bar};

const POOL: WorkerPool<u64> = WorkerPool::new("proof");
/// Number of events: in CI, and by hand.
const EVENTS: (u64, u64) = (50_000, 1_000_000);
const KILLS: u64 = 20;
/// Number of events in one push.
const BATCH: u64 = 1_000;
/// The environment variable that makes a process of this program the one that is killed.
const ROLE: &str = "OUTLIVE_PROOF_POOL";
/// How long the last process may take for the rest.
const PATIENCE: Duration = Duration::from_secs(300);

/// The file in which handlers record what they did, before it is committed.
struct Effects(Mutex<std::io::BufWriter<std::fs::File>>);

async fn handle(ctx: WorkerPoolCtx<u64>, event: u64) -> Result<(), BoxError> {
    let effects: &Arc<Effects> = ctx.get();
    {
        let mut file = effects.0.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{event}")?;
        file.flush()?;
    }
    // Some fail at first, so that the queue is written to as well.
    if event.is_multiple_of(97) && !ctx.is_retry() { Err("fails at first".into()) } else { Ok(()) }
}

/// Executes the pool until it is killed, if this process was started for that.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let folder = std::env::var(ROLE).ok()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().ok()?;
    let done: Result<(), BoxError> = runtime.block_on(async {
        let folder = Path::new(&folder);
        let file = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("effects"))?;
        let effects = Arc::new(Effects(Mutex::new(std::io::BufWriter::new(file))));
        let pool = POOL.concurrency(64).retry(Retry::times(3).constant("10 ms")).execute(handle);
        let _engine =
            Engine::open(folder.join("pool.db")).provide(effects).max_recoveries(1_000).job(pool).start().await?;
        std::future::pending().await
    });
    Some(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let events = order.amount(EVENTS.0, EVENTS.1);
    let folder = tempfile::tempdir().map_err(|e| format!("failed to create a folder for the store: {e}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(hunt(folder.path(), events, order.seed)).map_err(|error| format!("{error}; seed {}", order.seed))
}

async fn hunt(folder: &Path, events: u64, seed: u64) -> Result<Lines, BoxError> {
    let client = Client::open(folder.join("pool.db"))?;
    let pool = client.job(POOL);
    let bar = bar(events);
    let (mut worker, mut kills, mut pushed, mut chance) = (spawn(folder)?, 0, 0, seed);
    while pushed < events || kills < KILLS {
        if pushed < events {
            let end = (pushed + BATCH).min(events);
            pool.push_many((pushed..end).map(Push::new)).await?;
            pushed = end;
            bar.set_position(end);
        }
        // The kills are spread over the pushes, at random moments.
        if pushed * KILLS >= (kills + 1) * events || pushed == events {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            tokio::time::sleep(Duration::from_millis(chance >> 33 & 0x7f)).await;
            kill(&mut worker)?;
            kills += 1;
            worker = spawn(folder)?;
        }
    }
    let begun = Instant::now();
    tokio::time::timeout(PATIENCE, pool.wait_idle())
        .await
        .map_err(|_| "the pool is not drained after five minutes")??;
    let rest = begun.elapsed();
    kill(&mut worker)?;
    bar.finish_and_clear();
    let handled = handled(folder, events)?;
    let dead = pool.status().await?.dead;
    let recorded = recorded(&client, events).await?;
    let repeated = handled - events - events.div_ceil(97);
    Ok([
        ("events pushed and acknowledged", events),
        ("workers killed", kills),
        ("events handled at least once", events),
        ("calls repeated because of a kill", repeated),
        ("events recorded as executed, each once", recorded),
        ("dead letters", dead),
        ("milliseconds from the last kill to the last event", u64::try_from(rest.as_millis())?),
    ]
    .map(|(what, count)| (what.to_owned(), count.to_string()))
    .into())
}

fn spawn(folder: &Path) -> Result<Child, BoxError> {
    let program = std::env::current_exe()?;
    Ok(Command::new(program).env(ROLE, folder).stdin(Stdio::null()).spawn()?)
}

fn kill(worker: &mut Child) -> Result<(), BoxError> {
    worker.kill()?;
    worker.wait()?;
    Ok(())
}

/// Returns the number of handler calls. Each event must have had one.
fn handled(folder: &Path, events: u64) -> Result<u64, BoxError> {
    let text = std::fs::read_to_string(folder.join("effects"))?;
    let mut seen = vec![0_u32; usize::try_from(events)?];
    for line in text.lines() {
        // The last line of a process may be cut short.
        let number = line.parse::<usize>().ok().filter(|number| *number < seen.len());
        number.into_iter().for_each(|number| seen[number] += 1);
    }
    match seen.iter().position(|count| *count == 0) {
        Some(lost) => Err(format!("event {lost} was acknowledged, but never handled").into()),
        None => Ok(seen.iter().map(|count| u64::from(*count)).sum()),
    }
}

/// Returns how many events the feed reports as executed. None may appear twice.
async fn recorded(client: &Client, events: u64) -> Result<u64, BoxError> {
    let mut feed = client.events().since(Cursor::START).await?;
    let mut executed: BTreeMap<u64, u32> = BTreeMap::new();
    loop {
        let page = feed.read(10_000).await?;
        if page.is_empty() {
            break;
        }
        for event in page {
            if let LifecycleKind::JobExecuted { work, .. } = &event.kind {
                *executed.entry(work.event.unwrap_or(0)).or_default() += 1;
            }
        }
    }
    let count = executed.len() as u64;
    match executed.iter().find(|(_, times)| **times > 1) {
        Some((event, times)) => Err(format!("event {event} is recorded {times} times").into()),
        None if count != events => Err(format!("{events} events were pushed, but {count} are recorded").into()),
        None => Ok(count),
    }
}
