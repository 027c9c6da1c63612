//! `outlive bench`: how fast this machine and disk take durable steps.

use std::path::PathBuf;
use std::process::ExitCode;

use outlive_bench::Figures;
use serde_json::json;

use crate::error::Error;
use crate::out::Out;
use crate::table::{self, Fit, Grid};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder on the disk to measure; a store is made in it, and removed
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// How many runs of ten steps start at once
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    n: u64,
    /// One JSON object on the last line, after the table
    #[arg(long)]
    json: bool,
}

/// Steps that one run takes in sequence, at most.
const IN_SEQUENCE_MAX: u64 = 1_000;

pub(crate) async fn run(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let (dir, n) = (args.dir.clone(), args.n);
    // It has a runtime of its own, with as many threads as a program would have.
    let measuring = tokio::task::spawn_blocking(move || {
        let many = outlive_bench::measure_w1(&dir, n)?;
        Ok((many, outlive_bench::measure_w2(&dir, n.min(IN_SEQUENCE_MAX))?))
    });
    let measured = measuring.await.map_err(|error| Error::said(format!("the measurement broke off: {error}")))?;
    let (many, one) = measured.map_err(|error: outlive::BoxError| Error::said(error.to_string()))?;
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

/// The figures of both, side by side.
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
        ("durable steps a second", "steps_per_sec"),
        ("CPU µs a step", "cpu_us_per_step"),
        ("µs until done, median", "p50_us"),
        ("µs until done, 99th percentile", "p99_us"),
        ("memory at most, MB", "peak_rss_mb"),
        ("fdatasync alone, µs, median", "floor_fdatasync_p50_us"),
        ("append log alone, steps a second", "floor_append_log_steps_per_sec"),
    ] {
        grid.row(vec![what.into(), table::text(&of(&many, name), Fit::All), table::text(&of(&one, name), Fit::All)]);
    }
    format!(
        "{}\n\nOn the left, times are those of whole runs; on the right, those of single steps: {} times an fdatasync.\n{}",
        grid.lay_out().0,
        of(&one, "ratio_to_floor"),
        of(&many, "durability"),
    )
}
