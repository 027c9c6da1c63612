//! Typed errors of job handlers: which are retried, and how their details come back.

use outlive::job::{
    Continuous, ContinuousCtx, DeadLetter, Debounce, DebounceCtx, Task, TaskCtx, WorkerPool, WorkerPoolCtx,
};
use outlive::prelude::*;
use outlive::{Failure, Jitter};
use outlive_testkit::TestEngine;
use serde::{Deserialize, Serialize};

use crate::jobs_kit::Book;

#[derive(Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
enum Card {
    #[error("the bank is busy")]
    Busy,
    #[error("declined with code {code}")]
    Declined { code: u32 },
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("no route to {host}")]
struct NoRoute {
    host: String,
}

#[derive(Debug, thiserror::Error)]
#[error("the payment failed")]
struct Payment(#[source] Card);

/// Fails as the event says.
fn fail(how: &str) -> BoxError {
    match how {
        "busy" => Card::Busy.into(),
        "declined" => Card::Declined { code: 51 }.into(),
        "wrapped" => Payment(Card::Declined { code: 52 }).into(),
        "permanent" => Permanent(Card::Declined { code: 53 }).into(),
        "no route" => NoRoute { host: "bank".into() }.into(),
        text => text.into(),
    }
}

/// Formats a failure with its details, whatever their type.
fn kept(failure: &Failure) -> String {
    let card = failure.details().map(|card: Card| format!("{card:?}"));
    let route = failure.details().map(|route: NoRoute| route.host);
    format!("{failure}: {:?}", card.or(route))
}

const POOL: WorkerPool<String> = WorkerPool::new("charges");
const TASK: Task<String, u64> = Task::new("orders");
const BATCH: Debounce<String, String> = Debounce::new("batches");
const BEAT: Continuous<u64> = Continuous::new("beat");

fn minutes(times: u32) -> Retry {
    Retry::times(times).constant("1 minute").jitter(Jitter::none())
}

async fn charge(ctx: WorkerPoolCtx<String>, how: String) -> Result<()> {
    ctx.get::<Book>().note(format!("{how} #{}", ctx.attempt()));
    Err(fail(&how))
}

async fn dead(ctx: WorkerPoolCtx<String>, letter: DeadLetter<String>) -> Result<()> {
    ctx.get::<Book>().note(format!("dead {}", kept(&letter.failure)));
    Ok(())
}

/// Pushes the events one after another, each once the last is given up.
async fn notes_of(test: &TestEngine, book: &Book, events: &[&str]) -> Vec<String> {
    let mut notes = Vec::new();
    for how in events {
        test.job(POOL).push(&(*how).to_owned()).await.unwrap();
        test.advance("10 minutes").await;
        notes.extend(book.take());
    }
    notes
}

async fn pool(
    define: impl Fn() -> outlive::job::WorkerPoolBuilder<String, outlive::job::Executes> + Send + Sync + 'static,
) -> (TestEngine, Book) {
    let book = Book::default();
    let given = book.clone();
    (TestEngine::new(move |engine| engine.job(define()).provide(given.clone())).await, book)
}

#[tokio::test]
async fn retry_if_with_an_error_type_decides_only_about_that_type() {
    let (test, book) =
        pool(|| POOL.concurrency(1).retry(minutes(1)).retry_if(|error: &Card| *error == Card::Busy).execute(charge))
            .await;
    let notes = notes_of(&test, &book, &["busy", "declined", "wrapped", "permanent", "no route", "plain"]).await;
    let once = ["declined #1", "wrapped #1", "permanent #1"];
    assert_eq!(notes[..5], ["busy #1", "busy #2", once[0], once[1], once[2]]);
    assert_eq!(notes[5..], ["no route #1", "no route #2", "plain #1", "plain #2"], "errors of other types");
}

#[tokio::test]
async fn retry_if_with_box_error_decides_about_all_errors() {
    let is_worth_it = |error: &BoxError| error.is::<Card>();
    let (test, book) = pool(move || POOL.concurrency(1).retry(minutes(1)).retry_if(is_worth_it).execute(charge)).await;
    let notes = notes_of(&test, &book, &["busy", "no route", "plain"]).await;
    assert_eq!(notes, ["busy #1", "busy #2", "no route #1", "plain #1"]);
}

#[tokio::test]
async fn details_of_each_type_are_kept_in_on_dead_and_dead_letters() {
    let (test, book) =
        pool(|| POOL.concurrency(1).details::<Card>().details::<NoRoute>().on_dead(dead).execute(charge)).await;
    let notes = notes_of(&test, &book, &["declined", "wrapped", "permanent", "no route", "plain"]).await;
    let shown: Vec<&String> = notes.iter().filter(|note| note.starts_with("dead")).collect();
    let expected = [
        "dead declined with code 51: Some(\"Declined { code: 51 }\")",
        "dead the payment failed: declined with code 52: Some(\"Declined { code: 52 }\")",
        "dead declined with code 53: Some(\"Declined { code: 53 }\")",
        "dead no route to bank: Some(\"bank\")",
        "dead plain: None",
    ];
    assert_eq!(shown, expected);
    let letters = test.job(POOL).dead().await.unwrap();
    let kept: Vec<String> = letters.iter().map(|letter| format!("dead {}", kept(&letter.failure))).collect();
    assert_eq!(kept, expected);
}

#[tokio::test]
async fn details_of_an_undeclared_error_type_are_not_kept() {
    let (test, book) = pool(|| POOL.concurrency(1).on_dead(dead).execute(charge)).await;
    let notes = notes_of(&test, &book, &["declined"]).await;
    assert_eq!(notes[1], "dead declined with code 51: None");
}

#[tokio::test]
async fn error_that_fails_to_serialize_leaves_the_failure_as_it_is() {
    #[derive(Debug, thiserror::Error)]
    #[error("unspeakable")]
    struct Unspeakable;
    impl Serialize for Unspeakable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("not this one")
        }
    }
    async fn charge(_: WorkerPoolCtx<String>, _: String) -> Result<(), Unspeakable> {
        Err(Unspeakable)
    }
    let (test, book) = pool(|| POOL.concurrency(1).details::<Unspeakable>().on_dead(dead).execute(charge)).await;
    assert_eq!(notes_of(&test, &book, &["go"]).await, ["dead unspeakable: None"]);
}

/// `on_error` of the kinds that have one is called after retries, with the failure as it was recorded.
#[tokio::test]
async fn details_are_kept_in_on_error_of_each_kind_and_on_exhausted() {
    macro_rules! on_error {
        ($name:ident, $ctx:ty) => {
            async fn $name(ctx: $ctx, failure: Failure) -> Result<()> {
                ctx.get::<Book>().note(concat!(stringify!($name), " ").to_owned() + &kept(&failure));
                Ok(())
            }
        };
    }
    on_error!(beat, ContinuousCtx<u64>);
    on_error!(batch, DebounceCtx<String, String>);
    on_error!(task, TaskCtx<String, u64>);
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        let declined = || Card::Declined { code: 51 };
        let beats = BEAT.every("1 day").retry(minutes(1)).details::<Card>().on_error(beat);
        let batches = BATCH.flush_after("1 minute").retry(minutes(1)).details::<Card>().on_error(batch);
        let tasks = TASK.on_event(move |_: TaskCtx<String, u64>, _: String| async move { Err::<(), _>(declined()) });
        let exhausted = given.clone();
        let tasks = tasks.retry(minutes(1)).details::<Card>().on_error(task);
        let tasks = tasks.on_exhausted(move |info| exhausted.note(format!("exhausted {}", kept(&info.last))));
        engine
            .job(beats.execute(move |_: ContinuousCtx<u64>| async move { Err::<(), _>(declined()) }))
            .job(batches.execute(move |_: DebounceCtx<String, String>| async move { Err::<(), _>(declined()) }))
            .job(tasks.execute(|_: TaskCtx<String, u64>| async { Ok::<_, Card>(()) }))
            .provide(given.clone())
    })
    .await;
    test.job(BEAT).start("a", &0).await.unwrap();
    test.job(BATCH).add("a", &"x".to_owned()).await.unwrap();
    test.job(TASK).send("a", &"x".to_owned()).await.unwrap();
    test.advance("10 minutes").await;
    let mut notes = book.take();
    notes.sort();
    let all = ["batch", "beat", "exhausted", "task"];
    let expected = all.map(|kind| format!("{kind} declined with code 51: Some(\"Declined {{ code: 51 }}\")"));
    assert_eq!(notes, expected);
}

// ---- calls made by a handler ----

const NOWHERE: WorkerPool<u32> = WorkerPool::new("nowhere");
const UNKNOWN: Workflow<(), ()> = Workflow::new("unknown");

async fn send_as_asked(ctx: TaskCtx<String, u64>, what: String) -> Result<()> {
    let asked = match what.as_str() {
        "push" => ctx.push(NOWHERE, &1).map(drop),
        "send" => ctx.send(Task::<u32, u32>::new("nowhere"), "a", &1),
        "start" => ctx.start(UNKNOWN, &(), "a"),
        "signal" => ctx.signal("no-such-run", "go", &1),
        _ => Ok(()),
    };
    asked.map_err(Into::into)
}

async fn nothing<C>(_: C) -> Result<()> {
    Ok(())
}

/// A handler could push to a pool that is not registered, or start a workflow that does not exist, without an error. A
/// refused signal did not say which one it was.
#[tokio::test]
async fn handler_that_sends_to_a_missing_target_fails() {
    let test = TestEngine::new(|engine| engine.job(TASK.on_event(send_as_asked).execute(nothing))).await;
    for (what, expected) in [
        ("push", r#"job "pool:nowhere" is not registered here"#),
        ("send", r#"job "task:nowhere" is not registered here"#),
        ("start", r#"workflow "unknown" is not registered here"#),
        ("signal", r#"it signals "no-such-run", which does not exist"#),
    ] {
        let error = test.job(TASK).ask::<()>("a", &what.to_owned()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{what}: {error}");
    }
}

/// A context that outlived its handler accepted events, which were never sent.
#[tokio::test]
async fn context_accepts_nothing_after_its_handler_has_returned() {
    let kept = std::sync::Arc::new(std::sync::Mutex::new(None::<TaskCtx<String, u64>>));
    let given = kept.clone();
    let test = TestEngine::new(move |engine| {
        let given = given.clone();
        engine.job(
            TASK.on_event(move |ctx: TaskCtx<String, u64>, _: String| {
                given.lock().unwrap().replace(ctx);
                async { Ok::<_, BoxError>(()) }
            })
            .execute(nothing),
        )
    })
    .await;
    test.job(TASK).ask::<()>("a", &"keep".to_owned()).await.unwrap();
    let ctx = kept.lock().unwrap().take().unwrap();
    let error = ctx.send(TASK, "b", &"late".to_owned()).unwrap_err();
    assert!(matches!(error, Error::HandlerReturned), "{error}");
    assert_eq!(error.kind(), outlive::ErrorKind::Scope);
}

async fn refuse(_: DebounceCtx<String, String>, how: String) -> Result<()> {
    Err(fail(&how))
}

/// `add(..).wait(..)` returned `Ok` for an event that had become a dead letter.
#[tokio::test]
async fn waiting_for_an_event_that_is_given_up_returns_an_error() {
    let test =
        TestEngine::new(|engine| engine.job(BATCH.flush_after("1 minute").on_event(refuse).execute(nothing))).await;
    let error = test.job(BATCH).add("a", &"declined".to_owned()).wait("1 minute").await.unwrap_err();
    assert!(matches!(&error, Error::Failed { id, .. } if id == "debounce:batches:a"), "{error}");
    assert!(error.to_string().contains("declined with code 51"), "{error}");
}
