//! Runs the proof tools: each tries to break a promise in its own way and counts how often it tried.

mod figures;
mod lanes;
mod page;
mod tools;

use std::process::ExitCode;

use clap::Parser;

use crate::figures::Figures;
use crate::tools::{Order, Tool, be_mutant};

/// Tries to break the promises of Outlive.
#[derive(Parser)]
#[command(name = "outlive-proof")]
struct Args {
    /// The tool to run. Without it, all of them run, a few at a time.
    tool: Option<Tool>,
    /// Runs the long form, which takes a night instead of a coffee break.
    #[arg(long)]
    long: bool,
    /// The seed for everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How much to try, instead of the amount of the chosen form.
    #[arg(long)]
    count: Option<u64>,
    /// Runs a single scenario of `real`, such as `deploys`.
    #[arg(long)]
    only: Option<String>,
    /// Writes the page from the figures of all runs so far, and runs nothing.
    #[arg(long)]
    page: Option<std::path::PathBuf>,
    /// Runs as a process with this defect, as `mutants` calls the binary that it builds.
    #[arg(long, hide = true)]
    mutant: Option<String>,
}

#[expect(clippy::print_stderr, reason = "a command reports errors on stderr")]
fn main() -> ExitCode {
    if let Some(code) = tools::child() {
        return code;
    }
    let args = Args::parse();
    if let Some(path) = &args.page {
        return match page::write(path) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("failed to write the page to {}: {error}", path.display());
                ExitCode::FAILURE
            }
        };
    }
    let order = Order { is_long: args.long, seed: args.seed, count: args.count, only: args.only };
    if let Some(name) = &args.mutant {
        return match be_mutant(name, &order) {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                eprintln!("{problem}");
                ExitCode::FAILURE
            }
        };
    }
    let Some(tool) = args.tool else {
        let options: Vec<String> = std::env::args().skip(1).collect();
        return if lanes::run_all(&options) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    };
    match Figures::of(tool, &order) {
        Ok(figures) => {
            figures.tell();
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{tool:?} FAILED: {problem}");
            ExitCode::FAILURE
        }
    }
}
