//! The performance targets, on two cores with a disk that syncs.

use serde_json::Value;

/// The target for one figure of a workload.
pub(crate) struct Target {
    pub(crate) workload: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) bound: Bound,
}

/// The bound of a target.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

use Bound::{AtLeast, AtMost};

pub(crate) const TARGETS: [Target; 35] = [
    Target { workload: "w1", figure: "steps_per_sec", bound: AtLeast(150_000.0) },
    Target { workload: "w1", figure: "cpu_us_per_step", bound: AtMost(8.0) },
    Target { workload: "w2", figure: "ratio_to_floor", bound: AtMost(2.0) },
    Target { workload: "w3", figure: "late_secs", bound: AtMost(10.0) },
    Target { workload: "w3", figure: "peak_rss_mb", bound: AtMost(200.0) },
    Target { workload: "w4", figure: "first_step_secs", bound: AtMost(0.2) },
    Target { workload: "w5", figure: "rss_over_empty_mb", bound: AtMost(100.0) },
    Target { workload: "w5", figure: "start_secs", bound: AtMost(2.0) },
    Target { workload: "w7", figure: "entries_per_sec", bound: AtLeast(1_000_000.0) },
    Target { workload: "w9", figure: "ratio_to_floor", bound: AtMost(2.0) },
    Target { workload: "w10", figure: "ratio_to_empty", bound: AtLeast(0.8) },
    Target { workload: "j1", figure: "events_per_sec", bound: AtLeast(50_000.0) },
    Target { workload: "j1", figure: "cpu_us_per_event", bound: AtMost(20.0) },
    Target { workload: "j2", figure: "events_per_sec", bound: AtLeast(50_000.0) },
    Target { workload: "j3", figure: "late_p99_ms", bound: AtMost(1_000.0) },
    Target { workload: "j3", figure: "peak_rss_mb", bound: AtMost(200.0) },
    Target { workload: "j4", figure: "events_per_sec", bound: AtLeast(40_000.0) },
    Target { workload: "children", figure: "children_per_sec", bound: AtLeast(40_000.0) },
    Target { workload: "purge", figure: "ratio_to_w1", bound: AtLeast(0.8) },
    Target { workload: "stream", figure: "appends_per_sec", bound: AtLeast(50_000.0) },
    Target { workload: "rewind", figure: "rewinds_per_sec", bound: AtLeast(5_000.0) },
    Target { workload: "kills", figure: "all_back_secs", bound: AtMost(5.0) },
    Target { workload: "lists", figure: "newest_ms", bound: AtMost(10.0) },
    Target { workload: "lists", figure: "prefix_ms", bound: AtMost(10.0) },
    Target { workload: "lists", figure: "tag_ms", bound: AtMost(10.0) },
    Target { workload: "lists", figure: "failed_ms", bound: AtMost(10.0) },
    Target { workload: "lists", figure: "count_behind_dropped_ms", bound: AtMost(50.0) },
    Target { workload: "lists", figure: "rss_over_before_mb", bound: AtMost(100.0) },
    Target { workload: "idle", figure: "cpu_percent_sleepers", bound: AtMost(0.1) },
    Target { workload: "idle", figure: "wakeups_per_sec_sleepers", bound: AtMost(2.0) },
    Target { workload: "idle", figure: "cpu_percent_one", bound: AtMost(0.1) },
    Target { workload: "idle", figure: "cpu_percent_fifty", bound: AtMost(2.0) },
    Target { workload: "waiters", figure: "cpu_percent_all_waiters", bound: AtMost(10.0) },
    Target { workload: "w8", figure: "ratio_to_same_process", bound: AtMost(1.5) },
    Target { workload: "sink", figure: "ratio_to_without_sink", bound: AtLeast(0.9) },
];

impl Target {
    /// Returns what was measured, and whether the target is met. A missing figure does not meet it.
    pub(crate) fn judge(&self, results: &[(&str, Value)]) -> (Option<f64>, bool) {
        let figures = results.iter().find(|(workload, _)| *workload == self.workload);
        let measured = figures.and_then(|(_, figures)| figures[self.figure].as_f64());
        let is_met = measured.is_some_and(|measured| match self.bound {
            AtLeast(least) => measured >= least,
            AtMost(most) => measured <= most,
        });
        (measured, is_met)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn target_is_met_up_to_its_bound_and_never_without_a_value() {
        let judge = |bound, value: Value| {
            let results = [("w1", json!({ "p50_us": value }))];
            Target { workload: "w1", figure: "p50_us", bound }.judge(&results).1
        };
        assert!(judge(AtLeast(2.0), json!(2)) && !judge(AtLeast(2.0), json!(1.9)));
        assert!(judge(AtMost(2.0), json!(2)) && !judge(AtMost(2.0), json!(2.1)));
        assert!(!judge(AtMost(2.0), Value::Null));
    }
}
