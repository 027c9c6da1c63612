//! Continuous jobs: ticks, retries before them, triggers, stops and missed ticks.

use std::sync::Arc;
use std::time::Duration;

use outlive::clock::Clock;
use outlive::job::{Continuous, ContinuousBuilder, ContinuousCtx, JobStatus, Missed};
use outlive::prelude::*;
use outlive_core::id::Name;
use outlive_core::lifecycle::LifecycleRecordKind;
use outlive_core::message::Message;
use outlive_core::store::commit::{self, Write};
use outlive_core::store::memory::MemoryStore;
use outlive_testkit::{Fault, Faults, TestClock, TestEngine};

use crate::jobs_kit::{Book, contents, failures, others, perform, reported};

const BEAT: Continuous<u64> = Continuous::new("beat");

async fn act(ctx: &ContinuousCtx<u64>, script: &str) -> Result<()> {
    perform!(ctx, script,
        "add" => |n: &str| ctx.update_state(|sum| *sum += n.parse::<u64>().unwrap()),
        "terminate" => |reason: &str| ctx.terminate(reason),
    );
    Ok(())
}

/// Notes the run, its attempt, and two times in minutes since the start of the instance: due and now.
async fn beat(ctx: ContinuousCtx<u64>) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    let minutes = |at: Timestamp| at.since(ctx.created_at()).as_secs() as f64 / 60.0;
    let due = ctx.scheduled_at().map_or_else(|| "trigger".to_owned(), |due| minutes(due).to_string());
    book.note(format!("{}#{} for {due} at {}", ctx.run_count(), ctx.attempt(), minutes(ctx.started_at())));
    act(&ctx, &book.script("execute")).await?;
    ctx.update_state(|sum| *sum += 1);
    Ok(())
}

async fn on_error(ctx: ContinuousCtx<u64>, failure: outlive::Failure) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    book.note(format!("error {failure}"));
    act(&ctx, &book.script("error")).await
}

fn minutes(times: u32, delay: &str) -> Retry {
    Retry::times(times).constant(delay).jitter(outlive::Jitter::none())
}

async fn engine(job: impl Fn() -> ContinuousBuilder<u64> + Send + Sync + 'static) -> (TestEngine, Book) {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| others(engine).job(job().execute(beat)).provide(given.clone())).await;
    (test, book)
}

async fn start(test: &TestEngine) {
    assert!(test.job(BEAT).start("a", &0).await.unwrap().created);
    test.settle().await;
}

async fn state(test: &TestEngine) -> Option<u64> {
    test.job(BEAT).state("a").await.unwrap()
}

async fn assert_gone(test: &TestEngine) {
    assert_eq!((state(test).await, test.store().wakes(Timestamp::MAX, 9).await.unwrap()), (None, vec![]));
    assert_eq!(test.job(BEAT).status("a").await.unwrap().status, JobStatus::NotFound);
    assert!(!contents(test.store()).await.lines().any(|line| line.starts_with("Instance")));
}

#[tokio::test]
async fn runs_begin_at_a_fixed_rate_and_are_counted() {
    let (test, book) = engine(|| BEAT.every("10 minutes")).await;
    start(&test).await;
    test.advance("25 minutes").await;
    assert_eq!(book.take(), ["1#1 for 0 at 0", "2#1 for 10 at 10", "3#1 for 20 at 20"]);
    let info = test.job(BEAT).status("a").await.unwrap();
    assert_eq!((info.status, info.run_count, state(&test).await), (JobStatus::Running, 3, Some(3)));
    assert_eq!(info.next_run, Some(test.store().wakes(Timestamp::MAX, 9).await.unwrap()[0].due));
}

#[tokio::test]
async fn first_run_waits_for_its_tick_unless_started_immediately() {
    let (test, book) = engine(|| BEAT.every("10 minutes").start_immediately(false)).await;
    start(&test).await;
    assert!(book.take().is_empty());
    assert_eq!(state(&test).await, Some(0), "the state is there before the first run");
    test.advance("10 minutes").await;
    assert_eq!(book.take(), ["1#1 for 10 at 10"]);
}

#[tokio::test]
async fn pause_between_runs_counts_from_the_end_of_a_run() {
    let (test, book) = engine(|| BEAT.pause_between("10 minutes")).await;
    book.plan("execute", ["block"]);
    start(&test).await;
    test.advance("7 minutes").await;
    book.gate.add_permits(1);
    test.advance("10 minutes").await;
    assert_eq!(book.take(), ["1#1 for 0 at 0", "2#1 for 17 at 17"]);
}

#[tokio::test]
async fn runs_do_not_overlap_and_ticks_missed_meanwhile_are_one_run() {
    let (test, book) = engine(|| BEAT.every("10 minutes")).await;
    book.plan("execute", ["block"]);
    start(&test).await;
    test.advance("35 minutes").await;
    assert_eq!(book.take().len(), 1, "the first run is still running");
    book.gate.add_permits(1);
    test.advance("10 minutes").await;
    assert_eq!(book.take(), ["2#1 for 30 at 35", "3#1 for 40 at 40"]);
}

#[tokio::test]
async fn cron_without_a_zone_uses_utc() {
    let clock = TestClock::new();
    // 2026-03-29 is the day on which Paris moves its clocks.
    clock.set(Timestamp::from_millis(1_774_742_400_000));
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| engine.job(BEAT.cron("0 9 * * *").execute(beat)).provide(given.clone()))
        .clock(clock.clone())
        .await;
    test.job(BEAT).start("a", &0).await.unwrap();
    test.settle().await;
    assert!(book.take().is_empty(), "a calendar job does not run at its start");
    let first = test.job(BEAT).status("a").await.unwrap().next_run.unwrap().as_millis();
    assert_eq!(first.rem_euclid(86_400_000), 9 * 3_600_000);
    for _ in 0..3 {
        test.advance("1 day").await;
        let next = test.job(BEAT).status("a").await.unwrap().next_run.unwrap().as_millis();
        assert_eq!(next.rem_euclid(86_400_000), 9 * 3_600_000, "even across a clock change elsewhere");
    }
    assert_eq!(book.take().len(), 3);
}

#[tokio::test]
async fn cron_with_a_zone_follows_its_clock_changes() {
    let clock = TestClock::new();
    clock.set(Timestamp::from_millis(1_774_656_000_000)); // 2026-03-28
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        engine.job(BEAT.cron("0 9 * * *").zone("Europe/Paris").execute(beat)).provide(given.clone())
    })
    .clock(clock.clone())
    .await;
    test.job(BEAT).start("a", &0).await.unwrap();
    test.settle().await;
    let mut hours = Vec::new();
    for _ in 0..3 {
        let next = test.job(BEAT).status("a").await.unwrap().next_run.unwrap();
        hours.push(next.as_millis().rem_euclid(86_400_000) / 3_600_000);
        test.advance("1 day").await;
    }
    assert_eq!(hours, [8, 7, 7]);
}

// ---- failures ----

#[tokio::test]
async fn failed_tick_never_ends_the_schedule() {
    let (test, book) = engine(|| BEAT.every("10 minutes")).await;
    book.plan("execute", ["", "fail no", "panic no", ""]);
    start(&test).await;
    test.advance("30 minutes").await;
    assert_eq!(book.take(), ["1#1 for 0 at 0", "2#1 for 10 at 10", "3#1 for 20 at 20", "4#1 for 30 at 30"]);
    assert_eq!(state(&test).await, Some(2));
    assert_eq!(failures(&test, "continuous:beat:a").await.len(), 2);
}

#[tokio::test]
async fn retries_come_first_and_ticks_due_meanwhile_are_one_run_after_them() {
    let (test, book) = engine(|| BEAT.every("10 minutes").retry(minutes(5, "14 minutes"))).await;
    book.plan("execute", ["fail no", "fail no", ""]);
    start(&test).await;
    test.advance("31 minutes").await;
    assert_eq!(
        book.take(),
        ["1#1 for 0 at 0", "1#2 for 0 at 14", "1#3 for 0 at 28", "2#1 for 20 at 28", "3#1 for 30 at 30"],
        "the ticks 10 and 20 are one run"
    );
    let executed: Vec<(u32, Option<u64>)> = reported(test.store(), "continuous:beat:a")
        .await
        .into_iter()
        .filter(|(kind, ..)| *kind == LifecycleRecordKind::JobExecuted)
        .map(|(_, attempt, detail)| (attempt, detail.run))
        .collect();
    assert_eq!(executed, [(3, Some(1)), (1, Some(2)), (1, Some(3))]);
}

#[tokio::test]
async fn exhausted_retries_call_on_error_once_and_the_schedule_continues() {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        let notes = given.clone();
        let job = BEAT.every("10 minutes").retry(minutes(1, "1 minute")).on_error(on_error);
        let job = job.on_exhausted(move |info| {
            notes.note(format!(
                "exhausted {} {}:{} {} after {}: {} ({}s)",
                info.kind,
                info.name,
                info.instance,
                info.handler.as_str(),
                info.attempts,
                info.last,
                info.total.as_secs()
            ));
        });
        others(engine).job(job.execute(beat)).provide(given.clone())
    })
    .await;
    book.plan("execute", ["fail one", "fail two"]);
    book.plan("error", ["add 100"]);
    start(&test).await;
    test.advance("10 minutes").await;
    let mut notes = book.take();
    let exhausted = notes.iter().position(|note| note.starts_with("exhausted")).map(|place| notes.remove(place));
    assert_eq!(exhausted.unwrap(), "exhausted continuous beat:a execute after 2: two (60s)");
    assert_eq!(notes, ["1#1 for 0 at 0", "1#2 for 0 at 1", "error two", "2#1 for 10 at 10"]);
    assert_eq!(
        failures(&test, "continuous:beat:a").await,
        ["failed 1: one", "failed 2: two", "exhausted 2 by max attempts: two"]
    );
    assert_eq!(state(&test).await, Some(101));
}

#[tokio::test]
async fn error_that_retry_if_declines_is_not_retried() {
    let (test, book) = engine(|| {
        BEAT.every("10 minutes")
            .retry(minutes(5, "1 minute"))
            .retry_if(|error: &BoxError| error.to_string() != "forget it")
    })
    .await;
    book.plan("execute", ["fail forget it", "fail no", ""]);
    start(&test).await;
    test.advance("15 minutes").await;
    assert_eq!(book.take(), ["1#1 for 0 at 0", "2#1 for 10 at 10", "2#2 for 10 at 11"]);
}

#[tokio::test]
async fn terminate_from_a_run_or_from_on_error_leaves_nothing() {
    for ending in ["", "; fail after all", "; panic after all"] {
        for handler in ["execute", "error"] {
            let (test, book) =
                engine(|| BEAT.every("10 minutes").retry(minutes(1, "1 minute")).on_error(on_error)).await;
            let script = format!("add 5; terminate enough{ending}");
            if handler == "error" {
                book.plan("execute", ["fail no", "fail no"]);
            }
            book.plan(handler, [script.as_str()]);
            start(&test).await;
            test.advance("5 minutes").await;
            assert_gone(&test).await;
            book.take();
            test.advance("1 day").await;
            assert!(book.take().is_empty(), "{handler}{ending}");
            start(&test).await;
            assert_eq!(state(&test).await, Some(1), "the job can be started again");
        }
    }
}

#[tokio::test]
async fn terminate_by_a_client_during_retries_leaves_nothing() {
    let (test, book) = engine(|| BEAT.every("1 day").retry(minutes(5, "1 hour"))).await;
    book.plan("execute", ["fail no"]);
    start(&test).await;
    test.job(BEAT).terminate("a", "enough").await.unwrap();
    assert_gone(&test).await;
}

// ---- triggers and stops ----

#[tokio::test]
async fn trigger_is_an_extra_run_and_does_not_change_the_schedule() {
    let (test, book) = engine(|| BEAT.every("10 minutes")).await;
    start(&test).await;
    test.advance("3 minutes").await;
    let due = test.job(BEAT).status("a").await.unwrap().next_run;
    test.job(BEAT).trigger("a").await.unwrap();
    test.settle().await;
    assert_eq!(book.take(), ["1#1 for 0 at 0", "2#1 for trigger at 3"]);
    assert_eq!(test.job(BEAT).status("a").await.unwrap().next_run, due);
    test.advance("7 minutes").await;
    assert_eq!(book.take(), ["3#1 for 10 at 10"]);
}

#[tokio::test]
async fn tick_due_during_a_triggered_run_runs_after_it() {
    let (test, book) = engine(|| BEAT.every("10 minutes")).await;
    start(&test).await;
    test.advance("9 minutes").await;
    book.plan("execute", ["block"]);
    test.job(BEAT).trigger("a").await.unwrap();
    test.advance("3 minutes").await;
    book.gate.add_permits(1);
    test.advance("8 minutes").await;
    assert_eq!(book.take(), ["1#1 for 0 at 0", "2#1 for trigger at 9", "3#1 for 10 at 12", "4#1 for 20 at 20"]);
}

#[tokio::test]
async fn failed_triggered_run_is_retried_and_leaves_the_schedule_alone() {
    let (test, book) = engine(|| BEAT.every("10 minutes").retry(minutes(2, "4 minutes"))).await;
    start(&test).await;
    test.advance("3 minutes").await;
    book.plan("execute", ["fail no", "fail no", "fail no"]);
    test.job(BEAT).trigger("a").await.unwrap();
    test.advance("17 minutes").await;
    assert_eq!(
        book.take(),
        [
            "1#1 for 0 at 0",
            "2#1 for trigger at 3",
            "2#2 for trigger at 7",
            "2#3 for trigger at 11",
            "3#1 for 10 at 11",
            "4#1 for 20 at 20"
        ]
    );
}

#[tokio::test]
async fn stopped_job_keeps_its_state_until_it_is_started_again() {
    let (mut test, book) = engine(|| BEAT.every("10 minutes")).await;
    start(&test).await;
    test.job(BEAT).stop("a").await.unwrap();
    assert_eq!(test.job(BEAT).status("a").await.unwrap().status, JobStatus::Stopped);
    test.advance("1 hour").await;
    test.crash().await;
    test.advance("1 hour").await;
    assert_eq!((book.take().len(), state(&test).await), (1, Some(1)));
    assert!(test.store().wakes(Timestamp::MAX, 9).await.unwrap().is_empty());
    let started = test.job(BEAT).start("a", &500).await.unwrap();
    assert!(!started.created);
    test.advance("10 minutes").await;
    assert_eq!(book.take(), ["2#1 for 120 at 120", "3#1 for 130 at 130"]);
    assert_eq!(state(&test).await, Some(3));
}

#[tokio::test]
async fn stop_during_retries_is_immediate_and_nothing_is_retried() {
    for is_triggered in [false, true] {
        let (test, book) = engine(|| BEAT.every("1 day").retry(minutes(5, "1 hour"))).await;
        book.plan("execute", if is_triggered { ["", "fail no"] } else { ["fail no", ""] });
        start(&test).await;
        if is_triggered {
            test.job(BEAT).trigger("a").await.unwrap();
            test.settle().await;
        }
        book.take();
        test.job(BEAT).stop("a").await.unwrap();
        assert_eq!(test.job(BEAT).status("a").await.unwrap().status, JobStatus::Stopped, "{is_triggered}");
        test.advance("2 days").await;
        assert!(book.take().is_empty(), "{is_triggered}");
        assert_eq!(test.job(BEAT).status("a").await.unwrap().status, JobStatus::Stopped, "{is_triggered}");
    }
}

/// A stopped job that was running because of a trigger was mistaken for a started one, and stayed stopped.
#[tokio::test]
async fn stopped_job_that_is_triggered_and_started_continues() {
    let (test, book) = engine(|| BEAT.every("1 day").retry(minutes(1, "1 hour"))).await;
    start(&test).await;
    test.job(BEAT).stop("a").await.unwrap();
    book.plan("execute", ["fail no"]);
    test.job(BEAT).trigger("a").await.unwrap();
    test.settle().await;
    test.job(BEAT).start("a", &0).await.unwrap();
    test.advance("2 days").await;
    assert_eq!(test.job(BEAT).status("a").await.unwrap().status, JobStatus::Running);
    assert_eq!(state(&test).await, Some(5));
}

#[tokio::test]
async fn starting_a_running_job_changes_nothing() {
    let (test, book) = engine(|| BEAT.every("10 minutes")).await;
    start(&test).await;
    test.advance("3 minutes").await;
    for other in [0, 77] {
        assert!(!test.job(BEAT).start("a", &other).await.unwrap().created);
    }
    test.advance("7 minutes").await;
    assert_eq!(book.take(), ["1#1 for 0 at 0", "2#1 for 10 at 10"]);
    assert_eq!(state(&test).await, Some(2));
}

// ---- downtime ----

#[tokio::test]
async fn missed_policy_decides_about_ticks_missed_while_down() {
    let table: [(Missed, &[&str]); 3] = [
        (Missed::CatchUpOne, &["2#1 for 40 at 45", "3#1 for 50 at 50"]),
        (Missed::Skip, &["2#1 for 50 at 50"]),
        (Missed::All(3), &["2#1 for 20 at 45", "3#1 for 30 at 45", "4#1 for 40 at 45", "5#1 for 50 at 50"]),
    ];
    for (missed, expected) in table {
        let (mut test, book) = engine(move || BEAT.every("10 minutes").missed(missed)).await;
        start(&test).await;
        book.take();
        let clock = test.clock().clone();
        // Time passes while the process is down.
        test.deploy(|engine| engine).await;
        clock.set(clock.now().after(std::time::Duration::from_secs(45 * 60)));
        let given = book.clone();
        test.deploy(move |engine| {
            others(engine).job(BEAT.every("10 minutes").missed(missed).execute(beat)).provide(given.clone())
        })
        .await;
        test.advance("5 minutes").await;
        assert_eq!(book.take(), expected, "{missed:?}");
    }
}

#[tokio::test]
async fn restarts_every_minute_do_not_lengthen_an_hour_of_waiting() {
    let (mut test, book) = engine(|| BEAT.every("1 hour")).await;
    start(&test).await;
    for _ in 0..59 {
        test.advance("1 minute").await;
        test.crash().await;
        test.settle().await;
    }
    assert_eq!(book.take(), ["1#1 for 0 at 0"]);
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["2#1 for 60 at 60"]);
}

#[tokio::test]
async fn restarts_during_a_backoff_neither_lengthen_it_nor_use_attempts() {
    let (mut test, book) = engine(|| BEAT.every("1 day").retry(minutes(2, "1 hour"))).await;
    book.plan("execute", ["fail no"]);
    start(&test).await;
    for _ in 0..59 {
        test.advance("1 minute").await;
        test.crash().await;
        test.settle().await;
    }
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["1#1 for 0 at 0", "1#2 for 0 at 60"]);
}

#[tokio::test]
async fn crash_during_a_run_repeats_it_and_counts_it_once() {
    let (mut test, book) = engine(|| BEAT.every("10 minutes")).await;
    book.plan("execute", ["block"]);
    start(&test).await;
    test.crash().await;
    test.settle().await;
    assert_eq!(book.take(), ["1#1 for 0 at 0", "1#1 for 0 at 0"]);
    let info = test.job(BEAT).status("a").await.unwrap();
    assert_eq!((info.run_count, state(&test).await), (1, Some(1)));
    test.advance("10 minutes").await;
    assert_eq!(book.take(), ["2#1 for 10 at 10"], "the schedule continues");
}

// ---- runs under way and triggers pending when the process died ----

/// Notes the key of each run.
async fn keyed(ctx: ContinuousCtx<u64>) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    let due = ctx
        .scheduled_at()
        .map_or_else(|| "trigger".to_owned(), |due| due.since(ctx.created_at()).as_millis().to_string());
    book.note(format!("{due} {}", ctx.idempotency_key()));
    act(&ctx, &book.script("execute")).await
}

fn with_keys(engine: outlive::Builder, every: u64, missed: Missed, book: &Book) -> outlive::Builder {
    others(engine).job(BEAT.every(every).missed(missed).execute(keyed)).provide(book.clone())
}

/// Kills the process, and lets time pass before the next one.
async fn down(test: &mut TestEngine, ms: u64, every: u64, missed: Missed, book: &Book) {
    let (clock, given) = (test.clock().clone(), book.clone());
    let is_up = std::sync::atomic::AtomicBool::new(false);
    test.deploy(move |engine| {
        if !is_up.swap(true, std::sync::atomic::Ordering::SeqCst) {
            clock.advance(std::time::Duration::from_millis(ms));
        }
        with_keys(engine, every, missed, &given)
    })
    .await;
    test.settle().await;
}

/// A run that the process died in was dropped if a later tick was due by then, and its idempotency key went to that
/// tick: a receiver that deduplicates swallowed the later run.
#[tokio::test]
async fn killed_run_runs_again_before_missed_ticks_are_handled() {
    for every in [500, 600_000] {
        for (missed, later) in [(Missed::Skip, 0), (Missed::CatchUpOne, 1), (Missed::All(2), 2)] {
            let book = Book::default();
            let given = book.clone();
            let mut test = TestEngine::new(move |engine| with_keys(engine, every, missed, &given)).await;
            start(&test).await;
            book.take();
            book.plan("execute", ["block"]);
            test.advance(every).await;
            let killed = book.take();
            assert_eq!(killed.len(), 1);
            down(&mut test, every * 10 - 1, every, missed, &book).await;
            let notes = book.take();
            assert_eq!(notes[0], killed[0], "{missed:?}: the same tick with the same key");
            assert_eq!(notes.len(), 1 + later, "{missed:?}: {notes:?}");
            let keys: std::collections::BTreeSet<_> = notes.iter().collect();
            assert_eq!(keys.len(), notes.len(), "each tick has its own key");
        }
    }
}

/// A tick that the process died in was mistaken for a trigger if one was pending: it never ran again, and its key was
/// lost.
#[tokio::test]
async fn killed_run_runs_again_before_a_pending_trigger() {
    for missed in [Missed::Skip, Missed::CatchUpOne, Missed::All(2)] {
        let book = Book::default();
        let given = book.clone();
        let mut test = TestEngine::new(move |engine| with_keys(engine, 1_000, missed, &given)).await;
        start(&test).await;
        book.plan("execute", ["block", "block"]);
        test.job(BEAT).trigger("a").await.unwrap();
        test.advance(1_000).await;
        // The second trigger is taken at the end of the first, before the tick that came due meanwhile.
        test.job(BEAT).trigger("a").await.unwrap();
        book.gate.add_permits(1);
        test.settle().await;
        let killed = book.take().pop().unwrap();
        assert!(killed.starts_with("1000 "), "{killed}");
        down(&mut test, 10_000, 1_000, missed, &book).await;
        let notes = book.take();
        assert_eq!(notes[0], killed, "{missed:?}: the same tick with the same key");
        assert!(notes.last().is_some_and(|last| last.starts_with("trigger ")), "{missed:?}: {notes:?}");
    }
}

/// A tick was recorded as begun, the engine stopped before the call, and the tick ran at the next start although missed
/// ticks are skipped.
#[tokio::test(start_paused = true)]
async fn tick_that_begins_as_the_engine_stops_does_not_run_later() {
    for write in 1..=4 {
        let (book, clock) = (Book::default(), TestClock::new());
        let store = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
        let open =
            || with_keys(outlive::Engine::with_store(store.clone()), 1_000, Missed::Skip, &book).clock(clock.clone());
        let engine = open().start().await.unwrap();
        engine.job(BEAT).start("a", &0).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        book.take();
        // The store replies to this write only after the engine was asked to stop.
        store.add(Fault::UnknownAfter(store.writes() + write));
        clock.advance(Duration::from_millis(1_000));
        tokio::time::sleep(Duration::from_millis(1)).await;
        engine.shutdown().await.unwrap();
        let before = book.take();
        clock.advance(Duration::from_millis(9_500));
        let engine = open().start().await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let after = book.take();
        assert!(!after.iter().any(|note| note.starts_with("1000 ")), "write {write}: {before:?}, then {after:?}");
        engine.shutdown().await.unwrap();
    }
}

/// With a trigger pending over downtime, `CatchUpOne` ran three times at once.
#[tokio::test]
async fn trigger_sent_while_down_is_one_run_besides_missed_ticks() {
    for (missed, ticks) in [(Missed::Skip, 0), (Missed::CatchUpOne, 1), (Missed::All(3), 3)] {
        let book = Book::default();
        let given = book.clone();
        let mut test = TestEngine::new(move |engine| with_keys(engine, 1_000, missed, &given)).await;
        start(&test).await;
        // Some ticks later, so that none is under way when the process dies.
        test.advance(2_500).await;
        // As another process sends it, while no engine runs.
        let (id, at) = (Name::recorded("continuous:beat:a"), test.clock().now());
        let send = commit::SendWrite { id, num: None, message: Message::Trigger, at, dedup: None, token: 77 };
        test.store().write(vec![Write::Message(send)].into()).await.unwrap();
        book.take();
        down(&mut test, 10_000, 1_000, missed, &book).await;
        let notes = book.take();
        let triggered = notes.iter().filter(|note| note.starts_with("trigger ")).count();
        assert_eq!((notes.len() - triggered, triggered), (ticks, 1), "{missed:?}: {notes:?}");
        assert!(notes.last().is_some_and(|last| last.starts_with("trigger ")), "overdue ticks come first: {notes:?}");
    }
}

/// A yearly cron that was changed to every second kept its old tick through two deploys.
#[tokio::test]
async fn changed_schedule_counts_from_the_next_start() {
    let book = Book::default();
    let given = book.clone();
    let mut test =
        TestEngine::new(move |engine| others(engine).job(BEAT.cron("0 0 1 7 *").execute(beat)).provide(given.clone()))
            .await;
    start(&test).await;
    test.job(BEAT).start("b", &0).await.unwrap();
    test.job(BEAT).stop("b").await.unwrap();
    test.settle().await;
    assert!(book.take().is_empty());
    let given = book.clone();
    test.deploy(move |engine| others(engine).job(BEAT.every("1 minute").execute(beat)).provide(given.clone())).await;
    test.advance("3 minutes").await;
    assert_eq!(book.take(), ["1#1 for 1 at 1", "2#1 for 2 at 2", "3#1 for 3 at 3"]);
    assert_eq!(test.job(BEAT).status("b").await.unwrap().status, JobStatus::Stopped, "a stopped job stays stopped");
    // The same schedule leaves the next tick alone.
    test.advance(30_000).await;
    test.crash().await;
    test.advance(30_000).await;
    assert_eq!(book.take(), ["4#1 for 4 at 4"]);
}
