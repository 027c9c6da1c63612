//! Random jobs of every kind, whose final state is known from what was accepted.

use std::time::Duration;

use outlive::job::{Continuous, ContinuousCtx, Debounce, DebounceCtx, Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::{BoxError, Builder, Jitter, Retry};
use serde::{Deserialize, Serialize};

use crate::simulate::{End, EndedJob, Sim};

const POOL: WorkerPool<Errand> = WorkerPool::new("errands");
const BATCH: Debounce<Errand, Vec<Errand>> = Debounce::new("errands");
const TASK: Task<Errand, Vec<u32>> = Task::new("errands");
const BEAT: Continuous<u64> = Continuous::new("errands");
const LEDGER: Task<u32, Vec<u32>> = Task::new("ledger");

/// How often a failure is retried.
const RETRIES: u32 = 2;
/// Errands from this number on belong to the recurring job.
const BEATS: u32 = 1_000;

/// An event that says how handling it goes.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Errand {
    n: u32,
    /// Number of attempts that fail.
    fails: u32,
    /// How many moves of the world it takes.
    moves: u64,
}

impl Errand {
    fn is_done(&self) -> bool {
        self.fails <= RETRIES
    }

    /// Takes its time, and fails the chosen number of attempts.
    async fn run(self, attempt: u32) -> Result<(), BoxError> {
        linger(self.moves).await;
        if attempt <= self.fails { Err(format!("errand {} fails", self.n).into()) } else { Ok(()) }
    }
}

/// Waits for some moves; a move takes one millisecond of runtime time.
async fn linger(moves: u64) {
    if moves > 0 {
        tokio::time::sleep(Duration::from_millis(moves)).await;
    }
}

async fn handle_pushed(ctx: WorkerPoolCtx<Errand>, errand: Errand) -> Result<(), BoxError> {
    ctx.send(LEDGER, "all", &errand.n)?;
    errand.run(ctx.attempt()).await
}

async fn handle_sent(ctx: TaskCtx<Errand, Vec<u32>>, errand: Errand) -> Result<(), BoxError> {
    ctx.update_state(|all| all.push(errand.n));
    ctx.send(LEDGER, "all", &errand.n)?;
    errand.run(ctx.attempt()).await
}

async fn collect(ctx: DebounceCtx<Errand, Vec<Errand>>, errand: Errand) -> Result<(), BoxError> {
    ctx.update_state(|all| all.push(errand));
    linger(errand.moves).await;
    Ok(())
}

async fn flush(ctx: DebounceCtx<Errand, Vec<Errand>>) -> Result<(), BoxError> {
    for errand in ctx.state().unwrap_or_default() {
        ctx.send(LEDGER, "all", &errand.n)?;
        errand.run(ctx.attempt()).await?;
    }
    Ok(())
}

/// Every run gives the pool an errand.
async fn beat(ctx: ContinuousCtx<u64>) -> Result<(), BoxError> {
    let run = ctx.run_count() - 1;
    ctx.update_state(|runs| *runs += 1);
    let n = BEATS + u32::try_from(run).unwrap_or(0);
    let fails = if run.is_multiple_of(3) { u32::try_from(run % 4).unwrap_or(0) } else { 0 };
    ctx.push(POOL, &Errand { n, fails: 0, moves: 0 })?;
    Errand { n, fails, moves: run % 2 }.run(ctx.attempt()).await
}

async fn keep(ctx: TaskCtx<u32, Vec<u32>>, n: u32) -> Result<(), BoxError> {
    ctx.update_state(|all| all.push(n));
    Ok(())
}

async fn nothing<S>(_: S) -> Result<(), BoxError> {
    Ok(())
}

/// Describes a world of random jobs of every kind. Each accepted errand must be done once or given up, and the same
/// goes for whatever it sends on.
///
/// ```
/// use outlive_testkit::{proof::jobs, simulate};
/// simulate(0..50, jobs);
/// ```
pub fn jobs(sim: &mut Sim) {
    let (handlers, max_events, schedule) = (1 + sim.below(3), 2 + sim.below(4), sim.below(3));
    sim.engine(move |engine| register(engine, handlers, max_events, schedule));
    let with = 1 + sim.below(15);
    for n in 0..2 + sim.below(5) {
        let moves = if sim.below(2) == 0 { 0 } else { sim.below(6) };
        let fails = if sim.below(3) == 0 { 1 + sim.below(3) } else { 0 };
        let errand = Errand { n: u32::try_from(n).unwrap_or(0), fails: u32::try_from(fails).unwrap_or(0), moves };
        for kind in (0..4).filter(|kind| with & (1 << kind) != 0) {
            match kind {
                0 => push(sim, errand),
                1 => add(sim, Errand { n: errand.n + 100, ..errand }),
                2 => sim.send("task:errands", "a", &Errand { n: errand.n + 200, ..errand }),
                _ => recur(sim, n == 0),
            }
        }
    }
    let workers = 1 + sim.below(3);
    sim.workers(usize::try_from(workers).unwrap_or(1));
    sim.check(check);
}

fn register(engine: Builder, handlers: u64, max_events: u64, schedule: u64) -> Builder {
    let retry = || Retry::times(RETRIES).constant("20 seconds").jitter(Jitter::none());
    let handlers = usize::try_from(handlers).unwrap_or(1);
    let batch = BATCH.quiet("10 seconds").max_wait("1 minute").max_events(max_events).retry(retry());
    let recurring = match schedule {
        0 => BEAT.every("1 minute"),
        1 => BEAT.pause_between("1 minute"),
        _ => BEAT.cron("*/2 * * * *"),
    };
    engine
        .job(POOL.concurrency(handlers).retry(retry()).execute(handle_pushed))
        .job(batch.on_event(collect).execute(flush))
        .job(TASK.on_event(handle_sent).retry(retry()).execute(nothing))
        .job(recurring.retry(retry()).execute(beat))
        .job(LEDGER.on_event(keep).execute(nothing))
}

fn push(sim: &mut Sim, errand: Errand) {
    let (how, priority) = (sim.below(5), i32::try_from(sim.below(5)).unwrap_or(0));
    let pushing = match how {
        0 => sim.push_many("pool:errands", [&errand, &errand]),
        _ => sim.push("pool:errands", &errand),
    };
    match how {
        1 => drop(pushing.priority(priority)),
        2 => drop(pushing.delay("1 minute")),
        3 => drop(pushing.dedup_key("one")),
        _ => drop(pushing.lane(if priority > 2 { "x" } else { "y" })),
    }
    match sim.below(10) {
        0 => {
            sim.pause("pool:errands");
            sim.resume("pool:errands");
        }
        1 => sim.retry_dead("pool:errands", "main"),
        _ => {}
    }
}

fn add(sim: &mut Sim, errand: Errand) {
    match sim.below(3) {
        0 => sim.add_once("debounce:errands", "a", &errand, "one"),
        _ => sim.add("debounce:errands", "a", &errand),
    }
    match sim.below(12) {
        0 | 1 => sim.flush("debounce:errands", "a"),
        2 => sim.clear("debounce:errands", "a"),
        3 => sim.retry_dead("debounce:errands", "a"),
        4 => sim.terminate("debounce:errands", "a", "enough"),
        _ => {}
    }
}

fn recur(sim: &mut Sim, is_first: bool) {
    match sim.below(8) {
        _ if is_first => sim.start_job("continuous:errands", "a", &0),
        0 => sim.stop("continuous:errands", "a"),
        1 => sim.terminate("continuous:errands", "a", "enough"),
        2 | 3 => sim.start_job("continuous:errands", "a", &0),
        4 => sim.trigger("continuous:errands", "a"),
        _ => {}
    }
}

/// Checks that exactly what was done was sent on, once.
fn check(end: &End) -> Result<(), String> {
    let of = |id: &str| end.jobs.get(id);
    let accepted = |id: &str| of(id).map(EndedJob::accepted::<Errand>).unwrap_or_default();
    let mut wanted: Vec<u32> = ["pool:errands:main", "task:errands:a"]
        .into_iter()
        .flat_map(accepted)
        .filter(Errand::is_done)
        .map(|errand| errand.n)
        .collect();
    let mut is: Vec<u32> = of("task:ledger:all").and_then(EndedJob::state).unwrap_or_default();
    is.sort_unstable();
    // Some of what was added may be cleared.
    let (in_batches, is): (Vec<u32>, Vec<u32>) = is.into_iter().partition(|n| (100..200).contains(n));
    wanted.sort_unstable();
    if is != wanted {
        return Err(format!("the ledger has {is:?} instead of {wanted:?}"));
    }
    check_batches(of("debounce:errands:a"), in_batches)?;
    check_beats(of("continuous:errands:a"), &is)
}

fn check_batches(batches: Option<&EndedJob>, flushed: Vec<u32>) -> Result<(), String> {
    let Some(batches) = batches else { return Ok(()) };
    let mut left: Vec<u32> = batches.accepted().iter().map(|errand: &Errand| errand.n).collect();
    let dead = batches.dead::<Vec<Errand>>().concat().into_iter().map(|errand| errand.n);
    for n in flushed.into_iter().chain(dead) {
        let place = left.iter().position(|other| *other == n);
        left.remove(place.ok_or_else(|| format!("errand {n} left in more batches than it was added to"))?);
    }
    let is_dropped = batches.lifecycle.iter().any(|kind| ["debounce cleared", "job terminated"].contains(kind));
    if left.is_empty() || is_dropped { Ok(()) } else { Err(format!("errands {left:?} left in no batch")) }
}

fn check_beats(beats: Option<&EndedJob>, sent: &[u32]) -> Result<(), String> {
    let Some(beats) = beats else { return Ok(()) };
    let runs = |news: &[&str]| news.iter().filter(|news| **news == "job executed").count();
    let (all, sent) = (runs(&beats.lifecycle), sent.iter().filter(|n| **n >= BEATS).count());
    if all != sent {
        return Err(format!("a recurring job ran {all} times, but the pool got {sent} errands"));
    }
    let since = beats.lifecycle.iter().rposition(|news| *news == "job terminated").map_or(0, |place| place + 1);
    let (runs, state) = (runs(&beats.lifecycle[since..]), beats.state::<usize>());
    if state.is_none_or(|state| state == runs) {
        Ok(())
    } else {
        Err(format!("a recurring job ran {runs} times, but its state is {state:?}"))
    }
}
