//! W1: many runs of ten steps each, all started at once.

use std::path::Path;
use std::time::Instant;

use indicatif::ProgressBar;
use outlive::prelude::*;
use serde_json::{Map, Value, json};

use crate::{floor, usage};

const STEPS: u64 = 10;

/// About 50 bytes of JSON.
#[derive(serde::Serialize, serde::Deserialize)]
struct Receipt {
    id: u64,
    step: u64,
    note: String,
}

async fn ten_steps(ctx: Ctx, id: u64) -> Result<u64> {
    let mut sum = 0;
    for step in 0..STEPS {
        let receipt = ctx.step("work", || work(id, step)).await?;
        sum += receipt.step + receipt.note.len() as u64;
    }
    Ok(sum)
}

async fn work(id: u64, step: u64) -> Result<Receipt> {
    Ok(Receipt { id, step, note: "about fifty bytes of it".into() })
}

pub(crate) async fn run(dir: &Path, n: u64) -> Result<Map<String, Value>> {
    let (floor_p50, floor_p99) = floor::fdatasync(dir)?;
    let path = dir.join("w1.db");
    let engine = Engine::open(&path).workflow("ten", ten_steps).start().await?;
    let bar = ProgressBar::new(n);
    let (cpu, start) = (usage::cpu(), Instant::now());
    let client = engine.client();
    let runs: Vec<_> = (0..n).map(|id| client.start(ten_steps, &id).into_future()).collect();
    let waiting: Vec<_> = runs
        .into_iter()
        .map(|run| {
            let bar = bar.clone();
            tokio::spawn(async move {
                let begun = Instant::now();
                run.await?.result().await?;
                bar.inc(1);
                Ok::<_, Error>(begun.elapsed())
            })
        })
        .collect();
    let mut times = Vec::with_capacity(waiting.len());
    for one in waiting {
        times.push(one.await??);
    }
    let elapsed = start.elapsed().as_secs_f64();
    let cpu = (usage::cpu() - cpu).as_secs_f64();
    bar.finish_and_clear();
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_micros() as u64;
    let steps = (n * STEPS) as f64;
    let durability = engine.durability();
    engine.shutdown().await?;
    let bytes = std::fs::metadata(&path)?.len();
    let log = floor::append_log(dir, n * STEPS, 1_000)?;
    let Value::Object(figures) = json!({
        "workload": "w1",
        "n": n,
        "durability": durability,
        "steps_per_sec": (steps / elapsed).round(),
        "cpu_us_per_step": (cpu * 1e6 / steps * 100.0).round() / 100.0,
        "elapsed_secs": elapsed,
        "p50_us": at(50),
        "p99_us": at(99),
        "peak_rss_mb": usage::peak_rss_mb().round(),
        "bytes_per_run": bytes / n.max(1),
        "floor_fdatasync_p50_us": floor_p50.as_micros() as u64,
        "floor_fdatasync_p99_us": floor_p99.as_micros() as u64,
        "floor_append_log_steps_per_sec": log.round(),
        "ratio_to_floor": (steps / elapsed / log * 1000.0).round() / 1000.0,
    }) else {
        return Err("an object is an object".into());
    };
    Ok(figures)
}
