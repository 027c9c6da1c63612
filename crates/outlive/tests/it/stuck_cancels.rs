//! A cancel that was accepted is how a run ends, even if the run becomes stuck before it can end.

use std::sync::Arc;

use outlive::prelude::*;
use outlive::{Builder, CancelOutcome};
use outlive_testkit::TestEngine;
use tokio::sync::Semaphore;

use crate::support::{Chance, turn};

async fn broken(ctx: Ctx, _: ()) -> Result<()> {
    match ctx.wait::<()>("go").await {
        Err(Error::Cancelled { .. }) => panic!("no clean-up yet"),
        other => Ok(other?),
    }
}

async fn fixed(ctx: Ctx, _: ()) -> Result<()> {
    let waited = ctx.wait::<()>("go").await;
    ctx.step("clean up", || async { outlive::Ok(()) }).await?;
    Ok(waited?)
}

/// The clean-up of a cancelled run panicked. Nothing said that the run would end as cancelled, however it was fixed.
#[tokio::test]
async fn run_stuck_in_its_clean_up_says_that_it_is_cancelled_and_ends_so() {
    let mut test = TestEngine::new(|engine| engine.workflow("w", broken)).await;
    let runs = [test.start(broken, &()).await.unwrap(), test.start(broken, &()).await.unwrap()];
    test.settle().await;
    for run in &runs {
        assert_eq!(run.cancel("enough").await.unwrap(), CancelOutcome::Taken);
        test.settle().await;
        assert_eq!(run.status().await.unwrap(), Status::Stuck);
        let note = run.info().await.unwrap().note.unwrap();
        assert!(note.ends_with("it was cancelled (enough) and ends as cancelled once it can continue"), "{note}");
    }
    runs[0].retry().await.unwrap();
    test.settle().await;
    assert_eq!(runs[0].status().await.unwrap(), Status::Stuck, "a retry alone does not fix it");
    test.deploy(|engine| engine.workflow("w", fixed)).await;
    runs[0].retry().await.unwrap_or_default();
    for run in &runs {
        let ended = test.result(run).await;
        assert!(matches!(&ended, Err(Error::Cancelled { reason }) if reason == "enough"), "{ended:?}");
    }
    assert_eq!(test.executions("clean up"), 2);
}

type Gate = Arc<Semaphore>;

async fn gated(ctx: &Ctx) -> Result<()> {
    let gate = ctx.get::<Gate>().clone();
    let body = || async {
        gate.acquire().await?.forget();
        outlive::Ok(())
    };
    Ok(ctx.step("work", body).await?)
}

async fn panics(ctx: Ctx, _: ()) -> Result<()> {
    gated(&ctx).await?;
    panic!("on purpose")
}

async fn mended(ctx: Ctx, _: ()) -> Result<()> {
    gated(&ctx).await
}

/// The cancel and what makes the run stuck come at the same time, in any order: a cancel that was accepted is never lost.
#[tokio::test]
async fn cancel_accepted_while_a_run_becomes_stuck_is_how_it_ends() {
    let mut races = [0, 0];
    for seed in 0..40 {
        let gate = Gate::new(Semaphore::new(0));
        let (first, then) = (gate.clone(), gate.clone());
        let mut test =
            TestEngine::new(move |engine: Builder| engine.provide(first.clone()).workflow("w", panics)).await;
        let run = test.start(panics, &()).await.unwrap();
        test.settle().await;
        let (chance, client) = (Chance::new(seed), test.client());
        gate.add_permits(1);
        for _ in 0..chance.below(12) {
            turn().await;
        }
        let cancelled: Run<()> = client.get_run(run.id()).await.unwrap();
        let outcome = cancelled.cancel("enough").await.unwrap();
        test.settle().await;
        let was_stuck = run.status().await.unwrap() == Status::Stuck;
        races[usize::from(was_stuck)] += 1;
        test.deploy(move |engine: Builder| engine.provide(then.clone()).workflow("w", mended)).await;
        gate.add_permits(1);
        let ended = test.result(&run).await;
        assert!(matches!(ended, Err(Error::Cancelled { .. })), "seed {seed}, {outcome:?}, {ended:?}");
    }
    assert!(races[0] > 0, "{races:?}");
}
