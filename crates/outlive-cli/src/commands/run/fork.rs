//! `outlive fork`: creates a run that continues from a point of another one.

use std::process::ExitCode;

use super::request::RequestJson;
use super::rewind::{PlanJson, PointArgs};
use crate::error::CliError;
use crate::input;
use crate::open::RunArgs;
use crate::output::printer::Printer;

#[derive(clap::Args)]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    at: PointArgs,
    /// Input of the new run, as JSON, or - to read it from stdin; the same as before if not given
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Id of the new run
    #[arg(long = "id", value_name = "NEW ID")]
    new_id: Option<String>,
    /// Say what would run again, and create nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: &ForkArgs, out: Printer) -> Result<ExitCode, CliError> {
    if args.dry_run {
        let plan = args.run.read().await?.fork(args.at.point()).dry_run().await?;
        out.result(&plan, &PlanJson::new(&plan, true))?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = args.run.open().await?;
    let mut fork = run.fork(args.at.point());
    if let Some(input) = &args.input {
        fork = fork.input_json(input::json("input", input)?.get());
    }
    if let Some(id) = &args.new_id {
        fork = fork.id(id);
    }
    let forked = fork.await?;
    let effect = args.run.store.outlook("it continues from there", "it continues from there");
    let sentence = format!("run {:?} is forked from run {:?}: {effect}", forked.id(), run.id());
    out.result(sentence, &RequestJson::taken(forked.id()))?;
    Ok(ExitCode::SUCCESS)
}
