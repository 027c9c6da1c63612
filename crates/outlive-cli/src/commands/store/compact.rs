//! `outlive compact`: gives the free pages of a file back to the file system.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use outlive_sqlite::Compacted;
use serde::Serialize;

use crate::error::CliError;
use crate::open::StoreArgs;
use crate::output::printer::Printer;

#[derive(clap::Args)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Serialize)]
struct CompactJson {
    bytes_before: u64,
    bytes_after: u64,
}

pub(crate) async fn run(args: &CompactArgs, out: Printer) -> Result<ExitCode, CliError> {
    let file = args.store.file()?;
    let bar = bar();
    let compaction = tokio::task::spawn_blocking({
        let bar = bar.clone();
        move || {
            outlive_sqlite::compact(&file, |progress| {
                bar.set_length(progress.total);
                bar.set_position(progress.done);
            })
        }
    });
    let compacted = compaction.await.map_err(|error| CliError::message(format!("the compaction failed: {error}")))?;
    bar.finish_and_clear();
    let Compacted { before, after, .. } = compacted.map_err(|error| CliError::message(error.message))?;
    if out.is_json() {
        out.json(&CompactJson { bytes_before: before, bytes_after: after })?;
    } else {
        let (from, to, saved) = (HumanBytes(before), HumanBytes(after), HumanBytes(before.saturating_sub(after)));
        out.line(format!("{from} before, {to} after: {saved} given back"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn bar() -> ProgressBar {
    let is_watched = io::stderr().is_terminal();
    let target = if is_watched { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    let template = "{spinner:.cyan} {elapsed} {wide_bar:.cyan} {bytes} of {total_bytes}";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
