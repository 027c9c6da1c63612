//! The order as it goes: a line for each thing that happens and, on a terminal, a picture of where it is.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use outlive::{EntryKind, Timestamp};

use super::picture::Picture;
use super::place::Place;
use super::scene::{RUN_ID, Scene};
use crate::error::Error;
use crate::facts::Said;
use crate::out::Out;
use crate::time;

/// Writes what happens.
pub(crate) struct View {
    out: Out,
    begun: Timestamp,
    /// On a terminal.
    picture: Option<Picture>,
    /// How many entries and executions have been told.
    told: (usize, usize),
}

impl View {
    pub(crate) fn new(out: Out) -> Self {
        let picture = (!out.is_json() && io::stdout().is_terminal()).then(Picture::new);
        Self { out, begun: time::now(), picture, told: (0, 0) }
    }

    pub(crate) fn open(&self, place: &Place) -> Result<(), Error> {
        let outlive = std::env::args().next().unwrap_or_else(|| "outlive".into());
        self.line("An order: charge the card, reserve stock (fails twice), sleep 2 s, wait for an approval, ship.")?;
        self.line(
            "Beside it: a heartbeat, webhooks that are handled in batches, and mails, one of which cannot be sent.",
        )?;
        self.line("Another process executes all of it, and is killed twice on the way. Look at it meanwhile with")?;
        self.line(&format!("  {outlive} show {} {RUN_ID}", place.store().display()))?;
        self.line("")
    }

    pub(crate) fn started(&self, pid: u32) -> Result<(), Error> {
        self.event(time::now(), &format!("process {pid} starts"))
    }

    pub(crate) fn killed(&self, pid: u32, when: &str) -> Result<(), Error> {
        self.event(time::now(), &format!("process {pid} is KILLED (SIGKILL) {when}"))
    }

    pub(crate) fn approved(&self) -> Result<(), Error> {
        self.event(time::now(), "the demo signals the approval")
    }

    /// Tells what is new, in the order in which it happened.
    pub(crate) fn show(&mut self, scene: &Scene) -> Result<(), Error> {
        let entries = scene.journal.get(self.told.0..).unwrap_or_default();
        let executions = scene.executions.get(self.told.1..).unwrap_or_default();
        let recorded = entries.iter().filter_map(|entry| Some((entry.at, told(entry)?)));
        let begun = executions.iter().map(|execution| {
            let what = format!("{}: attempt {} begins in process {}", execution.step, execution.attempt, execution.pid);
            (execution.at, what)
        });
        let mut news: Vec<(Timestamp, String)> = recorded.chain(begun).collect();
        news.sort_by_key(|(at, _)| *at);
        self.told = (scene.journal.len(), scene.executions.len());
        news.iter().try_for_each(|(at, what)| self.event(*at, what))?;
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

/// What an entry says, in the words of the demo.
fn told(entry: &outlive::Entry) -> Option<String> {
    let step = entry.op.strip_prefix("step:").unwrap_or(&entry.op);
    Some(match (entry.kind, Said::of(entry)) {
        (EntryKind::StepDone, _) => format!("{step}: done, RECORDED"),
        (EntryKind::AttemptFailed, Said::Failure { failure, .. }) => format!("{step}: {failure}; a retry is set"),
        (EntryKind::SleepSet, _) => "the order sleeps".into(),
        (EntryKind::SleepDone, _) => "the sleep is over".into(),
        (EntryKind::WaitSet, _) => "the order waits for its approval".into(),
        (EntryKind::SignalTaken, Said::Value(value)) => format!("the approval is taken: {value}"),
        _ => return None,
    })
}
