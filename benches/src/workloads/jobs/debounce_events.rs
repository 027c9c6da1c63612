//! Debounce events (J2): n events are added to n/100 batches, many at a time.

use outlive::job::{Debounce, DebounceCtx};
use outlive::prelude::*;

use crate::harness::figures::{Against, Measured};
use crate::harness::load::close;
use crate::harness::setup::Setup;
use crate::harness::usage::Stopwatch;
use crate::workloads::jobs::clients::many;

const HOOKS: Debounce<u64, u64> = Debounce::new("hooks");
const CLIENTS: u64 = 2_000;

async fn add(ctx: DebounceCtx<u64, u64>, hook: u64) -> Result<()> {
    ctx.update_state(|sum| *sum += hook);
    Ok(())
}

async fn flush(_: DebounceCtx<u64, u64>) -> Result<()> {
    Ok(())
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.dir.join("jobs.db");
    let hooks = HOOKS.flush_after("1 hour").on_event(add).execute(flush);
    let engine = Engine::open(&path).job(hooks).start().await?;
    let instances = (setup.n / 100).max(1);
    let watch = Stopwatch::start();
    let client = engine.job(HOOKS);
    let times = many(setup.n, CLIENTS, move |event| {
        let client = client.clone();
        async move { client.add(&format!("{}", event % instances), &1).wait("1 minute").await.map(drop) }
    });
    let times = times.await?;
    let spent = watch.read();
    let mut sum = 0;
    for instance in 0..instances {
        sum += engine.job(HOOKS).state(&instance.to_string()).await?.unwrap_or(0);
    }
    if sum != setup.n {
        return Err(format!("{} events were added, but {sum} are in the batches", setup.n).into());
    }
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let (events, runs) = (setup.n, instances);
    Ok(Measured { durability, events, spent, times, bytes, runs, against: Against::Log, ..Measured::default() })
}
