//! Counts the instructions of the hot paths, so that none becomes slower unnoticed; see `benches/counts/README.md`.

#![expect(clippy::print_stdout, reason = "this is the output of the command")]

mod callgrind;
mod expected;
mod scenario;
mod still;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use outlive::prelude::Result;

use crate::expected::Expected;
use crate::scenario::Scenario;

/// Counts the instructions per operation of each hot path, and fails if one takes over 10 % more than expected.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    /// Stores the counts as the expected ones.
    #[arg(long)]
    write: bool,
}

/// The processes that are counted, and their preparation.
#[derive(Subcommand)]
enum Part {
    #[command(hide = true)]
    Prepare { scenario: Scenario, times: u64, folder: PathBuf },
    #[command(hide = true)]
    Perform { scenario: Scenario, times: u64, folder: PathBuf },
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    match arguments.part {
        Some(Part::Prepare { scenario, times, folder }) => scenario.prepare(&folder, times)?,
        Some(Part::Perform { scenario, times, folder }) => scenario.perform(&folder, times)?,
        None if arguments.write => write()?,
        None => return check(),
    }
    Ok(ExitCode::SUCCESS)
}

fn write() -> Result<()> {
    let mut counted = Expected { tools: callgrind::tools()?, counts: Vec::new() };
    for scenario in Scenario::value_variants() {
        let count = callgrind::count(*scenario)?;
        println!("{scenario:<12} {count:>9}");
        counted.counts.push((scenario.to_string(), count));
    }
    counted.write()?;
    println!("written to {}", expected::FILE);
    Ok(())
}

fn check() -> Result<ExitCode> {
    let (expected, tools) = (Expected::read()?, callgrind::tools()?);
    println!("{:<12} {:>9} {:>9} {:>8}", "path", "expected", "now", "change");
    let mut findings = Vec::new();
    for scenario in Scenario::value_variants() {
        let before = expected.count(&scenario.to_string())?;
        let now = callgrind::count(*scenario)?;
        println!("{scenario:<12} {before:>9} {now:>9} {:>+7.1}%", expected::change(before, now));
        let listing = callgrind::listing(*scenario, "twice")?;
        findings.extend(expected::finding(&scenario.to_string(), before, now, &listing));
    }
    if tools != expected.tools {
        println!("\nnot compared: the expected counts were made with {}, but this is {tools}", expected.tools);
        return Ok(ExitCode::SUCCESS);
    }
    findings.iter().for_each(|finding| println!("\n{}", finding.sentence));
    let is_slower = findings.iter().any(|finding| finding.is_slower);
    Ok(if is_slower { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
