//! The arguments and replies shared by commands that request something of a run.

use std::process::ExitCode;

use outlive::CancelOutcome;
use serde::Serialize;

use crate::error::CliError;
use crate::open::{AnyRun, RunArgs};
use crate::output::json::StatusJson;
use crate::output::printer::Printer;

/// The arguments of `terminate`.
#[derive(clap::Args)]
pub(crate) struct EndArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) why: ReasonArgs,
}

/// Why a run is to end.
#[derive(clap::Args)]
pub(crate) struct ReasonArgs {
    /// Reason, stored with the run
    #[arg(long, default_value = "requested on the command line")]
    pub(crate) reason: String,
}

/// The reply to a request as JSON.
#[derive(Serialize)]
pub(crate) struct RequestJson<'a> {
    id: &'a str,
    #[serde(rename = "taken")]
    is_taken: bool,
    #[serde(flatten)]
    status: Option<StatusJson>,
}

impl<'a> RequestJson<'a> {
    /// Returns the reply to a request that was accepted.
    pub(crate) fn taken(id: &'a str) -> Self {
        Self { id, is_taken: true, status: None }
    }
}

/// Reports what an accepted request does to a run or job.
pub(crate) fn report(run: &RunArgs, effect: &str, out: Printer) -> Result<ExitCode, CliError> {
    let noun = if run.is_job() { "job" } else { "run" };
    let sentence = format!("{noun} {:?}: {}", run.id, run.store.outlook(effect, effect));
    out.result(sentence, &RequestJson::taken(&run.id))?;
    Ok(ExitCode::SUCCESS)
}

/// Reports whether the run was still live when its end was requested. Either way the command succeeds: the run does not
/// continue.
pub(crate) async fn report_end(
    run: &AnyRun,
    outcome: CancelOutcome,
    effect: &str,
    out: Printer,
) -> Result<ExitCode, CliError> {
    let sentence = match outcome {
        CancelOutcome::Ended(status) => format!("run {:?} has already ended: {status}; nothing was changed", run.id()),
        CancelOutcome::TakenStuck => format!(
            "run {:?} was stuck and is now cancelled; its code could not continue, so its cleanup did not run: undo by \
             hand what `outlive show` lists as done",
            run.id()
        ),
        _ => format!("run {:?}: {effect}", run.id()),
    };
    let status = match outcome {
        CancelOutcome::Ended(status) => status,
        _ => run.status().await?,
    };
    let is_taken = !matches!(outcome, CancelOutcome::Ended(_));
    out.result(sentence, &RequestJson { id: run.id(), is_taken, status: Some(status.into()) })?;
    Ok(ExitCode::SUCCESS)
}
