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

#[tokio::test]
async fn fork_of_an_undone_run_repeats_what_was_undone() {
    let (test, world, _folder) = engine(order).await;
    world.note("broken");
    let run = test.start(order, &()).id("o").await.unwrap();
    test.result(&run).await.unwrap_err();
    world.take();
    let fork = run.fork("ship").id("f").await.unwrap();
    assert_eq!(test.result(&fork).await.unwrap(), "paid");
    let lines = world.take();
    assert_eq!(lines.len(), 1, "the refunded charge is not taken as done: {lines:?}");
    assert!(lines[0].starts_with("charge f/"), "{lines:?}");
}

#[tokio::test]
async fn retried_run_is_rewound_to_the_outcome_that_counts() {
    let (test, world, _folder) = engine(order).await;
    world.note("broken");
    let run = test.start(order, &()).id("o").await.unwrap();
    test.result(&run).await.unwrap_err();
    world.take();
    run.retry().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "paid");
    world.take();
    run.rewind("ship").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "paid");
    assert_eq!(world.take(), Vec::<String>::new(), "the charge of the retry is live, and kept");
}

#[tokio::test]
async fn undo_is_no_point_to_rewind_to_and_its_plan_stands_for_its_step() {
    let (test, world, _folder) = engine(order).await;
    world.note("broken");
    let run = test.start(order, &()).id("o").await.unwrap();
    test.result(&run).await.unwrap_err();
    let journal = run.journal().await.unwrap();
    let seq_of = |op: &str| journal.iter().rfind(|entry| entry.op.starts_with(op)).unwrap().seq;
    for point in [RewindPoint::from("refund"), seq_of("undo:refund").into(), seq_of("unwind").into()] {
        let error = run.rewind(point).await.unwrap_err();
        assert!(matches!(error, Error::NoRewindPoint { .. }), "{error}");
    }
    world.take();
    run.rewind(journal[0].seq).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "paid");
    assert_eq!(world.take().len(), 1);
}

async fn ships_by_child(ctx: Ctx, is_child: bool) -> Result<String> {
    if is_child {
        let (world, id) = (ctx.get::<World>(), &ctx.info().id);
        return Ok(ctx
            .step("pack", || async {
                world.note(format!("pack {id}"));
                outlive::Ok(id.clone())
            })
            .await?);
    }
    let undone = ctx.get::<World>().clone();
    let packing = ctx.spawn(PACK, &true).undo("unpack", move |id: String| {
        undone.note(format!("unpack {id}"));
        async { outlive::Ok(()) }
    });
    let packing = packing.await?;
    ctx.step("print", || async { outlive::Ok(()) }).await?;
    let packed = packing.result().await?;
    let is_fixed = !ctx.get::<World>().0.lock().unwrap().iter().any(|line| line == "broken");
    ctx.step("ship", || async { if is_fixed { Ok(()) } else { Err("no van") } }).await?;
    Ok(packed)
}

const PACK: Workflow<bool, String> = Workflow::new("it");

#[tokio::test]
async fn fork_starts_another_child_for_one_that_was_undone() {
    let (test, world, _folder) = engine(ships_by_child).await;
    world.note("broken");
    let run = test.start(ships_by_child, &false).id("o").await.unwrap();
    test.result(&run).await.unwrap_err();
    let lines = world.take();
    assert!(lines.last().unwrap().starts_with("unpack "), "{lines:?}");
    for point in ["print", "ship"] {
        let fork = run.fork(point).id(&format!("f-{point}")).await.unwrap();
        let packed = test.result(&fork).await.unwrap();
        assert_eq!(world.take(), [format!("pack {packed}")]);
    }
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
    let first = run.journal().await.unwrap()[0].seq;
    let again = run.fork(first).id("j").await.unwrap();
    assert!(test.result(&again).await.unwrap().starts_with("3 "), "its first entry is its start");
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

#[tokio::test]
async fn answer_that_was_given_stays_given_through_a_rewind() {
    let (test, _, _folder) = engine(desk).await;
    let run = test.start(desk, &()).id("d").await.unwrap();
    let asking = tokio::spawn({
        let run = run.clone();
        async move { run.ask::<_, u32>("double", &21_u32).dedup_key("k").await }
    });
    run.signal("go", &false).await.unwrap();
    test.settle().await;
    assert_eq!(asking.await.unwrap().unwrap(), 42);
    run.rewind("look up").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 21);
    assert_eq!(run.journal().await.unwrap().iter().filter(|entry| entry.op.starts_with("reply:")).count(), 2);
}

async fn impatient(ctx: Ctx, _: ()) -> Result<bool> {
    let asked = ctx.wait_ask::<u32, u32>("double").timeout("1 minute").await;
    Ok(matches!(asked, Err(Error::WaitTimeout { .. })))
}

#[tokio::test]
async fn wait_for_a_question_times_out() {
    let (test, _, _folder) = engine(impatient).await;
    let run = test.start(impatient, &()).await.unwrap();
    test.advance("59 seconds").await;
    assert!(!run.status().await.unwrap().is_ended());
    assert!(test.result(&run).await.unwrap());
}

/// Waits for a signal that comes while the wait is about to be dropped, restarts, and takes it then.
async fn takes_once(ctx: Ctx, is_second: bool) -> Result<Vec<u32>> {
    if !is_second {
        let mut wait = Box::pin(ctx.wait::<u32>("x"));
        let _ = futures_util::poll!(&mut wait);
        ctx.sleep("1 minute").await?;
        drop(wait);
        return Ok(ctx.restart(&true).await?);
    }
    let mut taken = vec![ctx.wait::<u32>("x").await?];
    ctx.wait::<u32>("go").await?;
    while let Ok(value) = ctx.wait::<u32>("x").timeout("1 minute").await {
        taken.push(value);
    }
    Ok(taken)
}

#[tokio::test]
async fn signal_that_a_restart_took_along_is_consumed_once() {
    let (mut test, _, _folder) = engine(takes_once).await;
    let run = test.start(takes_once, &false).id("t").await.unwrap();
    test.settle().await;
    run.signal("x", &7).await.unwrap();
    test.advance("2 minutes").await;
    for _ in 0..2 {
        test.crash().await;
    }
    let run = test.client().get_run::<Vec<u32>>("t").await.unwrap();
    run.signal("go", &0).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), [7]);
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
