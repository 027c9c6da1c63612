//! Runs that wait in memory: the memory each of them takes.

use outlive::prelude::*;

use crate::harness::figures::Measured;
use crate::harness::load::{Flood, close, until};
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::harness::usage;

async fn waiting(ctx: Ctx, _: u64) -> Result<u64> {
    Ok(ctx.wait("go").await?)
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    let room = usize::try_from(setup.n)? * 4;
    let engine = Engine::open(&path).workflow("waiting", waiting).max_resident(room).start().await?;
    let before = usage::rss_mb();
    Flood { n: setup.n, in_flight: 1_000 }.start(|id| engine.start(waiting, &id)).await?;
    until(&engine.client(), Filter::runs(), |counts| counts.of(StatusKind::Waiting) == setup.n).await?;
    let bytes_each = (usage::rss_mb() - before) * 1024.0 * 1024.0 / setup.n as f64;
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let own = vec![("memory_bytes_per_resident_run", rounded(Some(bytes_each), 0))];
    Ok(Measured { durability, bytes, runs: setup.n, own, ..Measured::default() })
}
