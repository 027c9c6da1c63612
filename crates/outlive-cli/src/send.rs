//! `outlive send`: an event for a job.

use std::process::ExitCode;

use outlive::job::JobKind;
use serde_json::json;

use crate::error::Error;
use crate::input;
use crate::open::InstanceArgs;
use crate::out::Out;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    instance: InstanceArgs,
    /// The event, or `-` to read it from stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    event: String,
}

pub(crate) async fn run(args: &Args, out: Out) -> Result<ExitCode, Error> {
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
    let new = if created { ", which came into being by it" } else { "" };
    let document = json!({ "instance": name, "event": event, "created": created });
    let kept = format!("event {event} is kept for {name:?}{new}");
    out.answer(args.instance.store.outlook(&kept, &kept), &document)?;
    Ok(ExitCode::SUCCESS)
}
