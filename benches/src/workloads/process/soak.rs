//! A soak test: the same load for minutes, to see whether memory, files or lateness grow.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use outlive::prelude::*;
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::figures::Measured;
use crate::harness::load::{close, log_of, size};
use crate::harness::notes::Notes;
use crate::harness::numbers::{micros, percentile, rounded};
use crate::harness::progress;
use crate::harness::setup::Setup;
use crate::harness::steps::work;
use crate::harness::usage::{self, Stopwatch};

/// Steps of a run, one before its sleep and one after it.
const STEPS: u64 = 2;
const SLEEP: Duration = Duration::from_secs(2);
/// Interval at which owed runs are started.
const TICK: Duration = Duration::from_millis(20);
/// Number of samples of resource usage.
const SAMPLES: u32 = 120;
/// Approximate number of times kept: memory is what is measured here.
const TIMES: u64 = 50_000;
/// The first of this many parts does not count: memory and files have not reached their size yet.
const WARM_UP: usize = 3;

async fn nap(ctx: Ctx, id: u64) -> Result<()> {
    ctx.step("work", || work(id, 0)).await?;
    let due = ctx.now().after(SLEEP);
    ctx.sleep_until(due).await?;
    ctx.get::<Notes>().add(Timestamp::from(SystemTime::now()).since(due));
    ctx.step("work", || work(id, 1)).await?;
    Ok(())
}

/// Resource usage at one moment.
struct Sample {
    hours: f64,
    rss_mb: f64,
    file_mb: f64,
    wal_mb: f64,
    late_ms: f64,
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let (path, notes) = (setup.store(), Notes::default());
    let engine = Engine::open(&path).workflow("nap", nap).provide(notes.clone()).start().await?;
    let total = Duration::try_from_secs_f64(setup.minutes * 60.0)?;
    let (every, keep) = (total / SAMPLES, total / 20);
    let (mut samples, mut times, mut tasks) = (Vec::new(), Vec::new(), JoinSet::new());
    let (watch, begun, bar) = (Stopwatch::start(), Instant::now(), progress::of(total.as_secs(), "seconds"));
    let mut started = 0_u64;
    let thin = usize::try_from(setup.n * total.as_secs() / TIMES)?.max(1);
    let (mut next_sample, mut late) = (every, Vec::new());
    while begun.elapsed() < total {
        while (started as f64) < begun.elapsed().as_secs_f64() * setup.n as f64 {
            tasks.spawn(live(engine.start(nap, &started), keep));
            started += 1;
        }
        tokio::time::sleep(TICK).await;
        while let Some(ended) = tasks.try_join_next() {
            ended??;
        }
        late.extend(notes.take());
        if begun.elapsed() >= next_sample {
            late.sort();
            samples.push(Sample::take(&path, begun.elapsed(), &late));
            // The times are sorted, so each kept one stands for its neighbors.
            times.extend(late.drain(..).step_by(thin));
            next_sample += every;
            bar.set_position(begun.elapsed().as_secs());
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    late.extend(notes.take());
    late.sort();
    times.extend(late.drain(..).step_by(thin));
    let spent = watch.read();
    bar.finish_and_clear();
    let durability = engine.durability();
    let bytes = close(engine, &path).await?;
    let own = slopes(&samples, &mut times, started);
    Ok(Measured { durability, steps: started * STEPS, spent, times, bytes, runs: started, own, ..Measured::default() })
}

/// Runs a workflow to its end, and purges it some time later.
async fn live(start: impl Future<Output = Result<Run<()>, Error>>, keep: Duration) -> Result<(), Error> {
    let run = start.await?;
    run.result().await?;
    tokio::time::sleep(keep).await;
    run.purge().await
}

impl Sample {
    fn take(path: &Path, at: Duration, sorted_late: &[Duration]) -> Self {
        Self {
            hours: at.as_secs_f64() / 3600.0,
            rss_mb: usage::rss_mb(),
            file_mb: size(path) as f64 / 1e6,
            wal_mb: size(&log_of(path)) as f64 / 1e6,
            late_ms: percentile(sorted_late, 99).unwrap_or_default().as_secs_f64() * 1e3,
        }
    }
}

/// Returns the final values, and their growth per hour.
fn slopes(samples: &[Sample], times: &mut [Duration], started: u64) -> Vec<(&'static str, serde_json::Value)> {
    times.sort();
    let warm = &samples[samples.len() / WARM_UP..];
    let per_hour = |of: fn(&Sample) -> f64| {
        let points: Vec<(f64, f64)> = warm.iter().map(|sample| (sample.hours, of(sample))).collect();
        rounded(slope(&points), 1)
    };
    let last = |of: fn(&Sample) -> f64| rounded(samples.last().map(of), 1);
    vec![
        ("runs", json!(started)),
        ("samples", json!(samples.len())),
        ("late_p99_ms", rounded(micros(times, 99).map(|late| late / 1e3), 1)),
        ("rss_mb", last(|sample| sample.rss_mb)),
        ("file_mb", last(|sample| sample.file_mb)),
        ("wal_mb", last(|sample| sample.wal_mb)),
        ("rss_mb_per_hour", per_hour(|sample| sample.rss_mb)),
        ("file_mb_per_hour", per_hour(|sample| sample.file_mb)),
        ("wal_mb_per_hour", per_hour(|sample| sample.wal_mb)),
        ("late_p99_ms_per_hour", per_hour(|sample| sample.late_ms)),
    ]
}

/// Returns the slope of the least-squares line through the points; `None` for fewer than two of them.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let (x_mean, y_mean) =
        (points.iter().map(|(x, _)| x).sum::<f64>() / count, points.iter().map(|(_, y)| y).sum::<f64>() / count);
    let spread: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let common: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    (spread > 0.0).then(|| common / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_is_that_of_the_best_fit_line() {
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), Some(2.0));
        assert_eq!(slope(&[(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)]), Some(0.0));
        assert_eq!((slope(&[(1.0, 1.0)]), slope(&[])), (None, None));
    }
}
