//! The reply shared by commands that request something of an instance of a job.

use std::process::ExitCode;

use serde_json::json;

use crate::error::CliError;
use crate::open::OpenedInstance;
use crate::output::printer::Printer;

/// Reports the effect of a request, or why the instance refused it.
pub(crate) async fn report(
    opened: &OpenedInstance,
    requested: Result<(), outlive::Error>,
    effect: &str,
    out: Printer,
) -> Result<ExitCode, CliError> {
    if let Err(error) = requested {
        return Err(opened.explain(error).await);
    }
    let name = opened.name();
    out.result(format!("job {name:?}: {effect}"), &json!({ "instance": name, "taken": true }))?;
    Ok(ExitCode::SUCCESS)
}
