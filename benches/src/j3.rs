//! J3: n recurring instances with a run a minute each: how late are they, and what do they cost.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outlive::job::{Continuous, ContinuousCtx};
use outlive::prelude::*;
use serde_json::json;

use crate::figures::Measured;
use crate::jobs::{many, of_events};
use crate::load::close;
use crate::numbers::rounded;
use crate::setup::Setup;
use crate::usage::Stopwatch;

const BEAT: Continuous<u32> = Continuous::new("beat");
/// In how many parts the instances are started, evenly over the first minute.
const PARTS: u64 = 600;

/// How late each run was, in milliseconds, counted up to a minute.
static LATE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

async fn beat(ctx: ContinuousCtx<u32>) -> Result<()> {
    ctx.update_state(|beats| *beats += 1);
    if ctx.run_count() > 0
        && let Some(due) = ctx.scheduled_at()
    {
        let late = usize::try_from(ctx.started_at().since(due).as_millis())?;
        let mut counts = LATE.lock().unwrap_or_else(PoisonError::into_inner);
        let last = counts.len() - 1;
        counts[late.min(last)] += 1;
    }
    Ok(())
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.dir.join("j3.db");
    *LATE.lock().unwrap_or_else(PoisonError::into_inner) = vec![0; 60_001];
    let engine = Engine::open(&path).job(BEAT.every("1 minute").execute(beat)).start().await?;
    let begun = tokio::time::Instant::now();
    for part in 0..PARTS {
        let (from, to) = (setup.n * part / PARTS, setup.n * (part + 1) / PARTS);
        let client = engine.job(BEAT);
        let start = move |id: u64| {
            let client = client.clone();
            async move { client.start(&format!("{}", from + id), &0).await.map(drop) }
        };
        many(to - from, 1_000, start).await?;
        tokio::time::sleep_until(begun + Duration::from_millis(60_000 * (part + 1) / PARTS)).await;
    }
    let watch = Stopwatch::start();
    tokio::time::sleep_until(begun + Duration::from_secs(120)).await;
    let spent = watch.read();
    let counts = LATE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let runs: u64 = counts.iter().sum();
    if runs + setup.n / 50 < setup.n {
        return Err(format!("{} runs were due in a minute and {runs} came", setup.n).into());
    }
    let (p50, p99) = (late(&counts, runs, 50), late(&counts, runs, 99));
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let mut own = of_events(runs, spent);
    own.extend([("late_p50_ms", rounded(Some(p50), 0)), ("late_p99_ms", rounded(Some(p99), 0)), ("runs", json!(runs))]);
    Ok(Measured { durability, spent, bytes, runs: setup.n, own, ..Measured::default() })
}

/// The lateness that so many in a hundred do not exceed.
fn late(counts: &[u64], runs: u64, percent: u64) -> f64 {
    let mut left = runs * percent / 100;
    let place = counts.iter().position(|count| {
        let is_it = *count >= left;
        left = left.saturating_sub(*count);
        is_it
    });
    place.unwrap_or(0) as f64
}
