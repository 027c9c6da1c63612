//! Few places in memory: runs that wait for runs make progress, cancelled runs end, and a full memory is logged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outlive::prelude::*;
use outlive::{Builder, CancelOutcome};
use outlive_testkit::TestEngine;
use tokio::sync::Semaphore;

/// Waits for another run, to this depth.
async fn nested(ctx: Ctx, depth: u32) -> Result<u32> {
    let below = ctx.step("wait for another run", || async {
        if depth == 0 {
            return Ok(0);
        }
        let client = ctx.get::<Arc<std::sync::OnceLock<Client>>>().get().ok_or("not started")?;
        let run = client.start(Workflow::<u32, u32>::new("nested"), &(depth - 1)).await?;
        Ok::<_, outlive::BoxError>(run.result().await?)
    });
    Ok(below.await? + 1)
}

async fn blocked(ctx: Ctx, _: ()) -> Result<()> {
    let gate = ctx.get::<Arc<Semaphore>>().clone();
    let body = || async {
        gate.acquire().await?.forget();
        Ok::<_, outlive::BoxError>(())
    };
    Ok(ctx.step("blocked", body).await?)
}

async fn parked(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.wait("never").await?)
}

/// Steps that await other runs took all places, and the runs they awaited never got one.
#[tokio::test]
async fn runs_whose_steps_await_other_runs_finish_in_two_places() {
    let client: Arc<std::sync::OnceLock<Client>> = Arc::default();
    let provided = client.clone();
    let setup = move |engine: Builder| engine.workflow("nested", nested).provide(provided.clone()).max_resident(2);
    let test = TestEngine::new(setup).paranoid(false).await;
    client.set(Client::clone(&test.client())).ok();
    for (depth, count) in [(1, 30), (3, 5)] {
        let mut runs = Vec::new();
        for _ in 0..count {
            runs.push(test.start(Workflow::<u32, u32>::new("nested"), &depth).await.unwrap());
        }
        for run in &runs {
            assert_eq!(test.result(run).await.unwrap(), depth + 1);
        }
        test.settle().await;
        assert!(test.resident() <= 2, "{} runs stay in memory", test.resident());
    }
}

fn gated(gate: &Arc<Semaphore>) -> impl Fn(Builder) -> Builder + Send + Sync + 'static {
    let gate = gate.clone();
    move |engine| {
        let engine = engine.workflow("blocked", blocked).workflow("parked", parked);
        engine.provide(gate.clone()).max_resident(2)
    }
}

/// A cancel was accepted, but not handled until a place became free.
#[tokio::test]
async fn cancelled_run_ends_while_all_places_are_taken() {
    let gate = Arc::new(Semaphore::new(0));
    let test = TestEngine::new(gated(&gate)).paranoid(false).patience(Duration::ZERO).await;
    let waiting = test.start(parked, &()).await.unwrap();
    test.settle().await;
    let mut runs = Vec::new();
    for _ in 0..40 {
        runs.push(test.start(blocked, &()).await.unwrap());
    }
    test.settle().await;
    assert_eq!(test.resident(), 2, "the others wait for a place");
    // Running, not started, and parked.
    for run in [&runs[0], &runs[30]] {
        assert_eq!(run.cancel("enough").await.unwrap(), CancelOutcome::Taken);
        test.settle().await;
        assert_eq!(run.status().await.unwrap(), Status::Cancelled);
    }
    waiting.terminate("enough").await.unwrap();
    test.settle().await;
    assert_eq!(waiting.status().await.unwrap(), Status::Cancelled);
    gate.add_permits(40);
    test.settle().await;
    for run in runs.iter().filter(|run| ![runs[0].id(), runs[30].id()].contains(&run.id())) {
        test.result(run).await.unwrap();
    }
}

#[tokio::test]
async fn run_cancelled_from_outside_ends_while_all_places_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let gate = Arc::new(Semaphore::new(0));
    let engine = gated(&gate)(Engine::open(&path)).start().await.unwrap();
    let mut runs = Vec::new();
    for _ in 0..300 {
        runs.push(engine.start(blocked, &()).await.unwrap());
    }
    let outside = Client::open(&path).unwrap();
    for run in [&runs[0], &runs[150]] {
        outside.get_run::<()>(run.id()).await.unwrap().cancel("enough").await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(20), run.result()).await.expect("the cancel takes effect");
        assert!(ended.unwrap_err().is_cancelled());
    }
    assert!(engine.resident() < 200, "most of the others still wait");
    gate.add_permits(300);
    engine.shutdown().await.unwrap();
}

struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(bool);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                let text = format!("{value:?}");
                self.0 |= text.contains("all 2 places in memory") && text.contains("raise `max_resident`");
            }
        }
        let mut text = Text(false);
        event.record(&mut text);
        self.0.fetch_add(usize::from(text.0), Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn full_memory_is_logged_once_a_minute() {
    let count = Arc::new(AtomicUsize::new(0));
    let _logged = tracing::subscriber::set_default(Warnings(count.clone()));
    let gate = Arc::new(Semaphore::new(0));
    let test = TestEngine::new(gated(&gate)).paranoid(false).patience(Duration::ZERO).await;
    for _ in 0..200 {
        test.start(blocked, &()).await.unwrap();
    }
    test.advance("9 seconds").await;
    assert_eq!(count.load(Ordering::Relaxed), 0);
    assert!((3..=12).contains(&test.resident()), "one more place each second, not {}", test.resident());
    test.advance("2 seconds").await;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    test.advance("50 seconds").await;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    test.advance("20 seconds").await;
    assert_eq!(count.load(Ordering::Relaxed), 2);
    gate.add_permits(200);
    test.skip_time().await;
    assert_eq!(test.resident(), 0);
}
