//! `outlive value`: prints what a run has published.

use std::process::ExitCode;

use outlive::Payload;
use serde_json::json;

use crate::error::CliError;
use crate::open::RunArgs;
use crate::output::escape::plain;
use crate::output::json::raw;
use crate::output::printer::Printer;

#[derive(clap::Args)]
pub(crate) struct ValueArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Name of the value; all values without one
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(crate) async fn run(args: &ValueArgs, out: Printer) -> Result<ExitCode, CliError> {
    let run = args.run.read().await?;
    let values = run.values().await?;
    match &args.name {
        Some(name) => {
            let value = values.get(name).ok_or_else(|| none(name, run.id(), values.keys()))?;
            out.result(value, &json!({ "id": run.id(), "name": name, "value": raw(value) }))?;
        }
        None if out.is_json() => {
            let values = values.iter().map(|(name, value)| (name, raw(value)));
            out.json(&json!({ "id": run.id(), "values": values.collect::<std::collections::BTreeMap<_, _>>() }))?;
        }
        None if values.is_empty() => out.line(plain(&format!("run {:?} has published nothing", run.id())))?,
        None => {
            let line = |(name, value): (&String, &Payload)| out.line(plain(&format!("{name} = {value}")));
            values.iter().try_for_each(line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn none<'a>(name: &str, id: &str, known: impl Iterator<Item = &'a String>) -> CliError {
    let known: Vec<_> = known.map(|name| format!("{name:?}")).collect();
    let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
    CliError::message(format!("run {id:?} has published no {name:?}; so far it has published {known}"))
}
