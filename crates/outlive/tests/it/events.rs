//! Lifecycle events: complete, numbered, reported once, and none lost in a crash.

use std::collections::BTreeMap;
use std::time::Duration;

use outlive::prelude::*;
use outlive::{Cause, Client, Cursor, LifecycleEvent, LifecycleKind, Reason, StatusKind};
use outlive_testkit::{TestClock, TestEngine};

async fn work() -> Result<u32> {
    Ok(42)
}

/// Steps, a sleep, a wait that gets its signal and one that times out.
async fn shop(ctx: Ctx, _: ()) -> Result<u32> {
    let retry = Retry::times(2).constant("1 minute").jitter(outlive::Jitter::none());
    let paid = ctx.step("charge", work).retry(retry.clone()).await?;
    ctx.sleep("1 hour").await?;
    let _: String = ctx.wait("approval").timeout("1 day").await?;
    let _: Result<String, Error> = ctx.wait("rating").timeout("2 hours").await;
    ctx.step("ship", work).retry(retry).await?;
    Ok(paid)
}

async fn all(client: &Client) -> Vec<LifecycleEvent> {
    client.events().from_start().await.unwrap().read(usize::MAX).await.unwrap()
}

/// Formats each event as one line without its time.
fn lines(events: &[LifecycleEvent]) -> Vec<String> {
    events.iter().map(|event| format!("{} {}", event.number, event.kind)).collect()
}

/// Asserts that each instance's events are numbered 1, 2, 3 and so on, and that no id appears twice.
#[track_caller]
fn assert_whole(events: &[LifecycleEvent]) {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for event in events {
        let before = last.insert(&event.instance, event.number).unwrap_or(0);
        assert_eq!(event.number, before + 1, "of {}", event.instance);
    }
    let ids: std::collections::BTreeSet<&str> = events.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids.len(), events.len());
    assert!(events.is_sorted_by_key(LifecycleEvent::cursor));
}

async fn shop_to_its_end(test: &TestEngine) {
    test.fail_next("charge", "no route to bank");
    test.fail_next("charge", "declined");
    let run = test.start(shop, &()).id("order-1").await.unwrap();
    test.advance("70 minutes").await;
    run.signal("approval", "ada").await.unwrap();
    (0..3).for_each(|_| test.fail_next("ship", "no truck"));
    test.result(&run).await.unwrap_err();
}

/// L-D1, L-D3, L-15, L-20: each failed attempt has one event with its own number and the real error, and so has the one
/// that succeeds.
#[tokio::test]
async fn lifecycle_events_of_a_run_are_complete_and_in_order() {
    let test = TestEngine::new(|engine| engine.workflow("shop", shop)).await;
    shop_to_its_end(&test).await;
    let events = all(&test.client()).await;
    assert_whole(&events);
    let t = |minutes: u64| events[0].at.after(Duration::from_secs(60 * minutes));
    let expected = [
        "1 run.queued".to_owned(),
        "2 run.started".into(),
        format!("3 step.failed step:charge (attempt 1): no route to bank; attempt 2 at {}", t(1)),
        format!("4 run.paused (retrying until {})", t(1)),
        "5 run.resumed".into(),
        format!("6 step.failed step:charge (attempt 2): declined; attempt 3 at {}", t(2)),
        format!("7 run.paused (retrying until {})", t(2)),
        "8 run.resumed".into(),
        "9 step.completed step:charge (attempt 3)".into(),
        format!("10 sleep.set sleep until {}", t(62)),
        format!("11 run.paused (sleeping until {})", t(62)),
        // The end of a sleep or a wait is what resumes the run.
        "12 sleep.done sleep".into(),
        "13 run.resumed".into(),
        format!("14 wait.set wait:approval until {}", t(62 + 24 * 60)),
        format!("15 run.paused (waiting until {})", t(62 + 24 * 60)),
        "16 run.resumed".into(),
        "17 signal.taken wait:approval".into(),
        format!("18 wait.set wait:rating until {}", t(190)),
        format!("19 run.paused (waiting until {})", t(190)),
        "20 wait.timed_out wait:rating".into(),
        "21 run.resumed".into(),
        format!("22 step.failed step:ship (attempt 1): no truck; attempt 2 at {}", t(191)),
        format!("23 run.paused (retrying until {})", t(191)),
        "24 run.resumed".into(),
        format!("25 step.failed step:ship (attempt 2): no truck; attempt 3 at {}", t(192)),
        format!("26 run.paused (retrying until {})", t(192)),
        "27 run.resumed".into(),
        "28 step.failed step:ship (attempt 3): no truck; no more (max attempts)".into(),
        "29 run.failed: step \"ship\" gave up after 3 attempts (max attempts): no truck".into(),
    ];
    assert_eq!(lines(&events), expected);
    assert!(events.iter().all(|event| event.instance == "order-1" && event.name == "shop"));
}

#[tokio::test]
async fn failed_attempt_event_says_what_follows_and_explains_the_delay() {
    let test = TestEngine::new(|engine| engine.workflow("shop", shop)).await;
    shop_to_its_end(&test).await;
    let events = all(&test.client()).await;
    let LifecycleKind::StepFailed { step, attempt, failure, will_retry, retry, exhausted, .. } = &events[2].kind else {
        panic!("{}", events[2]);
    };
    assert_eq!((step.as_str(), *attempt, *will_retry, *exhausted), ("charge", 1, true, None));
    assert_eq!((failure.cause, failure.message.as_str()), (Cause::Error, "no route to bank"));
    let retry = retry.as_ref().unwrap();
    assert_eq!((retry.attempt, retry.delay_ms, retry.base_delay_ms), (2, 60_000, Some(60_000)));
    assert_eq!((retry.backoff.as_deref(), retry.jitter.as_deref()), (Some("constant"), Some("none")));
    assert_eq!(retry.due, events[2].at.after(Duration::from_secs(60)));
    let last = events.iter().rev().find(|event| event.kind.as_str() == "step.failed").unwrap();
    let LifecycleKind::StepFailed { will_retry: false, retry: None, exhausted, .. } = &last.kind else {
        panic!("{last}")
    };
    assert_eq!(*exhausted, Some(Reason::MaxAttempts));
}

async fn with_fallback(ctx: Ctx, _: ()) -> Result<u32> {
    let failing = || async { Err::<u32, BoxError>("down".into()) };
    Ok(ctx
        .step("ask", failing)
        .retry(Retry::times(1).constant("1 ms"))
        .fallback(|_| async { Ok::<_, BoxError>(7) })
        .await?)
}

#[tokio::test]
async fn step_that_falls_back_reports_why() {
    let test = TestEngine::new(|engine| engine.workflow("with_fallback", with_fallback)).await;
    let run = test.start(with_fallback, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 7);
    let events = all(&test.client()).await;
    assert_whole(&events);
    let fell = events.iter().find_map(|event| match &event.kind {
        LifecycleKind::StepFailed { attempt, exhausted, falls_back: true, will_retry, .. } => {
            Some((*attempt, *exhausted, *will_retry))
        }
        _ => None,
    });
    assert_eq!(fell, Some((2, Some(Reason::MaxAttempts), false)));
}

/// L-25: a cancelled run reports its lifecycle events like any other.
#[tokio::test]
async fn cancelled_run_reports_its_end_and_its_cancelled_operations() {
    let test = TestEngine::new(|engine| engine.workflow("shop", shop)).await;
    let run = test.start(shop, &()).await.unwrap();
    test.settle().await;
    run.cancel("changed my mind").await.unwrap();
    test.settle().await;
    let reported = lines(&all(&test.client()).await);
    let tail: Vec<&str> = reported.iter().skip(5).map(String::as_str).collect();
    assert_eq!(
        tail,
        [
            "6 run.cancelling: changed my mind",
            "7 operation.cancelled sleep",
            "8 run.resumed",
            "9 run.cancelled: changed my mind"
        ],
        "{reported:#?}"
    );
}

async fn unsure(ctx: Ctx, _: ()) -> Result<()> {
    ctx.step("charge", work).timeout("1 minute").await?;
    Ok(ctx.sleep("1 day").await?)
}

async fn other(ctx: Ctx, _: ()) -> Result<()> {
    ctx.step("refund", work).await?;
    Ok(ctx.sleep("1 day").await?)
}

#[tokio::test]
async fn stuck_run_reports_why_and_when_it_resumes() {
    let mut test = TestEngine::new(|engine| engine.workflow("pay", unsure)).paranoid(false).await;
    test.start(unsure, &()).id("p").await.unwrap();
    test.settle().await;
    test.deploy(|engine| engine.workflow("pay", outlive::Strict(other))).await;
    test.advance("2 days").await;
    let reported = all(&test.client()).await;
    assert!(matches!(&reported.last().unwrap().kind, LifecycleKind::RunStuck { reason } if reason.contains("charge")));
    assert!(
        reported.iter().any(|event| event.kind.as_str() == "step.started"),
        "a step with a timeout records its start"
    );
    test.deploy(|engine| engine.workflow("pay", unsure)).await;
    test.advance("2 days").await;
    let reported = all(&test.client()).await;
    assert_whole(&reported);
    let kinds: Vec<&str> = reported.iter().map(|event| event.kind.as_str()).collect();
    assert!(kinds.contains(&"run.reopened") && kinds.ends_with(&["run.completed"]), "{kinds:?}");
}

/// A replay writes nothing, so it reports nothing.
#[tokio::test]
async fn crash_neither_loses_nor_repeats_a_lifecycle_event() {
    let mut test = TestEngine::new(|engine| engine.workflow("shop", shop)).await;
    (0..9).for_each(|_| test.fail_next("ship", "no truck"));
    let run = test.start(shop, &()).id("order-1").await.unwrap();
    run.signal("approval", "ada").await.unwrap();
    for _ in 0..40 {
        test.crash().await;
        let reported = all(&test.client()).await;
        assert_whole(&reported);
        test.crash().await;
        assert_eq!(all(&test.client()).await, reported[..], "a replay reports nothing");
        if reported.last().unwrap().kind.as_str() == "run.failed" {
            break;
        }
        test.advance("10 minutes").await;
    }
    let reported = all(&test.client()).await;
    // The number of pauses depends on the crashes; nothing else does.
    let kinds = reported.iter().map(|event| event.kind.as_str());
    let kinds: Vec<_> = kinds.filter(|kind| !["run.paused", "run.resumed"].contains(kind)).collect();
    let expected = "run.queued run.started step.completed sleep.set sleep.done signal.taken wait.set wait.timed_out \
                    step.failed step.failed step.failed run.failed";
    assert_eq!(kinds, expected.split_whitespace().collect::<Vec<_>>());
}

#[tokio::test]
async fn subscriber_in_the_same_process_misses_no_event() {
    let engine = Engine::open("memory:").workflow("with_fallback", with_fallback).start().await.unwrap();
    let mut events = engine.events().committed().await.unwrap();
    let runs = 50;
    let follower = tokio::spawn(async move {
        let (mut reported, mut ended) = (Vec::new(), 0);
        while ended < runs {
            let event = events.next().await.unwrap();
            ended += u64::from(event.kind == LifecycleKind::RunCompleted);
            reported.push(event);
        }
        (reported, events)
    });
    for _ in 0..runs {
        engine.start(with_fallback, &()).await.unwrap();
    }
    let (reported, mut events) = follower.await.unwrap();
    assert_whole(&reported);
    assert_eq!(reported, all(&engine.client()).await);
    let waiting = tokio::spawn(async move { events.next().await });
    engine.shutdown().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), "shutdown");
}

/// The subscriber leaves after each event and resumes by cursor, even between two events of one feed item.
#[tokio::test]
async fn subscriber_in_another_client_resumes_by_cursor_and_misses_no_event() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let client = Client::open(&path).unwrap();
    let runs = 20;
    let follower = tokio::spawn(async move {
        let (mut reported, mut ended, mut kept) = (Vec::<LifecycleEvent>::new(), 0, Cursor::START.to_string());
        while ended < runs {
            let mut events = client.events().since(kept.parse().unwrap()).await.unwrap();
            let event = events.next().await.unwrap();
            kept = serde_json::to_string(&event.cursor()).unwrap();
            ended += u64::from(event.kind == LifecycleKind::RunCompleted);
            reported.push(event);
        }
        reported
    });
    let engine = Engine::open(&path).workflow("with_fallback", with_fallback).start().await.unwrap();
    for _ in 0..runs {
        engine.start(with_fallback, &()).await.unwrap();
    }
    let reported = tokio::time::timeout(Duration::from_secs(60), follower).await.unwrap().unwrap();
    assert_whole(&reported);
    assert_eq!(reported, all(&engine.client()).await);
}

#[tokio::test]
async fn engine_subscriber_sees_runs_started_by_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let engine = Engine::open(&path).workflow("shop", shop).start().await.unwrap();
    let mut events = engine.events().of("later").await.unwrap();
    let client = Client::open(&path).unwrap();
    let mut next = std::pin::pin!(events.next());
    // The subscriber waits, and nothing this process writes could wake it.
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut next).await.is_err());
    client.start_json("shop", "null").id("later").delay("1 day").await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(120), next).await.unwrap().unwrap();
    assert_eq!((event.number, event.kind), (1, LifecycleKind::RunQueued));
}

#[tokio::test]
async fn manual_pause_is_reported() {
    let test = TestEngine::new(|engine| engine.workflow("shop", shop)).await;
    let run = test.start(shop, &()).await.unwrap();
    test.settle().await;
    run.pause().await.unwrap();
    test.settle().await;
    let reported = all(&test.client()).await;
    assert!(
        reported
            .iter()
            .any(|event| matches!(event.kind, LifecycleKind::RunPaused { why: StatusKind::Paused, until: None })),
        "{:#?}",
        lines(&reported)
    );
}

#[tokio::test]
async fn old_lifecycle_events_are_trimmed_by_the_engine_clock() {
    let test = TestEngine::new(|engine| engine.workflow("with_fallback", with_fallback).keep_events("2 days")).await;
    let first = test.start(with_fallback, &()).await.unwrap();
    test.result(&first).await.unwrap();
    test.advance("1 day").await;
    let second = test.start(with_fallback, &()).await.unwrap();
    test.result(&second).await.unwrap();
    let before = all(&test.client()).await;
    test.advance("20 hours").await;
    assert_eq!(all(&test.client()).await, before);
    test.advance("6 hours").await;
    let after = all(&test.client()).await;
    let of = |run: &Run<u32>| -> Vec<_> { after.iter().filter(|event| event.instance == run.id()).collect() };
    assert!(of(&first).iter().all(|event| event.kind.as_str().starts_with("step.")), "its journal is still there");
    assert_eq!(of(&second).len(), before.iter().filter(|event| event.instance == second.id()).count());
}

/// What broke: trimming first ran after an hour, so a program that never lived that long kept all events.
#[tokio::test]
async fn short_lived_program_trims_old_events_too() {
    let keeping = |engine: outlive::Builder| engine.workflow("with_fallback", with_fallback).keep_events("2 days");
    let test = TestEngine::new(keeping).await;
    let run = test.start(with_fallback, &()).await.unwrap();
    test.result(&run).await.unwrap();
    let runs = async |test: &TestEngine| {
        all(&test.client()).await.iter().filter(|event| event.kind.as_str().starts_with("run.")).count()
    };
    assert_ne!(runs(&test).await, 0);
    let (store, clock) = (test.store().clone(), TestClock::new());
    drop((run, test));
    clock.advance(Duration::from_secs(3 * 24 * 60 * 60));
    let later = TestEngine::new(keeping).store(store).clock(clock).await;
    later.settle().await;
    assert_eq!(runs(&later).await, 0);
}

/// Formats the step events as kind, step and attempt.
fn steps(events: &[LifecycleEvent]) -> Vec<String> {
    let steps = events.iter().filter(|event| event.kind.as_str().starts_with("step."));
    steps.map(|event| event.kind.to_string().split([':', ';']).take(2).collect::<Vec<_>>().join(":")).collect()
}

async fn next_until(events: &mut outlive::Events, kind: &str) -> Vec<LifecycleEvent> {
    let mut reported = Vec::new();
    let reading = async {
        while reported.last().is_none_or(|event: &LifecycleEvent| event.kind.as_str() != kind) {
            reported.push(events.next().await.unwrap());
        }
    };
    tokio::time::timeout(Duration::from_secs(120), reading).await.unwrap();
    reported
}

#[tokio::test]
async fn subscriber_in_the_same_process_sees_each_attempt_start_in_order() {
    let test = TestEngine::new(|engine| engine.workflow("shop", shop)).await;
    let mut events = test.events().await.unwrap();
    shop_to_its_end(&test).await;
    let reported = events.read(usize::MAX).await.unwrap();
    let begun: Vec<String> =
        reported.iter().filter(|event| !event.is_committed()).map(|event| event.id.clone()).collect();
    assert_eq!(
        begun,
        ["charge-1", "charge-2", "charge-3", "ship-1", "ship-2", "ship-3"].map(|id| format!("1-step:{id}"))
    );
    let committed: Vec<LifecycleEvent> = reported.iter().filter(|event| event.is_committed()).cloned().collect();
    assert_eq!(committed, all(&test.client()).await, "starts change nothing else");
    // A start comes after all that happened before it and ahead of its end; it has the cursor of the event before it.
    for (place, event) in reported.iter().enumerate().filter(|(_, event)| !event.is_committed()) {
        let LifecycleKind::StepStarted { step, operation, attempt } = &event.kind else { panic!("{event}") };
        assert_eq!((event.number, operation.as_str()), (0, format!("step:{step}").as_str()));
        let (before, after) = (&reported[place - 1], &reported[place + 1]);
        assert_eq!(event.cursor(), before.cursor());
        let is_before = ["run.started", "run.resumed"].contains(&before.kind.as_str());
        let is_end = match &after.kind {
            LifecycleKind::StepCompleted { step: ended, attempt: last, .. }
            | LifecycleKind::StepFailed { step: ended, attempt: last, .. } => (ended, last) == (step, attempt),
            _ => false,
        };
        assert!(is_before && is_end, "{before} | {event} | {after}");
    }
}

/// There is no pause between these attempts, and the next may begin before the last failure is durable.
#[tokio::test]
async fn back_to_back_attempts_are_reported_live_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(dir.path().join("shop.db"));
    let engine = engine.workflow("with_fallback", with_fallback).start().await.unwrap();
    let mut events = engine.events().await.unwrap();
    for _ in 0..20 {
        engine.start(with_fallback, &()).await.unwrap();
        let reported = next_until(&mut events, "run.completed").await;
        let expected = [
            "step.started step:ask (attempt 1)",
            "step.failed step:ask (attempt 1)",
            "step.started step:ask (attempt 2)",
            "step.failed step:ask (attempt 2)",
            "step.completed step:ask (attempt 2)",
        ];
        assert_eq!(steps(&reported), expected);
        assert!(reported[2].kind.as_str() == "step.started", "{:#?}", lines(&reported));
    }
}

/// A replay runs no body, so it reports no start; a recorded start is reported once, as recorded.
#[tokio::test]
async fn replay_reports_no_start_and_a_recorded_start_is_reported_once() {
    let mut test = TestEngine::new(|engine| engine.workflow("shop", shop).workflow("pay", unsure)).await;
    test.start(shop, &()).id("order").await.unwrap();
    let mut events = test.events().of("p").await.unwrap();
    test.start(unsure, &()).id("p").await.unwrap();
    test.settle().await;
    let reported = events.read(usize::MAX).await.unwrap();
    assert_eq!(steps(&reported), ["step.started step:charge (attempt 1)", "step.completed step:charge (attempt 1)"]);
    assert!(reported.iter().all(LifecycleEvent::is_committed));
    test.crash().await;
    let mut events = test.events().await.unwrap();
    let run = test.get_run::<u32>("order").await.unwrap();
    test.advance("70 minutes").await;
    run.signal("approval", "ada").await.unwrap();
    test.advance("3 hours").await;
    let reported = events.read(usize::MAX).await.unwrap();
    assert_eq!(steps(&reported), ["step.started step:ship (attempt 1)", "step.completed step:ship (attempt 1)"]);
}

#[tokio::test]
async fn slow_subscriber_misses_only_starts_and_blocks_no_run() {
    let engine = Engine::open("memory:").workflow("busy", busy).start().await.unwrap();
    let mut events = engine.events().await.unwrap();
    assert_eq!(engine.start(busy, &3_000).await.unwrap().result().await.unwrap(), 3_000);
    let reported = events.read(usize::MAX).await.unwrap();
    let (committed, begun): (Vec<_>, Vec<_>) = reported.into_iter().partition(LifecycleEvent::is_committed);
    assert_eq!(committed, all(&engine.client()).await);
    assert_eq!(begun.len(), 1024, "the last ones are kept");
    assert!(begun.last().unwrap().kind.to_string().contains("#3000"), "{}", begun.last().unwrap());
}

async fn busy(ctx: Ctx, count: u32) -> Result<u32> {
    for _ in 0..count {
        ctx.step("work", work).await?;
    }
    Ok(count)
}

#[tokio::test]
async fn another_client_sees_no_attempt_before_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let engine = Engine::open(&path).workflow("busy", busy).start().await.unwrap();
    let client = Client::open(&path).unwrap();
    let mut events = client.events().await.unwrap();
    engine.start(busy, &3).await.unwrap();
    let reported = next_until(&mut events, "run.completed").await;
    assert_whole(&reported);
    assert_eq!(reported, all(&engine.client()).await);
}

/// Lets each step end once its start has been seen.
#[derive(Clone, Default)]
struct Gate(std::sync::Arc<tokio::sync::Notify>);

async fn gated(ctx: Ctx, _: ()) -> Result<()> {
    for _ in 0..20 {
        let gate = ctx.get::<Gate>();
        let seen = || async {
            gate.0.notified().await;
            Ok::<_, BoxError>(())
        };
        ctx.step("wait to be seen", seen).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_is_reported_while_its_step_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (path, gate) = (dir.path().join("shop.db"), Gate::default());
    let engine = Engine::open(&path).provide(gate.clone()).workflow("gated", gated).start().await.unwrap();
    let mut events = engine.events().await.unwrap();
    engine.start(gated, &()).await.unwrap();
    for _ in 0..20 {
        next_until(&mut events, "step.started").await;
        gate.0.notify_one();
        next_until(&mut events, "step.completed").await;
    }
}
