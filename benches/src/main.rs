//! Workloads that every claim about speed comes from; see `benches/README.md`.

#![expect(clippy::print_stdout, reason = "printing its figures is what it is for")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

mod floor;
mod usage;
mod w1;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use outlive::prelude::Result;

/// Measures Outlive on this machine and disk.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    workload: Workload,
    /// Where the store is made; a temporary folder in the current one unless given, so that a real disk is measured.
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    /// One JSON object on the last line.
    #[arg(long, global = true)]
    json: bool,
    /// Worker threads of the runtime.
    #[arg(long, global = true, default_value_t = 2)]
    threads: usize,
}

#[derive(Subcommand)]
enum Workload {
    /// Many runs of ten steps each, all started at once.
    W1 {
        /// How many runs.
        #[arg(long, default_value_t = 20_000)]
        n: u64,
    },
    /// What the disk itself can do.
    Floor,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let parent = arguments.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let dir = tempfile::Builder::new().prefix("outlive-bench").tempdir_in(parent)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(arguments.threads).enable_all().build()?;
    let figures = match arguments.workload {
        Workload::W1 { n } => runtime.block_on(w1::run(dir.path(), n))?,
        Workload::Floor => floor::figures(dir.path())?,
    };
    for (name, value) in &figures {
        println!("{name:<26}{value}");
    }
    if arguments.json {
        println!("{}", serde_json::Value::Object(figures));
    }
    Ok(())
}
