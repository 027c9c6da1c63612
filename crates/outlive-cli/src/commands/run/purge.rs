//! `outlive purge`: removes everything stored about a run that has ended.

use std::process::ExitCode;

use super::request::RequestJson;
use crate::error::CliError;
use crate::open::RunArgs;
use crate::output::printer::Printer;

pub(crate) async fn run(args: &RunArgs, out: Printer) -> Result<ExitCode, CliError> {
    let run = args.open().await?;
    run.purge().await?;
    out.result(format!("run {:?} is purged; its id is free", run.id()), &RequestJson::taken(run.id()))?;
    Ok(ExitCode::SUCCESS)
}
