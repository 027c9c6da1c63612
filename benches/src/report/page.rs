//! Writes the results page: what was measured, on which machine, and whether the targets are met.

use std::fmt::Write as _;
use std::path::Path;
use std::time::SystemTime;

use outlive::prelude::*;
use serde_json::Value;

use crate::report::machine::Machine;
use crate::report::plot::{Plot, number};
use crate::report::targets::{Bound, TARGETS};

/// Everything that was measured.
pub(crate) struct Results<'a> {
    /// Figures by workload.
    pub(crate) figures: &'a [(&'static str, Value)],
    pub(crate) machine: Machine,
    pub(crate) secs: f64,
    pub(crate) shrink: u64,
}

/// The columns of a table, each with its title and its figure.
type Columns = [(&'static str, &'static str)];

/// For workloads with runs.
const OF_RUNS: &Columns = &[
    ("n", "n"),
    ("steps/s", "steps_per_sec"),
    ("CPU µs/step", "cpu_us_per_step"),
    ("p50 µs", "p50_us"),
    ("p99 µs", "p99_us"),
    ("peak MB", "peak_rss_mb"),
    ("bytes/run", "bytes_per_run"),
    ("fdatasync p50 µs", "floor_fdatasync_p50_us"),
    ("ratio to floor", "ratio_to_floor"),
];
/// For workloads with jobs.
const OF_JOBS: &Columns = &[
    ("n", "n"),
    ("events/s", "events_per_sec"),
    ("CPU µs/event", "cpu_us_per_event"),
    ("p50 µs", "p50_us"),
    ("p99 µs", "p99_us"),
    ("late p50 ms", "late_p50_ms"),
    ("late p99 ms", "late_p99_ms"),
    ("peak MB", "peak_rss_mb"),
    ("bytes/run", "bytes_per_run"),
    ("fdatasync p50 µs", "floor_fdatasync_p50_us"),
    ("ratio to floor", "ratio_to_floor"),
];
/// Figures that apply to the whole page, or appear in no table.
const ELSEWHERE: [&str; 7] = [
    "workload",
    "name",
    "durability",
    "points",
    "elapsed_secs",
    "floor_fdatasync_p99_us",
    "floor_append_log_steps_per_sec",
];

/// Writes the page and its plots to a folder.
pub(crate) fn write(out: &Path, results: &Results<'_>) -> Result<()> {
    let plots = out.join("plots");
    std::fs::create_dir_all(&plots)?;
    let mut page = head(results);
    add_targets(&mut page, results.figures);
    add_figures(&mut page, results.figures);
    page.push_str("\n## Plots\n");
    for (name, plot) in plots_of(results.figures) {
        std::fs::write(plots.join(format!("{name}.svg")), plot.svg())?;
        let _ = writeln!(page, "\n![{}](plots/{name}.svg)", plot.title);
    }
    Ok(std::fs::write(out.join("RESULTS.md"), page)?)
}

fn head(results: &Results<'_>) -> String {
    let (figures, machine) = (results.figures, &results.machine);
    let of = |workload: &str, figure: &str| find(figures, workload)[figure].clone();
    let date = Timestamp::from(SystemTime::now()).to_string();
    let floor = format!(
        "fdatasync {} µs (p50), {} µs (p99); append log {} steps/s",
        cell(&of("floor", "floor_fdatasync_p50_us")),
        cell(&of("floor", "floor_fdatasync_p99_us")),
        cell(&of("floor", "floor_append_log_steps_per_sec")),
    );
    let lines = [
        ("date", date.chars().take(10).collect()),
        ("machine", machine.hardware.clone()),
        ("kernel", machine.kernel.clone()),
        ("file system", machine.file_system.clone()),
        ("durability", cell(&of("w1", "durability"))),
        ("floor", floor),
        ("total time", format!("{:.0} s", results.secs)),
    ];
    let mut page = "# Results\n\nWritten by `outlive-bench all`. The workloads and figures are described in the \
                    [README](README.md).\n"
        .to_owned();
    if results.shrink > 1 {
        let _ = writeln!(page, "\n**All numbers are divided by {}: this is a trial run.**", results.shrink);
    }
    page.push_str("\n| | |\n|---|---|\n");
    for (name, value) in lines {
        let _ = writeln!(page, "| {name} | {value} |");
    }
    page
}

fn add_targets(page: &mut String, figures: &[(&'static str, Value)]) {
    page.push_str("\n## Targets\n\n| workload | figure | measured | target | met |\n|---|---|---|---|---|\n");
    for target in TARGETS {
        let (measured, is_met) = target.judge(figures);
        let bound = match target.bound {
            Bound::AtLeast(least) => format!("≥ {}", number(least)),
            Bound::AtMost(most) => format!("≤ {}", number(most)),
        };
        let measured = measured.map_or("-".to_owned(), number);
        let met = if is_met { "yes" } else { "**no**" };
        let _ = writeln!(page, "| {} | `{}` | {measured} | {bound} | {met} |", target.workload, target.figure);
    }
}

fn add_figures(page: &mut String, figures: &[(&'static str, Value)]) {
    page.push_str("\n## Figures\n\nRuns, and the disk alone:\n");
    add_table(page, figures, OF_RUNS);
    page.push_str("\nJobs:\n");
    add_table(page, figures, OF_JOBS);
    page.push_str("\nFigures that only one workload has:\n\n| workload | figure | measured |\n|---|---|---|\n");
    for (workload, all) in figures {
        let columns = columns_of(all);
        let is_own = |name: &str| !ELSEWHERE.contains(&name) && columns.iter().all(|(_, column)| *column != name);
        let own = all.as_object().into_iter().flatten().filter(|(name, value)| is_own(name) && !value.is_null());
        for (name, value) in own {
            let _ = writeln!(page, "| {workload} | `{name}` | {} |", cell(value));
        }
    }
}

fn add_table(page: &mut String, figures: &[(&'static str, Value)], columns: &Columns) {
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let _ = writeln!(page, "\n| workload | {} |\n|---|{}", titles.join(" | "), "---|".repeat(columns.len()));
    for (workload, all) in figures.iter().filter(|(_, all)| columns_of(all) == columns) {
        let cells: Vec<String> = columns.iter().map(|(_, figure)| cell(&all[*figure])).collect();
        let _ = writeln!(page, "| {workload} | {} |", cells.join(" | "));
    }
}

/// Returns the table that a workload belongs to.
fn columns_of(figures: &Value) -> &'static Columns {
    if figures["events_per_sec"].is_null() { OF_RUNS } else { OF_JOBS }
}

/// Returns the figures of a workload.
fn find<'a>(figures: &'a [(&'static str, Value)], workload: &str) -> &'a Value {
    figures.iter().find(|(name, _)| *name == workload).map_or(&Value::Null, |(_, figures)| figures)
}

/// Formats a value for a table.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Number(value) => value.as_f64().map_or("-".to_owned(), number),
        Value::String(text) => text.replace('|', "\\|"),
        Value::Array(rows) => rows.iter().map(cell).collect::<Vec<_>>().join("<br>"),
        Value::Object(row) => {
            let named = |(name, value): (&String, &Value)| format!("{name} {}", cell(value));
            row.iter().map(named).collect::<Vec<_>>().join(", ")
        }
        Value::Bool(value) => value.to_string(),
    }
}

fn plots_of(figures: &[(&'static str, Value)]) -> [(&'static str, Plot); 3] {
    let points = |workload: &str, y: &str| {
        let points = find(figures, workload)["points"].as_array().into_iter().flatten();
        points.filter_map(|point| Some((point["x"].as_f64()?, point[y].as_f64()?))).collect()
    };
    let plot =
        |workload, y: &str, title, x, label| (workload, Plot { title, x, y: label, points: points(workload, y) });
    [
        plot("in-flight", "steps_per_sec", "Throughput over runs in flight", "runs in flight", "steps/s"),
        plot(
            "journal-length",
            "cpu_us_per_step",
            "Cost of a step over journal length",
            "steps of a run",
            "CPU µs/step",
        ),
        plot("sleepers", "cpu_us_per_step", "Cost of a step over sleepers", "sleepers in the file", "CPU µs/step"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn page_shows_which_targets_are_met_and_links_its_plots() {
        let out = tempfile::tempdir().expect("a folder");
        let points = json!([{"x": 1, "steps_per_sec": 10, "cpu_us_per_step": 7.5}]);
        let curve = json!({ "points": points });
        let figures = [
            ("w1", json!({"steps_per_sec": 160_000, "cpu_us_per_step": 9.5, "durability": "synchronous=full"})),
            ("w6", json!({"levels": [{"in_flight": 64, "p50_us": 1_500}]})),
            (
                "j3",
                json!({"n": 100, "events_per_sec": 2, "cpu_us_per_event": 88.5, "steps_per_sec": null, "late_p99_ms": 17}),
            ),
            ("soak", json!({"late_p99_ms": 9})),
            ("in-flight", curve.clone()),
            ("journal-length", curve.clone()),
            ("sleepers", curve),
        ];
        let machine = Machine { hardware: "2 cores".into(), kernel: "linux".into(), file_system: "ext4".into() };
        write(out.path(), &Results { figures: &figures, machine, secs: 1.0, shrink: 1 })
            .expect("the page can be written");
        let page = std::fs::read_to_string(out.path().join("RESULTS.md")).expect("a page");
        for line in [
            "| w1 | `steps_per_sec` | 160,000 | ≥ 150,000 | yes |",
            "| w1 | `cpu_us_per_step` | 9.5 | ≤ 8 | **no** |",
            "| w2 | `ratio_to_floor` | - | ≤ 2 | **no** |",
            "| durability | synchronous=full |",
            "| w6 | `levels` | in_flight 64, p50_us 1,500 |",
            "| j3 | `late_p99_ms` | 17 | ≤ 1,000 | yes |",
            "| j3 | 100 | 2 | 88.5 | - | - | - | 17 | - | - | - | - |",
            "| soak | `late_p99_ms` | 9 |",
        ] {
            assert!(page.lines().any(|had| had == line), "{line:?} is not in {page}");
        }
        assert!(!page.contains("| j3 | `steps_per_sec` |"), "a figure that does not apply is not listed: {page}");
        for link in page.lines().filter_map(|line| line.split_once("](plots/")) {
            assert!(out.path().join("plots").join(link.1.trim_end_matches(')')).exists(), "{link:?}");
        }
        assert_eq!(page.matches("](plots/").count(), 3);
    }
}
