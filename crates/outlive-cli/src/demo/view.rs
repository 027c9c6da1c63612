//! Shows the order as it runs: a line per event and, on a terminal, a picture of its progress.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use outlive::{EntryKind, Timestamp};

use super::folder::DemoFolder;
use super::picture::Picture;
use super::snapshot::{OrderSnapshot, RUN_ID};
use crate::error::CliError;
use crate::output::entry::EntryPayload;
use crate::output::printer::Printer;
use crate::output::time;

/// Prints what happens.
pub(crate) struct DemoView {
    out: Printer,
    begun: Timestamp,
    /// Drawn only on a terminal.
    picture: Option<Picture>,
    /// How many entries and executions have been shown.
    shown: (usize, usize),
}

impl DemoView {
    pub(crate) fn new(out: Printer) -> Self {
        let picture = (!out.is_json() && io::stdout().is_terminal()).then(Picture::new);
        Self { out, begun: time::now(), picture, shown: (0, 0) }
    }

    pub(crate) fn open(&self, folder: &DemoFolder) -> Result<(), CliError> {
        let outlive = std::env::args().next().unwrap_or_else(|| "outlive".into());
        self.line("An order: charge the card, reserve stock (fails twice), sleep 2 s, wait for an approval, ship.")?;
        self.line(
            "Alongside it: a heartbeat, webhooks handled in batches, and mails, one of which cannot be delivered.",
        )?;
        self.line("A child process executes all of it, and is killed twice on the way. Watch it with")?;
        self.line(&format!("  {outlive} show {} {RUN_ID}", folder.store().display()))?;
        self.line("")
    }

    pub(crate) fn started(&self, pid: u32) -> Result<(), CliError> {
        self.event(time::now(), &format!("process {pid} starts"))
    }

    pub(crate) fn killed(&self, pid: u32, when: &str) -> Result<(), CliError> {
        self.event(time::now(), &format!("process {pid} KILLED (SIGKILL) {when}"))
    }

    pub(crate) fn approved(&self) -> Result<(), CliError> {
        self.event(time::now(), "the demo sends the approval")
    }

    /// Shows what is new, in the order in which it happened.
    pub(crate) fn show(&mut self, snapshot: &OrderSnapshot) -> Result<(), CliError> {
        let entries = snapshot.journal.get(self.shown.0..).unwrap_or_default();
        let executions = snapshot.executions.get(self.shown.1..).unwrap_or_default();
        let recorded = entries.iter().filter_map(|entry| Some((entry.at, describe(entry)?)));
        let begun = executions.iter().map(|execution| {
            let what = format!("{}: attempt {} starts in process {}", execution.step, execution.attempt, execution.pid);
            (execution.at, what)
        });
        let mut rows: Vec<(Timestamp, String)> = recorded.chain(begun).collect();
        rows.sort_by_key(|(at, _)| *at);
        self.shown = (snapshot.journal.len(), snapshot.executions.len());
        rows.iter().try_for_each(|(at, what)| self.event(*at, what))?;
        if let Some(picture) = &self.picture {
            picture.show(snapshot);
        }
        Ok(())
    }

    /// Removes the picture, so that the report takes its folder.
    pub(crate) fn clear(&self) {
        self.picture.iter().for_each(Picture::clear);
    }

    fn event(&self, at: Timestamp, what: &str) -> Result<(), CliError> {
        let since = at.since(self.begun);
        self.line(&format!("{} {what}", stamp(since)))
    }

    fn line(&self, text: &str) -> Result<(), CliError> {
        match &self.picture {
            _ if self.out.is_json() => Ok(()),
            Some(picture) => picture.line(text).map_err(CliError::Output),
            None => self.out.line(text),
        }
    }
}

fn stamp(since: Duration) -> String {
    format!("{:>5.1} s ", since.as_secs_f64())
}

/// Describes a journal entry, if the demo shows it.
fn describe(entry: &outlive::Entry) -> Option<String> {
    let step = entry.op.strip_prefix("step:").unwrap_or(&entry.op);
    Some(match (entry.kind, EntryPayload::of(entry)) {
        (EntryKind::StepDone, _) => format!("{step}: done and RECORDED"),
        (EntryKind::AttemptFailed, EntryPayload::Failure { failure, .. }) => {
            format!("{step}: {failure}; retry scheduled")
        }
        (EntryKind::SleepSet, _) => "the order sleeps".into(),
        (EntryKind::SleepDone, _) => "the sleep ends".into(),
        (EntryKind::WaitSet, _) => "the order waits for approval".into(),
        (EntryKind::SignalTaken, EntryPayload::Value(value)) => format!("approval received: {value}"),
        _ => return None,
    })
}
