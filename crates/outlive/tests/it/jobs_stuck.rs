//! Stuck jobs: asking one returns an error, and they can be terminated; and idempotency keys of attempts and batches.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive::job::{Debounce, DebounceCtx, Task, TaskCtx};
use outlive::prelude::*;
use outlive_testkit::TestEngine;

const NUMBERS: Task<u32, u32> = Task::new("orders");
const WORDS: Task<u32, String> = Task::new("orders");

async fn add(ctx: TaskCtx<u32, u32>, n: u32) -> Result<()> {
    ctx.update_state(|sum| *sum += n);
    Ok(())
}

async fn write(ctx: TaskCtx<u32, String>, n: u32) -> Result<()> {
    ctx.set_state(n.to_string());
    Ok(())
}

async fn nothing<C>(_: C) -> Result<()> {
    Ok(())
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("a call hangs")
}

#[tokio::test]
async fn ask_of_a_stuck_task_is_an_error_and_terminating_it_frees_its_id() {
    let mut test = TestEngine::new(|engine| engine.job(NUMBERS.on_event(add).execute(nothing))).await;
    test.job(NUMBERS).send("42", &1).await.unwrap();
    test.settle().await;
    test.deploy(|engine| engine.job(WORDS.on_event(write).execute(nothing))).await;
    let words = test.job(WORDS);
    // It gets stuck during the first call, and is stuck before the second.
    for _ in 0..2 {
        let error = soon(words.ask::<()>("42", &2)).await.unwrap_err();
        assert!(matches!(&error, Error::Status { status: Status::Stuck, .. }), "{error}");
    }
    assert_eq!(words.status("42").await.unwrap().status, outlive::job::JobStatus::Stuck);
    soon(words.terminate("42", "fixed elsewhere")).await.unwrap();
    assert_eq!(words.status("42").await.unwrap().status, outlive::job::JobStatus::NotFound);
    assert!(words.send("42", &3).await.unwrap().created);
    test.settle().await;
    assert_eq!(words.state("42").await.unwrap(), Some("3".to_owned()));
}

#[tokio::test]
async fn ask_of_a_task_that_gets_stuck_on_loading_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let open = || Engine::open(&path).job(NUMBERS.on_event(add).execute(nothing)).start();
    let engine = open().await.unwrap();
    engine.job(NUMBERS).ask::<()>("42", &1).await.unwrap();
    engine.shutdown().await.unwrap();
    let sql = rusqlite::Connection::open(&path).unwrap();
    // As if it had crashed the process repeatedly.
    assert_eq!(sql.execute("UPDATE instance SET recoveries = 9, blamed = 9", []).unwrap(), 1);
    drop(sql);
    let engine = open().await.unwrap();
    let numbers = engine.job(NUMBERS);
    let error = soon(numbers.ask::<()>("42", &2)).await.unwrap_err();
    assert!(matches!(&error, Error::Status { status: Status::Stuck, .. }), "{error}");
    soon(numbers.terminate("42", "enough")).await.unwrap();
    engine.shutdown().await.unwrap();
}

const HOOKS: Debounce<u32, u32> = Debounce::new("hooks");

async fn flush(ctx: DebounceCtx<u32, u32>) -> Result<()> {
    ctx.get::<Arc<Mutex<Vec<String>>>>().lock().unwrap().push(ctx.idempotency_key().to_owned());
    if ctx.is_retry() { Ok(()) } else { Err("once".into()) }
}

#[tokio::test]
async fn attempts_share_a_key_and_batches_do_not() {
    let keys: Arc<Mutex<Vec<String>>> = Arc::default();
    let provided = keys.clone();
    let test = TestEngine::new(move |engine| {
        engine.provide(provided.clone()).job(HOOKS.flush_after("1 minute").retry(1).execute(flush))
    })
    .await;
    for n in 0..2 {
        test.job(HOOKS).add("shop", &n).await.unwrap();
        test.advance("10 minutes").await;
    }
    let keys = keys.lock().unwrap().clone();
    assert_eq!(keys.len(), 4);
    assert!(keys[0] == keys[1] && keys[2] == keys[3] && keys[1] != keys[2], "{keys:?}");
}
