//! Child workflows: their results, failures and ends, through crashes and cancels.

use outlive::job::{Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use outlive::{Cause, Error};
use outlive_testkit::TestEngine;

async fn double(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.sleep("1 hour").await?;
    Ok(ctx.step("double", || async { outlive::Ok(n * 2) }).await?)
}

async fn failing(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.sleep("1 hour").await?;
    Err("no stock".into())
}

async fn parent(ctx: Ctx, n: u32) -> Result<u32> {
    Ok(ctx.run(double, &n).await? + 1)
}

async fn patient(ctx: Ctx, _: ()) -> Result<()> {
    ctx.wait::<outlive::IgnoredAny>("go").await?;
    Ok(())
}

async fn kit() -> TestEngine {
    TestEngine::new(|engine| {
        engine
            .workflow("double", double)
            .workflow("failing", failing)
            .workflow("parent", parent)
            .workflow("patient", patient)
            .workflow("catching", catching)
            .workflow("spawning", spawning)
            .workflow("holding", holding)
            .workflow("fan out", fan_out)
            .workflow("deep", deep)
            .workflow("sending", sending)
            .workflow("flaky", flaky)
            .job(TALLY.on_event(tally).execute(idle))
            .job(MAIL.concurrency(2).execute(mail))
    })
    .await
}

#[tokio::test]
async fn child_result_is_returned_to_its_parent() {
    let test = kit().await;
    let run = test.start(parent, &20).id("p").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 41);
    let child = test.client().get_run::<u32>("p/double").await.unwrap();
    assert_eq!(child.result().await.unwrap(), 40);
}

#[tokio::test]
async fn waiting_parent_survives_crashes() {
    let mut test = kit().await;
    test.start(parent, &20).id("p").await.unwrap();
    for _ in 0..4 {
        test.crash().await;
        test.advance("20 minutes").await;
    }
    let run = test.client().get_run::<u32>("p").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 41);
    assert_eq!(test.client().count(Filter::runs()).await.unwrap().total(), 2);
}

async fn catching(ctx: Ctx, _: ()) -> Result<String> {
    match ctx.run(failing, &()).id("the-child").await {
        Err(Error::Child { id, failure }) => Ok(format!("{id}: {failure}")),
        other => Ok(format!("{other:?}")),
    }
}

#[tokio::test]
async fn failed_child_is_an_error_with_its_id_and_failure() {
    let test = kit().await;
    let run = test.start(catching, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "the-child: no stock");
}

async fn spawning(ctx: Ctx, _: ()) -> Result<String> {
    let child = ctx.spawn(patient, &()).await?;
    child.cancel("enough").await?;
    let error = child.result().await.unwrap_err();
    assert_eq!(error.failure().unwrap().cause, Cause::Cancelled);
    Ok(error.to_string())
}

#[tokio::test]
async fn spawned_child_can_be_cancelled_by_its_handle() {
    let test = kit().await;
    let run = test.start(spawning, &()).id("s").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "child \"s/patient\" failed: it was cancelled: enough");
}

async fn holding(ctx: Ctx, _: ()) -> Result<()> {
    let _attached = ctx.spawn(patient, &()).id("attached").await?;
    let _detached = ctx.spawn(patient, &()).id("detached").detach().await?;
    ctx.wait::<outlive::IgnoredAny>("end").await?;
    Ok(())
}

async fn statuses(test: &TestEngine) -> (Status, Status) {
    let client = test.client();
    let status = async |id: &str| client.get_run::<()>(id).await.unwrap().status().await.unwrap();
    (status("attached").await, status("detached").await)
}

#[tokio::test]
async fn attached_child_ends_with_its_parent_and_detached_one_continues() {
    let waiting = Status::Waiting { until: None };
    for how in ["cancel", "terminate", "complete"] {
        let test = kit().await;
        let run = test.start(holding, &()).await.unwrap();
        test.settle().await;
        assert_eq!(statuses(&test).await, (waiting, waiting), "{how}");
        match how {
            "cancel" => drop(run.cancel("enough").await.unwrap()),
            "terminate" => drop(run.terminate("enough").await.unwrap()),
            _ => drop(run.signal("end", &()).await.unwrap()),
        }
        test.settle().await;
        assert_eq!(statuses(&test).await, (Status::Cancelled, waiting), "{how}");
    }
}

async fn fan_out(ctx: Ctx, count: u32) -> Result<u64> {
    let all = ctx.map(0..count, |n| *n, |ctx, n| async move { ctx.run(double, &n).await }).concurrency(100).await?;
    Ok(all.into_iter().map(u64::from).sum())
}

#[tokio::test]
async fn many_children_run_at_once() {
    let test = kit().await;
    let run = test.start(fan_out, &500).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), (0..500).map(|n| n * 2).sum::<u64>());
}

/// A workflow that starts itself needs a contract: the type of its own future is not known yet.
const DEEP: Workflow<u32, u32> = Workflow::new("deep");

async fn deep(ctx: Ctx, depth: u32) -> Result<u32> {
    match depth {
        0 => Ok(ctx.run(double, &1).await?),
        _ => Ok(ctx.run(DEEP, &(depth - 1)).await? + 1),
    }
}

#[tokio::test]
async fn children_have_children() {
    let mut test = kit().await;
    let run = test.start(deep, &5).id("d").await.unwrap();
    test.settle().await;
    test.crash().await;
    test.advance("1 hour").await;
    assert_eq!(run.result().await.unwrap(), 7);
    assert!(test.client().get_run::<u32>("d/deep/deep/deep/deep/deep/double").await.is_ok());
}

#[tokio::test]
async fn id_can_be_reused_although_children_of_the_earlier_run_exist() {
    let test = kit().await;
    for _ in 0..2 {
        let run = test.start(parent, &20).id("p").await.unwrap();
        assert_eq!(test.result(&run).await.unwrap(), 41);
        run.purge().await.unwrap();
    }
    assert_eq!(test.client().count(Filter::runs()).await.unwrap().total(), 2);
}

const TALLY: Task<u32, u32> = Task::new("tally");
const MAIL: WorkerPool<String> = WorkerPool::new("mail");

async fn tally(ctx: TaskCtx<u32, u32>, n: u32) -> Result<u32> {
    Ok(ctx.update_state(|sum| {
        *sum += n;
        *sum
    }))
}

async fn idle(_: TaskCtx<u32, u32>) -> Result<()> {
    Ok(())
}

async fn mail(ctx: WorkerPoolCtx<String>, to: String) -> Result<()> {
    ctx.signal(&to, "go", &())?;
    Ok(())
}

async fn sending(ctx: Ctx, _: ()) -> Result<Vec<String>> {
    let started = ctx.start(patient, &()).id("friend").await?;
    ctx.send(TALLY, "one", &3).await?;
    ctx.sleep("1 minute").await?;
    ctx.send(TALLY, "one", &4).await?;
    ctx.push(MAIL, &started).await?;
    let missing = ctx.signal("nobody", "go", &()).await.unwrap_err();
    let fresh = ctx.start(patient, &()).tag("kind", "fresh").await?;
    ctx.signal(&fresh, "go", &()).await?;
    Ok(vec![started, missing.code().to_owned()])
}

#[tokio::test]
async fn effects_happen_once_through_crashes() {
    let mut test = kit().await;
    let run = test.start(sending, &()).await.unwrap();
    test.settle().await;
    test.crash().await;
    test.advance("1 minute").await;
    test.crash().await;
    test.settle().await;
    assert_eq!(run.result().await.unwrap(), ["friend", "not_found"]);
    let client = test.client();
    assert_eq!(client.job(TALLY).state("one").await.unwrap(), Some(7));
    assert_eq!(client.get_run::<()>("friend").await.unwrap().status().await.unwrap(), Status::Completed);
    let fresh = client.list(Filter::runs().tag("kind", "fresh")).await.unwrap().runs;
    assert_eq!(fresh.iter().map(|run| run.status).collect::<Vec<_>>(), [Status::Completed]);
}

async fn flaky(ctx: Ctx, _: ()) -> Result<String> {
    let attached = ctx.spawn(patient, &()).id("attached").await?;
    let quick = ctx.spawn(double, &1).id("quick").await?;
    ctx.sleep("2 hours").await?; // the quick child ends, and nobody waits for it yet
    ctx.step("pay", || async { outlive::Ok(()) }).await?;
    let cancelled = attached.result().await.unwrap_err();
    Ok(format!("{}, {cancelled}", quick.result().await?))
}

/// Regression: the inbox of a run is cleared when it fails, and an ended run accepts no messages, so the outcomes of its
/// children were lost. The retried parent waited for them forever.
#[tokio::test]
async fn retried_parent_learns_how_its_children_ended() {
    let test = kit().await;
    test.fail_next("pay", "declined");
    let run = test.start(flaky, &()).await.unwrap();
    assert!(test.result(&run).await.is_err());
    run.retry().await.unwrap();
    let result = test.result(&run).await.unwrap();
    assert_eq!(result, "2, child \"attached\" failed: it was cancelled: its parent has ended: failed");
}
