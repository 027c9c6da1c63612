//! Simulates jobs of every kind in worlds full of faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlive::job::{
    Continuous, ContinuousBuilder, ContinuousCtx, Debounce, DebounceCtx, Task, TaskCtx, WorkerPool, WorkerPoolCtx,
};
use outlive::prelude::*;
use outlive_testkit::proof::jobs;
use outlive_testkit::simulate::{End, Sim, simulate, try_simulate};

const ORDERS: Task<u32, Vec<u32>> = Task::new("orders");
const LEDGER: Task<u32, Vec<u32>> = Task::new("ledger");
const MAIL: WorkerPool<u32> = WorkerPool::new("mail");
const HOOKS: Debounce<u32, Vec<u32>> = Debounce::new("hooks");
const BEAT: Continuous<Vec<Beat>> = Continuous::new("beat");

async fn keep(ctx: TaskCtx<u32, Vec<u32>>, n: u32) -> Result<()> {
    ctx.update_state(|all| all.push(n));
    Ok(())
}

async fn nothing(_: TaskCtx<u32, Vec<u32>>) -> Result<()> {
    Ok(())
}

/// Returns everything sent to the ledger, sorted.
fn ledger(end: &End) -> Vec<u32> {
    let job = end.jobs.get("task:ledger:all");
    sorted(job.and_then(outlive_testkit::simulate::EndedJob::state).unwrap_or_default())
}

fn sorted(mut all: Vec<u32>) -> Vec<u32> {
    all.sort_unstable();
    all
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: T, should: T) -> Result<(), String> {
    if is == should { Ok(()) } else { Err(format!("{what} has {is:?} instead of {should:?}")) }
}

/// Takes a while, so that other things happen meanwhile: a move of the world takes a millisecond of runtime time.
async fn linger(n: u32) {
    tokio::time::sleep(Duration::from_millis(u64::from(n % 7))).await;
}

// ---- tasks ----

async fn handle(ctx: TaskCtx<u32, Vec<u32>>, n: u32) -> Result<()> {
    ctx.update_state(|all| all.push(n));
    ctx.send(LEDGER, "all", &n)?;
    ctx.schedule_in("1 minute")?;
    // A failed call has no effect, even if it fails at the very end.
    if n.is_multiple_of(3) && ctx.attempt() < 3 { Err("not yet".into()) } else { Ok(()) }
}

async fn remind(ctx: TaskCtx<u32, Vec<u32>>) -> Result<()> {
    ctx.update_state(|all| all.push(100));
    Ok(())
}

/// What broke: a task was claimed again while it was in memory. It believed it was released, and slept until a restart.
const CLAIMED_IN_MEMORY: u64 = 16_515;

#[test]
fn each_task_event_counts_once_and_in_order_under_faults() {
    simulate((0..400).chain([CLAIMED_IN_MEMORY]), |sim| {
        sim.engine(|engine| {
            let orders = ORDERS.on_event(handle).retry(Retry::times(5).constant("1 second")).execute(remind);
            engine.job(orders).job(LEDGER.on_event(keep).execute(nothing))
        });
        let orders = 1 + sim.below(2) as u32;
        for order in 0..orders {
            for n in 1..=4 {
                sim.send("task:orders", &order.to_string(), &(10 * order + n));
            }
        }
        sim.check(move |end| {
            for order in 0..orders {
                let state: Vec<u32> = end.jobs[&format!("task:orders:{order}")].state().unwrap_or_default();
                let events: Vec<u32> = state.iter().copied().filter(|n| *n != 100).collect();
                same("the order", events, (1..=4).map(|n| 10 * order + n).collect())?;
                same("the order at last", state.last(), Some(&100))?;
            }
            let wanted = (0..orders).flat_map(|order| (1..=4).map(move |n| 10 * order + n)).collect();
            same("the ledger", ledger(end), wanted)
        });
    });
}

// ---- pools ----

/// The events 7, 17, 27 and so on never succeed; every third succeeds on its third attempt.
async fn deliver(ctx: WorkerPoolCtx<u32>, n: u32) -> Result<()> {
    linger(n).await;
    ctx.send(LEDGER, "all", &n)?;
    match n {
        n if n % 10 == 7 => Err("never".into()),
        n if n.is_multiple_of(3) && ctx.attempt() < 3 => Err("not yet".into()),
        _ => Ok(()),
    }
}

fn mail(sim: &mut Sim) {
    let handlers = 1 + sim.below(3) as usize;
    sim.engine(move |engine| {
        let mail = MAIL.concurrency(handlers).retry(Retry::times(3).constant("20 seconds"));
        engine.job(mail.execute(deliver)).job(LEDGER.on_event(keep).execute(nothing))
    });
    for n in 0..2 + sim.below(8) as u32 {
        match sim.below(6) {
            0 => drop(sim.push("pool:mail", &n)),
            1 => drop(sim.push_many("pool:mail", [&n, &(n + 20), &(n + 40)])),
            2 => drop(sim.push("pool:mail", &n).priority(n as i32 - 3)),
            3 => drop(sim.push("pool:mail", &n).delay("1 minute")),
            4 => drop(sim.push("pool:mail", &n).lane(if n % 2 == 0 { "even" } else { "odd" })),
            _ => drop(sim.push("pool:mail", &n).dedup_key("one")),
        }
        if sim.below(8) == 0 {
            sim.pause("pool:mail");
            sim.resume("pool:mail");
        }
        if sim.below(8) == 0 {
            sim.retry_dead("pool:mail", "main");
        }
    }
}

#[test]
fn each_pool_event_is_recorded_once_or_dead_under_faults() {
    let report = simulate(0..400, |sim| {
        mail(sim);
        sim.check(|end| {
            let mail = &end.jobs["pool:mail:main"];
            let good = mail.accepted().into_iter().filter(|n: &u32| n % 10 != 7).collect();
            same("the ledger", ledger(end), sorted(good))?;
            let bad: Vec<u32> = mail.accepted().into_iter().filter(|n: &u32| n % 10 == 7).collect();
            same("the dead", sorted(mail.dead()), sorted(bad))?;
            same("an attempt", mail.dead_letters.iter().find(|dead| dead.attempts != 4).map(|dead| dead.attempts), None)
        });
    });
    assert!(report.crashes > 200 && report.takeovers > 100 && report.events > 1_000, "{report}");
}

/// What broke: pausing a pool never returned, because the pool was claimed again while it was being loaded.
const CLAIMED_TWICE: u64 = 573;

#[test]
fn paused_pool_keeps_its_events_under_faults() {
    simulate((0..100).chain([CLAIMED_TWICE]), |sim| {
        mail(sim);
        sim.pause("pool:mail");
        sim.push_many("pool:mail", [&51, &52]);
        sim.check(|end| {
            let mail = &end.jobs["pool:mail:main"];
            let mut left: Vec<u32> = mail.accepted();
            for n in ledger(end) {
                let place = left.iter().position(|other| *other == n);
                left.remove(place.ok_or_else(|| format!("{n} was delivered more often than pushed"))?);
            }
            same("it", mail.record.as_ref().map(|record| record.is_stopped), Some(true))
        });
    });
}

// ---- debounces ----

async fn collect(ctx: DebounceCtx<u32, Vec<u32>>, n: u32) -> Result<()> {
    linger(n).await;
    ctx.update_state(|all| all.push(n));
    if n % 5 == 4 && !ctx.is_retry() { Err("not yet".into()) } else { Ok(()) }
}

/// A batch with a 7 never succeeds, one with a 3 succeeds on its third attempt.
async fn flush(ctx: DebounceCtx<u32, Vec<u32>>) -> Result<()> {
    let batch = ctx.state().unwrap_or_default();
    linger(batch.len() as u32).await;
    batch.iter().try_for_each(|n| ctx.send(LEDGER, "all", n))?;
    match ctx.attempt() {
        _ if ctx.event_count() != batch.len() as u64 => Err(format!("{} events, {batch:?}", ctx.event_count()).into()),
        _ if batch.contains(&7) => Err("never".into()),
        1 | 2 if batch.contains(&3) => Err("not yet".into()),
        _ => Ok(()),
    }
}

fn hooks(sim: &mut Sim) {
    let (is_quiet, max) = (sim.below(2) == 0, 2 + sim.below(4));
    if sim.below(2) == 0 {
        // Early flushes are easiest to see if clocks agree.
        sim.skew(Duration::ZERO);
    }
    sim.engine(move |engine| {
        let hooks = match is_quiet {
            true => HOOKS.quiet("10 seconds").max_wait("1 minute"),
            false => HOOKS.flush_after("30 seconds"),
        };
        let hooks = hooks.max_events(max).retry(Retry::times(3).constant("20 seconds"));
        engine.job(hooks.on_event(collect).execute(flush)).job(LEDGER.on_event(keep).execute(nothing))
    });
    for n in 0..2 + sim.below(8) as u32 {
        match sim.below(3) {
            0 => sim.add_once("debounce:hooks", "shop", &n, "one"),
            _ => sim.add("debounce:hooks", "shop", &n),
        }
        match sim.below(12) {
            0 | 1 => sim.flush("debounce:hooks", "shop"),
            2 => sim.clear("debounce:hooks", "shop"),
            3 => sim.retry_dead("debounce:hooks", "shop"),
            _ => {}
        }
    }
}

#[test]
fn each_debounced_event_is_in_one_batch_under_faults() {
    simulate(0..400, |sim| {
        hooks(sim);
        sim.check(|end| {
            let hooks = &end.jobs["debounce:hooks:shop"];
            let mut left: Vec<u32> = hooks.accepted();
            let dead: Vec<u32> = hooks.dead::<Vec<u32>>().concat();
            // Events in no batch were cleared. Their number is checked in any case.
            for n in ledger(end).into_iter().chain(dead) {
                let place = left.iter().position(|other| *other == n);
                left.remove(place.ok_or_else(|| format!("{n} was flushed more often than added"))?);
            }
            let is_cleared = hooks.lifecycle.contains(&"debounce cleared");
            same("what was lost", left.is_empty() || is_cleared, true)?;
            same(
                "an attempt",
                hooks.dead_letters.iter().find(|dead| dead.attempts != 4).map(|dead| dead.attempts),
                None,
            )
        });
    });
}

// ---- continuous jobs ----

/// One run.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
struct Beat {
    run: u64,
    /// In milliseconds.
    scheduled: i64,
    started: i64,
    is_retry: bool,
}

/// Tracks whether a run is in progress in one process, and whether two ever were.
#[derive(Default)]
struct Busy {
    is_busy: AtomicBool,
    has_overlapped: Arc<AtomicBool>,
}

struct Resting<'a>(&'a AtomicBool);

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Busy {
    fn enter(&self) -> Resting<'_> {
        self.has_overlapped.fetch_or(self.is_busy.swap(true, Ordering::Relaxed), Ordering::Relaxed);
        Resting(&self.is_busy)
    }
}

/// Adds a recurring job to a world. It must not overlap with itself in any process.
fn beats(sim: &mut Sim, job: impl Fn() -> ContinuousBuilder<Vec<Beat>> + Send + Sync + 'static) {
    let overlapped = Arc::new(AtomicBool::new(false));
    let shared = overlapped.clone();
    sim.engine(move |engine| {
        let busy = Busy { has_overlapped: shared.clone(), ..Busy::default() };
        engine.job(job().retry(Retry::times(2).constant("10 seconds")).execute(beat)).provide(busy)
    });
    sim.check(move |_| same("whether it overlaps with itself", overlapped.load(Ordering::Relaxed), false));
}

/// Every third run fails once, every fifth permanently.
async fn beat(ctx: ContinuousCtx<Vec<Beat>>) -> Result<()> {
    let _resting = ctx.get::<Busy>().enter();
    let run = ctx.run_count() - 1;
    linger(run as u32).await;
    ctx.update_state(|all| {
        let scheduled = ctx.scheduled_at().map_or(0, Timestamp::as_millis);
        all.push(Beat { run, scheduled, started: ctx.started_at().as_millis(), is_retry: ctx.is_retry() });
    });
    match run % 15 {
        0 | 5 | 10 => Err("never".into()),
        3 | 6 | 9 | 12 if !ctx.is_retry() => Err("not yet".into()),
        _ => Ok(()),
    }
}

#[test]
fn recurring_job_keeps_its_schedule_under_faults() {
    const EVERY: i64 = 30_000;
    simulate(0..400, |sim| {
        beats(sim, || BEAT.every("30 seconds"));
        sim.start_job("continuous:beat", "paris", &Vec::<Beat>::new());
        sim.check(|end| {
            let beats: Vec<Beat> = end.jobs["continuous:beat:paris"].state().unwrap_or_default();
            for pair in beats.windows(2) {
                let apart = pair[1].scheduled - pair[0].scheduled;
                if apart <= 0 || apart % EVERY != 0 || pair[1].run <= pair[0].run {
                    return Err(format!("runs that do not follow: {pair:?}"));
                }
            }
            // A run may be late: a tick in progress when its process died runs again before missed ticks are caught up.
            let early = |beat: &&Beat| beat.started < beat.scheduled;
            same("a run that was early", beats.iter().find(early), None)
        });
    });
}

#[test]
fn recurring_job_follows_the_last_command_under_faults() {
    simulate(0..400, |sim| {
        let schedule = sim.below(3);
        beats(sim, move || match schedule {
            0 => BEAT.every("1 minute"),
            1 => BEAT.pause_between("1 minute"),
            _ => BEAT.cron("*/5 * * * *"),
        });
        sim.start_job("continuous:beat", "paris", &Vec::<Beat>::new());
        for _ in 0..sim.below(6) {
            match sim.below(6) {
                0 | 1 => sim.stop("continuous:beat", "paris"),
                2 => sim.terminate("continuous:beat", "paris", "enough"),
                3 => sim.start_job("continuous:beat", "paris", &Vec::<Beat>::new()),
                _ => sim.trigger("continuous:beat", "paris"),
            }
        }
    });
}

// ---- all kinds together ----

/// What broke: resuming a pool never returned, because the pool was waiting for its turn to be watched after a crash.
const RESUMED_IN_TURN: u64 = 1_097_016;

#[test]
fn random_jobs_of_all_kinds_behave_correctly_in_every_world() {
    let report = simulate((0..400).chain([RESUMED_IN_TURN]), jobs);
    assert!(report.crashes > 200 && report.takeovers > 100 && report.events > 1_000, "{report}");
}

#[test]
fn same_seed_gives_the_same_jobs() {
    let look = |sim: &mut Sim| {
        jobs(sim);
        sim.check(|_| Err("a look at it".to_owned()));
    };
    for seed in 0..30 {
        let [one, other] = [(); 2].map(|()| try_simulate([seed], look).unwrap_err());
        assert!(one.is_repeatable && !one.trace.is_empty());
        assert_eq!(one.trace, other.trace, "seed {seed}");
    }
}

// ---- plans ----

#[test]
fn invalid_act_is_refused() {
    let refused = |describe: fn(&mut Sim)| try_simulate([3], describe).unwrap_err().what;
    assert_eq!(
        refused(|sim| {
            sim.push("task:mail", &1);
        }),
        r#""task:mail" does not support this; pass a job name such as `pool:name`"#
    );
    assert_eq!(
        refused(|sim| sim.stop("continuous:beat", "paris")),
        r#""continuous:beat:paris" does not exist yet; start it or send it an event first"#
    );
}
