//! `outlive purge`: removes everything stored about runs that have ended.

use std::process::ExitCode;

use super::bulk::{ManyArgs, Selection};
use super::request::RequestJson;
use crate::error::CliError;
use crate::output::printer::Printer;

pub(crate) async fn run(args: &ManyArgs, out: Printer) -> Result<ExitCode, CliError> {
    let run = match args.selection()? {
        Selection::One(run) => run,
        Selection::Many(filter) => return args.change("purged", |client| client.purge_where(filter), out).await,
    };
    args.refuse_dry_run()?;
    let run = run.open().await?;
    run.purge().await?;
    out.result(format!("run {:?} is purged; its id is free", run.id()), &RequestJson::taken(run.id()))?;
    Ok(ExitCode::SUCCESS)
}
