//! Simultaneous wakes (W3): runs of one step that then sleep: how late they are when they all wake at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use outlive::prelude::*;

use crate::harness::figures::Measured;
use crate::harness::load::{Flood, close, until};
use crate::harness::notes::Notes;
use crate::harness::numbers::rounded;
use crate::harness::progress;
use crate::harness::setup::Setup;
use crate::harness::steps::work;
use crate::harness::usage::Stopwatch;

const SLEEP: Duration = Duration::from_secs(5);
/// Number of starts in progress at a time, so that waiting starts do not count as measured memory.
const STARTS: u64 = 2_000;

#[derive(Clone, Default)]
struct Lateness {
    notes: Notes,
    last_due_ms: Arc<AtomicI64>,
}

async fn nap(ctx: Ctx, id: u64) -> Result<()> {
    ctx.step("work", || work(id, 0)).await?;
    let due = ctx.now().after(SLEEP);
    ctx.sleep_until(due).await?;
    let lateness = ctx.get::<Lateness>();
    lateness.last_due_ms.fetch_max(due.as_millis(), Ordering::Relaxed);
    lateness.notes.add(Timestamp::from(SystemTime::now()).since(due));
    Ok(())
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let (path, lateness) = (setup.store(), Lateness::default());
    let engine = Engine::open(&path).workflow("nap", nap).provide(lateness.clone()).start().await?;
    let bar = progress::of(setup.n, "runs");
    let watch = Stopwatch::start();
    Flood { n: setup.n, in_flight: STARTS.min(setup.n) }.start(|id| engine.start(nap, &id)).await?;
    until(&engine.client(), Filter::runs(), |counts| {
        bar.set_position(counts.of(StatusKind::Completed));
        counts.of(StatusKind::Completed) == setup.n
    })
    .await?;
    let ended = Timestamp::from(SystemTime::now());
    let spent = watch.read();
    bar.finish_and_clear();
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let late = ended.since(Timestamp::from_millis(lateness.last_due_ms.load(Ordering::Relaxed)));
    let (steps, times) = (setup.n, lateness.notes.take());
    let own = vec![("late_secs", rounded(Some(late.as_secs_f64()), 3))];
    Ok(Measured { durability, steps, spent, times, bytes, runs: steps, own, ..Measured::default() })
}
