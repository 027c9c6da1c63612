//! `outlive trigger`: executes an instance of a job now.

use std::process::ExitCode;

use super::request::report;
use crate::error::CliError;
use crate::open::InstanceArgs;
use crate::output::printer::Printer;

pub(crate) async fn run(args: &InstanceArgs, out: Printer) -> Result<ExitCode, CliError> {
    let opened = args.open()?;
    let requested = opened.job.trigger(&opened.id).await;
    let effect = args.store.outlook("it is executed now", "it is executed");
    report(&opened, requested, &effect, out).await
}
