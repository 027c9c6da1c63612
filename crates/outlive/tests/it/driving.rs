//! Hard cases for a driver: futures that wake themselves, errors whose `Display` panics, a retry right after the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use outlive::prelude::*;
use outlive_testkit::{Fault, Faults, TestEngine};

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// Is pending this many times, and wakes itself each time.
async fn spin(mut times: u32) {
    std::future::poll_fn(move |cx| {
        if times == 0 {
            return Poll::Ready(());
        }
        times -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[tokio::test]
async fn workflow_that_wakes_itself_often_is_not_mistaken_for_idle() {
    // After 256 wakes it was, and paused forever, waiting for nothing.
    async fn spins(ctx: Ctx, _: ()) -> Result<u32> {
        spin(3_000).await;
        let got = ctx.step("after", || ok(7)).await?;
        spin(3_000).await;
        Ok(got)
    }
    let test = TestEngine::new(|engine| engine.workflow("spins", spins)).await;
    let run = test.start(spins, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 7);
}

#[tokio::test]
async fn wide_nested_map_replays_exactly() {
    // It wakes itself so often that outcomes were delivered before all branches had asked for theirs.
    async fn wide(ctx: Ctx, count: u32) -> Result<Vec<u32>> {
        let outer = |scope: Ctx, i: u32| async move {
            let inner = |scope: Ctx, i: u32| async move {
                let first = scope.step("one", || ok(i)).await?;
                Ok::<_, BoxError>(first + scope.step("two", || ok(1)).await?)
            };
            Ok::<_, BoxError>(scope.map([i], |_| 0, inner).await?[0])
        };
        let got = ctx.map(0..count, |i| *i, outer).await?;
        ctx.sleep("1 hour").await?;
        Ok(got)
    }
    let mut test = TestEngine::new(|engine| engine.workflow("wide", wide)).await;
    let run = test.start(wide, &700).await.unwrap();
    test.settle().await;
    test.crash().await;
    assert_eq!(test.result(&run).await.unwrap(), (1..=700).collect::<Vec<_>>());
    assert_eq!((test.executions("one"), test.executions("two")), (700, 700));
}

#[tokio::test]
async fn step_that_spins_on_another_task_lets_that_task_run() {
    async fn waits(ctx: Ctx, _: ()) -> Result<u32> {
        let body = || async {
            let is_set = Arc::new(AtomicBool::new(false));
            let flag = is_set.clone();
            tokio::spawn(async move { flag.store(true, Ordering::SeqCst) });
            while !is_set.load(Ordering::SeqCst) {
                spin(1).await;
            }
            Ok::<_, BoxError>(1)
        };
        Ok(ctx.step("spin", body).await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("waits", waits)).await;
    let run = test.start(waits, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 1);
}

#[tokio::test]
async fn backoff_that_uses_the_context_makes_the_run_stuck_and_does_not_hang() {
    async fn uses(ctx: Ctx, _: ()) -> Result<u32> {
        let inside = ctx.clone();
        let retry = Retry::times(3).custom(move |_| Duration::from_millis(inside.random() % 100));
        Ok(ctx.step("fails", || async { Err::<u32, BoxError>("no".into()) }).retry(retry).await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("uses", uses)).await;
    let run = test.start(uses, &()).await.unwrap();
    let error = test.result(&run).await.unwrap_err();
    assert!(
        error.is_stuck() && error.to_string().contains("a backoff or the type of a signal used the context"),
        "{error}"
    );
}

#[tokio::test]
async fn workflow_error_whose_display_panics_makes_the_run_stuck() {
    #[derive(Debug)]
    struct Undisplayable;
    impl std::fmt::Display for Undisplayable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("it cannot be displayed")
        }
    }
    impl std::error::Error for Undisplayable {}
    async fn fails(_: Ctx, _: ()) -> Result<(), Undisplayable> {
        Err(Undisplayable)
    }
    let test = TestEngine::new(|engine| engine.workflow("fails", fails)).await;
    let run = test.start(fails, &()).await.unwrap();
    let error = test.result(&run).await.unwrap_err();
    assert!(error.is_stuck() && error.to_string().contains("it cannot be displayed"), "{error}");
}

#[tokio::test]
async fn fallback_can_take_a_lock_the_timed_out_body_held() {
    async fn locks(ctx: Ctx, _: ()) -> Result<u32> {
        let lock = tokio::sync::Mutex::new(());
        let body = || async {
            let _held = lock.lock().await;
            std::future::pending::<Result<u32>>().await
        };
        let fallback = |_| async {
            let _held = lock.lock().await;
            Ok(5)
        };
        Ok(ctx.step("slow", body).timeout("1 second").fallback(fallback).await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("locks", locks)).await;
    let run = test.start(locks, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 5);
}

#[tokio::test]
async fn run_retried_right_after_its_end_runs_again() {
    // The claim found the previous driver, which had already read its last message.
    async fn flaky(ctx: Ctx, _: ()) -> Result<u32> {
        Ok(ctx.step("flaky", || async { Err::<u32, BoxError>("no".into()) }).await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("flaky", flaky)).await;
    let run = test.start(flaky, &()).await.unwrap();
    for executions in 1..50 {
        assert!(run.result().await.is_err());
        assert_eq!(test.executions("flaky"), executions);
        run.retry().await.unwrap();
    }
}

#[tokio::test]
async fn shutdown_while_an_at_most_once_step_starts_lets_it_run() {
    async fn once(ctx: Ctx, _: ()) -> Result<u32> {
        Ok(ctx.step("launch", || ok(1)).at_most_once().await?)
    }
    for turns in 0..12 {
        let store = Arc::new(outlive::MemoryStore::new());
        let open = || Engine::with_store(store.clone()).workflow("once", once);
        let engine = open().start().await.unwrap();
        let _ = engine.start(once, &()).id("r").await.unwrap();
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        engine.shutdown().await.unwrap();
        let engine = open().start().await.unwrap();
        let run: Run<u32> = engine.get_run("r").await.unwrap();
        assert_eq!(run.result().await.unwrap(), 1, "after {turns} turns");
    }
}

#[tokio::test(start_paused = true)]
async fn freed_place_in_memory_goes_to_a_waiting_run() {
    // A start took the last place in memory and gave it back, because the run already existed. The due run that had
    // found no place was not notified, and waited until something else happened.
    async fn once(ctx: Ctx, _: ()) -> Result<u32> {
        let is_open = *ctx.get::<bool>();
        Ok(ctx.step("a", || async move { if is_open { ok(7).await } else { std::future::pending().await } }).await?)
    }
    let store = Arc::new(Faults::new(Arc::new(outlive_core::store::memory::MemoryStore::new())));
    let clock = outlive_testkit::TestClock::new();
    let open = |is_open| {
        let engine = Engine::with_store(store.clone()).workflow("once", once).clock(clock.clone());
        engine.max_resident(1).provide(is_open)
    };
    let engine = open(false).start().await.unwrap();
    engine.start(once, &()).id("a").await.unwrap();
    engine.abandon().await;
    let engine = open(true).start().await.unwrap();
    // The start holds its place until the store has replied, which takes a while.
    store.add(Fault::UnknownAfter(store.writes() + 1));
    let run = engine.start(once, &()).id("a").await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), run.result()).await.expect("the run is resumed").unwrap();
}
