//! `outlive signal`: sends a named value to a run.

use std::process::ExitCode;

use serde_json::json;

use crate::error::CliError;
use crate::input;
use crate::open::RunArgs;
use crate::output::printer::Printer;

#[derive(clap::Args)]
pub(crate) struct SignalArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Signal name
    #[arg(value_name = "NAME")]
    name: String,
    /// Value as JSON, or `-` to read it from stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    value: String,
    /// Deduplication key: a second signal to the run with the same key is dropped
    #[arg(long, value_name = "KEY")]
    dedup_key: Option<String>,
}

pub(crate) async fn run(args: &SignalArgs, out: Printer) -> Result<ExitCode, CliError> {
    let value = input::json("value", &args.value)?;
    let run = args.run.open().await?;
    let mut signal = run.signal(&args.name, &value);
    if let Some(key) = &args.dedup_key {
        signal = signal.dedup_key(key);
    }
    // Read before sending: once the signal is taken, the run no longer waits for it.
    let note = run.info().await?.note;
    let is_kept = signal.await?;
    let mut sentence = match is_kept {
        true => {
            let kept = format!("signal {:?} sent to run {:?}", args.name, run.id());
            args.run.store.outlook(&kept, &kept)
        }
        false => format!(
            "signal {:?} dropped: run {:?} has already had a signal with the dedup key {:?}",
            args.name,
            run.id(),
            args.dedup_key.as_deref().unwrap_or_default()
        ),
    };
    if let Some(awaited) =
        note.filter(|note| is_kept && note.starts_with("waits for ") && !note.contains(&format!("{:?}", args.name)))
    {
        sentence.push_str(&format!("; the run is not waiting for it now: it {awaited}"));
    }
    out.result(sentence, &json!({ "id": run.id(), "signal": args.name, "dedup": args.dedup_key, "kept": is_kept }))?;
    Ok(ExitCode::SUCCESS)
}
