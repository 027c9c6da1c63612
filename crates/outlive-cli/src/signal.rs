//! `outlive signal`: a named value for a run.

use std::process::ExitCode;

use serde_json::json;

use crate::error::Error;
use crate::input;
use crate::open::RunArgs;
use crate::out::Out;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// The signal's name
    #[arg(value_name = "NAME")]
    name: String,
    /// The value, or `-` to read it from stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    value: String,
    /// A second signal to the run with the same key is not kept
    #[arg(long, value_name = "KEY")]
    dedup: Option<String>,
}

pub(crate) async fn run(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let value = input::json("value", &args.value)?;
    let run = args.run.open().await?;
    let mut signal = run.signal(&args.name, &value);
    if let Some(key) = &args.dedup {
        signal = signal.dedup(key);
    }
    // Before it is sent: once it is taken, nobody waits for it.
    let note = run.info().await?.note;
    let is_kept = signal.await?;
    let mut sentence = match is_kept {
        true => {
            let kept = format!("signal {:?} is kept for run {:?}", args.name, run.id());
            args.run.store.outlook(&kept, &kept)
        }
        false => format!(
            "signal {:?} is dropped: run {:?} has had a signal with the dedup key {:?}",
            args.name,
            run.id(),
            args.dedup.as_deref().unwrap_or_default()
        ),
    };
    if let Some(awaited) =
        note.filter(|note| is_kept && note.starts_with("waits for ") && !note.contains(&format!("{:?}", args.name)))
    {
        sentence.push_str(&format!("; the run does not wait for it now: it {awaited}"));
    }
    out.answer(sentence, &json!({ "id": run.id(), "signal": args.name, "dedup": args.dedup, "kept": is_kept }))?;
    Ok(ExitCode::SUCCESS)
}
