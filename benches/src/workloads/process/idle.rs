//! Measures the cost of idle engines: one, fifty, and one with many sleepers in its file.

use std::path::Path;
use std::time::Duration;

use outlive::prelude::*;
use serde_json::Value;

use crate::harness::crowd::{self, Crowd};
use crate::harness::figures::Measured;
use crate::harness::load::size;
use crate::harness::numbers::rounded;
use crate::harness::setup::Setup;
use crate::harness::usage::{self, Stopwatch};

/// Number of engines in the process that has many.
const ENGINES: usize = 50;
/// Time after which an engine's startup work is over, which is not measured.
const SETTLE: Duration = Duration::from_secs(12);
/// The longest that each of the three is observed.
const WATCH_MAX: Duration = Duration::from_secs(20);

/// The resource usage of idle engines.
struct Rest {
    cpu_percent: f64,
    wakeups_per_sec: f64,
}

impl Rest {
    /// Observes idle engines on these files, for the time available to each of the three.
    async fn of(paths: &[impl AsRef<Path>], setup: &Setup) -> Result<(Self, String)> {
        let mut engines = Vec::new();
        for path in paths {
            engines.push(crowd::engine(path.as_ref()).start().await?);
        }
        let watched = Duration::from_secs_f64(setup.minutes * 20.0).min(WATCH_MAX);
        tokio::time::sleep(SETTLE.min(watched)).await;
        let (watch, wakeups) = (Stopwatch::start(), usage::wakeups());
        tokio::time::sleep(watched).await;
        let (spent, wakeups) = (watch.read(), usage::wakeups().saturating_sub(wakeups));
        let secs = spent.elapsed.as_secs_f64();
        let rest = Self { cpu_percent: 100.0 * spent.cpu.as_secs_f64() / secs, wakeups_per_sec: wakeups as f64 / secs };
        let durability = engines.first().map(|engine| engine.durability()).unwrap_or_default();
        for engine in engines {
            engine.shutdown().await?;
        }
        Ok((rest, durability))
    }

    fn figures(&self, cpu: &'static str, wakeups: &'static str) -> [(&'static str, Value); 2] {
        [(cpu, rounded(Some(self.cpu_percent), 4)), (wakeups, rounded(Some(self.wakeups_per_sec), 2))]
    }
}

pub(crate) async fn run(setup: &Setup) -> Result<Measured> {
    let path = setup.store();
    let (one, _) = Rest::of(&[setup.dir.join("one.db")], setup).await?;
    let many: Vec<_> = (0..ENGINES).map(|nth| setup.dir.join(format!("many-{nth}.db"))).collect();
    let (many, _) = Rest::of(&many, setup).await?;
    Crowd { sleepers: setup.n, finished: 0 }.fill(&path).await?;
    let (full, durability) = Rest::of(&[&path], setup).await?;
    let mut own = Vec::new();
    own.extend(one.figures("cpu_percent_one", "wakeups_per_sec_one"));
    own.extend(many.figures("cpu_percent_fifty", "wakeups_per_sec_fifty"));
    own.extend(full.figures("cpu_percent_sleepers", "wakeups_per_sec_sleepers"));
    Ok(Measured { durability, bytes: size(&path), runs: setup.n, own, ..Measured::default() })
}
