//! Cost of a step over the length of the journal.

use outlive::prelude::*;

use crate::harness::figures::{Against, Measured};
use crate::harness::load::{Flood, close};
use crate::harness::progress;
use crate::harness::setup::Setup;
use crate::harness::steps::many_steps;
use crate::workloads::curves::curve::Curve;

/// Steps of a run.
const LENGTHS: [u64; 4] = [10, 100, 1_000, 5_000];
/// Runs in flight while journals grow: the same number at each length, so that batches stay alike.
const BESIDE: u64 = 64;

/// Measures the cost of a step over the length of the journal, with `n` steps at each.
pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let mut curve = Curve::default();
    for length in LENGTHS.into_iter().filter(|length| *length == LENGTHS[0] || length * BESIDE <= setup.n) {
        let path = setup.dir.join(format!("{length}.db"));
        let flood = Flood { n: (setup.n / length).max(1), in_flight: BESIDE };
        let engine = Engine::open(&path).workflow("many", many_steps).start().await?;
        let bar = progress::of(flood.n, "runs");
        let (times, spent) = flood.run(&bar, |id| engine.start(many_steps, &(id, length))).await?;
        bar.finish_and_clear();
        let durability = engine.durability();
        let bytes = close(engine, &path).await?;
        let (steps, runs) = (flood.n * length, flood.n);
        let against = Against::Log;
        let measured = Measured { durability, steps, spent, times, bytes, runs, against, ..Measured::default() };
        curve.add(length, measured);
    }
    Ok(curve.measured())
}
