//! Recurring jobs (J3): n instances that each run once a minute: how late they are, and what they cost.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outlive::job::{Continuous, ContinuousCtx};
use outlive::prelude::*;
use tokio::time::Instant;

use crate::harness::figures::Measured;
use crate::harness::load::close;
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::harness::usage::Stopwatch;
use crate::workloads::jobs::clients::many;

const BEAT: Continuous<u32> = Continuous::new("beat");
/// Number of parts in which the instances are started, evenly over the first half of the time.
const PARTS: u32 = 600;
/// How long to wait for late runs.
const PATIENCE: Duration = Duration::from_secs(30);

/// How late each run was: counts by milliseconds, up to a minute.
static LATE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

async fn beat(ctx: ContinuousCtx<u32>) -> Result<()> {
    ctx.update_state(|beats| *beats += 1);
    if ctx.run_count() > 1
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
    let path = setup.dir.join("jobs.db");
    *LATE.lock().unwrap_or_else(PoisonError::into_inner) = vec![0; 60_001];
    // Half of the time is for the starts; in the other half each is due once.
    let period = Duration::from_secs_f64(setup.minutes * 60.0 / 2.0);
    let engine = Engine::open(&path).job(BEAT.every(period).execute(beat)).start().await?;
    let begun = Instant::now();
    for part in 0..PARTS {
        let first = |part: u32| setup.n * u64::from(part) / u64::from(PARTS);
        let (from, to) = (first(part), first(part + 1));
        let client = engine.job(BEAT);
        let start = move |id: u64| {
            let client = client.clone();
            async move { client.start(&format!("{}", from + id), &0).await.map(drop) }
        };
        many(to - from, 1_000, start).await?;
        tokio::time::sleep_until(begun + period * (part + 1) / PARTS).await;
    }
    let watch = Stopwatch::start();
    tokio::time::sleep_until(begun + 2 * period).await;
    let (spent, events) = (watch.read(), runs());
    let all = async {
        while runs() < setup.n {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, all).await.is_err() {
        return Err(format!("{} runs were due, but {} happened", setup.n, runs()).into());
    }
    let counts = LATE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let late = |percent| rounded(Some(late(&counts, percent)), 0);
    let own = vec![("late_p50_ms", late(50)), ("late_p99_ms", late(99))];
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    Ok(Measured { durability, events, spent, bytes, runs: setup.n, own, ..Measured::default() })
}

/// Returns how many runs have happened when they were due, or later.
fn runs() -> u64 {
    LATE.lock().unwrap_or_else(PoisonError::into_inner).iter().sum()
}

/// Returns the lateness that this percentage of runs does not exceed.
fn late(counts: &[u64], percent: u64) -> f64 {
    let mut left = counts.iter().sum::<u64>() * percent / 100;
    let place = counts.iter().position(|count| {
        let is_it = *count >= left;
        left = left.saturating_sub(*count);
        is_it
    });
    place.unwrap_or(0) as f64
}
