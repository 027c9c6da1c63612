//! `outlive retry`: resumes failed or stuck runs, or a stuck job.

use std::process::ExitCode;

use super::bulk::{ManyArgs, Selection};
use super::request::report;
use crate::error::CliError;
use crate::output::printer::Printer;

pub(crate) async fn run(args: &ManyArgs, out: Printer) -> Result<ExitCode, CliError> {
    let run = match args.selection()? {
        Selection::One(run) => run,
        Selection::Many(filter) => return args.change("retried", |client| client.retry_where(filter), out).await,
    };
    args.refuse_dry_run()?;
    run.open_any().await?.retry().await?;
    report(&run, "it resumes from its last recorded point", out)
}
