//! W1: many runs of ten steps each, all started at once.

use std::path::Path;

use outlive::prelude::*;

use crate::bar;
use crate::figures::{Against, Measured};
use crate::load::{Flood, close};
use crate::setup::Setup;
use crate::steps::{STEPS, ten_steps};

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    flood(&setup.store(), Flood::of(setup.n)).await
}

/// W1 on a file, which may hold other runs too.
pub(crate) async fn flood(path: &Path, flood: Flood) -> Result<Measured> {
    let engine = Engine::open(path).workflow("ten", ten_steps).start().await?;
    let bar = bar::of(flood.n, "runs");
    let (times, spent) = flood.run(&bar, |id| engine.start(ten_steps, &id)).await?;
    bar.finish_and_clear();
    let durability = engine.durability();
    let bytes = close(engine, path).await?;
    let (steps, runs) = (flood.n * STEPS, flood.n);
    Ok(Measured { durability, steps, spent, times, bytes, runs, against: Against::Log, ..Measured::default() })
}
