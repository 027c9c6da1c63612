//! `outlive ask`: asks a run a question and prints its answer.

use std::process::ExitCode;

use serde_json::json;
use serde_json::value::RawValue;

use crate::error::CliError;
use crate::input;
use crate::open::{NOBODY, RunArgs};
use crate::output::printer::Printer;

#[derive(clap::Args)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Question name
    #[arg(value_name = "NAME")]
    name: String,
    /// Question as JSON, or `-` to read it from stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    question: String,
    /// Deduplication key: a second question with the same name and key gets the answer of the first
    #[arg(long, value_name = "KEY")]
    dedup_key: Option<String>,
    /// How long to wait for the answer, such as `30s`; as long as it takes without one
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,
}

pub(crate) async fn run(args: &AskArgs, out: Printer) -> Result<ExitCode, CliError> {
    let question = input::json("question", &args.question)?;
    let run = args.run.open().await?;
    let mut asking = run.ask::<_, Box<RawValue>>(&args.name, &question);
    if let Some(key) = &args.dedup_key {
        asking = asking.dedup_key(key);
    }
    if let Some(limit) = &args.wait {
        asking = asking.wait(limit.as_str());
    }
    if args.run.store.is_executed() == Some(false) {
        out.note(&format!("{NOBODY}; the run answers once one does"));
    }
    let answer = asking.await?;
    out.result(answer.get(), &json!({ "id": run.id(), "question": args.name, "answer": answer }))?;
    Ok(ExitCode::SUCCESS)
}
