//! Purge: short runs while many ended runs are removed from the same file, compared with an empty file.

use std::time::Duration;

use outlive::prelude::*;

use crate::harness::crowd::Crowd;
use crate::harness::figures::Measured;
use crate::harness::load::Flood;
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::workloads::runs::many_short_runs;

/// How often each is measured, alternating.
const ROUNDS: usize = 3;
/// One short run for this many ended runs in the file.
const ENDED_PER_RUN: u64 = 50;

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    Crowd { sleepers: 0, finished: setup.n }.fill(&path).await?;
    let engine = || Engine::open(&path).keep_of("nothing", Duration::from_millis(1));
    // The first removal makes the index that all others use.
    engine().start().await?.shutdown().await?;
    let flood = Flood::of((setup.n / ENDED_PER_RUN).max(1));
    let (mut empty, mut purging) = (Vec::new(), Vec::new());
    let before = ended(&path).await?;
    for round in 0..ROUNDS {
        empty.push(many_short_runs::flood(&setup.dir.join(format!("empty-{round}.db")), flood).await?.rate());
        purging.push(many_short_runs::flood_on(engine(), &path, flood).await?);
    }
    let removed = before - ended(&path).await?;
    let seconds: f64 = purging.iter().map(|measured| measured.spent.elapsed.as_secs_f64()).sum();
    empty.sort_by(f64::total_cmp);
    purging.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let (empty, mut median) = (empty[ROUNDS / 2], purging.swap_remove(ROUNDS / 2));
    median.runs = setup.n + ROUNDS as u64 * flood.n;
    median.own = vec![
        ("steps_per_sec_w1", rounded(Some(empty), 0)),
        ("ratio_to_w1", rounded(Some(median.rate() / empty), 3)),
        ("removed_per_sec", rounded(Some(removed as f64 / seconds), 0)),
    ];
    Ok(median)
}

/// Returns the number of ended runs that are left to be removed.
async fn ended(path: &std::path::Path) -> Result<u64> {
    let client = Client::open(path)?;
    Ok(client.count(Filter::runs().workflow("nothing")).await?.total())
}
