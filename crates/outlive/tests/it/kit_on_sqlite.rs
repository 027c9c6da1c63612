//! The test engine on a SQLite store, whose replies come from other threads: time moves only once all have arrived.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use outlive::clock::Clock;
use outlive::job::{Task, TaskCtx};
use outlive::prelude::*;
use outlive_sqlite::{Options, SqliteStore};
use outlive_testkit::{Fault, Faults, TestEngine};
use tempfile::TempDir;

/// The engine did not always notice that a store call was still pending.
const TIMES: usize = 20;

fn store() -> (TempDir, Arc<SqliteStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("test.db"), Options::default()).unwrap();
    (folder, Arc::new(store))
}

async fn nap(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.sleep("1 hour").await?)
}

#[tokio::test]
async fn sleep_is_stored_once_the_engine_is_settled() {
    let (_folder, store) = store();
    let test = TestEngine::new(|engine| engine.workflow("nap", nap)).store(store).await;
    for _ in 0..TIMES {
        let run = test.start(nap, &()).await.unwrap();
        test.settle().await;
        let due = test.next_due().await.expect("the sleep is set");
        assert_eq!(due.since(test.clock().now()).as_secs(), 3_600);
        assert_eq!(run.status().await.unwrap().kind().as_str(), "sleeping");
        test.advance("59 minutes").await;
        assert!(!run.status().await.unwrap().is_ended());
        test.advance("1 minute").await;
        assert_eq!(run.status().await.unwrap(), Status::Completed);
    }
}

async fn order(ctx: Ctx, n: u32) -> Result<u32> {
    let paid = ctx.step("charge", move || async move { Ok::<_, BoxError>(n) }).retry(3).await?;
    ctx.sleep("1 hour").await?;
    let more: u32 = ctx.wait("more").timeout("1 day").await.unwrap_or(0);
    ctx.sleep("2 hours").await?;
    Ok(paid + more)
}

#[tokio::test]
async fn skip_time_runs_every_run_to_its_end() {
    let (_folder, store) = store();
    let mut test = TestEngine::new(|engine| engine.workflow("order", order)).store(store).await;
    for n in 0..TIMES {
        test.fail_next("charge", "not yet");
        let run = test.start(order, &1).id(&format!("order {n}")).await.unwrap();
        test.advance("70 minutes").await;
        if n % 2 == 0 {
            run.signal("more", &10).await.unwrap();
        }
        if n % 3 == 0 {
            test.crash().await;
        }
        test.skip_time().await;
        let run: Run<u32> = test.get_run(run.id()).await.unwrap();
        assert_eq!(run.status().await.unwrap(), Status::Completed, "order {n}");
        assert_eq!(run.result().await.unwrap(), if n % 2 == 0 { 11 } else { 1 });
    }
    assert_eq!(test.executions("charge"), 2 * TIMES as u64);
}

#[tokio::test]
async fn result_of_a_run_that_needs_a_signal_is_an_error() {
    let (_folder, store) = store();
    async fn approve(ctx: Ctx, _: ()) -> Result<bool> {
        ctx.sleep("1 day").await?;
        Ok(ctx.wait("approval").await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("approve", approve)).store(store).await;
    let run = test.start(approve, &()).await.unwrap();
    assert!(matches!(test.result(&run).await, Err(Error::Status { .. })));
    run.signal("approval", &true).await.unwrap();
    assert!(test.result(&run).await.unwrap());
}

const REMINDERS: Task<u32, u32> = Task::new("reminders");

async fn plan(ctx: TaskCtx<u32, u32>, _: u32) -> Result<()> {
    Ok(ctx.schedule_in("1 day")?)
}

async fn remind(ctx: TaskCtx<u32, u32>) -> Result<()> {
    ctx.update_state(|count| *count += 1);
    Ok(ctx.schedule_in("1 day")?)
}

#[tokio::test]
async fn advance_drives_jobs_from_one_due_time_to_the_next() {
    let (_folder, store) = store();
    let setup = |engine: outlive::Builder| engine.job(REMINDERS.on_event(plan).execute(remind));
    let test = TestEngine::new(setup).store(store).await;
    test.job(REMINDERS).send("ada", &1).await.unwrap();
    test.advance("20 days").await;
    assert_eq!(test.job(REMINDERS).state("ada").await.unwrap(), Some(20));
}

/// A store that plays dead does not reply, and nothing may wait for it.
#[tokio::test]
async fn dead_store_is_not_waited_for() {
    for fault in [Fault::CrashBefore(2), Fault::CrashAfter(2)] {
        let (_folder, store) = store();
        let faults = Arc::new(Faults::new(store));
        faults.add(fault);
        let mut test = TestEngine::new(|engine| engine.workflow("nap", nap)).store(faults.clone()).await;
        let run = test.start(nap, &()).await.unwrap();
        test.skip_time().await;
        assert!(faults.is_dead());
        faults.revive();
        test.crash().await;
        test.result(&run).await.unwrap();
    }
}

/// A call whose reply is never polled holds up nothing.
#[tokio::test]
async fn reply_that_is_never_polled_is_not_waited_for() {
    let (_folder, store) = store();
    let test = TestEngine::new(|engine| engine.workflow("nap", nap)).store(store).await;
    let run = test.start(nap, &()).await.unwrap();
    let mut asked = std::pin::pin!(run.status());
    let polled = std::future::poll_fn(|cx| Poll::Ready(asked.as_mut().poll(cx))).await;
    test.advance("1 hour").await;
    if polled.is_pending() {
        asked.await.unwrap();
    }
    assert_eq!(run.status().await.unwrap(), Status::Completed);
}

/// Memory of a process.
#[derive(Default)]
struct Memory(AtomicU32);

async fn remembers(ctx: Ctx, _: ()) -> Result<(u32, u32)> {
    let (own, shared) = (ctx.get::<Memory>(), ctx.get::<Arc<AtomicU32>>());
    let count = |memory: &AtomicU32| memory.fetch_add(1, Ordering::Relaxed);
    Ok(ctx.step("count", || async { Ok::<_, BoxError>((count(&own.0), count(shared))) }).await?)
}

/// Values created in the closure die with the process; captured ones do not.
#[tokio::test]
async fn each_life_of_a_test_engine_runs_its_setup_again() {
    let shared = Arc::new(AtomicU32::new(0));
    let setup = move |engine: outlive::Builder| {
        engine.workflow("remembers", remembers).provide(Memory::default()).provide(shared.clone())
    };
    let mut test = TestEngine::new(setup).await;
    for life in 0..3 {
        let run = test.start(remembers, &()).await.unwrap();
        assert_eq!(test.result(&run).await.unwrap(), (0, life));
        test.crash().await;
    }
}
