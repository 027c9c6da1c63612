//! `outlive show`: one run, and what it has done.

use std::process::ExitCode;

use outlive::{Entry, RunInfo, Status};
use serde::Serialize;

use crate::error::Error;
use crate::facts::{EntryFacts, RunFacts};
use crate::follow;
use crate::journal::JournalTable;
use crate::open::RunArgs;
use crate::out::Out;
use crate::sheet;
use crate::table::Fit;
use crate::time;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Go on until the run ends; the exit code is then 0 if it completed, else 1
    #[arg(short, long)]
    follow: bool,
    /// All columns, nothing shortened
    #[arg(long)]
    full: bool,
}

#[derive(Serialize)]
struct Shown {
    run: RunFacts,
    journal: Vec<EntryFacts>,
}

pub(crate) async fn run(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let run = args.run.open().await?;
    let fit = if args.full { Fit::All } else { Fit::Terminal };
    // The run first, then its journal: of a run that has ended, the journal is then whole.
    let mut info = run.info().await?;
    if args.follow {
        info = follow::to_the_end(&run, info, out, fit).await?;
    }
    let journal = run.journal().await?;
    if out.is_json() {
        let entries: Vec<EntryFacts> = journal.iter().map(EntryFacts::from).collect();
        out.json(&Shown { run: RunFacts::new(&info, time::now()), journal: entries })?;
    } else if !args.follow {
        out.line(sheet::of(&info, fit))?;
        out.line(table(&info, &journal, fit))?;
    }
    let is_well = !args.follow || info.status == Status::Completed;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(info: &RunInfo, journal: &[Entry], fit: Fit) -> String {
    if journal.is_empty() {
        return "\nnothing is recorded yet".into();
    }
    format!("\n{}", JournalTable::new(fit, info.created_at).begin(journal))
}
