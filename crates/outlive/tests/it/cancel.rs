//! Cancel and terminate: which operations fail, what still runs, and that a run ends only once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::clock::Clock;
use outlive::prelude::*;
use outlive::store::Store;
use outlive::{CancelOutcome, EntryKind};
use outlive_core::id::Name;
use outlive_core::message::Message;
use outlive_core::store::commit::{self, Write};
use outlive_core::store::memory::MemoryStore;
use outlive_testkit::{Fault, Faults, TestClock, TestEngine};

use crate::support::turn;
use tokio::sync::Semaphore;

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// Holds a step back until a permit is added.
struct Gate(Arc<Semaphore>);
/// Number of bodies that are running.
struct Alive(Arc<AtomicU32>);

/// Counts a body until it is dropped.
struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn behind_the_gate(ctx: &Ctx) -> Result<()> {
    let _alive = Counted::new(&ctx.get::<Alive>().0);
    ctx.get::<Gate>().0.acquire().await?.forget();
    Ok(())
}

/// Does what the input says, and cleans up when cancelled.
async fn tidy(ctx: Ctx, what: String) -> Result<String> {
    match tidy_work(&ctx, &what).await {
        Ok(()) => Ok("done".into()),
        Err(error) if error.is_cancelled() => {
            ctx.step("clean up", || ok(())).await?;
            ctx.step("clean up more", || ok(())).await?;
            Err(error.into())
        }
        Err(error) => Err(error.into()),
    }
}

async fn tidy_work(ctx: &Ctx, what: &str) -> std::result::Result<(), Error> {
    match what {
        "step" => ctx.step("work", || behind_the_gate(ctx)).await,
        "retry" => ctx.step("work", always_fails).retry(Retry::times(9)).await,
        "sleep" => ctx.sleep("1 hour").await,
        "wait" => ctx.wait("n").await,
        "wait with a timeout" => ctx.wait("n").timeout("1 day").await,
        other => unreachable!("{other}"),
    }
}

async fn always_fails() -> Result<()> {
    Err("always".into())
}

struct Bench {
    test: TestEngine,
    gate: Arc<Semaphore>,
    alive: Arc<AtomicU32>,
}

async fn bench() -> Bench {
    bench_on(Arc::new(MemoryStore::new())).await
}

async fn bench_on(store: Arc<dyn Store>) -> Bench {
    let (gate, alive) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let (to_pass, to_count) = (gate.clone(), alive.clone());
    let test = TestEngine::new(move |engine| {
        engine.workflow("tidy", tidy).provide(Gate(to_pass.clone())).provide(Alive(to_count.clone()))
    });
    Bench { test: test.store(store).await, gate, alive }
}

/// Every operation a run can be in when it is cancelled.
const PLACES: [&str; 5] = ["step", "retry", "sleep", "wait", "wait with a timeout"];

async fn assert_cancelled<O: serde::de::DeserializeOwned + std::fmt::Debug>(
    test: &TestEngine,
    run: &Run<O>,
    why: &str,
) {
    match test.result(run).await {
        Err(Error::Cancelled { reason }) => assert_eq!(reason, why),
        other => panic!("{other:?}"),
    }
    let info = test.get_run::<O>(run.id()).await.unwrap().info().await.unwrap();
    assert_eq!((info.status, info.note.as_deref(), info.output), (Status::Cancelled, Some(why), None));
}

#[tokio::test]
async fn cancelled_run_cleans_up_wherever_it_was() {
    for place in PLACES {
        let bench = bench().await;
        let run = bench.test.start(tidy, &place.to_string()).await.unwrap();
        bench.test.settle().await;
        assert_eq!(run.cancel("no more").await.unwrap(), CancelOutcome::Taken, "{place}");
        bench.test.settle().await;
        assert_eq!(run.status().await.unwrap(), Status::Cancelled, "{place}: cancelling takes no time");
        assert_cancelled(&bench.test, &run, "no more").await;
        assert_eq!((bench.test.executions("clean up"), bench.test.executions("clean up more")), (1, 1), "{place}");
    }
}

#[tokio::test]
async fn run_outside_memory_is_cancelled_after_a_crash() {
    for place in PLACES {
        let mut bench = bench().await;
        bench.test.start(tidy, &place.to_string()).id("r").await.unwrap();
        bench.test.settle().await;
        bench.test.crash().await;
        let run: Run<String> = bench.test.get_run("r").await.unwrap();
        run.cancel("no more").await.unwrap();
        bench.test.settle().await;
        assert_cancelled(&bench.test, &run, "no more").await;
        assert_eq!(bench.test.executions("clean up"), 1, "{place}");
    }
}

#[tokio::test]
async fn cancelled_step_is_dropped_before_clean_up_begins() {
    async fn looks(ctx: Ctx, _: ()) -> Result<u32> {
        let stopped = ctx.step("work", || behind_the_gate(&ctx)).await;
        assert!(stopped.is_err_and(|error| error.is_cancelled()));
        let alive = ctx.step("clean up", || ok(ctx.get::<Alive>().0.load(Ordering::SeqCst))).await?;
        Err(format!("{alive} running").into())
    }
    let alive = Arc::new(AtomicU32::new(0));
    let count = alive.clone();
    let test = TestEngine::new(move |engine| {
        engine.workflow("looks", looks).provide(Gate(Arc::new(Semaphore::new(0)))).provide(Alive(count.clone()))
    });
    let test = test.await;
    let run = test.start(looks, &()).await.unwrap();
    test.settle().await;
    assert_eq!(alive.load(Ordering::SeqCst), 1);
    run.cancel("stop").await.unwrap();
    test.settle().await;
    assert_cancelled(&test, &run, "stop").await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    let seen = run.journal().await.unwrap().into_iter().find(|entry| entry.kind == EntryKind::StepDone).unwrap();
    assert_eq!(seen.payload.unwrap().as_str(), "0");
}

#[tokio::test]
async fn run_cancelled_before_its_start_ends_at_once_and_runs_nothing() {
    let bench = bench().await;
    let run = bench.test.start(tidy, &"sleep".to_string()).delay("1 hour").await.unwrap();
    assert_eq!(run.cancel("too early").await.unwrap(), CancelOutcome::Taken);
    bench.test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
    assert_cancelled(&bench.test, &run, "too early").await;
    assert_eq!((bench.test.executions("clean up"), run.journal().await.unwrap().len()), (0, 0));
}

#[tokio::test]
async fn run_signalled_and_cancelled_before_its_start_runs_nothing() {
    let bench = bench().await;
    let run = bench.test.start(tidy, &"wait".to_string()).delay("1 hour").await.unwrap();
    run.signal("n", &()).await.unwrap();
    run.cancel("too early").await.unwrap();
    bench.test.advance("2 hours").await;
    assert_cancelled(&bench.test, &run, "too early").await;
    assert_eq!(bench.test.executions("clean up"), 0);
}

#[tokio::test]
async fn accepted_cancel_overrides_the_result_of_the_workflow() {
    async fn stubborn(ctx: Ctx, _: ()) -> Result<String> {
        let last = ctx.step("last", || behind_the_gate(&ctx)).await;
        Ok(format!("fine anyway: {last:?}"))
    }
    let test = TestEngine::new(|engine| {
        let engine = engine.workflow("stubborn", stubborn);
        engine.provide(Gate(Arc::new(Semaphore::new(0)))).provide(Alive(Arc::default()))
    });
    let test = test.await;
    let run = test.start(stubborn, &()).await.unwrap();
    test.settle().await;
    run.cancel("enough").await.unwrap();
    assert_cancelled(&test, &run, "enough").await;
}

#[tokio::test]
async fn run_cancelled_repeatedly_keeps_the_first_reason() {
    let bench = bench().await;
    let run = bench.test.start(tidy, &"wait".to_string()).await.unwrap();
    bench.test.settle().await;
    let (first, second) = tokio::join!(run.cancel("first"), run.cancel("second"));
    assert_eq!((first.unwrap(), second.unwrap()), (CancelOutcome::Taken, CancelOutcome::Taken));
    assert_cancelled(&bench.test, &run, "first").await;
    assert_eq!(run.cancel("third").await.unwrap(), CancelOutcome::Ended(Status::Cancelled));
    assert_cancelled(&bench.test, &run, "first").await;
    assert_eq!(bench.test.executions("clean up"), 1);
}

#[tokio::test]
async fn second_cancel_does_not_disturb_the_clean_up() {
    async fn slow_to_clean(ctx: Ctx, _: ()) -> Result<()> {
        let waited = ctx.wait::<()>("n").await;
        ctx.step("clean up", || behind_the_gate(&ctx)).await?;
        ctx.step("clean up more", || ok(())).await?;
        Ok(waited?)
    }
    let gate = Arc::new(Semaphore::new(0));
    let to_pass = gate.clone();
    let test = TestEngine::new(move |engine| {
        engine.workflow("slow", slow_to_clean).provide(Gate(to_pass.clone())).provide(Alive(Arc::default()))
    });
    let test = test.await;
    let run = test.start(slow_to_clean, &()).await.unwrap();
    test.settle().await;
    run.cancel("first").await.unwrap();
    test.settle().await;
    assert_eq!(run.cancel("second").await.unwrap(), CancelOutcome::Taken);
    test.settle().await;
    assert_eq!((test.executions("clean up"), test.executions("clean up more")), (1, 0));
    gate.add_permits(1);
    assert_cancelled(&test, &run, "first").await;
    assert_eq!((test.executions("clean up"), test.executions("clean up more")), (1, 1));
}

#[tokio::test]
async fn sleeps_and_waits_after_a_cancel_are_cancelled_too() {
    async fn lingers(ctx: Ctx, _: ()) -> Result<()> {
        let first = ctx.sleep("1 hour").await;
        let second = ctx.sleep("1 hour").await;
        let third = ctx.wait::<()>("n").timeout("1 day").await;
        let all = [first, second, third].map(|given| given.is_err_and(|error| error.is_cancelled()));
        ctx.step("clean up", || ok(all)).await?;
        Ok(())
    }
    let mut test = TestEngine::new(|engine| engine.workflow("lingers", lingers)).await;
    let run = test.start(lingers, &()).await.unwrap();
    test.settle().await;
    run.cancel("now").await.unwrap();
    test.settle().await;
    test.crash().await;
    assert_cancelled(&test, &run, "now").await;
    let run: Run<()> = test.get_run(run.id()).await.unwrap();
    let journal = run.journal().await.unwrap();
    let done = journal.iter().find(|entry| entry.kind == EntryKind::StepDone).unwrap();
    assert_eq!(done.payload.as_ref().unwrap().as_str(), "[true,true,true]");
}

#[tokio::test]
async fn every_branch_of_a_cancelled_run_sees_the_cancel() {
    async fn branches(ctx: Ctx, _: ()) -> Result<()> {
        let cancelled = futures_util::future::join_all((0..5_u32).map(|n| {
            let scope = ctx.scope(n);
            async move {
                let cancelled = match n % 2 {
                    0 => scope.sleep("1 hour").await,
                    _ => scope.wait::<()>("n").await,
                };
                cancelled.is_err_and(|error| error.is_cancelled())
            }
        }));
        let cancelled = cancelled.await;
        ctx.step("clean up", || ok(cancelled.iter().filter(|cancelled| **cancelled).count())).await?;
        Ok(())
    }
    let test = TestEngine::new(|engine| engine.workflow("branches", branches)).await;
    let run = test.start(branches, &()).await.unwrap();
    test.settle().await;
    run.cancel("all of you").await.unwrap();
    assert_cancelled(&test, &run, "all of you").await;
    let journal = run.journal().await.unwrap();
    let done = journal.iter().find(|entry| entry.kind == EntryKind::StepDone).unwrap();
    assert_eq!(done.payload.as_ref().unwrap().as_str(), "5");
}

#[tokio::test]
async fn clean_up_steps_are_retried() {
    async fn retries(ctx: Ctx, _: ()) -> Result<()> {
        let waited = ctx.wait::<()>("n").await;
        ctx.step("clean up", || ok(())).retry(Retry::times(3)).await?;
        Ok(waited?)
    }
    let mut test = TestEngine::new(|engine| engine.workflow("retries", retries)).await;
    let run = test.start(retries, &()).await.unwrap();
    test.settle().await;
    test.fail_next("clean up", "not yet");
    test.fail_next("clean up", "not yet");
    run.cancel("go").await.unwrap();
    test.settle().await;
    test.crash().await;
    assert_cancelled(&test, &run, "go").await;
    assert_eq!(test.executions("clean up"), 3);
}

#[tokio::test]
async fn cancel_and_clean_up_survive_a_crash_at_any_write() {
    for place in PLACES {
        for n in 1..12 {
            for fault in [Fault::CrashBefore, Fault::CrashAfter] {
                let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
                let mut bench = bench_on(faults.clone()).await;
                let run = bench.test.start(tidy, &place.to_string()).id("r").await.unwrap();
                bench.test.settle().await;
                run.cancel("stop").await.unwrap();
                faults.add(fault(faults.writes() + n));
                bench.test.settle().await;
                faults.revive();
                bench.test.crash().await;
                assert_cancelled(&bench.test, &run, "stop").await;
                let run: Run<String> = bench.test.get_run("r").await.unwrap();
                let steps = run.completed_steps().await.unwrap();
                assert_eq!(steps, ["clean up", "clean up more"], "{place}: {:?}", fault(n));
            }
        }
    }
}

#[tokio::test]
async fn cancel_whose_reply_was_lost_can_be_sent_again() {
    for (fault, is_taken) in [(Fault::CrashBefore as fn(u64) -> Fault, false), (Fault::CrashAfter, true)] {
        let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
        let mut bench = bench_on(faults.clone()).await;
        let run = bench.test.start(tidy, &"wait".to_string()).id("r").await.unwrap();
        bench.test.settle().await;
        faults.add(fault(faults.writes() + 1));
        let asked = tokio::spawn(async move { run.cancel("stop").await });
        bench.test.settle().await;
        assert!(faults.is_dead() && !asked.is_finished());
        faults.revive();
        bench.test.crash().await;
        bench.test.settle().await;
        assert!(asked.await.unwrap().is_err(), "a process that is gone cannot reply");
        let run: Run<String> = bench.test.get_run("r").await.unwrap();
        assert_eq!(run.status().await.unwrap() == Status::Cancelled, is_taken);
        let again = if is_taken { CancelOutcome::Ended(Status::Cancelled) } else { CancelOutcome::Taken };
        assert_eq!(run.cancel("stop").await.unwrap(), again);
        assert_cancelled(&bench.test, &run, "stop").await;
    }
}

#[tokio::test]
async fn cancel_after_the_end_returns_the_status_and_changes_nothing() {
    async fn fails(_: Ctx, _: ()) -> Result<()> {
        Err("broken".into())
    }
    async fn completes(_: Ctx, _: ()) -> Result<()> {
        Ok(())
    }
    let test = TestEngine::new(|engine| engine.workflow("fails", fails).workflow("completes", completes)).await;
    let failed = test.start(fails, &()).await.unwrap();
    let completed = test.start(completes, &()).await.unwrap();
    test.settle().await;
    for (run, status) in [(failed, Status::Failed), (completed, Status::Completed)] {
        let (info, journal) = (run.info().await.unwrap(), run.journal().await.unwrap());
        assert_eq!(run.cancel("late").await.unwrap(), CancelOutcome::Ended(status));
        assert_eq!(run.terminate("late").await.unwrap(), CancelOutcome::Ended(status));
        test.settle().await;
        assert_eq!((run.info().await.unwrap(), run.journal().await.unwrap()), (info, journal));
    }
}

// ---- terminate ----

#[tokio::test]
async fn terminated_run_ends_at_once_and_skips_clean_up() {
    for place in PLACES {
        let bench = bench().await;
        let run = bench.test.start(tidy, &place.to_string()).await.unwrap();
        bench.test.settle().await;
        assert_eq!(run.terminate("gone").await.unwrap(), CancelOutcome::Taken, "{place}");
        bench.test.settle().await;
        assert_eq!(run.status().await.unwrap(), Status::Cancelled, "{place}");
        assert_cancelled(&bench.test, &run, "gone").await;
        assert_eq!(bench.test.executions("clean up"), 0, "{place}");
        assert_eq!(bench.alive.load(Ordering::SeqCst), 0, "{place}");
        bench.gate.add_permits(1);
        bench.test.advance("2 days").await;
        assert_cancelled(&bench.test, &run, "gone").await;
    }
}

#[tokio::test]
async fn run_terminated_before_its_start_runs_nothing() {
    let bench = bench().await;
    let run = bench.test.start(tidy, &"step".to_string()).delay("1 hour").await.unwrap();
    run.terminate("never").await.unwrap();
    bench.test.advance("2 hours").await;
    assert_cancelled(&bench.test, &run, "never").await;
    assert_eq!(bench.test.executions("work"), 0);
}

#[tokio::test]
async fn run_outside_memory_is_terminated() {
    for place in PLACES {
        let mut bench = bench().await;
        bench.test.start(tidy, &place.to_string()).id("r").await.unwrap();
        bench.test.settle().await;
        bench.test.crash().await;
        let run: Run<String> = bench.test.get_run("r").await.unwrap();
        run.terminate("gone").await.unwrap();
        bench.test.settle().await;
        assert_cancelled(&bench.test, &run, "gone").await;
        assert_eq!(bench.test.executions("clean up"), 0, "{place}");
    }
}

#[tokio::test]
async fn run_ended_while_no_engine_ran_repeats_no_step() {
    // The process dies in the middle of the step, and the message arrives before the next process starts.
    for (is_cancel, clean_ups) in [(true, 1), (false, 0)] {
        let store = Arc::new(MemoryStore::new());
        let before = bench_on(store.clone()).await;
        before.test.start(tidy, &"step".to_string()).id("r").await.unwrap();
        before.test.settle().await;
        assert_eq!(before.test.executions("work"), 1);
        drop(before);
        let reason = "gone".to_owned();
        let message = if is_cancel { Message::Cancel { reason } } else { Message::Terminate { reason } };
        let id = Name::new("run id", "r").unwrap();
        let send = commit::SendWrite { id, num: None, message, at: TestClock::new().now(), dedup: None, token: 1 };
        store.write(Arc::new(vec![Write::Message(send)])).await.unwrap();
        let after = bench_on(store).await;
        let run: Run<String> = after.test.get_run("r").await.unwrap();
        assert_cancelled(&after.test, &run, "gone").await;
        assert_eq!(after.test.executions("work"), 0);
        assert_eq!(after.test.executions("clean up"), clean_ups);
    }
}

#[tokio::test]
async fn stuck_run_can_be_terminated_or_cancelled() {
    async fn panics(_: Ctx, _: ()) -> Result<()> {
        panic!("on purpose")
    }
    let test = TestEngine::new(|engine| engine.workflow("panics", panics)).await;
    for n in 0..2 {
        let run = test.start(panics, &()).await.unwrap();
        test.settle().await;
        assert_eq!(run.status().await.unwrap(), Status::Stuck);
        let answer = if n == 0 { run.terminate("gone").await } else { run.cancel("gone").await };
        // The outcome of a cancel says that there was no clean-up.
        assert_eq!(answer.unwrap(), if n == 0 { CancelOutcome::Taken } else { CancelOutcome::TakenStuck });
        assert_cancelled(&test, &run, "gone").await;
    }
}

#[tokio::test]
async fn terminate_ends_a_clean_up_that_hangs() {
    async fn never_clean(ctx: Ctx, _: ()) -> Result<()> {
        let waited = ctx.wait::<()>("n").await;
        ctx.step("clean up", || behind_the_gate(&ctx)).await?;
        Ok(waited?)
    }
    let test = TestEngine::new(|engine| {
        let engine = engine.workflow("never", never_clean);
        engine.provide(Gate(Arc::new(Semaphore::new(0)))).provide(Alive(Arc::default()))
    });
    let test = test.await;
    let run = test.start(never_clean, &()).await.unwrap();
    test.settle().await;
    run.cancel("please").await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Running);
    assert_eq!(run.terminate("now").await.unwrap(), CancelOutcome::Taken);
    assert_cancelled(&test, &run, "now").await;
}

// ---- races ----

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

async fn two_steps(ctx: Ctx, n: u32) -> Result<u32> {
    let a = ctx.step("a", || ok(n)).await?;
    Ok(ctx.step("b", || ok(a + 1)).await?)
}

#[tokio::test]
async fn first_of_cancel_and_completion_wins_ten_thousand_times() {
    let test = TestEngine::new(|engine| engine.workflow("two", two_steps)).paranoid(false).await;
    let (mut taken, mut ended) = (0, 0);
    for round in 0..100_u64 {
        let mut racers = Vec::new();
        for n in 0..100_u64 {
            let client = test.client();
            let mut dice = Dice(round * 100 + n);
            racers.push(tokio::spawn(async move {
                let run = client.start(two_steps, &1).await.unwrap();
                for _ in 0..dice.below(16) {
                    turn().await;
                }
                let answer = run.cancel("race").await.unwrap();
                (run, answer)
            }));
        }
        for racer in racers {
            let (run, answer) = racer.await.unwrap();
            let result = run.result().await;
            match answer {
                CancelOutcome::Taken => {
                    taken += 1;
                    assert!(matches!(&result, Err(Error::Cancelled { reason }) if reason == "race"), "{result:?}");
                    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
                }
                CancelOutcome::Ended(status) => {
                    ended += 1;
                    assert_eq!((status, result.unwrap()), (Status::Completed, 2));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(taken > 500 && ended > 500, "{taken} were cancelled, {ended} were not: not a race");
}

#[tokio::test]
async fn run_ends_once_when_cancel_terminate_and_signal_race() {
    async fn waits(ctx: Ctx, _: ()) -> Result<u32> {
        match ctx.wait::<u32>("n").await {
            Ok(n) => Ok(n),
            Err(error) => {
                ctx.step("clean up", || ok(())).await?;
                Err(error.into())
            }
        }
    }
    let test = TestEngine::new(|engine| engine.workflow("waits", waits)).await;
    for seed in 0..500 {
        let run = test.start(waits, &()).await.unwrap();
        let mut dice = Dice(seed);
        let mut racers = Vec::new();
        for what in 0..3 {
            let (run, turns) = (run.clone(), dice.below(12));
            racers.push(tokio::spawn(async move {
                for _ in 0..turns {
                    turn().await;
                }
                match what {
                    0 => run.cancel("cancel").await.unwrap() == CancelOutcome::Taken,
                    1 => run.terminate("terminate").await.unwrap() == CancelOutcome::Taken,
                    _ => run.signal("n", &7).await.is_ok(),
                }
            }));
        }
        let mut taken = Vec::new();
        for racer in racers {
            taken.push(racer.await.unwrap());
        }
        let result = test.result(&run).await;
        match &result {
            Ok(7) => assert!(taken[2] && !taken[0] && !taken[1], "seed {seed}: {taken:?}"),
            Err(Error::Cancelled { reason }) if reason == "cancel" => assert!(taken[0], "seed {seed}: {taken:?}"),
            Err(Error::Cancelled { reason }) if reason == "terminate" => assert!(taken[1], "seed {seed}: {taken:?}"),
            other => panic!("seed {seed}: {other:?} {taken:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn first_of_cancel_and_completion_wins_on_many_threads() {
    let engine = Engine::open("memory:").workflow("two", two_steps).start().await.unwrap();
    for _ in 0..20 {
        let racers: Vec<_> = (0..100)
            .map(|n| {
                let client = engine.client();
                tokio::spawn(async move {
                    let run = client.start(two_steps, &1).await.unwrap();
                    for _ in 0..n % 8 {
                        tokio::task::yield_now().await;
                    }
                    let answer = run.cancel("race").await.unwrap();
                    let ended = tokio::time::timeout(std::time::Duration::from_secs(120), run.result()).await;
                    (answer, ended.expect("the run always ends"))
                })
            })
            .collect();
        for racer in racers {
            match racer.await.unwrap() {
                (CancelOutcome::Taken, Err(Error::Cancelled { reason })) => assert_eq!(reason, "race"),
                (CancelOutcome::Ended(Status::Completed), Ok(2)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
