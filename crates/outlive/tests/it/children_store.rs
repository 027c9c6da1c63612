//! Parents and children in a real store: reopened files, stuck and paused ones, and what a parent protects.

use std::sync::Arc;

use outlive::prelude::*;
use outlive::{Builder, Error, OnConflict};
use outlive_sqlite::{Options, SqliteStore};
use outlive_testkit::TestEngine;

async fn double(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.sleep("1 hour").await?;
    Ok(ctx.step("double", || async { outlive::Ok(n * 2) }).await?)
}

async fn parent(ctx: Ctx, n: u32) -> Result<u32> {
    Ok(ctx.run(double, &n).id("child").await? + 1)
}

async fn patient(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.wait("go").await?)
}

async fn waiting(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.run(patient, &()).id("child").await? + 1)
}

async fn broken(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("look", || async { outlive::Ok(()) }).await?;
    panic!("a bug")
}

async fn careful(ctx: Ctx, _: ()) -> Result<String> {
    Ok(ctx.run(broken, &()).id("child").await.unwrap_err().to_string())
}

fn workflows(engine: Builder) -> Builder {
    engine
        .workflow("patient", patient)
        .workflow("waiting", waiting)
        .workflow("double", double)
        .workflow("parent", parent)
        .workflow("broken", broken)
        .workflow("careful", careful)
}

/// An engine on a file, and the directory that holds it.
async fn on_a_file(setup: fn(Builder) -> Builder) -> (TestEngine, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&home.path().join("runs.db"), Options::default()).unwrap();
    (TestEngine::new(setup).store(Arc::new(store)).await, home)
}

#[tokio::test]
async fn family_lives_on_in_a_reopened_file() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", home.path().join("runs.db").display());
    let engine = workflows(Engine::open(&url)).start().await.unwrap();
    engine.start(waiting, &()).id("p").await.unwrap();
    while engine.get_run::<u32>("child").await.is_err() {
        tokio::task::yield_now().await;
    }
    engine.shutdown().await.unwrap();
    let engine = workflows(Engine::open(&url)).start().await.unwrap();
    engine.get_run::<u32>("child").await.unwrap().signal("go", &40).await.unwrap();
    assert_eq!(engine.get_run::<u32>("p").await.unwrap().result().await.unwrap(), 41);
    assert_eq!(engine.count(Filter::runs()).await.unwrap().total(), 2);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn stuck_child_that_is_cancelled_wakes_its_parent_in_memory_or_not() {
    for max_resident in [100, 1] {
        let setup: fn(Builder) -> Builder = match max_resident {
            1 => |engine| workflows(engine).max_resident(1),
            _ => workflows,
        };
        let (test, _home) = on_a_file(setup).await;
        let run = test.start(careful, &()).await.unwrap();
        test.settle().await;
        let child = test.client().get_run::<u32>("child").await.unwrap();
        assert_eq!(child.status().await.unwrap(), Status::Stuck);
        child.cancel("hopeless").await.unwrap();
        let result = test.result(&run).await.unwrap();
        assert_eq!(result, "child \"child\" failed: it was cancelled: hopeless", "{max_resident}");
    }
}

#[tokio::test]
async fn parent_paused_by_hand_gets_the_result_of_its_child_when_it_is_resumed() {
    for crashes in [false, true] {
        let (mut test, _home) = on_a_file(workflows).await;
        let run = test.start(parent, &20).id("p").await.unwrap();
        test.settle().await;
        run.pause().await.unwrap();
        test.advance("2 hours").await;
        assert_eq!(test.client().get_run::<u32>("child").await.unwrap().result().await.unwrap(), 40);
        assert_eq!(run.status().await.unwrap(), Status::Paused);
        if crashes {
            test.crash().await;
            test.settle().await;
        }
        let run = test.client().get_run::<u32>("p").await.unwrap();
        assert_eq!(run.status().await.unwrap(), Status::Paused);
        run.resume().await.unwrap();
        assert_eq!(test.result(&run).await.unwrap(), 41);
    }
}

#[tokio::test]
async fn child_that_its_parent_waits_for_is_neither_purged_nor_replaced() {
    let (test, _home) = on_a_file(workflows).await;
    let run = test.start(careful, &()).id("p").await.unwrap();
    test.settle().await;
    let child = test.client().get_run::<u32>("child").await.unwrap();
    let purged = child.purge().await.unwrap_err();
    let replaced = test.start(broken, &()).id("child").on_conflict(OnConflict::Replace).await.unwrap_err();
    for error in [purged, replaced] {
        assert!(matches!(&error, Error::ChildOf { id, parent } if id == "child" && parent == "p"), "{error:?}");
    }
    run.terminate("enough").await.unwrap();
    test.settle().await;
    assert_eq!(child.status().await.unwrap(), Status::Cancelled);
    child.purge().await.unwrap();
}
