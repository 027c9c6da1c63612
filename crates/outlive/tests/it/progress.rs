//! How far a run is: what each of its branches waits for, from any process, and statuses that say it.

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

/// It was "paused (retry until ..)", and nothing said which step, which attempt and why.
#[tokio::test]
async fn a_retry_says_its_step_its_attempt_and_the_last_failure() {
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
    assert_eq!(info.status_text(progress.at), "retrying (charge card, attempt 3 in 12 s)", "a list says the same");
}

/// One wins a race, and three others go on.
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
        told = ctx.wait::<()>("go away").timeout("3 days") => told?,
        told = ctx.wait::<()>("stop") => told?,
    }
    Ok(())
}

/// A branch that lost its race has an entry without an end, and is not waited for.
#[tokio::test]
async fn all_branches_are_listed_and_none_that_lost_its_race() {
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

/// The row names the first of them; the journal has the others.
#[tokio::test]
async fn a_crowd_of_branches_is_listed_whole() {
    let test = TestEngine::new(|engine| engine.workflow("crowd", crowd)).await;
    let run = test.start(crowd, &40).await.unwrap();
    test.settle().await;
    assert!(run.info().await.unwrap().note.unwrap().len() < 1_000, "the note has its limit");
    assert_eq!(run.progress().await.unwrap().branches.len(), 40);
}

async fn approve(ctx: Ctx, _: ()) -> Result<String> {
    Ok(ctx.wait("approval").timeout("3 days").await?)
}

#[tokio::test]
async fn another_process_sees_it_too() {
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
async fn a_running_run_says_which_attempt_is_under_way() {
    let engine = Engine::open("memory:").workflow("slow", slow).start().await.unwrap();
    let run = engine.start(slow, &()).await.unwrap();
    while run.journal().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let progress = run.progress().await.unwrap();
    assert_eq!(progress.to_string(), "running (wait, attempt 1)");
    assert_eq!((progress.next_at(), progress.attempt()), (None, Some(1)));
}

/// Everything that rests was "paused".
#[tokio::test]
async fn only_what_somebody_paused_is_paused() {
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

/// It was "running".
#[tokio::test]
async fn a_task_with_a_wake_is_scheduled() {
    let test = TestEngine::new(|engine| engine.job(ORDERS.on_event(order).execute(check))).await;
    for (id, hours, status) in [("a", 2, JobStatus::Scheduled), ("b", 0, JobStatus::Idle)] {
        test.job(ORDERS).ask::<()>(id, &hours).await.unwrap();
        test.settle().await;
        assert_eq!(test.job(ORDERS).status(id).await.unwrap().status, status, "{id}");
    }
    let summary = &test.jobs().await.unwrap()[0];
    assert_eq!((summary.running, summary.scheduled, summary.idle), (0, 1, 1));
}
