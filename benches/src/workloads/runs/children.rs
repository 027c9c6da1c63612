//! Children: one parent that runs many of them, a hundred at a time.

use outlive::prelude::*;

use crate::harness::figures::Measured;
use crate::harness::load::close;
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::harness::usage::Stopwatch;

/// The number of children at a time.
const CONCURRENCY: usize = 100;

async fn child(_: Ctx, n: u64) -> Result<u64> {
    Ok(n + 1)
}

async fn parent(ctx: Ctx, n: u64) -> Result<u64> {
    let all = ctx.map(0..n, |n| *n, |ctx, n| async move { ctx.run(child, &n).await });
    Ok(all.concurrency(CONCURRENCY).await?.into_iter().sum())
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    let engine = Engine::open(&path).workflow("parent", parent).workflow("child", child).start().await?;
    let watch = Stopwatch::start();
    let sum = engine.start(parent, &setup.n).await?.result().await?;
    let spent = watch.read();
    if sum != (1..=setup.n).sum::<u64>() {
        return Err(format!("the children returned {sum}; please report it").into());
    }
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let per_sec = setup.n as f64 / spent.elapsed.as_secs_f64();
    let cpu_us = spent.cpu.as_secs_f64() * 1e6 / setup.n as f64;
    let own = vec![("children_per_sec", rounded(Some(per_sec), 0)), ("cpu_us_per_child", rounded(Some(cpu_us), 1))];
    Ok(Measured { durability, bytes, runs: setup.n, own, ..Measured::default() })
}
