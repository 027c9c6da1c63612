//! Calls to jobs while no engine runs: durable at once, and they wait for the outcome only on request.

use std::time::Duration;

use outlive::Client;
use outlive::job::{
    Continuous, ContinuousCtx, Debounce, DebounceCtx, JobStatus, Task, TaskCtx, WorkerPool, WorkerPoolCtx,
};
use outlive::prelude::*;
use outlive_testkit::TestEngine;

use crate::jobs_kit::Book;

const BEAT: Continuous<u32> = Continuous::new("beat");
const HOOKS: Debounce<u32, Vec<u32>> = Debounce::new("hooks");
const TASK: Task<u32, Vec<u32>> = Task::new("task");
const MAIL: WorkerPool<u32> = WorkerPool::new("mail");

async fn beat(ctx: ContinuousCtx<u32>) -> Result<()> {
    ctx.get::<Book>().note("beat");
    Ok(())
}

async fn collect(ctx: DebounceCtx<u32, Vec<u32>>, n: u32) -> Result<()> {
    ctx.update_state(|batch| batch.push(n));
    Ok(())
}

async fn flush(ctx: DebounceCtx<u32, Vec<u32>>) -> Result<()> {
    ctx.get::<Book>().note(format!("flush {:?}", ctx.state().unwrap_or_default()));
    Ok(())
}

async fn on_event(ctx: TaskCtx<u32, Vec<u32>>, n: u32) -> Result<usize> {
    Ok(ctx.update_state(|all| {
        all.push(n);
        all.len()
    }))
}

async fn execute(ctx: TaskCtx<u32, Vec<u32>>) -> Result<()> {
    ctx.get::<Book>().note("execute");
    Ok(())
}

async fn send(ctx: WorkerPoolCtx<u32>, n: u32) -> Result<()> {
    ctx.get::<Book>().note(format!("mail {n}"));
    Ok(())
}

fn jobs(engine: outlive::Builder, book: &Book) -> outlive::Builder {
    engine
        .provide(book.clone())
        .job(BEAT.every("1 hour").start_immediately(false).execute(beat))
        .job(HOOKS.flush_after("1 hour").on_event(collect).execute(flush))
        .job(TASK.on_event(on_event).execute(execute))
        .job(MAIL.concurrency(1).execute(send))
}

/// Fails if a call hangs.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("a call hangs")
}

fn is_not_handled<T: std::fmt::Debug>(result: Result<T, Error>) -> bool {
    matches!(&result, Err(error @ Error::NotHandled { .. }) if error.code() == "not_handled")
}

/// A web process stalled during a deploy: calls waited without limit for an engine to handle what was already durable,
/// and a caller that gave up and retried added the event twice.
#[tokio::test]
async fn calls_return_once_durable_while_no_engine_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let book = Book::default();
    let engine = jobs(Engine::open(&path), &book).start().await.unwrap();
    for id in ["a", "b", "c"] {
        engine.job(BEAT).start(id, &1).await.unwrap();
        engine.job(TASK).ask::<usize>(id, &0).await.unwrap();
        engine.job(HOOKS).add(id, &0).wait("1 minute").await.unwrap();
    }
    engine.shutdown().await.unwrap();
    let client = Client::open(&path).unwrap();
    let (beats, hooks, tasks, mail) = (client.job(BEAT), client.job(HOOKS), client.job(TASK), client.job(MAIL));
    let added = soon(hooks.add("a", &1)).await.unwrap();
    assert_eq!((added.created, added.is_new, added.event_count), (false, true, 2));
    let added = soon(hooks.add("a", &2)).await.unwrap();
    assert_eq!((added.event_count, added.flush_at.is_some()), (3, true));
    assert!(soon(hooks.add("new", &1)).await.unwrap().created);
    soon(hooks.flush("a")).await.unwrap();
    soon(hooks.clear("b")).await.unwrap();
    soon(hooks.terminate("c", "over")).await.unwrap();
    soon(beats.trigger("a")).await.unwrap();
    soon(beats.stop("b")).await.unwrap();
    soon(beats.terminate("c", "over")).await.unwrap();
    soon(tasks.trigger("a")).await.unwrap();
    soon(tasks.terminate("b", "over")).await.unwrap();
    soon(tasks.send("b", &7)).await.unwrap();
    soon(mail.pause()).await.unwrap();
    soon(mail.push(&1)).await.unwrap();
    // Status and state already reflect the accepted calls.
    assert_eq!(beats.status("b").await.unwrap().status, JobStatus::Stopped);
    assert_eq!(beats.status("c").await.unwrap().status, JobStatus::NotFound);
    assert_eq!((beats.state("c").await.unwrap(), tasks.state("b").await.unwrap()), (None, None));
    assert_eq!(tasks.status("b").await.unwrap().status, JobStatus::Running, "there is a new instance");
    assert!(mail.status().await.unwrap().is_paused);
    // Waiting for the outcome is optional and has a time limit.
    assert!(is_not_handled(soon(beats.trigger("a").wait("20 ms")).await));
    assert!(is_not_handled(soon(hooks.add("new", &2).wait("20 ms")).await));
    assert!(is_not_handled(soon(tasks.ask::<usize>("a", &5).wait("20 ms")).await));
    assert!(is_not_handled(soon(mail.resume().wait("20 ms")).await));
    drop(client);
    let engine = jobs(Engine::open(&path), &book).start().await.unwrap();
    let count: usize = soon(engine.job(TASK).ask("b", &8)).await.unwrap();
    assert_eq!(count, 2, "only events sent after the terminate are there");
    assert_eq!(soon(engine.job(TASK).ask::<usize>("a", &9)).await.unwrap(), 3, "each was accepted once");
    soon(engine.job(MAIL).wait_idle()).await.unwrap();
    soon(engine.job(HOOKS).flush("new").wait("1 minute")).await.unwrap();
    soon(engine.job(BEAT).stop("a").wait("1 minute")).await.unwrap();
    assert!(engine.job(BEAT).start("c", &2).await.unwrap().created);
    while book.notes().len() < 5 {
        tokio::task::yield_now().await;
    }
    engine.shutdown().await.unwrap();
    let mut notes = book.notes();
    notes.sort();
    assert_eq!(notes, ["beat", "execute", "flush [0, 1, 2]", "flush [1, 2]", "mail 1"]);
}

#[tokio::test]
async fn event_accepted_after_a_terminate_creates_a_new_instance() {
    let book = Book::default();
    let given = book.clone();
    let mut test = TestEngine::new(move |engine| jobs(engine, &given)).await;
    for is_settled in [true, false] {
        for round in 0..3 {
            test.job(TASK).send("a", &round).await.unwrap();
            test.job(TASK).send("a", &round).dedup_key("key").await.unwrap();
            test.job(HOOKS).add("a", &round).await.unwrap();
            if is_settled {
                test.settle().await;
            }
            test.job(TASK).terminate("a", "over").await.unwrap();
            test.job(HOOKS).terminate("a", "over").await.unwrap();
            assert!(test.job(TASK).send("a", &(10 + round)).dedup_key("other").await.unwrap().is_new);
            test.job(HOOKS).add("a", &(10 + round)).await.unwrap();
            if round == 1 {
                test.crash().await;
            }
            test.settle().await;
            assert_eq!(test.job(TASK).state("a").await.unwrap(), Some(vec![10 + round]));
            assert_eq!(test.job(HOOKS).state("a").await.unwrap(), Some(vec![10 + round]));
            test.job(TASK).terminate("a", "over").await.unwrap();
            test.job(HOOKS).terminate("a", "over").await.unwrap();
            assert_eq!(test.job(TASK).status("a").await.unwrap().status, JobStatus::NotFound);
            test.settle().await;
            assert_eq!(test.job(TASK).status("a").await.unwrap().status, JobStatus::NotFound);
        }
    }
    // A continuous job starts fresh.
    test.job(BEAT).start("a", &1).await.unwrap();
    test.job(BEAT).terminate("a", "over").await.unwrap();
    assert!(test.job(BEAT).start("a", &2).await.unwrap().created);
    assert_eq!(test.job(BEAT).state("a").await.unwrap(), Some(2));
}

/// The event went to the instance that was about to end, and was lost with it.
#[tokio::test]
async fn event_a_terminating_handler_sends_to_itself_creates_a_new_instance() {
    async fn restart(ctx: TaskCtx<u32, Vec<u32>>, n: u32) -> Result<()> {
        ctx.update_state(|all| all.push(n));
        if n == 1 {
            ctx.send(TASK, ctx.instance_id(), &2)?;
            ctx.terminate("starts over");
        }
        Ok(())
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let builder = Engine::open(&path).provide(Book::default()).job(TASK.on_event(restart).execute(execute));
    let engine = builder.start().await.unwrap();
    let test =
        TestEngine::new(|engine| engine.provide(Book::default()).job(TASK.on_event(restart).execute(execute))).await;
    for job in [engine.job(TASK), test.job(TASK)] {
        job.send("a", &0).await.unwrap();
        job.send("a", &1).await.unwrap();
        let wait = async {
            while job.state("a").await.unwrap() != Some(vec![2]) {
                tokio::task::yield_now().await;
            }
        };
        soon(wait).await;
    }
    engine.shutdown().await.unwrap();
}

/// A call that changes nothing is not reported, so a client that waited for it in another process got "not handled".
#[tokio::test]
async fn waiting_for_a_call_that_changes_nothing_returns_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let engine = jobs(Engine::open(&path), &Book::default()).start().await.unwrap();
    let client = Client::open(&path).unwrap();
    engine.job(MAIL).push(&1).await.unwrap();
    soon(engine.job(MAIL).wait_idle()).await.unwrap();
    client.job(MAIL).resume().wait("2 minutes").await.unwrap();
    client.job(BEAT).start("b", &0).await.unwrap();
    for _ in 0..2 {
        client.job(BEAT).stop("b").wait("2 minutes").await.unwrap();
    }
}

/// Each `add` scanned all waiting events, so a web process got slower with every event during a long deploy.
#[tokio::test]
async fn cost_of_an_add_does_not_grow_with_the_waiting_events() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let client = Client::open(&path).unwrap();
    let hooks = client.job(HOOKS);
    for n in 1..=255 {
        assert_eq!(hooks.add("a", &n).await.unwrap().event_count, u64::from(n));
    }
    let many: Vec<u32> = (256..=2_000).collect();
    for n in &many {
        let added = hooks.add("a", n).await.unwrap();
        assert_eq!((added.is_new, added.event_count), (true, 256), "no more than 256 are counted");
    }
    let book = Book::default();
    let engine = jobs(Engine::open(&path), &book).start().await.unwrap();
    let added = soon(engine.job(HOOKS).add("a", &0).wait("1 minute")).await.unwrap();
    assert_eq!(added.event_count, 2_001, "a waiting caller gets the exact count");
    engine.shutdown().await.unwrap();
}
