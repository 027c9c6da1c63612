//! Crowded store (W10): short runs in a file with many other runs, compared with an empty file.

use outlive::prelude::*;

use crate::harness::crowd::Crowd;
use crate::harness::figures::Measured;
use crate::harness::load::Flood;
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::workloads::runs::many_short_runs;

/// How often each is measured, alternating.
const ROUNDS: usize = 3;
/// One short run for this many runs in the file.
const CROWD_PER_RUN: u64 = 50;

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    Crowd { sleepers: setup.n, finished: setup.n }.fill(&path).await?;
    let flood = Flood::of((setup.n / CROWD_PER_RUN).max(1));
    let (mut empty, mut full) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        empty.push(many_short_runs::flood(&setup.dir.join(format!("empty-{round}.db")), flood).await?.rate());
        full.push(many_short_runs::flood(&path, flood).await?);
    }
    empty.sort_by(f64::total_cmp);
    full.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let (empty, mut median) = (empty[ROUNDS / 2], full.swap_remove(ROUNDS / 2));
    median.runs = 2 * setup.n + ROUNDS as u64 * flood.n;
    median.own = vec![
        ("steps_per_sec_empty", rounded(Some(empty), 0)),
        ("ratio_to_empty", rounded(Some(median.rate() / empty), 3)),
    ];
    Ok(median)
}
