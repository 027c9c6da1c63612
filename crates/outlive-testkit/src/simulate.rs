//! Deterministic simulation: seeded worlds in which everything that can go wrong does.

mod accepted;
mod acts;
mod end;
mod ended_job;
mod gate;
mod job_plan;
mod kept;
mod ledger;
mod lives;
mod moves;
mod orders;
mod plan;
mod skew;
mod world;

use std::fmt;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub use end::{End, EndedRun};
pub use ended_job::EndedJob;
pub use job_plan::Pushing;
pub use ledger::Effect;
pub use plan::Sim;

use crate::words::last_lines;

use world::{Counts, World};

/// Totals over all worlds.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive_testkit::simulate;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// let report = simulate(0..50, |sim| {
///     sim.engine(|engine| engine.workflow("double", double));
///     sim.start("double", "a", &21);
/// });
/// assert_eq!((report.worlds, report.runs), (50, 50));
/// println!("{report}");
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Number of worlds.
    pub worlds: u64,
    /// Number of runs in all worlds.
    pub runs: u64,
    /// Number of moves the worlds took.
    pub moves: u64,
    /// Number of worker crashes.
    pub crashes: u64,
    /// Number of times a worker took the lease of one that was alive.
    pub takeovers: u64,
    /// Number of store replies that were lost or refused.
    pub lost_answers: u64,
    /// Number of step bodies that began.
    pub effects: u64,
    /// Number of job events that were accepted.
    pub events: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worlds, runs, moves, crashes, takeovers, lost_answers, effects, events } = self;
        write!(
            f,
            "{worlds} worlds, {runs} runs, {moves} moves, {crashes} crashes, {takeovers} takeovers, \
             {lost_answers} lost replies, {effects} step executions, {events} events"
        )
    }
}

/// A world in which a check failed.
///
/// ```
/// # use outlive::prelude::*;
/// use outlive_testkit::simulate::try_simulate;
/// async fn wrong(_: Ctx, n: u32) -> Result<u32> { Ok(n + 1) }
/// let broken = try_simulate(0..5, |sim| {
///     sim.engine(|engine| engine.workflow("double", wrong));
///     sim.start("double", "a", &21);
///     sim.check(|end| if end.runs["a"].output() == Some(42) { Ok(()) } else { Err("not 42".into()) });
/// });
/// let broken = broken.unwrap_err();
/// assert_eq!(broken.what, "not 42");
/// println!("{broken}"); // the last events, and how to reproduce it
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The seed that reproduces it.
    pub seed: u64,
    /// A description of the failure.
    pub what: String,
    /// The trace up to the failure, one line for each thing that happened.
    pub trace: Vec<String>,
    /// Whether running the same seed again failed again.
    pub is_repeatable: bool,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&last_lines(self.trace.iter().map(String::as_str)))?;
        writeln!(f, "seed {}: {}", self.seed, self.what)?;
        if self.is_repeatable {
            write!(f, "reproduce with: simulate([{}], ..)", self.seed)
        } else {
            write!(
                f,
                "the same seed passed when run again: something depends on real chance; \
                 write `biased;` in each `tokio::select!`, and take time and randomness from `ctx`"
            )
        }
    }
}

impl std::error::Error for Broken {}

/// Runs a simulated world for each seed: several workers on one store, in virtual time. Workers crash before and after
/// commits, lose replies, are cut off and come back after another has taken their lease, have wrong clocks, and learn
/// late, twice or never about what others wrote. Signals arrive late and repeated, cancels at any moment, and step
/// bodies begin in any order. Then the faults stop.
///
/// Every world is checked against these rules, with no setup on your part:
///
/// - every run ends, and whatever was acknowledged is in effect;
/// - no recorded step runs again, and no attempt begins twice in one process;
/// - nothing happens early, and a replay of each journal gives the same result;
/// - each accepted job event is done once, leaves in one batch, or becomes a dead letter after the number of attempts
///   that its lifecycle events report; attempts are numbered 1, 2, 3;
/// - no two events of a pool wait with the same dedup key;
/// - the counts of a job instance agree with its lifecycle events, which have no gap;
/// - the last action on a job that can be stopped is in effect;
/// - in the end nothing waits, and whatever recurs has run again and has its next run.
///
/// A world ends when nothing is due. If jobs recur or keep scheduling their own next turn, it ends once each of them
/// has kept going after the last fault. Use [`Sim::check`] to add your own rules.
///
/// Worlds are spread over all cores. No runtime is needed around it.
///
/// ```
/// use outlive::prelude::*;
/// use outlive_testkit::simulate;
///
/// async fn checkout(ctx: Ctx, price: u32) -> Result<u32> {
///     ctx.step("reserve", || async { Ok::<_, BoxError>(()) }).await?;
///     let approved: bool = ctx.wait("approval").timeout("1 day").await?;
///     ctx.step("charge", || async { if approved { Ok(price) } else { Err("not approved") } }).await.map_err(Into::into)
/// }
///
/// simulate(0..200, |sim| {
///     sim.engine(|engine| engine.workflow("checkout", checkout));
///     sim.start("checkout", "order-1", &42);
///     sim.signal("order-1", "approval", &true);
///     sim.check(|end| {
///         // One idempotency key for all charges, however often the worker crashed.
///         let keys: std::collections::BTreeSet<_> =
///             end.effects.iter().filter(|effect| effect.step == "charge").map(|effect| &effect.idempotency_key).collect();
///         if keys.len() <= 1 { Ok(()) } else { Err(format!("{} charges", keys.len())) }
///     });
/// });
/// ```
///
/// # Panics
/// If a check fails, with the seed and the last 200 lines of what happened in its world; [`try_simulate`] returns all
/// of them.
pub fn simulate(seeds: impl IntoIterator<Item = u64>, describe: impl Fn(&mut Sim) + Sync) -> Report {
    try_simulate(seeds, describe).unwrap_or_else(|broken| panic!("{broken}"))
}

/// Like [`simulate`], but returns the failure instead of panicking.
///
/// ```
/// # use outlive_testkit::simulate::try_simulate;
/// assert_eq!(try_simulate(0..3, |_| {}).unwrap().worlds, 3);
/// ```
///
/// # Errors
/// The first world in which a check failed.
pub fn try_simulate(
    seeds: impl IntoIterator<Item = u64>,
    describe: impl Fn(&mut Sim) + Sync,
) -> Result<Report, Box<Broken>> {
    simulate_with(seeds, describe, |_| {})
}

/// Like [`try_simulate`], and reports the number of finished worlds as it proceeds.
///
/// ```
/// # use outlive_testkit::simulate::simulate_with;
/// # use std::sync::atomic::{AtomicU64, Ordering};
/// let done = AtomicU64::new(0);
/// simulate_with(0..300, |_| {}, |worlds| { done.fetch_add(worlds, Ordering::Relaxed); }).unwrap();
/// assert_eq!(done.into_inner(), 300);
/// ```
///
/// # Errors
/// The first world in which a check failed.
pub fn simulate_with(
    seeds: impl IntoIterator<Item = u64>,
    describe: impl Fn(&mut Sim) + Sync,
    progress: impl Fn(u64) + Sync,
) -> Result<Report, Box<Broken>> {
    let seeds: Vec<u64> = seeds.into_iter().collect();
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Report::default()));
    let broken: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let work = || loop {
        let from = next.fetch_add(CHUNK, Ordering::Relaxed);
        let chunk = seeds.iter().skip(from).take(CHUNK);
        let is_over = broken.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if from >= seeds.len() || is_over {
            return;
        }
        let (mut report, mut done) = (Report::default(), 0);
        for seed in chunk {
            done += 1;
            match live(*seed, &describe, false).0 {
                Ok(counts) => report.add(counts),
                Err(what) => {
                    broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((*seed, what));
                    break;
                }
            }
        }
        all.lock().unwrap_or_else(PoisonError::into_inner).join(report);
        progress(done);
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get).min(seeds.len().div_ceil(CHUNK)).max(1);
    std::thread::scope(|scope| {
        (1..cores).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    match broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner)),
        Some((seed, what)) => Err(Box::new(see_again(seed, what, &describe))),
    }
}

/// Number of worlds a thread takes at once.
const CHUNK: usize = 64;

/// Runs the same world again, this time tracing each move.
fn see_again(seed: u64, what: String, describe: &(impl Fn(&mut Sim) + Sync)) -> Broken {
    let (again, trace) = live(seed, describe, true);
    let is_repeatable = again.is_err();
    Broken { seed, what, trace, is_repeatable }
}

fn live(seed: u64, describe: &(impl Fn(&mut Sim) + Sync), is_traced: bool) -> (Result<Counts, String>, Vec<String>) {
    let mut plan = Sim::new(seed);
    describe(&mut plan);
    if let Some(problem) = &plan.problem {
        return (Err(problem.clone()), Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return (Err(format!("failed to create a tokio runtime: {error}")), Vec::new()),
    };
    let mut world = World::new(&plan, is_traced);
    let lived = catch_unwind(AssertUnwindSafe(|| runtime.block_on(world.run())));
    let result = lived.unwrap_or_else(|panic| Err(format!("panicked: {}", words(&*panic))));
    (result, world.trace())
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("with no message")
}

impl Report {
    fn add(&mut self, counts: Counts) {
        let Counts { moves, crashes, takeovers, lost_answers, effects, runs, events } = counts;
        self.join(Self { worlds: 1, runs, moves, crashes, takeovers, lost_answers, effects, events });
    }

    fn join(&mut self, other: Self) {
        self.worlds += other.worlds;
        self.runs += other.runs;
        self.moves += other.moves;
        self.crashes += other.crashes;
        self.takeovers += other.takeovers;
        self.lost_answers += other.lost_answers;
        self.effects += other.effects;
        self.events += other.events;
    }
}
