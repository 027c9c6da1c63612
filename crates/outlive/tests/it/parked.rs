//! Runs that wait when new code is deployed: the new code takes effect at once, not at the next signal.

use outlive::Builder;
use outlive::prelude::*;
use outlive_testkit::TestEngine;

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// Charges, then waits for an approval that never comes.
async fn waits(ctx: Ctx, _: ()) -> Result<String> {
    ctx.step("charge", || ok(())).await?;
    let by: String = ctx.wait("approval").await?;
    Ok(by)
}

/// Registers one version of the workflow "w".
fn version<F, Fut>(workflow: F) -> impl Fn(Builder) -> Builder + Send + Sync + 'static
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<String>> + Send + 'static,
{
    move |engine| engine.workflow("w", workflow.clone())
}

/// Deploys new code while a run waits for an approval.
async fn deployed<F, Fut>(workflow: F) -> (TestEngine, Run<String>)
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<String>> + Send + 'static,
{
    let mut test = TestEngine::new(version(waits)).await;
    test.start(Workflow::<(), String>::new("w"), &()).id("r").await.unwrap();
    test.settle().await;
    test.deploy(version(workflow)).await;
    test.settle().await;
    let run = test.get_run("r").await.unwrap();
    (test, run)
}

async fn waits_still(run: &Run<String>) -> bool {
    matches!(run.status().await.unwrap(), Status::Waiting { .. })
}

/// It waited forever: nothing replayed it before a signal came, which the new code did not ask for.
#[tokio::test]
async fn run_whose_wait_was_removed_continues() {
    let (_test, run) = deployed(|ctx: Ctx, ()| async move {
        ctx.step("charge", || ok(())).await?;
        Ok("nobody".to_owned())
    })
    .await;
    assert_eq!(run.result().await.unwrap(), "nobody");
}

#[tokio::test]
async fn timeout_added_to_a_wait_counts_from_the_deploy() {
    let (test, run) = deployed(|ctx: Ctx, ()| async move {
        ctx.step("charge", || ok(())).await?;
        match ctx.wait("approval").timeout("1 hour").await {
            Err(error) if error.is_timeout() => Ok("in vain".to_owned()),
            other => Ok(other?),
        }
    })
    .await;
    assert!(waits_still(&run).await);
    test.advance("59 minutes").await;
    assert!(waits_still(&run).await);
    test.advance("1 minute").await;
    assert_eq!(run.result().await.unwrap(), "in vain");
}

/// The timeout still fired, and its error said that no signal came within 0ns.
#[tokio::test]
async fn timeout_removed_from_a_wait_does_not_fire() {
    let limited = |ctx: Ctx, ()| async move { Ok(ctx.wait("approval").timeout("1 hour").await?) };
    let mut test = TestEngine::new(version(limited)).await;
    let run = test.start(Workflow::<(), String>::new("w"), &()).id("r").await.unwrap();
    test.settle().await;
    test.deploy(version(|ctx: Ctx, ()| async move { Ok(ctx.wait("approval").await?) })).await;
    test.settle().await;
    test.advance("2 hours").await;
    let run: Run<String> = test.get_run(run.id()).await.unwrap();
    assert!(waits_still(&run).await, "{:?}", run.info().await);
    run.signal("approval", "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "ada");
}

#[tokio::test]
async fn sleep_added_next_to_a_wait_ends_it() {
    let (test, run) = deployed(|ctx: Ctx, ()| async move {
        ctx.step("charge", || ok(())).await?;
        tokio::select! {
            by = ctx.wait("approval") => Ok(by?),
            slept = ctx.sleep("1 hour") => Ok(slept.map(|()| "asleep".to_owned())?),
        }
    })
    .await;
    test.advance("1 hour").await;
    assert_eq!(run.result().await.unwrap(), "asleep");
}

#[tokio::test]
async fn step_inserted_before_a_wait_runs() {
    let (test, run) = deployed(|ctx: Ctx, ()| async move {
        ctx.step("charge", || ok(())).await?;
        ctx.step("notify", || ok(())).await?;
        Ok(ctx.wait("approval").await?)
    })
    .await;
    assert_eq!(test.executions("notify"), 1);
    assert_eq!(test.executions("charge"), 1, "recorded steps do not run again");
    assert!(waits_still(&run).await);
}

#[tokio::test]
async fn wait_for_a_signal_that_has_already_arrived_gets_it() {
    let mut test = TestEngine::new(version(waits)).await;
    let run = test.start(Workflow::<(), String>::new("w"), &()).id("r").await.unwrap();
    run.signal("approved", "ada").await.unwrap();
    test.settle().await;
    test.deploy(version(|ctx: Ctx, ()| async move {
        ctx.step("charge", || ok(())).await?;
        Ok(ctx.wait("approved").await?)
    }))
    .await;
    let run: Run<String> = test.get_run("r").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "ada");
}

#[tokio::test]
async fn incompatible_code_is_noticed_at_the_deploy() {
    let (_test, run) = deployed(|ctx: Ctx, ()| async move {
        let amount: u32 = ctx.step("charge", || ok(42)).await?;
        Ok(format!("{amount}"))
    })
    .await;
    assert_eq!(run.status().await.unwrap(), Status::Stuck);
}

#[tokio::test]
async fn run_that_the_new_code_leaves_in_place_is_not_touched() {
    let mut test = TestEngine::new(version(waits)).await;
    let run = test.start(Workflow::<(), String>::new("w"), &()).id("r").await.unwrap();
    test.settle().await;
    let entries = run.journal().await.unwrap().len();
    test.deploy(version(|ctx: Ctx, ()| async move {
        ctx.step("charge", || ok(())).await?;
        let by: String = ctx.wait("approval").await?;
        ctx.step("thank", || ok(())).await?;
        Ok(by)
    }))
    .await;
    test.settle().await;
    assert_eq!(test.resident(), 0, "the run is not loaded");
    let run: Run<String> = test.get_run("r").await.unwrap();
    assert_eq!(run.journal().await.unwrap().len(), entries);
    run.signal("approval", "ada").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "ada");
}

#[tokio::test]
async fn manually_paused_run_stays_paused() {
    let mut test = TestEngine::new(version(waits)).await;
    let run = test.start(Workflow::<(), String>::new("w"), &()).id("r").await.unwrap();
    run.pause().await.unwrap();
    test.settle().await;
    test.deploy(version(|_: Ctx, ()| async move { Ok("over".to_owned()) })).await;
    test.settle().await;
    let run: Run<String> = test.get_run("r").await.unwrap();
    assert!(run.status().await.unwrap() == Status::Paused);
}

#[tokio::test]
async fn parked_runs_beyond_one_page_continue_too() {
    let mut test = TestEngine::new(version(waits)).await;
    for i in 0..200 {
        test.start(Workflow::<(), String>::new("w"), &()).id(&format!("r{i}")).await.unwrap();
    }
    test.settle().await;
    test.deploy(version(|_: Ctx, ()| async move { Ok("over".to_owned()) })).await;
    for i in 0..200 {
        let run: Run<String> = test.get_run(&format!("r{i}")).await.unwrap();
        assert_eq!(run.result().await.unwrap(), "over");
    }
}

/// The damaged run was read over and over, and those before it were never checked.
#[tokio::test]
async fn damaged_run_does_not_keep_others_from_being_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.db");
    let engine = Engine::open(&path).workflow("w", waits).version("1").start().await.unwrap();
    for id in ["sound", "damaged"] {
        engine.start(waits, &()).id(id).await.unwrap();
    }
    let is_parked = |status: Status| status.is_idle();
    for id in ["sound", "damaged"] {
        let run: Run<String> = engine.get_run(id).await.unwrap();
        while !is_parked(run.status().await.unwrap()) {
            tokio::task::yield_now().await;
        }
    }
    engine.shutdown().await.unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    let of_run = "instance = (SELECT num FROM instance WHERE id = 'damaged')";
    let changed = file.execute(&format!("UPDATE entry SET payload = '[' WHERE {of_run}"), []).unwrap();
    assert_eq!(changed, 1);
    drop(file);
    let over = |_: Ctx, ()| async move { Ok::<_, BoxError>("over".to_owned()) };
    let engine = Engine::open(&path).workflow("w", over).version("2").start().await.unwrap();
    let run: Run<String> = engine.get_run("sound").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "over");
    let damaged: Run<String> = engine.get_run("damaged").await.unwrap();
    assert!(damaged.result().await.unwrap_err().is_stuck());
    engine.shutdown().await.unwrap();
}

/// Runs that had no place in memory yet were forgotten with the process and parked for good: the next process had
/// nothing to check.
#[tokio::test]
async fn run_still_waiting_for_a_place_is_checked_again_after_a_crash() {
    let mut test = TestEngine::new(version(waits)).await;
    for i in 0..4 {
        test.start(Workflow::<(), String>::new("w"), &()).id(&format!("r{i}")).await.unwrap();
    }
    test.settle().await;
    let hang = |ctx: Ctx, ()| async move {
        ctx.step("hang", std::future::pending::<Result<()>>).await?;
        Ok::<_, BoxError>("over".to_owned())
    };
    test.deploy(move |engine| engine.workflow("w", hang).max_resident(1)).await;
    test.settle().await;
    test.crash().await;
    test.settle().await;
    let mark = outlive_core::id::Name::new("mark", "outlive:code").unwrap();
    assert_eq!(test.store().mark(Some(&mark)).await.unwrap(), None, "not all runs have been resumed");
}
