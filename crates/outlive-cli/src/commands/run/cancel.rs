//! `outlive cancel`: asks a run to end.

use std::process::ExitCode;

use super::request::{EndArgs, report_end};
use crate::error::CliError;
use crate::output::printer::Printer;

pub(crate) async fn run(args: &EndArgs, out: Printer) -> Result<ExitCode, CliError> {
    let run = args.run.open().await?;
    let outcome = run.cancel(&args.reason).await?;
    let effect = "cancel requested; it may clean up before it ends as cancelled";
    report_end(&run, outcome, &args.run.store.outlook(effect, effect), out).await
}
