//! Heartbeats: durable progress of an attempt, handed to the next one, and attempts that fall silent.

use std::sync::Arc;
use std::time::Duration;

use outlive::prelude::*;
use outlive::{Builder, EntryKind, Jitter};
use outlive_testkit::TestEngine;
use serde::{Serialize, Serializer};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

fn steady(retries: u32) -> Retry {
    Retry::times(retries).constant("1 second").jitter(Jitter::none())
}

/// What a body is told to do.
enum Order {
    Beat(u32),
    Fail,
    Finish,
}

/// Gives orders to bodies.
#[derive(Clone)]
struct Orders(UnboundedSender<Order>, Arc<Mutex<UnboundedReceiver<Order>>>);

impl Orders {
    fn new() -> Self {
        let (sender, receiver) = unbounded_channel();
        Self(sender, Arc::new(Mutex::new(receiver)))
    }

    fn give(&self, order: Order) {
        assert!(self.0.send(order).is_ok());
    }
}

/// Follows orders, and returns what it was handed.
async fn obey(orders: &Orders, attempt: Attempt) -> Result<String> {
    let found = attempt.progress::<u32>()?;
    let mut orders = orders.1.lock().await;
    while let Some(order) = orders.recv().await {
        match order {
            Order::Beat(value) => attempt.heartbeat(&value)?,
            Order::Fail => return Err("told to".into()),
            Order::Finish => break,
        }
    }
    Ok(format!("attempt {}, progress {found:?}", attempt.number))
}

async fn work(ctx: Ctx, silence: Option<u64>) -> Result<String> {
    let orders = ctx.get::<Orders>();
    let step = ctx.step("work", |attempt: Attempt| obey(orders, attempt)).retry(steady(5));
    Ok(match silence {
        Some(seconds) => step.heartbeat_timeout(Duration::from_secs(seconds)).await?,
        None => step.await?,
    })
}

async fn engine(orders: &Orders) -> TestEngine {
    let orders = orders.clone();
    TestEngine::new(move |engine: Builder| engine.provide(orders.clone()).workflow("work", work)).await
}

/// Returns the heartbeats in the journal of a run.
async fn beats<T>(run: &Run<T>) -> Vec<String> {
    let journal = run.journal().await.unwrap();
    let beats = journal.iter().filter(|entry| entry.kind == EntryKind::Heartbeat);
    beats.map(|entry| entry.payload.as_ref().unwrap().to_string()).collect()
}

#[tokio::test]
async fn next_attempt_gets_the_last_heartbeat() {
    let orders = Orders::new();
    let test = engine(&orders).await;
    let run = test.start(work, &None).await.unwrap();
    [1, 2, 3].into_iter().for_each(|value| orders.give(Order::Beat(value)));
    orders.give(Order::Fail);
    test.settle().await;
    assert_eq!(beats(&run).await, ["1", "3"], "the last one is recorded with the failure");
    orders.give(Order::Finish);
    assert_eq!(test.result(&run).await.unwrap(), "attempt 2, progress Some(3)");
}

#[tokio::test]
async fn heartbeats_are_recorded_at_most_once_a_second() {
    let orders = Orders::new();
    let test = engine(&orders).await;
    let run = test.start(work, &None).await.unwrap();
    for value in 0..100 {
        orders.give(Order::Beat(value));
        test.advance("100 ms").await;
    }
    let beats = beats(&run).await;
    assert!((9..=11).contains(&beats.len()), "{beats:?}");
    orders.give(Order::Beat(100));
    orders.give(Order::Finish);
    assert_eq!(test.result(&run).await.unwrap(), "attempt 1, progress None");
}

#[tokio::test]
async fn heartbeat_survives_a_crash() {
    let orders = Orders::new();
    let mut test = engine(&orders).await;
    let run = test.start(work, &None).await.unwrap();
    test.settle().await;
    orders.give(Order::Beat(7));
    test.settle().await;
    orders.give(Order::Beat(8));
    test.settle().await;
    test.crash().await;
    orders.give(Order::Finish);
    assert_eq!(test.result(&run).await.unwrap(), "attempt 1, progress Some(7)", "less than a second is lost");
}

#[tokio::test]
async fn silent_attempt_fails_and_is_retried() {
    let orders = Orders::new();
    let test = engine(&orders).await;
    let run = test.start(work, &Some(60)).await.unwrap();
    for value in 0..5 {
        test.advance("59 seconds").await;
        orders.give(Order::Beat(value));
        test.settle().await;
    }
    assert_eq!(test.executions("work"), 1);
    test.advance("60 seconds").await;
    let failure = run.progress().await.unwrap().last_failure.unwrap();
    assert_eq!(failure.message, "sent no heartbeat for 1m");
    test.advance("1 second").await;
    orders.give(Order::Finish);
    assert_eq!(test.result(&run).await.unwrap(), "attempt 2, progress Some(4)");
}

async fn silent(ctx: Ctx, _: ()) -> Result<bool> {
    let error = ctx.step("work", std::future::pending::<Result<u32>>).heartbeat_timeout("1 minute").await.unwrap_err();
    Ok(error.is_timeout())
}

#[tokio::test]
async fn silence_without_retries_is_a_timeout() {
    let test = TestEngine::new(|engine| engine.workflow("silent", silent)).await;
    let run = test.start(silent, &()).await.unwrap();
    assert!(test.result(&run).await.unwrap());
}

/// A value that does not serialize.
struct Broken(u32);

impl Serialize for Broken {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        assert!(self.0 > 0, "no zeros");
        Err(serde::ser::Error::custom("no numbers"))
    }
}

async fn careless(ctx: Ctx, _: ()) -> Result<Vec<String>> {
    let body = |attempt: Attempt| async move {
        attempt.heartbeat(&1)?;
        let errors = [
            attempt.heartbeat(&Broken(0)).unwrap_err(),
            attempt.heartbeat(&Broken(1)).unwrap_err(),
            attempt.heartbeat(&"x".repeat(2_000)).unwrap_err(),
        ];
        outlive::Ok(errors.iter().map(|error| error.code().to_owned()).collect())
    };
    Ok(ctx.step("work", body).await?)
}

#[tokio::test]
async fn bad_heartbeat_is_refused_and_changes_nothing() {
    let test = TestEngine::new(|engine| engine.max_payload(1_000).workflow("careless", careless)).await;
    let run = test.start(careless, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), ["payload", "payload", "payload_too_large"]);
    assert_eq!(beats(&run).await, ["1"]);
}

async fn retyped(ctx: Ctx, _: ()) -> Result<String> {
    let body = |attempt: Attempt| async move {
        if attempt.number == 1 {
            attempt.heartbeat("three")?;
            return Err("again".into());
        }
        outlive::Ok(attempt.progress::<u32>().unwrap_err().to_string())
    };
    Ok(ctx.step("work", body).retry(steady(1)).await?)
}

#[tokio::test]
async fn progress_of_another_type_is_an_error() {
    let test = TestEngine::new(|engine| engine.workflow("retyped", retyped)).await;
    let run = test.start(retyped, &()).await.unwrap();
    let error = test.result(&run).await.unwrap();
    assert!(error.starts_with("the last heartbeat does not read as u32"), "{error}");
}

/// Where a body leaves its attempt.
type Left = Arc<std::sync::Mutex<Option<Attempt>>>;

async fn leaving(ctx: Ctx, _: ()) -> Result<()> {
    let (orders, left) = (ctx.get::<Orders>(), ctx.get::<Left>().clone());
    let body = |attempt: Attempt| {
        *left.lock().unwrap() = Some(attempt.clone());
        obey(orders, attempt)
    };
    ctx.step("work", body).await?;
    Ok(ctx.step("other", std::future::pending::<Result<()>>).await?)
}

#[tokio::test]
async fn heartbeat_from_outside_the_body_is_recorded_until_the_attempt_is_over() {
    let (orders, left) = (Orders::new(), Left::default());
    let (given, kept) = (orders.clone(), left.clone());
    let setup = move |engine: Builder| engine.provide(given.clone()).provide(kept.clone()).workflow("leaving", leaving);
    let mut test = TestEngine::new(setup).await;
    let run = test.start(leaving, &()).await.unwrap();
    test.settle().await;
    let attempt = left.lock().unwrap().clone().unwrap();
    let other = attempt.clone();
    tokio::task::spawn_blocking(move || other.heartbeat(&5)).await.unwrap().unwrap();
    test.settle().await;
    assert_eq!(beats(&run).await, ["5"]);
    orders.give(Order::Finish);
    test.settle().await;
    let is_over = |attempt: &Attempt| matches!(attempt.heartbeat(&6), Err(Error::AttemptOver { attempt: 1, .. }));
    assert!(is_over(&attempt));
    test.crash().await;
    assert!(is_over(&attempt), "its process is gone");
    assert_eq!(beats(&run).await, ["5"]);
}

/// A run that sends heartbeats and crashes the process again and again must not go on for ever: the value that it sent
/// last is no reason to believe that it will survive.
#[tokio::test]
async fn heartbeats_do_not_hide_a_crash_loop() {
    let orders = Orders::new();
    let mut test = engine(&orders).await;
    let run = test.start(work, &None).await.unwrap();
    for life in 0..5 {
        orders.give(Order::Beat(life));
        test.settle().await;
        if run.status().await.unwrap() == Status::Stuck {
            assert!(life > 2);
            return;
        }
        test.crash().await;
    }
    panic!("the run is not stuck: {}", run.status().await.unwrap());
}

async fn real(ctx: Ctx, _: ()) -> Result<Duration> {
    let beating = |attempt: Attempt| async move {
        // Longer than one sleep of the clock.
        for tenth in 0..55 {
            attempt.heartbeat(&tenth)?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        outlive::Ok(())
    };
    ctx.step("beating", beating).heartbeat_timeout("30 seconds").await?;
    match ctx.step("silent", std::future::pending::<Result<()>>).heartbeat_timeout("300 ms").await {
        Err(Error::Timeout { elapsed, .. }) => Ok(elapsed),
        other => Err(format!("{other:?}").into()),
    }
}

#[tokio::test]
async fn heartbeat_timeout_is_never_early_on_the_real_clock() {
    let engine = Engine::open("memory:").workflow("real", real).start().await.unwrap();
    let run = engine.start(real, &()).await.unwrap();
    assert!(run.result().await.unwrap() >= Duration::from_millis(300));
    let count = beats(&run).await.len();
    assert!((2..=7).contains(&count), "{count} heartbeats were recorded in about six seconds");
    engine.shutdown().await.unwrap();
}
