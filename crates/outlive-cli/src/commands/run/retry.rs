//! `outlive retry`: resumes a failed or stuck run, or a stuck job.

use std::process::ExitCode;

use super::request::report;
use crate::error::CliError;
use crate::open::RunArgs;
use crate::output::printer::Printer;

pub(crate) async fn run(args: &RunArgs, out: Printer) -> Result<ExitCode, CliError> {
    args.open_any().await?.retry().await?;
    report(args, "it resumes from its last recorded point", out)
}
