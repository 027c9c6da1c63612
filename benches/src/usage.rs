//! What the process has used: CPU time and memory, as the kernel counts them.

use std::fs;
use std::time::Duration;

/// CPU time of the whole process so far, user and system.
pub(crate) fn cpu() -> Duration {
    // Fields 14 and 15, counted after the name, which may hold spaces; in ticks of 10 ms.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// The most memory the process has held, in MB.
pub(crate) fn peak_rss_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}
