//! `outlive show`: shows a run and its journal.

mod follow;
mod journal_pages;

use std::collections::BTreeMap;
use std::process::ExitCode;

use outlive::{RunInfo, Status};

use self::follow::FollowView;
use self::journal_pages::JournalPages;
use crate::error::CliError;
use crate::open::{AnyRun, NOBODY, RunArgs};
use crate::output::journal::JournalTable;
use crate::output::json::{self, EntryJson, RunJson};
use crate::output::json_stream::JsonStream;
use crate::output::printer::Printer;
use crate::output::run_details;
use crate::output::table::Fit;
use crate::output::time;

#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Follow the run until it ends; the exit code is then 0 if it completed, 1 if not
    #[arg(short, long)]
    follow: bool,
    /// Show all columns, and do not truncate anything
    #[arg(long)]
    full: bool,
}

pub(crate) async fn run(args: &ShowArgs, out: Printer) -> Result<ExitCode, CliError> {
    let run = args.run.read().await?;
    let fit = if args.full { Fit::All } else { Fit::Terminal };
    // The run is read before its journal: if it has ended, the journal is then complete.
    let mut info = run.info().await?;
    let shown = match args.follow {
        true => match FollowView::new(&run, &info, &args.run.store, (out, fit)).await {
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
        Err(CliError::Outlive(error)) if error.is_not_found() => Err(gone(args).await),
        shown => out.verdict(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }, shown),
    }
}

async fn write_json(run: &AnyRun, info: &RunInfo) -> Result<(), CliError> {
    let mut stream = JsonStream::begin()?;
    stream.field("run", &RunJson::new(info, time::now()))?;
    stream.field("children", &json::counts(&run.children().count().await?))?;
    let values = run.values().await?;
    let values: BTreeMap<_, _> = values.iter().map(|(name, value)| (name, json::raw(value))).collect();
    stream.field("values", &values)?;
    stream.begin_list("journal")?;
    let mut journal = JournalPages::new(run);
    while let Some(page) = journal.next().await? {
        page.iter().try_for_each(|entry| stream.item(&EntryJson::from(entry)))?;
    }
    stream.end_list()?;
    stream.end()
}

async fn write_table(run: &AnyRun, info: &RunInfo, args: &ShowArgs, fit: Fit, out: Printer) -> Result<(), CliError> {
    out.line(run_details::of(info, &run.children().count().await?, &run.values().await?, fit))?;
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
async fn gone(args: &ShowArgs) -> CliError {
    match args.run.read().await {
        Ok(_) => CliError::message(format!(
            "run {:?} was replaced by a new run with the same id while it was shown; repeat the command to show that \
             one",
            args.run.id
        )),
        Err(error) => error,
    }
}
