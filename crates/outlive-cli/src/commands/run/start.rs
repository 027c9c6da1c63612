//! `outlive start`: starts a run, for the process that executes the store.

use std::process::ExitCode;

use clap::ValueEnum;
use outlive::OnConflict;
use serde::Serialize;

use crate::error::CliError;
use crate::input;
use crate::open::{NOBODY, StoreArgs};
use crate::output::json::StatusJson;
use crate::output::printer::Printer;
use crate::typed;

#[derive(clap::Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Name under which the workflow is registered
    #[arg(value_name = "NAME")]
    workflow: String,
    /// Input as JSON, or `-` to read it from stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    input: String,
    /// Run id; generated if not given
    #[arg(long)]
    id: Option<String>,
    /// Start this much later, such as "30 s" or "2 days"
    #[arg(long, value_name = "DURATION")]
    delay: Option<String>,
    /// Cancel the run if it has not ended after this time
    #[arg(long, value_name = "DURATION")]
    deadline: Option<String>,
    /// Tag to find the run by; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = typed::pair)]
    tag: Vec<(String, String)>,
    /// What to do if the id is taken
    #[arg(long, value_enum, default_value_t = Conflict::Join, value_name = "WHAT")]
    on_conflict: Conflict,
}

#[derive(Clone, Copy, ValueEnum)]
enum Conflict {
    /// Return the existing run if its workflow and input are the same
    Join,
    /// Fail
    Reject,
    /// End and remove the existing run, whatever its state, and start this one
    Replace,
}

#[derive(Serialize)]
struct StartedJson<'a> {
    id: &'a str,
    workflow: &'a str,
    #[serde(flatten)]
    status: StatusJson,
}

pub(crate) async fn run(args: &StartArgs, out: Printer) -> Result<ExitCode, CliError> {
    let input = input::json("input", &args.input)?;
    let mut start = args.store.open()?.start_json(&args.workflow, input.get());
    if let Some(id) = &args.id {
        start = start.id(id);
    }
    if let Some(delay) = &args.delay {
        start = start.delay(delay.as_str());
    }
    if let Some(limit) = &args.deadline {
        start = start.deadline(limit.as_str());
    }
    for (key, value) in &args.tag {
        start = start.tag(key, value);
    }
    let run = start.on_conflict(args.on_conflict.into()).await.map_err(explain_conflict)?;
    let started = StartedJson { id: run.id(), workflow: &args.workflow, status: run.status().await?.into() };
    out.result(run.id(), &started)?;
    if !out.is_json() && args.store.is_executed() == Some(false) {
        out.note(&format!("{NOBODY}, so the run starts once one does"));
    }
    Ok(ExitCode::SUCCESS)
}

impl From<Conflict> for OnConflict {
    fn from(conflict: Conflict) -> Self {
        match conflict {
            Conflict::Join => Self::Join,
            Conflict::Reject => Self::Reject,
            Conflict::Replace => Self::Replace,
        }
    }
}

/// Converts a conflict error: the library suggests a line of Rust, the command line a flag.
fn explain_conflict(error: outlive::Error) -> CliError {
    match error {
        outlive::Error::Conflict { id, workflow, how } => CliError::message(format!(
            "run id {id:?} is taken by a run of {workflow:?} {how}; use another --id, or --on-conflict replace"
        )),
        other => other.into(),
    }
}
