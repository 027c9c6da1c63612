//! Progress of a run: what each of its branches waits for, seen from any process, and the statuses that show it.

use std::time::Duration;

use outlive::job::{JobStatus, Task, TaskCtx};
use outlive::prelude::*;
use outlive::{Branch, Jitter, Progress};
use outlive_testkit::TestEngine;

async fn closed() -> Result<()> {
    Err("the bank is closed".into())
}

fn sleep(operation: &str, until: Timestamp) -> Branch {
    Branch::Sleep { operation: operation.into(), until }
}

fn signal(name: &str, until: Option<Timestamp>) -> Branch {
    Branch::Signal { name: name.into(), until }
}

async fn pay(ctx: Ctx, _: ()) -> Result<()> {
    ctx.step("look", || async { outlive::Ok(()) }).await?;
    Ok(ctx.step("charge card", closed).retry(Retry::times(5).constant("12 seconds").jitter(Jitter::none())).await?)
}

/// The status was "paused (retry until ..)", without the step, the attempt or the reason.
#[tokio::test]
async fn progress_of_a_retry_names_step_attempt_and_last_failure() {
    let test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    let run = test.start(pay, &()).await.unwrap();
    test.advance("12 seconds").await;
    let progress = run.progress().await.unwrap();
    assert_eq!(progress.to_string(), "retrying (charge card, attempt 3 in 12 s)");
    let at = progress.at.after(Duration::from_secs(12));
    assert_eq!(progress.branches, [Branch::Retry { step: "charge card".into(), attempt: 3, at }]);
    assert_eq!((progress.attempt(), progress.next_at(), progress.completed), (Some(3), Some(at), 1));
    assert_eq!(progress.last_failure.unwrap().message, "the bank is closed");
    let info = run.info().await.unwrap();
    assert_eq!(info.status_text(progress.at), "retrying (charge card, attempt 3 in 12 s)", "a list shows the same");
}

/// One branch wins a race, then four others wait.
async fn branches(ctx: Ctx, _: ()) -> Result<()> {
    tokio::select! {
        biased;
        first = ctx.wait::<()>("go") => first?,
        late = ctx.sleep("30 days") => late?,
        late = ctx.wait::<()>("go away").timeout("40 days") => late?,
    }
    let charge = ctx.step("charge card", closed).retry(Retry::times(5).constant("1 hour").jitter(Jitter::none()));
    tokio::select! {
        charged = charge => charged?,
        slept = ctx.sleep("1 day") => slept?,
        signalled = ctx.wait::<()>("go away").timeout("3 days") => signalled?,
        signalled = ctx.wait::<()>("stop") => signalled?,
    }
    Ok(())
}

/// A branch that lost its race has an entry without an end, and the run does not wait for it.
#[tokio::test]
async fn progress_lists_all_branches_but_none_that_lost_a_race() {
    let test = TestEngine::new(|engine| engine.workflow("branches", branches)).await;
    let run = test.start(branches, &()).await.unwrap();
    test.settle().await;
    let progress = run.progress().await.unwrap();
    let after = |from: &Progress, hours: u64| from.at.after(Duration::from_secs(hours * 3_600));
    let all = [
        sleep("sleep", after(&progress, 30 * 24)),
        signal("go away", Some(after(&progress, 40 * 24))),
        signal("go", None),
    ];
    assert_eq!(progress.branches, all);
    run.signal("go", &()).await.unwrap();
    test.settle().await;
    let progress = run.progress().await.unwrap();
    let all = [
        Branch::Retry { step: "charge card".into(), attempt: 2, at: after(&progress, 1) },
        sleep("sleep#2", after(&progress, 24)),
        signal("go away", Some(after(&progress, 3 * 24))),
        signal("stop", None),
    ];
    assert_eq!(progress.branches, all);
    assert_eq!(progress.to_string(), "retrying (charge card, attempt 2 in 1h)");
    assert_eq!(progress.completed, 1);
}

async fn crowd(ctx: Ctx, count: u64) -> Result<()> {
    ctx.map(0..count, |n| *n, |ctx, _| async move { ctx.sleep("1 day").await }).await?;
    Ok(())
}

/// The row names the first branches; the journal has the others.
#[tokio::test]
async fn progress_lists_a_large_number_of_branches_completely() {
    let test = TestEngine::new(|engine| engine.workflow("crowd", crowd)).await;
    let run = test.start(crowd, &40).await.unwrap();
    test.settle().await;
    assert!(run.info().await.unwrap().note.unwrap().len() < 1_000, "the note is bounded");
    assert_eq!(run.progress().await.unwrap().branches.len(), 40);
}

async fn approve(ctx: Ctx, _: ()) -> Result<String> {
    Ok(ctx.wait("approval").timeout("3 days").await?)
}

#[tokio::test]
async fn another_process_sees_the_progress_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let engine = Engine::open(&path).workflow("approve", approve).start().await.unwrap();
    engine.start(approve, &()).id("order-1").await.unwrap();
    let run = Client::open(&path).unwrap().get_run::<String>("order-1").await.unwrap();
    while !run.status().await.unwrap().is_idle() {
        tokio::task::yield_now().await;
    }
    let progress = run.progress().await.unwrap();
    let text = progress.to_string();
    assert!(["waiting (approval, 3d left)", "waiting (approval, 2d 23h left)"].contains(&&*text), "{text}");
    assert!(matches!(&progress.branches[..], [Branch::Signal { name, until: Some(_) }] if name == "approval"));
    engine.shutdown().await.unwrap();
}

/// A step with a timeout has its start recorded.
async fn slow(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.step("wait", std::future::pending::<Result<()>>).timeout("1 hour").await?)
}

#[tokio::test]
async fn progress_of_a_running_run_names_the_current_attempt() {
    let engine = Engine::open("memory:").workflow("slow", slow).start().await.unwrap();
    let run = engine.start(slow, &()).await.unwrap();
    while run.journal().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let progress = run.progress().await.unwrap();
    assert_eq!(progress.to_string(), "running (wait, attempt 1)");
    assert_eq!((progress.next_at(), progress.attempt()), (None, Some(1)));
}

/// Every idle run was "paused".
#[tokio::test]
async fn only_a_manually_paused_run_is_paused() {
    let test = TestEngine::new(|engine| engine.workflow("approve", approve)).await;
    let run = test.start(approve, &()).await.unwrap();
    test.settle().await;
    assert!(run.status().await.unwrap().to_string().starts_with("waiting (until 20"));
    run.pause().await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap().to_string(), "paused");
    let progress = run.progress().await.unwrap();
    assert_eq!((progress.to_string().as_str(), progress.branches.len()), ("paused", 0));
}

const ORDERS: Task<u32, ()> = Task::new("orders");

async fn order(ctx: TaskCtx<u32, ()>, hours: u32) -> Result<()> {
    if hours > 0 {
        ctx.schedule_in(Duration::from_secs(u64::from(hours) * 3_600))?;
    }
    Ok(())
}

async fn check(_: TaskCtx<u32, ()>) -> Result<()> {
    Ok(())
}

/// Its status was "running".
#[tokio::test]
async fn task_with_a_wake_is_scheduled() {
    let test = TestEngine::new(|engine| engine.job(ORDERS.on_event(order).execute(check))).await;
    for (id, hours, status) in [("a", 2, JobStatus::Scheduled), ("b", 0, JobStatus::Idle)] {
        test.job(ORDERS).ask::<()>(id, &hours).await.unwrap();
        test.settle().await;
        assert_eq!(test.job(ORDERS).status(id).await.unwrap().status, status, "{id}");
    }
    let summary = &test.jobs().await.unwrap()[0];
    assert_eq!((summary.running, summary.scheduled, summary.idle), (0, 1, 1));
}
