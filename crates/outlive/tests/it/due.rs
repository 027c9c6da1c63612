//! Finding due work: nothing at the head of the store blocks it, and memory holds only the near future.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use outlive::prelude::*;
use outlive::{Durability, Filter, StatusKind};
use outlive_testkit::TestEngine;
use tokio::sync::Semaphore;

/// More than one page of wakes.
const MANY: usize = 4_200;

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// A step that runs until the gate opens and ignores messages.
async fn long(ctx: Ctx, n: usize) -> Result<usize> {
    let gate = ctx.get::<Arc<Semaphore>>().clone();
    let body = || async {
        gate.acquire().await?.forget();
        ok(n).await
    };
    Ok(ctx.step("long", body).await?)
}

async fn short(ctx: Ctx, n: usize) -> Result<usize> {
    Ok(ctx.step("short", || ok(n)).await?)
}

async fn waits(ctx: Ctx, _: ()) -> Result<usize> {
    let gate = ctx.get::<Arc<Semaphore>>().clone();
    let work = ctx.step("work", || async {
        gate.acquire().await?.forget();
        ok(0).await
    });
    let (_, first, second) =
        tokio::try_join!(work, ctx.wait::<usize>("go").key("1"), ctx.wait::<usize>("go").key("2"))?;
    Ok(first + second)
}

async fn naps(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.sleep("30 days").await?)
}

async fn dozes(ctx: Ctx, n: u64) -> Result<()> {
    for _ in 0..n {
        tokio::select! {
            biased;
            _ = ctx.wait::<u64>("again") => {}
            _ = ctx.sleep("40 seconds") => {}
        }
    }
    Ok(ctx.sleep("40 seconds").await?)
}

/// Fails if something never happens.
async fn soon<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap_or_else(|_| panic!("{what} never happens"))
}

/// Runs that get a message from another process during a step stay due in the store until they commit. When there were
/// more of them than fit a page, no other due work was ever found.
#[tokio::test]
async fn outside_starts_are_found_among_many_runs_with_unread_messages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let gate = Arc::new(Semaphore::new(0));
    let engine = Engine::open(&path)
        .durability(Durability::Relaxed)
        .workflow("long", long)
        .workflow("short", short)
        .provide(gate.clone())
        .start()
        .await
        .unwrap();
    let runs = try_join_all((0..MANY).map(|n| engine.start(long, &n))).await.unwrap();
    let outside = Client::open(&path).unwrap();
    let signals = runs.iter().map(|run| {
        let (outside, id) = (outside.clone(), run.id().to_owned());
        async move { outside.get_run::<usize>(&id).await?.signal("hello", &1).await }
    });
    try_join_all(signals).await.unwrap();
    for n in 0..3 {
        let run = outside.start(Workflow::<usize, usize>::new("short"), &n).await.unwrap();
        assert_eq!(soon("a start from outside", run.result()).await.unwrap(), n);
    }
    let late = outside.start(Workflow::<usize, usize>::new("short"), &7).delay("50 ms").await.unwrap();
    assert_eq!(soon("a delayed start", late.result()).await.unwrap(), 7);
    gate.add_permits(MANY);
    for (n, run) in runs.iter().enumerate() {
        assert_eq!(soon("the end of a step", run.result()).await.unwrap(), n);
    }
    engine.shutdown().await.unwrap();
}

/// A run in a step becomes due with its first message and stays due; it must also notice the second.
#[tokio::test]
async fn every_outside_message_reaches_a_run_in_a_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let gate = Arc::new(Semaphore::new(0));
    let engine = Engine::open(&path).workflow("waits", waits).provide(gate.clone()).start().await.unwrap();
    let run = engine.start(waits, &()).await.unwrap();
    let outside: Run<usize> = Client::open(&path).unwrap().get_run(run.id()).await.unwrap();
    for n in 1..=2 {
        outside.signal("go", &n).await.unwrap();
        let taken = async {
            while run.journal().await.unwrap().len() < n {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        soon("a message to a run in a step", taken).await;
    }
    gate.add_permits(1);
    assert_eq!(soon("the end", run.result()).await.unwrap(), 3);
    engine.shutdown().await.unwrap();
}

/// The wake of a long sleep stayed in memory for 30 days after its run had left.
#[tokio::test]
async fn run_that_leaves_memory_leaves_no_wake_behind() {
    let test = TestEngine::new(|engine| engine.workflow("naps", naps)).await;
    for _ in 0..20 {
        test.start(naps, &()).await.unwrap();
    }
    test.settle().await;
    assert_eq!(test.resident(), 20);
    test.advance("1 minute").await;
    assert_eq!((test.resident(), test.wakes_held()), (0, 0));
    test.advance("30 days").await;
    assert_eq!(test.count(Filter::runs().status(StatusKind::Completed)).await.unwrap().total(), 20);
}

/// A run that resumed early left its old wake behind each time.
#[tokio::test]
async fn run_that_resumes_early_removes_its_wake() {
    let test = TestEngine::new(|engine| engine.workflow("dozes", dozes)).await;
    let run = test.start(dozes, &50).await.unwrap();
    for n in 0..50_u64 {
        test.advance("10 ms").await;
        run.signal("again", &n).await.unwrap();
    }
    test.settle().await;
    assert!(test.wakes_held() <= 1, "{} wakes of one run", test.wakes_held());
    test.result(&run).await.unwrap();
}
