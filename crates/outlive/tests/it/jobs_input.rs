//! Bad input for jobs: each is a typed error that names the value, and nothing is written.

use outlive::ErrorKind;
use outlive::job::{Continuous, ContinuousCtx, Debounce, DebounceCtx, Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use outlive_testkit::TestEngine;

use crate::jobs_kit::contents;

const BEAT: Continuous<String> = Continuous::new("beat");
const HOOKS: Debounce<String, String> = Debounce::new("hooks");
const ORDERS: Task<String, String> = Task::new("orders");
const MAIL: WorkerPool<String> = WorkerPool::new("mail");

async fn run<C>(_: C) -> Result<()> {
    Ok(())
}

async fn take<C>(_: C, _: String) -> Result<()> {
    Ok(())
}

async fn wf(_: Ctx, _: ()) -> Result<()> {
    Ok(())
}

type Setup = fn(outlive::Builder) -> outlive::Builder;

fn jobs(engine: outlive::Builder) -> outlive::Builder {
    engine
        .job(BEAT.every("1 hour").execute(run::<ContinuousCtx<String>>))
        .job(HOOKS.flush_after("1 hour").execute(run::<DebounceCtx<String, String>>))
        .job(ORDERS.on_event(take::<TaskCtx<String, String>>).execute(run::<TaskCtx<String, String>>))
        .job(MAIL.concurrency(1).execute(take::<WorkerPoolCtx<String>>))
        .workflow("wf", wf)
        .max_payload(1_000)
}

/// Returns the error of an engine that does not start, and asserts that its store is unchanged.
async fn refused_setup(setup: impl FnOnce(outlive::Builder) -> outlive::Builder) -> Error {
    let store: std::sync::Arc<dyn outlive::store::Store> = std::sync::Arc::new(outlive::MemoryStore::new());
    let before = contents(&store).await;
    let error = setup(Engine::with_store(store.clone())).start().await.expect_err("the call is refused");
    assert_eq!(contents(&store).await, before);
    error
}

/// Asserts that a setup is refused as bad input with all these words.
async fn assert_refused(setup: impl FnOnce(outlive::Builder) -> outlive::Builder, words: &[&str]) {
    let error = refused_setup(setup).await;
    let message = error.to_string();
    assert!(words.iter().all(|word| message.contains(word)), "{message:?} lacks some of {words:?}");
    assert_eq!(error.kind(), ErrorKind::Input, "{error:?}");
}

#[tokio::test]
async fn bad_schedule_is_refused_at_startup_and_the_field_is_named() {
    let patterns: [(&str, &[&str]); 7] = [
        ("61 * * * *", &["minute", "61"]),
        ("* 25 * * *", &["hour", "25"]),
        ("* * 32 * *", &["day", "32"]),
        ("* * * FOO *", &["month", "FOO"]),
        ("* * * * 9", &["day of", "9"]),
        ("* *", &["* *"]),
        ("", &["\"\""]),
    ];
    let beat = run::<ContinuousCtx<String>>;
    for (pattern, words) in patterns {
        assert_refused(|engine| engine.job(BEAT.cron(pattern).execute(beat)), words).await;
    }
    assert_refused(|engine| engine.job(BEAT.cron("* * * * *").zone("Mars/X").execute(beat)), &["Mars/X"]).await;
    assert_refused(|engine| engine.job(BEAT.every("1s").zone("UTC").execute(beat)), &["UTC", "cron"]).await;
    assert_refused(|engine| engine.job(BEAT.every("0s").execute(beat)), &["every", "zero"]).await;
    assert_refused(|engine| engine.job(BEAT.pause_between(0).execute(beat)), &["pause_between", "zero"]).await;
    assert_refused(|engine| engine.job(BEAT.every("5 parsecs").execute(beat)), &["every", "5 parsecs"]).await;
    let colon: Continuous<String> = Continuous::new("a:b");
    assert_refused(|engine| engine.job(colon.every("1s").execute(beat)), &["a:b", "colon"]).await;
    let nameless: Continuous<String> = Continuous::new("");
    assert_refused(|engine| engine.job(nameless.every("1s").execute(beat)), &["job name"]).await;
}

#[tokio::test]
async fn debounce_or_pool_with_a_zero_limit_is_refused_at_startup() {
    let (flush, send) = (run::<DebounceCtx<String, String>>, take::<WorkerPoolCtx<String>>);
    let none = HOOKS.flush_after("1s").max_events(0).execute(flush);
    assert_refused(|engine| engine.job(none), &["max_events 0", "hooks"]).await;
    let none = HOOKS.flush_after(0).execute(flush);
    assert_refused(|engine| engine.job(none), &["flush_after", "zero", "hooks"]).await;
    let none = HOOKS.quiet("1s").max_wait("0 ms").execute(flush);
    assert_refused(|engine| engine.job(none), &["max_wait", "zero", "hooks"]).await;
    assert_refused(|engine| engine.job(MAIL.concurrency(0).execute(send)), &["concurrency 0", "mail"]).await;
    let none = MAIL.concurrency(1).concurrency_per_process(0).execute(send);
    assert_refused(|engine| engine.job(none), &["concurrency_per_process 0", "mail"]).await;
    let none = MAIL.concurrency(1).rate(0, "1s").execute(send);
    assert_refused(|engine| engine.job(none), &["rate 0", "mail"]).await;
    let none = MAIL.concurrency(1).timeout(0).execute(send);
    assert_refused(|engine| engine.job(none), &["timeout", "mail", "zero"]).await;
    let none = HOOKS.flush_after("1s").timeout("2 aeons").execute(flush);
    assert_refused(|engine| engine.job(none), &["2 aeons"]).await;
    let retry = Retry::times(3).constant("soon");
    assert_refused(|engine| engine.job(MAIL.concurrency(1).retry(retry).execute(send)), &["soon"]).await;
}

#[tokio::test]
async fn duplicate_names_are_refused_at_startup() {
    let twice =
        refused_setup(|engine| jobs(engine).job(MAIL.concurrency(2).execute(take::<WorkerPoolCtx<String>>))).await;
    assert!(twice.to_string().contains("mail"), "{twice}");
    for name in ["task:orders", "pool:mail", "continuous:nobody"] {
        let error = refused_setup(move |engine| jobs(engine).workflow(name, wf)).await;
        assert!(error.to_string().contains(name), "{error}");
    }
    // The same name for two kinds is not a conflict.
    let engine = jobs(Engine::open("memory:"))
        .job(WorkerPool::<String>::new("orders").concurrency(1).execute(take::<WorkerPoolCtx<String>>));
    engine.start().await.unwrap().shutdown().await.unwrap();
}

/// Returns the error of a refused call, and asserts that nothing is written.
async fn refused<T: std::fmt::Debug>(test: &TestEngine, asked: impl Future<Output = Result<T, Error>>) -> Error {
    let before = contents(test.store()).await;
    let error = asked.await.expect_err("the call is refused");
    test.settle().await;
    assert_eq!(contents(test.store()).await, before, "{error}");
    error
}

#[tokio::test]
async fn invalid_calls_are_refused_and_write_nothing() {
    let setup: Setup = jobs;
    let test = TestEngine::new(setup).await;
    let (ok, long, large) = ("x".to_owned(), "i".repeat(600), "y".repeat(2_000));
    for id in ["", long.as_str(), "a\nb"] {
        for error in [
            refused(&test, test.job(BEAT).start(id, &ok)).await,
            refused(&test, test.job(HOOKS).add(id, &ok)).await,
            refused(&test, test.job(ORDERS).send(id, &ok)).await,
            refused(&test, test.job(ORDERS).ask::<()>(id, &ok)).await,
            refused(&test, test.job(BEAT).trigger(id)).await,
            refused(&test, test.job(HOOKS).clear(id)).await,
            refused(&test, test.job(ORDERS).terminate(id, "r")).await,
            refused(&test, test.job(ORDERS).send("a", &ok).dedup_key(id)).await,
            refused(&test, test.job(HOOKS).add("a", &ok).dedup_key(id)).await,
            refused(&test, test.job(MAIL).push(&ok.clone()).lane(id)).await,
            refused(&test, test.job(MAIL).push(&ok.clone()).dedup_key(id)).await,
        ] {
            assert!(matches!(error, Error::Name(_)), "{id:?}: {error:?}");
        }
    }
    for error in [
        refused(&test, test.job(BEAT).start("a", &large)).await,
        refused(&test, test.job(HOOKS).add("a", &large)).await,
        refused(&test, test.job(ORDERS).send("a", &large)).await,
        refused(&test, test.job(MAIL).push(&large)).await,
    ] {
        assert!(matches!(error, Error::PayloadTooLarge { bytes: 2_002, max_bytes: 1_000, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn unknown_job_is_refused_and_the_known_ones_are_named() {
    let setup: Setup = jobs;
    let test = TestEngine::new(setup).await;
    let ok = "x".to_owned();
    let errors = [
        refused(&test, test.job(Continuous::<String>::new("nobody")).start("a", &ok)).await,
        refused(&test, test.job(Debounce::<String, String>::new("nobody")).add("a", &ok)).await,
        refused(&test, test.job(Task::<String, String>::new("nobody")).send("a", &ok)).await,
        refused(&test, test.job(WorkerPool::<String>::new("nobody")).push(&ok)).await,
    ];
    for error in errors {
        assert!(matches!(error, Error::UnknownJob { .. }), "{error:?}");
        assert!(error.to_string().contains("nobody") && error.to_string().contains("orders"), "{error}");
    }
    for error in [
        refused(&test, test.job(Task::<String, String>::new("a:b")).send("a", &ok)).await,
        refused(&test, test.job(WorkerPool::<String>::new("a:b")).push(&ok)).await,
    ] {
        assert!(matches!(error, Error::Name(_)), "{error:?}");
    }
}

#[tokio::test]
async fn event_that_does_not_decode_is_refused_by_an_engine_that_knows_the_job() {
    let setup: Setup = jobs;
    let test = TestEngine::new(setup).await;
    let errors = [
        refused(&test, test.job(Debounce::<u32, String>::new("hooks")).add("a", &7)).await,
        refused(&test, test.job(Task::<u32, String>::new("orders")).send("a", &7)).await,
        refused(&test, test.job(WorkerPool::<u32>::new("mail")).push(&7)).await,
        refused(&test, test.job(Continuous::<u32>::new("beat")).start("a", &7)).await,
    ];
    for error in errors {
        assert!(matches!(error, Error::Payload { .. }), "{error:?}");
        assert!(error.to_string().contains("does not read as") && error.to_string().contains('7'), "{error}");
    }
}

#[tokio::test]
async fn run_cannot_take_the_id_of_a_job() {
    let setup: Setup = jobs;
    let test = TestEngine::new(setup).await;
    for id in ["task:orders:a", "pool:mail:main", "continuous:beat:a", "debounce:nobody:a"] {
        let error = refused(&test, test.start(wf, &()).id(id)).await;
        assert!(error.to_string().contains(id), "{error}");
        assert_eq!(error.kind(), ErrorKind::Input, "{error:?}");
    }
}

#[tokio::test]
async fn calls_to_a_missing_instance_return_not_found_and_write_nothing() {
    let setup: Setup = jobs;
    let test = TestEngine::new(setup).await;
    let errors = [
        refused(&test, test.job(BEAT).trigger("a")).await,
        refused(&test, test.job(BEAT).stop("a")).await,
        refused(&test, test.job(BEAT).terminate("a", "r")).await,
        refused(&test, test.job(HOOKS).flush("a")).await,
        refused(&test, test.job(HOOKS).clear("a")).await,
        refused(&test, test.job(ORDERS).trigger("a")).await,
        refused(&test, test.job(ORDERS).terminate("a", "r")).await,
        refused(&test, test.job(MAIL).retry_dead().only(7)).await,
    ];
    for error in errors {
        assert!(error.is_not_found(), "{error:?}");
    }
}

#[tokio::test]
async fn oversized_state_fails_the_handler_and_the_old_one_is_kept() {
    const GROWS: Task<u32, String> = Task::new("grows");
    async fn grow(ctx: TaskCtx<u32, String>, n: u32) -> Result<()> {
        ctx.set_state("x".repeat(n as usize));
        Ok(())
    }
    let test = TestEngine::new(|engine| {
        engine.job(GROWS.on_event(grow).retry(3).execute(run::<TaskCtx<u32, String>>)).max_payload(100)
    })
    .await;
    for n in [5, 500] {
        test.job(GROWS).send("a", &n).await.unwrap();
        test.settle().await;
    }
    assert_eq!(test.job(GROWS).state("a").await.unwrap().unwrap().len(), 5);
    let dead = test.job(GROWS).dead().await.unwrap();
    assert_eq!((dead.len(), dead[0].attempts), (1, 1), "a retry would not make it smaller");
    assert!(dead[0].failure.to_string().contains("502"), "{}", dead[0].failure);
}
