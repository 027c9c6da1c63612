//! Capabilities that meet: rewinds of what was undone, of runs that have restarted, and of questions.

use std::sync::{Arc, Mutex};

use outlive::prelude::*;
use outlive::{Builder, RewindPoint};
use outlive_sqlite::{Options, SqliteStore};
use outlive_testkit::TestEngine;
use tempfile::TempDir;

/// What happened outside, in order.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<String>>>);

impl World {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// An engine on a file, which checks what the store in memory cannot.
async fn engine<F, M>(workflow: F) -> (TestEngine, World, TempDir)
where
    F: outlive::workflow::WorkflowFn<M> + Copy,
    M: 'static,
{
    let world = World::default();
    let provided = world.clone();
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("test.db"), Options::default()).unwrap();
    let build = move |engine: Builder| engine.workflow("it", workflow).provide(provided.clone());
    let test = TestEngine::new(build).store(Arc::new(store)).await;
    (test, world, folder)
}

async fn order(ctx: Ctx, _: ()) -> Result<String> {
    let world = ctx.get::<World>().clone();
    let undone = world.clone();
    let charged = ctx
        .step("charge", |attempt: Attempt| {
            world.note(format!("charge {}", attempt.idempotency_key()));
            async { outlive::Ok("paid".to_owned()) }
        })
        .undo("refund", move |paid: String| {
            undone.note(format!("refund {paid}"));
            async { outlive::Ok(()) }
        })
        .await?;
    ctx.step("pack", || async { outlive::Ok(()) }).await?;
    let is_fixed = !world.0.lock().unwrap().iter().any(|line| line == "broken");
    ctx.step("ship", || async { if is_fixed { Ok(()) } else { Err("no van") } }).await?;
    Ok(charged)
}

#[tokio::test]
async fn rewound_run_repeats_what_was_undone_after_the_point() {
    let (test, world, _folder) = engine(order).await;
    world.note("broken");
    let run = test.start(order, &()).id("o").await.unwrap();
    test.result(&run).await.unwrap_err();
    let lines = world.take();
    assert_eq!(lines[2], "refund paid", "{lines:?}");
    let plan = run.rewind("ship").dry_run().await.unwrap();
    assert!(plan.runs_again.iter().any(|op| op == "step:charge"), "{plan:?}");
    assert!(plan.kept.iter().any(|op| op == "step:pack"), "{plan:?}");
    run.rewind("ship").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "paid");
    let again = world.take();
    assert_eq!(again.len(), 1, "{again:?}");
    assert_ne!(again[0], lines[1], "the charge after the refund is another one");
}

#[tokio::test]
async fn run_that_fails_again_after_a_rewind_is_undone_again() {
    let (test, world, _folder) = engine(order).await;
    world.note("broken");
    let run = test.start(order, &()).id("o").await.unwrap();
    test.result(&run).await.unwrap_err();
    run.rewind("ship").await.unwrap();
    test.result(&run).await.unwrap_err();
    let lines = world.take();
    assert_eq!(lines.iter().filter(|line| line.starts_with("charge")).count(), 2, "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("refund")).count(), 2, "{lines:?}");
}

async fn counts_up(ctx: Ctx, first: u32) -> Result<String> {
    let drawn = ctx.uuid();
    ctx.get::<World>().note(format!("from {first} {drawn}"));
    let (n, _) = (ctx.step("next", || async { outlive::Ok(first + 1) }).await?, ctx.wait::<u32>("go").await?);
    match n {
        2 => Ok(ctx.restart(&n).await?),
        n => Ok(format!("{n} {drawn}")),
    }
}

#[tokio::test]
async fn restarted_run_is_rewound_within_its_last_journal() {
    let (test, world, _folder) = engine(counts_up).await;
    let run = test.start(counts_up, &1).id("c").await.unwrap();
    run.signal("go", &0).await.unwrap();
    run.signal("go", &0).await.unwrap();
    let result = test.result(&run).await.unwrap();
    assert!(result.starts_with("3 "), "{result}");
    let lines = world.take();
    run.rewind(RewindPoint::Start).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), result);
    assert_eq!(world.take().last(), lines.last(), "it starts with the input and the random numbers of its last run");
}

#[tokio::test]
async fn fork_of_a_restarted_run_continues_its_last_journal() {
    let (test, world, _folder) = engine(counts_up).await;
    let run = test.start(counts_up, &1).id("c").await.unwrap();
    run.signal("go", &0).await.unwrap();
    run.signal("go", &0).await.unwrap();
    let result = test.result(&run).await.unwrap();
    world.take();
    let fork = run.fork("go").id("f").await.unwrap();
    assert_eq!(test.result(&fork).await.unwrap(), result);
    for (point, id) in [(RewindPoint::Start, "g"), ("next".into(), "h")] {
        let edited = run.fork(point).input(&41).id(id).await.unwrap();
        let result = test.result(&edited).await.unwrap();
        assert!(result.starts_with("42 "), "{id}: {result}");
    }
    let again = run.fork(RewindPoint::Start).id("i").await.unwrap();
    assert!(test.result(&again).await.unwrap().starts_with("3 "), "a fork has the input of the last run");
}

async fn desk(ctx: Ctx, _: ()) -> Result<u32> {
    let (question, reply) = ctx.wait_ask::<u32, u32>("double").await?;
    ctx.step("look up", || async { outlive::Ok(()) }).await?;
    let fails = ctx.wait::<bool>("go").await?;
    if fails {
        return Err("out of order".into());
    }
    reply.send(&(2 * question)).await?;
    Ok(question)
}

#[tokio::test]
async fn question_that_was_not_answered_is_given_back_by_a_rewind() {
    let (test, _, _folder) = engine(desk).await;
    let run = test.start(desk, &()).id("d").await.unwrap();
    let asking = tokio::spawn({
        let run = run.clone();
        async move { run.ask::<_, u32>("double", &21_u32).await }
    });
    test.settle().await;
    test.advance("1 minute").await;
    run.rewind("double").await.unwrap();
    run.signal("go", &false).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 21);
    assert_eq!(asking.await.unwrap().unwrap(), 42);
}

async fn reports(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.publish("state", &n).await?;
    ctx.append("log", &n).await?;
    if n < 3 { Ok(ctx.restart(&(n + 1)).await?) } else { Ok(n) }
}

#[tokio::test]
async fn restarted_run_keeps_its_values_and_streams() {
    let (test, _, _folder) = engine(reports).await;
    let run = test.start(reports, &1).id("r").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 3);
    assert_eq!(run.value::<u32>("state").await.unwrap(), Some(3));
    let mut log = run.stream::<u32>("log");
    let mut items = Vec::new();
    while let Some(item) = log.next().await.unwrap() {
        items.push((item.offset, item.value));
    }
    assert_eq!(items, [(0, 1), (1, 2), (2, 3)]);
}
