//! `outlive show`: shows a run and its journal.

use std::process::ExitCode;

use outlive::{RunInfo, Status};

use crate::document::Document;
use crate::error::Error;
use crate::facts::{EntryFacts, RunFacts};
use crate::follow::{self, View};
use crate::journal::{JournalPages, JournalTable};
use crate::open::{AnyRun, NOBODY, RunArgs};
use crate::out::Out;
use crate::sheet;
use crate::table::Fit;
use crate::time;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Follow the run until it ends; the exit code is then 0 if it completed, 1 if not
    #[arg(short, long)]
    follow: bool,
    /// Show all columns, and do not truncate anything
    #[arg(long)]
    full: bool,
}

pub(crate) async fn run(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let run = args.run.read().await?;
    let fit = if args.full { Fit::All } else { Fit::Terminal };
    // The run is read before its journal: if it has ended, the journal is then complete.
    let mut info = run.info().await?;
    let shown = match args.follow {
        true => match View::new(&info, &args.run.store, out, fit) {
            Ok(view) => follow::to_the_end(&run, &mut info, view).await,
            Err(error) => Err(error),
        },
        false => Ok(()),
    };
    let shown = match (shown, out.is_json(), args.follow) {
        (Ok(()), true, _) => write_json(&run, &info).await,
        (Ok(()), false, false) => write_table(&run, &info, args, fit, out).await,
        (shown, ..) => shown,
    };
    // A follower that has not seen the end does not report success.
    let is_well = !args.follow || info.status == Status::Completed;
    match shown {
        Err(Error::Outlive(error)) if error.is_not_found() => Err(gone(args).await),
        shown => out.verdict(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }, shown),
    }
}

async fn write_json(run: &AnyRun, info: &RunInfo) -> Result<(), Error> {
    let mut document = Document::begin()?;
    document.field("run", &RunFacts::new(info, time::now()))?;
    document.begin_list("journal")?;
    let mut journal = JournalPages::new(run);
    while let Some(page) = journal.next().await? {
        page.iter().try_for_each(|entry| document.item(&EntryFacts::from(entry)))?;
    }
    document.end_list()?;
    document.end()
}

async fn write_table(run: &AnyRun, info: &RunInfo, args: &Args, fit: Fit, out: Out) -> Result<(), Error> {
    out.line(sheet::of(info, fit))?;
    if !info.status.is_ended() && args.run.store.is_executed() == Some(false) {
        out.line(format!("\n{NOBODY}"))?;
    }
    out.line("")?;
    let (mut journal, mut table) = (JournalPages::new(run), JournalTable::new(fit, info.created_at));
    while let Some(page) = journal.next().await? {
        out.line(table.part(&page))?;
    }
    if journal.is_empty() {
        out.line("no journal entries yet")?;
    }
    Ok(())
}

/// Returns the error for a run that disappeared while it was shown.
async fn gone(args: &Args) -> Error {
    match args.run.read().await {
        Ok(_) => Error::said(format!(
            "run {:?} was replaced by a new run with the same id while it was shown; repeat the command to show that \
             one",
            args.run.id
        )),
        Err(error) => error,
    }
}
