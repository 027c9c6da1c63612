//! Throughput over the number of runs in flight.

use outlive::prelude::*;

use crate::harness::figures::Measured;
use crate::harness::load::Flood;
use crate::harness::setup::Setup;
use crate::workloads::curves::curve::Curve;
use crate::workloads::runs::many_short_runs;

/// Runs in flight; levels above the requested one are skipped.
const IN_FLIGHT: [u64; 8] = [1, 8, 64, 500, 1_000, 5_000, 10_000, 20_000];

/// Measures throughput over runs in flight, up to `n`.
pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let mut curve = Curve::default();
    for in_flight in IN_FLIGHT.into_iter().filter(|level| *level <= setup.n) {
        let flood = Flood { n: (2 * in_flight).max((200 * in_flight).min(setup.n)), in_flight };
        curve.add(in_flight, many_short_runs::flood(&setup.dir.join(format!("{in_flight}.db")), flood).await?);
    }
    Ok(curve.measured())
}
