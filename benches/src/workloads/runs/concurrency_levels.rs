//! Concurrency levels (W6): throughput and latency of short runs with 64 to 10,000 of them in flight.

use outlive::prelude::*;
use serde_json::{Value, json};

use crate::harness::figures::Measured;
use crate::harness::load::Flood;
use crate::harness::numbers::{micros, rounded};
use crate::harness::setup::Setup;
use crate::workloads::runs::many_short_runs;

/// Numbers of runs in flight.
const LEVELS: [u64; 3] = [64, 1_000, 10_000];
/// The level whose figures are those of the workload.
const MAIN: u64 = 1_000;

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let (mut levels, mut main) = (Vec::new(), Measured::default());
    for in_flight in LEVELS {
        let flood = Flood { n: setup.n, in_flight };
        let mut measured = many_short_runs::flood(&setup.dir.join(format!("{in_flight}.db")), flood).await?;
        levels.push(level(in_flight, &mut measured));
        if in_flight == MAIN {
            main = measured;
        }
    }
    main.own.push(("levels", json!(levels)));
    Ok(main)
}

/// Returns the figures of one level.
fn level(in_flight: u64, measured: &mut Measured) -> Value {
    measured.times.sort();
    let steps = measured.steps as f64;
    json!({
        "in_flight": in_flight,
        "steps_per_sec": rounded(Some(steps / measured.spent.elapsed.as_secs_f64()), 0),
        "cpu_us_per_step": rounded(Some(measured.spent.cpu.as_secs_f64() * 1e6 / steps), 2),
        "p50_us": rounded(micros(&measured.times, 50), 0),
        "p99_us": rounded(micros(&measured.times, 99), 0),
    })
}
