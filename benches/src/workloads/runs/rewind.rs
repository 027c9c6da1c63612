//! Rewinds: runs that have ended are rewound by filter, and end again.

use std::time::Instant;

use outlive::prelude::*;

use crate::harness::figures::Measured;
use crate::harness::load::{Flood, close, until};
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;

async fn two(ctx: Ctx, n: u64) -> Result<u64> {
    let one = ctx.step("one", || async move { outlive::Ok(n + 1) }).await?;
    Ok(ctx.step("two", || async move { outlive::Ok(one + 1) }).await?)
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    let engine = Engine::open(&path).workflow("two", two).start().await?;
    let client = engine.client();
    Flood { n: setup.n, in_flight: 1_000 }.start(|n| engine.start(two, &n)).await?;
    let all = || Filter::runs().workflow("two");
    until(&client, all(), |counts| counts.of(StatusKind::Completed) == setup.n).await?;
    let begun = Instant::now();
    let outcome = engine.rewind_where(all(), "two").await?;
    let rewound = begun.elapsed();
    until(&client, all(), |counts| counts.of(StatusKind::Completed) == setup.n).await?;
    let ended = begun.elapsed();
    if outcome.done != setup.n {
        return Err(format!("{outcome}; please report it").into());
    }
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let per_sec = |elapsed: std::time::Duration| rounded(Some(setup.n as f64 / elapsed.as_secs_f64()), 0);
    let own = vec![("rewinds_per_sec", per_sec(rewound)), ("ended_per_sec", per_sec(ended))];
    Ok(Measured { durability, bytes, runs: setup.n, own, ..Measured::default() })
}
