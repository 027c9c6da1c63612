//! `outlive stream`: prints the items of a stream, and follows it.

use std::process::ExitCode;

use outlive::StreamItem;
use serde_json::json;
use serde_json::value::RawValue;

use crate::error::CliError;
use crate::open::RunArgs;
use crate::output::escape;
use crate::output::printer::Printer;

/// How many items to read at once.
const PAGE: usize = 1_000;

#[derive(clap::Args)]
pub(crate) struct StreamArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Stream name
    #[arg(value_name = "NAME")]
    name: String,
    /// Offset of the first item
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    from: u64,
    /// Print new items as they are appended, until the run ends
    #[arg(short, long)]
    follow: bool,
}

pub(crate) async fn run(args: &StreamArgs, out: Printer) -> Result<ExitCode, CliError> {
    let run = args.run.read().await?;
    let mut items = run.stream::<Box<RawValue>>(&args.name).from(args.from);
    loop {
        let page = items.read(PAGE).await?;
        page.iter().try_for_each(|item| print(item, out))?;
        if page.is_empty() {
            break;
        }
    }
    while args.follow
        && let Some(item) = items.next().await?
    {
        print(&item, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints one item per line: JSON lines for programs, and for people the value, marked if its attempt has failed.
fn print(item: &StreamItem<Box<RawValue>>, out: Printer) -> Result<(), CliError> {
    if !out.is_json() {
        let attempt = item.attempt.as_ref().filter(|_| item.is_failed);
        let mark = attempt.map(|by| format!("  (attempt {} of {} failed)", by.number, by.step)).unwrap_or_default();
        return out.line(escape::plain(&format!("{}{mark}", item.value.get())));
    }
    let attempt = item.attempt.as_ref().map(|by| json!({ "step": by.step, "number": by.number, "epoch": by.epoch }));
    let document = json!({
        "offset": item.offset,
        "at": item.at.to_string(),
        "value": item.value,
        "attempt": attempt,
        "failed": item.is_failed,
    });
    out.line(escape::json(&document.to_string()))
}
