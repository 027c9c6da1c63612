//! `outlive resume`: resumes a paused run.

use std::process::ExitCode;

use super::request::report;
use crate::error::CliError;
use crate::open::RunArgs;
use crate::output::printer::Printer;

pub(crate) async fn run(args: &RunArgs, out: Printer) -> Result<ExitCode, CliError> {
    args.open().await?.resume().await?;
    report(args, "it resumes", out)
}
