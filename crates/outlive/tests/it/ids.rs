//! Run ids: one run each, joined, rejected or replaced as requested, and free again after a purge.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use outlive::prelude::*;
use outlive_testkit::TestEngine;
use tokio::sync::Semaphore;

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

async fn double(ctx: Ctx, n: u32) -> Result<u32> {
    Ok(ctx.step("double", || ok(n * 2)).await?)
}

async fn other(ctx: Ctx, n: u32) -> Result<u32> {
    double(ctx, n).await
}

/// Runs a step, then waits for a number.
async fn waits(ctx: Ctx, n: u32) -> Result<u32> {
    let n = ctx.step("begin", || ok(n)).await?;
    Ok(n + ctx.wait::<u32>("n").await?)
}

/// Holds a step back until a permit is added.
struct Gate(Arc<Semaphore>);

impl Gate {
    async fn pass(&self) -> Result<()> {
        self.0.acquire().await?.forget();
        Ok(())
    }
}

async fn gated(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.step("gate", || ctx.get::<Gate>().pass()).await?;
    Ok(ctx.step("after", || ok(n)).await?)
}

async fn test() -> TestEngine {
    test_with(Arc::new(Semaphore::new(0))).await
}

async fn test_with(gate: Arc<Semaphore>) -> TestEngine {
    TestEngine::new(move |engine| {
        let engine = engine.workflow("double", double).workflow("other", other).workflow("waits", waits);
        engine.workflow("gated", gated).provide(Gate(gate.clone()))
    })
    .await
}

/// Returns everything that is stored about a run.
async fn kept<O>(test: &TestEngine, run: &Run<O>) -> String {
    let run: Run<serde_json::Value> = test.get_run(run.id()).await.unwrap();
    let counts = test.count(Filter::runs()).await.unwrap();
    format!("{:?} {:?} {counts:?}", run.info().await.unwrap(), run.journal().await.unwrap())
}

// ---- join ----

#[tokio::test]
async fn same_id_and_input_join_the_existing_run() {
    let test = test().await;
    let first = test.start(waits, &1).id("r").await.unwrap();
    test.settle().await;
    let second = test.start(waits, &1).id("r").await.unwrap();
    test.settle().await;
    first.signal("n", &10).await.unwrap();
    assert_eq!((test.result(&first).await.unwrap(), test.result(&second).await.unwrap()), (11, 11));
    assert_eq!((test.executions("begin"), test.count(Filter::runs()).await.unwrap().total()), (1, 1));
}

#[tokio::test]
async fn same_id_and_input_join_an_ended_run() {
    let mut test = test().await;
    test.start(double, &2).id("r").await.unwrap();
    test.settle().await;
    test.crash().await;
    let again = test.start(double, &2).id("r").await.unwrap();
    assert_eq!(again.result().await.unwrap(), 4);
    assert_eq!(test.executions("double"), 1);
}

#[tokio::test]
async fn joining_a_run_does_not_change_it() {
    let test = test().await;
    let run = test.start(waits, &1).id("r").tag("shop", "paris").await.unwrap();
    test.settle().await;
    let before = kept(&test, &run).await;
    test.advance("1 minute").await;
    test.start(waits, &1).id("r").tag("shop", "rome").delay("1 hour").await.unwrap();
    test.settle().await;
    assert_eq!(kept(&test, &run).await, before);
}

#[tokio::test]
async fn different_input_is_a_conflict_and_writes_nothing() {
    let test = test().await;
    for workflow in ["waits", "double"] {
        let run = test.start_json(workflow, "1").id(workflow).await.unwrap();
        test.settle().await;
        let before = kept(&test, &run).await;
        let error = test.start_json(workflow, "2").id(workflow).await.unwrap_err();
        assert!(matches!(&error, Error::Conflict { id, how: "with another input", .. } if id == workflow), "{error:?}");
        assert!(error.is_conflict() && error.to_string().contains(&format!("{workflow:?}")), "{error}");
        test.settle().await;
        assert_eq!(kept(&test, &run).await, before);
    }
}

#[tokio::test]
async fn different_workflow_is_a_conflict_and_writes_nothing() {
    let test = test().await;
    let run = test.start(double, &2).id("r").await.unwrap();
    test.settle().await;
    let before = kept(&test, &run).await;
    let error = test.start(other, &2).id("r").await.unwrap_err();
    assert!(matches!(&error, Error::Conflict { id, workflow, .. } if id == "r" && workflow == "double"), "{error:?}");
    test.settle().await;
    assert_eq!(kept(&test, &run).await, before);
}

#[tokio::test]
async fn reject_refuses_even_the_same_input_and_writes_nothing() {
    let test = test().await;
    let run = test.start(double, &2).id("r").on_conflict(OnConflict::Reject).await.unwrap();
    test.settle().await;
    let before = kept(&test, &run).await;
    let error = test.start(double, &2).id("r").on_conflict(OnConflict::Reject).await.unwrap_err();
    assert!(matches!(&error, Error::Conflict { id, .. } if id == "r"), "{error:?}");
    assert_eq!(kept(&test, &run).await, before);
}

#[tokio::test]
async fn refused_starts_free_their_place_in_memory() {
    // Each start that may be driven at once reserves a place in memory.
    let test = TestEngine::new(|engine| engine.workflow("double", double).max_resident(1)).await;
    test.start(double, &1).id("r").await.unwrap();
    for _ in 0..10 {
        test.start(double, &2).id("r").await.unwrap_err();
        test.start(double, &1).id("r").await.unwrap();
        test.start(double, &1).id("r").on_conflict(OnConflict::Reject).await.unwrap_err();
    }
    test.settle().await;
    assert_eq!(test.resident(), 0);
    let run = test.start(double, &3).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 6);
}

// ---- replace ----

#[tokio::test]
async fn replace_starts_a_new_run_in_place_of_an_ended_one() {
    let test = test().await;
    let old = test.start(double, &1).id("r").await.unwrap();
    test.settle().await;
    let new = test.start(double, &2).id("r").on_conflict(OnConflict::Replace).await.unwrap();
    assert_eq!(test.result(&new).await.unwrap(), 4);
    assert_eq!(test.count(Filter::runs()).await.unwrap().total(), 1);
    let error = old.status().await.unwrap_err();
    assert!(matches!(&error, Error::NotFound { id } if id == "r"), "{error:?}");
}

#[tokio::test]
async fn replace_ends_a_live_run_and_nothing_of_it_reaches_the_new_one() {
    let test = test().await;
    let old = test.start(waits, &1).id("r").await.unwrap();
    old.signal("n", &100).dedup_key("once").await.unwrap();
    let old = test.start(waits, &1).id("r").on_conflict(OnConflict::Replace).await.unwrap_or(old);
    test.settle().await;
    let new = test.start(waits, &2).id("r").on_conflict(OnConflict::Replace).await.unwrap();
    test.settle().await;
    for answer in [
        old.signal("n", &200).await.map(drop),
        old.pause().await,
        old.purge().await,
        old.cancel("no").await.map(|_| ()),
    ] {
        assert!(matches!(&answer, Err(Error::NotFound { .. })), "{answer:?}");
    }
    assert!(new.status().await.unwrap().is_idle());
    new.signal("n", &3).dedup_key("once").await.unwrap();
    assert_eq!(test.result(&new).await.unwrap(), 5);
}

#[tokio::test]
async fn replaced_run_with_a_running_step_writes_nothing_more() {
    let gate = Arc::new(Semaphore::new(0));
    let test = test_with(gate.clone()).await;
    test.start(gated, &1).id("r").await.unwrap();
    test.settle().await;
    let new = test.start(waits, &2).id("r").on_conflict(OnConflict::Replace).await.unwrap();
    test.settle().await;
    let before = kept(&test, &new).await;
    gate.add_permits(1);
    test.settle().await;
    assert_eq!(test.executions("after"), 0);
    assert_eq!(kept(&test, &new).await, before);
    assert_eq!(test.resident(), 1, "the old one has left memory");
}

#[tokio::test]
async fn waiting_for_the_result_of_a_replaced_run_returns_not_found() {
    let test = test().await;
    let old = test.start(waits, &1).id("r").await.unwrap();
    test.settle().await;
    let waiting = tokio::spawn(async move { old.result().await });
    test.settle().await;
    test.start(waits, &2).id("r").on_conflict(OnConflict::Replace).await.unwrap();
    test.settle().await;
    assert!(waiting.is_finished(), "no result will ever come");
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
}

// ---- purge ----

#[tokio::test]
async fn id_reused_after_a_purge_sees_nothing_old() {
    let mut test = test().await;
    let old = test.start(waits, &1).id("r").delay("1 minute").await.unwrap();
    old.signal("n", &10).dedup_key("once").await.unwrap();
    // This one is never taken.
    old.signal("n", &11).await.unwrap();
    assert_eq!(test.result(&old).await.unwrap(), 11);
    old.purge().await.unwrap();
    assert!(test.get_run::<u32>("r").await.unwrap_err().is_not_found());
    assert_eq!(test.count(Filter::runs()).await.unwrap().total(), 0);

    let new = test.start(waits, &2).id("r").await.unwrap();
    test.settle().await;
    test.crash().await;
    test.advance("1 hour").await;
    let new: Run<u32> = test.get_run(new.id()).await.unwrap();
    assert_eq!(new.completed_steps().await.unwrap(), ["begin"]);
    assert_eq!(test.executions("begin"), 2);
    new.signal("n", &20).dedup_key("once").await.unwrap();
    assert_eq!(test.result(&new).await.unwrap(), 22);
    assert!(old.journal().await.is_err());
}

#[tokio::test]
async fn old_handle_does_not_reach_a_new_run_with_the_same_id() {
    let test = test().await;
    let old = test.start(double, &1).id("r").await.unwrap();
    test.settle().await;
    old.purge().await.unwrap();
    let new = test.start(waits, &2).id("r").await.unwrap();
    test.settle().await;
    let gone = [
        old.status().await.map(|_| ()),
        old.info().await.map(|_| ()),
        old.journal().await.map(|_| ()),
        old.result().await.map(|_| ()),
        old.signal("n", &1).await.map(drop),
        old.cancel("no").await.map(|_| ()),
        old.terminate("no").await.map(|_| ()),
        old.pause().await,
        old.retry().await,
        old.purge().await,
    ];
    for (n, answer) in gone.into_iter().enumerate() {
        assert!(matches!(&answer, Err(Error::NotFound { .. })), "{n}: {answer:?}");
    }
    test.settle().await;
    new.signal("n", &3).await.unwrap();
    assert_eq!(test.result(&new).await.unwrap(), 5);
}

#[tokio::test]
async fn live_run_cannot_be_purged() {
    let test = test().await;
    let pending = test.start(waits, &1).delay("1 hour").await.unwrap();
    let paused = test.start(waits, &1).await.unwrap();
    let running = test.start(gated, &1).await.unwrap();
    test.settle().await;
    for run in [pending, paused, running] {
        let before = kept(&test, &run).await;
        let status = run.status().await.unwrap();
        let error = run.purge().await.unwrap_err();
        assert!(matches!(&error, Error::Status { status: reported, .. } if *reported == status), "{error:?}");
        assert!(error.to_string().contains("cancel or terminate it first"), "{error}");
        assert_eq!(kept(&test, &run).await, before);
    }
}

#[tokio::test]
async fn stuck_or_ended_run_can_be_purged() {
    async fn panics(_: Ctx, _: u32) -> Result<u32> {
        panic!("on purpose")
    }
    let test = TestEngine::new(|engine| engine.workflow("panics", panics).workflow("waits", waits)).await;
    let stuck = test.start(panics, &1).await.unwrap();
    let cancelled = test.start(waits, &1).await.unwrap();
    test.settle().await;
    cancelled.cancel("done with").await.unwrap();
    test.settle().await;
    for run in [stuck, cancelled] {
        run.purge().await.unwrap();
        assert!(run.info().await.unwrap_err().is_not_found());
        assert!(run.purge().await.unwrap_err().is_not_found());
    }
    assert_eq!(test.count(Filter::runs()).await.unwrap().total(), 0);
}

// ---- generated ids, and concurrent starts ----

#[tokio::test]
async fn generated_ids_are_unique_and_sort_by_time() {
    let engine = Engine::open("memory:").workflow("double", double).start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..500 {
        ids.push(engine.start(double, &1).await.unwrap().id().to_owned());
    }
    assert!(ids.is_sorted_by(|a, b| a < b));
}

#[tokio::test]
async fn test_engine_ids_are_unique_and_sort_by_time_across_crashes() {
    let mut test = test().await;
    let mut ids = Vec::new();
    for _ in 0..10 {
        for _ in 0..50 {
            ids.push(test.start(double, &1).await.unwrap().id().to_owned());
        }
        test.crash().await;
        test.advance("1 second").await;
    }
    assert!(ids.is_sorted_by(|a, b| a < b));
}

#[tokio::test]
async fn a_hundred_concurrent_starts_of_one_id_are_one_run() {
    let test = test().await;
    let starts = (0..100).map(|_| test.start(double, &21).id("r"));
    for run in join_all(starts).await {
        assert_eq!(test.result(&run.unwrap()).await.unwrap(), 42);
    }
    assert_eq!((test.executions("double"), test.count(Filter::runs()).await.unwrap().total()), (1, 1));
    assert_eq!(test.resident(), 0);
}

#[tokio::test]
async fn a_hundred_concurrent_rejecting_starts_of_one_id_have_one_winner() {
    let test = test().await;
    let starts = (0..100).map(|n| test.start(double, &n).id("r").on_conflict(OnConflict::Reject));
    let (won, lost): (Vec<_>, Vec<_>) = join_all(starts).await.into_iter().partition(|started| started.is_ok());
    assert_eq!((won.len(), lost.len()), (1, 99));
    test.settle().await;
    assert_eq!((test.executions("double"), test.resident()), (1, 0));
}

#[tokio::test]
async fn a_hundred_starts_of_one_id_by_three_clients_of_a_file_are_one_run() {
    const DOUBLE: Workflow<u32, u32> = Workflow::new("double");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let engine = Engine::open(&path).workflow("double", double).start().await.unwrap();
    let clients = [engine.client(), Client::open(&path).unwrap(), Client::open(&path).unwrap()];
    let starts = (0..100).map(|n| clients[n % 3].start(DOUBLE, &21).id("r"));
    for run in join_all(starts).await {
        let result = tokio::time::timeout(Duration::from_secs(120), run.unwrap().result()).await;
        assert_eq!(result.expect("the run ends").unwrap(), 42);
    }
    assert_eq!(engine.count(Filter::runs()).await.unwrap().total(), 1);
    let run: Run<u32> = engine.get_run("r").await.unwrap();
    assert_eq!(run.journal().await.unwrap().len(), 1);
}

/// The engine waited in memory for the end of a run that another process had already ended.
#[tokio::test]
async fn run_replaced_by_another_process_ends_the_wait_for_its_result() {
    const WAITS: outlive::Workflow<u32, u32> = outlive::Workflow::new("waits");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.db");
    let engine = Engine::open(&path).workflow("waits", waits).start().await.unwrap();
    let old = engine.start(waits, &1).id("r").await.unwrap();
    while !old.status().await.unwrap().is_idle() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (early, late) = (old.clone(), old);
    let early = tokio::spawn(async move { early.result().await });
    let client = Client::open(&path).unwrap();
    client.start(WAITS, &2).id("r").on_conflict(OnConflict::Replace).await.unwrap();
    let assert_not_found =
        |ended: Result<u32, Error>| assert!(matches!(ended, Err(Error::NotFound { .. })), "{ended:?}");
    assert_not_found(tokio::time::timeout(Duration::from_secs(120), early).await.expect("the wait ends").unwrap());
    assert_not_found(tokio::time::timeout(Duration::from_secs(120), late.result()).await.expect("the wait ends"));
    engine.shutdown().await.unwrap();
}
