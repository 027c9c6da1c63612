//! `outlive flush`: flushes the batch of a debounce job now.

use std::process::ExitCode;

use super::request::report;
use crate::error::CliError;
use crate::open::InstanceArgs;
use crate::output::printer::Printer;

pub(crate) async fn run(args: &InstanceArgs, out: Printer) -> Result<ExitCode, CliError> {
    let opened = args.open()?;
    let requested = opened.job.flush(&opened.id).await;
    let effect = args.store.outlook("its batch is flushed now", "its batch is flushed");
    report(&opened, requested, &effect, out).await
}
