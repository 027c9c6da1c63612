//! `outlive pause`: pauses a run until it is resumed.

use std::process::ExitCode;

use super::request::report;
use crate::error::CliError;
use crate::open::RunArgs;
use crate::output::printer::Printer;

pub(crate) async fn run(args: &RunArgs, out: Printer) -> Result<ExitCode, CliError> {
    args.open().await?.pause().await?;
    report(args, "it pauses until it is resumed", out)
}
