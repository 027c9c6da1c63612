//! `.was` with a name that another step of the run has: a guess would give a step the record of another.

use outlive::prelude::*;
use outlive_testkit::TestEngine;

async fn number(n: u32) -> Result<u32> {
    Ok(n)
}

async fn before(ctx: Ctx, _: ()) -> Result<Vec<u32>> {
    let values = vec![ctx.step("a", || number(1)).await?, ctx.step("b", || number(2)).await?];
    ctx.sleep("1 day").await?;
    Ok(values)
}

async fn new_step_with_a_name_in_use(ctx: Ctx, _: ()) -> Result<Vec<u32>> {
    let values = vec![ctx.step("b", || number(2)).await?, ctx.step("c", || number(3)).was("b").await?];
    ctx.sleep("1 day").await?;
    Ok(values)
}

async fn two_steps_with_one_old_name(ctx: Ctx, _: ()) -> Result<Vec<u32>> {
    let values =
        vec![ctx.step("x", || number(1)).was("a").await?, ctx.step("c", || number(3)).was("a").was("b").await?];
    ctx.sleep("1 day").await?;
    Ok(values)
}

async fn swapped(ctx: Ctx, _: ()) -> Result<Vec<u32>> {
    let values = vec![ctx.step("b", || number(1)).was("a").await?, ctx.step("a", || number(2)).was("b").await?];
    ctx.sleep("1 day").await?;
    Ok(values)
}

/// The record could belong to either step, so nothing runs: the values were swapped, or a step ran again as new.
#[tokio::test]
async fn old_name_that_another_step_has_makes_the_run_stuck() {
    for (name, is_first) in [("in use", true), ("swapped", false)] {
        let mut test = TestEngine::new(|engine| engine.workflow("order", before)).await;
        let run = test.start(before, &()).await.unwrap();
        test.settle().await;
        test.deploy(move |engine| match is_first {
            true => engine.workflow("order", new_step_with_a_name_in_use),
            false => engine.workflow("order", swapped),
        })
        .await;
        test.settle().await;
        assert_eq!(run.status().await.unwrap(), Status::Stuck, "{name}");
        let note = run.info().await.unwrap().note.unwrap();
        assert!(note.contains("(`.was`), which this run asks for as well"), "{name}: {note}");
    }
}

#[tokio::test]
async fn second_step_with_one_old_name_finds_its_other_one() {
    let mut test = TestEngine::new(|engine| engine.workflow("order", before)).await;
    let run = test.start(before, &()).await.unwrap();
    test.settle().await;
    test.deploy(|engine| engine.workflow("order", two_steps_with_one_old_name)).await;
    assert_eq!(test.result(&run).await.unwrap(), [1, 2]);
}
