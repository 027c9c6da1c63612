//! Journal replay (W7): long journals are replayed after a restart: entries per second.

use std::time::{Duration, Instant};

use outlive::prelude::*;

use crate::harness::figures::Measured;
use crate::harness::load::{close, until};
use crate::harness::notes::Notes;
use crate::harness::numbers::rounded;
use crate::harness::progress;
use crate::harness::setup::Setup;
use crate::harness::steps::work;
use crate::harness::usage::{Spent, Stopwatch};

/// Number of journals, replayed one after the other.
const RUNS: u64 = 8;

/// The times of replays.
#[derive(Clone, Default)]
struct Replays {
    /// From the first poll of the workflow until it reached its wait again.
    alone: Notes,
    /// From a fixed origin until the first body after the replay; the acknowledgement is subtracted later.
    body: Notes,
}

async fn long(ctx: Ctx, steps: u64) -> Result<()> {
    let begun = Instant::now();
    for step in 0..steps {
        ctx.step("work", || work(0, step)).await?;
    }
    let replayed = begun.elapsed();
    ctx.wait::<()>("go").await?;
    let (replays, epoch) = (ctx.get::<Replays>(), *ctx.get::<Instant>());
    ctx.step("note", || async move {
        replays.body.add(epoch.elapsed());
        replays.alone.add(replayed);
        Ok::<_, Error>(())
    })
    .await?;
    Ok(())
}

fn id(run: u64) -> String {
    format!("long-{run}")
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let (path, replays, epoch) = (setup.store(), Replays::default(), Instant::now());
    let builder = || Engine::open(&path).workflow("long", long).provide(replays.clone()).provide(epoch);
    let engine = builder().start().await?;
    for run in 0..RUNS {
        engine.start(long, &setup.n).id(&id(run)).await?;
    }
    until(&engine.client(), Filter::runs(), |counts| counts.of(StatusKind::Waiting) == RUNS).await?;
    engine.shutdown().await?;

    let engine = builder().start().await?;
    let (mut times, mut spent, bar) = (Vec::new(), Spent::default(), progress::of(RUNS, "replays"));
    for run in 0..RUNS {
        let run = engine.get_run::<()>(&id(run)).await?;
        let watch = Stopwatch::start();
        run.signal("go", &()).await?;
        let acknowledged = epoch.elapsed();
        run.result().await?;
        spent.cpu += watch.read().cpu;
        times.extend(replays.body.take().iter().map(|body| body.saturating_sub(acknowledged)));
        bar.inc(1);
    }
    bar.finish_and_clear();
    spent.elapsed = times.iter().sum();
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let per_sec = |times: &[Duration]| {
        let secs = times.iter().sum::<Duration>().as_secs_f64();
        rounded(Some((setup.n * RUNS) as f64 / secs), 0)
    };
    let own =
        vec![("entries_per_sec", per_sec(&replays.alone.take())), ("entries_per_sec_from_store", per_sec(&times))];
    Ok(Measured { durability, steps: setup.n * RUNS, spent, times, bytes, runs: RUNS, own, ..Measured::default() })
}
