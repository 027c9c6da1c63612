//! The `outlive` command: inspects, starts and controls the runs and jobs of a store, even while another process
//! executes it.

mod commands;
mod demo;
mod error;
mod filter;
mod input;
mod open;
mod output;
mod typed;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;
use crate::output::printer::{Format, Printer};

/// Inspect and control durable workflows and jobs, even while another process executes them
#[derive(Parser)]
#[command(name = "outlive", version, after_help = "Without a command, `outlive` runs the demo.")]
struct Cli {
    /// Output format: tables for people, or JSON for programs
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    output: Format,
    #[command(subcommand)]
    command: Option<Command>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let out = Printer::new(cli.output);
    match cli.command.unwrap_or_default().run(out).await {
        Ok(code) => code,
        // The reader of our output has seen enough.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            out.error(&error);
            ExitCode::FAILURE
        }
    }
}
