//! `run.fork(..)`: a new run continues from a point of another one, which stays as it is.

use outlive::prelude::*;
use outlive::{EntryKind, Error, LifecycleKind, RewindPoint};
use outlive_testkit::TestEngine;

async fn draws(ctx: Ctx, n: u32) -> Result<(u64, u64, u32)> {
    let first = ctx.random();
    let at = ctx.now().as_millis().cast_unsigned();
    ctx.step("reserve", move || async move { outlive::Ok(first) }).await?;
    ctx.sleep("1 hour").await?;
    let total = ctx.step("charge", move || async move { outlive::Ok(n) }).await?;
    Ok((first, at, total))
}

#[tokio::test]
async fn fork_repeats_random_numbers_and_times_of_what_it_keeps() {
    let mut test = TestEngine::new(|engine| engine.workflow("draws", draws)).await;
    let run = test.start(draws, &7).id("order").tag("team", "shop").await.unwrap();
    let (first, at, total) = test.result(&run).await.unwrap();
    assert_eq!(total, 7);
    test.advance("2 days").await;
    let fork = run.fork("charge").input(&9).id("corrected").await.unwrap();
    assert_eq!(test.result(&fork).await.unwrap(), (first, at, 9));
    assert_eq!((test.executions("reserve"), test.executions("charge")), (1, 2));
    assert_eq!(fork.info().await.unwrap().tags["team"], "shop");
    assert_eq!(test.result(&run).await.unwrap().2, 7, "the other run stays as it is");
    test.crash().await;
    let fork: Run<(u64, u64, u32)> = test.get_run("corrected").await.unwrap();
    let kinds: Vec<_> = fork.journal().await.unwrap().iter().map(|entry| entry.kind).collect();
    let kept = [EntryKind::StepDone, EntryKind::SleepSet, EntryKind::SleepDone];
    assert_eq!(kinds, [&kept[..], &[EntryKind::Forked, EntryKind::StepDone]].concat());
    // A fork of a fork, and a fork that is rewound.
    let again = fork.fork("charge").input(&11).await.unwrap();
    assert_eq!(test.result(&again).await.unwrap(), (first, at, 11));
    again.rewind(RewindPoint::Start).await.unwrap();
    assert_eq!(test.result(&again).await.unwrap(), (first, at, 11), "it began when the first one did");
}

#[tokio::test]
async fn fork_at_every_entry_ends_like_the_run_itself() {
    let test = TestEngine::new(|engine| engine.workflow("draws", draws)).await;
    let run = test.start(draws, &7).await.unwrap();
    let expected = test.result(&run).await.unwrap();
    for entry in 1..=run.journal().await.unwrap().len() as u64 {
        let fork = run.fork(entry).await.unwrap();
        assert_eq!(test.result(&fork).await.unwrap(), expected, "forked at entry {entry}");
    }
}

#[tokio::test]
async fn refused_fork_creates_nothing() {
    let test = TestEngine::new(|engine| engine.workflow("draws", draws).max_payload(1_000)).await;
    let run = test.start(draws, &7).id("order").await.unwrap();
    test.result(&run).await.unwrap();
    let taken = run.fork("charge").id("order").await.unwrap_err();
    assert!(taken.is_conflict() && taken.to_string().contains("\"order\""), "{taken}");
    let large = run.fork("charge").input(&"x".repeat(2_000)).await.unwrap_err();
    assert!(matches!(large, Error::PayloadTooLarge { bytes: 2_002, max_bytes: 1_000, .. }), "{large}");
    let missing = run.fork("ship").await.unwrap_err();
    assert_eq!(missing.code(), "no_rewind_point");
    assert_eq!(run.fork("charge").input_json("{").await.unwrap_err().code(), "payload");
    assert_eq!(run.fork("charge").id("").await.unwrap_err().code(), "name");
    assert_eq!(run.fork("charge").deadline("soon").await.unwrap_err().code(), "duration");
    let later = test.start(draws, &7).id("later").delay("1 day").await.unwrap();
    assert_eq!(later.fork(RewindPoint::Start).await.unwrap_err().code(), "status");
    assert_eq!(run.fork("charge").dry_run().await.unwrap().runs_again, ["step:charge"]);
    assert_eq!(test.count(Filter::runs()).await.unwrap().total(), 2);
}

#[tokio::test]
async fn fork_whose_records_do_not_fit_its_input_is_stuck() {
    async fn branches(ctx: Ctx, left: bool) -> Result<()> {
        match left {
            true => ctx.step("left", || async { outlive::Ok(()) }).await?,
            false => ctx.step("right", || async { outlive::Ok(()) }).await?,
        }
        Ok(ctx.step("last", || async { outlive::Ok(()) }).await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("branches", outlive::Strict(branches))).await;
    let run = test.start(branches, &true).await.unwrap();
    test.result(&run).await.unwrap();
    let fork = run.fork("last").input(&false).await.unwrap();
    assert!(test.result(&fork).await.unwrap_err().is_stuck());
    assert_eq!(test.executions("right"), 0);
}

async fn approval(ctx: Ctx, _: ()) -> Result<(String, String)> {
    Ok((ctx.wait("approval").await?, ctx.wait("approval").await?))
}

#[tokio::test]
async fn fork_has_the_signals_that_the_run_took_after_the_point() {
    let test = TestEngine::new(|engine| engine.workflow("approval", approval)).await;
    let run = test.start(approval, &()).await.unwrap();
    run.signal("approval", "ada").await.unwrap();
    run.signal("approval", "bob").await.unwrap();
    let expected = test.result(&run).await.unwrap();
    let fork = run.fork("wait:approval#2").await.unwrap();
    assert_eq!(test.result(&fork).await.unwrap(), expected);
}

async fn child(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.step("work", || async { outlive::Ok(()) }).await?;
    ctx.sleep("1 hour").await?;
    Ok(n)
}

async fn parent(ctx: Ctx, _: ()) -> Result<u32> {
    let one = ctx.run(child, &1).await?;
    Ok(one + ctx.run(child, &2).id("given").await?)
}

#[tokio::test]
async fn fork_joins_the_ends_of_children_that_it_keeps_and_starts_the_others_again() {
    let test = TestEngine::new(|engine| engine.workflow("parent", parent).workflow("child", child)).await;
    let run = test.start(parent, &()).id("p").await.unwrap();
    test.settle().await;
    let running = run.fork("p/child").await.unwrap_err();
    assert_eq!(running.code(), "no_rewind_point", "the end is not recorded yet");
    test.result(&run).await.unwrap();
    assert_eq!(test.executions("work"), 2);
    let end = run.journal().await.unwrap().iter().find(|entry| entry.kind == EntryKind::ChildEnded).unwrap().seq;
    let fork = run.fork(end).id("f").await.unwrap();
    assert_eq!(test.result(&fork).await.unwrap(), 3);
    assert_eq!(test.executions("work"), 3, "the first child is not started again");
    assert!(test.get_run::<u32>("given@2").await.is_ok());
}

#[tokio::test]
async fn fork_after_the_start_of_a_child_that_runs_is_refused() {
    async fn keeps(ctx: Ctx, _: ()) -> Result<u32> {
        let child = ctx.spawn(child, &1).id("slow").await?;
        ctx.step("meanwhile", || async { outlive::Ok(()) }).await?;
        Ok(child.result().await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("keeps", keeps).workflow("child", child)).await;
    let run = test.start(keeps, &()).id("p").await.unwrap();
    test.settle().await;
    let refused = run.fork("meanwhile").await.unwrap_err();
    assert_eq!(refused.code(), "fork_child");
    assert!(refused.to_string().contains("its child \"slow\" has not ended"), "{refused}");
    assert_eq!(run.fork("meanwhile").dry_run().await.unwrap_err().code(), "fork_child");
    test.result(&run).await.unwrap();
    let fork = run.fork("meanwhile").await.unwrap();
    assert_eq!(test.result(&fork).await.unwrap(), 1);
}

#[tokio::test]
async fn fork_is_reported_as_a_lifecycle_event() {
    let test = TestEngine::new(|engine| engine.workflow("approval", approval)).await;
    let run = test.start(approval, &()).id("order").await.unwrap();
    run.signal("approval", "ada").await.unwrap();
    test.settle().await;
    let mut events = test.events().await.unwrap();
    run.fork("approval").id("copy").await.unwrap();
    assert_eq!(events.next().await.unwrap().kind, LifecycleKind::RunQueued);
    let kind = events.next().await.unwrap().kind;
    let operation = Some("wait:approval".to_owned());
    assert_eq!(kind, LifecycleKind::RunForked { from: "order".to_owned(), kept_to: 0, operation });
}
