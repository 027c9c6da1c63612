//! Patches: runs in flight keep the path they began with, and new ones take the new path.

use outlive::prelude::*;
use outlive::workflow::Strict;
use outlive_testkit::{TestEngine, crash_everywhere};

async fn say(text: &'static str) -> Result<String> {
    Ok(text.to_owned())
}

async fn before(ctx: Ctx, _: ()) -> Result<Vec<String>> {
    let first = ctx.step("old", || say("old")).await?;
    ctx.sleep("1 day").await?;
    Ok(vec![first, ctx.step("last", || say("last")).await?])
}

async fn after(ctx: Ctx, _: ()) -> Result<Vec<String>> {
    let first = match ctx.patched("new first").await? {
        true => ctx.step("new", || say("new")).await?,
        false => ctx.step("old", || say("old")).await?,
    };
    ctx.sleep("1 day").await?;
    let mut said = vec![first];
    if ctx.patched("middle").await? {
        said.push(ctx.step("middle", || say("middle")).await?);
    }
    said.push(ctx.step("last", || say("last")).await?);
    Ok(said)
}

async fn without_patches(ctx: Ctx, _: ()) -> Result<Vec<String>> {
    let first = ctx.step("new", || say("new")).await?;
    ctx.sleep("1 day").await?;
    let middle = ctx.step("middle", || say("middle")).await?;
    Ok(vec![first, middle, ctx.step("last", || say("last")).await?])
}

#[tokio::test]
async fn new_run_takes_the_new_path() {
    let test = TestEngine::new(|engine| engine.workflow("order", after)).await;
    let run = test.start(after, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), ["new", "middle", "last"]);
}

#[tokio::test]
async fn run_in_flight_keeps_what_it_has_done_and_takes_new_paths_after_it() {
    let mut test = TestEngine::new(|engine| engine.workflow("order", before)).await;
    let run = test.start(before, &()).await.unwrap();
    test.settle().await;
    test.deploy(|engine| engine.workflow("order", after)).await;
    test.settle().await;
    test.crash().await;
    test.advance("1 day").await;
    assert_eq!(run.result().await.unwrap(), ["old", "middle", "last"]);
}

#[tokio::test]
async fn removed_patch_does_not_disturb_a_strict_run() {
    let mut test = TestEngine::new(|engine| engine.workflow("order", Strict(after))).await;
    let run = test.start(after, &()).await.unwrap();
    test.settle().await;
    test.deploy(|engine| engine.workflow("order", Strict(without_patches))).await;
    test.advance("1 day").await;
    assert_eq!(run.result().await.unwrap(), ["new", "middle", "last"]);
}

#[tokio::test]
async fn check_reports_a_patched_deploy_as_fine() {
    let test = TestEngine::new(|engine| engine.workflow("order", before)).await;
    test.start(before, &()).await.unwrap();
    test.settle().await;
    let report = Engine::open("memory:").workflow("order", after).check(test.store()).await.unwrap();
    assert!(report.is_fine(), "{report}");
}

#[tokio::test]
async fn patches_survive_a_crash_at_every_commit() {
    crash_everywhere(after).input(&()).run().await;
}

async fn in_a_loop(ctx: Ctx, _: ()) -> Result<Vec<bool>> {
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(ctx.patched("loop").await?);
        ctx.sleep("1 hour").await?;
    }
    Ok(seen)
}

async fn plain_loop(ctx: Ctx, _: ()) -> Result<Vec<bool>> {
    for _ in 0..3 {
        ctx.sleep("1 hour").await?;
    }
    Ok(Vec::new())
}

#[tokio::test]
async fn loop_takes_the_new_path_from_where_the_deploy_found_it() {
    let mut test = TestEngine::new(|engine| engine.workflow("loop", plain_loop)).await;
    test.start(plain_loop, &()).id("l").await.unwrap();
    test.advance("90 minutes").await;
    test.deploy(|engine| engine.workflow("loop", in_a_loop)).await;
    for _ in 0..3 {
        test.crash().await;
        test.advance("1 hour").await;
    }
    let run = test.client().get_run::<Vec<bool>>("l").await.unwrap();
    assert_eq!(run.result().await.unwrap(), [false, false, true]);
}
