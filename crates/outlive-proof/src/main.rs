//! Runs the proofs: each tool tries to break a promise in its own way, and says how often it tried.

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
    /// What to run. Without it: all of them, a few at a time.
    tool: Option<Tool>,
    /// The long form, for a night instead of a coffee.
    #[arg(long)]
    long: bool,
    /// Where chance begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How much of it, instead of what the form says.
    #[arg(long)]
    count: Option<u64>,
    /// One scenario of `real` alone, such as `deploys`.
    #[arg(long)]
    only: Option<String>,
    /// Writes the page from the figures of all runs so far, and runs nothing.
    #[arg(long)]
    page: Option<std::path::PathBuf>,
    /// Lives as a process with this defect: how `mutants` calls itself.
    #[arg(long, hide = true)]
    mutant: Option<String>,
}

#[expect(clippy::print_stderr, reason = "a command says what went wrong there")]
fn main() -> ExitCode {
    if let Some(code) = tools::child() {
        return code;
    }
    let args = Args::parse();
    if let Some(path) = &args.page {
        return match page::write(path) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("the page could not be written to {}: {error}", path.display());
                ExitCode::FAILURE
            }
        };
    }
    let order = Order { is_long: args.long, seed: args.seed, count: args.count, only: args.only };
    if let Some(name) = &args.mutant {
        return be_mutant(name, &order);
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
