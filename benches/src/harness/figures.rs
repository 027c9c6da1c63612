//! The measurements of a workload as named figures, with the same names for all workloads.

use std::fmt;
use std::time::Duration;

use outlive::prelude::Result;
use serde_json::{Map, Value, json};

use crate::harness::floor::{self, Floor};
use crate::harness::numbers::{micros, rounded};
use crate::harness::setup::Setup;
use crate::harness::usage::{self, Spent};

/// The figures of one workload, in order.
///
/// ```no_run
/// # fn main() -> outlive::prelude::Result<()> {
/// let figures = outlive_bench::measure_many_short_runs(".".as_ref(), 1_000)?;
/// println!("{figures}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Figures(Vec<(String, Value)>);

/// How a workload is called.
#[derive(Clone, Copy)]
pub(crate) struct WorkloadName<'a> {
    /// The short name in figures and results, which stays the same so that they can be compared: `w1`.
    pub(crate) id: &'a str,
    /// The name that says what it does: `many-short-runs`.
    pub(crate) name: &'a str,
}

/// The report of a workload.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) durability: String,
    /// Number of steps, if steps were measured.
    pub(crate) steps: u64,
    /// Number of job events handled, if those were measured.
    pub(crate) events: u64,
    pub(crate) spent: Spent,
    /// Durations of single runs, steps or calls.
    pub(crate) times: Vec<Duration>,
    /// Size of the file, and number of runs in it.
    pub(crate) bytes: u64,
    pub(crate) runs: u64,
    pub(crate) against: Against,
    /// Of the measured process, if that was a different one.
    pub(crate) peak_rss_mb: Option<f64>,
    /// Figures that only this workload has.
    pub(crate) own: Vec<(&'static str, Value)>,
}

impl Measured {
    /// Returns the steps per second.
    pub(crate) fn rate(&self) -> f64 {
        self.steps as f64 / self.spent.elapsed.as_secs_f64()
    }
}

/// The baseline for a workload.
#[derive(Clone, Copy, Default)]
pub(crate) enum Against {
    /// No floor applies.
    #[default]
    Nothing,
    /// Steps or events per second, compared with the steps of a plain append log.
    Log,
    /// The median time, compared with an fdatasync.
    Sync,
}

impl Figures {
    /// Adds the figures that all workloads share to what a workload reports.
    pub(crate) fn of(workload: WorkloadName<'_>, setup: &Setup, mut measured: Measured, floor: &Floor) -> Result<Self> {
        measured.times.sort();
        let Spent { elapsed, cpu } = measured.spent;
        let has_steps = measured.steps > 0;
        let steps = measured.steps as f64;
        let rate = steps / elapsed.as_secs_f64();
        let log = floor::append_log(&setup.dir)?;
        let (sync_p50, p50) = (floor.sync_us(50), micros(&measured.times, 50));
        let ratio = match measured.against {
            Against::Nothing => None,
            Against::Log => Some((measured.steps + measured.events) as f64 / elapsed.as_secs_f64() / log),
            Against::Sync => p50.zip(sync_p50).map(|(p50, sync)| p50 / sync),
        };
        let mut figures = vec![
            ("workload", json!(workload.id)),
            ("name", json!(workload.name)),
            ("n", json!(setup.n)),
            ("durability", json!(Some(measured.durability).filter(|settings| !settings.is_empty()))),
            ("steps_per_sec", rounded(has_steps.then_some(rate), 0)),
            ("cpu_us_per_step", rounded(has_steps.then_some(cpu.as_secs_f64() * 1e6 / steps), 2)),
            ("elapsed_secs", rounded(Some(elapsed.as_secs_f64()).filter(|secs| *secs > 0.0), 3)),
            ("p50_us", rounded(p50, 0)),
            ("p99_us", rounded(micros(&measured.times, 99), 0)),
            ("peak_rss_mb", rounded(Some(measured.peak_rss_mb.unwrap_or_else(usage::peak_rss_mb)), 1)),
            ("bytes_per_run", json!(measured.bytes.checked_div(measured.runs))),
            ("floor_fdatasync_p50_us", rounded(sync_p50, 0)),
            ("floor_fdatasync_p99_us", rounded(floor.sync_us(99), 0)),
            ("floor_append_log_steps_per_sec", rounded(Some(log), 0)),
            ("ratio_to_floor", rounded(ratio, 3)),
        ];
        if measured.events > 0 {
            figures.extend(of_events(measured.events, measured.spent));
        }
        figures.extend(measured.own);
        Ok(Self(figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
    }

    /// Creates figures that do not come from a workload of an engine.
    pub(crate) fn plain(figures: Vec<(&str, Value)>) -> Self {
        Self(figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Returns the figures as one JSON object.
    ///
    /// ```no_run
    /// # fn main() -> outlive::prelude::Result<()> {
    /// let figures = outlive_bench::measure_one_long_run(".".as_ref(), 1_000)?.to_json();
    /// assert!(figures["p50_us"].is_number());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.iter().cloned().collect::<Map<_, _>>())
    }
}

/// Returns the figures that only job workloads have.
fn of_events(events: u64, spent: Spent) -> [(&'static str, Value); 2] {
    let count = events as f64;
    [
        ("events_per_sec", rounded(Some(count / spent.elapsed.as_secs_f64()), 0)),
        ("cpu_us_per_event", rounded(Some(spent.cpu.as_secs_f64() * 1e6 / count), 2)),
    ]
}

/// One line for each figure; nested figures are left to programs.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.0.iter().filter(|(_, value)| !value.is_object()).enumerate() {
            let begin = if place > 0 { "\n" } else { "" };
            match value {
                Value::Null => write!(f, "{begin}{name:<32}-")?,
                Value::String(text) => write!(f, "{begin}{name:<32}{text}")?,
                value => write!(f, "{begin}{name:<32}{value}")?,
            }
        }
        Ok(())
    }
}
