//! `outlive cancel`: asks runs to end.

use std::process::ExitCode;

use super::bulk::{ManyArgs, Selection};
use super::request::{ReasonArgs, report_end};
use crate::error::CliError;
use crate::output::printer::Printer;

#[derive(clap::Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    many: ManyArgs,
    #[command(flatten)]
    why: ReasonArgs,
}

pub(crate) async fn run(args: &CancelArgs, out: Printer) -> Result<ExitCode, CliError> {
    let (many, reason) = (&args.many, &args.why.reason);
    let named = match many.selection()? {
        Selection::One(run) => run,
        Selection::Many(filter) => {
            return many.change("cancelled", |client| client.cancel_where(filter, reason), out).await;
        }
    };
    many.refuse_dry_run()?;
    let run = named.open().await?;
    let outcome = run.cancel(reason).await?;
    let effect = "cancel requested; it may clean up before it ends as cancelled";
    report_end(&run, outcome, &named.store.outlook(effect, effect), out).await
}
