//! What the disk itself can do: the floor under every durable write.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use outlive::prelude::Result;
use serde_json::{Map, Value, json};

/// How often the disk is asked.
const SYNCS: usize = 300;

/// The median and the 99th percentile of an append of a page and an fdatasync.
pub(crate) fn fdatasync(dir: &Path) -> Result<(Duration, Duration)> {
    let mut file = File::create(dir.join("floor"))?;
    let page = [7_u8; 4096];
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let start = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok((times[SYNCS / 2], times[SYNCS * 99 / 100]))
}

/// Steps per second of a plain append log that syncs after as many bytes as a batch of steps has.
pub(crate) fn append_log(dir: &Path, steps: u64, batch: u64) -> Result<f64> {
    let mut file = File::create(dir.join("log"))?;
    let bytes = vec![b'x'; 200 * usize::try_from(batch)?];
    let start = Instant::now();
    for _ in 0..steps / batch {
        file.write_all(&bytes)?;
        file.sync_data()?;
    }
    Ok(steps as f64 / start.elapsed().as_secs_f64())
}

pub(crate) fn figures(dir: &Path) -> Result<Map<String, Value>> {
    let (p50, p99) = fdatasync(dir)?;
    let log = append_log(dir, 200_000, 1_000)?;
    let Value::Object(figures) = json!({
        "workload": "floor",
        "floor_fdatasync_p50_us": p50.as_micros() as u64,
        "floor_fdatasync_p99_us": p99.as_micros() as u64,
        "append_log_steps_per_sec": log.round(),
    }) else {
        return Err("an object is an object".into());
    };
    Ok(figures)
}
