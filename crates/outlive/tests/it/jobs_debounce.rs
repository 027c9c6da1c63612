//! Debounces: a single flush path, durable batches, and events that are in one batch or the next.

use std::time::Duration;

use outlive::job::{Debounce, DebounceBuilder, DebounceCtx, FlushReason, JobStatus};
use outlive::prelude::*;
use outlive_core::lifecycle::LifecycleRecordKind;
use outlive_testkit::TestEngine;

use crate::jobs_kit::{Book, contents, failures, others, perform, reported};

const HOOKS: Debounce<String, Vec<String>> = Debounce::new("hooks");

type HookCtx = DebounceCtx<String, Vec<String>>;

async fn act(ctx: &HookCtx, script: &str) -> Result<()> {
    perform!(ctx, script, "terminate" => |reason: &str| ctx.terminate(reason),);
    Ok(())
}

async fn collect(ctx: HookCtx, hook: String) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    ctx.update_state(|batch| batch.push(hook.clone()));
    if let Some(script) = hook.strip_prefix("do ") {
        act(&ctx, script).await?;
    }
    act(&ctx, &book.script("event")).await
}

/// Notes the batch, the reason of the flush, and the attempt.
async fn flush(ctx: HookCtx) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    let batch = ctx.state().unwrap_or_default();
    assert!(ctx.flush_reason() == Some(FlushReason::Retried) || ctx.first_event() == batch.first().cloned());
    assert_eq!(ctx.event_count(), batch.len() as u64);
    book.note(format!("{} by {}#{}", batch.join(","), ctx.flush_reason().unwrap().as_str(), ctx.attempt()));
    act(&ctx, &book.script("execute")).await
}

async fn on_error(ctx: HookCtx, failure: outlive::Failure) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    book.note(format!("error {failure}"));
    act(&ctx, &book.script("error")).await
}

fn retry(times: u32, delay: &str) -> Retry {
    Retry::times(times).constant(delay).jitter(outlive::Jitter::none())
}

async fn engine(job: impl Fn() -> DebounceBuilder<String, Vec<String>> + Send + Sync + 'static) -> (TestEngine, Book) {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        others(engine).job(job().on_event(collect).execute(flush)).provide(given.clone())
    })
    .await;
    (test, book)
}

/// Adds an event, which must return at once: an add that hangs is a bug.
async fn add(test: &TestEngine, event: &str) -> outlive::job::Added {
    let hooks = test.job(HOOKS);
    let event = event.to_owned();
    let added = tokio::time::timeout(Duration::from_secs(120), hooks.add("a", &event)).await;
    let added = added.expect("an add returns").unwrap();
    test.settle().await;
    added
}

async fn assert_gone(test: &TestEngine) {
    assert_eq!(test.job(HOOKS).status("a").await.unwrap().status, JobStatus::NotFound);
    assert_eq!(test.job(HOOKS).state("a").await.unwrap(), None);
    assert!(test.store().wakes(Timestamp::MAX, 9).await.unwrap().is_empty());
    assert!(!contents(test.store()).await.lines().any(|line| line.starts_with("Instance")));
}

async fn flushed(test: &TestEngine) -> Vec<String> {
    let records = reported(test.store(), "debounce:hooks:a").await.into_iter();
    records
        .filter(|(kind, ..)| *kind == LifecycleRecordKind::DebounceFlushed)
        .map(|(_, _, detail)| format!("{} by {}", detail.events.unwrap(), detail.reason.unwrap()))
        .collect()
}

#[tokio::test]
async fn batch_is_flushed_a_fixed_time_after_its_first_event() {
    let (test, book) = engine(|| HOOKS.flush_after("10 seconds")).await;
    let first = add(&test, "x").await;
    assert!(first.created && first.is_new && first.event_count == 1);
    test.advance("9 seconds").await;
    let second = add(&test, "y").await;
    assert!(!second.created && second.event_count == 2);
    assert_eq!(second.flush_at, first.flush_at, "a later event does not delay the flush");
    assert_eq!(test.job(HOOKS).state("a").await.unwrap().unwrap(), ["x", "y"]);
    assert!(book.notes().is_empty());
    test.advance("1 second").await;
    assert_eq!(book.take(), ["x,y by window#1"]);
    assert_eq!(flushed(&test).await, ["2 by window"]);
    assert_gone(&test).await;
    assert!(add(&test, "z").await.created, "the next one opens a new window");
    test.advance("10 seconds").await;
    assert_eq!(book.take(), ["z by window#1"]);
}

#[tokio::test]
async fn every_flush_takes_the_same_path_and_has_its_reason() {
    let (test, book) = engine(|| HOOKS.quiet("10 seconds").max_wait("25 seconds").max_events(4)).await;
    add(&test, "q").await;
    test.advance("10 seconds").await;
    for event in ["w1", "w2", "w3"] {
        add(&test, event).await;
        test.advance("9 seconds").await;
    }
    for event in ["m1", "m2", "m3", "m4"] {
        add(&test, event).await;
    }
    add(&test, "h").await;
    test.job(HOOKS).flush("a").await.unwrap();
    test.settle().await;
    assert_eq!(book.take(), ["q by quiet#1", "w1,w2,w3 by window#1", "m1,m2,m3,m4 by max events#1", "h by manual#1"]);
    assert_eq!(flushed(&test).await, ["1 by quiet", "3 by window", "4 by max events", "1 by manual"]);
    let records = reported(test.store(), "debounce:hooks:a").await;
    assert_eq!(records.iter().filter(|(kind, ..)| *kind == LifecycleRecordKind::DebounceStarted).count(), 4);
    assert_gone(&test).await;
    let none = test.job(HOOKS).flush("a").await;
    assert!(matches!(none, Err(Error::NotFound { .. })), "{none:?}");
}

#[tokio::test]
async fn without_a_reducer_the_batch_is_the_latest_event() {
    const LATEST: Debounce<u32, u32> = Debounce::new("latest");
    async fn flush(ctx: DebounceCtx<u32, u32>) -> Result<()> {
        ctx.get::<Book>().note(format!("{:?} of {}", ctx.state(), ctx.event_count()));
        Ok(())
    }
    let book = Book::default();
    let given = book.clone();
    let test =
        TestEngine::new(move |engine| engine.job(LATEST.flush_after("1 minute").execute(flush)).provide(given.clone()))
            .await;
    for n in 1..=3 {
        test.job(LATEST).add("a", &n).await.unwrap();
    }
    assert_eq!(test.job(LATEST).state("a").await.unwrap(), Some(3));
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["Some(3) of 3"]);
}

#[tokio::test]
async fn dedup_key_is_in_a_batch_once_and_free_after_it() {
    let (test, book) = engine(|| HOOKS.flush_after("10 seconds")).await;
    let hooks = test.job(HOOKS);
    for is_new in [true, false] {
        let added = hooks.add("a", &"x".to_owned()).dedup_key("k").await.unwrap();
        assert_eq!((added.is_new, added.event_count), (is_new, 1));
        assert!(added.flush_at.is_some());
    }
    assert!(hooks.add("a", &"y".to_owned()).dedup_key("l").await.unwrap().is_new);
    test.advance("10 seconds").await;
    assert_eq!(book.take(), ["x,y by window#1"]);
    assert!(hooks.add("a", &"z".to_owned()).dedup_key("k").await.unwrap().is_new);
    hooks.clear("a").await.unwrap();
    assert!(hooks.add("a", &"w".to_owned()).dedup_key("k").await.unwrap().is_new, "also after a clear");
    test.advance("10 seconds").await;
    assert_eq!(book.take(), ["w by window#1"]);
}

#[tokio::test]
async fn clear_drops_the_batch_and_its_window() {
    let (test, book) = engine(|| HOOKS.flush_after("10 seconds")).await;
    add(&test, "x").await;
    test.job(HOOKS).clear("a").await.unwrap();
    test.settle().await;
    assert_gone(&test).await;
    test.advance("1 minute").await;
    assert!(book.take().is_empty());
    let records = reported(test.store(), "debounce:hooks:a").await;
    assert_eq!(records.last().unwrap().0, LifecycleRecordKind::DebounceCleared);
}

#[tokio::test]
async fn event_added_during_a_flush_is_in_the_next_batch() {
    let (test, book) = engine(|| HOOKS.flush_after("10 seconds")).await;
    add(&test, "x").await;
    book.plan("execute", ["block"]);
    test.advance("10 seconds").await;
    let added = add(&test, "y").await;
    assert_eq!((added.event_count, added.flush_at, added.created), (1, None, false));
    assert_eq!(add(&test, "z").await.event_count, 2);
    book.gate.add_permits(1);
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["x by window#1", "y,z by window#1"]);
    assert_gone(&test).await;
}

#[tokio::test]
async fn adds_during_a_retry_neither_flush_early_nor_use_attempts() {
    // The instance is in memory right after the failure, and no longer later.
    for pause in ["0 seconds", "10 minutes"] {
        let (test, book) = engine(|| HOOKS.flush_after("10 seconds").max_events(3).retry(retry(2, "1 hour"))).await;
        add(&test, "x").await;
        book.plan("execute", ["fail no"]);
        test.advance("10 seconds").await;
        if pause != "0 seconds" {
            test.advance(pause).await;
        }
        for n in 1..=10 {
            let added = add(&test, &format!("y{n}")).await;
            assert_eq!((added.event_count, added.flush_at), (n, None), "after {pause}");
        }
        assert_eq!(book.take(), ["x by window#1"]);
        assert_eq!(test.job(HOOKS).state("a").await.unwrap().unwrap(), ["x"], "the batch is kept");
        assert_eq!(test.job(HOOKS).status("a").await.unwrap().failed, 1);
        test.job(HOOKS).flush("a").await.unwrap();
        test.settle().await;
        assert!(book.take().is_empty(), "a manual flush does not shorten a backoff");
        test.advance("1 hour").await;
        assert_eq!(
            book.take(),
            [
                "x by window#2",
                "y1,y2,y3 by max events#1",
                "y4,y5,y6 by max events#1",
                "y7,y8,y9 by max events#1",
                "y10 by manual#1"
            ]
        );
        assert_gone(&test).await;
    }
}

#[tokio::test]
async fn clear_during_a_retry_ends_it() {
    for pause in ["1 second", "10 minutes"] {
        let (test, book) = engine(|| HOOKS.flush_after("10 seconds").retry(retry(2, "1 hour"))).await;
        add(&test, "x").await;
        book.plan("execute", ["fail no"]);
        test.advance("10 seconds").await;
        add(&test, "y").await;
        test.advance(pause).await;
        let hooks = test.job(HOOKS);
        tokio::time::timeout(Duration::from_secs(120), hooks.clear("a")).await.expect("the call returns").unwrap();
        assert_gone(&test).await;
        book.take();
        test.advance("1 day").await;
        assert!(book.take().is_empty() && hooks.dead().await.unwrap().is_empty());
    }
}

/// A flush that was queued behind a retry was counted as an event.
#[tokio::test]
async fn clear_counts_only_the_events_it_dropped() {
    let (test, book) = engine(|| HOOKS.flush_after("10 seconds").retry(retry(2, "1 hour"))).await;
    add(&test, "x").await;
    book.plan("execute", ["fail no"]);
    test.advance("10 seconds").await;
    add(&test, "y").await;
    test.job(HOOKS).flush("a").await.unwrap();
    test.job(HOOKS).clear("a").await.unwrap();
    let reported = reported(test.store(), "debounce:hooks:a").await.into_iter();
    let cleared: Vec<_> = reported.filter(|(kind, ..)| *kind == LifecycleRecordKind::DebounceCleared).collect();
    assert_eq!(cleared.iter().map(|(_, _, detail)| detail.events).collect::<Vec<_>>(), [Some(2)]);
}

#[tokio::test]
async fn exhausted_batch_is_a_dead_letter_and_the_next_one_begins() {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        let job = HOOKS.flush_after("10 seconds").retry(retry(1, "1 minute")).on_error(on_error);
        others(engine).job(job.on_event(collect).execute(flush)).provide(given.clone())
    })
    .await;
    add(&test, "x").await;
    add(&test, "y").await;
    book.plan("execute", ["fail one", "fail two"]);
    test.advance("10 seconds").await;
    add(&test, "z").await;
    test.advance("2 minutes").await;
    assert_eq!(book.take(), ["x,y by window#1", "x,y by window#2", "error two", "z by window#1"]);
    assert_eq!(
        failures(&test, "debounce:hooks:a").await,
        ["failed 1: one", "failed 2: two", "exhausted 2 by max attempts: two"]
    );
    let hooks = test.job(HOOKS);
    let dead = hooks.dead().await.unwrap();
    assert_eq!((dead.len(), dead[0].events, dead[0].attempts), (1, 2, 2));
    assert_eq!((dead[0].json.as_str(), dead[0].instance.as_str()), (r#"["x","y"]"#, "a"));
    assert_gone(&test).await;
    assert_eq!(hooks.retry_dead().await.unwrap(), 1);
    test.settle().await;
    assert_eq!(book.take(), ["x,y by retried#1"]);
    assert!(hooks.dead().await.unwrap().is_empty());
    assert_gone(&test).await;
}

#[tokio::test]
async fn discarded_dead_batch_is_gone() {
    let (test, book) = engine(|| HOOKS.flush_after("10 seconds")).await;
    add(&test, "x").await;
    book.plan("execute", ["fail no"]);
    test.advance("10 seconds").await;
    assert_gone(&test).await;
    assert_eq!(test.job(HOOKS).discard_dead().await.unwrap(), 1);
    assert_eq!(test.job(HOOKS).discard_dead().await.unwrap(), 0);
    assert_eq!(test.job(HOOKS).retry_dead().await.unwrap(), 0);
    test.advance("1 day").await;
    assert_eq!(book.take().len(), 1);
}

#[tokio::test]
async fn failing_first_event_is_a_dead_letter_and_leaves_no_instance() {
    let (test, book) = engine(|| HOOKS.flush_after("10 seconds")).await;
    add(&test, "do fail no").await;
    assert_gone(&test).await;
    let dead = test.job(HOOKS).dead().await.unwrap();
    assert_eq!((dead.len(), dead[0].events, dead[0].event().unwrap()), (1, 1, serde_json::json!("do fail no")));
    test.advance("1 minute").await;
    assert!(book.take().is_empty());
    // A later failure does not touch the batch.
    add(&test, "x").await;
    add(&test, "do fail no").await;
    add(&test, "y").await;
    test.advance("10 seconds").await;
    assert_eq!(book.take(), ["x,y by window#1"]);
    assert_eq!(test.job(HOOKS).dead().await.unwrap().len(), 2);
    // Retried, and successful this time.
    assert_eq!(test.job(HOOKS).discard_dead().await.unwrap(), 2);
    book.plan("event", ["fail once"]);
    add(&test, "z").await;
    assert_eq!(test.job(HOOKS).retry_dead().await.unwrap(), 1);
    test.advance("10 seconds").await;
    assert_eq!(book.take(), ["z by window#1"]);
}

#[tokio::test]
async fn retried_event_is_not_lost_and_holds_up_the_others() {
    let (test, book) = engine(|| HOOKS.flush_after("10 seconds").retry(retry(2, "1 minute"))).await;
    book.plan("event", ["fail no"]);
    let added = add(&test, "x").await;
    assert_eq!((added.event_count, added.flush_at), (1, None));
    assert_eq!(add(&test, "y").await.event_count, 2);
    test.advance("2 minutes").await;
    assert_eq!(book.take(), ["x,y by window#1"]);
    assert_gone(&test).await;
}

#[tokio::test]
async fn terminate_from_any_handler_leaves_nothing_and_is_not_retried() {
    for ending in ["", "; fail after all", "; panic after all"] {
        for handler in ["event", "execute", "error"] {
            let book = Book::default();
            let given = book.clone();
            let test = TestEngine::new(move |engine| {
                let job = HOOKS.flush_after("10 seconds").retry(retry(1, "1 minute")).on_error(on_error);
                others(engine).job(job.on_event(collect).execute(flush)).provide(given.clone())
            })
            .await;
            let script = format!("terminate enough{ending}");
            if handler == "error" {
                book.plan("execute", ["fail no", "fail no"]);
            }
            add(&test, "x").await;
            book.plan(handler, [script.as_str()]);
            add(&test, "y").await;
            test.advance("5 minutes").await;
            assert_gone(&test).await;
            book.take();
            test.advance("1 day").await;
            assert!(book.take().is_empty(), "{handler}{ending}");
            assert!(test.job(HOOKS).dead().await.unwrap().is_empty(), "{handler}{ending}");
            assert!(add(&test, "z").await.created);
        }
    }
}

#[tokio::test]
async fn crash_during_a_flush_repeats_it_with_the_same_batch() {
    let (mut test, book) = engine(|| HOOKS.flush_after("10 seconds")).await;
    add(&test, "x").await;
    book.plan("execute", ["block"]);
    test.advance("10 seconds").await;
    add(&test, "y").await;
    test.crash().await;
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["x by window#1", "x by window#1", "y by window#1"]);
    assert_gone(&test).await;
}

/// The key counted the runs of the instance, and each batch is a new instance: all batches of an id had the same key,
/// and a receiver that deduplicates would have dropped all but the first.
#[tokio::test]
async fn each_batch_has_its_own_key_that_its_attempts_share() {
    async fn note_key(ctx: HookCtx) -> Result<()> {
        ctx.get::<Book>().note(ctx.idempotency_key().to_owned());
        if ctx.is_retry() { Ok(()) } else { Err("once".into()) }
    }
    let (book, job) = (Book::default(), || HOOKS.flush_after("10 seconds").retry(retry(1, "1 second")));
    let given = book.clone();
    let setup =
        move |engine: outlive::Builder| engine.job(job().on_event(collect).execute(note_key)).provide(given.clone());
    let test = TestEngine::new(setup).await;
    for hook in ["x", "y"] {
        add(&test, hook).await;
        test.advance("1 minute").await;
    }
    let keys = book.take();
    assert!(keys.len() == 4 && keys[0] == keys[1] && keys[2] == keys[3] && keys[0] != keys[2], "{keys:?}");
}

#[tokio::test]
async fn restarts_every_minute_do_not_move_the_window() {
    let (mut test, book) = engine(|| HOOKS.flush_after("1 hour")).await;
    add(&test, "x").await;
    for _ in 0..59 {
        test.advance("1 minute").await;
        test.crash().await;
        test.settle().await;
    }
    assert!(book.notes().is_empty());
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["x by window#1"]);
}

#[tokio::test]
async fn a_hundred_concurrent_adds_are_a_hundred_events_in_one_batch() {
    let (test, book) = engine(|| HOOKS.flush_after("10 seconds")).await;
    let hooks = test.job(HOOKS);
    let event = "x".to_owned();
    let mut counts: Vec<u64> =
        futures_util::future::join_all((0..100).map(|_| hooks.add("a", &event).wait("1 minute")))
            .await
            .into_iter()
            .map(|added| added.unwrap().event_count)
            .collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=100).collect::<Vec<u64>>(), "each add returns its own count");
    test.advance("10 seconds").await;
    assert_eq!(book.take(), [format!("{} by window#1", vec!["x"; 100].join(","))]);
}

#[tokio::test]
async fn flush_commits_together_with_what_it_sends() {
    let (test, book) = engine(|| HOOKS.flush_after("10 seconds").retry(retry(1, "1 minute"))).await;
    add(&test, "x").await;
    book.plan("execute", ["send n hello; signal nobody", "send n hello"]);
    test.advance("10 seconds").await;
    assert_eq!(test.job(crate::jobs_kit::NOTES).state("n").await.unwrap(), None);
    test.advance("1 minute").await;
    assert_eq!(test.job(crate::jobs_kit::NOTES).state("n").await.unwrap().unwrap(), ["hello"]);
    assert_eq!(book.take(), ["x by window#1", "x by window#2"]);
}
