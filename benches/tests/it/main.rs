//! Runs every workload as a separate process, with counts so small that only the names of its figures are meaningful.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Figures that every workload reports.
const EVERYWHERE: [&str; 14] = [
    "workload",
    "name",
    "n",
    "durability",
    "steps_per_sec",
    "cpu_us_per_step",
    "elapsed_secs",
    "p50_us",
    "p99_us",
    "peak_rss_mb",
    "bytes_per_run",
    "floor_fdatasync_p50_us",
    "floor_append_log_steps_per_sec",
    "ratio_to_floor",
];

/// Workloads with their options and the figures that must be numbers.
const WORKLOADS: [(&str, &str, &[&str]); 25] = [
    ("floor", "", &["floor_fdatasync_p50_us", "floor_append_log_steps_per_sec"]),
    ("w1", "--n 20", &["steps_per_sec", "cpu_us_per_step", "p50_us", "p99_us", "bytes_per_run", "ratio_to_floor"]),
    ("w2", "--n 20", &["steps_per_sec", "cpu_us_per_step", "p50_us", "p99_us", "bytes_per_run", "ratio_to_floor"]),
    ("w3", "--n 20", &["late_secs", "p50_us", "p99_us", "bytes_per_run"]),
    ("w4", "--n 100", &["all_done_secs", "durable_at_kill", "peak_rss_mb", "bytes_per_run"]),
    ("w5", "--n 20", &["rss_over_empty_mb", "start_secs", "bytes_per_run"]),
    ("w6", "--n 20", &["steps_per_sec", "p50_us", "p99_us"]),
    ("w7", "--n 20", &["entries_per_sec", "entries_per_sec_from_store", "p50_us"]),
    ("w8", "--n 20", &["p50_us", "p99_us", "p50_us_same_process", "p99_us_same_process", "ratio_to_same_process"]),
    ("w9", "--n 10", &["p50_us", "p99_us", "p50_us_clients", "p99_us_clients", "ratio_to_floor"]),
    ("w10", "--n 50", &["steps_per_sec", "steps_per_sec_empty", "ratio_to_empty"]),
    ("j1", "--n 20", &["events_per_sec", "cpu_us_per_event", "peak_rss_mb", "ratio_to_floor"]),
    ("j2", "--n 20", &["events_per_sec", "cpu_us_per_event", "p50_us", "p99_us", "ratio_to_floor"]),
    ("j3", "--n 20 --minutes 0.02", &["events_per_sec", "late_p50_ms", "late_p99_ms"]),
    ("j4", "--n 20", &["events_per_sec", "cpu_us_per_event", "p50_us", "p99_us", "ratio_to_floor"]),
    ("soak", "--n 20 --minutes 0.02", &["rss_mb_per_hour", "file_mb_per_hour", "wal_mb_per_hour", "late_p99_ms"]),
    ("kills", "--n 20", &["all_back_secs", "peak_rss_mb"]),
    ("lists", "--n 200", &["newest_ms", "prefix_ms", "tag_ms", "count_behind_dropped_ms"]),
    ("resident", "--n 20", &["memory_bytes_per_resident_run"]),
    ("idle", "--n 20 --minutes 0.01", &["cpu_percent_one", "cpu_percent_fifty", "wakeups_per_sec_sleepers"]),
    ("waiters", "--n 20 --minutes 0.01", &["cpu_percent_one_waiter", "cpu_percent_all_waiters"]),
    ("sink", "--n 20", &["steps_per_sec_without_sink", "ratio_to_without_sink"]),
    ("in-flight", "--n 8", &["steps_per_sec"]),
    ("journal-length", "--n 20", &["cpu_us_per_step"]),
    ("sleepers", "--n 100", &["cpu_us_per_step"]),
];

/// Runs a workload and returns the JSON on its last output line.
fn measure(workload: &str, options: &str, dir: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-bench"));
    command.arg(workload).args(options.split_whitespace()).arg("--json").arg("--dir").arg(dir);
    let output = command.current_dir(dir).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{workload}: {out}{err}");
    serde_json::from_str(out.lines().last().unwrap()).unwrap_or_else(|error| panic!("{workload}: {error} in {out}"))
}

#[test]
fn every_workload_reports_its_figures_and_leaves_nothing_behind() {
    std::thread::scope(|scope| {
        for (workload, options, own) in WORKLOADS {
            scope.spawn(move || {
                let dir = tempfile::tempdir().unwrap();
                let figures = measure(workload, options, dir.path());
                for name in EVERYWHERE {
                    assert!(figures.get(name).is_some(), "{workload} has no {name}: {figures}");
                }
                for name in own {
                    assert!(figures[*name].is_number(), "{workload} has no number {name}: {figures}");
                }
                assert_eq!(figures["workload"], workload);
                let durability = figures["durability"].as_str().unwrap_or_default();
                assert!(workload == "floor" || durability.contains("synchronous=full"), "{workload}: {durability}");
                assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{workload} left something behind");
            });
        }
    });
}

/// Descriptive workload names, and the short ones used in figures and results.
const NAMES: [(&str, &str); 14] = [
    ("many-short-runs", "w1"),
    ("one-long-run", "w2"),
    ("simultaneous-wakes", "w3"),
    ("kill-and-resume", "w4"),
    ("sleeping-runs", "w5"),
    ("concurrency-levels", "w6"),
    ("journal-replay", "w7"),
    ("signal-latency", "w8"),
    ("start-latency", "w9"),
    ("crowded-store", "w10"),
    ("pool-events", "j1"),
    ("debounce-events", "j2"),
    ("recurring-jobs", "j3"),
    ("task-events", "j4"),
];

#[test]
fn help_lists_both_names_of_a_workload() {
    let output = Command::new(env!("CARGO_BIN_EXE_outlive-bench")).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for (name, short) in NAMES {
        assert!(help.contains(&format!("- {name}: ")) && help.contains(&format!("({short}) ")), "{name}: {help}");
    }
}

#[test]
fn both_names_measure_the_same_workload() {
    for (name, short) in [NAMES[1], NAMES[10]] {
        for typed in [name, short] {
            let dir = tempfile::tempdir().unwrap();
            let figures = measure(typed, "--n 20", dir.path());
            assert_eq!((&figures["workload"], &figures["name"]), (&short.into(), &name.into()), "{typed}");
        }
    }
}

#[test]
fn all_workloads_together_write_a_page_with_plots() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let all = measure("all", &format!("--shrink 5000 --out {}", out.display()), dir.path());
    assert_eq!(all["workload"], "all");
    for (workload, _, _) in WORKLOADS {
        assert!(all[workload].is_object(), "{workload} is not in {all}");
    }
    let page = std::fs::read_to_string(out.join("RESULTS.md")).unwrap();
    assert!(page.contains("All numbers are divided by 5000") && page.contains("| w10 | `ratio_to_empty` |"), "{page}");
    assert!(page.contains("| j1 | `cpu_us_per_event` |") && page.contains("\n| j1 | 40 | "), "{page}");
    assert_eq!(std::fs::read_dir(out.join("plots")).unwrap().count(), 3);
    assert!(!page.contains(dir.path().to_str().unwrap()), "no path of this machine: {page}");
}

#[test]
fn n_of_zero_is_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_outlive-bench")).args(["w1", "--n", "0"]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && err.contains("n must be greater than zero"), "{err}");
}
