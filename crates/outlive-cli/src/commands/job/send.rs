//! `outlive send`: sends an event to a job.

use std::process::ExitCode;

use outlive::job::JobKind;
use serde_json::json;

use crate::error::CliError;
use crate::input;
use crate::open::InstanceArgs;
use crate::output::printer::Printer;

#[derive(clap::Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Event as JSON, or `-` to read it from stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    event: String,
}

pub(crate) async fn run(args: &SendArgs, out: Printer) -> Result<ExitCode, CliError> {
    let event = input::json("event", &args.event)?;
    let opened = args.instance.open()?;
    let (event, created) = match opened.job.kind() {
        JobKind::Pool => (opened.job.push_json(event.get()).await?.event, false),
        _ => {
            let sent = opened.job.send_json(&opened.id, event.get()).await?;
            (sent.event, sent.created)
        }
    };
    let name = opened.name();
    let new = if created { ", a new instance" } else { "" };
    let document = json!({ "instance": name, "event": event, "created": created });
    let kept = format!("event {event} sent to {name:?}{new}");
    out.result(args.instance.store.outlook(&kept, &kept), &document)?;
    Ok(ExitCode::SUCCESS)
}
