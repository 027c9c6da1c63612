//! Retry, rewind, cancel and purge of all runs that a filter selects.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use outlive::BulkProgress;
use outlive::prelude::*;
use outlive_testkit::TestEngine;

#[derive(Clone, Default)]
struct Service {
    is_up: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
}

async fn order(ctx: Ctx, n: u32) -> Result<u32> {
    let service = ctx.get::<Service>();
    let charge = || async {
        service.calls.fetch_add(1, Ordering::Relaxed);
        if service.is_up.load(Ordering::Relaxed) || n.is_multiple_of(2) { Ok(n) } else { Err(BoxError::from("down")) }
    };
    Ok(ctx.step("charge", charge).await?)
}

async fn approve(ctx: Ctx, _: u32) -> Result<u32> {
    Ok(ctx.wait("approval").await?)
}

async fn engine(count: u32) -> (TestEngine, Service) {
    let service = Service::default();
    let provided = service.clone();
    let setup = move |engine: outlive::Builder| {
        engine.workflow("order", order).workflow("approve", approve).provide(provided.clone())
    };
    let test = TestEngine::new(setup).await;
    for n in 0..count {
        test.start(order, &n).id(&format!("order-{n}")).await.unwrap();
    }
    test.settle().await;
    (test, service)
}

async fn count(test: &TestEngine, kind: StatusKind) -> u64 {
    test.count(Filter::runs()).await.unwrap().of(kind)
}

#[tokio::test]
async fn retry_takes_failed_and_stuck_runs_of_the_filter_and_no_others() {
    let (test, service) = engine(600).await;
    assert_eq!(count(&test, StatusKind::Failed).await, 300);
    service.is_up.store(true, Ordering::Relaxed);
    let dry = test.retry_where(Filter::runs().workflow("order")).dry_run().await.unwrap();
    assert_eq!((dry.done, dry.skipped, count(&test, StatusKind::Failed).await), (300, 0, 300));
    let seen: Arc<Mutex<Vec<BulkProgress>>> = Arc::default();
    let keep = seen.clone();
    let bulk = test.retry_where(Filter::runs().workflow("order")).limit(250);
    let outcome = bulk.on_progress(move |progress| keep.lock().unwrap().push(progress)).await.unwrap();
    assert_eq!((outcome.done, outcome.skipped), (250, 0));
    test.settle().await;
    assert_eq!(count(&test, StatusKind::Failed).await, 50);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 250);
    assert!(seen.iter().zip(1..).all(|(progress, n)| progress.done == n && progress.total == 250));
}

#[tokio::test]
async fn run_that_fails_again_is_retried_once() {
    let (test, service) = engine(20).await;
    let outcome = test.retry_where(Filter::runs()).await.unwrap();
    test.settle().await;
    assert_eq!(outcome.done, 10);
    assert_eq!(service.calls.load(Ordering::Relaxed), 30);
}

#[tokio::test]
async fn runs_to_which_a_change_does_not_apply_are_skipped_with_a_reason() {
    let (test, _) = engine(4).await;
    let all = [StatusKind::Completed, StatusKind::Failed];
    let filter = all.into_iter().fold(Filter::runs(), Filter::status);
    let outcome = test.retry_where(filter.clone()).await.unwrap();
    test.settle().await;
    assert_eq!((outcome.done, outcome.skipped), (2, 2));
    assert_eq!(
        outcome.problems[0],
        ("order-2".to_owned(), "run \"order-2\" is completed; only a failed or stuck run can be retried".to_owned())
    );
    let outcome = test.rewind_where(filter, "ship").await.unwrap();
    assert_eq!((outcome.done, outcome.skipped), (0, 4));
    assert!(outcome.problems[0].1.contains("has not recorded \"ship\""), "{outcome}");
}

#[tokio::test]
async fn rewind_repeats_a_step_of_all_runs() {
    let (test, service) = engine(100).await;
    service.is_up.store(true, Ordering::Relaxed);
    let filter = || Filter::runs().id_prefix("order-");
    assert_eq!(test.rewind_where(filter(), "charge").dry_run().await.unwrap().done, 100);
    assert_eq!(service.calls.load(Ordering::Relaxed), 100);
    assert_eq!(test.rewind_where(filter(), "charge").await.unwrap().done, 100);
    test.settle().await;
    assert_eq!(service.calls.load(Ordering::Relaxed), 200);
    assert_eq!(count(&test, StatusKind::Completed).await, 100);
}

#[tokio::test]
async fn cancel_and_purge_take_the_runs_they_can() {
    let (test, _) = engine(10).await;
    for n in 0..5 {
        test.start(approve, &n).await.unwrap();
    }
    test.settle().await;
    let outcome = test.cancel_where(Filter::runs(), "not needed").await.unwrap();
    test.settle().await;
    assert_eq!((outcome.done, count(&test, StatusKind::Cancelled).await), (5, 5));
    let outcome = test.purge_where(Filter::runs()).limit(3).await.unwrap();
    assert_eq!(outcome.done, 3);
    let outcome = test.purge_where(Filter::runs().workflow("order")).await.unwrap();
    assert_eq!((outcome.done, test.count(Filter::runs()).await.unwrap().total()), (10, 2));
}

#[tokio::test]
async fn dropped_bulk_stops() {
    let (test, _) = engine(1_000).await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let bulk = test.purge_where(Filter::runs()).on_progress(move |progress| {
        let _ = told.send(progress.done);
    });
    tokio::select! {
        _ = bulk => panic!("it was not dropped"),
        first = heard.recv() => assert_eq!(first, Some(1)),
    }
    test.settle().await;
    let left = test.count(Filter::runs()).await.unwrap().total();
    assert!(left > 0 && left < 1_000, "{left} runs are left");
}
