//! P1, P2, P4 for children and effects: a crash before or after any commit neither loses one nor repeats one.

use std::pin::pin;

use futures_util::poll;
use outlive::job::{Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use outlive::{Builder, Error};
use outlive_testkit::crashes::{CrashEverywhere, Ledger, Report};
use outlive_testkit::{crash_everywhere, crash_jobs_everywhere};

async fn double(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.sleep("1 hour").await?;
    Ok(ctx.step("double", |_: Attempt| async move { outlive::Ok(n * 2) }).await?)
}

async fn failing(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("look", |_: Attempt| async { outlive::Ok(()) }).await?;
    Err("no stock".into())
}

async fn patient(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.wait("go").await?)
}

fn others(engine: Builder) -> Builder {
    engine
        .workflow("double", double)
        .workflow("failing", failing)
        .workflow("patient", patient)
        .workflow("middle", middle)
}

/// Each run as `id: status`.
fn runs(ledger: &Ledger) -> Vec<String> {
    ledger.others().iter().map(|run| format!("{}: {}", run.id, run.status)).collect()
}

/// Crashes a workflow everywhere, with these other runs in the end.
async fn crash<I: 'static>(crashes: CrashEverywhere<I>, expected: &[&str]) -> Report {
    let expected: Vec<String> = expected.iter().map(|run| (*run).to_owned()).collect();
    let crashes = crashes.setup(others).invariant("the other runs", move |ledger| {
        let found = runs(ledger);
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    });
    let report = crashes.run().await;
    assert!(report.commits() > 2 && report.schedules() > 2 * report.commits(), "{report}");
    report
}

async fn running(ctx: Ctx, n: u32) -> Result<u32> {
    let first = ctx.run(double, &n).await?;
    Ok(ctx.run(double, &first).await? + 1)
}

#[tokio::test]
async fn children_run_one_after_another_survive_a_crash_at_every_commit() {
    let crashes = crash_everywhere(running).input(&10);
    crash(crashes, &["run/double: completed", "run/double#2: completed"]).await;
}

async fn joining(ctx: Ctx, _: ()) -> Result<u32> {
    let (one, two) = (ctx.spawn(double, &1).id("one").await?, ctx.spawn(double, &2).id("two").await?);
    ctx.step("meanwhile", |_: Attempt| async { outlive::Ok(()) }).await?;
    let (two, one) = tokio::try_join!(two.result(), one.result())?;
    Ok(one + two)
}

#[tokio::test]
async fn children_that_are_joined_survive_a_crash_at_every_commit() {
    crash(crash_everywhere(joining), &["one: completed", "two: completed"]).await;
}

async fn mapping(ctx: Ctx, count: u32) -> Result<u32> {
    let all = ctx.map(0..count, |n| *n, |ctx, n| async move { ctx.run(double, &n).await }).concurrency(2).await?;
    Ok(all.into_iter().sum())
}

#[tokio::test]
async fn mapped_children_survive_a_crash_at_every_commit() {
    let expected = ["run/0/double: completed", "run/1/double: completed", "run/2/double: completed"];
    crash(crash_everywhere(mapping).input(&3), &expected).await;
}

async fn middle(ctx: Ctx, n: u32) -> Result<u32> {
    Ok(ctx.run(double, &n).await? + 1)
}

async fn nested(ctx: Ctx, n: u32) -> Result<u32> {
    Ok(ctx.run(middle, &n).await? + 1)
}

#[tokio::test]
async fn children_of_children_survive_a_crash_at_every_commit() {
    let expected = ["run/middle: completed", "run/middle/double: completed"];
    crash(crash_everywhere(nested).input(&20), &expected).await;
}

async fn catching(ctx: Ctx, _: ()) -> Result<String> {
    match ctx.run(failing, &()).await {
        Err(Error::Child { failure, .. }) => Ok(failure.to_string()),
        other => Ok(format!("{other:?}")),
    }
}

#[tokio::test]
async fn failing_child_survives_a_crash_at_every_commit() {
    crash(crash_everywhere(catching), &["run/failing: failed"]).await;
}

async fn failed_by_its_child(ctx: Ctx, _: ()) -> Result<u32> {
    let _other = ctx.spawn(patient, &()).id("other").await?;
    Ok(ctx.run(failing, &()).await?)
}

#[tokio::test]
async fn parent_that_fails_with_its_child_survives_a_crash_at_every_commit() {
    let crashes = crash_everywhere(failed_by_its_child).expect_failure();
    crash(crashes, &["other: cancelled", "run/failing: failed"]).await;
}

async fn holding(ctx: Ctx, _: ()) -> Result<()> {
    let _attached = ctx.spawn(patient, &()).id("attached").await?;
    let _detached = ctx.spawn(double, &4).id("detached").detach().await?;
    let waiting = ctx.run(middle, &1).await;
    ctx.signal("detached", "go", &1).await?; // a cancelled run may still send
    waiting?;
    Ok(())
}

#[tokio::test]
async fn cancelled_parent_survives_a_crash_at_every_commit() {
    let crashes = crash_everywhere(holding).cancel_at("1 minute", "enough");
    let expected =
        ["attached: cancelled", "detached: completed", "run/middle: cancelled", "run/middle/double: cancelled"];
    crash(crashes, &expected).await;
}

async fn sending(ctx: Ctx, _: ()) -> Result<Vec<String>> {
    let friend = ctx.start(patient, &()).id("friend").await?;
    let missing = ctx.signal("nobody", "go", &1).await.unwrap_err();
    let taken = ctx.start(double, &1).id("friend").await.unwrap_err();
    let taken_child = ctx.spawn(patient, &()).id("friend").await.err().unwrap();
    ctx.sleep("1 minute").await?;
    ctx.signal(&friend, "go", &7).await?;
    let delayed = ctx.start(double, &2).id("delayed").delay("1 day").await?;
    Ok(vec![delayed, missing.code().into(), taken.code().into(), taken_child.code().into()])
}

#[tokio::test]
async fn sent_and_refused_effects_survive_a_crash_at_every_commit() {
    let report = crash(crash_everywhere(sending), &["delayed: completed", "friend: completed"]).await;
    let codes: Vec<String> = report.output().unwrap();
    assert_eq!(codes, ["delayed", "not_found", "conflict", "conflict"]);
}

async fn sending_at_once(ctx: Ctx, _: ()) -> Result<Vec<bool>> {
    let child = ctx.spawn(patient, &()).id("child").await?;
    let (cancelled, missing, friend, gone, other) = tokio::join!(
        child.cancel("enough"),
        ctx.signal("nobody", "go", &1),
        ctx.start(patient, &()).id("friend"),
        ctx.signal("gone", "go", &1),
        ctx.spawn(double, &1),
    );
    ctx.signal("friend", "go", &1).await?;
    let sent = vec![cancelled.is_ok(), missing.is_ok(), friend.is_ok(), gone.is_ok(), other.is_ok()];
    other?.result().await?;
    Ok(sent)
}

#[tokio::test]
async fn effects_of_one_quiet_point_survive_a_crash_at_every_commit() {
    let expected = ["child: cancelled", "friend: completed", "run/double: completed"];
    let report = crash(crash_everywhere(sending_at_once), &expected).await;
    assert_eq!(report.output::<Vec<bool>>().unwrap(), [true, false, true, false, true]);
}

async fn racing(ctx: Ctx, _: ()) -> Result<String> {
    let first = tokio::select! {
        biased;
        _ = ctx.start(double, &1).id("one") => "one",
        _ = ctx.start(double, &2).id("two") => "two",
        _ = ctx.signal("nobody", "go", &1) => "nobody",
    };
    ctx.step("after", |_: Attempt| async { outlive::Ok(()) }).await?;
    Ok(first.to_owned())
}

#[tokio::test]
async fn effects_that_lose_a_race_are_sent_once() {
    // A crash cannot change who wins: what begins at one quiet point is one commit.
    crash(crash_everywhere(racing), &["one: completed", "two: completed"]).await;
}

async fn racing_children(ctx: Ctx, _: ()) -> Result<u32> {
    let (fast, slow) = (ctx.spawn(double, &1).await?, ctx.spawn(double, &2).delay("1 hour").await?);
    let first = tokio::select! {
        biased;
        first = slow.result() => first?,
        first = fast.result() => first?,
    };
    ctx.sleep("1 minute").await?;
    Ok(first)
}

#[tokio::test]
async fn child_that_loses_a_race_ends_with_its_parent() {
    crash(crash_everywhere(racing_children), &["run/double: completed", "run/double#2: cancelled"]).await;
}

async fn leaving(ctx: Ctx, _: ()) -> Result<u32> {
    let mut started = pin!(ctx.start(double, &1).id("left"));
    let mut refused = pin!(ctx.signal("nobody", "go", &1));
    let mut child = pin!(ctx.spawn(patient, &()).id("child"));
    assert!(poll!(&mut started).is_pending() && poll!(&mut refused).is_pending() && poll!(&mut child).is_pending());
    Ok(7)
}

#[tokio::test]
async fn effects_in_flight_when_the_workflow_returns_survive_a_crash_at_every_commit() {
    crash(crash_everywhere(leaving), &["child: cancelled", "left: completed"]).await;
}

const TALLY: Task<u32, u32> = Task::new("tally");
const MAIL: WorkerPool<u32> = WorkerPool::new("mail");

async fn tally(ctx: TaskCtx<u32, u32>, n: u32) -> Result<u32> {
    Ok(ctx.update_state(|sum| {
        *sum += n;
        *sum
    }))
}

async fn idle(_: TaskCtx<u32, u32>) -> Result<()> {
    Ok(())
}

async fn mail(ctx: WorkerPoolCtx<u32>, n: u32) -> Result<()> {
    ctx.send(TALLY, "mails", &n)?;
    Ok(())
}

async fn reporting(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.send(TALLY, "runs", &n).await?;
    let missing = ctx.signal("nobody", "go", &1).await.is_err();
    let (pushed, doubled) = tokio::join!(ctx.push(MAIL, &n), ctx.run(double, &n));
    pushed?;
    tokio::try_join!(ctx.send(TALLY, "runs", &100), ctx.push(MAIL, &u32::from(missing)).dedup_key("missing"))?;
    Ok(doubled?)
}

#[tokio::test]
async fn jobs_receive_each_effect_once_whatever_crashes_or_is_lost() {
    let setup = |engine: Builder| {
        others(engine)
            .workflow("reporting", reporting)
            .job(TALLY.on_event(tally).execute(idle))
            .job(MAIL.concurrency(2).execute(mail))
    };
    let report = crash_jobs_everywhere(setup)
        .act_at(0, |client| async move { client.start(reporting, &10).id("r").await.map(drop) })
        .until("3 hours")
        .look(|client| async move {
            let tallies = client.job(TALLY);
            let (runs, mails) = (tallies.state("runs").await?, tallies.state("mails").await?);
            let all = client.list(Filter::runs()).await?.runs;
            let all: Vec<String> = all.iter().map(|run| format!("{} {}", run.id, run.status)).collect();
            Ok((runs, mails, all))
        })
        .run()
        .await;
    assert_eq!(report.end, r#"(Some(110), Some(11), ["r/double completed", "r completed"])"#);
    assert!(report.schedules > 50, "{report:?}");
}
