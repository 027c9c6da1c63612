//! Logging: a line at startup, lines for failures, spans around user code, and nothing during a replay.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use outlive::job::{TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use outlive_testkit::TestEngine;
use tokio::sync::Semaphore;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Instrument, Level, Metadata, Subscriber};

/// Keeps each line as `LEVEL spans: message fields`.
#[derive(Clone, Default)]
struct Lines(Arc<Kept>);

#[derive(Default)]
struct Kept {
    lines: Mutex<Vec<String>>,
    spans: Mutex<BTreeMap<u64, String>>,
    entered: Mutex<Vec<u64>>,
    ids: AtomicU64,
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => write!(self.fields, " {name}={value:?}").unwrap(),
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.0.ids.fetch_add(1, Ordering::Relaxed) + 1;
        let mut text = Text::default();
        span.record(&mut text);
        let text = format!("{}{{{}}}", span.metadata().name(), text.fields.trim());
        self.0.spans.lock().unwrap().insert(id, text);
        Id::from_u64(id)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let spans = self.0.spans.lock().unwrap();
        let around: Vec<_> = self.0.entered.lock().unwrap().iter().map(|id| spans[id].clone()).collect();
        let level = event.metadata().level();
        self.0.lines.lock().unwrap().push(format!("{level} {}: {}{}", around.join(":"), text.message, text.fields));
    }
    fn enter(&self, id: &Id) {
        self.0.entered.lock().unwrap().push(id.into_u64());
    }
    fn exit(&self, id: &Id) {
        let last = self.0.entered.lock().unwrap().pop();
        assert_eq!(last, Some(id.into_u64()), "spans are exited in the reverse order of entry");
    }
}

impl Lines {
    /// Returns the lines since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lines.lock().unwrap())
    }
}

/// Keeps the lines of this thread. With a single subscriber, call sites that other threads reach first are off for all,
/// so there is a second one.
fn logged() -> (Lines, DefaultGuard) {
    static OTHER: OnceLock<Dispatch> = OnceLock::new();
    OTHER.get_or_init(|| Dispatch::new(Lines::default()));
    let lines = Lines::default();
    (lines.clone(), tracing::subscriber::set_default(lines))
}

async fn talk(ctx: Ctx, _: ()) -> Result<()> {
    tracing::info!("begin");
    ctx.step("charge", || async {
        tracing::info!("charging");
        outlive::Ok(())
    })
    .await?;
    tracing::info!("charged");
    ctx.wait::<()>("approval").await?;
    tracing::info!("approved");
    Ok(())
}

const RUN: &str = r#"run{id="r" workflow="talk"}"#;

/// They were bare: nothing said which run and step they came from.
#[tokio::test]
async fn lines_of_user_code_carry_its_run_and_step() {
    let (lines, _logged) = logged();
    let test = TestEngine::new(|engine| engine.workflow("talk", talk)).await;
    lines.take();
    let run = test.start(talk, &()).id("r").await.unwrap();
    run.signal("approval", &()).await.unwrap();
    run.result().await.unwrap();
    let step = format!(r#"{RUN}:step{{name="charge" attempt=1}}"#);
    let expected = ["begin", "charging", "charged", "approved"].map(|line| {
        let spans = if line == "charging" { &*step } else { RUN };
        format!("INFO {spans}: {line}")
    });
    assert_eq!(lines.take(), expected);
}

/// Everything logged before a crash or a pause was logged again each time the run came back.
#[tokio::test]
async fn replay_logs_nothing_again() {
    let (lines, _logged) = logged();
    let mut test = TestEngine::new(|engine| engine.workflow("talk", talk)).await;
    test.start(talk, &()).id("r").await.unwrap();
    test.settle().await;
    test.crash().await;
    test.settle().await;
    lines.take();
    let run = test.get_run::<()>("r").await.unwrap();
    run.signal("approval", &()).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(lines.take(), [format!("INFO {RUN}: approved")]);
}

#[derive(Clone)]
struct Gate(Arc<Semaphore>);

async fn two(ctx: Ctx, _: ()) -> Result<()> {
    tracing::info!("before a");
    ctx.step("a", || async { outlive::Ok(()) }).await?;
    tracing::info!("before b");
    let gate = ctx.get::<Gate>().clone();
    ctx.step("b", || async {
        tracing::info!("in it");
        gate.0.acquire().await.map(drop)
    })
    .await?;
    tracing::info!("the end");
    Ok(())
}

/// A run that died in a step logs from that step on.
#[tokio::test]
async fn run_resumed_after_a_crash_logs_only_new_lines() {
    let (lines, _logged) = logged();
    let gate = Gate(Arc::new(Semaphore::new(0)));
    let given = gate.clone();
    let mut test = TestEngine::new(move |engine| engine.provide(given.clone()).workflow("two", two)).await;
    let run = test.start(two, &()).id("r").await.unwrap();
    while run.journal().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    lines.take();
    gate.0.add_permits(1);
    test.crash().await;
    test.settle().await;
    let logged = lines.take();
    assert!(!logged.iter().any(|line| line.contains("before a")), "{logged:?}");
    let run = r#"run{id="r" workflow="two"}"#;
    assert!(logged.contains(&format!(r#"INFO {run}:step{{name="b" attempt=1}}: in it"#)), "{logged:?}");
    assert_eq!(logged.last(), Some(&format!("INFO {run}: the end")));
}

async fn spanned(ctx: Ctx, _: ()) -> Result<()> {
    let work = async {
        tracing::info!("first");
        ctx.wait::<()>("approval").await?;
        tracing::info!("second");
        Ok(())
    };
    work.instrument(tracing::info_span!("mine", n = 7)).await
}

/// Call sites are on or off for the whole process, decided when they are first reached: a replay must not turn one off.
/// A span opened before the crash is around what comes after it.
#[tokio::test]
async fn replay_disables_no_log_line_and_keeps_user_spans() {
    let lines = Lines::default();
    let mut test = TestEngine::new(|engine| engine.workflow("spanned", spanned)).paranoid(false).await;
    test.start(spanned, &()).id("r").await.unwrap();
    test.settle().await;
    let _logged = tracing::subscriber::set_default(lines.clone());
    test.crash().await;
    lines.take();
    let run = test.get_run::<()>("r").await.unwrap();
    run.signal("approval", &()).await.unwrap();
    run.result().await.unwrap();
    let line = |id: &str, text: &str| format!(r#"INFO run{{id="{id}" workflow="spanned"}}:mine{{n=7}}: {text}"#);
    assert_eq!(lines.take(), [line("r", "second")]);
    let run = test.start(spanned, &()).id("s").await.unwrap();
    run.signal("approval", &()).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(lines.take(), [line("s", "first"), line("s", "second")]);
}

async fn declined(ctx: Ctx, _: ()) -> Result<()> {
    let charge = || async { Err::<(), BoxError>("declined".into()) };
    Ok(ctx.step("charge", charge).retry(Retry::times(1).constant("1 second")).await?)
}

/// Nothing was logged about failures, at any level.
#[tokio::test]
async fn failed_attempts_steps_and_runs_are_warnings() {
    let (lines, _logged) = logged();
    let test = TestEngine::new(|engine| engine.workflow("declined", declined)).await;
    lines.take();
    let run = test.start(declined, &()).id("r").await.unwrap();
    test.skip_time().await;
    assert!(run.result().await.is_err());
    let logged = lines.take();
    let fields = r#"run="r" workflow="declined""#;
    assert!(logged[0].starts_with("WARN : attempt failed, next at 20"), "{logged:?}");
    assert!(logged[0].ends_with(&format!(r#"Z: declined {fields} step="charge" attempt=1"#)), "{logged:?}");
    assert_eq!(logged[1], format!(r#"WARN : step failed: declined {fields} step="charge" attempt=2"#));
    assert!(logged[2].starts_with("WARN : run failed: ") && logged[2].ends_with(fields), "{logged:?}");
    assert_eq!(logged.len(), 3, "{logged:?}");
}

const MAIL: WorkerPool<String> = WorkerPool::new("mail");
const ORDERS: outlive::job::Task<String, ()> = outlive::job::Task::new("orders");

async fn deliver(_: WorkerPoolCtx<String>, mail: String) -> Result<()> {
    tracing::info!("delivering {mail}");
    Err("no such address".into())
}

async fn order(_: TaskCtx<String, ()>, order: String) -> Result<()> {
    tracing::info!("taking {order}");
    Ok(())
}

async fn check(_: TaskCtx<String, ()>) -> Result<()> {
    Ok(())
}

/// Nothing was logged about an event that was given up.
#[tokio::test]
async fn handlers_have_spans_and_dead_letters_are_warnings() {
    let (lines, _logged) = logged();
    let test = TestEngine::new(|engine| {
        engine.job(MAIL.concurrency(1).execute(deliver)).job(ORDERS.on_event(order).execute(check))
    })
    .await;
    lines.take();
    test.job(ORDERS).ask::<()>("7", &"a tent".to_owned()).await.unwrap();
    let taking = r#"INFO job{id="task:orders:7" handler="on_event" attempt=1}: taking a tent"#;
    assert_eq!(lines.take(), [taking]);
    test.job(MAIL).push(&"hello".to_owned()).await.unwrap();
    test.settle().await;
    assert_eq!(
        lines.take(),
        [
            r#"INFO job{id="pool:mail:main" handler="execute" attempt=1}: delivering hello"#,
            r#"WARN : execute failed: no such address job="pool:mail:main" handler="execute" attempt=1"#,
            r#"WARN : event is a dead letter; retry or discard it job="pool:mail:main" event=2 attempts=1"#,
        ]
    );
}

/// An engine logged nothing when it started or came back after a crash.
#[tokio::test]
async fn startup_logs_one_line_and_warns_after_a_crash() {
    let (lines, _logged) = logged();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let open = || Engine::open(&path).workflow("talk", talk).job(ORDERS.on_event(order).execute(check));
    let engine = open().start().await.unwrap();
    let pid = std::process::id();
    let start = |unfinished: u32, lines: &[String]| {
        let fields =
            format!(r#" store={path:?} workflows="talk" jobs="task:orders" unfinished={unfinished} stuck=0 pid={pid}"#);
        assert!(lines.contains(&format!("INFO : engine started{fields}")), "{lines:?}");
    };
    start(0, &lines.take());
    let run = engine.start(talk, &()).id("r").await.unwrap();
    while run.completed_steps().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    engine.shutdown().await.unwrap();
    lines.take();
    let engine = open().start().await.unwrap();
    let logged = lines.take();
    start(1, &logged);
    assert!(!logged.iter().any(|line| line.starts_with("WARN")), "a shutdown is not a crash: {logged:?}");
    engine.shutdown().await.unwrap();
    // As left by a process that dies while it runs.
    let rows = rusqlite::Connection::open(&path).unwrap();
    rows.execute("UPDATE instance SET owner = 1, status = 1, until = NULL", []).unwrap();
    drop(rows);
    let _engine = open().start().await.unwrap();
    let crash = "WARN : the last process ended without a shutdown; resuming what it was running resumed=1";
    let logged = lines.take();
    assert!(logged.contains(&crash.to_owned()), "{logged:?}");
}
