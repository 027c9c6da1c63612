//! Panics and aborts in steps, workflows, destructors and serializers. They never affect another run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use outlive::prelude::*;
use outlive::{Cause, EntryKind, Jitter};
use outlive_testkit::TestEngine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

async fn never<T>() -> Result<T> {
    std::future::pending().await
}

fn every_ten_seconds(retries: u32) -> Retry {
    Retry::times(retries).constant("10 seconds").jitter(Jitter::none())
}

/// An engine with the workflow under test as "w" and a quiet neighbour.
async fn engine<F, Fut, O>(workflow: F, is_paranoid: bool) -> TestEngine
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    let setup = move |engine: outlive::Builder| engine.workflow("w", workflow.clone()).workflow("neighbour", neighbour);
    TestEngine::new(setup).paranoid(is_paranoid).await
}

async fn neighbour(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.sleep("1 hour").await?;
    Ok(ctx.step("quiet work", || ok(n)).await?)
}

async fn begin<O: DeserializeOwned + Send + 'static>(test: &TestEngine) -> Run<O> {
    let run = test.start(Workflow::<(), O>::new("w"), &()).id("r").await.unwrap();
    test.settle().await;
    run
}

async fn again<O: DeserializeOwned>(test: &TestEngine) -> Run<O> {
    test.get_run("r").await.unwrap()
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

/// Asserts that another run is not affected.
async fn assert_others_continue(test: &TestEngine) {
    let run = test.start(neighbour, &7).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 7);
}

async fn note<O: DeserializeOwned>(run: &Run<O>) -> String {
    let info = run.info().await.unwrap();
    assert_eq!(info.status, Status::Stuck, "{info:?}");
    info.note.unwrap()
}

// ---- in a step ----

#[tokio::test]
async fn panic_in_a_step_is_a_failed_attempt_and_is_retried() {
    let body = |attempt: Attempt| async move {
        assert!(attempt.number > 2, "attempt {} went wrong", attempt.number);
        ok(attempt.number).await
    };
    let test = engine(
        move |ctx: Ctx, (): ()| async move { Ok(ctx.step("shaky", body).retry(every_ten_seconds(5)).await?) },
        true,
    )
    .await;
    let run = begin(&test).await;
    assert_eq!(test.result::<u32>(&run).await.unwrap(), 3);
    let journal = run.journal().await.unwrap();
    let failed: Vec<_> = journal.iter().filter(|entry| entry.kind == EntryKind::AttemptFailed).collect();
    assert_eq!(failed.len(), 2);
    let recorded = failed[0].payload.as_ref().unwrap().as_str();
    assert!(recorded.contains("attempt 1 went wrong") && recorded.contains("tests/it/panics.rs:"), "{recorded}");
}

#[tokio::test]
async fn panic_in_a_step_reports_its_message_and_location() {
    let test = engine(
        |ctx: Ctx, (): ()| async move {
            let error =
                ctx.step("shaky", || async { panic!("the {} is gone", "tea") as Result<u32> }).await.unwrap_err();
            let failure = error.failure().unwrap();
            Ok((failure.cause == Cause::Panic, error.to_string()))
        },
        true,
    )
    .await;
    let run = begin::<(bool, String)>(&test).await;
    let (is_panic, text) = test.result(&run).await.unwrap();
    assert!(is_panic, "{text}");
    assert!(text.starts_with("step \"shaky\" failed: panicked: the tea is gone at "), "{text}");
    assert!(text.contains("tests/it/panics.rs:"), "{text}");
}

#[tokio::test]
async fn panic_before_the_first_await_of_a_step_is_a_failed_attempt() {
    let test = engine(
        |ctx: Ctx, (): ()| async move {
            let body = |attempt: Attempt| {
                assert!(attempt.is_retry, "too early");
                ok(7)
            };
            Ok(ctx.step("shaky", body).retry(every_ten_seconds(1)).await?)
        },
        true,
    )
    .await;
    let run = begin(&test).await;
    assert_eq!(test.result::<u32>(&run).await.unwrap(), 7);
}

#[tokio::test]
async fn panic_with_a_non_text_payload_is_a_failed_attempt() {
    let test = engine(
        |ctx: Ctx, (): ()| async move {
            let body = || async { std::panic::panic_any(7) as Result<u32> };
            Ok(ctx.step("shaky", body).await.unwrap_err().to_string())
        },
        true,
    )
    .await;
    let run = begin(&test).await;
    let text: String = test.result(&run).await.unwrap();
    assert!(text.contains("a panic without a message at ") && text.contains("panics.rs:"), "{text}");
}

#[tokio::test]
async fn panic_in_a_fallback_is_the_failure_of_the_step() {
    let test = engine(
        |ctx: Ctx, (): ()| async move {
            let step = ctx.step("price", || async { Err::<u32, BoxError>("no price".into()) });
            let lazy = step.fallback(|_| async { panic!("no fallback") }).await.unwrap_err();
            let step = ctx.step("cost", || async { Err::<u32, BoxError>("no cost".into()) });
            let eager = step.fallback(|_| if true { panic!("no fallback at all") } else { ok(1) }).await.unwrap_err();
            Ok((lazy.to_string(), eager.to_string()))
        },
        true,
    )
    .await;
    let run = begin::<(String, String)>(&test).await;
    let (lazy, eager) = test.result(&run).await.unwrap();
    assert!(lazy.contains("step \"price\" failed: panicked: no fallback at "), "{lazy}");
    assert!(eager.contains("step \"cost\" failed: panicked: no fallback at all at "), "{eager}");
}

/// A value whose destructor panics while the flag is set.
struct Grenade(Arc<AtomicBool>);

impl Drop for Grenade {
    fn drop(&mut self) {
        if self.0.load(Ordering::Relaxed) && !std::thread::panicking() {
            panic!("dropped a grenade");
        }
    }
}

async fn hold<T>(grenade: Grenade, body: impl Future<Output = Result<T>>) -> Result<T> {
    let _grenade = grenade;
    body.await
}

fn armed() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(true))
}

#[tokio::test]
async fn panic_in_a_destructor_at_the_end_of_a_body_is_a_failed_attempt() {
    let test = engine(
        |ctx: Ctx, (): ()| async move {
            let text = ctx.step("shaky", || hold(Grenade(armed()), ok(1))).await.unwrap_err().to_string();
            Ok(text)
        },
        true,
    )
    .await;
    let run = begin::<String>(&test).await;
    let text = test.result(&run).await.unwrap();
    assert!(text.contains("panicked: dropped a grenade at "), "{text}");
}

#[tokio::test]
async fn panic_in_the_destructor_of_a_timed_out_body_is_a_failed_attempt() {
    let test = engine(
        |ctx: Ctx, (): ()| async move {
            let body = |attempt: Attempt| {
                let is_first = attempt.number == 1;
                hold(Grenade(Arc::new(AtomicBool::new(is_first))), async move {
                    if is_first { never().await } else { ok(attempt.number).await }
                })
            };
            Ok(ctx.step("shaky", body).timeout("1 second").retry(every_ten_seconds(3)).await?)
        },
        true,
    )
    .await;
    let run = begin::<u32>(&test).await;
    assert_eq!(test.result(&run).await.unwrap(), 2);
    assert_others_continue(&test).await;
}

// ---- in the types of a step's value or error ----

#[derive(Deserialize)]
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("cannot be written")
    }
}

#[derive(Serialize)]
struct Unreadable;

impl<'de> Deserialize<'de> for Unreadable {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("cannot be read")
    }
}

#[derive(Debug)]
struct Unspeakable;

impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("cannot be displayed")
    }
}

impl std::error::Error for Unspeakable {}

/// Returns the failure of a step that panics in something around its body.
async fn failure_text<F, Fut>(workflow: F) -> String
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<String>> + Send + 'static,
{
    let test = engine(workflow, true).await;
    let run = begin::<String>(&test).await;
    let text = test.result(&run).await.unwrap();
    assert!(text.contains("panicked: ") && text.contains("tests/it/panics.rs:"), "{text}");
    assert_others_continue(&test).await;
    text
}

#[tokio::test]
async fn panic_while_serializing_a_value_is_a_failed_attempt() {
    let text = failure_text(|ctx: Ctx, (): ()| async move {
        let Err(error) = ctx.step("make", || ok(Unwritable)).await else { panic!("the value cannot be stored") };
        Ok(error.to_string())
    });
    assert!(text.await.contains("cannot be written"));
}

#[tokio::test]
async fn panic_while_reading_a_value_back_is_a_failed_attempt() {
    let text = failure_text(|ctx: Ctx, (): ()| async move {
        let Err(error) = ctx.step("make", || ok(Unreadable)).await else { panic!("the value cannot be stored") };
        Ok(error.to_string())
    });
    assert!(text.await.contains("cannot be read"));
}

#[tokio::test]
async fn panic_while_displaying_an_error_is_a_failed_attempt() {
    let text = failure_text(|ctx: Ctx, (): ()| async move {
        Ok(ctx.step("make", || async { Err::<u32, _>(Unspeakable) }).await.unwrap_err().to_string())
    });
    assert!(text.await.contains("cannot be displayed"));
}

#[tokio::test]
async fn panic_in_retry_if_is_a_failed_attempt() {
    let text = failure_text(|ctx: Ctx, (): ()| async move {
        let step = ctx.step("make", || async { Err::<u32, BoxError>("no".into()) }).retry(3);
        Ok(step.retry_if(|_| panic!("cannot be judged")).await.unwrap_err().to_string())
    });
    assert!(text.await.contains("cannot be judged"));
}

async fn with_broken_backoff(ctx: Ctx, (): ()) -> Result<u32> {
    let delays = [1, 2];
    let retry = Retry::times(9).custom(move |k| Duration::from_secs(delays[k as usize])).jitter(Jitter::none());
    Ok(ctx.step("shaky", || async { Err::<u32, BoxError>("no".into()) }).retry(retry).await?)
}

#[tokio::test]
async fn panic_in_a_custom_backoff_is_reported_and_hangs_nothing() {
    let test = engine(with_broken_backoff, true).await;
    let run = begin::<u32>(&test).await;
    let error = test.result(&run).await.unwrap_err();
    assert!(error.to_string().contains("index out of bounds"), "{error}");
    assert_others_continue(&test).await;
}

#[tokio::test]
async fn panic_in_a_custom_backoff_after_a_timeout_is_reported_and_hangs_nothing() {
    let test = engine(
        |ctx: Ctx, (): ()| async move {
            let retry = Retry::times(9).custom(|_| panic!("no delay"));
            Ok(ctx.step("slow", never::<u32>).timeout("1 second").retry(retry).await?)
        },
        true,
    )
    .await;
    let run = begin::<u32>(&test).await;
    let error = test.result(&run).await.unwrap_err();
    assert!(error.to_string().contains("no delay"), "{error}");
    assert_others_continue(&test).await;
}

// ---- in the workflow ----

/// A workflow that panics after its first step while the flag is set.
fn faulty(is_broken: Arc<AtomicBool>) -> impl Fn(Ctx, ()) -> BoxedRun + Clone + Send + Sync + 'static {
    move |ctx, ()| {
        let is_broken = is_broken.clone();
        Box::pin(async move {
            let first = ctx.step("first", || ok(1)).await?;
            assert!(!is_broken.load(Ordering::Relaxed), "the workflow is broken");
            ctx.sleep("1 hour").await?;
            Ok(first + ctx.step("second", || ok(1)).await?)
        })
    }
}

type BoxedRun = std::pin::Pin<Box<dyn Future<Output = Result<u32>> + Send>>;

#[tokio::test]
async fn panic_in_the_workflow_makes_the_run_stuck_with_message_and_location() {
    let test = engine(faulty(armed()), true).await;
    let run = begin::<u32>(&test).await;
    let note = note(&run).await;
    assert!(note.contains("panicked: the workflow is broken at ") && note.contains("tests/it/panics.rs:"), "{note}");
    assert_others_continue(&test).await;
}

#[tokio::test]
async fn run_that_panicked_resumes_with_fixed_code() {
    let mut test = engine(faulty(armed()), true).await;
    begin::<u32>(&test).await;
    let fixed = faulty(Arc::new(AtomicBool::new(false)));
    deploy(&mut test, move |engine| engine.workflow("w", fixed.clone())).await;
    assert_eq!(test.result(&again::<u32>(&test).await).await.unwrap(), 2);
    assert_eq!((test.executions("first"), test.executions("second")), (1, 1));
}

#[tokio::test]
async fn run_that_panicked_resumes_when_retried() {
    let is_broken = armed();
    let test = engine(faulty(is_broken.clone()), true).await;
    let run = begin::<u32>(&test).await;
    run.retry().await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Stuck, "nothing was fixed");
    is_broken.store(false, Ordering::Relaxed);
    run.retry().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 2);
    assert_eq!(test.executions("first"), 1);
}

#[tokio::test]
async fn run_that_panicked_is_stuck_again_after_a_restart_with_the_same_code() {
    let mut test = engine(faulty(armed()), true).await;
    begin::<u32>(&test).await;
    for _ in 0..5 {
        restart(&mut test).await;
    }
    let note = note(&again::<u32>(&test).await).await;
    assert!(note.contains("the workflow is broken"), "{note}");
    assert_eq!(test.executions("first"), 1);
}

#[tokio::test]
async fn panic_before_the_first_await_of_the_workflow_makes_the_run_stuck() {
    let broken = |_: Ctx, (): ()| {
        if true {
            panic!("not even begun");
        }
        ok(1)
    };
    let mut test = engine(broken, true).await;
    let run = begin::<u32>(&test).await;
    let note = note(&run).await;
    assert!(note.contains("not even begun at "), "{note}");
    deploy(&mut test, |engine| engine.workflow("w", |_: Ctx, (): ()| ok(1))).await;
    assert_eq!(test.result(&again::<u32>(&test).await).await.unwrap(), 1);
}

#[tokio::test]
async fn panic_while_serializing_the_result_makes_the_run_stuck() {
    let test = engine(|_: Ctx, (): ()| ok(Unwritable), true).await;
    let run: Run<serde_json::Value> = test.start_json("w", "null").id("r").await.unwrap();
    test.settle().await;
    let note = note(&run).await;
    assert!(note.contains("cannot be written"), "{note}");
    assert_others_continue(&test).await;
}

#[tokio::test]
async fn running_step_is_dropped_when_its_workflow_panics() {
    let test = engine(
        |ctx: Ctx, (): ()| async move {
            let broken = async {
                ctx.step("first", || ok(1)).await?;
                if true {
                    panic!("broken branch");
                }
                Ok::<u32, Error>(0)
            };
            Ok(tokio::try_join!(ctx.step("slow", never::<u32>), broken)?)
        },
        true,
    )
    .await;
    let run = begin::<(u32, u32)>(&test).await;
    assert!(note(&run).await.contains("broken branch"));
    assert_others_continue(&test).await;
}

// ---- in destructors of the workflow ----

/// A workflow that sleeps while it holds a grenade.
fn sleeps_with(grenade: Arc<AtomicBool>) -> impl Fn(Ctx, ()) -> BoxedRun + Clone + Send + Sync + 'static {
    move |ctx, ()| {
        let grenade = Grenade(grenade.clone());
        Box::pin(hold(grenade, async move {
            ctx.sleep("30 seconds").await?;
            ok(1).await
        }))
    }
}

#[tokio::test]
async fn panic_in_a_destructor_of_the_workflow_makes_the_run_stuck() {
    let is_armed = Arc::new(AtomicBool::new(false));
    let test = engine(sleeps_with(is_armed.clone()), false).await;
    let run = begin::<u32>(&test).await;
    is_armed.store(true, Ordering::Relaxed);
    let error = test.result(&run).await.unwrap_err();
    assert!(error.is_stuck() && error.to_string().contains("dropped a grenade"), "{error}");
    assert_others_continue(&test).await;
}

#[tokio::test]
async fn run_whose_destructors_panic_can_be_terminated() {
    let is_armed = Arc::new(AtomicBool::new(false));
    let test = engine(sleeps_with(is_armed.clone()), false).await;
    let run = begin::<u32>(&test).await;
    is_armed.store(true, Ordering::Relaxed);
    run.terminate("enough").await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
    assert_others_continue(&test).await;
}

#[tokio::test]
async fn run_whose_destructors_panic_survives_paranoid_replays() {
    // Each idle point drops a second copy of the run, which runs its destructors.
    let is_armed = armed();
    let test = engine(sleeps_with(is_armed.clone()), true).await;
    let run = begin::<u32>(&test).await;
    is_armed.store(false, Ordering::Relaxed);
    let ended = test.result(&run).await;
    let is_reported = match &ended {
        Ok(value) => *value == 1,
        Err(error) => error.is_stuck() && error.to_string().contains("dropped a grenade"),
    };
    assert!(is_reported, "{ended:?}");
    assert_others_continue(&test).await;
}

#[tokio::test]
async fn engine_shuts_down_even_if_destructors_of_a_run_panic() {
    let is_armed = Arc::new(AtomicBool::new(false));
    let (sleeps, armed_later) = (sleeps_with(is_armed.clone()), is_armed.clone());
    let engine = Engine::open("memory:").workflow("w", sleeps).grace("1 second").start().await.unwrap();
    let run = engine.start(Workflow::<(), u32>::new("w"), &()).await.unwrap();
    while !run.status().await.unwrap().is_idle() {
        tokio::task::yield_now().await;
    }
    armed_later.store(true, Ordering::Relaxed);
    engine.shutdown().await.unwrap();
}

// ---- abort: a real process, a real file ----

const STORE: &str = "OUTLIVE_TEST_STORE";
const OTHERS: u32 = 6;

/// What the poison run does, and when it is started.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq)]
enum Poison {
    /// Started before the others; aborts while they run.
    First,
    /// Started after the others; aborts while they run.
    Last,
    /// Started before the others; aborts as soon as it is resumed.
    Sudden,
}

struct Fixed(bool);

/// A file that exists once all runs are started.
fn started(store: &Path) -> PathBuf {
    store.with_extension("started")
}

async fn poison(ctx: Ctx, (how, store): (Poison, PathBuf)) -> Result<u32> {
    let before = ctx.step("before", || ok(1)).await?;
    let body = || async {
        while !started(&store).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if how != Poison::Sudden {
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        if !ctx.get::<Fixed>().0 {
            std::process::abort();
        }
        ok(1).await
    };
    Ok(before + ctx.step("abort", body).await?)
}

async fn slow(ctx: Ctx, n: u32) -> Result<u32> {
    let body = || async {
        tokio::time::sleep(Duration::from_millis(120)).await;
        ok(n).await
    };
    Ok(ctx.step("slow", body).await?)
}

fn open(store: &Path, fixed: Fixed) -> outlive::Builder {
    Engine::open(store).workflow("poison", poison).workflow("slow", slow).provide(fixed)
}

/// Not a test by itself: the process that aborts, when [`abort_repeatedly`] starts it.
#[tokio::test]
async fn child() {
    let Ok(plan) = std::env::var(STORE) else { return };
    let (how, store): (Poison, PathBuf) = serde_json::from_str(&plan).unwrap();
    let engine = open(&store, Fixed(false)).start().await.unwrap();
    let start_poison = || engine.start(poison, &(how, store.clone())).id("poison");
    if how != Poison::Last {
        start_poison().await.unwrap();
    }
    let mut others = Vec::new();
    for n in 0..OTHERS {
        others.push(engine.start(slow, &n).id(&format!("slow-{n}")).await.unwrap());
    }
    let poison = start_poison().await.unwrap();
    std::fs::write(started(&store), "").unwrap();
    for run in others {
        // The parent checks how they ended.
        let _ = run.result().await;
    }
    let _ = poison.result().await;
    engine.shutdown().await.unwrap();
}

/// Starts the child until it ends by itself.
fn abort_repeatedly(store: &Path, how: Poison) {
    for _ in 1..=20 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["panics::child", "--exact", "--nocapture"]);
        command.env(STORE, serde_json::to_string(&(how, store)).unwrap());
        if command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success() {
            return;
        }
    }
    panic!("the process still crashes after 20 starts");
}

async fn assert_poison_alone_is_stuck(how: Poison) {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    abort_repeatedly(&store, how);
    let client = Client::open(&store).unwrap();
    for n in 0..OTHERS {
        let run: Run<u32> = client.get_run(&format!("slow-{n}")).await.unwrap();
        let info = run.info().await.unwrap();
        assert_eq!(info.status, Status::Completed, "only the poison run is stuck: {info:?}");
    }
    let run: Run<u32> = client.get_run("poison").await.unwrap();
    let note = note(&run).await;
    assert!(note.contains("crashed the process 4 times"), "{note}");
}

#[tokio::test]
async fn run_that_aborts_the_process_is_stuck_and_runs_started_after_it_finish() {
    assert_poison_alone_is_stuck(Poison::First).await;
}

#[tokio::test]
async fn run_that_aborts_the_process_is_stuck_and_runs_started_before_it_finish() {
    assert_poison_alone_is_stuck(Poison::Last).await;
}

#[tokio::test]
async fn run_that_aborts_the_process_on_resume_affects_no_other_run() {
    assert_poison_alone_is_stuck(Poison::Sudden).await;
}

#[tokio::test]
async fn run_stuck_for_aborts_waits_for_a_retry_and_then_finishes() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    abort_repeatedly(&store, Poison::Last);
    let engine = open(&store, Fixed(true)).start().await.unwrap();
    let run: Run<u32> = engine.get_run("poison").await.unwrap();
    assert_eq!(run.status().await.unwrap(), Status::Stuck, "a restart alone does not retry it");
    run.retry().await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    assert_eq!(run.completed_steps().await.unwrap(), ["before", "abort"]);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn crashes_are_not_blamed_on_a_run_that_makes_progress() {
    // Each life of the process completes one more step: a slow run is not a poison run.
    let lives = Arc::new(AtomicU32::new(0));
    let counted = lives.clone();
    let mut test = engine(
        move |ctx: Ctx, (): ()| {
            let lives = counted.clone();
            async move {
                for n in 0..10 {
                    let is_done = |lives: &AtomicU32| lives.load(Ordering::Relaxed) > n;
                    let body = || async { if is_done(&lives) { ok(n).await } else { never().await } };
                    ctx.step("part", body).key(n).await?;
                }
                Ok(10)
            }
        },
        true,
    )
    .await;
    begin::<u32>(&test).await;
    for life in 1..=10 {
        lives.store(life, Ordering::Relaxed);
        restart(&mut test).await;
    }
    assert_eq!(test.result(&again::<u32>(&test).await).await.unwrap(), 10);
}

/// A panic's payload is user code, too: dropping it crashed the driver, and the run stayed `running` forever.
#[tokio::test]
async fn panic_whose_payload_panics_when_dropped_is_caught() {
    struct Grenade;
    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    async fn in_the_body(_: Ctx, _: ()) -> Result<()> {
        std::panic::panic_any(Grenade)
    }
    async fn in_a_step(ctx: Ctx, _: ()) -> Result<u32> {
        let body = |attempt: Attempt| async move {
            if attempt.number == 1 {
                std::panic::panic_any(Grenade);
            }
            outlive::Ok(attempt.number)
        };
        Ok(ctx.step("throw", body).retry(1).await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("body", in_the_body).workflow("step", in_a_step)).await;
    let body = test.start(in_the_body, &()).await.unwrap();
    let step = test.start(in_a_step, &()).await.unwrap();
    assert_eq!(test.result(&step).await.unwrap(), 2, "the panic was a failed attempt");
    test.settle().await;
    assert_eq!(body.status().await.unwrap(), Status::Stuck);
}
