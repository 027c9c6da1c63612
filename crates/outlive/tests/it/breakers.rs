//! Breakers and retry budgets: shared by all runs of a process, they hold attempts back without using them up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive::clock::{Clock, SystemClock};
use outlive::prelude::*;
use outlive::{Branch, Breaker, Builder, Failure, Jitter, LifecycleKind, RetryBudget};
use outlive_testkit::{TestClock, TestEngine};

const RESET: Duration = Duration::from_secs(30);

/// A service that can be down, and when it was called.
#[derive(Clone, Default)]
struct Service(Arc<Mutex<(bool, Vec<Timestamp>)>>);

impl Service {
    fn down() -> Self {
        Self(Arc::new(Mutex::new((true, Vec::new()))))
    }

    fn repair(&self) {
        self.0.lock().unwrap().0 = false;
    }

    fn calls(&self) -> usize {
        self.0.lock().unwrap().1.len()
    }

    async fn call(&self, now: Timestamp) -> Result<u32> {
        let mut inner = self.0.lock().unwrap();
        inner.1.push(now);
        if inner.0 { Err("no answer".into()) } else { Ok(42) }
    }
}

fn steady(retries: u32) -> Retry {
    Retry::times(retries).constant("1 second").jitter(Jitter::none())
}

async fn pay(ctx: Ctx, _: ()) -> Result<u32> {
    let (service, clock) = (ctx.get::<Service>().clone(), ctx.get::<TestClock>().clone());
    let charge = || async { service.call(clock.now()).await };
    Ok(ctx.step("charge", charge).retry(steady(20)).breaker(ctx.get::<Breaker>()).await?)
}

/// An engine whose process has a breaker of its own, and what its runs call.
async fn engine(service: &Service, setup: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> TestEngine {
    let (service, clock) = (service.clone(), TestClock::new());
    let time = clock.clone();
    let setup = move |engine: Builder| {
        let breaker = Breaker::new(3, RESET).named("stripe");
        setup(engine.provide(service.clone()).provide(time.clone()).provide(breaker)).workflow("pay", pay)
    };
    TestEngine::new(setup).clock(clock).await
}

async fn start_all(test: &TestEngine, count: u32) -> Vec<Run<u32>> {
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(test.start(pay, &()).await.unwrap());
    }
    test.settle().await;
    runs
}

async fn all_end_well(test: &TestEngine, runs: &[Run<u32>]) {
    for run in runs {
        assert_eq!(test.result(run).await.unwrap(), 42);
    }
}

#[tokio::test]
async fn many_runs_share_a_breaker() {
    let service = Service::down();
    let test = engine(&service, |engine| engine).await;
    let runs = start_all(&test, 50).await;
    assert_eq!(service.calls(), 3, "the third failure has opened it");
    for probes in 1..=10 {
        test.advance("29 seconds").await;
        assert_eq!(service.calls(), 2 + probes, "nothing passes before the reset time");
        test.advance("1 second").await;
        assert_eq!(service.calls(), 3 + probes, "one attempt passes");
    }
    service.repair();
    test.advance("30 seconds").await;
    assert_eq!(service.calls(), 13 + 50, "as soon as one has succeeded, all others follow");
    all_end_well(&test, &runs).await;
    assert_eq!(service.calls(), 13 + 50, "no attempt was used up while it was held back");
}

/// A run that is not in memory when the breaker closes looks when its time has come.
#[tokio::test]
async fn runs_without_a_place_in_memory_share_a_breaker_too() {
    let service = Service::down();
    let test = engine(&service, |engine| engine.max_resident(2)).await;
    let runs = start_all(&test, 12).await;
    test.advance("5 minutes").await;
    let calls = service.calls();
    assert!((10..=14).contains(&calls), "{calls}");
    service.repair();
    all_end_well(&test, &runs).await;
    assert_eq!(service.calls(), calls + 12);
}

#[tokio::test]
async fn held_attempt_says_what_holds_it_back() {
    let service = Service::down();
    let test = engine(&service, |engine| engine).await;
    let runs = start_all(&test, 4).await;
    let progress = runs[3].progress().await.unwrap();
    assert_eq!(progress.to_string(), "waiting (charge, attempt 1 in 30 s: breaker stripe is open)");
    let until = progress.at.after(RESET);
    let held = Branch::Held { step: "charge".into(), attempt: 1, until, reason: "breaker stripe is open".into() };
    assert_eq!((&progress.branches[..], progress.next_at()), (&[held][..], Some(until)));
    let info = runs[3].info().await.unwrap();
    assert_eq!(info.status_text(progress.at), progress.to_string(), "a list shows the same");
    test.advance("31 seconds").await;
    let progress = runs[3].progress().await.unwrap();
    assert_eq!(progress.to_string(), "waiting (charge, attempt 1 in 29 s: breaker stripe is open)", "it opened again");
}

#[tokio::test]
async fn changes_of_a_breaker_are_events_in_its_process() {
    let service = Service::down();
    let test = engine(&service, |engine| engine).await;
    let mut events = test.events().await.unwrap();
    let runs = start_all(&test, 3).await;
    service.repair();
    all_end_well(&test, &runs).await;
    let mut found = Vec::new();
    while found.len() < 3 {
        let event = events.next().await.unwrap();
        match &event.kind {
            LifecycleKind::BreakerOpened { breaker, until, .. } => found.push(format!("{breaker} {until}")),
            LifecycleKind::BreakerHalfOpened { breaker, operation }
            | LifecycleKind::BreakerClosed { breaker, operation } => {
                found.push(format!("{} {breaker} {operation}", event.kind.as_str()));
            }
            _ => {}
        }
    }
    let opened = service.0.lock().unwrap().1[2].after(RESET);
    let expected = [
        format!("stripe {opened}"),
        "breaker.half_opened stripe step:charge".into(),
        "breaker.closed stripe step:charge".into(),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn crash_while_open_costs_no_attempt() {
    let service = Service::down();
    let mut test = engine(&service, |engine| engine).await;
    let runs = start_all(&test, 4).await;
    test.advance("10 seconds").await;
    service.repair();
    test.crash().await;
    test.advance("19 seconds").await;
    assert_eq!(service.calls(), 3, "they wait until the time that is stored");
    test.advance("1 second").await;
    assert_eq!(service.calls(), 3 + 4, "a new process has a new breaker, which is closed");
    all_end_well(&test, &runs).await;
    let journal = runs[3].journal().await.unwrap();
    assert_eq!((journal.len(), journal[0].attempt), (1, 1));
}

async fn limited(ctx: Ctx, _: ()) -> Result<String> {
    let down = || async { Err::<String, _>(BoxError::from("no answer")) };
    let step = ctx.step("charge", down).retry(steady(2)).breaker(ctx.get::<Breaker>());
    Ok(step.fallback(|failure: Failure| async move { Ok(failure.to_string()) }).await?)
}

#[tokio::test]
async fn fallback_waits_for_the_breaker() {
    let setup = |engine: Builder| engine.provide(Breaker::new(1, RESET)).workflow("limited", limited);
    let test = TestEngine::new(setup).await;
    let run = test.start(limited, &()).await.unwrap();
    test.advance("59 seconds").await;
    assert_eq!((test.executions("charge"), run.status().await.unwrap().is_ended()), (2, false));
    test.advance("1 second").await;
    assert_eq!(test.executions("charge"), 3);
    assert_eq!(test.result(&run).await.unwrap(), "no answer");
}

async fn cancelled(ctx: Ctx, _: ()) -> Result<()> {
    let down = || async { Err::<(), _>(BoxError::from("no answer")) };
    Ok(ctx.step("charge", down).retry(steady(9)).breaker(ctx.get::<Breaker>()).await?)
}

#[tokio::test]
async fn held_attempt_can_be_cancelled() {
    let setup = |engine: Builder| engine.provide(Breaker::new(1, RESET)).workflow("cancelled", cancelled);
    let test = TestEngine::new(setup).await;
    let run = test.start(cancelled, &()).await.unwrap();
    test.advance("5 seconds").await;
    run.cancel("enough").await.unwrap();
    assert!(matches!(test.result(&run).await, Err(Error::Cancelled { .. })));
    assert_eq!(test.executions("charge"), 1);
}

/// A probe that lost a race does not count, and does not hold back the next.
async fn racing(ctx: Ctx, _: ()) -> Result<u32> {
    let breaker = ctx.get::<Breaker>();
    let down = || async { Err::<u32, _>(BoxError::from("no answer")) };
    ctx.step("fail", down).breaker(breaker).await.unwrap_err();
    let endless = ctx.step("endless", std::future::pending::<Result<u32>>).breaker(breaker);
    tokio::select! {
        biased;
        ended = endless => return Ok(ended?),
        slept = ctx.sleep("40 seconds") => slept?,
    }
    Ok(ctx.step("good", || async { outlive::Ok(7) }).breaker(breaker).await?)
}

#[tokio::test]
async fn dropped_probe_does_not_hold_back_the_next() {
    let setup = |engine: Builder| engine.provide(Breaker::new(1, RESET)).workflow("racing", racing);
    let test = TestEngine::new(setup).await;
    let run = test.start(racing, &()).await.unwrap();
    test.advance("40 seconds").await;
    assert_eq!(run.status().await.unwrap(), Status::Completed);
    assert_eq!((test.executions("endless"), test.executions("good")), (1, 1));
}

async fn budgeted(ctx: Ctx, _: ()) -> Result<()> {
    let down = || async { Err::<(), _>(BoxError::from("no answer")) };
    Ok(ctx.step("search", down).retry(steady(1)).budget(ctx.get::<RetryBudget>()).await?)
}

#[tokio::test]
async fn used_up_budget_delays_retries() {
    let budget = || RetryBudget::new(0.1).reserve(5).named("search");
    let setup = move |engine: Builder| engine.provide(budget()).workflow("budgeted", budgeted);
    let test = TestEngine::new(setup).await;
    let mut runs = Vec::new();
    for _ in 0..30 {
        runs.push(test.start(budgeted, &()).await.unwrap());
    }
    test.settle().await;
    assert_eq!(test.executions("search"), 30);
    test.advance("1 second").await;
    assert_eq!(test.executions("search"), 30 + 3 + 5, "a tenth of the first attempts, and the reserve");
    let mut held = 0;
    for run in &runs {
        held += u32::from(run.progress().await.unwrap().to_string().ends_with("retry budget search is used up)"));
    }
    assert_eq!(held, 22);
    test.advance("10 seconds").await;
    assert_eq!(test.executions("search"), 38 + 5);
    for run in &runs {
        assert!(matches!(test.result(run).await, Err(Error::Failed { .. })));
    }
    assert_eq!(test.executions("search"), 60, "none is dropped");
}

async fn invalid(ctx: Ctx, which: u32) -> Result<String> {
    let step = ctx.step("charge", || async { outlive::Ok(()) });
    let step = match which {
        0 => step.breaker(&Breaker::new(0, RESET)),
        1 => step.breaker(&Breaker::new(3, Duration::ZERO)),
        2 => step.budget(&RetryBudget::new(0.0)),
        3 => step.budget(&RetryBudget::new(f64::NAN)),
        4 => step.budget(&RetryBudget::new(0.1).reserve(0)),
        5 => step.heartbeat_timeout("0 s"),
        _ => step.heartbeat_timeout("5 parsecs"),
    };
    Ok(step.await.unwrap_err().to_string())
}

#[tokio::test]
async fn invalid_settings_are_refused_with_their_value() {
    let test = TestEngine::new(|engine| engine.workflow("invalid", invalid)).await;
    let expected =
        ["after 0 failures", "reset time 0ns", "ratio 0 ", "ratio NaN", "reserve of 0", "timeout 0ns", "\"5 parsecs\""];
    for (which, expected) in (0_u32..).zip(expected) {
        let run = test.start(invalid, &which).await.unwrap();
        let error = test.result(&run).await.unwrap();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(test.executions("charge"), 0);
}

/// When the service was called, on the machine's clock.
type Calls = Arc<Mutex<Vec<Timestamp>>>;

async fn flaky(ctx: Ctx, _: ()) -> Result<usize> {
    let calls = ctx.get::<Calls>().clone();
    let call = || async {
        let mut calls = calls.lock().unwrap();
        calls.push(SystemClock.now());
        if calls.len() > 2 { outlive::Ok(calls.len()) } else { Err("no answer".into()) }
    };
    let retry = Retry::times(5).constant("1 ms").jitter(Jitter::none());
    Ok(ctx.step("charge", call).retry(retry).breaker(ctx.get::<Breaker>()).await?)
}

#[tokio::test]
async fn breaker_is_never_early_on_the_real_clock() {
    let (calls, reset) = (Calls::default(), Duration::from_millis(300));
    let engine =
        Engine::open("memory:").provide(calls.clone()).provide(Breaker::new(1, reset)).workflow("flaky", flaky);
    let engine = engine.start().await.unwrap();
    assert_eq!(engine.start(flaky, &()).await.unwrap().result().await.unwrap(), 3);
    engine.shutdown().await.unwrap();
    let calls = calls.lock().unwrap();
    assert!(calls.windows(2).all(|two| two[1].since(two[0]) >= reset), "{calls:?}");
}
