//! The scenarios: each does one operation a number of times, and everything else equally often whatever that number.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use futures_util::future::try_join_all;
use outlive::prelude::*;
use outlive::store::Store;
use outlive_core::store::memory::MemoryStore;
use outlive_sqlite::{Options, SqliteStore};

use crate::still::{Still, StillStore};

/// Number of concurrent runs where a batch has more than one write.
const GROUP: u64 = 64;
/// The id of the run that is looked up after a restart.
const RUN: &str = "counted";

/// A hot path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Scenario {
    /// A step on the memory store: the engine alone.
    StepMemory,
    /// A step on SQLite, in its own transaction.
    StepSqlite,
    /// A step on SQLite, in a transaction with those of 63 other runs.
    StepGroup,
    /// A step that is replayed from its record.
    Replay,
    /// A sleep of a run that stays in memory, from its call to its end.
    Wake,
    /// The end of a sleep of a run that is not in memory, and the end of that run.
    WakeCold,
    /// A start, and the end of a run with nothing in it.
    Start,
}

impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.pad(value.get_name()))
    }
}

impl Scenario {
    /// Returns how often to do the operation: enough for rare costs to show, few enough to take seconds.
    pub(crate) fn operations(self) -> u64 {
        match self {
            Self::StepMemory | Self::Replay => 1_000,
            Self::StepSqlite => 600,
            Self::Wake | Self::Start => 300,
            Self::StepGroup => 20 * GROUP,
            Self::WakeCold => 240,
        }
    }

    /// Does the preparation that is not counted, in its own process.
    pub(crate) fn prepare(self, folder: &Path, times: u64) -> Result<()> {
        let world = World::new(folder, self, 1)?;
        match self {
            Self::Replay => world.run(async |engine, clock| {
                engine.start(steps_and_wait, &times).id(RUN).await?;
                clock.quiet().await;
                Ok(())
            }),
            Self::WakeCold => world.run(async |engine, clock| {
                // The same number of runs in any case, of which `times` wake up.
                for place in 1..=2 * self.operations() {
                    engine.start(nap, &(3600 + place)).id(&format!("{RUN} {place}")).await?;
                    clock.quiet().await;
                }
                Ok(())
            }),
            _ => Ok(()),
        }
    }

    /// Does the operation this many times.
    pub(crate) fn perform(self, folder: &Path, times: u64) -> Result<()> {
        let world = World::new(folder, self, 2)?;
        match self {
            Self::StepMemory | Self::StepSqlite => {
                world.run(async |engine, _| Ok(engine.start(steps, &times).await?.result().await.map(drop)?))
            }
            Self::StepGroup => world.run(async |engine, _| {
                let runs = (0..GROUP).map(|_| engine.start(steps, &(times / GROUP)));
                let runs = try_join_all(runs).await?;
                Ok(try_join_all(runs.iter().map(outlive::Run::result)).await.map(drop)?)
            }),
            Self::Replay => world.run(async |engine, _| {
                let run = engine.get_run::<u64>(RUN).await?;
                run.signal("go", &()).await?;
                Ok(run.result().await.map(drop)?)
            }),
            Self::Wake => world.run(async |engine, _| Ok(engine.start(naps, &times).await?.result().await?)),
            Self::WakeCold => {
                world.run(async |engine, _| Ok(engine.get_run::<()>(&format!("{RUN} {times}")).await?.result().await?))
            }
            Self::Start => world.run(async |engine, clock| {
                for number in 0..times {
                    let run = engine.start(nothing, &number).await?;
                    // Otherwise it would be a matter of luck whether the first look at the run finds its end.
                    clock.quiet().await;
                    run.result().await?;
                }
                Ok(())
            }),
        }
    }
}

/// An engine with the same environment each time.
struct World {
    store: Arc<dyn Store>,
    clock: Still,
    seed: u64,
}

impl World {
    fn new(folder: &Path, scenario: Scenario, life: u64) -> Result<Self> {
        let clock = Still::new();
        let store: Arc<dyn Store> = match scenario {
            Scenario::StepMemory => Arc::new(MemoryStore::new()),
            _ => Arc::new(SqliteStore::open(&folder.join("counted.db"), Options::default())?),
        };
        let store = Arc::new(StillStore::new(store, clock.clone()));
        Ok(Self { store, clock, seed: life << 32 })
    }

    fn run(self, work: impl AsyncFnOnce(&Engine, &Still) -> Result<()>) -> Result<()> {
        let parked = self.clock.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .on_thread_park(move || parked.parked())
            .build()?;
        runtime.block_on(async {
            let engine = Engine::with_store(self.store.clone())
                .clock(self.clock.clone())
                .seed(self.seed)
                .workflow("steps", steps)
                .workflow("steps and wait", steps_and_wait)
                .workflow("nap", nap)
                .workflow("naps", naps)
                .workflow("nothing", nothing)
                .start()
                .await?;
            work(&engine, &self.clock).await?;
            Ok(engine.shutdown().await?)
        })
    }
}

/// About 50 bytes of JSON.
#[derive(serde::Serialize, serde::Deserialize)]
struct Receipt {
    id: u64,
    step: u64,
    note: String,
}

async fn work(step: u64) -> Result<Receipt> {
    Ok(Receipt { id: 42, step, note: "about fifty bytes of it".into() })
}

async fn steps(ctx: Ctx, times: u64) -> Result<u64> {
    let mut sum = 0;
    for step in 0..times {
        let receipt = ctx.step("work", || work(step)).await?;
        sum += receipt.id + receipt.step + receipt.note.len() as u64;
    }
    Ok(sum)
}

async fn steps_and_wait(ctx: Ctx, times: u64) -> Result<u64> {
    let sum = steps(ctx.clone(), times).await?;
    ctx.wait::<()>("go").await?;
    Ok(sum)
}

async fn nap(ctx: Ctx, seconds: u64) -> Result<()> {
    Ok(ctx.sleep(Duration::from_secs(seconds)).await?)
}

async fn naps(ctx: Ctx, times: u64) -> Result<()> {
    for _ in 0..times {
        ctx.sleep(Duration::from_secs(1)).await?;
    }
    Ok(())
}

async fn nothing(_: Ctx, number: u64) -> Result<u64> {
    Ok(number)
}
