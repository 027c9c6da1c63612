//! Cost of a step over the number of sleepers in the file.

use outlive::prelude::*;

use crate::harness::crowd::Crowd;
use crate::harness::figures::Measured;
use crate::harness::load::Flood;
use crate::harness::setup::Setup;
use crate::workloads::curves::curve::Curve;
use crate::workloads::runs::many_short_runs;

/// One short run for this many sleepers.
const SLEEPERS_PER_RUN: u64 = 50;

/// Measures the cost of a step over the number of sleepers in the file, up to `n`.
pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let (fewer, mut curve) = (setup.dir.join("fewer.db"), Curve::default());
    let flood = Flood::of((setup.n / SLEEPERS_PER_RUN).max(1));
    for sleepers in [0, setup.n / 100, setup.n / 10, setup.n] {
        let path = if sleepers == setup.n { setup.store() } else { fewer.clone() };
        Crowd { sleepers, finished: 0 }.fill(&path).await?;
        curve.add(sleepers, many_short_runs::flood(&path, flood).await?);
    }
    Ok(curve.measured())
}
