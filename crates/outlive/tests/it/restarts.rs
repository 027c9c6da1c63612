//! Restarts: a run continues under its id with a fresh journal, and loses nothing.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures_util::poll;
use outlive::export::{self, Reader};
use outlive::prelude::*;
use outlive::{EntryKind, Error};
use outlive_testkit::{TestEngine, check};

/// Takes one step per run, and restarts until the input is 0.
async fn countdown(ctx: Ctx, (n, sum): (u32, u32)) -> Result<u32> {
    let sum = ctx.step("add", || async move { outlive::Ok(sum + n) }).await?;
    if n == 0 { Ok(sum) } else { Ok(ctx.restart(&(n - 1, sum)).await?) }
}

async fn kinds_of(test: &TestEngine, id: &str) -> Vec<(u64, String)> {
    let mut events = test.client().events().of(id).from_start().committed().await.unwrap();
    let events = events.read(1_000).await.unwrap();
    events.iter().map(|event| (event.number, event.kind.as_str().to_owned())).collect()
}

#[tokio::test]
async fn result_is_that_of_the_last_run() {
    let test = TestEngine::new(|engine| engine.workflow("countdown", countdown)).await;
    let run = test.start(countdown, &(4, 0)).id("c").tag("kind", "long").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 10);
    let info = run.info().await.unwrap();
    assert_eq!((info.run_number, info.input.as_str(), info.tags["kind"].as_str()), (5, "[4,0]", "long"));
    let journal: Vec<_> = run.journal().await.unwrap().into_iter().map(|entry| (entry.seq, entry.kind)).collect();
    assert_eq!(journal, [(8, EntryKind::Restarted), (9, EntryKind::StepDone)], "the numbers go on");
    let again = test.start(countdown, &(4, 0)).id("c").await.unwrap();
    assert_eq!(again.result().await.unwrap(), 10, "a repeated start joins the run, whatever its input is by now");
}

#[tokio::test]
async fn feed_numbers_go_on_across_restarts() {
    let test = TestEngine::new(|engine| engine.workflow("countdown", countdown)).await;
    let run = test.start(countdown, &(2, 0)).id("c").await.unwrap();
    test.result(&run).await.unwrap();
    let (numbers, kinds): (Vec<u64>, Vec<String>) = kinds_of(&test, "c").await.into_iter().unzip();
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
    let steps = ["step.completed", "run.restarted"];
    let expected = ["run.queued", "run.started"].into_iter().chain(steps).chain(steps);
    let expected: Vec<_> = expected.chain(["step.completed", "run.completed"]).collect();
    assert_eq!(kinds, expected);
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn add(&self, what: impl ToString) {
        self.0.lock().unwrap().push(what.to_string());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

async fn drawing(ctx: Ctx, n: u32) -> Result<()> {
    let (seen, info) = (ctx.get::<Seen>().clone(), ctx.info().clone());
    assert_eq!(info.run_number, 4 - n);
    seen.add(ctx.random());
    seen.add(ctx.uuid());
    ctx.step("draw", |attempt: Attempt| {
        seen.add(attempt.idempotency_key());
        async { outlive::Ok(()) }
    })
    .await?;
    if n == 0 { Ok(()) } else { Ok(ctx.restart(&(n - 1)).await?) }
}

#[tokio::test]
async fn each_run_draws_other_numbers_and_has_other_idempotency_keys() {
    let seen = Seen::default();
    let provided = seen.clone();
    let setup = move |engine: outlive::Builder| engine.workflow("drawing", drawing).provide(provided.clone());
    let test = TestEngine::new(setup).paranoid(false).await;
    let run = test.start(drawing, &3).await.unwrap();
    test.result(&run).await.unwrap();
    let seen = seen.take();
    assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (12, 12), "{seen:?}");
}

/// Takes one signal per run.
async fn listening(ctx: Ctx, heard: Vec<u32>) -> Result<Vec<u32>> {
    let n: u32 = ctx.wait("n").await?;
    let heard: Vec<u32> = heard.into_iter().chain([n]).collect();
    if n == 0 { Ok(heard) } else { Ok(ctx.restart(&heard).await?) }
}

#[tokio::test]
async fn buffered_signals_wait_for_the_next_run_in_order() {
    let mut test = TestEngine::new(|engine| engine.workflow("listening", listening)).await;
    let run = test.start(listening, &Vec::new()).id("l").delay("1 hour").await.unwrap();
    for n in [3, 1, 2] {
        run.signal("n", &n).await.unwrap();
    }
    test.advance("1 hour").await;
    test.crash().await;
    let run: Run<Vec<u32>> = test.get_run("l").await.unwrap();
    run.signal("n", &0).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), [3, 1, 2, 0]);
}

/// Begins to wait for a signal that is there, and restarts without having taken it.
async fn hesitating(ctx: Ctx, round: u32) -> Result<(u32, u32)> {
    if round == 3 {
        return Ok((ctx.wait("n").await?, ctx.wait("n").await?));
    }
    let mut wait = pin!(ctx.wait::<u32>("n"));
    assert!(poll!(wait.as_mut()).is_pending());
    ctx.step("other work", || async { outlive::Ok(()) }).await?;
    Ok(ctx.restart(&(round + 1)).await?)
}

#[tokio::test]
async fn signal_that_was_bound_and_not_consumed_is_taken_along() {
    let mut test = TestEngine::new(|engine| engine.workflow("hesitating", hesitating)).await;
    let run = test.start(hesitating, &1).id("h").delay("1 hour").await.unwrap();
    run.signal("n", &7).await.unwrap();
    run.signal("n", &8).await.unwrap();
    test.advance("1 hour").await;
    test.crash().await;
    let run: Run<(u32, u32)> = test.get_run("h").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), (7, 8));
}

async fn strict_reader(ctx: Ctx, round: u32) -> Result<u32> {
    let n: u32 = ctx.wait("n").await?;
    if round == 3 { Ok(n) } else { Ok(ctx.restart(&(round + 1)).await?) }
}

#[tokio::test]
async fn dead_letters_are_taken_along_until_they_are_discarded() {
    let test = TestEngine::new(|engine| engine.workflow("strict reader", strict_reader)).await;
    let run = test.start(strict_reader, &1).await.unwrap();
    run.signal("n", "seven").await.unwrap();
    run.signal("n", &1).await.unwrap();
    test.settle().await;
    run.signal("n", "eight").await.unwrap();
    run.signal("n", &2).await.unwrap();
    test.settle().await;
    let dead = run.dead_signals().await.unwrap();
    let values: Vec<_> = dead.iter().map(|dead| (dead.name.as_str(), dead.value.as_str())).collect();
    assert_eq!((run.info().await.unwrap().run_number, values), (3, vec![("n", "\"seven\""), ("n", "\"eight\"")]));
    run.discard_dead_signal(dead[0].seq).await.unwrap();
    test.settle().await;
    assert_eq!(run.dead_signals().await.unwrap(), [dead[1].clone()]);
}

async fn child(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.wait("go").await?)
}

/// Starts a child in each run and does not wait for it.
async fn begetting(ctx: Ctx, round: u32) -> Result<()> {
    ctx.spawn(child, &()).await?;
    if round == 3 {
        return Ok(ctx.wait("end").await?);
    }
    Ok(ctx.restart(&(round + 1)).await?)
}

#[tokio::test]
async fn children_of_earlier_runs_are_cancelled_with_the_run() {
    let mut test = TestEngine::new(|engine| engine.workflow("child", child).workflow("begetting", begetting)).await;
    test.start(begetting, &1).id("p").await.unwrap();
    test.settle().await;
    let ended: Run<u32> = test.get_run("p#2/child").await.unwrap();
    ended.signal("go", &1).await.unwrap();
    test.settle().await;
    test.crash().await;
    let run: Run<()> = test.get_run("p").await.unwrap();
    run.cancel("enough").await.unwrap();
    test.settle().await;
    let mut statuses = Vec::new();
    for id in ["p/child", "p#2/child", "p#3/child"] {
        statuses.push(test.get_run::<u32>(id).await.unwrap().status().await.unwrap());
    }
    assert_eq!(statuses, [Status::Cancelled, Status::Completed, Status::Cancelled]);
}

async fn parent(ctx: Ctx, n: u32) -> Result<u32> {
    Ok(ctx.run(countdown, &(n, 0)).await? * 2)
}

#[tokio::test]
async fn parent_waits_for_the_last_run_of_its_child() {
    let test = TestEngine::new(|engine| engine.workflow("countdown", countdown).workflow("parent", parent)).await;
    let run = test.start(parent, &3).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 12);
}

async fn oversized(ctx: Ctx, input: String) -> Result<String> {
    let error = ctx.restart::<String>(&input.repeat(100)).await.unwrap_err();
    Ok(error.code().to_owned())
}

#[tokio::test]
async fn input_over_the_limit_is_an_error_and_writes_nothing() {
    let test = TestEngine::new(|engine| engine.workflow("oversized", oversized).max_payload(100)).await;
    let run = test.start(oversized, &"ten chars!".to_owned()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "payload_too_large");
    assert_eq!((run.journal().await.unwrap().len(), run.info().await.unwrap().run_number), (0, 1));
}

async fn mistyped(ctx: Ctx, _: u32) -> Result<u32> {
    ctx.step("work", || async { outlive::Ok(()) }).await?;
    Ok(ctx.restart("not a number").await?)
}

async fn well_typed(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.step("work", || async { outlive::Ok(()) }).await?;
    if n == 0 { Ok(42) } else { Ok(ctx.restart(&(n - 1)).await?) }
}

#[tokio::test]
async fn input_of_another_type_makes_the_run_stuck_until_the_code_is_fixed() {
    let mut test = TestEngine::new(|engine| engine.workflow("w", mistyped)).await;
    let run = test.start(mistyped, &1).id("r").await.unwrap();
    test.settle().await;
    let info = run.info().await.unwrap();
    assert_eq!((info.status, info.run_number), (Status::Stuck, 1));
    assert!(info.note.unwrap().contains("it restarts with an input that is not the workflow's"));
    test.deploy(|engine| engine.workflow("w", well_typed)).await;
    let run: Run<u32> = test.get_run("r").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 42);
}

/// Swallows what a restart returns, which can only be an error.
async fn swallowing(ctx: Ctx, n: u32) -> Result<u32> {
    if n > 0 {
        let _ = ctx.restart::<()>(&(n - 1)).await;
    }
    Ok(n)
}

#[tokio::test]
async fn nothing_runs_after_a_restart() {
    let test = TestEngine::new(|engine| engine.workflow("swallowing", swallowing)).await;
    let run = test.start(swallowing, &3).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 0);
}

/// Restarts in a scope, in a race that a restart loses only if the other branch is ready first.
async fn racing(ctx: Ctx, n: u32) -> Result<u32> {
    let scope = ctx.scope("inner");
    tokio::select! {
        biased;
        n = async { ctx.step("ready", || async { outlive::Ok(n) }).await }, if n == 0 => Ok(n?),
        again = async { scope.restart(&(n - 1)).await }, if n > 0 => Ok(again?),
        _ = ctx.sleep("1 day") => Ok(99),
    }
}

async fn dropped(ctx: Ctx, n: u32) -> Result<u32> {
    if n > 0 {
        let again = ctx.restart::<u32>(&(n - 1));
        tokio::select! {
            biased;
            again = again => return Ok(again?),
            () = std::future::ready(()) => {}
        }
    }
    Ok(n)
}

#[tokio::test]
async fn restart_in_a_race_counts_only_if_it_is_still_awaited() {
    let test = TestEngine::new(|engine| engine.workflow("racing", racing).workflow("dropped", dropped)).await;
    let run = test.start(racing, &2).await.unwrap();
    assert_eq!((test.result(&run).await.unwrap(), run.info().await.unwrap().run_number), (0, 3));
    let run = test.start(dropped, &2).await.unwrap();
    assert_eq!((test.result(&run).await.unwrap(), run.info().await.unwrap().run_number), (2, 1));
}

async fn stubborn(ctx: Ctx, _: u32) -> Result<u32> {
    let cancelled = ctx.sleep("1 day").await.unwrap_err();
    let again = ctx.restart::<u32>(&1).await.unwrap_err();
    assert!(matches!((&cancelled, &again), (Error::Cancelled { .. }, Error::Cancelled { .. })));
    ctx.step("clean up", || async { outlive::Ok(()) }).await?;
    Err(again.into())
}

#[tokio::test]
async fn cancelled_run_cannot_restart() {
    let test = TestEngine::new(|engine| engine.workflow("stubborn", stubborn)).await;
    let run = test.start(stubborn, &0).await.unwrap();
    test.settle().await;
    run.cancel("enough").await.unwrap();
    test.settle().await;
    assert_eq!((run.status().await.unwrap(), test.executions("clean up")), (Status::Cancelled, 1));
}

async fn pulse(ctx: Ctx, _: ()) -> Result<()> {
    ctx.sleep("1 minute").await?;
    Ok(ctx.restart(&()).await?)
}

#[tokio::test]
async fn deadline_counts_across_restarts() {
    let test = TestEngine::new(|engine| engine.workflow("pulse", pulse)).await;
    let run = test.start(pulse, &()).deadline("1 hour").await.unwrap();
    for _ in 0..59 {
        test.advance("1 minute").await;
    }
    assert_eq!(run.info().await.unwrap().run_number, 60);
    test.advance("1 minute").await;
    test.advance("1 minute").await;
    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
}

#[tokio::test]
async fn eternal_run_is_cancelled_paused_and_terminated_like_any_other() {
    let test = TestEngine::new(|engine| engine.workflow("pulse", pulse)).await;
    let [cancelled, paused, terminated] =
        [test.start(pulse, &()).await, test.start(pulse, &()).await, test.start(pulse, &()).await].map(Result::unwrap);
    for _ in 0..3 {
        test.advance("1 minute").await;
    }
    cancelled.cancel("enough").await.unwrap();
    paused.pause().await.unwrap();
    terminated.terminate("now").await.unwrap();
    for _ in 0..3 {
        test.advance("1 minute").await;
    }
    let mut found = Vec::new();
    for run in [&cancelled, &paused, &terminated] {
        let info = run.info().await.unwrap();
        found.push((info.status, info.run_number));
    }
    assert_eq!(found, [(Status::Cancelled, 4), (Status::Paused, 4), (Status::Cancelled, 4)]);
    paused.resume().await.unwrap();
    test.advance("1 minute").await;
    assert!(paused.info().await.unwrap().run_number > 4);
}

async fn failing(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.step("work", || async { outlive::Ok(()) }).await?;
    if n > 0 {
        return Ok(ctx.restart(&(n - 1)).await?);
    }
    Ok(ctx.step("flaky", || async { outlive::Ok(5) }).await?)
}

#[tokio::test]
async fn retry_continues_the_last_run() {
    let test = TestEngine::new(|engine| engine.workflow("failing", failing)).await;
    test.fail_next("flaky", "no");
    let run = test.start(failing, &2).await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Failed);
    run.retry().await.unwrap();
    assert_eq!((test.result(&run).await.unwrap(), run.info().await.unwrap().run_number), (5, 3));
    assert_eq!(test.executions("work"), 3);
}

#[tokio::test]
async fn restarted_run_is_checked_and_exported_with_its_current_input() {
    let test = TestEngine::new(|engine| engine.workflow("listening", listening)).await;
    let run = test.start(listening, &Vec::new()).id("l").await.unwrap();
    run.signal("n", &3).await.unwrap();
    test.settle().await;
    check(&test, |engine| engine.workflow("listening", listening)).await.assert_fine();
    let mut file = Vec::new();
    export::write(&test, Filter::runs(), &mut file, |_| {}).await.unwrap();
    let runs: Vec<_> = Reader::new(&file[..]).unwrap().map(Result::unwrap).collect();
    assert_eq!((runs.len(), runs[0].instance.restarts), (1, 1));
    assert_eq!(runs[0].journal.as_ref().unwrap()[0].kind, EntryKind::Restarted);
}
