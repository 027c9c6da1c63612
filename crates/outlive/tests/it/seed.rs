//! Core behavior: retry, timeout, sleep, replay, and manual operations.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use outlive::clock::Clock;
use outlive::prelude::*;
use outlive::store::Store;
use outlive::{Cause, Entry, EntryKind, Jitter, Reason};
use outlive_testkit::TestEngine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

// ---- shared by the tests ----

/// An engine with one workflow, registered as "w", which takes nothing.
async fn engine<F, Fut, O>(workflow: F) -> TestEngine
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    TestEngine::new(move |engine| engine.workflow("w", workflow.clone())).await
}

/// Starts the run "r" and settles the engine.
async fn begin<O: DeserializeOwned + Send + 'static>(test: &TestEngine) -> Run<O> {
    let run = test.start(Workflow::<(), O>::new("w"), &()).id("r").await.unwrap();
    test.settle().await;
    run
}

/// Finds the same run after a crash.
async fn again<O: DeserializeOwned>(test: &TestEngine) -> Run<O> {
    test.get_run("r").await.unwrap()
}

/// Returns the result of a workflow that runs undisturbed.
async fn result_of<F, Fut, O>(workflow: F) -> Result<O, Error>
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    let test = engine(workflow).await;
    let run = begin(&test).await;
    test.result(&run).await
}

async fn journal(test: &TestEngine) -> Vec<Entry> {
    again::<serde_json::Value>(test).await.journal().await.unwrap()
}

async fn kinds(test: &TestEngine) -> Vec<(EntryKind, String)> {
    journal(test).await.into_iter().map(|entry| (entry.kind, entry.op.to_string())).collect()
}

/// Crashes the process and settles the next one.
async fn restart(test: &mut TestEngine) {
    test.crash().await;
    test.settle().await;
}

/// Crashes the process and settles one with other code.
async fn deploy(test: &mut TestEngine, setup: impl Fn(outlive::Builder) -> outlive::Builder + Send + Sync + 'static) {
    test.deploy(setup).await;
    test.settle().await;
}

/// Lets time pass while no process runs.
async fn down_for(test: &mut TestEngine, time: Duration) {
    test.clock().advance(time);
    restart(test).await;
}

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

async fn fail<T>(message: &str) -> Result<T> {
    Err(message.into())
}

async fn never<T>() -> Result<T> {
    std::future::pending().await
}

/// Returns 1 once the gate is open.
async fn pass(gate: &Notify) -> Result<u32> {
    gate.notified().await;
    Ok(1)
}

/// Fails until its n-th attempt, and returns that number.
async fn from_attempt(n: u32, attempt: Attempt) -> Result<u32> {
    if attempt.number < n { fail(&format!("attempt {} failed", attempt.number)).await } else { Ok(attempt.number) }
}

fn every_ten_seconds(retries: u32) -> Retry {
    Retry::times(retries).constant("10 seconds").jitter(Jitter::none())
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// What an error reports, in a form that can be a result.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Report {
    code: String,
    attempts: u32,
    reason: String,
    message: String,
    causes: Vec<String>,
}

fn report(error: &Error) -> Report {
    let (attempts, reason) = match error {
        Error::RetryExhausted { attempts, reason, .. } => (*attempts, format!("{reason:?}")),
        _ => (0, String::new()),
    };
    let failure = error.failure().unwrap();
    let (message, causes) = (failure.message.clone(), failure.causes.clone());
    Report { code: error.code().into(), attempts, reason, message, causes }
}

// ---- retry ----

async fn delays_of(retry: Retry) -> Vec<u64> {
    let policy = retry.clone();
    let test = engine(move |ctx: Ctx, (): ()| {
        let retry = policy.clone();
        async move { Ok(ctx.step("fails", || fail::<()>("no")).retry(retry).await?) }
    })
    .await;
    let run = begin::<()>(&test).await;
    test.result(&run).await.unwrap_err();
    let journal = journal(&test).await;
    for pair in journal.windows(2) {
        assert_eq!(pair[1].started, pair[0].due, "each attempt begins when it is due");
    }
    let failed = journal.iter().filter(|entry| entry.kind == EntryKind::AttemptFailed);
    failed.map(|entry| entry.due.unwrap().since(entry.at).as_secs()).collect()
}

#[tokio::test]
async fn exponential_retries_are_due_at_the_expected_times() {
    let retry = Retry::times(7).exponential("1 second").max_delay("30 seconds").jitter(Jitter::none());
    assert_eq!(delays_of(retry).await, [1, 2, 4, 8, 16, 30, 30]);
}

#[tokio::test]
async fn linear_retries_are_due_at_the_expected_times() {
    let retry = Retry::times(6).linear("1 second", "2 seconds").max_delay("10 seconds").jitter(Jitter::none());
    assert_eq!(delays_of(retry).await, [1, 3, 5, 7, 9, 10]);
}

#[tokio::test]
async fn three_retries_are_four_executions() {
    let test =
        engine(
            |ctx: Ctx, (): ()| async move { Ok(ctx.step("fails", || fail::<()>("no")).retry(Retry::times(3)).await?) },
        )
        .await;
    let run = begin(&test).await;
    test.result::<()>(&run).await.unwrap_err();
    assert_eq!(test.executions("fails"), 4);
}

#[tokio::test]
async fn exhausted_step_reports_its_attempts_and_the_last_error() {
    let report = result_of(|ctx: Ctx, (): ()| async move {
        let step = ctx.step("fails", |attempt: Attempt| from_attempt(9, attempt)).retry(every_ten_seconds(2));
        Ok(report(&step.await.unwrap_err()))
    });
    let expected = Report {
        code: "retry_exhausted".into(),
        attempts: 3,
        reason: format!("{:?}", Reason::MaxAttempts),
        message: "attempt 3 failed".into(),
        causes: vec![],
    };
    assert_eq!(report.await.unwrap(), expected);
}

async fn budgeted(ctx: Ctx, (): ()) -> Result<Report> {
    let retry = Retry::forever().constant("10 minutes").jitter(Jitter::none()).max_duration("35 minutes");
    let step = ctx.step("fails", |attempt: Attempt| from_attempt(99, attempt)).retry(retry);
    Ok(report(&step.await.unwrap_err()))
}

#[tokio::test]
async fn step_gives_up_when_the_next_retry_would_exceed_its_budget() {
    let test = engine(budgeted).await;
    let start = test.clock().now();
    let run = begin(&test).await;
    let report: Report = test.result(&run).await.unwrap();
    assert_eq!((report.attempts, report.reason), (4, format!("{:?}", Reason::MaxDuration)));
    assert_eq!(test.clock().now().since(start), 30 * MINUTE);
}

#[tokio::test]
async fn retry_budget_keeps_counting_through_restarts() {
    let mut test = engine(budgeted).await;
    begin::<Report>(&test).await;
    for _ in 0..5 {
        test.advance("7 minutes").await;
        restart(&mut test).await;
    }
    let report: Report = test.result(&again(&test).await).await.unwrap();
    assert_eq!((report.attempts, report.reason), (4, format!("{:?}", Reason::MaxDuration)));
}

#[tokio::test]
async fn retry_that_can_only_start_after_the_budget_is_not_made() {
    let mut test = engine(budgeted).await;
    begin::<Report>(&test).await;
    down_for(&mut test, 2 * HOUR).await;
    let report: Report = test.result(&again(&test).await).await.unwrap();
    assert_eq!(report.reason, format!("{:?}", Reason::MaxDuration));
    assert_eq!(test.executions("fails"), 1);
}

#[tokio::test]
async fn due_time_of_a_retry_survives_a_restart() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        Ok(ctx
            .step("flaky", |attempt: Attempt| from_attempt(2, attempt))
            .retry(Retry::times(1).constant("1 hour"))
            .await?)
    })
    .await;
    let run = begin::<u32>(&test).await;
    let before = run.status().await.unwrap();
    for _ in 0..3 {
        test.advance("10 minutes").await;
        restart(&mut test).await;
    }
    assert_eq!(again::<u32>(&test).await.status().await.unwrap(), before);
    assert_eq!(test.executions("flaky"), 1);
    let due = journal(&test).await[0].due.unwrap();
    assert_eq!(test.result(&again::<u32>(&test).await).await.unwrap(), 2);
    assert_eq!(test.clock().now(), due);
}

#[tokio::test]
async fn attempts_are_numbered_from_one_in_the_body_and_in_the_journal() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let test = engine(move |ctx: Ctx, (): ()| {
        let noted = noted.clone();
        async move {
            let body = |attempt: Attempt| {
                noted.lock().unwrap().push((attempt.number, attempt.is_retry));
                from_attempt(3, attempt)
            };
            Ok(ctx.step("flaky", body).retry(every_ten_seconds(5)).await?)
        }
    })
    .await;
    let run = begin(&test).await;
    assert_eq!(test.result::<u32>(&run).await.unwrap(), 3);
    assert_eq!(*seen.lock().unwrap(), [(1, false), (2, true), (3, true)]);
    let entries: Vec<_> = journal(&test).await.iter().map(|entry| (entry.kind, entry.attempt)).collect();
    assert_eq!(entries, [(EntryKind::AttemptFailed, 1), (EntryKind::AttemptFailed, 2), (EntryKind::StepDone, 3)]);
}

#[tokio::test]
async fn attempt_numbers_continue_through_restarts() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        Ok(ctx.step("flaky", |attempt: Attempt| from_attempt(4, attempt)).retry(every_ten_seconds(3)).await?)
    })
    .await;
    begin::<u32>(&test).await;
    for _ in 0..2 {
        restart(&mut test).await;
        test.advance("10 seconds").await;
    }
    assert_eq!(test.result(&again::<u32>(&test).await).await.unwrap(), 4);
    assert_eq!(test.executions("flaky"), 4);
}

// ---- errors that are not retried ----

async fn permanent_report<E, Fut>(body: impl Fn() -> Fut + Clone + Send + Sync + 'static) -> (Report, u64)
where
    E: Into<BoxError> + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
{
    let test = engine(move |ctx: Ctx, (): ()| {
        let body = body.clone();
        async move { Ok(report(&ctx.step("pay", body).retry(5).await.unwrap_err())) }
    })
    .await;
    let run = begin(&test).await;
    (test.result(&run).await.unwrap(), test.executions("pay"))
}

fn step_error(message: &str, causes: &[&str]) -> Report {
    let causes = causes.iter().map(ToString::to_string).collect();
    Report { code: "step".into(), attempts: 0, reason: String::new(), message: message.into(), causes }
}

#[tokio::test]
async fn permanent_error_is_reported_unchanged_and_not_retried() {
    let report = permanent_report(|| async { Err::<(), BoxError>(Permanent("no card").into()) }).await;
    assert_eq!(report, (step_error("no card", &[]), 1));
}

#[tokio::test]
async fn permanent_error_is_recognized_through_anyhow_context() {
    let report = permanent_report(|| async {
        Err::<(), anyhow::Error>(anyhow::Error::new(Permanent("no card")).context("charging").context("order 7"))
    })
    .await;
    assert_eq!(report, (step_error("order 7", &["charging", "no card"]), 1));
}

#[tokio::test]
async fn permanent_error_is_recognized_as_a_bare_anyhow_error() {
    let report = permanent_report(|| async { Err::<(), anyhow::Error>(Permanent("no card").into()) }).await;
    assert_eq!(report, (step_error("no card", &[]), 1));
}

#[derive(Debug, thiserror::Error)]
enum Shop {
    #[error("the bank said no")]
    Bank(#[from] outlive::Permanent),
    #[error(transparent)]
    Plain(outlive::Permanent),
}

#[tokio::test]
async fn permanent_error_is_recognized_as_the_source_of_a_thiserror_enum() {
    let report = permanent_report(|| async { Err::<(), Shop>(Permanent("no card").into()) }).await;
    assert_eq!(report, (step_error("the bank said no", &["no card"]), 1));
    let report = permanent_report(|| async { Err::<(), Shop>(Shop::Plain(Permanent("no card"))) }).await;
    assert_eq!(report, (step_error("no card", &[]), 1));
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, PartialEq, Clone)]
enum Bank {
    #[error("declined with code {code}")]
    Declined { code: u32 },
    #[error("busy")]
    Busy,
}

#[tokio::test]
async fn retry_if_decides_by_the_live_error() {
    let test = engine(|ctx: Ctx, (): ()| async move {
        let body = |attempt: Attempt| async move {
            if attempt.number < 3 { Err::<(), _>(Bank::Busy) } else { Err(Bank::Declined { code: 7 }) }
        };
        let step = ctx.step("pay", body).retry(every_ten_seconds(9)).retry_if(|error| *error == Bank::Busy);
        Ok(report(&step.await.unwrap_err()))
    })
    .await;
    let run = begin(&test).await;
    assert_eq!(test.result::<Report>(&run).await.unwrap(), step_error("declined with code 7", &[]));
    assert_eq!(test.executions("pay"), 3);
}

#[tokio::test]
async fn error_details_are_restored_after_a_restart() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        let step = ctx.step("pay", || async { Err::<(), _>(Bank::Declined { code: 7 }) }).retry(every_ten_seconds(1));
        let error = step.details().await.unwrap_err();
        ctx.sleep("1 hour").await?;
        Ok((error.details::<Bank>(), error.details::<u32>()))
    })
    .await;
    begin::<(Option<Bank>, Option<u32>)>(&test).await;
    test.advance("1 minute").await;
    restart(&mut test).await;
    let details = test.result(&again::<(Option<Bank>, Option<u32>)>(&test).await).await.unwrap();
    assert_eq!(details, (Some(Bank::Declined { code: 7 }), None));
}

#[tokio::test]
async fn caught_failure_leads_to_the_same_branch_in_every_replay() {
    // Failures were not recorded: the replay charged a card that had been declined.
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        let branch = match ctx.step("charge", || ok(7)).await {
            Ok(_) => "ship",
            Err(_) => "declined",
        };
        ctx.sleep("1 hour").await?;
        Ok(ctx.step(branch, || ok(branch.to_owned())).await?)
    })
    .await;
    test.fail_next("charge", "declined");
    begin::<String>(&test).await;
    for _ in 0..3 {
        restart(&mut test).await;
    }
    assert_eq!(test.result(&again::<String>(&test).await).await.unwrap(), "declined");
    assert_eq!((test.executions("charge"), test.executions("ship")), (1, 0));
}

#[tokio::test]
async fn exhausted_step_does_not_rerun_in_a_replay_and_reports_the_same() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        let step = ctx.step("fails", |attempt: Attempt| from_attempt(9, attempt)).retry(every_ten_seconds(1));
        let report = report(&step.await.unwrap_err());
        ctx.sleep("1 hour").await?;
        Ok(report)
    })
    .await;
    begin::<Report>(&test).await;
    test.advance("10 seconds").await;
    restart(&mut test).await;
    let report: Report = test.result(&again(&test).await).await.unwrap();
    assert_eq!((report.attempts, report.message.as_str()), (2, "attempt 2 failed"));
    assert_eq!(test.executions("fails"), 2);
}

// ---- timeout ----

/// Hangs until its n-th attempt.
async fn hang_until(n: u32, attempt: Attempt) -> Result<u32> {
    if attempt.number < n { never().await } else { Ok(attempt.number) }
}

#[tokio::test]
async fn timeout_before_retry_counts_from_the_start_of_each_attempt() {
    // It counted from the first attempt: after a delay longer than the timeout, no attempt could succeed.
    let test = engine(|ctx: Ctx, (): ()| async move {
        let step = ctx.step("slow", |attempt: Attempt| hang_until(2, attempt));
        Ok(step.timeout("5 seconds").retry(every_ten_seconds(1)).await?)
    })
    .await;
    let start = test.clock().now();
    let run = begin(&test).await;
    assert_eq!(test.result::<u32>(&run).await.unwrap(), 2);
    assert_eq!(test.clock().now().since(start), 15 * SECOND);
}

#[tokio::test]
async fn attempts_that_all_time_out_exhaust_the_retries() {
    let cause = result_of(|ctx: Ctx, (): ()| async move {
        let step = ctx.step("slow", never::<()>).timeout("5 seconds").retry(every_ten_seconds(2));
        let error = step.await.unwrap_err();
        let is_timeout =
            matches!(&error, Error::RetryExhausted { last, attempts: 3, .. } if last.cause == Cause::Timeout);
        Ok((is_timeout, error.to_string()))
    });
    let (is_timeout, text) = cause.await.unwrap();
    assert!(is_timeout && text.contains("timed out after 5s"), "{text}");
}

#[tokio::test]
async fn timeout_after_retry_limits_all_attempts_together() {
    let test = engine(|ctx: Ctx, (): ()| async move {
        let step = ctx.step("fails", || fail::<()>("no")).retry(every_ten_seconds(99)).timeout("25 seconds");
        let error = step.await.unwrap_err();
        Ok((error.code().to_owned(), error.is_timeout(), error.to_string()))
    })
    .await;
    let start = test.clock().now();
    let run = begin::<(String, bool, String)>(&test).await;
    let (code, is_timeout, text) = test.result(&run).await.unwrap();
    assert_eq!((code.as_str(), is_timeout), ("timeout", true));
    assert_eq!(text, "step \"fails\" timed out after 25s");
    assert_eq!(test.clock().now().since(start), 25 * SECOND);
    assert_eq!(test.executions("fails"), 3);
}

#[tokio::test]
async fn timeout_after_retry_ends_an_attempt_in_the_middle() {
    let test = engine(|ctx: Ctx, (): ()| async move {
        let step =
            ctx.step("slow", never::<()>).timeout("10 seconds").retry(every_ten_seconds(9)).timeout("25 seconds");
        Ok(step.await.unwrap_err().code().to_owned())
    })
    .await;
    let start = test.clock().now();
    let run = begin::<String>(&test).await;
    assert_eq!(test.result(&run).await.unwrap(), "timeout");
    assert_eq!((test.executions("slow"), test.clock().now().since(start)), (2, 25 * SECOND));
}

#[tokio::test]
async fn body_is_dropped_at_its_timeout() {
    struct Noted(Arc<AtomicBool>);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_dropped = Arc::new(AtomicBool::new(false));
    let noted = is_dropped.clone();
    let test = engine(move |ctx: Ctx, (): ()| {
        let noted = noted.clone();
        async move {
            let body = || {
                let guard = Noted(noted.clone());
                async move {
                    let _guard = guard;
                    never::<()>().await
                }
            };
            ctx.step("slow", body).timeout("5 seconds").await.unwrap_err();
            Ok(ctx.sleep("1 hour").await?)
        }
    })
    .await;
    begin::<()>(&test).await;
    assert!(!is_dropped.load(Ordering::Relaxed));
    test.advance("5 seconds").await;
    assert!(is_dropped.load(Ordering::Relaxed));
}

#[tokio::test]
async fn deadline_that_passed_while_down_fails_without_running_the_body() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        Ok(ctx.step("slow", never::<()>).timeout("1 hour").await.unwrap_err().code().to_owned())
    })
    .await;
    begin::<String>(&test).await;
    down_for(&mut test, 2 * HOUR).await;
    let run = again::<String>(&test).await;
    assert_eq!(run.status().await.unwrap(), Status::Completed);
    assert_eq!(test.result(&run).await.unwrap(), "timeout");
    assert_eq!(test.executions("slow"), 1);
}

#[tokio::test]
async fn total_deadline_that_passed_while_down_fails_without_running_the_body() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        let step = ctx.step("fails", || fail::<()>("no")).retry(every_ten_seconds(9)).timeout("1 hour");
        Ok(step.await.unwrap_err().code().to_owned())
    })
    .await;
    begin::<String>(&test).await;
    down_for(&mut test, 2 * HOUR).await;
    let run = again::<String>(&test).await;
    assert_eq!(run.status().await.unwrap(), Status::Completed);
    assert_eq!(test.result(&run).await.unwrap(), "timeout");
    assert_eq!(test.executions("fails"), 1);
}

#[tokio::test]
async fn attempt_deadline_that_passed_while_down_leads_to_the_next_attempt() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        let step = ctx.step("slow", |attempt: Attempt| hang_until(2, attempt));
        Ok(step.timeout("1 hour").retry(every_ten_seconds(1)).await?)
    })
    .await;
    begin::<u32>(&test).await;
    down_for(&mut test, 2 * HOUR).await;
    assert_eq!(test.executions("slow"), 1);
    assert_eq!(test.result(&again::<u32>(&test).await).await.unwrap(), 2);
    assert_eq!(test.executions("slow"), 2);
}

#[tokio::test]
async fn timeout_of_an_attempt_keeps_counting_through_a_restart() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        Ok(ctx.step("slow", never::<()>).timeout("1 hour").await.unwrap_err().code().to_owned())
    })
    .await;
    let start = test.clock().now();
    begin::<String>(&test).await;
    test.advance("40 minutes").await;
    restart(&mut test).await;
    assert_eq!(test.result(&again::<String>(&test).await).await.unwrap(), "timeout");
    assert_eq!((test.clock().now().since(start), test.executions("slow")), (HOUR, 2));
}

#[tokio::test]
async fn attempt_knows_its_remaining_time() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        let body = |attempt: Attempt| async move {
            let remaining = attempt.remaining.map(|time| time.as_secs());
            if remaining == Some(3600) { never().await } else { ok(remaining).await }
        };
        Ok(ctx.step("slow", body).timeout("1 hour").await?)
    })
    .await;
    begin::<Option<u64>>(&test).await;
    test.advance("40 minutes").await;
    restart(&mut test).await;
    assert_eq!(test.result(&again::<Option<u64>>(&test).await).await.unwrap(), Some(1200));
}

// ---- sleep ----

#[tokio::test]
async fn replay_waits_for_the_second_sleep_but_not_the_first() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        ctx.sleep("1 hour").await?;
        ctx.sleep("1 hour").await?;
        Ok(())
    })
    .await;
    let start = test.clock().now();
    begin::<()>(&test).await;
    test.advance("1 hour").await;
    for _ in 0..3 {
        restart(&mut test).await;
    }
    let until = again::<()>(&test).await.status().await.unwrap().until();
    assert_eq!(until, Some(start.after(2 * HOUR)));
    test.result(&again::<()>(&test).await).await.unwrap();
    assert_eq!(test.clock().now().since(start), 2 * HOUR);
}

async fn past_then_ten(ctx: Ctx, (): ()) -> Result<()> {
    ctx.sleep_until(Timestamp::from_millis(0)).await?;
    Ok(ctx.sleep("10 seconds").await?)
}

#[tokio::test]
async fn sleep_after_one_into_the_past_takes_its_own_time() {
    // A sleep that was over at once was not recorded, and the next one took its entry: 20 seconds.
    let mut test = engine(past_then_ten).await;
    let start = test.clock().now();
    begin::<()>(&test).await;
    test.advance("5 seconds").await;
    restart(&mut test).await;
    test.result(&again::<()>(&test).await).await.unwrap();
    assert_eq!(test.clock().now().since(start), 10 * SECOND);
}

#[tokio::test]
async fn sleep_into_the_past_is_recorded() {
    let test = engine(past_then_ten).await;
    begin::<()>(&test).await;
    let expected = [(EntryKind::SleepDone, "sleep".to_owned()), (EntryKind::SleepSet, "sleep#2".to_owned())];
    assert_eq!(kinds(&test).await, expected);
}

#[tokio::test]
async fn zero_sleep_ends_at_once_and_is_recorded() {
    let test = engine(|ctx: Ctx, (): ()| async move { Ok(ctx.sleep(0).await?) }).await;
    let run = begin::<()>(&test).await;
    assert_eq!(run.status().await.unwrap(), Status::Completed);
    assert_eq!(kinds(&test).await, [(EntryKind::SleepDone, "sleep".to_owned())]);
}

// ---- replay ----

#[tokio::test]
async fn every_replay_returns_the_recorded_value() {
    let count = Arc::new(AtomicU32::new(0));
    let counted = count.clone();
    let mut test = engine(move |ctx: Ctx, (): ()| {
        let counted = counted.clone();
        async move {
            let drawn = ctx.step("draw", || async { ok(counted.fetch_add(1, Ordering::Relaxed)).await }).await?;
            ctx.sleep("1 hour").await?;
            Ok(drawn)
        }
    })
    .await;
    begin::<u32>(&test).await;
    for _ in 0..4 {
        restart(&mut test).await;
    }
    assert_eq!(test.result(&again::<u32>(&test).await).await.unwrap(), 0);
    assert_eq!((count.load(Ordering::Relaxed), test.executions("draw")), (1, 1));
}

#[tokio::test]
async fn loop_with_one_step_name_records_a_result_for_each_turn() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        let mut results = Vec::new();
        for turn in 0..5 {
            results.push(ctx.step("turn", || ok(turn)).await?);
            ctx.sleep("1 hour").await?;
        }
        Ok(results)
    })
    .await;
    begin::<Vec<u32>>(&test).await;
    for _ in 0..4 {
        test.advance("1 hour").await;
        restart(&mut test).await;
    }
    assert_eq!(test.result(&again::<Vec<u32>>(&test).await).await.unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(test.executions("turn"), 5);
}

#[tokio::test]
async fn time_and_random_values_are_the_same_after_a_crash() {
    type Drawn = (Timestamp, Vec<u64>, Vec<String>);
    type Draws = (i64, Vec<u64>, Vec<String>);
    fn draw(ctx: &Ctx) -> Drawn {
        let numbers = vec![ctx.random(), ctx.random(), ctx.scope("other").random()];
        (ctx.now(), numbers, vec![ctx.uuid().to_string(), ctx.uuid().to_string()])
    }
    let lives = Arc::new(Mutex::new(Vec::<Draws>::new()));
    let noted = lives.clone();
    let mut test = TestEngine::new(move |engine| {
        let noted = noted.clone();
        engine.workflow("w", move |ctx: Ctx, (): ()| {
            let noted = noted.clone();
            async move {
                ctx.sleep("1 hour").await?;
                let (now, numbers, uuids) = draw(&ctx);
                noted.lock().unwrap().push((now.as_millis(), numbers, uuids));
                ctx.sleep("1 hour").await?;
                Ok::<_, BoxError>(())
            }
        })
    })
    .paranoid(false)
    .await;
    let start = test.clock().now();
    begin::<()>(&test).await;
    test.advance("1 hour").await;
    test.advance("10 minutes").await;
    restart(&mut test).await;
    test.result(&again::<()>(&test).await).await.unwrap();
    let lives = lives.lock().unwrap();
    assert_eq!(lives.len(), 2);
    assert_eq!(lives[0], lives[1]);
    let (now, numbers, uuids) = &lives[0];
    assert_eq!(*now, start.after(HOUR).as_millis(), "it is the time of the last delivery");
    assert!(numbers[0] != numbers[1] && numbers[0] != numbers[2] && uuids[0] != uuids[1], "draws differ");
}

#[tokio::test]
async fn two_runs_draw_different_numbers() {
    let test = engine(|ctx: Ctx, (): ()| async move { Ok((ctx.random(), ctx.uuid().to_string())) }).await;
    let workflow = Workflow::<(), (u64, String)>::new("w");
    let one = test.start(workflow, &()).await.unwrap();
    let two = test.start(workflow, &()).await.unwrap();
    let (one, two) = (test.result(&one).await.unwrap(), test.result(&two).await.unwrap());
    assert!(one.0 != two.0 && one.1 != two.1);
}

#[tokio::test]
async fn idempotency_key_is_stable_across_attempts_and_unique_per_step() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let mut test = engine(move |ctx: Ctx, (): ()| {
        let noted = noted.clone();
        async move {
            let body = |name: &'static str| {
                let noted = noted.clone();
                move |attempt: Attempt| {
                    noted.lock().unwrap().push((name, attempt.idempotency_key().to_owned()));
                    from_attempt(3, attempt)
                }
            };
            ctx.step("pay", body("first pay")).retry(every_ten_seconds(2)).await?;
            ctx.step("pay", body("second pay")).retry(every_ten_seconds(2)).await?;
            ctx.step("pay", body("keyed pay")).key("x").retry(every_ten_seconds(2)).await?;
            ctx.step("ship", body("ship")).retry(every_ten_seconds(2)).await?;
            ctx.scope("s").step("ship", body("scoped ship")).retry(every_ten_seconds(2)).await?;
            Ok(())
        }
    })
    .await;
    begin::<()>(&test).await;
    for _ in 0..12 {
        test.advance("5 seconds").await;
        restart(&mut test).await;
    }
    test.result(&again::<()>(&test).await).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 15, "five steps of three attempts");
    for (name, key) in &*seen {
        for (other, other_key) in &*seen {
            assert_eq!(name == other, key == other_key, "{name}: {key}, {other}: {other_key}");
        }
    }
}

#[tokio::test]
async fn provided_values_are_available_in_the_workflow_and_its_steps() {
    struct Greeting(&'static str);
    let setup = |engine: outlive::Builder| {
        engine.provide(Greeting("hello")).workflow("w", |ctx: Ctx, (): ()| async move {
            let step = ctx.step("greet", || async { ok(ctx.get::<Greeting>().0.to_owned()).await }).await?;
            Ok::<_, BoxError>((step, ctx.get::<Greeting>().0.to_owned(), ctx.try_get::<u8>().is_err()))
        })
    };
    let test = TestEngine::new(setup).await;
    let run = begin(&test).await;
    let all: (String, String, bool) = test.result(&run).await.unwrap();
    assert_eq!(all, ("hello".into(), "hello".into(), true));
}

#[tokio::test]
async fn run_that_needs_a_missing_value_is_stuck_until_it_is_provided() {
    async fn number(ctx: Ctx, (): ()) -> Result<u32> {
        Ok(*ctx.get::<u32>())
    }
    let mut test = engine(number).await;
    let run = begin::<u32>(&test).await;
    let error = test.result(&run).await.unwrap_err();
    assert!(error.is_stuck() && error.to_string().contains("`.provide(value)`"), "{error}");
    deploy(&mut test, |engine| engine.workflow("w", number).provide(7_u32)).await;
    assert_eq!(test.result(&again::<u32>(&test).await).await.unwrap(), 7);
}

// ---- fallback ----

async fn with_fallback(ctx: Ctx, (): ()) -> Result<String> {
    let price = ctx.step("price", |attempt: Attempt| async move {
        from_attempt(9, attempt).await?;
        ok(String::new()).await
    });
    let price = price.retry(every_ten_seconds(2)).fallback(|failure| ok(format!("after {}", failure.message))).await?;
    ctx.sleep("1 hour").await?;
    Ok(price)
}

#[tokio::test]
async fn fallback_gives_the_value_after_all_attempts_and_is_recorded() {
    let mut test = engine(with_fallback).await;
    begin::<String>(&test).await;
    test.advance("20 seconds").await;
    for _ in 0..2 {
        restart(&mut test).await;
    }
    assert_eq!(test.result(&again::<String>(&test).await).await.unwrap(), "after attempt 3 failed");
    assert_eq!(test.executions("price"), 3);
    assert_eq!(again::<String>(&test).await.completed_steps().await.unwrap(), ["price"]);
}

#[tokio::test]
async fn fallback_is_not_called_when_an_attempt_succeeds() {
    let value = result_of(|ctx: Ctx, (): ()| async move {
        let step = ctx.step("flaky", |attempt: Attempt| from_attempt(2, attempt)).retry(every_ten_seconds(1));
        Ok(step.fallback(|_| ok(99)).await?)
    });
    assert_eq!(value.await.unwrap(), 2);
}

#[tokio::test]
async fn crash_in_a_fallback_repeats_the_fallback_and_not_the_step() {
    let (calls, is_up) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, up) = (calls.clone(), is_up.clone());
    let mut test = engine(move |ctx: Ctx, (): ()| {
        let (counted, up) = (counted.clone(), up.clone());
        async move {
            let fallback = |failure: outlive::Failure| async move {
                counted.fetch_add(1, Ordering::Relaxed);
                if up.load(Ordering::Relaxed) { Ok(failure.message) } else { never().await }
            };
            Ok(ctx.step("price", || fail("no price")).fallback(fallback).await?)
        }
    })
    .await;
    begin::<String>(&test).await;
    is_up.store(true, Ordering::Relaxed);
    restart(&mut test).await;
    assert_eq!(test.result(&again::<String>(&test).await).await.unwrap(), "no price");
    assert_eq!((test.executions("price"), calls.load(Ordering::Relaxed)), (1, 2));
}

#[tokio::test]
async fn failure_of_a_fallback_is_the_failure_of_the_step() {
    let report = result_of(|ctx: Ctx, (): ()| async move {
        let step = ctx.step("price", || fail::<u32>("no price")).fallback(|_| fail("no fallback"));
        Ok(report(&step.await.unwrap_err()))
    });
    assert_eq!(report.await.unwrap(), step_error("no fallback", &[]));
}

// ---- at most once ----

#[tokio::test]
async fn crash_interrupts_an_at_most_once_step() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        let error = ctx.step("launch", never::<()>).at_most_once().retry(5).await.unwrap_err();
        ctx.sleep("1 hour").await?;
        Ok(error.code().to_owned())
    })
    .await;
    begin::<String>(&test).await;
    for _ in 0..3 {
        restart(&mut test).await;
    }
    assert_eq!(test.result(&again::<String>(&test).await).await.unwrap(), "interrupted");
    assert_eq!(test.executions("launch"), 1);
}

#[tokio::test]
async fn at_most_once_step_runs_once_and_keeps_its_value() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        let value = ctx.step("launch", || ok(7)).at_most_once().await?;
        ctx.sleep("1 hour").await?;
        Ok(value)
    })
    .await;
    begin::<u32>(&test).await;
    restart(&mut test).await;
    assert_eq!(test.result(&again::<u32>(&test).await).await.unwrap(), 7);
    assert_eq!(test.executions("launch"), 1);
}

#[tokio::test]
async fn start_of_an_at_most_once_step_is_durable_before_its_body_runs() {
    let store: Arc<dyn Store> = Arc::new(outlive_core::store::memory::MemoryStore::new());
    let seen = store.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let seen = seen.clone();
        async move {
            let body = || async {
                let entries = seen.journal(outlive_core::id::InstanceNum(1), 0, 9).await?;
                ok(entries.iter().map(|entry| entry.kind == EntryKind::StepStarted).collect()).await
            };
            Ok::<Vec<bool>, BoxError>(ctx.step("launch", body).at_most_once().await?)
        }
    };
    let test = TestEngine::new(move |engine| engine.workflow("w", workflow.clone())).store(store).await;
    let run = begin::<Vec<bool>>(&test).await;
    assert_eq!(test.result(&run).await.unwrap(), [true]);
}

// ---- concurrent operations ----

#[tokio::test]
async fn retry_of_one_branch_does_not_disturb_the_slow_step_of_another() {
    // The pause of the flaky branch interrupted its sibling, which then ran again.
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let test = engine(move |ctx: Ctx, (): ()| {
        let gate = gate.clone();
        async move {
            let flaky = ctx.step("flaky", |attempt: Attempt| from_attempt(3, attempt)).retry(every_ten_seconds(5));
            Ok(tokio::try_join!(flaky, ctx.step("slow", || pass(&gate)))?)
        }
    })
    .await;
    let run = begin::<(u32, u32)>(&test).await;
    test.advance("1 minute").await;
    assert_eq!((test.executions("flaky"), run.status().await.unwrap()), (3, Status::Running));
    opened.notify_one();
    assert_eq!(test.result(&run).await.unwrap(), (3, 1));
    assert_eq!(test.executions("slow"), 1);
}

#[tokio::test]
async fn steps_with_borrowing_async_blocks_can_be_joined() {
    // The compiler could not see that such a join is `Send`.
    let value = result_of(|ctx: Ctx, (): ()| async move {
        let names = ["tea".to_owned(), "cup".to_owned()];
        let first = || async { Ok::<_, BoxError>(names[0].len()) };
        let second = ctx.step("second", || async { Ok::<_, BoxError>(names[1].clone()) }).retry(3);
        Ok(tokio::try_join!(ctx.step("first", first), second)?)
    });
    assert_eq!(value.await.unwrap(), (3, "cup".to_owned()));
}

/// Returns why a run is stuck on its first live run.
async fn refusal<F, Fut, O>(workflow: F) -> String
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    // Not paranoid: the first live run itself must refuse.
    let test = TestEngine::new(move |engine| engine.workflow("w", workflow.clone())).paranoid(false).await;
    let run = begin::<O>(&test).await;
    assert_eq!(run.status().await.unwrap(), Status::Stuck);
    run.info().await.unwrap().note.unwrap()
}

fn assert_names(sentence: &str, operation: &str) {
    let way_out = sentence.contains("give each a `.key(..)` or a `scope(..)`");
    assert!(way_out && sentence.contains(operation) && sentence.contains("tests/it/seed.rs:"), "{sentence}");
}

#[tokio::test]
async fn two_steps_of_one_name_in_a_join_are_refused() {
    let sentence = refusal(|ctx: Ctx, (): ()| async move {
        Ok(tokio::try_join!(ctx.step("ask", || ok(1)), ctx.step("ask", || ok(2)))?)
    });
    assert_names(&sentence.await, "step:ask");
}

#[tokio::test]
async fn two_steps_of_one_name_in_joined_async_blocks_are_refused() {
    let sentence = refusal(|ctx: Ctx, (): ()| async move {
        let ask = async |n: u32| ctx.step("ask", || ok(n)).await;
        Ok(tokio::try_join!(ask(1), ask(2))?)
    });
    assert_names(&sentence.await, "step:ask");
}

#[tokio::test]
async fn two_steps_of_one_name_in_a_select_are_refused() {
    let sentence = refusal(|ctx: Ctx, (): ()| async move {
        tokio::select! {
            one = ctx.step("ask", never::<u32>) => Ok(one?),
            two = ctx.step("ask", never::<u32>) => Ok(two?),
        }
    });
    assert_names(&sentence.await, "step:ask");
}

#[tokio::test]
async fn steps_of_one_name_in_a_join_all_are_refused() {
    let sentence = refusal(|ctx: Ctx, (): ()| async move {
        let asked = join_all((0..3).map(|n| ctx.step("ask", move || ok(n)))).await;
        Ok(asked.into_iter().collect::<Result<Vec<u32>, _>>()?)
    });
    assert_names(&sentence.await, "step:ask");
}

#[tokio::test]
async fn two_sleeps_in_a_join_are_refused() {
    let sentence =
        refusal(|ctx: Ctx, (): ()| async move { Ok(tokio::try_join!(ctx.sleep("1 hour"), ctx.sleep("2 hours"))?) });
    assert_names(&sentence.await, "sleep");
}

#[tokio::test]
async fn two_sleeps_in_a_select_are_refused() {
    let sentence = refusal(|ctx: Ctx, (): ()| async move {
        tokio::select! {
            done = ctx.sleep("1 hour") => Ok(done?),
            done = ctx.sleep_until(Timestamp::MAX) => Ok(done?),
        }
    });
    assert_names(&sentence.await, "sleep");
}

#[tokio::test]
async fn two_waits_for_one_signal_in_a_join_are_refused() {
    let sentence = refusal(|ctx: Ctx, (): ()| async move {
        Ok(tokio::try_join!(ctx.wait::<u32>("answer"), ctx.wait::<u32>("answer"))?)
    });
    assert_names(&sentence.await, "wait:answer");
}

#[tokio::test]
async fn two_waits_for_one_signal_in_a_select_of_async_blocks_are_refused() {
    let sentence = refusal(|ctx: Ctx, (): ()| async move {
        tokio::select! {
            one = async { ctx.wait::<u32>("answer").await } => Ok(one?),
            two = async { ctx.wait::<u32>("answer").timeout("1 day").await } => Ok(two?),
        }
    });
    assert_names(&sentence.await, "wait:answer");
}

#[tokio::test]
async fn concurrent_operations_of_one_name_work_with_keys() {
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        let asked = join_all((0..3).map(|n| ctx.step("ask", move || ok(n)).key(n))).await;
        let asked: Vec<u32> = asked.into_iter().collect::<Result<_, _>>()?;
        tokio::try_join!(ctx.sleep("2 hours").key("long"), ctx.sleep("1 hour").key("short"))?;
        let (one, two) = (ctx.wait::<u32>("answer").key(1), ctx.wait::<u32>("answer").key(2));
        let (one, two) = tokio::try_join!(one, two)?;
        Ok((asked, one, two))
    })
    .await;
    let run = begin::<(Vec<u32>, u32, u32)>(&test).await;
    run.signal("answer", &4).await.unwrap();
    run.signal("answer", &5).await.unwrap();
    restart(&mut test).await;
    let run = again::<(Vec<u32>, u32, u32)>(&test).await;
    assert_eq!(test.result(&run).await.unwrap(), (vec![0, 1, 2], 4, 5));
    assert_eq!(test.executions("ask"), 3);
}

#[tokio::test]
async fn concurrent_operations_of_one_name_work_in_scopes() {
    async fn branch(ctx: Ctx, n: u32) -> Result<u32, Error> {
        let asked = ctx.step("ask", || ok(n)).await?;
        ctx.sleep("1 hour").await?;
        let answer: u32 = ctx.wait("answer").timeout("1 minute").await.unwrap_or(10);
        ctx.step("ask", || ok(asked + answer)).await
    }
    let mut test = engine(|ctx: Ctx, (): ()| async move {
        Ok(tokio::try_join!(branch(ctx.scope("left"), 1), branch(ctx.scope("right"), 2))?)
    })
    .await;
    begin::<(u32, u32)>(&test).await;
    restart(&mut test).await;
    assert_eq!(test.result(&again::<(u32, u32)>(&test).await).await.unwrap(), (11, 12));
    assert_eq!(test.executions("ask"), 4);
}

#[tokio::test]
async fn sequential_operations_of_one_name_need_no_key() {
    let value = result_of(|ctx: Ctx, (): ()| async move {
        let ask = async |n: u32| ctx.step("ask", || ok(n)).await;
        Ok((ask(1).await?, ask(2).await?, ask(3).await?))
    });
    assert_eq!(value.await.unwrap(), (1, 2, 3));
}

// ---- the wrong place ----

#[tokio::test]
async fn durable_operation_inside_a_step_is_a_scope_error() {
    let codes = result_of(|ctx: Ctx, (): ()| async move {
        let body = || async {
            let step = ctx.step("inner", || ok(1)).await.unwrap_err();
            let sleep = ctx.sleep("1 hour").await.unwrap_err();
            let wait = ctx.wait::<u32>("signal").await.unwrap_err();
            assert!(step.to_string().contains("step \"inner\" was polled inside a step"), "{step}");
            ok(vec![step.code().to_owned(), sleep.code().to_owned(), wait.code().to_owned()]).await
        };
        Ok(ctx.step("outer", body).await?)
    });
    assert_eq!(codes.await.unwrap(), ["scope", "scope", "scope"]);
}

#[tokio::test]
async fn durable_operation_created_outside_but_polled_in_a_step_is_a_scope_error() {
    let codes = result_of(|ctx: Ctx, (): ()| async move {
        let mut made = Some(ctx.step("inner", || ok(1)));
        let mut slept = Some(ctx.sleep("1 hour"));
        let body = || {
            let (step, sleep) = (made.take(), slept.take());
            async move {
                let step = step.unwrap().await.unwrap_err();
                let sleep = sleep.unwrap().await.unwrap_err();
                ok(vec![step.code().to_owned(), sleep.code().to_owned()]).await
            }
        };
        Ok(ctx.step("outer", body).await?)
    });
    assert_eq!(codes.await.unwrap(), ["scope", "scope"]);
}

#[tokio::test]
async fn durable_operation_in_a_spawned_task_is_a_scope_error() {
    let code = result_of(|ctx: Ctx, (): ()| async move {
        let body = || async {
            let ctx = ctx.clone();
            let inner = tokio::spawn(async move { ctx.step("inner", || ok(1)).await.unwrap_err().code().to_owned() });
            ok(inner.await?).await
        };
        Ok(ctx.step("outer", body).await?)
    });
    assert_eq!(code.await.unwrap(), "scope");
}

#[tokio::test]
async fn scope_error_returned_by_a_step_fails_it_at_once() {
    let test = engine(|ctx: Ctx, (): ()| async move {
        let body = || async { ctx.step("inner", || ok(1)).await };
        Ok(report(&ctx.step("outer", body).retry(5).await.unwrap_err()).message)
    })
    .await;
    let run = begin(&test).await;
    let message: String = test.result(&run).await.unwrap();
    assert!(message.contains("durable operations belong in the workflow function itself"), "{message}");
    assert_eq!((test.executions("outer"), test.executions("inner")), (1, 0));
}

#[tokio::test]
async fn scope_error_through_anyhow_fails_a_step_at_once() {
    let test = engine(|ctx: Ctx, (): ()| async move {
        let body = || async { Ok::<_, anyhow::Error>(ctx.step("inner", || ok(1)).await?) };
        ctx.step("outer", body).retry(5).await.unwrap_err();
        Ok(())
    })
    .await;
    let run = begin::<()>(&test).await;
    test.result(&run).await.unwrap();
    assert_eq!(test.executions("outer"), 1);
}

#[tokio::test(start_paused = true)]
async fn tokio_timer_inside_a_step_is_fine() {
    let value = result_of(|ctx: Ctx, (): ()| async move {
        let body = || async {
            tokio::time::sleep(Duration::from_millis(3)).await;
            ok(7).await
        };
        Ok(ctx.step("nap", body).await?)
    });
    assert_eq!(value.await.unwrap(), 7);
}

// ---- values that cannot be stored ----

async fn output_failure<T, Fut>(body: fn() -> Fut) -> (String, u64)
where
    T: Serialize + DeserializeOwned + Send + 'static,
    Fut: Future<Output = Result<T>> + Send + 'static,
{
    let workflow = move |ctx: Ctx, (): ()| async move {
        let Err(error) = ctx.step("make", body).retry(5).await else { panic!("that value cannot be stored") };
        assert_eq!(error.failure().unwrap().cause, Cause::Output);
        Ok::<_, BoxError>(error.to_string())
    };
    let test = TestEngine::new(move |engine| engine.max_payload(1000).workflow("w", workflow)).await;
    let run = begin::<String>(&test).await;
    (test.result(&run).await.unwrap(), test.executions("make"))
}

#[tokio::test]
async fn oversized_value_fails_its_step_and_names_the_type_and_limit() {
    let (text, executions) = output_failure(|| ok("x".repeat(1000))).await;
    assert_eq!(
        text,
        "step \"make\" failed: the value (alloc::string::String) has 1002 bytes of JSON, the limit is 1000; store it elsewhere and return its key"
    );
    assert_eq!(executions, 1);
}

#[tokio::test]
async fn value_that_does_not_serialize_fails_its_step_and_names_the_type() {
    type Grid = std::collections::BTreeMap<(u32, u32), u32>;
    let (text, executions) = output_failure(|| ok(Grid::from([((1, 2), 3)]))).await;
    assert!(
        text.starts_with("step \"make\" failed: the value (") && text.contains("BTreeMap<(u32, u32), u32>"),
        "{text}"
    );
    assert!(text.contains("does not serialize: key must be a string"), "{text}");
    assert_eq!(executions, 1);
}

#[tokio::test]
async fn value_that_does_not_read_back_fails_its_step_and_names_the_type() {
    let (text, executions) = output_failure(|| ok(f64::NAN)).await;
    assert!(text.starts_with("step \"make\" failed: the value (f64) does not read back: "), "{text}");
    assert_eq!(executions, 1);
}

#[tokio::test]
async fn step_returns_what_a_replay_would_read() {
    #[derive(Serialize, Deserialize, Clone, Copy)]
    struct Skips {
        kept: u32,
        #[serde(skip)]
        lost: u32,
    }
    let value = result_of(|ctx: Ctx, (): ()| async move {
        Ok(ctx.step("make", || ok(Skips { kept: 1, lost: 1 })).await.map(|made| (made.kept, made.lost))?)
    });
    assert_eq!(value.await.unwrap(), (1, 0));
}

// ---- manual operations ----

async fn first_then_second(ctx: Ctx, (): ()) -> Result<(u32, bool)> {
    let optional = ctx.step("optional", || ok(1)).await.is_ok();
    let first = ctx.step("first", || ok(1)).await?;
    let second = ctx.step("second", || ok(2)).retry(every_ten_seconds(1)).await?;
    Ok((first + second, optional))
}

#[tokio::test]
async fn retried_run_continues_from_the_failed_step() {
    let mut test = engine(first_then_second).await;
    test.fail_next("optional", "not today");
    test.fail_next("second", "no");
    test.fail_next("second", "no");
    let run = begin::<(u32, bool)>(&test).await;
    test.result(&run).await.unwrap_err();
    assert_eq!(run.status().await.unwrap(), Status::Failed);
    restart(&mut test).await;
    let run = again::<(u32, bool)>(&test).await;
    assert_eq!(run.status().await.unwrap(), Status::Failed, "a failed run stays failed by itself");
    run.retry().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), (3, false), "earlier failures stay failed");
    assert_eq!((test.executions("optional"), test.executions("first"), test.executions("second")), (1, 1, 3));
    restart(&mut test).await;
    assert_eq!(again::<(u32, bool)>(&test).await.status().await.unwrap(), Status::Completed);
}

#[tokio::test]
async fn retried_run_has_all_its_attempts_again() {
    let test = engine(first_then_second).await;
    (0..3).for_each(|_| test.fail_next("second", "no"));
    let run = begin::<(u32, bool)>(&test).await;
    test.result(&run).await.unwrap_err();
    run.retry().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), (3, true));
    assert_eq!(test.executions("second"), 4);
}

#[tokio::test]
async fn only_a_failed_or_stuck_run_can_be_retried() {
    let test = engine(|ctx: Ctx, (): ()| async move { Ok(ctx.sleep("1 hour").await?) }).await;
    let run = begin::<()>(&test).await;
    assert!(matches!(run.retry().await, Err(Error::Status { .. })));
    test.result(&run).await.unwrap();
    assert!(matches!(run.retry().await, Err(Error::Status { status: Status::Completed, .. })));
}

async fn nap_then_work(ctx: Ctx, (): ()) -> Result<u32> {
    ctx.sleep("1 hour").await?;
    Ok(ctx.step("work", || ok(7)).await?)
}

#[tokio::test]
async fn paused_run_does_not_continue_until_it_is_resumed() {
    let mut test = engine(nap_then_work).await;
    let run = begin::<u32>(&test).await;
    run.pause().await.unwrap();
    test.settle().await;
    let by_hand = Status::Paused;
    assert_eq!(run.status().await.unwrap(), by_hand);
    test.advance("2 hours").await;
    restart(&mut test).await;
    test.advance("2 hours").await;
    let run = again::<u32>(&test).await;
    assert_eq!((run.status().await.unwrap(), test.executions("work")), (by_hand, 0));
    run.resume().await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Completed, "its sleep is long over");
}

/// An engine without paranoid replays, as in production.
async fn production<F, Fut, O>(workflow: F) -> TestEngine
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    TestEngine::new(move |engine| engine.workflow("w", workflow.clone())).paranoid(false).await
}

#[tokio::test]
async fn run_with_recorded_steps_can_be_resumed_after_a_restart() {
    let mut test = production(|ctx: Ctx, (): ()| async move {
        let first = ctx.step("first", || ok(1)).await?;
        let second = ctx.step("second", || ok(2)).await?;
        ctx.sleep("1 hour").await?;
        Ok(first + second)
    })
    .await;
    begin::<u32>(&test).await.pause().await.unwrap();
    test.settle().await;
    restart(&mut test).await;
    let run = again::<u32>(&test).await;
    run.resume().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 3);
    assert_eq!((test.executions("first"), test.executions("second")), (1, 1));
}

#[tokio::test]
async fn loser_of_a_race_does_not_run_again_when_its_run_is_resumed() {
    let mut test = production(|ctx: Ctx, (): ()| async move {
        let won = tokio::select! {
            won = ctx.step("fast", || ok(1)) => won?,
            lost = ctx.step("slow", never::<u32>) => lost?,
        };
        ctx.sleep("1 hour").await?;
        Ok(won)
    })
    .await;
    begin::<u32>(&test).await.pause().await.unwrap();
    test.settle().await;
    let before = test.executions("slow");
    restart(&mut test).await;
    let run = again::<u32>(&test).await;
    run.resume().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 1);
    assert_eq!(test.executions("slow"), before);
}

#[tokio::test]
async fn run_paused_and_resumed_early_sleeps_its_full_time() {
    let test = engine(nap_then_work).await;
    let start = test.clock().now();
    let run = begin::<u32>(&test).await;
    run.pause().await.unwrap();
    test.advance("10 minutes").await;
    run.resume().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 7);
    assert_eq!(test.clock().now().since(start), HOUR);
}

#[tokio::test]
async fn running_step_finishes_and_is_recorded_when_its_run_is_paused() {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let mut test = engine(move |ctx: Ctx, (): ()| {
        let gate = gate.clone();
        async move {
            let first = ctx.step("first", || pass(&gate)).await?;
            Ok(first + ctx.step("second", || ok(1)).await?)
        }
    })
    .await;
    let run = begin::<u32>(&test).await;
    run.pause().await.unwrap();
    test.settle().await;
    opened.notify_one();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Paused);
    assert_eq!(run.completed_steps().await.unwrap(), ["first"]);
    assert_eq!(test.executions("second"), 0);
    restart(&mut test).await;
    let run = again::<u32>(&test).await;
    run.resume().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 2);
    assert_eq!(test.executions("first"), 1);
}

#[tokio::test]
async fn run_can_be_paused_between_retries_and_keeps_its_due_time() {
    let test = engine(|ctx: Ctx, (): ()| async move {
        Ok(ctx.step("flaky", |attempt: Attempt| from_attempt(2, attempt)).retry(every_ten_seconds(1)).await?)
    })
    .await;
    let run = begin::<u32>(&test).await;
    run.pause().await.unwrap();
    test.advance("1 hour").await;
    assert_eq!(test.executions("flaky"), 1);
    run.resume().await.unwrap();
    test.settle().await;
    assert_eq!((run.status().await.unwrap(), test.executions("flaky")), (Status::Completed, 2));
}

async fn cleans_up(ctx: Ctx, (): ()) -> Result<()> {
    if ctx.step("work", never::<()>).await.is_err() || ctx.sleep("1 hour").await.is_err() {
        ctx.step("clean up", || ok(())).await?;
    }
    Ok(())
}

#[tokio::test]
async fn terminated_run_skips_clean_up() {
    let test = engine(cleans_up).await;
    let run = begin::<()>(&test).await;
    run.terminate("enough").await.unwrap();
    test.settle().await;
    let info = run.info().await.unwrap();
    assert_eq!((info.status, info.note.as_deref()), (Status::Cancelled, Some("enough")));
    assert_eq!(test.executions("clean up"), 0);
}

#[tokio::test]
async fn paused_run_can_be_terminated() {
    let mut test = engine(nap_then_work).await;
    let run = begin::<u32>(&test).await;
    run.pause().await.unwrap();
    restart(&mut test).await;
    let run = again::<u32>(&test).await;
    run.terminate("enough").await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
    assert!(matches!(test.result(&run).await, Err(Error::Cancelled { reason }) if reason == "enough"));
}

#[tokio::test]
async fn terminated_run_stays_ended() {
    let mut test = engine(nap_then_work).await;
    let run = begin::<u32>(&test).await;
    run.terminate("enough").await.unwrap();
    restart(&mut test).await;
    test.advance("2 hours").await;
    let run = again::<u32>(&test).await;
    assert_eq!((run.status().await.unwrap(), test.executions("work")), (Status::Cancelled, 0));
    assert_eq!(run.terminate("again").await.unwrap(), outlive::CancelOutcome::Ended(Status::Cancelled));
    assert_eq!(run.info().await.unwrap().note.as_deref(), Some("enough"));
}
