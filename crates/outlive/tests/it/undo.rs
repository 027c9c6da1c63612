//! Undo: what a run has done is undone, last first, if the run fails or is cancelled, and only then.

use std::sync::{Arc, Mutex};

use outlive::clock::Clock;
use outlive::prelude::*;
use outlive::store::Store;
use outlive::{EntryKind, Failure};
use outlive_core::id::Name;
use outlive_core::message::Message;
use outlive_core::store::commit::{self, Write};
use outlive_core::store::memory::MemoryStore;
use outlive_testkit::{TestClock, TestEngine};

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

async fn act(ctx: &Ctx, what: &str) -> Result<String> {
    ctx.get::<World>().note(what);
    Ok(format!("{what} done"))
}

/// Returns a body that notes what it undoes.
fn un(ctx: &Ctx) -> impl FnMut(String) -> std::future::Ready<Result<()>> + Send + 'static {
    let world = ctx.get::<World>().clone();
    move |value| {
        world.note(format!("un-{value}"));
        std::future::ready(Ok(()))
    }
}

async fn fail() -> Result<u32> {
    Err("no stock".into())
}

async fn engine<F, M>(workflow: F) -> (TestEngine, World)
where
    F: outlive::workflow::WorkflowFn<M> + Copy,
    M: 'static,
{
    let world = World::default();
    let provided = world.clone();
    let test = TestEngine::new(move |engine| engine.workflow("order", workflow).provide(provided.clone())).await;
    (test, world)
}

async fn fails_third(ctx: Ctx, fails: bool) -> Result<u32> {
    ctx.step("a", || act(&ctx, "a")).undo("undo a", un(&ctx)).await?;
    ctx.step("b", || act(&ctx, "b")).undo("first", un(&ctx)).undo("second", un(&ctx)).await?;
    ctx.step("plain", || act(&ctx, "plain")).await?;
    if fails { Ok(ctx.step("c", fail).undo("undo c", |_| async { outlive::Ok(()) }).await?) } else { Ok(7) }
}

#[tokio::test]
async fn completed_steps_are_undone_last_first() {
    let (test, world) = engine(fails_third).await;
    let run = test.start(fails_third, &true).id("r").await.unwrap();
    let error = test.result(&run).await.unwrap_err();
    assert!(error.to_string().contains("no stock"), "{error}");
    assert_eq!(run.status().await.unwrap(), Status::Failed);
    assert_eq!(world.take(), ["a", "b", "plain", "un-b done", "un-b done", "un-a done"]);
    let journal = run.journal().await.unwrap();
    let lines: Vec<_> = journal.iter().map(|entry| format!("{} {}", entry.kind.as_str(), entry.op)).collect();
    assert_eq!(
        lines,
        [
            "undo planned undo:undo a[step:a]",
            "step done step:a",
            "undo planned undo:first[step:b]",
            "undo planned undo:second[step:b]",
            "step done step:b",
            "step done step:plain",
            "step failed step:c",
            "unwinding unwind",
            "step done undo:second[step:b]",
            "step done undo:first[step:b]",
            "step done undo:undo a[step:a]",
        ]
    );
}

#[tokio::test]
async fn nothing_is_undone_if_the_run_completes() {
    let (test, world) = engine(fails_third).await;
    let run = test.start(fails_third, &false).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 7);
    assert_eq!(world.take(), ["a", "b", "plain"]);
    let progress = run.progress().await.unwrap();
    assert_eq!(progress.undos_left, ["undo:second[b]", "undo:first[b]", "undo:undo a[a]"]);
    assert!(!progress.is_unwinding);
    assert!(run.journal().await.unwrap().iter().all(|entry| entry.kind != EntryKind::Unwinding));
}

async fn concurrent(ctx: Ctx, _: ()) -> Result<u32> {
    let slow = ctx.scope("slow");
    let (one, other) = tokio::join!(
        async {
            slow.sleep("1 minute").await?;
            slow.step("a", || act(&ctx, "slow")).undo("undo", un(&ctx)).await
        },
        ctx.step("a", || act(&ctx, "fast")).undo("undo", un(&ctx)),
    );
    one?;
    other?;
    Ok(ctx.step("c", fail).await?)
}

#[tokio::test]
async fn concurrent_steps_are_undone_in_reverse_order_of_completion() {
    let (test, world) = engine(concurrent).await;
    let run = test.start(concurrent, &()).await.unwrap();
    assert!(test.result(&run).await.is_err());
    assert_eq!(world.take(), ["fast", "slow", "un-slow done", "un-fast done"]);
}

async fn loses(ctx: Ctx, _: ()) -> Result<u32> {
    let mut kept = Box::pin(ctx.step("kept", || act(&ctx, "kept")).undo("undo", un(&ctx)));
    assert!(futures_util::poll!(&mut kept).is_pending());
    ctx.step("a", || act(&ctx, "a")).await?;
    ctx.step("b", || act(&ctx, "b")).await?;
    drop(kept);
    Ok(ctx.step("c", fail).await?)
}

#[tokio::test]
async fn step_that_is_dropped_after_it_was_done_is_undone() {
    let (test, world) = engine(loses).await;
    let run = test.start(loses, &()).await.unwrap();
    assert!(test.result(&run).await.is_err());
    assert_eq!(world.take(), ["kept", "a", "b", "un-kept done"]);
}

async fn waits(ctx: Ctx, swallows: bool) -> Result<u32> {
    ctx.step("a", || act(&ctx, "a")).undo("undo", un(&ctx)).await?;
    match ctx.wait::<u32>("go").await {
        Err(error) if error.is_cancelled() && swallows => Ok(0),
        other => Ok(other?),
    }
}

#[tokio::test]
async fn cancelled_run_is_undone_whatever_it_returns() {
    for swallows in [true, false] {
        let (test, world) = engine(waits).await;
        let run = test.start(waits, &swallows).await.unwrap();
        test.settle().await;
        run.cancel("withdrawn").await.unwrap();
        assert_eq!(test.result(&run).await.unwrap_err().to_string(), "cancelled: withdrawn");
        assert_eq!(world.take(), ["a", "un-a done"]);
    }
}

#[tokio::test]
async fn terminated_run_is_not_undone() {
    let (test, world) = engine(waits).await;
    let run = test.start(waits, &false).await.unwrap();
    test.settle().await;
    run.terminate("at once").await.unwrap();
    assert!(test.result(&run).await.is_err());
    assert_eq!(world.take(), ["a"]);
}

async fn retries_its_undo(ctx: Ctx, _: ()) -> Result<u32> {
    let undo = un(&ctx);
    ctx.step("a", || act(&ctx, "a")).undo("undo", undo).undo_retry(Retry::times(2).constant("1 hour")).await?;
    Ok(ctx.step("c", fail).await?)
}

#[tokio::test]
async fn undo_is_retried_and_not_cancelled() {
    let (mut test, world) = engine(retries_its_undo).await;
    test.fail_next("undo", "the bank is closed");
    let run = test.start(retries_its_undo, &()).id("r").await.unwrap();
    test.settle().await;
    let progress = run.progress().await.unwrap();
    let text = progress.to_string();
    assert!(text.starts_with("retrying (undo:undo[a], attempt 2 in "), "{text}");
    assert!(text.ends_with(", 1 left to undo") && progress.undos_left == ["undo:undo[a]"], "{progress:?}");
    run.cancel("again").await.unwrap();
    test.settle().await;
    assert_eq!(world.take(), ["a"], "the undo waits for its next attempt");
    test.crash().await;
    let run = test.client().get_run::<u32>("r").await.unwrap();
    run.cancel("and again").await.unwrap();
    test.settle().await;
    assert!(world.take().is_empty());
    assert_eq!(test.result(&run).await.unwrap_err().to_string(), "cancelled: again");
    assert_eq!(world.take(), ["un-a done"]);
}

/// Where another process writes.
struct Outside(Arc<MemoryStore>);

/// Another process cancels the run while its last step runs, which the engine does not notice before the run ends.
async fn cancelled_meanwhile(ctx: Ctx, _: ()) -> Result<u32> {
    let body = || async {
        let (id, message) = (Name::recorded("r"), Message::Cancel { reason: "late".into() });
        let send = commit::SendWrite { id, num: None, message, at: TestClock::new().now(), dedup: None, token: 1 };
        ctx.get::<Outside>().0.write(Arc::new(vec![Write::Message(send)])).await?;
        act(&ctx, "a").await
    };
    ctx.step("a", body).undo("undo", un(&ctx)).await?;
    Ok(7)
}

#[tokio::test]
async fn cancel_that_is_taken_after_the_function_has_returned_undoes() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::default());
    let (outside, provided) = (store.clone(), world.clone());
    let setup = move |engine: outlive::Builder| {
        engine.workflow("order", cancelled_meanwhile).provide(Outside(outside.clone())).provide(provided.clone())
    };
    let test = TestEngine::new(setup).store(store).await;
    let run = test.start(cancelled_meanwhile, &()).id("r").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap_err().to_string(), "cancelled: late");
    assert_eq!(world.take(), ["a", "un-a done"]);
    let kinds: Vec<_> = run.journal().await.unwrap().iter().map(|entry| entry.kind).collect();
    let expected = [EntryKind::UndoPlanned, EntryKind::StepDone, EntryKind::CancelTaken, EntryKind::Unwinding];
    assert_eq!(kinds[..4], expected);
}

#[tokio::test]
async fn deadline_does_not_end_an_undo() {
    let (test, world) = engine(retries_its_undo).await;
    test.fail_next("undo", "the bank is closed");
    let run = test.start(retries_its_undo, &()).deadline("10 minutes").await.unwrap();
    let error = test.result(&run).await.unwrap_err();
    assert!(error.to_string().contains("no stock"), "the run failed before its deadline: {error}");
    assert_eq!(world.take(), ["a", "un-a done"]);
}

async fn two_undos(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("a", || act(&ctx, "a")).undo("undo a", un(&ctx)).await?;
    ctx.step("b", || act(&ctx, "b")).undo("undo b", un(&ctx)).undo_retry(1).await?;
    ctx.step("c", || act(&ctx, "c")).undo("undo c", un(&ctx)).await?;
    Ok(ctx.step("ship", fail).await?)
}

#[tokio::test]
async fn run_is_stuck_with_an_undo_that_failed_and_continues_there() {
    let (test, world) = engine(two_undos).await;
    let failure = || Failure::new(outlive::Cause::Error, "the bank is gone").permanent();
    test.fail_next_with("undo b", failure());
    let run = test.start(two_undos, &()).await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Stuck);
    let note = run.info().await.unwrap().note.unwrap();
    assert!(note.contains("the bank is gone") && note.contains("undo:undo b[step:b]"), "{note}");
    assert!(note.contains("undo:undo a[step:a]") && !note.contains("undo:undo c"), "{note}");
    assert_eq!(world.take(), ["a", "b", "c", "un-c done"]);
    run.retry().await.unwrap();
    assert!(test.result(&run).await.unwrap_err().to_string().contains("no stock"));
    assert_eq!(world.take(), ["un-b done", "un-a done"]);
    assert_eq!(run.status().await.unwrap(), Status::Failed);
}

async fn keyed(ctx: Ctx, _: ()) -> Result<u32> {
    let world = ctx.get::<World>().clone();
    let (charging, refunding) = (world.clone(), world);
    let charge = |attempt: Attempt| {
        charging.note(attempt.idempotency_key());
        async { outlive::Ok(1) }
    };
    let refund = move |_: u32, attempt: Attempt| {
        refunding.note(attempt.idempotency_key());
        async { outlive::Ok(()) }
    };
    ctx.step("charge", charge).undo("refund", refund).await?;
    ctx.step("pack", || act(&ctx, "pack")).await?;
    Ok(ctx.step("ship", fail).await?)
}

/// A step that was undone is done again, and not taken for the one that was undone.
#[tokio::test]
async fn retried_run_repeats_what_was_undone() {
    let (test, world) = engine(keyed).await;
    let run = test.start(keyed, &()).id("r").await.unwrap();
    let num = "r/1";
    for round in ["", "~r2", "~r3"] {
        let error = test.result(&run).await.unwrap_err();
        assert!(error.to_string().contains("no stock"), "{error}");
        let mut expected = vec![format!("{num}/step:charge{round}"), format!("{num}/undo:refund[step:charge]{round}")];
        if round.is_empty() {
            expected.insert(1, "pack".into());
        }
        assert_eq!(world.take(), expected, "only what was undone and what failed is repeated");
        if round == "~r3" {
            test.fail_next("charge", "declined");
        }
        run.retry().await.unwrap();
    }
    assert!(test.result(&run).await.unwrap_err().to_string().contains("declined"));
    assert!(world.take().is_empty(), "nothing is done, so there is nothing to undo");
}

async fn undoes_on_purpose(ctx: Ctx, fails: bool) -> Result<String> {
    ctx.step("a", || act(&ctx, "a")).undo("undo", un(&ctx)).await?;
    ctx.undo_all().await?;
    ctx.step("b", || act(&ctx, "b")).undo("undo", un(&ctx)).await?;
    if fails {
        ctx.step("ship", fail).await?;
    }
    Ok("done".into())
}

#[tokio::test]
async fn undo_all_undoes_in_the_middle_and_only_once() {
    let (test, world) = engine(undoes_on_purpose).await;
    let run = test.start(undoes_on_purpose, &false).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "done");
    assert_eq!(world.take(), ["a", "un-a done", "b"]);
    let run = test.start(undoes_on_purpose, &true).await.unwrap();
    assert!(test.result(&run).await.is_err());
    assert_eq!(world.take(), ["a", "un-a done", "b", "un-b done"]);
    run.retry().await.unwrap();
    assert!(test.result(&run).await.is_err());
    assert_eq!(world.take(), ["b", "un-b done"], "what the code undid on purpose stays undone");
}

async fn undoes_after_a_failure(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("a", || act(&ctx, "a")).undo("undo", un(&ctx)).await?;
    let shipped = ctx.step("ship", fail).await;
    if shipped.is_err() {
        ctx.undo_all().await?;
    }
    Ok(shipped?)
}

#[tokio::test]
async fn retry_repeats_what_was_undone_on_purpose_after_the_failure() {
    let (test, world) = engine(undoes_after_a_failure).await;
    let run = test.start(undoes_after_a_failure, &()).await.unwrap();
    assert!(test.result(&run).await.is_err());
    assert_eq!(world.take(), ["a", "un-a done"]);
    test.mock_step("ship", |_| outlive::Ok(5));
    run.retry().await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 5);
    assert_eq!(world.take(), ["a"]);
}

async fn gives_up_undoing(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("a", || act(&ctx, "a")).undo("undo", un(&ctx)).await?;
    tokio::select! {
        biased;
        undone = ctx.undo_all() => undone?,
        slept = ctx.sleep("1 second") => slept?,
    }
    Ok(ctx.step("ship", fail).await?)
}

#[tokio::test]
async fn undo_that_was_given_up_is_left_to_do() {
    let (test, world) = engine(gives_up_undoing).await;
    test.fail_next("undo", "not now");
    let run = test.start(gives_up_undoing, &()).await.unwrap();
    assert!(test.result(&run).await.unwrap_err().to_string().contains("no stock"));
    assert_eq!(world.take(), ["a", "un-a done"]);
}

#[tokio::test]
async fn undo_inside_a_step_is_an_error() {
    async fn inside(ctx: Ctx, _: ()) -> Result<()> {
        Ok(ctx.step("a", || async { ctx.undo_all().await.map_err(BoxError::from) }).await?)
    }
    let (test, _) = engine(inside).await;
    let run = test.start(inside, &()).await.unwrap();
    let error = test.result(&run).await.unwrap_err();
    assert!(error.to_string().contains("undo_all"), "{error}");
}

async fn ill_named(ctx: Ctx, how: u32) -> Result<String> {
    let step = ctx.step("a", || act(&ctx, "a"));
    Ok(match how {
        0 => step.undo("", un(&ctx)).await?,
        1 => step.undo("same", un(&ctx)).undo("same", un(&ctx)).await?,
        2 => step.undo_retry(3).await?,
        3 => step.undo("zero", un(&ctx)).undo_timeout(0).await?,
        _ => step.undo("bad", un(&ctx)).undo_retry(Retry::times(1).exponential("0 s")).await?,
    })
}

#[tokio::test]
async fn ill_named_undo_is_an_error_and_changes_nothing() {
    let (test, world) = engine(ill_named).await;
    let expected = ["undo name", "\"same\"", "no undo", "greater than zero", "0"];
    for (how, expected) in (0..).zip(expected) {
        let run = test.start(ill_named, &how).await.unwrap();
        let error = test.result(&run).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(run.journal().await.unwrap().is_empty() && world.take().is_empty());
    }
}

async fn panics(ctx: Ctx, _: ()) -> Result<u32> {
    let world = ctx.get::<World>().clone();
    let undo = move |value: String, attempt: Attempt| {
        assert!(attempt.number > 1, "the first attempt panics");
        world.note(format!("un-{value}"));
        async { outlive::Ok(()) }
    };
    ctx.step("a", || act(&ctx, "a")).undo("undo", undo).await?;
    Ok(ctx.step("ship", fail).await?)
}

#[tokio::test]
async fn panic_of_an_undo_is_a_failed_attempt() {
    let (test, world) = engine(panics).await;
    let run = test.start(panics, &()).await.unwrap();
    assert!(test.result(&run).await.unwrap_err().to_string().contains("no stock"));
    assert_eq!(world.take(), ["a", "un-a done"]);
}
