//! Time: nothing happens before it is due, and everything due happens, however the clock and the process behave.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use outlive::Jitter;
use outlive::clock::Clock;
use outlive::prelude::*;
use outlive_core::store::memory::MemoryStore;
use outlive_testkit::{Fault, Faults, TestClock, TestEngine};

use crate::support::turn;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// Sleeps this many milliseconds, and returns how long that took by the run's own time.
async fn naps(ctx: Ctx, ms: u64) -> Result<u64> {
    let begin = ctx.step("begin", || ok(ctx.now().as_millis())).await?;
    ctx.sleep(ms).await?;
    let end = ctx.step("end", || ok(ctx.now().as_millis())).await?;
    Ok((end - begin).cast_unsigned())
}

async fn test() -> TestEngine {
    TestEngine::new(|engine| engine.workflow("naps", naps)).await
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Moves the clock by this many milliseconds, back or forward, in one step.
async fn step_clock(test: &TestEngine, ms: i64) {
    test.clock().set(Timestamp::from_millis(test.clock().now().as_millis() + ms));
    test.settle().await;
}

async fn is_ended<O>(run: &Run<O>) -> bool {
    run.status().await.unwrap().is_ended()
}

/// A clock whose sleeps each return one millisecond early the first time.
#[derive(Clone)]
struct Early {
    clock: TestClock,
    been: Arc<Mutex<BTreeSet<Timestamp>>>,
}

impl Clock for Early {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep_toward(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let before = Timestamp::from_millis(until.as_millis() - 1);
        Box::pin(async move {
            if self.been.lock().unwrap().contains(&until) {
                return self.clock.sleep_toward(until).await;
            }
            self.clock.sleep_toward(before).await;
            self.been.lock().unwrap().insert(until);
        })
    }
}

fn early() -> Early {
    Early { clock: TestClock::new(), been: Arc::default() }
}

#[tokio::test]
async fn wake_that_fires_a_millisecond_early_sleeps_the_rest() {
    let early = early();
    let clock = early.clone();
    let setup = move |engine: outlive::Builder| engine.workflow("naps", naps).clock(clock.clone());
    // One stays in memory, the other does not.
    for ms in [30_000, HOUR] {
        let test = TestEngine::new(setup.clone()).clock(early.clock.clone()).await;
        let run = test.start(naps, &ms).await.unwrap();
        test.settle().await;
        step_clock(&test, ms.cast_signed() - 1).await;
        assert!(!is_ended(&run).await, "{ms}");
        step_clock(&test, 1).await;
        assert_eq!(run.result().await.unwrap(), ms);
    }
}

#[tokio::test]
async fn restarts_every_minute_do_not_change_how_long_a_sleep_takes() {
    let mut test = test().await;
    test.start(naps, &HOUR).id("r").await.unwrap();
    for minute in 0..60 {
        let run: Run<u64> = test.get_run("r").await.unwrap();
        assert!(!is_ended(&run).await, "after {minute} minutes");
        test.advance("1 minute").await;
        test.crash().await;
    }
    test.settle().await;
    let run: Run<u64> = test.get_run("r").await.unwrap();
    assert_eq!((run.status().await.unwrap(), run.result().await.unwrap()), (Status::Completed, HOUR));
    assert_eq!((test.executions("begin"), test.executions("end")), (1, 1));
}

#[tokio::test]
async fn inspecting_a_run_does_not_change_how_long_a_sleep_takes() {
    let test = test().await;
    let run = test.start(naps, &HOUR).await.unwrap();
    for _ in 0..60 {
        test.advance("59 seconds").await;
        run.info().await.unwrap();
        run.journal().await.unwrap();
        run.pause().await.unwrap();
        run.resume().await.unwrap();
        test.settle().await;
        assert!(!is_ended(&run).await);
    }
    test.advance("59 seconds").await;
    assert!(!is_ended(&run).await);
    test.advance("1 second").await;
    assert_eq!(run.result().await.unwrap(), HOUR);
}

#[tokio::test]
async fn sleep_due_while_the_process_is_down_ends_at_startup() {
    let mut test = test().await;
    test.start(naps, &HOUR).id("r").await.unwrap();
    test.settle().await;
    let clock = test.clock().clone();
    clock.advance(millis(30 * DAY));
    test.crash().await;
    test.settle().await;
    let run: Run<u64> = test.get_run("r").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 30 * DAY);
}

#[tokio::test]
async fn sleep_of_any_length_ends_to_the_millisecond() {
    let lengths =
        [1, 2, 999, 1_000, MINUTE - 1, MINUTE, MINUTE + 1, HOUR, DAY, 25 * DAY, 50 * DAY, 365 * DAY, 36_525 * DAY];
    for ms in lengths {
        let test = test().await;
        let run = test.start(naps, &ms).await.unwrap();
        test.advance(ms - 1).await;
        assert!(!is_ended(&run).await, "{ms} ms ended early");
        test.advance(1).await;
        assert_eq!(run.result().await.unwrap(), ms);
    }
}

#[tokio::test]
async fn concurrent_sleeps_of_all_lengths_end_to_the_millisecond() {
    let test = test().await;
    let mut runs = Vec::new();
    for power in 0..42 {
        let ms = 1_u64 << power;
        runs.push((ms, test.start(naps, &ms).await.unwrap()));
    }
    for (ms, run) in &runs {
        assert_eq!(test.result(run).await.unwrap(), *ms);
    }
}

#[tokio::test]
async fn longest_possible_sleep_neither_ends_nor_gets_in_the_way() {
    async fn for_ever(ctx: Ctx, _: ()) -> Result<()> {
        Ok(ctx.sleep("9223372036854775807 ms").await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("naps", naps).workflow("for ever", for_ever)).await;
    let long = test.start(for_ever, &()).await.unwrap();
    let short = test.start(naps, &HOUR).await.unwrap();
    test.advance(36_525 * DAY).await;
    assert_eq!(short.result().await.unwrap(), HOUR);
    assert!(!is_ended(&long).await);
    long.cancel("enough").await.unwrap();
    test.settle().await;
    assert_eq!(long.status().await.unwrap(), Status::Cancelled);
}

#[tokio::test]
async fn fraction_of_a_millisecond_is_rounded_up() {
    async fn blinks(ctx: Ctx, _: ()) -> Result<()> {
        Ok(ctx.sleep(Duration::from_nanos(1)).await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("blinks", blinks)).await;
    let run = test.start(blinks, &()).await.unwrap();
    test.settle().await;
    assert!(!is_ended(&run).await);
    test.advance(1).await;
    assert!(is_ended(&run).await);
}

#[tokio::test]
async fn sleep_until_a_past_moment_ends_at_once_and_is_recorded() {
    async fn past(ctx: Ctx, _: ()) -> Result<()> {
        ctx.sleep_until(Timestamp::from_millis(0)).await?;
        Ok(ctx.sleep("10 seconds").await?)
    }
    let mut test = TestEngine::new(|engine| engine.workflow("past", past)).await;
    let run = test.start(past, &()).id("r").await.unwrap();
    test.settle().await;
    assert_eq!(run.journal().await.unwrap().len(), 2);
    test.crash().await;
    test.advance("9999 ms").await;
    let run: Run<()> = test.get_run("r").await.unwrap();
    assert!(!is_ended(&run).await);
    test.advance("1 ms").await;
    assert!(is_ended(&run).await);
}

#[tokio::test]
async fn delayed_start_begins_to_the_millisecond() {
    for ms in [1, 59_999, 60_001, HOUR, 30 * DAY] {
        let mut test = test().await;
        let at = test.clock().now().after(millis(ms));
        test.start(naps, &0).id("after").delay(ms).await.unwrap();
        test.start(naps, &0).id("at").at(at).await.unwrap();
        test.crash().await;
        test.advance(ms - 1).await;
        assert_eq!(test.executions("begin"), 0, "{ms}");
        test.advance(1).await;
        assert_eq!(test.executions("end"), 2, "{ms}");
    }
}

// ---- a clock that is set ----

#[tokio::test]
async fn clock_set_back_makes_no_sleep_early_and_loses_none() {
    for ms in [30_000, MINUTE, 2 * HOUR] {
        let test = test().await;
        let begin = test.clock().now();
        let run = test.start(naps, &ms).await.unwrap();
        test.advance(ms / 2).await;
        step_clock(&test, -HOUR.cast_signed()).await;
        let due = begin.after(millis(ms));
        let left = due.since(test.clock().now());
        test.advance(left - millis(1)).await;
        assert!(!is_ended(&run).await, "{ms}");
        test.advance(1).await;
        assert!(is_ended(&run).await, "{ms}");
    }
}

#[tokio::test]
async fn sleep_that_begins_after_the_clock_was_set_back_takes_its_full_time() {
    let mut test = test().await;
    test.advance("10 minutes").await;
    step_clock(&test, -HOUR.cast_signed()).await;
    for (n, ms) in [1, 30_000, 10 * MINUTE, 2 * HOUR].into_iter().enumerate() {
        let id = n.to_string();
        test.start(naps, &ms).id(&id).await.unwrap();
        test.advance(ms - 1).await;
        let run: Run<u64> = test.get_run(&id).await.unwrap();
        assert!(!is_ended(&run).await, "{ms}");
        test.advance(1).await;
        assert!(is_ended(&run).await, "{ms}");
        test.crash().await;
    }
}

#[tokio::test]
async fn clock_set_forward_ends_only_what_is_due() {
    let test = test().await;
    let short = test.start(naps, &(30 * MINUTE)).await.unwrap();
    let long = test.start(naps, &(90 * MINUTE)).await.unwrap();
    test.settle().await;
    step_clock(&test, HOUR.cast_signed()).await;
    assert!(is_ended(&short).await && !is_ended(&long).await);
    step_clock(&test, -HOUR.cast_signed()).await;
    assert!(!is_ended(&long).await);
    test.advance(90 * MINUTE - 1).await;
    assert!(!is_ended(&long).await);
    test.advance(1).await;
    assert!(is_ended(&long).await);
}

#[tokio::test]
async fn workflow_never_sees_time_go_back() {
    async fn looks(ctx: Ctx, _: ()) -> Result<Vec<i64>> {
        let mut seen = vec![ctx.now().as_millis()];
        for _ in 0..5 {
            ctx.wait::<()>("n").await?;
            seen.push(ctx.now().as_millis());
        }
        Ok(seen)
    }
    let mut test = TestEngine::new(|engine| engine.workflow("looks", looks)).await;
    test.start(looks, &()).id("r").await.unwrap();
    for hours in [1, -2, 3, -4, 1] {
        step_clock(&test, hours * HOUR.cast_signed()).await;
        test.crash().await;
        test.get_run::<Vec<i64>>("r").await.unwrap().signal("n", &()).await.unwrap();
        test.settle().await;
    }
    let seen = test.get_run::<Vec<i64>>("r").await.unwrap().result().await.unwrap();
    assert!(seen.is_sorted(), "{seen:?}");
}

#[tokio::test]
async fn message_is_not_delayed_when_the_clock_is_set_back() {
    async fn waits(ctx: Ctx, _: ()) -> Result<u32> {
        Ok(ctx.wait("n").await?)
    }
    let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
    let mut test = TestEngine::new(|engine| engine.workflow("waits", waits)).store(faults.clone()).await;
    let run = test.start(waits, &()).id("r").await.unwrap();
    test.settle().await;
    // The process dies with the signal in the inbox, and the clock is set before the next one starts.
    faults.add(Fault::CrashAfter(faults.writes() + 1));
    let sending = tokio::spawn(async move { run.signal("n", &7).await });
    test.settle().await;
    step_clock(&test, -HOUR.cast_signed()).await;
    faults.revive();
    test.crash().await;
    test.settle().await;
    drop(sending);
    let run: Run<u32> = test.get_run("r").await.unwrap();
    assert_eq!(run.status().await.unwrap(), Status::Completed);
}

// ---- many at once ----

/// The order in which things happened.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<i64>>>);

/// Sleeps until a moment, then adds itself to the order.
async fn lines_up(ctx: Ctx, until: i64) -> Result<()> {
    ctx.sleep_until(Timestamp::from_millis(until)).await?;
    let line_up = || {
        let mut order = ctx.get::<Order>().0.lock().unwrap();
        order.push(until);
        ok(order.len())
    };
    ctx.step("line up", line_up).await?;
    Ok(())
}

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one_of(&mut self, choices: &[u64]) -> u64 {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }
}

#[tokio::test]
async fn a_thousand_wakes_due_at_once_fire_in_due_order() {
    // Due soon enough to be held in memory, and not.
    for delay in [30_000, HOUR] {
        let order = Order::default();
        let provided = order.clone();
        let setup = move |engine: outlive::Builder| engine.workflow("line", lines_up).provide(provided.clone());
        let test = TestEngine::new(setup).paranoid(false).await;
        let first = test.clock().now().as_millis() + delay.cast_signed();
        // Each number below 1009 once, in a shuffled order.
        let starts = (1..1009_i64).map(|n| test.start(lines_up, &(first + n * 11 % 1009)));
        join_all(starts).await.into_iter().for_each(|run| drop(run.unwrap()));
        test.settle().await;
        step_clock(&test, 2 * HOUR.cast_signed()).await;
        let order = order.0.lock().unwrap();
        assert_eq!(order.len(), 1008);
        assert!(order.is_sorted(), "delay {delay}: {order:?}");
    }
}

#[tokio::test]
async fn twenty_thousand_sleeping_runs_stay_within_max_resident_and_all_end() {
    async fn sleeps(ctx: Ctx, ms: u64) -> Result<()> {
        Ok(ctx.sleep(ms).await?)
    }
    const COUNT: u64 = 20_000;
    let test = TestEngine::new(|engine| engine.workflow("sleeps", sleeps).max_resident(100)).paranoid(false).await;
    let mut max_resident = 0;
    let mut watch = async |test: &TestEngine, kind: StatusKind| {
        for n in 0.. {
            turn().await;
            max_resident = max_resident.max(test.resident());
            if n % 256 == 0 && test.count(Filter::runs()).await.unwrap().of(kind) == COUNT {
                break;
            }
            assert!(n < 10_000_000, "no progress: {:?}", test.count(Filter::runs()).await);
        }
    };
    // A third is due within the minute for which wakes are held in memory.
    let starts = (0..COUNT).map(|n| test.start(sleeps, &(30_000 + n % 3 * HOUR)));
    join_all(starts).await.into_iter().for_each(|run| drop(run.unwrap()));
    watch(&test, StatusKind::Sleeping).await;
    test.clock().advance(millis(3 * HOUR));
    watch(&test, StatusKind::Completed).await;
    assert!((1..=100).contains(&max_resident), "{max_resident} at once");
    test.settle().await;
    assert_eq!(test.resident(), 0);
}

#[tokio::test]
async fn runs_outside_memory_cost_no_write_until_they_are_due() {
    let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
    let setup = |engine: outlive::Builder| engine.workflow("naps", naps).max_resident(10);
    let test = TestEngine::new(setup).store(faults.clone()).await;
    for _ in 0..50 {
        test.start(naps, &DAY).await.unwrap();
    }
    test.advance("1 hour").await;
    let before = faults.writes();
    test.advance("22 hours").await;
    assert_eq!((faults.writes() - before, test.resident()), (0, 0));
    test.advance("1 hour").await;
    assert_eq!(test.count(Filter::runs()).await.unwrap().of(StatusKind::Completed), 50);
}

// ---- any schedule ----

/// Runs timers of these lengths in milliseconds one after another, and returns how long each really took.
async fn timers(ctx: Ctx, plan: Vec<(u64, u64)>) -> Result<Vec<i64>> {
    let clock = ctx.get::<TestClock>();
    let mut took = Vec::new();
    for (kind, ms) in plan {
        let begin = ctx.step("begin", || ok(clock.now().as_millis())).await?;
        match kind {
            0 => ctx.sleep(ms).await?,
            1 => ctx.sleep_until(Timestamp::from_millis(begin).after(millis(ms))).await?,
            2 => assert!(ctx.wait::<()>("never").timeout(ms).await.unwrap_err().is_timeout()),
            _ => {
                let policy = Retry::times(1).constant(ms).jitter(Jitter::none());
                ctx.step("flaky", |attempt: Attempt| flaky(attempt)).retry(policy).await?;
            }
        }
        took.push(ctx.step("end", || ok(clock.now().as_millis())).await? - begin);
    }
    Ok(took)
}

async fn flaky(attempt: Attempt) -> Result<()> {
    if attempt.is_retry { Ok(()) } else { Err("the first time".into()) }
}

const LENGTHS: [u64; 10] = [1, 10, 1_000, MINUTE - 1, MINUTE, MINUTE + 1, 5 * MINUTE, HOUR, DAY, 40 * DAY];

/// Runs random timers under a clock that moves at random and a process that dies at random.
async fn try_schedule(seed: u64, mut test: TestEngine) {
    let mut dice = Dice(seed);
    let mut plans = Vec::new();
    for n in 0..5 {
        let plan: Vec<_> = (0..=dice.below(4)).map(|_| (dice.below(4), dice.one_of(&LENGTHS))).collect();
        test.start(timers, &plan).id(&n.to_string()).await.unwrap();
        plans.push(plan);
        test.settle().await;
        test.clock().advance(millis(dice.one_of(&LENGTHS[..7])));
    }
    for _ in 0..40 {
        match dice.below(4) {
            0 => test.crash().await,
            _ => test.clock().advance(millis(dice.one_of(&LENGTHS[..9]))),
        }
        test.settle().await;
    }
    for (n, plan) in plans.iter().enumerate() {
        let run: Run<Vec<i64>> = test.get_run(&n.to_string()).await.unwrap();
        let took = test.result(&run).await.unwrap_or_else(|error| panic!("seed {seed}, run {n}: {error}"));
        for ((kind, ms), took) in plan.iter().zip(&took) {
            assert!(took.cast_unsigned() >= *ms, "seed {seed}, run {n}, kind {kind}: {took} of {ms} ms");
        }
        assert_eq!(took.len(), plan.len(), "seed {seed}, run {n}");
    }
}

#[tokio::test]
async fn no_timer_is_early_or_lost_under_any_schedule() {
    for seed in 0..150 {
        let clock = TestClock::new();
        let provided = clock.clone();
        let setup = move |engine: outlive::Builder| engine.workflow("timers", timers).provide(provided.clone());
        try_schedule(seed, TestEngine::new(setup).clock(clock).await).await;
    }
}

#[tokio::test]
async fn no_timer_is_early_or_lost_on_a_clock_that_wakes_too_early() {
    for seed in 0..50 {
        let early = early();
        let clock = early.clock.clone();
        let setup = move |engine: outlive::Builder| {
            engine.workflow("timers", timers).provide(early.clock.clone()).clock(early.clone()).max_resident(2)
        };
        try_schedule(seed, TestEngine::new(setup).clock(clock).await).await;
    }
}

#[tokio::test]
async fn every_timer_is_on_time_when_the_clock_stops_at_each() {
    for seed in 1_000..1_050 {
        let clock = TestClock::new();
        let provided = clock.clone();
        let setup = move |engine: outlive::Builder| engine.workflow("timers", timers).provide(provided.clone());
        let test = TestEngine::new(setup).clock(clock).await;
        let mut dice = Dice(seed);
        let plan: Vec<_> = (0..6).map(|_| (dice.below(4), dice.one_of(&LENGTHS))).collect();
        let run = test.start(timers, &plan).await.unwrap();
        let took = test.result(&run).await.unwrap();
        let planned: Vec<_> = plan.iter().map(|(_, ms)| ms.cast_signed()).collect();
        assert_eq!(took, planned, "seed {seed}");
    }
}

// ---- overdue ----

/// Runs several timers at once and returns the order in which they end.
async fn overdue(ctx: Ctx, _: ()) -> Result<Vec<String>> {
    let order = Mutex::new(Vec::new());
    let note = |what: &str| order.lock().unwrap().push(what.to_owned());
    let sleep = async |hours: u64| {
        ctx.sleep(hours * HOUR).key(hours).await?;
        note(&format!("sleep {hours}"));
        Ok::<_, Error>(())
    };
    let wait = async {
        let waited = ctx.wait::<u32>("never").timeout("90 minutes").await;
        note(if waited.is_err_and(|error| error.is_timeout()) { "wait" } else { "signal" });
        Ok(())
    };
    let step = async {
        let hang = std::future::pending::<Result<()>>;
        let ended = ctx.step("hang", hang).timeout("150 minutes").await;
        note(if ended.is_err_and(|error| error.is_timeout()) { "step" } else { "done" });
        Ok(())
    };
    let retried = async {
        let policy = Retry::times(1).constant("30 minutes").jitter(Jitter::none());
        let fail = |attempt: Attempt| async move { if attempt.is_retry { ok(()).await } else { Err("no".into()) } };
        ctx.step("retried", fail).retry(policy).await?;
        note("retry");
        Ok(())
    };
    tokio::try_join!(sleep(3), sleep(1), wait, step, sleep(2), retried)?;
    Ok(order.into_inner().unwrap())
}

/// Overdue timers ended in the order in which the code created them: a sleep of 3 hours beat a timeout of 1.
#[tokio::test]
async fn timers_overdue_after_downtime_end_in_due_order() {
    let wanted = ["sleep 1", "wait", "sleep 2", "step", "sleep 3"];
    for hours_away in [0, 1, 2, 10] {
        let mut test = TestEngine::new(|engine| engine.workflow("overdue", overdue)).await;
        test.start(overdue, &()).id("r").await.unwrap();
        test.settle().await;
        test.clock().set(Timestamp::from_millis(test.clock().now().as_millis() + i64::from(hours_away) * HOUR as i64));
        test.crash().await;
        let run: Run<Vec<String>> = test.get_run("r").await.unwrap();
        let order = test.result(&run).await.unwrap();
        let timed: Vec<_> = order.iter().filter(|what| *what != "retry").collect();
        assert_eq!(timed, wanted, "after {hours_away} hours");
    }
}

// ---- wake-ups of a body that is not polled ----

async fn late(attempt: u32, gate: Arc<tokio::sync::Notify>) -> Result<u32> {
    if attempt == 1 {
        gate.notified().await;
        std::future::pending::<()>().await;
    }
    tokio::task::yield_now().await;
    Ok(attempt)
}

async fn carries_a_step(ctx: Ctx, (): ()) -> Result<u32> {
    use futures_util::StreamExt;
    let gate = ctx.get::<Arc<tokio::sync::Notify>>().clone();
    let step = ctx.step("late", move |attempt: Attempt| late(attempt.number, gate.clone()));
    let mut set = futures_util::stream::FuturesUnordered::new();
    let retry = Retry::times(1).constant("49 seconds").jitter(Jitter::none());
    set.push(step.timeout("10 seconds").retry(retry));
    tokio::select! {
        biased;
        ended = set.next() => return Ok(ended.unwrap()?),
        other = ctx.step("other", || ok(())) => other?,
    }
    // Nothing polls the set meanwhile, although the body of its step is woken.
    ctx.sleep("1 minute").await?;
    Ok(set.next().await.unwrap()?)
}

/// A wake-up that came while nothing polled the step was kept past its timeout. The first wake-up of the next attempt
/// then counted as already known, and its body was never polled again.
#[tokio::test]
async fn wake_up_of_a_timed_out_attempt_does_not_hide_the_next_one() {
    let gate = Arc::new(tokio::sync::Notify::new());
    let given = gate.clone();
    let test = TestEngine::new(move |engine| engine.workflow("carries", carries_a_step).provide(given.clone())).await;
    let run = test.start(carries_a_step, &()).await.unwrap();
    test.settle().await;
    gate.notify_one();
    test.advance("2 minutes").await;
    assert_eq!(run.result().await.unwrap(), 2);
}
