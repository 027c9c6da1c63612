//! What the process has used: CPU time and memory, as the kernel counts them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

/// What both ways to count CPU time may differ by if no thread has ended: the one counts in ticks of 10 ms.
const ROUNDING_MAX: Duration = Duration::from_millis(30);

/// Measures from when it is made.
pub(crate) struct Stopwatch {
    begun: Instant,
    ticks: Duration,
    threads: HashMap<OsString, Duration>,
}

/// What a stretch of work took.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Spent {
    pub(crate) elapsed: Duration,
    /// User and system, of all threads.
    pub(crate) cpu: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { ticks: ticks(), threads: threads(), begun: Instant::now() }
    }

    pub(crate) fn read(&self) -> Spent {
        let elapsed = self.begun.elapsed();
        let ticks = ticks().saturating_sub(self.ticks);
        let before = |thread| self.threads.get(thread).copied().unwrap_or_default();
        let threads: Duration = threads().iter().map(|(thread, used)| used.saturating_sub(before(thread))).sum();
        // Threads count in nanoseconds, but take with them what they have used.
        let cpu = if threads.abs_diff(ticks) <= ROUNDING_MAX { threads } else { ticks };
        Spent { elapsed, cpu }
    }
}

/// CPU time of the process so far, user and system, in ticks of 10 ms.
fn ticks() -> Duration {
    // Fields 14 and 15, counted after the name, which may hold spaces.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// CPU time of each of the threads that there are.
fn threads() -> HashMap<OsString, Duration> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let used = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((task.file_name(), Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?)))
    });
    used.collect()
}

/// How often threads of the process have begun to run after they had waited for something, of those that there are.
pub(crate) fn wakeups() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of_task = |status: String| {
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?.to_owned();
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok().and_then(of_task)).sum()
}

/// The most memory the process has held, in MB.
pub(crate) fn peak_rss_mb() -> f64 {
    memory_mb("VmHWM")
}

/// The memory the process holds, in MB.
pub(crate) fn rss_mb() -> f64 {
    memory_mb("VmRSS")
}

fn memory_mb(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}
