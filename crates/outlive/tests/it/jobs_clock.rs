//! Jobs on the machine's own clock, which returns early from long sleeps: timeouts last their full time.

use std::time::Duration;

use outlive::job::{Continuous, ContinuousCtx, Debounce, DebounceCtx, Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;

use crate::jobs_kit::Book;

const BEAT: Continuous<u32> = Continuous::new("beat");
const HOOKS: Debounce<u32, u32> = Debounce::new("hooks");
const TASK: Task<u32, u32> = Task::new("task");
const MAIL: WorkerPool<u32> = WorkerPool::new("mail");

/// Work that takes longer than one sleep of the clock, and much less than its timeout.
async fn work(book: &Book, what: &str) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(5_400)).await;
    book.note(what);
    book.gate.add_permits(1);
    Ok(())
}

async fn beat(ctx: ContinuousCtx<u32>) -> Result<()> {
    work(ctx.get(), "beat").await
}

async fn flush(ctx: DebounceCtx<u32, u32>) -> Result<()> {
    work(ctx.get(), "flush").await
}

async fn on_event(ctx: TaskCtx<u32, u32>, _: u32) -> Result<()> {
    work(ctx.get(), "event").await
}

async fn nothing(_: TaskCtx<u32, u32>) -> Result<()> {
    Ok(())
}

async fn send(ctx: WorkerPoolCtx<u32>, _: u32) -> Result<()> {
    work(ctx.get(), "mail").await
}

/// A timeout of 30 seconds fired after 5: the clock returns early from a long sleep, and the handler's deadline mistook
/// that for its end. Virtual time never showed it.
#[tokio::test]
async fn handler_may_run_longer_than_one_sleep_of_the_clock() {
    let book = Book::default();
    let limit = "30 seconds";
    let engine = Engine::open("memory:")
        .provide(book.clone())
        .job(BEAT.every("1 hour").timeout(limit).execute(beat))
        .job(HOOKS.flush_after("1 hour").max_events(1).timeout(limit).execute(flush))
        .job(TASK.on_event(on_event).timeout(limit).execute(nothing))
        .job(MAIL.concurrency(1).timeout(limit).execute(send))
        .start()
        .await
        .unwrap();
    engine.job(BEAT).start("a", &0).await.unwrap();
    engine.job(HOOKS).add("a", &1).await.unwrap();
    engine.job(TASK).send("a", &1).await.unwrap();
    engine.job(MAIL).push(&1).await.unwrap();
    let all = book.gate.acquire_many(4);
    tokio::time::timeout(Duration::from_secs(120), all).await.expect("each handler ends").unwrap().forget();
    engine.job(MAIL).wait_idle().await.unwrap();
    engine.shutdown().await.unwrap();
    let mut notes = book.notes();
    notes.sort();
    assert_eq!(notes, ["beat", "event", "flush", "mail"]);
}
