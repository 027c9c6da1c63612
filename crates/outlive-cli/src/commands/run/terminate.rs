//! `outlive terminate`: ends a run, or removes an instance of a job, without cleanup.

use std::process::ExitCode;

use super::request::{EndArgs, RequestJson, report_end};
use crate::error::CliError;
use crate::open::open_instance;
use crate::output::printer::Printer;

pub(crate) async fn run(args: &EndArgs, out: Printer) -> Result<ExitCode, CliError> {
    if args.run.is_job() {
        return terminate_job(args, out).await;
    }
    let run = args.run.open().await?;
    let outcome = run.terminate(&args.why.reason).await?;
    let effect = args.run.store.outlook("it ends at once as cancelled", "it ends as cancelled");
    report_end(&run, outcome, &effect, out).await
}

async fn terminate_job(args: &EndArgs, out: Printer) -> Result<ExitCode, CliError> {
    let opened = open_instance(args.run.store.open()?, &args.run.id)?;
    if let Err(error) = opened.job.terminate(&opened.id, &args.why.reason).await {
        return Err(opened.explain(error).await);
    }
    let name = opened.name();
    let (now, later) = (
        "it ends at once, and its state, inbox and wake are removed",
        "it ends, and its state, inbox and wake are removed",
    );
    let sentence = format!("job {name:?}: {}", args.run.store.outlook(now, later));
    out.result(sentence, &RequestJson::taken(&name))?;
    Ok(ExitCode::SUCCESS)
}
