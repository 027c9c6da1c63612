//! W6: runs of ten steps at several levels of concurrency: throughput, and the time one of them takes.

use outlive::prelude::*;
use serde_json::{Value, json};

use crate::figures::Measured;
use crate::load::Flood;
use crate::numbers::{micros, rounded};
use crate::setup::Setup;
use crate::w1;

/// Numbers of runs in flight.
const LEVELS: [u64; 3] = [64, 1_000, 10_000];
/// The level whose figures are those of the workload.
const MAIN: u64 = 1_000;

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let (mut levels, mut main) = (Vec::new(), Measured::default());
    for in_flight in LEVELS {
        let flood = Flood { n: setup.n, in_flight };
        let mut measured = w1::flood(&setup.dir.join(format!("{in_flight}.db")), flood).await?;
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
