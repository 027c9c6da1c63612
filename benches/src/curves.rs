//! Workloads behind the plots: the same load repeated while one thing grows.

use outlive::prelude::*;
use serde_json::{Value, json};

use crate::bar;
use crate::crowd::Crowd;
use crate::figures::{Against, Measured};
use crate::load::{Flood, close};
use crate::numbers::rounded;
use crate::setup::Setup;
use crate::steps::many_steps;
use crate::w1;

/// Runs in flight; levels above the requested one are skipped.
const IN_FLIGHT: [u64; 8] = [1, 8, 64, 500, 1_000, 5_000, 10_000, 20_000];
/// Steps of a run.
const LENGTHS: [u64; 4] = [10, 100, 1_000, 5_000];
/// Runs in flight while journals grow: the same number at each length, so that batches stay alike.
const BESIDE: u64 = 64;
/// One run of W1 for this many sleepers.
const SLEEPERS_PER_RUN: u64 = 50;

/// Measures throughput over runs in flight, up to `n`.
pub(crate) async fn in_flight(setup: &Setup) -> Result<Measured> {
    let mut curve = Curve::default();
    for in_flight in IN_FLIGHT.into_iter().filter(|level| *level <= setup.n) {
        let flood = Flood { n: (2 * in_flight).max((200 * in_flight).min(setup.n)), in_flight };
        curve.add(in_flight, w1::flood(&setup.dir.join(format!("{in_flight}.db")), flood).await?);
    }
    Ok(curve.measured())
}

/// Measures the cost of a step over the length of the journal, with `n` steps at each.
pub(crate) async fn journal_length(setup: &Setup) -> Result<Measured> {
    let mut curve = Curve::default();
    for length in LENGTHS.into_iter().filter(|length| *length == LENGTHS[0] || length * BESIDE <= setup.n) {
        let path = setup.dir.join(format!("{length}.db"));
        let flood = Flood { n: (setup.n / length).max(1), in_flight: BESIDE };
        let engine = Engine::open(&path).workflow("many", many_steps).start().await?;
        let bar = bar::of(flood.n, "runs");
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

/// Measures the cost of a step over the number of sleepers in the file, up to `n`.
pub(crate) async fn sleepers(setup: &Setup) -> Result<Measured> {
    let (fewer, mut curve) = (setup.dir.join("fewer.db"), Curve::default());
    let flood = Flood::of((setup.n / SLEEPERS_PER_RUN).max(1));
    for sleepers in [0, setup.n / 100, setup.n / 10, setup.n] {
        let path = if sleepers == setup.n { setup.store() } else { fewer.clone() };
        Crowd { sleepers, finished: 0 }.fill(&path).await?;
        curve.add(sleepers, w1::flood(&path, flood).await?);
    }
    Ok(curve.measured())
}

#[derive(Default)]
struct Curve {
    points: Vec<Value>,
    last: Measured,
}

impl Curve {
    fn add(&mut self, x: u64, measured: Measured) {
        let steps = measured.steps as f64;
        self.points.push(json!({
            "x": x,
            "steps_per_sec": rounded(Some(steps / measured.spent.elapsed.as_secs_f64()), 0),
            "cpu_us_per_step": rounded(Some(measured.spent.cpu.as_secs_f64() * 1e6 / steps), 2),
        }));
        self.last = measured;
    }

    /// Returns the figures of the last point, with all points. Its file may hold other runs too.
    fn measured(self) -> Measured {
        Measured { runs: 0, own: vec![("points", json!(self.points))], ..self.last }
    }
}
