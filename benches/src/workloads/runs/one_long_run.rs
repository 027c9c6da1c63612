//! One long run (W2): a run that takes its steps in sequence: the cost of a single durable step.

use std::time::Instant;

use outlive::prelude::*;

use crate::harness::figures::{Against, Measured};
use crate::harness::load::close;
use crate::harness::notes::Notes;
use crate::harness::setup::Setup;
use crate::harness::steps::work;
use crate::harness::usage::Stopwatch;

async fn in_sequence(ctx: Ctx, steps: u64) -> Result<()> {
    for step in 0..steps {
        let begun = Instant::now();
        ctx.step("work", || work(0, step)).await?;
        ctx.get::<Notes>().add(begun.elapsed());
    }
    Ok(())
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let (path, notes) = (setup.store(), Notes::default());
    let engine = Engine::open(&path).workflow("sequence", in_sequence).provide(notes.clone()).start().await?;
    let watch = Stopwatch::start();
    engine.start(in_sequence, &setup.n).await?.result().await?;
    let spent = watch.read();
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let (steps, times) = (setup.n, notes.take());
    Ok(Measured { durability, steps, spent, times, bytes, runs: 1, against: Against::Sync, ..Measured::default() })
}
