//! Layers: what they see and may change, and that a replay calls none.

use std::sync::{Arc, Mutex};

use outlive::job::{DeadLetter, Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::layer::{Inner, Layer, LayerFuture, ObservedHandler, ObservedRun, ObservedStep, OnExit, RunExit};
use outlive::prelude::*;
use outlive::{Builder, Cause};
use outlive_testkit::{TestEngine, crash_everywhere};
use serde::{Deserialize, Serialize};

/// Notes everything it sees under its name.
#[derive(Clone, Default)]
struct Notes {
    name: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Notes {
    fn named(&self, name: &'static str) -> Self {
        Self { name, ..self.clone() }
    }

    fn note(&self, line: String) {
        self.lines.lock().unwrap().push(format!("{}{line}", self.name));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

fn ended(result: &Result<()>) -> String {
    result.as_ref().map_or_else(ToString::to_string, |()| "ok".to_owned())
}

impl Layer for Notes {
    fn run(&self, run: &ObservedRun<'_>) -> Option<OnExit> {
        let (notes, id) = (self.clone(), run.info.id.clone());
        self.note(format!("run {id}, replay: {}", run.is_replay));
        Some(Box::new(move |exit| notes.note(format!("run {id}: {exit:?}"))))
    }

    fn step<'a>(&'a self, step: &'a ObservedStep<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
        Box::pin(async move {
            self.note(format!("{} #{} {}", step.name, step.attempt, step.idempotency_key));
            let result = inner.run().await;
            self.note(format!("{}: {}", step.name, ended(&result)));
            result
        })
    }

    fn handler<'a>(&'a self, call: &'a ObservedHandler<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
        Box::pin(async move {
            let ObservedHandler { kind, job, instance, handler, attempt, .. } = *call;
            let result = inner.run().await;
            self.note(format!("{kind} {job} {instance} {handler} #{attempt}: {}", ended(&result)));
            result
        })
    }
}

/// What to do with an attempt of a step or a call of a handler.
#[derive(Clone, Copy)]
enum Act {
    Refuse,
    RefuseForGood,
    Enrich,
    EnrichForGood,
    Swallow,
    Skip,
    Spoil,
    Panic,
    PanicAfter,
}

struct Meddler(Act);

impl Meddler {
    async fn meddle(&self, inner: Inner<'_>) -> Result<()> {
        match self.0 {
            Act::Refuse => Err("closed".into()),
            Act::RefuseForGood => Err(Permanent("closed for good").into()),
            Act::Enrich => inner.run().await.map_err(|error| format!("at noon: {error}").into()),
            Act::EnrichForGood => inner.run().await.map_err(|error| Permanent(error).into()),
            Act::Swallow => {
                let _ = inner.run().await;
                Ok(())
            }
            Act::Skip => Ok(()),
            Act::Spoil => {
                inner.run().await?;
                Err("spoiled".into())
            }
            Act::Panic => panic!("boom"),
            Act::PanicAfter => {
                inner.run().await?;
                panic!("late boom")
            }
        }
    }
}

impl Layer for Meddler {
    fn run(&self, _: &ObservedRun<'_>) -> Option<OnExit> {
        match self.0 {
            Act::Panic => panic!("boom"),
            Act::PanicAfter => Some(Box::new(|_| panic!("late boom"))),
            _ => None,
        }
    }

    fn step<'a>(&'a self, _: &'a ObservedStep<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
        Box::pin(self.meddle(inner))
    }

    fn handler<'a>(&'a self, _: &'a ObservedHandler<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
        Box::pin(self.meddle(inner))
    }
}

async fn pay(ctx: Ctx, _: ()) -> Result<u32> {
    let paid = ctx.step("charge", || async { outlive::Ok(42) }).await?;
    ctx.sleep("30 days").await?;
    ctx.step("ship", || async { outlive::Ok(()) }).await?;
    Ok(paid)
}

#[tokio::test]
async fn layer_sees_executions_and_attempts_and_no_replayed_step() {
    let notes = Notes::default();
    let layer = notes.clone();
    let mut test = TestEngine::new(move |engine| engine.workflow("pay", pay).layer(layer.clone())).await;
    let run = test.start(pay, &()).id("one").await.unwrap();
    test.settle().await;
    test.advance("1 day").await;
    let first = ["run one, replay: false", "charge #1 one/1/step:charge", "charge: ok", "run one: Left"];
    assert_eq!(notes.take(), first);
    drop(run);
    test.crash().await;
    let run = test.get_run::<u32>("one").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 42);
    test.settle().await;
    let second = ["run one, replay: true", "ship #1 one/1/step:ship", "ship: ok", "run one: Completed"];
    assert_eq!(notes.take(), second);
}

#[tokio::test]
async fn first_layer_is_the_outermost() {
    let notes = Notes::default();
    let (outer, inner) = (notes.named("outer "), notes.named("inner "));
    let setup = move |engine: Builder| engine.workflow("pay", pay).layer(outer.clone()).layer(inner.clone());
    let test = TestEngine::new(setup).await;
    test.start(pay, &()).id("one").await.unwrap();
    test.settle().await;
    let charged = notes.take();
    let expected = [
        "outer run one, replay: false",
        "inner run one, replay: false",
        "outer charge #1 one/1/step:charge",
        "inner charge #1 one/1/step:charge",
        "inner charge: ok",
        "outer charge: ok",
    ];
    assert_eq!(charged[..6], expected);
    test.skip_time().await;
    test.settle().await;
    let ended = notes.take();
    assert_eq!(ended[ended.len() - 2..], ["inner run one: Completed", "outer run one: Completed"]);
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("declined with code {code}")]
struct Declined {
    code: u32,
}

async fn decline() -> Result<u32, Declined> {
    Err(Declined { code: 51 })
}

/// Fails once, then succeeds; shows how the step ended.
async fn flaky(ctx: Ctx, fails: bool) -> Result<String> {
    let step = ctx.step("flaky", || async { if fails { decline().await } else { Ok(7) } }).retry(1).details();
    Ok(match step.await {
        Ok(value) => value.to_string(),
        Err(error) => {
            let code = error.details::<Declined>().map(|declined| declined.code);
            let failure = error.failure().unwrap();
            format!("{} {:?} {code:?}: {}", error.code(), failure.cause, failure.message)
        }
    })
}

#[tokio::test]
async fn layer_may_refuse_and_enrich_but_never_make_a_success() {
    let skipped = "a layer returned Ok without running what it is around; call `inner.run()`, or return an error";
    let cases = [
        (Act::Refuse, false, "retry_exhausted Error None: closed".to_owned(), 2),
        (Act::RefuseForGood, false, "step Error None: closed for good".to_owned(), 1),
        (Act::Enrich, false, "7".to_owned(), 1),
        (Act::Enrich, true, "retry_exhausted Error Some(51): at noon: declined with code 51".to_owned(), 2),
        (Act::EnrichForGood, true, "step Error Some(51): declined with code 51".to_owned(), 1),
        (Act::Swallow, true, "retry_exhausted Error Some(51): declined with code 51".to_owned(), 2),
        (Act::Swallow, false, "7".to_owned(), 1),
        (Act::Skip, false, format!("step Error None: {skipped}"), 1),
        (Act::Spoil, false, "retry_exhausted Error None: spoiled".to_owned(), 2),
    ];
    for (act, fails, expected, attempts) in cases {
        let notes = Notes::default();
        let layer = notes.clone();
        let setup = move |engine: Builder| engine.workflow("flaky", flaky).layer(layer.clone()).layer(Meddler(act));
        let test = TestEngine::new(setup).await;
        let run = test.start(flaky, &fails).await.unwrap();
        assert_eq!(test.result(&run).await.unwrap(), expected);
        assert_eq!(notes.take().iter().filter(|line| line.starts_with("flaky #")).count(), attempts, "{expected}");
    }
}

#[tokio::test]
async fn panic_in_a_layer_is_a_failed_attempt() {
    for (act, message) in [(Act::Panic, "boom"), (Act::PanicAfter, "late boom")] {
        let test = TestEngine::new(move |engine| engine.workflow("flaky", flaky).layer(Meddler(act))).await;
        let run = test.start(flaky, &false).await.unwrap();
        let shown = test.result(&run).await.unwrap();
        assert!(shown.starts_with(&format!("retry_exhausted Panic None: {message} at ")), "{shown}");
    }
}

async fn panicking(ctx: Ctx, _: ()) -> Result<()> {
    let error = ctx.step("panic", || async { if true { panic!("boom") } else { outlive::Ok(()) } }).await.unwrap_err();
    assert_eq!(error.failure().unwrap().cause, Cause::Panic);
    Err(error.into())
}

#[tokio::test]
async fn panic_of_a_body_is_an_error_for_layers() {
    let notes = Notes::default();
    let layer = notes.clone();
    let test = TestEngine::new(move |engine| engine.workflow("panicking", panicking).layer(layer.clone())).await;
    let run = test.start(panicking, &()).id("one").await.unwrap();
    assert!(test.result(&run).await.is_err());
    test.settle().await;
    let lines = notes.take();
    assert!(lines[2].starts_with("panic: panicked: boom at "), "{lines:?}");
    assert!(lines[3].starts_with("run one: Failed("), "{lines:?}");
}

#[tokio::test]
async fn timeout_of_an_attempt_includes_its_layers() {
    struct Slow;
    impl Layer for Slow {
        fn step<'a>(&'a self, _: &'a ObservedStep<'a>, _: Inner<'a>) -> LayerFuture<'a> {
            Box::pin(std::future::pending())
        }
    }
    async fn patient(ctx: Ctx, _: ()) -> Result<()> {
        Ok(ctx.step("quick", || async { outlive::Ok(()) }).timeout("1 minute").await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("patient", patient).layer(Slow)).await;
    let run = test.start(patient, &()).await.unwrap();
    let error = test.result(&run).await.unwrap_err();
    assert!(error.to_string().contains("timed out after 1m"), "{error}");
}

tokio::task_local! {
    static WHERE: &'static str;
}

/// A body runs inside the futures of its layers, so that what they set around a poll is set for the body.
#[tokio::test]
async fn body_is_polled_within_its_layers() {
    struct Scope;
    impl Layer for Scope {
        fn step<'a>(&'a self, _: &'a ObservedStep<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
            Box::pin(WHERE.scope("in a layer", inner.run()))
        }
    }
    async fn place(ctx: Ctx, _: ()) -> Result<String> {
        let body = || async {
            tokio::task::yield_now().await;
            outlive::Ok(WHERE.get().to_owned())
        };
        Ok(ctx.step("where", body).await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("place", place).layer(Scope)).await;
    let run = test.start(place, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "in a layer");
}

#[tokio::test]
async fn layer_sees_how_each_execution_ended() {
    async fn waits(ctx: Ctx, _: ()) -> Result<()> {
        Ok(ctx.wait("go").await?)
    }
    async fn fails(_: Ctx, _: ()) -> Result<()> {
        Err("no stock".into())
    }
    async fn gets_stuck(_: Ctx, _: ()) -> Result<()> {
        panic!("a bug")
    }
    #[derive(Clone, Default)]
    struct Exits(Arc<Mutex<Vec<String>>>);
    impl Layer for Exits {
        fn run(&self, run: &ObservedRun<'_>) -> Option<OnExit> {
            let (exits, id) = (self.0.clone(), run.info.id.clone());
            Some(Box::new(move |exit| {
                let how = match exit {
                    RunExit::Completed => "completed".to_owned(),
                    RunExit::Failed(failure) => format!("failed: {failure}"),
                    RunExit::Cancelled => "cancelled".to_owned(),
                    RunExit::Stuck(sentence) => format!("stuck: {}", sentence.split(" at ").next().unwrap()),
                    other => format!("{other:?}"),
                };
                exits.lock().unwrap().push(format!("{id} {how}"));
            }))
        }
    }
    let exits = Exits::default();
    let layer = exits.clone();
    let setup = move |engine: Builder| {
        let engine = engine.workflow("waits", waits).workflow("fails", fails).workflow("gets stuck", gets_stuck);
        engine.layer(layer.clone())
    };
    let test = TestEngine::new(setup).await;
    let cancelled = test.start(waits, &()).id("a").await.unwrap();
    let terminated = test.start(waits, &()).id("b").await.unwrap();
    test.start(fails, &()).id("c").await.unwrap();
    test.start(gets_stuck, &()).id("d").await.unwrap();
    test.settle().await;
    cancelled.cancel("enough").await.unwrap();
    terminated.terminate("now").await.unwrap();
    test.settle().await;
    let mut seen = exits.0.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen[..3], ["a cancelled", "b cancelled", "c failed: no stock"]);
    assert!(seen[3].starts_with("d stuck: ") && seen[3].contains("a bug"), "{seen:?}");
}

#[tokio::test]
async fn panic_of_a_layer_around_a_run_leaves_the_run_alone() {
    struct Loud;
    impl Layer for Loud {
        fn run(&self, run: &ObservedRun<'_>) -> Option<OnExit> {
            assert!(run.info.id != "one", "boom");
            Some(Box::new(|_| panic!("late boom")))
        }
    }
    let test = TestEngine::new(|engine| engine.workflow("pay", pay).layer(Loud)).await;
    for id in ["one", "two"] {
        let run = test.start(pay, &()).id(id).await.unwrap();
        assert_eq!(test.result(&run).await.unwrap(), 42);
    }
}

#[tokio::test]
async fn mocked_step_has_no_layer() {
    let notes = Notes::default();
    let layer = notes.clone();
    let test = TestEngine::new(move |engine| engine.workflow("pay", pay).layer(layer.clone())).await;
    test.mock_step("charge", |_| outlive::Ok(1));
    let run = test.start(pay, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 1);
    assert!(!notes.take().iter().any(|line| line.starts_with("charge")));
}

const ORDERS: Task<String, u32> = Task::new("orders");

async fn on_event(ctx: TaskCtx<String, u32>, event: String) -> Result<u32> {
    ctx.update_state(|count| *count += 1);
    ctx.schedule_in("1 minute")?;
    if event == "bad" { Err("bad event".into()) } else { Ok(7) }
}

async fn execute(_: TaskCtx<String, u32>) -> Result<()> {
    Ok(())
}

const MAIL: WorkerPool<String> = WorkerPool::new("mail");

async fn send(_: WorkerPoolCtx<String>, mail: String) -> Result<()> {
    if mail == "bad" { Err("no such address".into()) } else { Ok(()) }
}

async fn keep(_: WorkerPoolCtx<String>, _: DeadLetter<String>) -> Result<()> {
    Ok(())
}

fn jobs(engine: Builder) -> Builder {
    let orders = ORDERS.on_event(on_event).execute(execute).retry(Retry::times(1));
    let mail = MAIL.concurrency(1).retry(Retry::times(1)).execute(send).on_dead(keep);
    engine.job(orders).job(mail)
}

#[tokio::test]
async fn layer_sees_calls_of_handlers() {
    let notes = Notes::default();
    let layer = notes.clone();
    let test = TestEngine::new(move |engine| jobs(engine).layer(layer.clone())).await;
    assert_eq!(test.job(ORDERS).ask::<u32>("a", &"good".to_owned()).await.unwrap(), 7);
    test.advance("1 hour").await;
    assert_eq!(notes.take(), ["task orders a on_event #1: ok", "task orders a execute #1: ok"]);
    test.job(MAIL).push(&"bad".to_owned()).await.unwrap();
    test.advance("1 hour").await;
    let expected = [
        "pool mail main execute #1: no such address",
        "pool mail main execute #2: no such address",
        "pool mail main on_dead #2: ok",
    ];
    assert_eq!(notes.take(), expected);
}

#[tokio::test]
async fn refused_call_of_a_handler_changes_nothing() {
    for (act, attempts, message) in [
        (Act::Refuse, 2, "closed"),
        (Act::RefuseForGood, 1, "closed for good"),
        (Act::Spoil, 2, "spoiled"),
        (Act::Skip, 1, "a layer returned Ok without running"),
        (Act::Panic, 2, "panicked: boom"),
    ] {
        let notes = Notes::default();
        let layer = notes.clone();
        let test = TestEngine::new(move |engine| jobs(engine).layer(layer.clone()).layer(Meddler(act))).await;
        let orders = test.job(ORDERS);
        orders.send("a", &"good".to_owned()).await.unwrap();
        test.advance("1 hour").await;
        let lines = notes.take();
        assert_eq!(lines.len(), attempts, "{message}: {lines:?}");
        assert!(act_is_silent(act) || lines.iter().all(|line| line.contains(message)), "{message}: {lines:?}");
        assert_eq!(orders.state("a").await.unwrap().unwrap_or_default(), 0, "{message}");
    }
}

/// Such an act is a failure only once it is joined with what the body has put aside, which outer layers do not see.
fn act_is_silent(act: Act) -> bool {
    matches!(act, Act::Skip)
}

#[tokio::test]
async fn layered_workflow_survives_a_crash_at_every_commit() {
    async fn busy(ctx: Ctx, _: ()) -> Result<u32> {
        let charge = |_: Attempt| async { outlive::Ok(1) };
        let (one, two) = tokio::try_join!(ctx.step("one", charge), ctx.step("two", charge))?;
        ctx.sleep("1 hour").await?;
        let refused = ctx.step("refused", charge).retry(1).await;
        assert!(refused.unwrap_err().to_string().contains("closed"));
        Ok(one + two + ctx.step("three", charge).await?)
    }
    struct Door;
    impl Layer for Door {
        fn step<'a>(&'a self, step: &'a ObservedStep<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
            Box::pin(async move {
                tokio::task::yield_now().await;
                if step.name == "refused" { Err("closed".into()) } else { inner.run().await }
            })
        }
    }
    let report = crash_everywhere(busy).setup(|engine| engine.layer(Door)).run().await;
    assert!(report.commits() > 5, "{report}");
}
