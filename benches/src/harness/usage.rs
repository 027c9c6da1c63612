//! Resource usage of the process: CPU time and memory, as counted by the kernel.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

/// How far the two ways to count CPU time may differ if no thread has ended: one counts in ticks of 10 ms.
const ROUNDING_MAX: Duration = Duration::from_millis(30);

/// Measures from its creation.
pub(crate) struct Stopwatch {
    begun: Instant,
    ticks: Duration,
    threads: HashMap<OsString, Duration>,
}

/// Time spent on a stretch of work.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Spent {
    pub(crate) elapsed: Duration,
    /// User and system time, of all threads.
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
        // Thread times have nanosecond resolution, but are lost when a thread ends.
        let cpu = if threads.abs_diff(ticks) <= ROUNDING_MAX { threads } else { ticks };
        Spent { elapsed, cpu }
    }
}

/// Returns the CPU time of the process so far, user and system, in ticks of 10 ms.
fn ticks() -> Duration {
    // Fields 14 and 15, counted after the name, which may contain spaces.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Returns the CPU time of each current thread.
fn threads() -> HashMap<OsString, Duration> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let used = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((task.file_name(), Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?)))
    });
    used.collect()
}

/// Returns how often current threads have been woken (voluntary context switches).
pub(crate) fn wakeups() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of_task = |status: String| {
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?.to_owned();
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok().and_then(of_task)).sum()
}

/// Returns the peak memory of the process, in MB.
pub(crate) fn peak_rss_mb() -> f64 {
    memory_mb("VmHWM")
}

/// Returns the current memory of the process, in MB.
pub(crate) fn rss_mb() -> f64 {
    memory_mb("VmRSS")
}

fn memory_mb(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}
