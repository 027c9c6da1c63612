//! Tasks: events one after another, wakes, transactions, replies.

use std::time::Duration;

use outlive::job::{JobStatus, Task, TaskCtx};
use outlive::prelude::*;
use outlive_core::lifecycle::LifecycleRecordKind;
use outlive_testkit::TestEngine;

use crate::jobs_kit::{Book, NOTES, contents, failures, others, perform, reported};

const TASK: Task<String, u64> = Task::new("orders");

type TaskContext = TaskCtx<String, u64>;

async fn act(ctx: &TaskContext, script: &str) -> Result<()> {
    perform!(ctx, script,
        "add" => |n: &str| ctx.update_state(|sum| *sum += n.parse::<u64>().unwrap()),
        "wake" => |delay: &str| ctx.schedule_in(delay).unwrap(),
        "cancel" => |_: &str| ctx.cancel_schedule(),
        "terminate" => |reason: &str| ctx.terminate(reason),
    );
    Ok(())
}

async fn on_event(ctx: TaskContext, script: String) -> Result<u64> {
    let book = ctx.get::<Book>().clone();
    book.note(format!("event {}#{}", script.split(';').next().unwrap_or_default(), ctx.attempt()));
    act(&ctx, &script).await?;
    act(&ctx, &book.script("event")).await?;
    Ok(ctx.state().unwrap_or_default())
}

async fn execute(ctx: TaskContext) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    book.note(format!("execute {}#{}", ctx.execute_count(), ctx.attempt()));
    act(&ctx, &book.script("execute")).await
}

async fn on_idle(ctx: TaskContext) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    book.note("idle");
    act(&ctx, &book.script("idle")).await
}

async fn on_error(ctx: TaskContext, failure: outlive::Failure) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    book.note(format!("error {failure}"));
    act(&ctx, &book.script("error")).await
}

fn seconds(times: u32) -> Retry {
    Retry::times(times).constant("10 seconds").jitter(outlive::Jitter::none())
}

#[derive(Clone, Copy, Default)]
struct With {
    retries: u32,
    has_error: bool,
    has_idle: bool,
}

async fn engine(with: With) -> (TestEngine, Book) {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        let mut task = TASK.on_event(on_event);
        if with.retries > 0 {
            task = task.retry(seconds(with.retries));
        }
        if with.has_error {
            task = task.on_error(on_error);
        }
        if with.has_idle {
            task = task.on_idle(on_idle);
        }
        others(engine).job(task.execute(execute)).provide(given.clone())
    })
    .await;
    (test, book)
}

async fn send(test: &TestEngine, id: &str, script: &str) {
    test.job(TASK).send(id, &script.to_owned()).await.unwrap();
    test.settle().await;
}

async fn state(test: &TestEngine, id: &str) -> Option<u64> {
    test.job(TASK).state(id).await.unwrap()
}

async fn status(test: &TestEngine, id: &str) -> JobStatus {
    test.job(TASK).status(id).await.unwrap().status
}

/// Asserts that nothing of an instance is left: no state, no wake, no message.
async fn assert_gone(test: &TestEngine, id: &str) {
    assert_eq!((state(test, id).await, status(test, id).await), (None, JobStatus::NotFound), "{id}");
    assert!(test.store().wakes(Timestamp::MAX, 9).await.unwrap().is_empty(), "{id}");
    let all = contents(test.store()).await;
    let rows: Vec<&str> = all.lines().filter(|line| line.starts_with("Instance")).collect();
    assert!(!rows.iter().any(|row| row.contains(&format!("task:orders:{id}"))), "{id}: {rows:?}");
}

// ---- attempts ----

#[tokio::test]
async fn handlers_that_exceed_their_timeout_fail() {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        let task = TASK.on_event(on_event).retry(seconds(1)).timeout("1 minute").on_error(on_error);
        others(engine).job(task.execute(execute)).provide(given.clone())
    })
    .await;
    send(&test, "a", "add 1; wake 1 hour; block").await;
    assert_eq!(state(&test, "a").await, None);
    // The second attempt blocks too; then the event is given up, and the next one has its turn.
    send(&test, "a", "add 2; wake 1 hour").await;
    test.advance("130 seconds").await;
    assert_eq!(book.take(), ["event add 1#1", "event add 1#2", "error timed out after 1m", "event add 2#1"]);
    assert_eq!((state(&test, "a").await, test.job(TASK).dead().await.unwrap().len()), (Some(2), 1));
    book.plan("execute", ["add 4; block", "add 8"]);
    test.advance("1 hour").await;
    test.advance("70 seconds").await;
    assert_eq!((book.take(), state(&test, "a").await), (vec!["execute 0#1".into(), "execute 0#2".into()], Some(10)));
}

#[tokio::test]
async fn attempts_are_numbered_from_one_in_contexts_and_in_the_feed() {
    let (test, book) = engine(With { retries: 3, ..With::default() }).await;
    book.plan("event", ["fail no", "fail still no", ""]);
    send(&test, "a", "add 1").await;
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["event add 1#1", "event add 1#2", "event add 1#3"]);
    assert_eq!(failures(&test, "task:orders:a").await, ["failed 1: no", "failed 2: still no"]);
    let handled: Vec<u32> = reported(test.store(), "task:orders:a")
        .await
        .into_iter()
        .filter(|(kind, ..)| *kind == LifecycleRecordKind::EventHandled)
        .map(|(_, attempt, _)| attempt)
        .collect();
    assert_eq!(handled, [3], "the attempt that succeeded");
    assert_eq!(state(&test, "a").await, Some(1), "attempts that failed left nothing");
}

#[tokio::test]
async fn exhausting_attempt_reports_its_own_failure_with_the_real_error() {
    let (test, book) = engine(With { retries: 2, has_error: true, ..With::default() }).await;
    send(&test, "a", "wake 1 minute").await;
    book.plan("execute", ["fail one", "fail two", "fail three"]);
    test.advance("10 minutes").await;
    assert_eq!(book.take(), ["event wake 1 minute#1", "execute 0#1", "execute 0#2", "execute 0#3", "error three"]);
    assert_eq!(
        failures(&test, "task:orders:a").await,
        ["failed 1: one", "failed 2: two", "failed 3: three", "exhausted 3 by max attempts: three"]
    );
}

#[tokio::test]
async fn retry_times_means_the_same_in_steps_and_handlers() {
    async fn failing(ctx: Ctx, (): ()) -> Result<u32> {
        Ok(ctx.step("fails", || async { Err::<u32, BoxError>("no".into()) }).retry(seconds(2)).await?)
    }
    let steps = TestEngine::new(|engine| engine.workflow("failing", failing)).await;
    let run = steps.start(failing, &()).await.unwrap();
    assert!(steps.result(&run).await.is_err());
    let (test, book) = engine(With { retries: 2, ..With::default() }).await;
    send(&test, "a", "fail no").await;
    test.advance("1 minute").await;
    assert_eq!(book.take().len() as u64, steps.executions("fails"));
    assert_eq!(steps.executions("fails"), 3);
}

// ---- failing and unreadable events ----

#[tokio::test]
async fn failing_first_event_is_a_dead_letter_and_leaves_no_instance() {
    let (test, _) = engine(With::default()).await;
    send(&test, "a", "add 1; wake 1 hour; fail no").await;
    assert_gone(&test, "a").await;
    let dead = test.job(TASK).dead().await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].instance.as_str(), dead[0].attempts), ("a", 1));
    assert_eq!(
        (dead[0].event().unwrap().as_str(), dead[0].failure.to_string()),
        ("add 1; wake 1 hour; fail no", "no".into())
    );
    send(&test, "a", "add 2").await;
    assert_eq!(state(&test, "a").await, Some(2), "a later event starts fresh");
}

#[tokio::test]
async fn undecodable_first_event_is_a_dead_letter_and_leaves_no_instance() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let book = Book::default();
    let engine = Engine::open(&path).job(TASK.on_event(on_event).execute(execute)).provide(book.clone());
    let engine = engine.start().await.unwrap();
    let other = Client::open(&path).unwrap();
    let numbers: Task<u32, u64> = Task::new("orders");
    other.job(numbers).send("a", &7).await.unwrap();
    let wait = async {
        while other.job(numbers).dead().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait).await.unwrap();
    assert_eq!(engine.job(TASK).status("a").await.unwrap().status, JobStatus::NotFound);
    let dead = other.job(numbers).dead().await.unwrap();
    assert_eq!((dead.len(), dead[0].event().unwrap(), dead[0].attempts), (1, 7, 1));
    assert!(dead[0].failure.to_string().contains("does not read as"), "{}", dead[0].failure);
    assert!(book.take().is_empty());
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn undecodable_later_event_makes_the_instance_stuck_until_code_can_read_it() {
    const NUMBERS: Task<u32, u64> = Task::new("orders");
    async fn on_number(_: TaskCtx<u32, u64>, _: u32) -> Result<()> {
        Ok(())
    }
    async fn nothing(_: TaskCtx<u32, u64>) -> Result<()> {
        Ok(())
    }
    let (mut test, book) = engine(With { retries: 3, ..With::default() }).await;
    send(&test, "a", "add 5; wake 1 hour").await;
    book.plan("event", ["fail no"]);
    send(&test, "a", "add 1").await;
    test.deploy(|engine| others(engine).job(NUMBERS.on_event(on_number).execute(nothing))).await;
    test.advance("1 minute").await;
    let info = test.job(NUMBERS).status("a").await.unwrap();
    assert_eq!(info.status, JobStatus::Stuck);
    assert!(info.note.unwrap().contains("does not read as"));
    assert_eq!(test.job(NUMBERS).state("a").await.unwrap(), Some(5));
    assert!(test.job(NUMBERS).dead().await.unwrap().is_empty());
    let given = book.clone();
    test.deploy(move |engine| {
        others(engine).job(TASK.on_event(on_event).retry(seconds(3)).execute(execute)).provide(given.clone())
    })
    .await;
    test.advance("1 minute").await;
    assert_eq!(state(&test, "a").await, Some(6), "nothing was lost");
    book.take();
    test.advance("1 hour").await;
    assert_eq!(book.take(), ["execute 0#1"], "nor its wake");
}

#[tokio::test]
async fn dead_letters_can_be_listed_retried_and_discarded() {
    let (test, book) = engine(With::default()).await;
    send(&test, "a", "add 1").await;
    book.plan("event", ["fail no", "fail no"]);
    send(&test, "a", "add 10").await;
    send(&test, "a", "add 100").await;
    assert_eq!(state(&test, "a").await, Some(1));
    let orders = test.job(TASK);
    let numbers: Vec<u64> = orders.dead().await.unwrap().iter().map(|dead| dead.number).collect();
    assert_eq!(numbers.len(), 2);
    assert_eq!(orders.retry_dead().await.unwrap(), 2);
    test.settle().await;
    assert_eq!(state(&test, "a").await, Some(111));
    assert!(orders.dead().await.unwrap().is_empty());
    book.plan("event", ["fail no"]);
    send(&test, "a", "add 1000").await;
    assert_eq!(orders.discard_dead().await.unwrap(), 1);
    test.advance("1 day").await;
    assert_eq!(state(&test, "a").await, Some(111));
    assert!(orders.dead().await.unwrap().is_empty());
}

/// A dedup key counts as long as the instance lives, so a retried event was rejected by its own key, and lost.
#[tokio::test]
async fn dead_letter_with_a_dedup_key_is_not_lost_when_retried() {
    let (test, book) = engine(With::default()).await;
    send(&test, "a", "add 1").await;
    book.plan("event", ["fail no"]);
    test.job(TASK).send("a", &"add 10".to_owned()).dedup_key("ten").await.unwrap();
    test.settle().await;
    assert_eq!(test.job(TASK).retry_dead().await.unwrap(), 1);
    test.settle().await;
    assert_eq!(state(&test, "a").await, Some(11));
    assert!(!test.job(TASK).send("a", &"add 10".to_owned()).dedup_key("ten").await.unwrap().is_new);
}

#[tokio::test]
async fn retry_dead_retries_each_letter_once_even_if_it_fails_again() {
    let (test, book) = engine(With::default()).await;
    send(&test, "a", "add 1").await;
    for n in 0..3 {
        send(&test, "a", &format!("fail {n}")).await;
    }
    book.take();
    assert_eq!(test.job(TASK).retry_dead().await.unwrap(), 3);
    test.settle().await;
    assert_eq!(book.take(), ["event fail 0#1", "event fail 1#1", "event fail 2#1"]);
    assert_eq!(test.job(TASK).dead().await.unwrap().len(), 3);
}

// ---- terminate ----

#[tokio::test]
async fn terminate_from_any_handler_leaves_nothing_and_is_not_retried() {
    for ending in ["", "; fail after all", "; panic after all"] {
        for handler in ["event", "execute", "idle", "error"] {
            let (test, book) = engine(With { retries: 3, has_error: true, has_idle: true }).await;
            let script = format!("add 1; wake 1 hour; terminate enough{ending}");
            match handler {
                "event" => send(&test, "a", &script).await,
                "execute" => {
                    send(&test, "a", "add 1; wake 1 minute").await;
                    book.plan("execute", [script.as_str()]);
                    test.advance("1 minute").await;
                }
                "idle" => {
                    book.plan("idle", [script.as_str()]);
                    send(&test, "a", "add 1").await;
                }
                _ => {
                    book.plan("error", [script.as_str()]);
                    send(&test, "a", "add 1; wake 1 day").await;
                    for _ in 0..4 {
                        book.plan("event", ["fail no"]);
                    }
                    send(&test, "a", "add 1").await;
                    test.advance("1 minute").await;
                }
            }
            assert_gone(&test, "a").await;
            let calls = book.take().len();
            test.advance("2 days").await;
            assert!(book.take().is_empty(), "{handler}{ending}: called again after {calls} calls");
            assert!(test.job(TASK).dead().await.unwrap().is_empty(), "{handler}{ending}");
            let records = reported(test.store(), "task:orders:a").await;
            assert_eq!(
                records.iter().filter(|(kind, ..)| *kind == LifecycleRecordKind::JobTerminated).count(),
                1,
                "{handler}"
            );
            send(&test, "a", "add 5").await;
            assert_eq!(state(&test, "a").await, Some(5), "{handler}: a late event starts fresh");
        }
    }
}

#[tokio::test]
async fn terminate_during_retries_leaves_nothing() {
    for minutes in ["1 second", "5 minutes"] {
        let book = Book::default();
        let given = book.clone();
        let test = TestEngine::new(move |engine| {
            let task =
                TASK.on_event(on_event).retry(Retry::times(3).constant("1 hour").jitter(outlive::Jitter::none()));
            others(engine).job(task.execute(execute)).provide(given.clone())
        })
        .await;
        send(&test, "a", "add 1; wake 1 day").await;
        book.plan("event", ["fail no"]);
        send(&test, "a", "add 1").await;
        test.advance(minutes).await;
        test.job(TASK).terminate("a", "enough").await.unwrap();
        assert_gone(&test, "a").await;
        book.take();
        test.advance("2 days").await;
        assert!(book.take().is_empty());
    }
}

#[tokio::test]
async fn terminate_does_not_wait_for_a_blocked_handler() {
    let (test, book) = engine(With::default()).await;
    send(&test, "a", "add 1").await;
    send(&test, "a", "block; add 1").await;
    test.job(TASK).terminate("a", "enough").await.unwrap();
    assert_gone(&test, "a").await;
    book.gate.add_permits(1);
    test.settle().await;
    assert_gone(&test, "a").await;
}

#[tokio::test]
async fn waiting_events_end_with_a_terminated_instance_and_later_ones_start_fresh() {
    let (test, book) = engine(With::default()).await;
    send(&test, "a", "block; terminate enough").await;
    send(&test, "a", "add 10").await;
    book.gate.add_permits(1);
    test.settle().await;
    assert_gone(&test, "a").await;
    send(&test, "a", "add 5").await;
    assert_eq!(state(&test, "a").await, Some(5));
}

// ---- wakes ----

#[tokio::test]
async fn task_wakes_on_schedule_and_its_status_shows_the_stored_wake() {
    let (test, book) = engine(With { has_idle: true, ..With::default() }).await;
    send(&test, "a", "add 1; wake 1 hour").await;
    let info = test.job(TASK).status("a").await.unwrap();
    let stored = test.store().wakes(Timestamp::MAX, 10).await.unwrap();
    assert_eq!(info.next_run, Some(stored[0].due));
    assert_eq!((info.status, stored.len()), (JobStatus::Scheduled, 1));
    book.plan("execute", ["wake 30 minutes", ""]);
    test.advance("59 minutes").await;
    assert_eq!(book.take(), ["event add 1#1"]);
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["execute 0#1"], "it has scheduled another wake, so it is not idle");
    assert!(test.job(TASK).status("a").await.unwrap().next_run.is_some());
    test.advance("30 minutes").await;
    assert_eq!(book.take(), ["execute 1#1", "idle"], "an execute that scheduled nothing makes it idle");
    let info = test.job(TASK).status("a").await.unwrap();
    assert_eq!((info.status, info.next_run, info.run_count), (JobStatus::Idle, None, 2));
    assert!(test.store().wakes(Timestamp::MAX, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn wake_can_be_moved_and_cancelled_by_a_later_event() {
    let (test, book) = engine(With::default()).await;
    send(&test, "a", "add 1; wake 1 hour").await;
    send(&test, "a", "wake 2 hours").await;
    test.advance("90 minutes").await;
    assert_eq!(book.take(), ["event add 1#1", "event wake 2 hours#1"]);
    send(&test, "a", "cancel").await;
    test.advance("1 day").await;
    assert_eq!(book.take(), ["event cancel#1"]);
    assert_eq!(status(&test, "a").await, JobStatus::Idle);
}

#[tokio::test]
async fn scheduled_at_returns_the_stored_wake_and_then_the_planned_one() {
    const PLANNER: Task<String, Vec<Option<i64>>> = Task::new("planner");
    async fn plan(ctx: TaskCtx<String, Vec<Option<i64>>>, at: String) -> Result<()> {
        let seen = |ctx: &TaskCtx<String, Vec<Option<i64>>>| ctx.scheduled_at().map(Timestamp::as_millis);
        let before = seen(&ctx);
        match at.as_str() {
            "" => ctx.cancel_schedule(),
            at => ctx.schedule_at(Timestamp::from_millis(at.parse::<i64>()?)),
        }
        let after = seen(&ctx);
        ctx.update_state(|all| all.extend([before, after]));
        Ok(())
    }
    async fn nothing(_: TaskCtx<String, Vec<Option<i64>>>) -> Result<()> {
        Ok(())
    }
    let test = TestEngine::new(|engine| engine.job(PLANNER.on_event(plan).execute(nothing))).await;
    let late = 4_000_000_000_000_i64;
    for at in [late.to_string(), (late + 1).to_string(), String::new()] {
        test.job(PLANNER).send("a", &at).await.unwrap();
    }
    test.settle().await;
    let seen = test.job(PLANNER).state("a").await.unwrap().unwrap();
    assert_eq!(seen, [None, Some(late), Some(late), Some(late + 1), Some(late + 1), None]);
}

#[tokio::test]
async fn trigger_is_an_extra_run_and_does_not_change_the_wake() {
    let (test, book) = engine(With::default()).await;
    send(&test, "a", "add 1; wake 1 hour").await;
    let due = test.job(TASK).status("a").await.unwrap().next_run;
    test.job(TASK).trigger("a").await.unwrap();
    test.settle().await;
    assert_eq!(book.take(), ["event add 1#1", "execute 0#1"]);
    assert_eq!(test.job(TASK).status("a").await.unwrap().next_run, due);
    test.advance("1 hour").await;
    assert_eq!(book.take(), ["execute 1#1"]);
    let unknown = test.job(TASK).trigger("nobody").await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
}

#[tokio::test]
async fn wake_due_during_a_triggered_run_is_not_lost() {
    let (test, book) = engine(With::default()).await;
    send(&test, "a", "add 1; wake 1 hour").await;
    book.plan("execute", ["block", "add 10"]);
    test.job(TASK).trigger("a").await.unwrap();
    test.advance("2 hours").await;
    book.gate.add_permits(1);
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["event add 1#1", "execute 0#1", "execute 1#1"]);
    assert_eq!(state(&test, "a").await, Some(11));
}

#[tokio::test]
async fn wake_due_while_a_triggered_run_is_retried_is_not_lost() {
    let (test, book) = engine(With { retries: 3, ..With::default() }).await;
    send(&test, "a", "add 1; wake 15 seconds").await;
    book.plan("execute", ["fail no", "fail no", "", "add 10"]);
    test.job(TASK).trigger("a").await.unwrap();
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["event add 1#1", "execute 0#1", "execute 0#2", "execute 0#3", "execute 1#1"]);
    assert_eq!(state(&test, "a").await, Some(11));
}

#[tokio::test]
async fn restarts_every_minute_do_not_lengthen_an_hour_of_waiting() {
    let (mut test, book) = engine(With::default()).await;
    send(&test, "a", "add 1; wake 1 hour").await;
    for _ in 0..59 {
        test.advance("1 minute").await;
        test.crash().await;
        test.settle().await;
    }
    assert_eq!(book.take(), ["event add 1#1"]);
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["execute 0#1"]);
}

#[tokio::test]
async fn failed_on_idle_is_reported_and_not_retried() {
    let (test, book) = engine(With { retries: 3, has_idle: true, ..With::default() }).await;
    book.plan("idle", ["fail no"]);
    send(&test, "a", "add 1").await;
    test.advance("1 day").await;
    assert_eq!(book.take(), ["event add 1#1", "idle"]);
    assert_eq!(failures(&test, "task:orders:a").await, ["failed 1: no"]);
    assert_eq!((state(&test, "a").await, status(&test, "a").await), (Some(1), JobStatus::Idle));
}

#[tokio::test]
async fn exhausted_execute_keeps_the_state_and_goes_idle() {
    let (test, book) = engine(With { retries: 1, has_idle: true, ..With::default() }).await;
    send(&test, "a", "add 1; wake 1 minute").await;
    book.plan("execute", ["add 5; fail no", "add 5; fail no"]);
    test.advance("1 hour").await;
    assert_eq!(book.take(), ["event add 1#1", "execute 0#1", "execute 0#2", "idle"]);
    assert_eq!((state(&test, "a").await, status(&test, "a").await), (Some(1), JobStatus::Idle));
}

#[tokio::test]
async fn on_error_can_schedule_the_next_attempt() {
    let (test, book) = engine(With { has_error: true, ..With::default() }).await;
    send(&test, "a", "add 1; wake 1 minute").await;
    book.plan("execute", ["fail no", "add 10"]);
    book.plan("error", ["add 100; wake 1 hour"]);
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["event add 1#1", "execute 0#1", "error no"]);
    test.advance("1 hour").await;
    assert_eq!(book.take(), ["execute 1#1"]);
    assert_eq!(state(&test, "a").await, Some(111));
}

// ---- transactions ----

#[tokio::test]
async fn handler_commits_its_state_wake_sends_starts_and_signals_together() {
    let (test, _) = engine(With::default()).await;
    test.start(crate::jobs_kit::WAITER, &()).id("w").await.unwrap();
    test.settle().await;
    send(&test, "a", "add 1; wake 1 hour; send n hello; send n again; start w2; signal w").await;
    assert_eq!(state(&test, "a").await, Some(1));
    assert!(test.job(TASK).status("a").await.unwrap().next_run.is_some());
    assert_eq!(test.job(NOTES).state("n").await.unwrap().unwrap(), ["hello", "again"]);
    assert_eq!(test.get_run::<u32>("w").await.unwrap().result().await.unwrap(), 7);
    assert!(test.get_run::<u32>("w2").await.is_ok());
}

#[tokio::test]
async fn handler_that_fails_halfway_leaves_nothing() {
    let (test, _) = engine(With::default()).await;
    test.start(crate::jobs_kit::WAITER, &()).id("w").await.unwrap();
    send(&test, "a", "add 1").await;
    for ending in ["fail no", "panic no"] {
        send(&test, "a", &format!("add 10; wake 1 hour; send n hello; start w2; signal w; {ending}")).await;
        assert_eq!((state(&test, "a").await, status(&test, "a").await), (Some(1), JobStatus::Idle));
        assert_eq!(test.job(NOTES).state("n").await.unwrap(), None);
        assert!(test.get_run::<u32>("w2").await.is_err());
        assert!(!test.get_run::<u32>("w").await.unwrap().status().await.unwrap().is_ended());
    }
    assert_eq!(test.job(TASK).dead().await.unwrap().len(), 2);
}

#[tokio::test]
async fn signal_refused_at_commit_fails_the_handler() {
    let (test, book) = engine(With { retries: 1, ..With::default() }).await;
    send(&test, "a", "add 1").await;
    send(&test, "a", "add 10; send n hello; signal nobody").await;
    assert_eq!((state(&test, "a").await, test.job(NOTES).state("n").await.unwrap()), (Some(1), None));
    test.start(crate::jobs_kit::WAITER, &()).id("nobody").await.unwrap();
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["event add 1#1", "event add 10#1", "event add 10#2"]);
    assert_eq!(state(&test, "a").await, Some(11), "the second attempt found the run");
    assert_eq!(test.job(NOTES).state("n").await.unwrap().unwrap(), ["hello"]);
    assert_eq!(failures(&test, "task:orders:a").await.len(), 1);
}

#[tokio::test]
async fn start_whose_id_is_taken_by_another_run_fails_the_handler() {
    async fn other(_: Ctx, n: u32) -> Result<u32> {
        Ok(n)
    }
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        others(engine).job(TASK.on_event(on_event).execute(execute)).workflow("other", other).provide(given.clone())
    })
    .await;
    test.start(other, &1).id("taken").await.unwrap();
    send(&test, "a", "add 1").await;
    send(&test, "a", "add 10; start taken").await;
    assert_eq!(state(&test, "a").await, Some(1));
    let dead = test.job(TASK).dead().await.unwrap();
    assert!(dead[0].failure.to_string().contains("starts \"taken\", an id that a run of"), "{}", dead[0].failure);
}

#[tokio::test]
async fn events_that_arrive_during_a_refused_commit_are_not_lost() {
    let (test, _) = engine(With::default()).await;
    send(&test, "a", "add 1").await;
    let orders = test.job(TASK);
    let refused = "add 1000; signal nobody".to_owned();
    let plain = "add 1".to_owned();
    let mut sends = Vec::new();
    for n in 0..50 {
        let event = if n % 5 == 0 { &refused } else { &plain };
        sends.push(orders.send("a", event));
    }
    let all = futures_util::future::join_all(sends).await;
    assert!(all.iter().all(Result::is_ok));
    test.settle().await;
    assert_eq!(state(&test, "a").await, Some(41));
    assert_eq!(orders.dead().await.unwrap().len(), 10);
}

#[tokio::test]
async fn handler_can_send_to_its_own_instance_and_to_siblings() {
    const RING: Task<u32, u32> = Task::new("ring");
    async fn pass(ctx: TaskCtx<u32, u32>, left: u32) -> Result<()> {
        ctx.update_state(|count| *count += 1);
        if left > 0 {
            let next = if left.is_multiple_of(3) { ctx.instance_id().to_owned() } else { format!("r{}", left % 4) };
            ctx.send(RING, &next, &(left - 1))?;
        }
        Ok(())
    }
    async fn nothing(_: TaskCtx<u32, u32>) -> Result<()> {
        Ok(())
    }
    let test = TestEngine::new(|engine| engine.job(RING.on_event(pass).execute(nothing))).await;
    test.job(RING).send("r0", &40).await.unwrap();
    test.settle().await;
    let mut sum = 0;
    for n in 0..4 {
        sum += test.job(RING).state(&format!("r{n}")).await.unwrap().unwrap_or(0);
    }
    assert_eq!(sum, 41);
}

#[tokio::test]
async fn a_hundred_concurrent_events_on_one_instance_are_a_hundred_updates() {
    let (test, book) = engine(With::default()).await;
    let orders = test.job(TASK);
    let event = "add 1".to_owned();
    let sent = futures_util::future::join_all((0..100).map(|_| orders.send("a", &event))).await;
    assert_eq!(sent.iter().filter(|sent| sent.as_ref().unwrap().created).count(), 1);
    test.settle().await;
    assert_eq!((state(&test, "a").await, book.take().len()), (Some(100), 100));
    assert_eq!(orders.status("a").await.unwrap().event_count, 100);
}

#[tokio::test]
async fn dedup_key_is_accepted_once_per_instance() {
    let (test, _) = engine(With::default()).await;
    let orders = test.job(TASK);
    for is_new in [true, false, false] {
        let sent = orders.send("a", &"add 1".to_owned()).dedup_key("k").await.unwrap();
        assert_eq!(sent.is_new, is_new);
        test.settle().await;
    }
    assert_eq!(state(&test, "a").await, Some(1));
    orders.terminate("a", "done").await.unwrap();
    assert!(orders.send("a", &"add 1".to_owned()).dedup_key("k").await.unwrap().is_new);
}

/// The keys of `on_idle` and `on_error` were derived from the number of runs and events. A failed event or a new life
/// did not change these, so a receiver that deduplicates swallowed what the later call sent.
#[tokio::test]
async fn handlers_of_a_later_life_have_their_own_keys() {
    const KEYS: Task<u64, u64> = Task::new("keys");
    type Context = TaskCtx<u64, u64>;
    async fn idle(ctx: Context) -> Result<()> {
        ctx.get::<Book>().note(ctx.idempotency_key());
        Ok(())
    }
    async fn failed(ctx: Context, _: outlive::Failure) -> Result<()> {
        ctx.get::<Book>().note(ctx.idempotency_key());
        Ok(())
    }
    async fn event(ctx: Context, n: u64) -> Result<()> {
        if n == 0 {
            return Err("zero".into());
        }
        ctx.set_state(n);
        Ok(())
    }
    async fn run(_: Context) -> Result<()> {
        Ok(())
    }
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        engine.job(KEYS.on_event(event).on_idle(idle).on_error(failed).execute(run)).provide(given.clone())
    })
    .await;
    let keys = test.job(KEYS);
    for life in 0..3 {
        if life > 0 {
            // The event is accepted after the terminate and before it is handled, so the same row is reused.
            let (ended, sent) = tokio::join!(keys.terminate("a", "again"), keys.send("a", &1));
            ended.unwrap();
            sent.unwrap();
        }
        for n in [1, 0] {
            keys.send("a", &n).await.unwrap();
            test.settle().await;
        }
    }
    let mut seen = book.take();
    let all = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() == all && all >= 6, "{all} calls, keys {seen:#?}");
}

/// Up to 64 calls that did not wait for anything shared one commit, so a crash repeated all of them, and each began
/// before the call it depends on was durable.
#[tokio::test]
async fn call_is_durable_before_the_next_one_begins() {
    const COUNT: Task<u64, u64> = Task::new("count");
    type Reach = std::sync::Arc<std::sync::OnceLock<outlive::Client>>;
    async fn event(ctx: TaskCtx<u64, u64>, n: u64) -> Result<()> {
        let client = ctx.get::<Reach>().get().expect("the test has set it");
        let durable = client.job(COUNT).state("a").await?;
        ctx.get::<Book>().note(format!("{n} after {durable:?}"));
        ctx.set_state(n);
        Ok(())
    }
    async fn run(_: TaskCtx<u64, u64>) -> Result<()> {
        Ok(())
    }
    let (book, reach) = (Book::default(), Reach::default());
    let given = (book.clone(), reach.clone());
    let test = TestEngine::new(move |engine| {
        engine.job(COUNT.on_event(event).execute(run)).provide(given.0.clone()).provide(given.1.clone())
    })
    .await;
    reach.set(test.client()).expect("it is set once");
    let counts = test.job(COUNT);
    futures_util::future::join_all((1..=5).map(|n| counts.send("a", &n)))
        .await
        .into_iter()
        .for_each(|sent| drop(sent.unwrap()));
    test.settle().await;
    let expected = ["1 after None", "2 after Some(1)", "3 after Some(2)", "4 after Some(3)", "5 after Some(4)"];
    assert_eq!(book.take(), expected);
}

// ---- reading and asking ----

#[tokio::test]
async fn state_can_be_read_while_a_handler_is_blocked() {
    let (test, book) = engine(With::default()).await;
    send(&test, "a", "add 1").await;
    send(&test, "a", "add 10; block").await;
    assert_eq!((state(&test, "a").await, status(&test, "a").await), (Some(1), JobStatus::Running));
    book.gate.add_permits(1);
    test.settle().await;
    assert_eq!(state(&test, "a").await, Some(11));
}

#[tokio::test]
async fn handled_event_does_not_wait_for_the_slow_one_after_it() {
    let (test, book) = engine(With::default()).await;
    let orders = test.job(TASK);
    let (fast, slow) = ("add 1".to_owned(), "block; add 10".to_owned());
    let asked = async {
        let (answer, sent) = tokio::join!(orders.ask::<u64>("a", &fast), orders.send("a", &slow));
        sent.unwrap();
        answer.unwrap()
    };
    let answer = tokio::time::timeout(Duration::from_secs(120), asked).await.expect("the first event gets its reply");
    assert_eq!((answer, state(&test, "a").await), (1, Some(1)));
    book.gate.add_permits(1);
    test.settle().await;
    assert_eq!(state(&test, "a").await, Some(11));
}

#[tokio::test]
async fn ask_returns_the_reply_of_the_handler() {
    let (test, _) = engine(With::default()).await;
    let orders = test.job(TASK);
    assert_eq!(orders.ask::<u64>("a", &"add 2".to_owned()).await.unwrap(), 2);
    assert_eq!(orders.ask::<u64>("a", &"add 3".to_owned()).await.unwrap(), 5);
    let unread = orders.ask::<Vec<String>>("a", &"add 1".to_owned()).await;
    assert!(matches!(unread, Err(Error::Payload { .. })), "{unread:?}");
}

#[tokio::test]
async fn ask_waits_for_retries_and_returns_the_failure_if_they_run_out() {
    let (test, book) = engine(With { retries: 1, ..With::default() }).await;
    let orders = test.job(TASK);
    let (fails, once) = ("fail no".to_owned(), "add 1".to_owned());
    let (asked, ()) = tokio::join!(orders.ask::<u64>("a", &fails), async {
        test.advance("1 minute").await;
    });
    let error = asked.unwrap_err();
    assert_eq!(error.to_string(), "job \"task:orders:a\" failed: no", "the error names a job, not a run");
    let Error::Failed { id, failure } = error else { panic!("{error:?}") };
    assert_eq!((id.as_str(), failure.to_string()), ("task:orders:a", "no".to_owned()));
    book.plan("event", ["fail once"]);
    let (asked, ()) = tokio::join!(orders.ask::<u64>("b", &once), async {
        test.advance("1 minute").await;
    });
    assert_eq!(asked.unwrap(), 1);
}

#[tokio::test]
async fn ask_returns_not_found_if_the_instance_terminates() {
    let (test, _) = engine(With::default()).await;
    let asked = test.job(TASK).ask::<u64>("a", &"terminate enough".to_owned()).await;
    assert!(matches!(asked, Err(Error::NotFound { .. })), "{asked:?}");
}

#[tokio::test]
async fn ask_from_another_process_returns_replies_and_failures() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let task = TASK.on_event(on_event).retry(Retry::times(1).constant("20 ms"));
    let engine = Engine::open(&path).job(task.execute(execute)).provide(Book::default()).start().await.unwrap();
    let client = Client::open(&path).unwrap();
    let orders = client.job(TASK);
    let work = async {
        assert_eq!(orders.ask::<u64>("a", &"add 2".to_owned()).await.unwrap(), 2);
        let failed = orders.ask::<u64>("a", &"fail no".to_owned()).await;
        assert!(matches!(failed, Err(Error::Failed { .. })), "{failed:?}");
        assert_eq!(orders.ask::<u64>("a", &"add 3".to_owned()).await.unwrap(), 5);
        assert_eq!(orders.state("a").await.unwrap(), Some(5));
        // Whatever the timing of its polls for the reply.
        for sum in 6..106 {
            assert_eq!(orders.ask::<u64>("a", &"add 1".to_owned()).await.unwrap(), sum);
        }
        let gone = orders.ask::<u64>("a", &"terminate enough".to_owned()).await;
        assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    };
    tokio::time::timeout(Duration::from_secs(60), work).await.unwrap();
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn crash_before_the_commit_of_a_handler_repeats_it_and_counts_it_once() {
    let (mut test, book) = engine(With::default()).await;
    send(&test, "a", "add 1; wake 1 hour").await;
    send(&test, "a", "add 10; block").await;
    test.crash().await;
    book.gate.add_permits(1);
    test.settle().await;
    assert_eq!(book.take(), ["event add 1#1", "event add 10#1", "event add 10#1"]);
    let info = test.job(TASK).status("a").await.unwrap();
    assert_eq!((state(&test, "a").await, info.event_count), (Some(11), 2));
    book.plan("execute", ["add 100; block", "add 100"]);
    test.advance("1 hour").await;
    test.crash().await;
    test.settle().await;
    let info = test.job(TASK).status("a").await.unwrap();
    assert_eq!((state(&test, "a").await, info.run_count), (Some(111), 1));
}

#[tokio::test]
async fn events_left_at_shutdown_are_handled_by_the_next_engine() {
    let store: std::sync::Arc<dyn outlive::store::Store> = std::sync::Arc::new(outlive::MemoryStore::new());
    let book = Book::default();
    let open = async || {
        let task = TASK.on_event(on_event).execute(execute);
        others(Engine::with_store(store.clone())).job(task).provide(book.clone()).start().await.unwrap()
    };
    let engine = open().await;
    let orders = engine.job(TASK);
    orders.send("a", &"add 1; block".to_owned()).await.unwrap();
    for _ in 0..10 {
        orders.send("a", &"add 1".to_owned()).await.unwrap();
    }
    let permits = book.gate.clone();
    let (ended, ()) = tokio::join!(engine.shutdown(), async {
        tokio::task::yield_now().await;
        permits.add_permits(5);
    });
    ended.unwrap();
    let engine = open().await;
    let wait = async {
        while engine.job(TASK).state("a").await.unwrap() != Some(11) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait).await.unwrap();
    assert_eq!(engine.job(TASK).status("a").await.unwrap().event_count, 11);
}
