//! P1, P2 and P4 for rewinds and forks: a crash before or after any write loses neither one, nor repeats it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::prelude::*;
use outlive::{EntryKind, MemoryStore};
use outlive_testkit::{Fault, Faults, TestEngine};

/// How often each piece of work was executed: by the run, and by its children.
#[derive(Clone, Default)]
struct Works {
    reserve: Arc<AtomicU32>,
    charge: Arc<AtomicU32>,
}

async fn count(works: &AtomicU32) -> Result<u32> {
    Ok(works.fetch_add(1, Ordering::Relaxed) + 1)
}

async fn child(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.sleep("1 minute").await?;
    Ok(n)
}

async fn order(ctx: Ctx, _: ()) -> Result<(String, u32)> {
    let works = ctx.get::<Works>();
    ctx.step("reserve", || count(&works.reserve)).await?;
    let shipped = ctx.run(child, &1).await?;
    let by: String = ctx.wait("approval").await?;
    ctx.sleep("1 hour").await?;
    ctx.step("charge", || count(&works.charge)).await?;
    Ok((by, shipped))
}

struct Stage {
    test: TestEngine,
    faults: Arc<Faults>,
    works: Works,
}

impl Stage {
    /// Runs an order to its end.
    async fn new() -> Self {
        let (works, faults) = (Works::default(), Arc::new(Faults::new(Arc::new(MemoryStore::new()))));
        let provided = works.clone();
        let setup = move |engine: outlive::Builder| {
            engine.workflow("order", order).workflow("child", child).provide(provided.clone())
        };
        let test = TestEngine::new(setup).store(faults.clone()).await;
        let run = test.start(order, &()).id("order").await.unwrap();
        run.signal("approval", "ada").await.unwrap();
        test.result(&run).await.unwrap();
        Self { test, faults, works }
    }

    async fn run(&self, id: &str) -> Option<Run<(String, u32)>> {
        self.test.get_run(id).await.ok()
    }

    /// Does something that writes, and crashes at the write where the store dies, if it does. Returns `true` if it did.
    async fn crash(&mut self, act: impl AsyncFnOnce(&TestEngine)) -> bool {
        let done = async {
            act(&self.test).await;
            self.test.settle().await;
            for _ in 0..4 {
                self.test.advance("1 hour").await;
            }
        };
        let is_dead = async {
            while !self.faults.is_dead() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = done => {}
            () = is_dead => {}
        }
        let has_died = self.faults.is_dead();
        self.faults.revive();
        self.test.crash().await;
        has_died
    }
}

const WAYS: [fn(u64) -> Fault; 4] = [Fault::CrashBefore, Fault::CrashAfter, Fault::UnknownAfter, Fault::UnknownBefore];

#[tokio::test]
async fn rewind_survives_a_crash_at_every_write() {
    let mut died = 0;
    for way in WAYS {
        for write in 1..25 {
            let mut stage = Stage::new().await;
            stage.faults.add(way(stage.faults.writes() + write));
            let has_died = stage
                .crash(async |test| {
                    let run: Run<(String, u32)> = test.get_run("order").await.unwrap();
                    let _ = run.rewind("child").await;
                })
                .await;
            died += u32::from(has_died);
            let run = stage.run("order").await.unwrap();
            let rewinds = async || {
                let journal = run.journal().await.unwrap();
                journal.iter().filter(|entry| entry.kind == EntryKind::Rewound).count()
            };
            if rewinds().await == 0 {
                run.rewind("child").await.unwrap();
            }
            assert_eq!(stage.test.result(&run).await.unwrap(), ("ada".to_owned(), 1), "at write {write}");
            assert_eq!(rewinds().await, 1, "at write {write}");
            assert_eq!(stage.works.reserve.load(Ordering::Relaxed), 1, "what precedes the point is kept");
            let charged = stage.works.charge.load(Ordering::Relaxed);
            assert!(charged == 2 || has_died && charged == 3, "charged {charged} times at write {write}");
        }
    }
    assert!(died > 10, "{died} crashes");
}

#[tokio::test]
async fn fork_survives_a_crash_at_every_write() {
    for way in WAYS {
        for write in 1..15 {
            let mut stage = Stage::new().await;
            stage.faults.add(way(stage.faults.writes() + write));
            stage
                .crash(async |test| {
                    let run: Run<(String, u32)> = test.get_run("order").await.unwrap();
                    let _ = run.fork("approval").id("copy").await;
                })
                .await;
            if stage.run("copy").await.is_none() {
                stage.run("order").await.unwrap().fork("approval").id("copy").await.unwrap();
            }
            let copy = stage.run("copy").await.unwrap();
            assert_eq!(stage.test.result(&copy).await.unwrap(), ("ada".to_owned(), 1), "at write {write}");
            assert_eq!(stage.works.reserve.load(Ordering::Relaxed), 1);
            assert_eq!(stage.test.count(Filter::runs()).await.unwrap().total(), 3, "two orders and one child");
        }
    }
}
