//! Jobs of each kind with a fault at each write: the outcome is the same as without faults.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use outlive::job::{Continuous, ContinuousCtx, Debounce, DebounceCtx, Push, Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use outlive::store::Store;
use outlive::{Failure, MemoryStore};
use outlive_core::id::Name;
use outlive_testkit::{Fault, Faults, TestEngine};

use crate::jobs_kit::{Book, NOTES, others, reported};

const BEAT: Continuous<u64> = Continuous::new("beat");
const HOOKS: Debounce<String, Vec<String>> = Debounce::new("hooks");
const ORDERS: Task<u64, u64> = Task::new("orders");
const MAIL: WorkerPool<u64> = WorkerPool::new("mail");

fn retry() -> Retry {
    Retry::times(1).constant("1 minute").jitter(outlive::Jitter::none())
}

/// Notes a call, and fails it if it is bad.
fn call(book: &Book, what: String, is_bad: bool) -> Result<()> {
    book.note(what.clone());
    if is_bad { Err(format!("{what} fails").into()) } else { Ok(()) }
}

// ---- handlers whose success depends only on what they are called for ----

/// The second run fails once, the third run always.
async fn beat(ctx: ContinuousCtx<u64>) -> Result<()> {
    let (run, attempt) = (ctx.run_count() - 1, ctx.attempt());
    ctx.update_state(|sum| *sum += 1);
    ctx.send(NOTES, "n", &format!("beat {run}"))?;
    call(ctx.get::<Book>(), format!("beat {run}#{attempt}"), (run == 1 && attempt == 1) || run == 2)
}

async fn beat_failed(ctx: ContinuousCtx<u64>, failure: Failure) -> Result<()> {
    ctx.update_state(|sum| *sum += 100);
    ctx.send(NOTES, "n", &"given up".to_owned())?;
    call(ctx.get::<Book>(), format!("error {failure}"), false)
}

async fn collect(ctx: DebounceCtx<String, Vec<String>>, hook: String) -> Result<()> {
    let is_bad = hook.starts_with("late") && ctx.attempt() == 1;
    let what = format!("{hook}#{}", ctx.attempt());
    ctx.update_state(|batch| batch.push(hook));
    call(ctx.get::<Book>(), what, is_bad)
}

/// The first batch fails once, the one with `bad` in it always.
async fn flush(ctx: DebounceCtx<String, Vec<String>>) -> Result<()> {
    let batch = ctx.state().unwrap_or_default().join(",");
    ctx.send(NOTES, "n", &batch)?;
    let is_bad = batch.contains("bad") || (batch.contains("a1") && ctx.attempt() == 1);
    call(ctx.get::<Book>(), format!("flush {batch}#{}", ctx.attempt()), is_bad)
}

/// Each event is added; an odd one fails once, 13 always, 8 plans a wake.
async fn handle(ctx: TaskCtx<u64, u64>, n: u64) -> Result<()> {
    ctx.update_state(|sum| *sum += n);
    ctx.send(NOTES, "n", &n.to_string())?;
    if n == 8 {
        ctx.schedule_in("3 minutes")?;
    }
    call(ctx.get::<Book>(), format!("event {n}#{}", ctx.attempt()), n == 13 || (n % 2 == 1 && ctx.attempt() == 1))
}

async fn check(ctx: TaskCtx<u64, u64>) -> Result<()> {
    ctx.update_state(|sum| *sum += 1_000);
    ctx.start(crate::jobs_kit::WAITER, &(), "started")?;
    call(ctx.get::<Book>(), format!("execute {}#{}", ctx.execute_count(), ctx.attempt()), ctx.attempt() == 1)
}

async fn idle(ctx: TaskCtx<u64, u64>) -> Result<()> {
    ctx.update_state(|sum| *sum += 10_000);
    call(ctx.get::<Book>(), "idle".into(), false)
}

/// Multiples of three fail once, multiples of seven always; even numbers send.
async fn deliver(ctx: WorkerPoolCtx<u64>, n: u64) -> Result<()> {
    if n.is_multiple_of(2) {
        ctx.send(NOTES, "n", &n.to_string())?;
    }
    tokio::task::yield_now().await;
    let is_bad = n.is_multiple_of(7) || (n.is_multiple_of(3) && ctx.attempt() == 1);
    call(ctx.get::<Book>(), format!("mail {n}#{}", ctx.attempt()), is_bad)
}

// ---- the stage ----

struct Stage {
    test: TestEngine,
    faults: Arc<Faults>,
    book: Book,
}

/// The outcome of everything, in an order that does not depend on timing.
#[derive(PartialEq, Debug)]
struct Story {
    ledger: BTreeSet<String>,
    lifecycle: Vec<String>,
    rows: Vec<String>,
    dead: Vec<String>,
}

impl Stage {
    async fn new(fault: Option<Fault>) -> Self {
        let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
        fault.into_iter().for_each(|fault| faults.add(fault));
        let book = Book::default();
        let given = book.clone();
        let test = TestEngine::new(move |engine| {
            others(engine)
                .job(BEAT.every("10 minutes").retry(retry()).on_error(beat_failed).execute(beat))
                .job(HOOKS.flush_after("2 minutes").max_events(3).retry(retry()).on_event(collect).execute(flush))
                .job(ORDERS.on_event(handle).retry(retry()).on_idle(idle).execute(check))
                .job(MAIL.concurrency(2).retry(retry()).execute(deliver))
                .provide(given.clone())
        })
        .store(faults.clone())
        .await;
        Self { test, faults, book }
    }

    /// Restarts the process if it has died, then settles everything.
    async fn recover(&mut self) {
        // The engine waits in real time before it asks the store again; tokio's clock is paused, so this takes no time.
        for _ in 0..2 {
            self.test.settle().await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            if self.faults.is_dead() {
                self.faults.revive();
                self.test.crash().await;
            }
        }
        self.test.settle().await;
    }

    async fn pass(&mut self, minutes: u32) {
        for _ in 0..minutes {
            self.test.advance("1 minute").await;
            self.recover().await;
        }
    }

    /// Repeats a call until it succeeds.
    async fn insist<T>(&mut self, mut ask: impl AsyncFnMut(&TestEngine) -> Result<T, Error>) {
        while let Err(error) = tokio::time::timeout(Duration::from_secs(300), ask(&self.test)).await.map(Result::unwrap)
        {
            assert!(self.faults.is_dead(), "the store is alive, but the call failed: {error}");
            self.recover().await;
        }
        self.recover().await;
    }

    async fn outcome(&self, ids: &[&str]) -> Story {
        let store: Arc<dyn Store> = self.faults.clone();
        let (mut records, mut rows, mut dead) = (Vec::new(), Vec::new(), Vec::new());
        for id in ids {
            for (kind, attempt, detail) in reported(&store, id).await {
                records.push(format!("{id}: {} #{attempt} run {:?} {:?}", kind.as_str(), detail.run, detail.error));
            }
            let row = store.instance(&Name::recorded(id)).await.unwrap();
            let words = row.map(|row| (row.status, row.wake, row.outcome));
            rows.push(format!("{id}: {words:?}"));
        }
        for job in ["debounce:hooks", "task:orders", "pool:mail"] {
            let letters = store.dead(&Name::recorded(job), 0, 100).await.unwrap();
            dead.extend(
                letters.iter().map(|dead| format!("{job} {} {} {}", dead.event.payload, dead.attempts, dead.failure)),
            );
        }
        let mut notes = self.test.job(NOTES).state("n").await.unwrap().unwrap_or_default();
        if ids[0].starts_with("pool") {
            // The handlers of a pool finish in any order.
            notes.sort();
            records.sort();
            dead.sort();
        }
        rows.push(format!("{notes:?}"));
        Story { ledger: self.book.notes().into_iter().collect(), lifecycle: records, rows, dead }
    }
}

async fn continuous(stage: &mut Stage) -> Story {
    stage.insist(async |test| test.job(BEAT).start("a", &0).await).await;
    stage.pass(14).await;
    stage.insist(async |test| test.job(BEAT).start("a", &0).await).await;
    stage.pass(18).await;
    stage.outcome(&["continuous:beat:a"]).await
}

async fn debounce(stage: &mut Stage) -> Story {
    for hook in ["a1", "a2", "b", "late1", "c"] {
        stage.insist(async |test| test.job(HOOKS).add("a", &hook.to_owned()).dedup_key(hook).await).await;
    }
    stage.pass(6).await;
    for hook in ["d", "bad", "late2"] {
        stage.insist(async |test| test.job(HOOKS).add("a", &hook.to_owned()).dedup_key(hook).await).await;
        stage.pass(1).await;
    }
    stage.pass(8).await;
    stage.outcome(&["debounce:hooks:a"]).await
}

async fn task(stage: &mut Stage) -> Story {
    for n in [2, 3, 8, 13, 4] {
        stage.insist(async |test| test.job(ORDERS).send("a", &n).dedup_key(&n.to_string()).await).await;
    }
    stage.pass(10).await;
    stage.outcome(&["task:orders:a"]).await
}

async fn pool(stage: &mut Stage) -> Story {
    let main = Name::recorded("pool:mail:main");
    stage
        .insist(async |test| {
            if test.store().instance(&main).await.unwrap().is_some() {
                return Ok(());
            }
            let push = |n: u64| Push::new(n).priority(i32::try_from(n % 3).unwrap());
            test.job(MAIL).push_many((1..=15).map(push)).await.map(drop)
        })
        .await;
    stage.pass(4).await;
    stage.outcome(&["pool:mail:main"]).await
}

/// Plays the story without faults, then with each kind of fault at each of its writes.
async fn everywhere(story: impl AsyncFn(&mut Stage) -> Story) -> Story {
    let mut stage = Stage::new(None).await;
    let expected = story(&mut stage).await;
    let writes = stage.faults.writes();
    assert!(writes > 10, "{writes}");
    for n in 1..=writes {
        for fault in [Fault::CrashBefore(n), Fault::CrashAfter(n), Fault::UnknownAfter(n), Fault::UnknownBefore(n)] {
            let mut stage = Stage::new(Some(fault)).await;
            let reported = story(&mut stage).await;
            assert_eq!(reported, expected, "{fault:?} of {writes}");
        }
    }
    expected
}

#[tokio::test(start_paused = true)]
async fn continuous_job_has_the_same_outcome_with_a_fault_at_any_write() {
    let story = everywhere(continuous).await;
    let ledger = ["beat 0#1", "beat 1#1", "beat 1#2", "beat 2#1", "beat 2#2", "beat 3#1", "error beat 2#2 fails"];
    assert_eq!(story.ledger, ledger.map(str::to_owned).into());
    assert!(story.rows[0].contains(r#""state":103"#), "{:?}", story.rows);
}

#[tokio::test(start_paused = true)]
async fn debounce_has_the_same_outcome_with_a_fault_at_any_write() {
    let story = everywhere(debounce).await;
    assert_eq!(story.dead.len(), 1, "{story:#?}");
    assert!(story.ledger.contains("flush a1,a2,b#2") && story.ledger.contains("late1#2"), "{story:#?}");
}

#[tokio::test(start_paused = true)]
async fn task_has_the_same_outcome_with_a_fault_at_any_write() {
    let story = everywhere(task).await;
    assert_eq!(story.dead.len(), 1, "{story:#?}");
    assert!(story.ledger.contains("execute 0#2") && story.ledger.contains("idle"), "{story:#?}");
}

#[tokio::test(start_paused = true)]
async fn pool_has_the_same_outcome_with_a_fault_at_any_write() {
    let story = everywhere(pool).await;
    assert_eq!(story.dead.len(), 2, "{story:#?}");
    assert!((1..=15).all(|n| story.ledger.contains(&format!("mail {n}#1"))), "{story:#?}");
}
