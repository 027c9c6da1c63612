//! Deadlines: a run that takes too long is cancelled, whatever it does at that time.

use outlive::prelude::*;
use outlive_testkit::TestEngine;

async fn sleeper(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.sleep("30 days").await?)
}

async fn tidy(ctx: Ctx, _: ()) -> Result<u32> {
    if let Err(error) = ctx.wait::<u32>("go").await {
        ctx.step("clean up", || async { outlive::Ok(()) }).await?;
        return Err(error.into());
    }
    Ok(1)
}

async fn busy(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.step("forever", std::future::pending::<Result<u32>>).await?)
}

async fn quick(ctx: Ctx, _: ()) -> Result<Option<Timestamp>> {
    ctx.sleep("1 minute").await?;
    Ok(ctx.info().deadline)
}

async fn with_child(ctx: Ctx, _: ()) -> Result<String> {
    Ok(ctx.run(sleeper, &()).deadline("2 hours").await.unwrap_err().to_string())
}

async fn kit() -> TestEngine {
    TestEngine::new(|engine| {
        engine
            .workflow("sleeper", sleeper)
            .workflow("tidy", tidy)
            .workflow("busy", busy)
            .workflow("quick", quick)
            .workflow("with child", with_child)
    })
    .await
}

#[tokio::test]
async fn sleeping_run_is_cancelled_at_its_deadline() {
    let test = kit().await;
    let run = test.start(sleeper, &()).deadline("1 hour").await.unwrap();
    test.advance("59 minutes").await;
    assert!(matches!(run.status().await.unwrap(), Status::Sleeping { .. }));
    test.advance("1 minute").await;
    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
    assert_eq!(run.info().await.unwrap().note.as_deref(), Some("its deadline has passed"));
}

#[tokio::test]
async fn deadline_that_passed_during_downtime_cancels_at_the_next_start() {
    let mut test = kit().await;
    let run = test.start(tidy, &()).deadline("1 hour").await.unwrap();
    test.settle().await;
    test.clock().advance(std::time::Duration::from_secs(3 * 86_400));
    test.crash().await;
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
    assert_eq!(run.completed_steps().await.unwrap(), ["clean up"]);
}

#[tokio::test]
async fn running_body_is_dropped_at_the_deadline() {
    let test = kit().await;
    let run = test.start(busy, &()).deadline("1 hour").await.unwrap();
    test.advance("1 hour").await;
    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
}

#[tokio::test]
async fn run_paused_by_hand_is_cancelled_at_its_deadline() {
    let test = kit().await;
    let run = test.start(sleeper, &()).deadline("1 hour").await.unwrap();
    test.settle().await;
    run.pause().await.unwrap();
    test.advance("2 hours").await;
    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
}

#[tokio::test]
async fn delayed_run_whose_deadline_comes_first_never_begins() {
    let test = kit().await;
    let run = test.start(busy, &()).delay("1 day").deadline("1 hour").await.unwrap();
    test.advance("1 hour").await;
    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
    assert!(run.journal().await.unwrap().is_empty());
}

#[tokio::test]
async fn run_that_ends_in_time_is_not_cancelled() {
    let test = kit().await;
    let run = test.start(quick, &()).deadline("2 minutes").await.unwrap();
    let at = run.info().await.unwrap().created_at;
    assert_eq!(test.result(&run).await.unwrap(), Some(at.after(std::time::Duration::from_secs(120))));
    test.advance("1 day").await;
    assert_eq!(run.status().await.unwrap(), Status::Completed);
}

#[tokio::test]
async fn child_has_a_deadline_of_its_own() {
    let test = kit().await;
    let run = test.start(with_child, &()).id("p").await.unwrap();
    let expected = "child \"p/sleeper\" failed: it was cancelled: its deadline has passed";
    assert_eq!(test.result(&run).await.unwrap(), expected);
}

#[tokio::test]
async fn deadline_of_zero_is_refused() {
    let test = kit().await;
    let error = test.start(quick, &()).deadline(0).await.unwrap_err();
    assert_eq!(error.to_string(), "the deadline of a run must be greater than zero");
}
