//! Many waiters for runs while another process writes: what the writes cost the waiters.

use std::io::{BufRead as _, BufReader, Write as _};
use std::time::Duration;

use outlive::prelude::*;
use tokio::task::JoinSet;

use crate::harness::child;
use crate::harness::figures::Measured;
use crate::harness::load::{Flood, size, until};
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::harness::usage::Stopwatch;

/// The part that executes in its own process, and keeps writing.
pub(crate) const EXECUTOR: &str = "waiters-executor";
/// Interval between two of its writes.
const PERIOD: Duration = Duration::from_millis(10);
/// The longest observation.
const WATCH_MAX: Duration = Duration::from_secs(10);

async fn parked(ctx: Ctx, _: u64) -> Result<()> {
    ctx.wait::<()>("go").await?;
    Ok(())
}

async fn quick(_: Ctx, _: ()) -> Result<()> {
    Ok(())
}

fn name(id: u64) -> String {
    format!("parked-{id}")
}

/// Executes the runs that others wait for, reports that it is ready, and runs something else every few milliseconds
/// until it is killed.
pub(crate) async fn be_executor(setup: &Setup) -> Result<()> {
    let engine = Engine::open(setup.store()).workflow("parked", parked).workflow("quick", quick).start().await?;
    Flood { n: setup.n, in_flight: 1_000 }.start(|id| engine.start(parked, &id).id(&name(id))).await?;
    until(&engine.client(), Filter::runs(), |counts| counts.of(StatusKind::Waiting) == setup.n).await?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "ready")?;
    stdout.flush()?;
    let mut tick = tokio::time::interval(PERIOD);
    loop {
        tick.tick().await;
        engine.start(quick, &()).await?;
    }
}

/// Returns the share of a core that a client uses with this many waiters.
async fn cpu_percent(client: &Client, waiters: u64, watched: Duration) -> Result<f64> {
    let mut tasks = JoinSet::new();
    for id in 0..waiters {
        let run: Run<()> = client.get_run(&name(id)).await?;
        tasks.spawn(async move { run.result().await });
    }
    tokio::time::sleep(watched / 4).await;
    let watch = Stopwatch::start();
    tokio::time::sleep(watched).await;
    let spent = watch.read();
    if let Some(ended) = tasks.try_join_next() {
        ended??;
        return Err("a run ended without a signal; please report it".into());
    }
    Ok(100.0 * spent.cpu.as_secs_f64() / spent.elapsed.as_secs_f64())
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    let mut executor = child::begin(EXECUTOR, &path, setup)?;
    let mut lines = BufReader::new(executor.stdout.take().ok_or("the child has no stdout")?).lines();
    lines.next().ok_or("the executor ended before its runs waited")??;
    let client = Client::open(&path)?;
    let watched = Duration::from_secs_f64(setup.minutes * 30.0).min(WATCH_MAX);
    let one = cpu_percent(&client, 1, watched).await;
    let all = cpu_percent(&client, setup.n, watched).await;
    // It may have exited by itself, and then the waiters have ended too.
    let _ = executor.kill();
    executor.wait()?;
    let (one, all) = (one?, all?);
    let own = vec![
        ("cpu_percent_one_waiter", rounded(Some(one), 2)),
        ("cpu_percent_all_waiters", rounded(Some(all), 2)),
        ("ratio_to_one_waiter", rounded(Some(all / one), 2)),
    ];
    let durability = client.durability();
    Ok(Measured { durability, bytes: size(&path), runs: setup.n, own, ..Measured::default() })
}
