//! The arguments and the report of commands that change one run by its id, or all runs that a filter selects.

use std::process::ExitCode;

use outlive::{Bulk, BulkOutcome, Client, Filter};
use serde::Serialize;

use crate::error::CliError;
use crate::filter::FilterArgs;
use crate::open::{RunArgs, StoreArgs};
use crate::output::printer::Printer;
use crate::output::progress;

/// One run, or many.
#[derive(clap::Args)]
pub(crate) struct ManyArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Run id
    #[arg(value_name = "ID", required_unless_present = "is_where", conflicts_with = "is_where")]
    id: Option<String>,
    /// Change all runs that the filter options select, instead of one by its id
    #[arg(long = "where")]
    is_where: bool,
    #[command(flatten)]
    filter: FilterArgs,
    /// Maximum number of runs to change
    #[arg(long, requires = "is_where")]
    limit: Option<usize>,
    /// Say what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// What a command is about.
pub(crate) enum Selection {
    One(RunArgs),
    Many(Filter),
}

/// The outcome as JSON.
#[derive(Serialize)]
struct BulkJson {
    done: u64,
    skipped: u64,
    dry_run: bool,
    problems: Vec<ProblemJson>,
}

#[derive(Serialize)]
struct ProblemJson {
    id: String,
    problem: String,
}

impl ManyArgs {
    /// Returns what the command is about.
    pub(crate) fn selection(&self) -> Result<Selection, CliError> {
        let filter = self.filter.filter();
        let is_any = filter == Filter::runs();
        match &self.id {
            Some(_) if !is_any => {
                Err(CliError::message("an id and filter options do not go together; drop the id and add --where"))
            }
            Some(id) => Ok(Selection::One(RunArgs { store: self.store.clone(), id: id.clone() })),
            None if is_any => {
                Err(CliError::message("--where would select every run; add --workflow, --status, --prefix or --tag"))
            }
            None => Ok(Selection::Many(filter)),
        }
    }

    pub(crate) fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// Refuses a dry run of a command that has nothing to plan for a single run.
    pub(crate) fn refuse_dry_run(&self) -> Result<(), CliError> {
        match self.dry_run {
            true => Err(CliError::message("--dry-run needs --where; `outlive show` says what a single run has done")),
            false => Ok(()),
        }
    }

    /// Changes many runs, with a progress bar, and reports the outcome.
    pub(crate) async fn change(
        &self,
        done: &'static str,
        bulk: impl FnOnce(&Client) -> Bulk,
        out: Printer,
    ) -> Result<ExitCode, CliError> {
        let client = if self.dry_run { self.store.read()? } else { self.store.open()? };
        let bar = progress::of_runs(done);
        let shown = bar.clone();
        let bulk = bulk(&client).limit(self.limit.unwrap_or(usize::MAX)).on_progress(move |progress| {
            shown.set_length(progress.total.max(progress.done + progress.skipped));
            shown.set_position(progress.done + progress.skipped);
        });
        let outcome = if self.dry_run { bulk.dry_run().await } else { bulk.await };
        bar.finish_and_clear();
        self.report(done, outcome?, out)
    }

    fn report(&self, done: &str, outcome: BulkOutcome, out: Printer) -> Result<ExitCode, CliError> {
        let BulkOutcome { done: count, skipped, problems, .. } = outcome;
        let would = if self.dry_run { "would be " } else { "" };
        let mut sentence = format!("{count} runs {would}{done}, {skipped} skipped");
        problems.iter().for_each(|(_, problem)| sentence.push_str(&format!("\n  {problem}")));
        let problems = problems.into_iter().map(|(id, problem)| ProblemJson { id, problem }).collect();
        out.result(sentence, &BulkJson { done: count, skipped, dry_run: self.dry_run, problems })?;
        Ok(ExitCode::SUCCESS)
    }
}
