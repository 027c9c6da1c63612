//! P1, P2, P4 for restarts: a crash before or after any commit neither loses a run nor repeats one.

use std::pin::pin;

use futures_util::poll;
use outlive::Builder;
use outlive::prelude::*;
use outlive_testkit::crash_everywhere;
use outlive_testkit::crashes::{CrashEverywhere, Ledger, Report};

async fn countdown(ctx: Ctx, (n, sum): (u32, u32)) -> Result<u32> {
    let sum = ctx.step("add", |_: Attempt| async move { outlive::Ok(sum + n) }).await?;
    ctx.sleep("1 hour").await?;
    if n == 0 { Ok(sum) } else { Ok(ctx.restart(&(n - 1, sum)).await?) }
}

async fn crash<I: 'static>(crashes: CrashEverywhere<I>) -> Report {
    let report = crashes.run().await;
    assert!(report.commits() > 2 && report.schedules() > 2 * report.commits(), "{report}");
    report
}

#[tokio::test]
async fn restarts_survive_a_crash_at_every_commit() {
    let report = crash(crash_everywhere(countdown).input(&(3, 0))).await;
    assert_eq!(report.output(), Some(6));
}

/// Counts the runs of the child, which restarts, and those of its parent, which does too.
async fn generations(ctx: Ctx, (n, sum): (u32, u32)) -> Result<u32> {
    let sum = sum + ctx.run(countdown, &(1, n)).await?;
    if n == 0 { Ok(sum) } else { Ok(ctx.restart(&(n - 1, sum)).await?) }
}

fn countdowns(engine: Builder) -> Builder {
    engine.workflow("countdown", countdown)
}

fn children(ledger: &Ledger) -> Result<(), String> {
    let found: Vec<_> = ledger.others().iter().map(|run| format!("{} {}", run.id, run.status)).collect();
    let expected = ["run/countdown completed", "run#2/countdown completed"];
    if expected.iter().all(|child| found.iter().any(|one| one == child)) && found.len() == 2 {
        Ok(())
    } else {
        Err(format!("{found:?}"))
    }
}

#[tokio::test]
async fn restarts_of_parents_and_children_survive_a_crash_at_every_commit() {
    let crashes = crash_everywhere(generations).input(&(1, 0)).setup(countdowns).invariant("the children", children);
    assert_eq!(crash(crashes).await.output(), Some(3));
}

/// Takes one of two signals, and restarts with a wait that was polled and is dropped.
async fn listening(ctx: Ctx, heard: Vec<u32>) -> Result<Vec<u32>> {
    let mut heard = heard;
    let mut early = pin!(ctx.wait::<u32>("n"));
    let _ = poll!(early.as_mut());
    ctx.step("work", |_: Attempt| async { outlive::Ok(()) }).await?;
    if heard.is_empty() {
        return Ok(ctx.restart(&[100]).await?);
    }
    heard.push(early.await?);
    if heard.len() == 4 { Ok(heard) } else { Ok(ctx.restart(&heard).await?) }
}

#[tokio::test]
async fn signals_across_restarts_survive_a_crash_at_every_commit() {
    let crashes = crash_everywhere(listening).input(&Vec::new());
    let report = crash(crashes.signal("n", &1).signal("n", &2).signal("n", &3)).await;
    assert_eq!(report.output(), Some(vec![100, 1, 2, 3]));
}

async fn stubborn(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.sleep("1 hour").await?;
    ctx.step("work", |_: Attempt| async { outlive::Ok(()) }).await?;
    Ok(ctx.restart(&(n + 1)).await?)
}

#[tokio::test]
async fn cancel_of_an_eternal_run_survives_a_crash_at_every_commit() {
    let report = crash(crash_everywhere(stubborn).input(&0).cancel_at("150 minutes", "enough")).await;
    assert_eq!(report.status(), Status::Cancelled);
}

/// Starts another run, then restarts while another branch sleeps.
async fn effects(ctx: Ctx, n: u32) -> Result<u32> {
    if n == 2 {
        return Ok(n);
    }
    ctx.start(countdown, &(0, n)).id(&format!("c{n}")).await?;
    let (again, _) = tokio::join!(ctx.restart(&(n + 1)), ctx.sleep("1 day"));
    Ok(again?)
}

#[tokio::test]
async fn effects_before_a_restart_survive_a_crash_at_every_commit() {
    let crashes = crash_everywhere(effects).input(&0).setup(countdowns);
    let crashes = crashes.invariant("both were started once", |ledger| {
        let ids: Vec<_> = ledger.others().iter().map(|run| run.id.as_str()).collect();
        if ids == ["c0", "c1"] { Ok(()) } else { Err(format!("{ids:?}")) }
    });
    assert_eq!(crash(crashes).await.output(), Some(2));
}
