//! Shows the order as it runs: a line per event and, on a terminal, a picture of its progress.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use outlive::{EntryKind, Timestamp};

use super::picture::Picture;
use super::place::DemoFolder;
use super::scene::{RUN_ID, Scene};
use crate::error::Error;
use crate::facts::Said;
use crate::out::Out;
use crate::time;

/// Prints what happens.
pub(crate) struct View {
    out: Out,
    begun: Timestamp,
    /// Drawn only on a terminal.
    picture: Option<Picture>,
    /// How many entries and executions have been shown.
    told: (usize, usize),
}

impl View {
    pub(crate) fn new(out: Out) -> Self {
        let picture = (!out.is_json() && io::stdout().is_terminal()).then(Picture::new);
        Self { out, begun: time::now(), picture, told: (0, 0) }
    }

    pub(crate) fn open(&self, place: &DemoFolder) -> Result<(), Error> {
        let outlive = std::env::args().next().unwrap_or_else(|| "outlive".into());
        self.line("An order: charge the card, reserve stock (fails twice), sleep 2 s, wait for an approval, ship.")?;
        self.line(
            "Alongside it: a heartbeat, webhooks handled in batches, and mails, one of which cannot be delivered.",
        )?;
        self.line("A child process executes all of it, and is killed twice on the way. Watch it with")?;
        self.line(&format!("  {outlive} show {} {RUN_ID}", place.store().display()))?;
        self.line("")
    }

    pub(crate) fn started(&self, pid: u32) -> Result<(), Error> {
        self.event(time::now(), &format!("process {pid} starts"))
    }

    pub(crate) fn killed(&self, pid: u32, when: &str) -> Result<(), Error> {
        self.event(time::now(), &format!("process {pid} KILLED (SIGKILL) {when}"))
    }

    pub(crate) fn approved(&self) -> Result<(), Error> {
        self.event(time::now(), "the demo sends the approval")
    }

    /// Shows what is new, in the order in which it happened.
    pub(crate) fn show(&mut self, scene: &Scene) -> Result<(), Error> {
        let entries = scene.journal.get(self.told.0..).unwrap_or_default();
        let executions = scene.executions.get(self.told.1..).unwrap_or_default();
        let recorded = entries.iter().filter_map(|entry| Some((entry.at, told(entry)?)));
        let begun = executions.iter().map(|execution| {
            let what = format!("{}: attempt {} starts in process {}", execution.step, execution.attempt, execution.pid);
            (execution.at, what)
        });
        let mut rows: Vec<(Timestamp, String)> = recorded.chain(begun).collect();
        rows.sort_by_key(|(at, _)| *at);
        self.told = (scene.journal.len(), scene.executions.len());
        rows.iter().try_for_each(|(at, what)| self.event(*at, what))?;
        if let Some(picture) = &self.picture {
            picture.show(scene);
        }
        Ok(())
    }

    /// Removes the picture, so that the report takes its place.
    pub(crate) fn clear(&self) {
        self.picture.iter().for_each(Picture::clear);
    }

    fn event(&self, at: Timestamp, what: &str) -> Result<(), Error> {
        let since = at.since(self.begun);
        self.line(&format!("{} {what}", stamp(since)))
    }

    fn line(&self, text: &str) -> Result<(), Error> {
        match &self.picture {
            _ if self.out.is_json() => Ok(()),
            Some(picture) => picture.line(text).map_err(Error::Output),
            None => self.out.line(text),
        }
    }
}

fn stamp(since: Duration) -> String {
    format!("{:>5.1} s ", since.as_secs_f64())
}

/// Describes a journal entry, if the demo shows it.
fn told(entry: &outlive::Entry) -> Option<String> {
    let step = entry.op.strip_prefix("step:").unwrap_or(&entry.op);
    Some(match (entry.kind, Said::of(entry)) {
        (EntryKind::StepDone, _) => format!("{step}: done and RECORDED"),
        (EntryKind::AttemptFailed, Said::Failure { failure, .. }) => format!("{step}: {failure}; retry scheduled"),
        (EntryKind::SleepSet, _) => "the order sleeps".into(),
        (EntryKind::SleepDone, _) => "the sleep ends".into(),
        (EntryKind::WaitSet, _) => "the order waits for approval".into(),
        (EntryKind::SignalTaken, Said::Value(value)) => format!("approval received: {value}"),
        _ => return None,
    })
}
