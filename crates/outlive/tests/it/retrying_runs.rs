//! `run.retry()` of a failed run: what made it fail runs again, whatever was recorded after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use outlive::prelude::*;
use outlive::workflow::Strict;
use outlive_testkit::TestEngine;

/// A service that is down until it is fixed, and how often it was called.
#[derive(Clone, Default)]
struct Service {
    is_up: Arc<AtomicBool>,
    calls: Arc<AtomicU32>,
}

impl Service {
    async fn charge(&self) -> Result<u32> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.is_up.load(Ordering::Relaxed) { Ok(7) } else { Err("the service is down".into()) }
    }
}

async fn fine() -> Result<u32> {
    Ok(1)
}

async fn sibling_ends_later(ctx: Ctx, _: ()) -> Result<u32> {
    let service = ctx.get::<Service>();
    let (charged, mailed) = tokio::join!(ctx.step("charge", || service.charge()), async {
        ctx.sleep("1 second").await?;
        ctx.step("mail", fine).await
    });
    Ok(charged? + mailed?)
}

async fn cleans_up(ctx: Ctx, _: ()) -> Result<u32> {
    let service = ctx.get::<Service>();
    match ctx.step("charge", || service.charge()).await {
        Ok(charged) => Ok(charged + 1),
        Err(error) => {
            ctx.step("release stock", fine).await?;
            Err(error.into())
        }
    }
}

async fn sleeps_before_it_fails(ctx: Ctx, _: ()) -> Result<u32> {
    let service = ctx.get::<Service>();
    let charged = ctx.step("charge", || service.charge()).await;
    ctx.sleep("1 hour").await?;
    Ok(charged? + 1)
}

async fn collects(ctx: Ctx, _: ()) -> Result<u32> {
    let each = |scope: Ctx, n: u32| async move {
        let service = scope.get::<Service>().clone();
        let result = match n {
            1 => scope.step("charge", || service.charge()).await,
            _ => scope.step("mail", fine).await,
        };
        outlive::Ok(result.map_err(|error| error.to_string()))
    };
    let results = ctx.map([1, 2], |n| *n, each).await?;
    let values: std::result::Result<Vec<u32>, String> = results.into_iter().collect();
    Ok(values?.into_iter().sum())
}

/// A failure that the code has dealt with is not the one that made the run fail.
async fn falls_back_first(ctx: Ctx, _: ()) -> Result<u32> {
    let service = ctx.get::<Service>();
    let other = ctx.step("optional", || async { Err::<u32, BoxError>("not today".into()) }).await.unwrap_or(0);
    Ok(ctx.step("charge", || service.charge()).await? + other + 1)
}

async fn check<F: outlive::workflow::WorkflowFn<M, Input = (), Output = u32> + Copy, M: 'static>(workflow: F) {
    let service = Service::default();
    let provided = service.clone();
    let mut test = TestEngine::new(move |engine| engine.workflow("order", workflow).provide(provided.clone())).await;
    let run = test.start(workflow, &()).await.unwrap();
    assert!(test.result(&run).await.is_err());
    assert_eq!(service.calls.load(Ordering::Relaxed), 1);
    service.is_up.store(true, Ordering::Relaxed);
    run.retry().await.unwrap();
    test.settle().await;
    test.crash().await;
    assert_eq!(test.result(&run).await.unwrap(), 8);
    assert_eq!(service.calls.load(Ordering::Relaxed), 2, "the rest is kept");
    assert!(test.executions("optional") <= 1, "what was dealt with is kept");
}

#[tokio::test]
async fn retry_runs_what_failed_although_a_sibling_ended_later() {
    check(sibling_ends_later).await;
}

#[tokio::test]
async fn retry_runs_what_failed_although_a_clean_up_ran_after_it() {
    check(cleans_up).await;
}

/// The clean-up is recorded and not asked for any more, which is no reason to be stuck.
#[tokio::test]
async fn strict_run_is_retried_although_a_clean_up_ran() {
    let service = Service::default();
    let provided = service.clone();
    let setup = move |engine: outlive::Builder| engine.workflow("order", Strict(cleans_up)).provide(provided.clone());
    let test = TestEngine::new(setup).await;
    let run = test.start(cleans_up, &()).await.unwrap();
    assert!(test.result(&run).await.is_err());
    service.is_up.store(true, Ordering::Relaxed);
    run.retry().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 8);
}

#[tokio::test]
async fn retry_runs_what_failed_although_a_sleep_followed() {
    check(sleeps_before_it_fails).await;
}

#[tokio::test]
async fn retry_runs_what_failed_among_collected_results() {
    check(collects).await;
}

#[tokio::test]
async fn retry_keeps_a_failure_that_the_code_has_dealt_with() {
    check(falls_back_first).await;
}

async fn receiver(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.wait("hello").await?)
}

async fn sender(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.signal("receiver", "hello", &7).await?;
    Ok(1)
}

#[tokio::test]
async fn retry_sends_again_what_was_refused() {
    let test = TestEngine::new(|engine| engine.workflow("sender", sender).workflow("receiver", receiver)).await;
    let run = test.start(sender, &()).await.unwrap();
    assert!(test.result(&run).await.is_err());
    let other = test.start(receiver, &()).id("receiver").await.unwrap();
    run.retry().await.unwrap();
    assert_eq!((test.result(&run).await.unwrap(), test.result(&other).await.unwrap()), (1, 7));
}

async fn child(ctx: Ctx, _: ()) -> Result<u32> {
    let service = ctx.get::<Service>();
    Ok(ctx.step("charge", || service.charge()).await?)
}

async fn parent(ctx: Ctx, _: ()) -> Result<u32> {
    let paid = ctx.run(child, &()).await;
    ctx.step("mail", fine).await?;
    Ok(paid? + 1)
}

#[tokio::test]
async fn parent_continues_once_its_child_and_then_itself_are_retried() {
    let service = Service::default();
    let provided = service.clone();
    let setup = move |engine: outlive::Builder| {
        engine.workflow("parent", parent).workflow("child", child).provide(provided.clone())
    };
    let test = TestEngine::new(setup).await;
    let run = test.start(parent, &()).id("p").await.unwrap();
    assert!(test.result(&run).await.is_err());
    service.is_up.store(true, Ordering::Relaxed);
    let inner = test.client().get_run::<u32>("p/child").await.unwrap();
    inner.retry().await.unwrap();
    assert_eq!(test.result(&inner).await.unwrap(), 7);
    run.retry().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 8);
}
