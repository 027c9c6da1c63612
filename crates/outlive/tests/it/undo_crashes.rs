//! P1, P2 for undos: a crash before or after any commit neither loses one nor repeats one that is recorded.

use outlive::prelude::*;
use outlive_testkit::crash_everywhere;
use outlive_testkit::crashes::CrashEverywhere;

async fn value(n: u32) -> Result<u32> {
    Ok(n)
}

async fn fail() -> Result<u32> {
    Err("no stock".into())
}

async fn undo(_: u32) -> Result<()> {
    Ok(())
}

/// Crashes a workflow everywhere, whose undos must have run in this order.
async fn crash<I: 'static>(crashes: CrashEverywhere<I>, expected: &'static [&'static str]) {
    let crashes = crashes.invariant("undos run last first, one after another", move |ledger| {
        let own = ledger.effects().iter().filter(|effect| effect.run == "run");
        let mut undone: Vec<&str> = own.map(|effect| effect.op.as_str()).filter(|op| op.contains("undo:")).collect();
        // An attempt that was not recorded is repeated, before the next undo begins.
        undone.dedup();
        if undone == expected { Ok(()) } else { Err(format!("{undone:?}")) }
    });
    let report = crashes.run().await;
    assert!(report.commits() > 2 && report.schedules() > 2 * report.commits(), "{report}");
}

async fn saga(ctx: Ctx, _: ()) -> Result<u32> {
    let flaky = |_: u32, attempt: Attempt| async move {
        if attempt.is_retry { outlive::Ok(()) } else { Err("the bank is closed".into()) }
    };
    ctx.step("a", |_: Attempt| value(1)).undo("undo a", undo).undo_timeout("1 minute").await?;
    ctx.step("b", |_: Attempt| value(2)).undo("undo b", flaky).await?;
    ctx.sleep("1 hour").await?;
    let (c, d) = tokio::join!(
        ctx.step("c", |_: Attempt| value(3)).undo("first", undo).undo("second", undo),
        ctx.step("d", |_: Attempt| fail()),
    );
    Ok(c? + d?)
}

#[tokio::test]
async fn unwinding_survives_a_crash_at_every_commit() {
    let expected = &["undo:second[step:c]", "undo:first[step:c]", "undo:undo b[step:b]", "undo:undo a[step:a]"];
    crash(crash_everywhere(saga).expect_failure(), expected).await;
}

#[tokio::test]
async fn cancel_before_and_during_the_unwinding_survives_a_crash_at_every_commit() {
    let crashes = crash_everywhere(saga).cancel_at("1 minute", "withdrawn").cancel_at("61 seconds", "again");
    crash(crashes, &["undo:undo b[step:b]", "undo:undo a[step:a]"]).await;
}

async fn on_purpose(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("a", |_: Attempt| value(1)).undo("undo", undo).await?;
    let scope = ctx.scope("part");
    scope.step("a", |_: Attempt| value(1)).undo("undo", undo).await?;
    ctx.undo_all().await?;
    ctx.step("b", |_: Attempt| value(1)).undo("undo", undo).await?;
    ctx.sleep("1 minute").await?;
    Ok(7)
}

#[tokio::test]
async fn undo_all_survives_a_crash_at_every_commit() {
    crash(crash_everywhere(on_purpose), &["part/undo:undo[step:a]", "undo:undo[step:a]"]).await;
}

async fn child(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.step("work", |_: Attempt| value(n)).undo("unwork", undo).await?;
    ctx.sleep("1 minute").await?;
    Ok(n)
}

async fn parent(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.run(child, &1).undo("undo child", undo).await?;
    ctx.spawn(child, &2).key("done").undo("undo spawned", undo).await?;
    ctx.sleep("1 hour").await?;
    ctx.spawn(child, &3).key("running").undo("undo spawned", undo).await?;
    Ok(ctx.step("pay", |_: Attempt| fail()).await?)
}

#[tokio::test]
async fn undos_of_children_survive_a_crash_at_every_commit() {
    let crashes = crash_everywhere(parent).expect_failure().setup(|engine| engine.workflow("child", child));
    crash(crashes, &["undo:undo spawned[child:child%5Bdone%5D]", "undo:undo child[child:child]"]).await;
}
