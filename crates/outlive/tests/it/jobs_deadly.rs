//! Pool events that crash the process: only they become dead letters, and the pool continues.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use outlive::job::{DeadLetter, PoolEvent, Push, Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;

const STORE: &str = "OUTLIVE_TEST_DEADLY";
const MAIL: WorkerPool<u32> = WorkerPool::new("mail");
const SENT: Task<u32, Vec<u32>> = Task::new("sent");

/// What the child does: its store, which events are deadly, whether `on_dead` is deadly too, and the batch size.
type Plan = (PathBuf, BTreeSet<u32>, bool, usize);

struct Deadly(BTreeSet<u32>, bool);

async fn handle(ctx: &WorkerPoolCtx<u32>, n: u32) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(3)).await;
    if ctx.get::<Deadly>().0.contains(&n) {
        std::process::abort();
    }
    Ok(ctx.send(SENT, "all", &n)?)
}

async fn one(ctx: WorkerPoolCtx<u32>, n: u32) -> Result<()> {
    handle(&ctx, n).await
}

async fn many(ctx: WorkerPoolCtx<u32>, events: Vec<PoolEvent<u32>>) -> Result<()> {
    for event in events {
        handle(&ctx, event.event).await?;
    }
    Ok(())
}

async fn note(ctx: TaskCtx<u32, Vec<u32>>, n: u32) -> Result<()> {
    ctx.update_state(|sent| sent.push(n));
    Ok(())
}

async fn nothing(_: TaskCtx<u32, Vec<u32>>) -> Result<()> {
    Ok(())
}

async fn on_dead(ctx: WorkerPoolCtx<u32>, _: DeadLetter<u32>) -> Result<()> {
    if ctx.get::<Deadly>().1 {
        std::process::abort();
    }
    Ok(())
}

async fn open((store, deadly, is_deadly_to_look_at, batch): &Plan) -> Engine {
    let mail = MAIL.concurrency(4).on_dead(on_dead);
    let mail = if *batch > 1 { mail.execute_batch(*batch, many) } else { mail.execute(one) };
    let builder = Engine::open(store).job(mail).job(SENT.on_event(note).execute(nothing));
    builder.provide(Deadly(deadly.clone(), *is_deadly_to_look_at)).start().await.unwrap()
}

/// Not a test by itself: the process that crashes, when [`play`] starts it.
#[tokio::test]
async fn child() {
    let Ok(plan) = std::env::var(STORE) else { return };
    let plan: Plan = serde_json::from_str(&plan).unwrap();
    let engine = open(&plan).await;
    let drained = tokio::time::timeout(Duration::from_secs(120), async { engine.job(MAIL).wait_idle().await }).await;
    drained.expect("the pool hangs").unwrap();
    engine.shutdown().await.unwrap();
}

/// Returns `true` if the child ran to its end.
fn run_child(plan: &Plan) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["jobs_deadly::child", "--exact", "--nocapture"]);
    command.env(STORE, serde_json::to_string(plan).unwrap());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success() || status.code().is_none(), "the process did not crash, but failed");
    status.success()
}

/// Restarts the process until all events are handled; returns the number of starts.
async fn play(store: &Path, deadly: &[u32], is_deadly_to_look_at: bool, batch: usize) -> u32 {
    let (plan, events): (Plan, u32) =
        ((store.to_owned(), deadly.iter().copied().collect(), is_deadly_to_look_at, batch), 40);
    Client::open(store).unwrap().job(MAIL).push_many((0..events).map(Push::new)).await.unwrap();
    let starts = (1..=30).find(|_| run_child(&plan)).expect("the process still crashes after 30 starts");
    let fixed: Plan = (store.to_owned(), BTreeSet::new(), false, batch);
    let engine = open(&fixed).await;
    let dead = engine.job(MAIL).dead().await.unwrap();
    let mut numbers: Vec<u32> = dead.iter().map(|letter| letter.event().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, deadly, "only deadly events are given up");
    for letter in &dead {
        assert!(letter.failure.to_string().contains("the process died"), "{}", letter.failure);
    }
    let sent = async || {
        let mut sent = engine.job(SENT).state("all").await.unwrap().unwrap_or_default();
        sent.sort_unstable();
        sent
    };
    let others: Vec<u32> = (0..events).filter(|n| !deadly.contains(n)).collect();
    // The pool is idle; the task it sends to may still have some in its inbox.
    while sent().await.len() < others.len() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(sent().await, others, "each of the others is recorded once");
    // Once the code is fixed, they are handled like any other.
    assert_eq!(engine.job(MAIL).retry_dead().await.unwrap(), deadly.len() as u64);
    engine.job(MAIL).wait_idle().await.unwrap();
    while sent().await.len() < events as usize {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(sent().await, (0..events).collect::<Vec<_>>());
    engine.shutdown().await.unwrap();
    starts
}

#[tokio::test]
async fn event_that_crashes_the_process_is_found_among_those_running() {
    let folder = tempfile::tempdir().unwrap();
    let starts = play(&folder.path().join("first.db"), &[0], false, 1).await;
    assert_eq!(starts, 6, "it ran five times, four of them on record");
    play(&folder.path().join("late.db"), &[21], false, 1).await;
}

#[tokio::test]
async fn several_deadly_events_are_found_one_after_another() {
    let folder = tempfile::tempdir().unwrap();
    play(&folder.path().join("mail.db"), &[1, 2, 30], false, 1).await;
}

#[tokio::test]
async fn deadly_event_is_found_in_its_batch() {
    let folder = tempfile::tempdir().unwrap();
    play(&folder.path().join("mail.db"), &[5], false, 8).await;
}

#[tokio::test]
async fn event_whose_on_dead_crashes_too_is_given_up_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let starts = play(&folder.path().join("mail.db"), &[0], true, 1).await;
    assert_eq!(starts, 7, "one more start than if only the handler is deadly");
}
