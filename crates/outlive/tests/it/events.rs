//! Lifecycle events: complete, numbered, told once, and none lost by a crash.

use std::collections::BTreeMap;
use std::time::Duration;

use outlive::prelude::*;
use outlive::{Cause, Client, Cursor, LifecycleEvent, LifecycleKind, Reason, StatusKind};
use outlive_testkit::{TestClock, TestEngine};

async fn work() -> Result<u32> {
    Ok(42)
}

/// Steps, a sleep, a wait that is answered and one that is not.
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

/// Each as one line without its time, as people see it.
fn lines(events: &[LifecycleEvent]) -> Vec<String> {
    events.iter().map(|event| format!("{} {}", event.number, event.kind)).collect()
}

/// Of each instance the numbers are 1, 2, 3 and so on, and no id comes twice.
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

/// L-D1, L-D3, L-15, L-20: each failed attempt has one event with its own number and the real error, and the one that
/// succeeds has its own.
#[tokio::test]
async fn everything_that_happens_to_a_run_is_told_in_order() {
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
        // The end of a sleep or a wait is what the run is taken up with.
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
async fn a_failed_attempt_says_what_follows_and_where_the_delay_comes_from() {
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
async fn a_step_that_falls_back_tells_why_it_did() {
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

/// L-25: the events of a run that is cancelled are told as those of any other.
#[tokio::test]
async fn a_cancelled_run_tells_of_its_end_and_of_what_it_left() {
    let test = TestEngine::new(|engine| engine.workflow("shop", shop)).await;
    let run = test.start(shop, &()).await.unwrap();
    test.settle().await;
    run.cancel("changed my mind").await.unwrap();
    test.settle().await;
    let told = lines(&all(&test.client()).await);
    let tail: Vec<&str> = told.iter().skip(5).map(String::as_str).collect();
    assert_eq!(
        tail,
        [
            "6 run.cancelling: changed my mind",
            "7 operation.cancelled sleep",
            "8 run.resumed",
            "9 run.cancelled: changed my mind"
        ],
        "{told:#?}"
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
async fn a_stuck_run_says_why_and_tells_when_it_goes_on() {
    let mut test = TestEngine::new(|engine| engine.workflow("pay", unsure)).paranoid(false).await;
    test.start(unsure, &()).id("p").await.unwrap();
    test.settle().await;
    test.deploy(|engine| engine.workflow("pay", outlive::Strict(other))).await;
    test.advance("2 days").await;
    let told = all(&test.client()).await;
    assert!(matches!(&told.last().unwrap().kind, LifecycleKind::RunStuck { reason } if reason.contains("charge")));
    assert!(told.iter().any(|event| event.kind.as_str() == "step.started"), "a step with a timeout records its start");
    test.deploy(|engine| engine.workflow("pay", unsure)).await;
    test.advance("2 days").await;
    let told = all(&test.client()).await;
    assert_whole(&told);
    let kinds: Vec<&str> = told.iter().map(|event| event.kind.as_str()).collect();
    assert!(kinds.contains(&"run.reopened") && kinds.ends_with(&["run.completed"]), "{kinds:?}");
}

/// A replay writes nothing, so it tells nothing.
#[tokio::test]
async fn a_crash_at_any_moment_loses_no_event_and_repeats_none() {
    let mut test = TestEngine::new(|engine| engine.workflow("shop", shop)).await;
    (0..9).for_each(|_| test.fail_next("ship", "no truck"));
    let run = test.start(shop, &()).id("order-1").await.unwrap();
    run.signal("approval", "ada").await.unwrap();
    for _ in 0..40 {
        test.crash().await;
        let told = all(&test.client()).await;
        assert_whole(&told);
        test.crash().await;
        assert_eq!(all(&test.client()).await, told[..], "a replay tells nothing");
        if told.last().unwrap().kind.as_str() == "run.failed" {
            break;
        }
        test.advance("10 minutes").await;
    }
    let told = all(&test.client()).await;
    // How often it paused depends on the crashes; nothing else does.
    let kinds = told.iter().map(|event| event.kind.as_str());
    let kinds: Vec<_> = kinds.filter(|kind| !["run.paused", "run.resumed"].contains(kind)).collect();
    let expected = "run.queued run.started step.completed sleep.set sleep.done signal.taken wait.set wait.timed_out \
                    step.failed step.failed step.failed run.failed";
    assert_eq!(kinds, expected.split_whitespace().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_subscriber_in_this_process_is_woken_and_misses_none() {
    let engine = Engine::open("memory:").workflow("with_fallback", with_fallback).start().await.unwrap();
    let mut events = engine.events().committed().await.unwrap();
    let runs = 50;
    let follower = tokio::spawn(async move {
        let (mut told, mut ended) = (Vec::new(), 0);
        while ended < runs {
            let event = events.next().await.unwrap();
            ended += u64::from(event.kind == LifecycleKind::RunCompleted);
            told.push(event);
        }
        (told, events)
    });
    for _ in 0..runs {
        engine.start(with_fallback, &()).await.unwrap();
    }
    let (told, mut events) = follower.await.unwrap();
    assert_whole(&told);
    assert_eq!(told, all(&engine.client()).await);
    let waiting = tokio::spawn(async move { events.next().await });
    engine.shutdown().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), "shutdown");
}

/// It goes away after each event and comes back by cursor: between the two that one line tells of, too.
#[tokio::test]
async fn a_subscriber_in_another_client_goes_on_by_cursor_and_misses_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let client = Client::open(&path).unwrap();
    let runs = 20;
    let follower = tokio::spawn(async move {
        let (mut told, mut ended, mut kept) = (Vec::<LifecycleEvent>::new(), 0, Cursor::START.to_string());
        while ended < runs {
            let mut events = client.events().since(kept.parse().unwrap()).await.unwrap();
            let event = events.next().await.unwrap();
            kept = serde_json::to_string(&event.cursor()).unwrap();
            ended += u64::from(event.kind == LifecycleKind::RunCompleted);
            told.push(event);
        }
        told
    });
    let engine = Engine::open(&path).workflow("with_fallback", with_fallback).start().await.unwrap();
    for _ in 0..runs {
        engine.start(with_fallback, &()).await.unwrap();
    }
    let told = tokio::time::timeout(Duration::from_secs(60), follower).await.unwrap().unwrap();
    assert_whole(&told);
    assert_eq!(told, all(&engine.client()).await);
}

#[tokio::test]
async fn what_another_process_starts_reaches_a_subscriber_of_the_executor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let engine = Engine::open(&path).workflow("shop", shop).start().await.unwrap();
    let mut events = engine.events().of("later").await.unwrap();
    let client = Client::open(&path).unwrap();
    let mut next = std::pin::pin!(events.next());
    // It waits, and nothing that this process writes could wake it.
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut next).await.is_err());
    client.start_json("shop", "null").id("later").delay("1 day").await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(120), next).await.unwrap().unwrap();
    assert_eq!((event.number, event.kind), (1, LifecycleKind::RunQueued));
}

#[tokio::test]
async fn a_pause_by_hand_is_told() {
    let test = TestEngine::new(|engine| engine.workflow("shop", shop)).await;
    let run = test.start(shop, &()).await.unwrap();
    test.settle().await;
    run.pause().await.unwrap();
    test.settle().await;
    let told = all(&test.client()).await;
    assert!(
        told.iter()
            .any(|event| matches!(event.kind, LifecycleKind::RunPaused { why: StatusKind::Paused, until: None })),
        "{:#?}",
        lines(&told)
    );
}

#[tokio::test]
async fn what_was_told_long_ago_is_forgotten_by_the_clock_of_the_engine() {
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

/// What broke: old events were first looked for after an hour, so a program that never lived that long kept them all.
#[tokio::test]
async fn a_program_that_lives_for_minutes_trims_old_events_as_well() {
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

/// Each with what it is and which attempt, as far as steps are concerned.
fn steps(events: &[LifecycleEvent]) -> Vec<String> {
    let steps = events.iter().filter(|event| event.kind.as_str().starts_with("step."));
    steps.map(|event| event.kind.to_string().split([':', ';']).take(2).collect::<Vec<_>>().join(":")).collect()
}

async fn next_until(events: &mut outlive::Events, kind: &str) -> Vec<LifecycleEvent> {
    let mut told = Vec::new();
    let reading = async {
        while told.last().is_none_or(|event: &LifecycleEvent| event.kind.as_str() != kind) {
            told.push(events.next().await.unwrap());
        }
    };
    tokio::time::timeout(Duration::from_secs(120), reading).await.unwrap();
    told
}

#[tokio::test]
async fn each_attempt_that_begins_is_told_in_its_place_to_who_follows_in_this_process() {
    let test = TestEngine::new(|engine| engine.workflow("shop", shop)).await;
    let mut events = test.events().await.unwrap();
    shop_to_its_end(&test).await;
    let told = events.read(usize::MAX).await.unwrap();
    let begun: Vec<String> = told.iter().filter(|event| !event.is_committed()).map(|event| event.id.clone()).collect();
    assert_eq!(
        begun,
        ["charge-1", "charge-2", "charge-3", "ship-1", "ship-2", "ship-3"].map(|id| format!("1-step:{id}"))
    );
    let committed: Vec<LifecycleEvent> = told.iter().filter(|event| event.is_committed()).cloned().collect();
    assert_eq!(committed, all(&test.client()).await, "nothing else is changed by it");
    // It comes behind all that was before it, and ahead of its end; its cursor is that of the one before it.
    for (place, event) in told.iter().enumerate().filter(|(_, event)| !event.is_committed()) {
        let LifecycleKind::StepStarted { step, operation, attempt } = &event.kind else { panic!("{event}") };
        assert_eq!((event.number, operation.as_str()), (0, format!("step:{step}").as_str()));
        let (before, after) = (&told[place - 1], &told[place + 1]);
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

/// No pause lies between these attempts, and the next may begin before the failure of the last is durable.
#[tokio::test]
async fn attempts_that_follow_at_once_are_told_in_order_while_they_happen() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(dir.path().join("shop.db"));
    let engine = engine.workflow("with_fallback", with_fallback).start().await.unwrap();
    let mut events = engine.events().await.unwrap();
    for _ in 0..20 {
        engine.start(with_fallback, &()).await.unwrap();
        let told = next_until(&mut events, "run.completed").await;
        let expected = [
            "step.started step:ask (attempt 1)",
            "step.failed step:ask (attempt 1)",
            "step.started step:ask (attempt 2)",
            "step.failed step:ask (attempt 2)",
            "step.completed step:ask (attempt 2)",
        ];
        assert_eq!(steps(&told), expected);
        assert!(told[2].kind.as_str() == "step.started", "{:#?}", lines(&told));
    }
}

/// A replay runs no body, so it tells of none; a start that is recorded is told once, as it is recorded.
#[tokio::test]
async fn a_replay_begins_no_attempt_and_a_start_that_is_recorded_is_told_by_that_alone() {
    let mut test = TestEngine::new(|engine| engine.workflow("shop", shop).workflow("pay", unsure)).await;
    test.start(shop, &()).id("order").await.unwrap();
    let mut events = test.events().of("p").await.unwrap();
    test.start(unsure, &()).id("p").await.unwrap();
    test.settle().await;
    let told = events.read(usize::MAX).await.unwrap();
    assert_eq!(steps(&told), ["step.started step:charge (attempt 1)", "step.completed step:charge (attempt 1)"]);
    assert!(told.iter().all(LifecycleEvent::is_committed));
    test.crash().await;
    let mut events = test.events().await.unwrap();
    let run = test.get_run::<u32>("order").await.unwrap();
    test.advance("70 minutes").await;
    run.signal("approval", "ada").await.unwrap();
    test.advance("3 hours").await;
    let told = events.read(usize::MAX).await.unwrap();
    assert_eq!(steps(&told), ["step.started step:ship (attempt 1)", "step.completed step:ship (attempt 1)"]);
}

#[tokio::test]
async fn who_is_slow_misses_starts_alone_and_holds_up_nobody() {
    let engine = Engine::open("memory:").workflow("busy", busy).start().await.unwrap();
    let mut events = engine.events().await.unwrap();
    assert_eq!(engine.start(busy, &3_000).await.unwrap().result().await.unwrap(), 3_000);
    let told = events.read(usize::MAX).await.unwrap();
    let (committed, begun): (Vec<_>, Vec<_>) = told.into_iter().partition(LifecycleEvent::is_committed);
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
async fn another_client_is_told_of_no_attempt_before_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let engine = Engine::open(&path).workflow("busy", busy).start().await.unwrap();
    let client = Client::open(&path).unwrap();
    let mut events = client.events().await.unwrap();
    engine.start(busy, &3).await.unwrap();
    let told = next_until(&mut events, "run.completed").await;
    assert_whole(&told);
    assert_eq!(told, all(&engine.client()).await);
}

/// Lets each step end once its start was seen.
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
async fn a_start_is_told_while_its_step_is_at_work() {
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
