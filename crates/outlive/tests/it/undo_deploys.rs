//! Deploys that change undos: none is skipped, and a check says so before.

use outlive::check::Verdict;
use outlive::prelude::*;
use outlive::workflow::WorkflowFn;
use outlive_testkit::{TestEngine, check};

async fn value() -> Result<u32> {
    Ok(7)
}

async fn undo(_: u32) -> Result<()> {
    Ok(())
}

async fn rest(ctx: &Ctx) -> Result<u32> {
    ctx.sleep("1 day").await?;
    Ok(ctx.step("ship", || async { Err::<u32, BoxError>("no stock".into()) }).await?)
}

async fn v1(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("charge", value).undo("refund", undo).await?;
    rest(&ctx).await
}

async fn renamed(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("charge", value).undo("pay back", undo).await?;
    rest(&ctx).await
}

async fn without_undo(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("charge", value).await?;
    rest(&ctx).await
}

async fn without_step(ctx: Ctx, _: ()) -> Result<u32> {
    rest(&ctx).await
}

async fn step_renamed(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("charge card", value).was("charge").undo("refund", undo).await?;
    rest(&ctx).await
}

async fn added(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("charge", value).undo("refund", undo).undo("mail", undo).await?;
    rest(&ctx).await
}

async fn begun<F: WorkflowFn<M> + Copy, M: 'static>(workflow: F) -> TestEngine {
    let test = TestEngine::new(move |engine| engine.workflow("w", workflow)).await;
    test.start_json("w", "null").id("r").await.unwrap();
    test.settle().await;
    test
}

async fn foresee<F: WorkflowFn<M> + Copy, M: 'static>(test: &TestEngine, workflow: F) -> Verdict {
    check(test, |engine| engine.workflow("w", workflow)).await.runs()[0].verdict.clone()
}

async fn status(test: &TestEngine) -> (Status, String) {
    let info = test.client().get_run::<u32>("r").await.unwrap().info().await.unwrap();
    (info.status, info.note.unwrap_or_default())
}

async fn undone(test: &TestEngine) -> Vec<String> {
    let steps = test.client().get_run::<u32>("r").await.unwrap().completed_steps().await.unwrap();
    steps.into_iter().filter(|step| step.starts_with("undo:")).collect()
}

async fn lost<F: WorkflowFn<M> + Copy, M: 'static>(changed: F) {
    let mut test = begun(v1).await;
    assert_eq!(foresee(&test, v1).await, Verdict::Fine);
    let verdict = foresee(&test, changed).await;
    assert!(
        matches!(&verdict, Verdict::LostUndos { undos } if undos[0].name == "undo:refund[step:charge]"),
        "{verdict}"
    );
    assert_eq!(verdict.severity(), 2);
    test.deploy(move |engine| engine.workflow("w", changed)).await;
    test.skip_time().await;
    let (now, note) = status(&test).await;
    assert_eq!(now, Status::Stuck);
    assert!(note.contains("undo:refund[step:charge]"), "{note}");
    assert!(undone(&test).await.is_empty());
    assert!(matches!(foresee(&test, changed).await, Verdict::Stuck { .. }));
    test.deploy(|engine| engine.workflow("w", v1)).await;
    test.skip_time().await;
    assert_eq!(status(&test).await.0, Status::Failed);
    assert_eq!(undone(&test).await, ["undo:refund[charge]"]);
}

#[tokio::test]
async fn undo_that_a_deploy_renamed_makes_the_run_stuck() {
    lost(renamed).await;
}

#[tokio::test]
async fn undo_that_a_deploy_removed_makes_the_run_stuck() {
    lost(without_undo).await;
}

#[tokio::test]
async fn undo_whose_step_a_deploy_removed_makes_the_run_stuck() {
    lost(without_step).await;
}

#[tokio::test]
async fn undo_of_a_renamed_step_is_found() {
    let mut test = begun(v1).await;
    assert_eq!(foresee(&test, step_renamed).await, Verdict::Fine);
    test.deploy(|engine| engine.workflow("w", step_renamed)).await;
    test.skip_time().await;
    assert_eq!(status(&test).await.0, Status::Failed);
    assert_eq!(undone(&test).await, ["undo:refund[charge]"]);
}

#[tokio::test]
async fn undo_that_a_deploy_added_runs() {
    let mut test = begun(v1).await;
    assert_eq!(foresee(&test, added).await, Verdict::Fine);
    test.deploy(|engine| engine.workflow("w", added)).await;
    test.skip_time().await;
    assert_eq!(status(&test).await.0, Status::Failed);
    assert_eq!(undone(&test).await, ["undo:mail[charge]", "undo:refund[charge]"]);
}

async fn two(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("charge", value).undo("refund", undo).undo_retry(Retry::forever().constant("1 day")).await?;
    ctx.step("reserve", value).undo("release", undo).await?;
    Ok(ctx.step("ship", || async { Err::<u32, BoxError>("no stock".into()) }).await?)
}

/// It is undone in part, and the new code takes the failure for no reason to fail.
async fn continues(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("charge", value).undo("refund", undo).undo_retry(Retry::forever().constant("1 day")).await?;
    ctx.step("reserve", value).undo("release", undo).await?;
    let shipped = ctx.step("ship", || async { Err::<u32, BoxError>("no stock".into()) }).await;
    Ok(shipped.unwrap_or(0))
}

async fn waits(ctx: Ctx, _: ()) -> Result<u32> {
    continues(ctx.clone(), ()).await?;
    Ok(ctx.wait("new stock").await?)
}

async fn turned_back<F: WorkflowFn<M> + Copy, M: 'static>(changed: F) {
    let test = TestEngine::new(|engine| engine.workflow("w", two)).await;
    test.fail_next("refund", "the bank is closed");
    let run = test.start(two, &()).id("r").await.unwrap();
    test.settle().await;
    assert!(matches!(run.status().await.unwrap(), Status::Retrying { .. }));
    let mut test = test;
    assert_eq!(foresee(&test, two).await, Verdict::Fine);
    assert!(matches!(foresee(&test, changed).await, Verdict::Stuck { .. }));
    test.deploy(move |engine| engine.workflow("w", changed)).await;
    test.skip_time().await;
    let (now, note) = status(&test).await;
    assert_eq!((now, note.contains("undoes what it has done")), (Status::Stuck, true), "{note}");
    test.deploy(|engine| engine.workflow("w", two)).await;
    test.skip_time().await;
    assert_eq!(status(&test).await.0, Status::Failed);
    assert_eq!(undone(&test).await, ["undo:release[reserve]", "undo:refund[charge]"]);
}

#[tokio::test]
async fn run_that_began_to_undo_does_not_complete_with_new_code() {
    turned_back(continues).await;
}

#[tokio::test]
async fn run_that_began_to_undo_does_not_continue_with_new_code() {
    turned_back(waits).await;
}

async fn fails_at_once(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("charge", value).undo("refund", undo).await?;
    Err("gone".into())
}

#[tokio::test]
async fn check_says_that_a_run_would_fail_and_undo() {
    let test = begun(v1).await;
    assert!(matches!(foresee(&test, fails_at_once).await, Verdict::Fails { failure } if failure == "gone"));
}
