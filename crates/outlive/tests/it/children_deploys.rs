//! Deploys that change what children and effects can reach.

use outlive::Builder;
use outlive::job::{Task, TaskCtx};
use outlive::prelude::*;
use outlive_testkit::TestEngine;

const SHIP: Workflow<u32, u32> = Workflow::new("ship");
const TALLY: Task<u32, u32> = Task::new("tally");

async fn ship(_: Ctx, n: u32) -> Result<u32> {
    Ok(n)
}

async fn order(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.send(TALLY, "one", &n).await?;
    let shipped = ctx.run(SHIP, &n).await?;
    ctx.sleep("1 day").await?;
    Ok(shipped)
}

async fn tally(ctx: TaskCtx<u32, u32>, n: u32) -> Result<()> {
    ctx.update_state(|sum| *sum += n);
    Ok(())
}

async fn idle(_: TaskCtx<u32, u32>) -> Result<()> {
    Ok(())
}

fn with_all(engine: Builder) -> Builder {
    engine.workflow("order", order).workflow("ship", ship).job(TALLY.on_event(tally).execute(idle))
}

/// The registration was looked at before the record: a replay got an error in place of what had happened.
#[tokio::test]
async fn recorded_child_and_effect_do_not_need_their_definitions() {
    let mut test = TestEngine::new(with_all).await;
    let run = test.start(order, &7).await.unwrap();
    test.settle().await;
    test.deploy(|engine| engine.workflow("order", order)).await;
    test.advance("1 day").await;
    assert_eq!(run.result().await.unwrap(), 7);
}

/// An error in user code would not be recorded, and the next deploy would lead to another path.
#[tokio::test]
async fn child_that_is_not_registered_makes_the_run_stuck_until_it_is() {
    let mut test = TestEngine::new(|engine| engine.workflow("order", order)).await;
    let run = test.start(order, &7).await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Stuck);
    assert!(run.info().await.unwrap().note.unwrap().contains("tally"));
    test.deploy(with_all).await;
    assert_eq!(test.result(&run).await.unwrap(), 7);
}
