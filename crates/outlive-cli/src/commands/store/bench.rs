//! `outlive bench`: measures durable steps on this machine and disk.

use std::path::PathBuf;
use std::process::ExitCode;

use outlive_bench::Figures;
use serde_json::json;

use crate::error::CliError;
use crate::output::printer::Printer;
use crate::output::table::{self, Fit, Grid};

#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    /// Directory on the disk to measure; a temporary store is created in it
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Number of ten-step runs to start at once
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    n: u64,
    /// Print one JSON object on the last line, after the table
    #[arg(long)]
    json: bool,
}

/// The maximum number of steps that one run takes in sequence.
const IN_SEQUENCE_MAX: u64 = 1_000;

pub(crate) async fn run(args: &BenchArgs, out: Printer) -> Result<ExitCode, CliError> {
    let (dir, n) = (args.dir.clone(), args.n);
    // The benchmark has its own runtime, with as many threads as a program would have.
    let measuring = tokio::task::spawn_blocking(move || {
        let many = outlive_bench::measure_many_short_runs(&dir, n)?;
        Ok((many, outlive_bench::measure_one_long_run(&dir, n.min(IN_SEQUENCE_MAX))?))
    });
    let measured = measuring.await.map_err(|error| CliError::message(format!("the benchmark failed: {error}")))?;
    let (many, one) = measured.map_err(|error: outlive::BoxError| CliError::message(error.to_string()))?;
    let document = json!({ "w1": many.to_json(), "w2": one.to_json() });
    if out.is_json() {
        out.json(&document)?;
    } else {
        out.line(sheet(&many, &one))?;
        if args.json {
            out.line(document)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Lays out the figures of both workloads side by side.
fn sheet(many: &Figures, one: &Figures) -> String {
    let (many, one) = (many.to_json(), one.to_json());
    let of = |figures: &serde_json::Value, name: &str| match &figures[name] {
        serde_json::Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let titles = [
        format!("{} runs of ten steps, all at once", of(&many, "n")),
        format!("one run of {} steps in sequence", of(&one, "n")),
    ];
    let mut grid = Grid::new(Fit::All).header(&["", &titles[0], &titles[1]]);
    for (what, name) in [
        ("durable steps per second", "steps_per_sec"),
        ("CPU µs per step", "cpu_us_per_step"),
        ("latency µs, median", "p50_us"),
        ("latency µs, 99th percentile", "p99_us"),
        ("peak memory, MB", "peak_rss_mb"),
        ("fdatasync alone, µs, median", "floor_fdatasync_p50_us"),
        ("append log alone, steps per second", "floor_append_log_steps_per_sec"),
    ] {
        grid.row(vec![what.into(), table::text(&of(&many, name), Fit::All), table::text(&of(&one, name), Fit::All)]);
    }
    format!(
        "{}\n\nLatency is per run on the left and per step on the right, where it is {} times an fdatasync.\n{}",
        grid.lay_out().0,
        of(&one, "ratio_to_floor"),
        of(&many, "durability"),
    )
}
