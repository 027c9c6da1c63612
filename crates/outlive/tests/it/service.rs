//! Running inside a service: shutdown through a shared handle, lock handover at a deploy, dropped runtimes, and errors
//! that name the alternatives. Real files and the real clock.

use std::sync::Arc;
use std::time::Duration;

use outlive::prelude::*;
use outlive::{Client, ErrorKind};
use outlive_testkit::TestEngine;

async fn double(_: Ctx, n: u32) -> Result<u32> {
    Ok(n * 2)
}

#[tokio::test]
async fn shared_engine_can_be_shut_down_more_than_once() {
    let engine = Arc::new(Engine::open("memory:").workflow("double", double).start().await.unwrap());
    let (one, other) = (engine.clone(), engine.clone());
    let (one, other) = tokio::join!(one.shutdown(), other.shutdown());
    one.unwrap();
    other.unwrap();
    engine.shutdown().await.unwrap();
    assert_eq!(engine.start(double, &21).await.unwrap_err().code(), "shutdown");
}

/// A dropped engine kept the lock until the last client was dropped.
#[tokio::test]
async fn dropped_engine_releases_its_lock_while_a_client_lives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let engine = Engine::open(&path).workflow("double", double).start().await.unwrap();
    let client = engine.client();
    drop(engine);
    let next = Engine::open(&path).workflow("double", double).wait_for_lock("1 minute").start().await.unwrap();
    assert_eq!(client.start(double, &21).await.unwrap_err().code(), "shutdown");
    assert_eq!(next.start(double, &21).await.unwrap().result().await.unwrap(), 42);
}

#[tokio::test]
async fn engine_waits_for_the_lock_up_to_its_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let old = Engine::open(&path).start().await.unwrap();
    let refused = Engine::open(&path).wait_for_lock("100 ms").start().await;
    assert!(refused.unwrap_err().is_locked());
    let waiting = tokio::spawn(Engine::open(&path).wait_for_lock("1 minute").start());
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!waiting.is_finished());
    old.shutdown().await.unwrap();
    waiting.await.unwrap().unwrap();
}

/// Calls from another runtime waited forever.
#[test]
fn calls_fail_after_their_runtime_was_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let first = runtime();
    let engine = first.block_on(Engine::open("memory:").workflow("double", double).start()).unwrap();
    let client = first.block_on(async { Client::open(&path) }).unwrap();
    let asleep = first.block_on(engine.start_json("double", "21").id("r")).unwrap();
    drop(first);
    runtime().block_on(async {
        assert_eq!(engine.start(double, &21).await.unwrap_err().code(), "shutdown");
        assert_eq!(client.start_json("double", "21").await.unwrap_err().code(), "shutdown");
        // The run has ended, or nothing is left that could end it.
        let _ = asleep.result().await;
    });
}

/// What broke: the task that writes had not run yet when its runtime was dropped, and calls waited for it forever.
#[test]
fn calls_fail_after_a_runtime_that_never_ran_was_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let client = first.block_on(async { Client::open(dir.path().join("shop.db")) }).unwrap();
    drop(first);
    let started = runtime().block_on(client.start_json("double", "21"));
    assert_eq!(started.unwrap_err().code(), "shutdown");
}

#[tokio::test]
async fn missing_value_error_lists_the_provided_types() {
    struct Mailer;
    async fn price(ctx: Ctx, _: ()) -> Result<String> {
        Ok(ctx.try_get::<String>().unwrap_err().to_string())
    }
    let test = TestEngine::new(|engine| engine.workflow("price", price).provide(Mailer).provide(7_u32)).await;
    let run = test.start(price, &()).await.unwrap();
    let text = test.result(&run).await.unwrap();
    assert!(text.contains("alloc::string::String") && text.contains("Mailer, u32"), "{text}");
}

#[tokio::test]
async fn unregistered_workflow_error_lists_the_registered_ones() {
    let mut test = TestEngine::new(|engine| engine.workflow("triple", double)).await;
    test.start_json("triple", "1").id("r").delay("1 hour").await.unwrap();
    test.deploy(|engine| engine.workflow("double", double)).await;
    let run: Run<u32> = test.get_run("r").await.unwrap();
    let error = test.result(&run).await.unwrap_err().to_string();
    assert!(error.contains("\"triple\"") && error.contains("registered: double"), "{error}");
}

#[tokio::test]
async fn timeout_error_has_its_limit_and_the_elapsed_time() {
    async fn slow(ctx: Ctx, _: ()) -> Result<(u64, u64, bool)> {
        let step = ctx.step("slow", std::future::pending::<Result<()>>).timeout("5 seconds");
        let error = step.await.unwrap_err();
        let Error::Timeout { timeout, elapsed, .. } = &error else { return Err(error.into()) };
        Ok((timeout.as_secs(), elapsed.as_secs(), error.kind() == ErrorKind::Timeout))
    }
    let mut test = TestEngine::new(|engine| engine.workflow("slow", slow)).await;
    let run = test.start(slow, &()).id("r").await.unwrap();
    test.settle().await;
    let reported = test.result(&run).await.unwrap();
    assert_eq!(reported, (5, 5, true));
    test.crash().await;
    let run: Run<(u64, u64, bool)> = test.get_run("r").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), reported);
}
