//! Follows a live run: prints its journal entries as they arrive, and a status line.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outlive::{Entry, EntryKind, RunInfo, Status};

use super::journal_pages::JournalPages;
use crate::error::CliError;
use crate::open::{AnyRun, NOBODY, StoreArgs};
use crate::output::escape::plain;
use crate::output::journal::JournalTable;
use crate::output::printer::Printer;
use crate::output::run_details;
use crate::output::table::Fit;
use crate::output::time;

/// The poll interval.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Shows the run until it ends or is stuck, and updates `info` to its last state.
pub(crate) async fn to_the_end(run: &AnyRun, info: &mut RunInfo, mut view: FollowView<'_>) -> Result<(), CliError> {
    let mut journal = JournalPages::new(run);
    loop {
        while let Some(page) = journal.next().await? {
            view.add(&page)?;
        }
        view.line(info);
        if info.status.is_ended() || info.status == Status::Stuck {
            return view.close(info);
        }
        tokio::time::sleep(LOOK_EVERY).await;
        *info = run.info().await?;
    }
}

/// The display of a followed run.
pub(crate) struct FollowView<'a> {
    store: &'a StoreArgs,
    out: Printer,
    fit: Fit,
    bar: ProgressBar,
    table: JournalTable,
    /// How many steps have completed.
    steps: usize,
}

impl<'a> FollowView<'a> {
    pub(crate) async fn new(
        run: &AnyRun,
        info: &RunInfo,
        store: &'a StoreArgs,
        (out, fit): (Printer, Fit),
    ) -> Result<Self, CliError> {
        if !out.is_json() {
            let children = run.children().count().await?;
            let published = run.values().await?;
            out.line(format!("{}\n", run_details::of(info, &children, &published, fit)))?;
        }
        if !info.status.is_ended() && store.is_executed() == Some(false) {
            out.note(&format!("{NOBODY}, so the run does not continue until one does"));
        }
        let target = if io::stdout().is_terminal() || out.is_json() {
            ProgressDrawTarget::stderr()
        } else {
            // A status line that is redrawn is of no use in a file.
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(
            ProgressStyle::with_template("{spinner:.cyan} {elapsed} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        bar.enable_steady_tick(LOOK_EVERY);
        let table = JournalTable::new(fit, info.created_at).with_room();
        Ok(Self { store, out, fit, bar, table, steps: 0 })
    }

    /// Prints new journal entries.
    fn add(&mut self, new: &[Entry]) -> Result<(), CliError> {
        self.steps += new.iter().filter(|entry| entry.kind == EntryKind::StepDone).count();
        if self.out.is_json() {
            return Ok(());
        }
        let rows = self.table.part(new);
        self.bar.suspend(|| self.out.line(rows))
    }

    fn line(&self, info: &RunInfo) {
        let steps = if self.steps == 1 { "1 step".into() } else { format!("{} steps", self.steps) };
        let status = plain(&time::status(info, time::now()));
        let nobody = if self.store.is_executed() == Some(false) { format!("; {NOBODY}") } else { String::new() };
        self.bar.set_message(format!("{steps} done, {status}{nobody}"));
    }

    /// Prints how the run ended.
    fn close(&self, info: &RunInfo) -> Result<(), CliError> {
        self.bar.finish_and_clear();
        if self.out.is_json() {
            return Ok(());
        }
        let what = info.output.as_ref().map(ToString::to_string);
        let what = what.or_else(|| info.failure.as_ref().map(ToString::to_string)).or_else(|| info.note.clone());
        let what = what.map_or_else(String::new, |what| format!(": {}", self.shorten(&plain(&what))));
        self.out.line(format!("\n{}{what}", plain(&info.status.to_string())))
    }

    fn shorten(&self, text: &str) -> String {
        const SHOWN_MAX: usize = 200;
        match text.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) if self.fit == Fit::Terminal => format!("{}…", &text[..end]),
            _ => text.to_owned(),
        }
    }
}
