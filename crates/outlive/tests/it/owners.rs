//! Two engines on one store: only the one that took the lease last drives.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use outlive::clock::Clock;
use outlive::job::{Task, TaskCtx};
use outlive::prelude::*;
use outlive_core::store::Store;
use outlive_core::store::memory::MemoryStore;
use outlive_testkit::TestClock;
use tokio::sync::Notify;
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Counts how often a body ran in one engine, and holds what it waits for.
#[derive(Clone, Default)]
struct Bodies(Arc<AtomicU32>, Option<Arc<Notify>>);

async fn work(ctx: Ctx, _: ()) -> Result<()> {
    let bodies = ctx.get::<Bodies>();
    let body = || async {
        if let Some(gate) = &bodies.1 {
            gate.notified().await;
        }
        bodies.0.fetch_add(1, Ordering::Relaxed);
        Ok::<_, BoxError>(())
    };
    Ok(ctx.step("work", body).await?)
}

async fn engine(store: &Arc<MemoryStore>, bodies: &Bodies) -> Engine {
    Engine::with_store(store.clone()).workflow("w", work).provide(bodies.clone()).start().await.unwrap()
}

/// Keeps the errors logged on this thread while it is the subscriber.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn event(&self, event: &Event<'_>) {
        let mut said = self.0.lock().unwrap();
        event.record(&mut |_: &Field, value: &dyn std::fmt::Debug| said.push(format!("{value:?}")));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[track_caller]
fn assert_fenced<T: std::fmt::Debug>(answer: std::result::Result<T, Error>) {
    let error = answer.unwrap_err();
    assert!(error.is_fenced(), "{error}");
    assert_eq!((error.code(), error.kind()), ("fenced", outlive::ErrorKind::Shutdown));
}

async fn turns() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// An engine that had lost its lease drove the runs its own client started: they were pending in the store for the new
/// owner to claim, and the old one ran their bodies as well. A later version did not run them, but acknowledged the
/// starts.
#[tokio::test]
async fn engine_that_lost_its_lease_does_not_drive_its_clients_starts() {
    let (store, old_bodies, new_bodies) = (Arc::new(MemoryStore::new()), Bodies::default(), Bodies::default());
    let old = engine(&store, &old_bodies).await;
    let new = engine(&store, &new_bodies).await;

    assert_fenced(old.start(work, &()).id("a").await);
    turns().await;
    assert_eq!((old_bodies.0.load(Ordering::Relaxed), old.resident()), (0, 0));
    assert_eq!(new_bodies.0.load(Ordering::Relaxed), 1, "the new owner runs what was recorded");
    assert_eq!(new.get_run::<()>("a").await.unwrap().status().await.unwrap(), Status::Completed);
}

const ECHO: Task<u32, u32> = Task::new("echo");

async fn echo(ctx: TaskCtx<u32, u32>, n: u32) -> Result<()> {
    ctx.set_state(n);
    Ok(())
}

async fn rest(_: TaskCtx<u32, u32>) -> Result<()> {
    Ok(())
}

/// Sleeps, then does its work.
async fn later(ctx: Ctx, _: ()) -> Result<()> {
    ctx.sleep("1 hour").await?;
    work(ctx, ()).await
}

async fn full_engine(store: &Arc<MemoryStore>, clock: &TestClock, bodies: &Bodies) -> Engine {
    let job = ECHO.on_event(echo).execute(rest);
    let builder = Engine::with_store(store.clone()).clock(clock.clone()).provide(bodies.clone());
    builder.workflow("w", work).workflow("later", later).job(job).start().await.unwrap()
}

/// What broke: an engine whose store was taken over by another said nothing. Callers that waited for a run waited
/// forever.
#[tokio::test]
async fn fenced_engine_logs_it_once_and_refuses_every_call() {
    let errors = Errors::default();
    let _logged = tracing::subscriber::set_default(errors.clone());
    let (store, clock) = (Arc::new(MemoryStore::new()), TestClock::new());
    let (old_bodies, new_bodies) = (Bodies::default(), Bodies::default());
    let old = full_engine(&store, &clock, &old_bodies).await;
    let run = old.start(later, &()).id("a").await.unwrap();
    let other = old.start(later, &()).id("b").await.unwrap();
    let mut events = old.events().committed().await.unwrap();
    let waiting = tokio::spawn({
        let run = run.clone();
        async move { run.result().await }
    });
    turns().await;
    let new = full_engine(&store, &clock, &new_bodies).await;
    // This is how the old engine finds out.
    assert_fenced(old.start(work, &()).await);
    assert_fenced(waiting.await.unwrap());
    assert_fenced(run.result().await);
    assert_fenced(other.signal("s", &()).await);
    assert_fenced(other.cancel("why").await);
    assert_fenced(old.start(work, &()).await);
    assert_fenced(old.start(work, &()).delay("1 day").await);
    assert_fenced(old.job(ECHO).send("x", &1).await);
    assert_fenced(old.job(ECHO).ask::<u32>("x", &1).await);
    assert_fenced(loop {
        if let Err(error) = events.next().await {
            break Err::<(), _>(error);
        }
    });
    assert_eq!(old_bodies.0.load(Ordering::Relaxed), 0);
    assert_eq!(
        run.status().await.unwrap(),
        new.get_run::<()>("a").await.unwrap().status().await.unwrap(),
        "the run can still be read"
    );
    let said = errors.0.lock().unwrap().clone();
    let sentence = "another process has taken over this store, so this engine has stopped; execute a store in one \
                    process, and use `Client::open` in the others";
    assert_eq!(said, [sentence]);

    old.shutdown().await.unwrap();
    clock.advance(std::time::Duration::from_secs(7_200));
    for id in ["a", "b"] {
        new.get_run::<()>(id).await.unwrap().result().await.unwrap();
    }
    assert_eq!(new_bodies.0.load(Ordering::Relaxed), 3, "two that slept, and one that the old engine recorded");
}

/// A running run finds out when it commits, a due one when it is claimed.
#[tokio::test]
async fn commit_and_claim_detect_that_the_engine_is_fenced() {
    for is_due in [false, true] {
        let (store, clock, gate) = (Arc::new(MemoryStore::new()), TestClock::new(), Arc::new(Notify::new()));
        let old_bodies = Bodies(Arc::default(), Some(gate.clone()));
        let old = full_engine(&store, &clock, &old_bodies).await;
        let run = match is_due {
            true => old.start(later, &()).await.unwrap(),
            false => old.start(work, &()).await.unwrap(),
        };
        turns().await;
        let _lease = store.lease(clock.now()).await.unwrap();
        match is_due {
            true => clock.advance(std::time::Duration::from_secs(7_200)),
            false => gate.notify_one(),
        }
        assert_fenced(run.result().await);
    }
}

/// What broke: an engine that waited for something far away did not check whether it still had its store.
#[tokio::test]
async fn idle_engine_notices_that_another_process_took_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    let old = Engine::open(&file).workflow("later", later).provide(Bodies::default()).start().await.unwrap();
    let run = old.start(later, &()).await.unwrap();
    let waiting = tokio::spawn(async move { run.result().await });
    // The lock file is recreated at once, so it takes a few tries to get in between.
    let _new = loop {
        let _ = std::fs::remove_file(folder.path().join("runs.db.lock"));
        match Engine::open(&file).workflow("later", later).provide(Bodies::default()).start().await {
            Ok(new) => break new,
            Err(error) => assert!(error.is_locked(), "{error}"),
        }
    };
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_fenced(), "{error}");
    assert!(error.to_string().contains("runs.db"), "{error}");
}
