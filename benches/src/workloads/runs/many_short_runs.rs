//! Many short runs (W1): runs of ten steps each, all started at once.

use std::path::Path;

use outlive::Builder;
use outlive::prelude::*;
use serde_json::json;

use crate::harness::figures::{Against, Measured};
use crate::harness::load::{Flood, close};
use crate::harness::numbers::rounded;
use crate::harness::progress;
use crate::harness::setup::Setup;
use crate::harness::steps::{STEPS, ten_steps};

/// Number of rounds, each on its own file; the median counts, as a machine is rarely quiet.
const ROUNDS: usize = 5;

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        rounds.push(flood(&setup.dir.join(format!("{round}.db")), Flood::of(setup.n)).await?);
    }
    rounds.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let rates: Vec<_> = rounds.iter().map(|measured| rounded(Some(measured.rate()), 0)).collect();
    let mut median = rounds.swap_remove(ROUNDS / 2);
    median.own = vec![("steps_per_sec_of_rounds", json!(rates))];
    Ok(median)
}

/// Floods a file, which may hold other runs too.
pub(crate) async fn flood(path: &Path, flood: Flood) -> Result<Measured> {
    flood_on(Engine::open(path), path, flood).await
}

/// Floods an engine configured for that file.
pub(crate) async fn flood_on(engine: Builder, path: &Path, flood: Flood) -> Result<Measured> {
    let engine = engine.workflow("ten", ten_steps).start().await?;
    let bar = progress::of(flood.n, "runs");
    let (times, spent) = flood.run(&bar, |id| engine.start(ten_steps, &id)).await?;
    bar.finish_and_clear();
    let durability = engine.durability();
    let bytes = close(engine, path).await?;
    let (steps, runs) = (flood.n * STEPS, flood.n);
    Ok(Measured { durability, steps, spent, times, bytes, runs, against: Against::Log, ..Measured::default() })
}
