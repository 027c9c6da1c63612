//! An instance of a job as the store has it, and whether it may be left like that.

use std::collections::BTreeMap;

use outlive::{Status, Timestamp};
use outlive_core::id::{Epoch, Name};
use outlive_core::job::Record;
use outlive_core::kind::JobKind;
use outlive_core::message::Inbound;
use outlive_core::query::{Filter, Instance, Query};
use outlive_core::status::Pause;

/// The most instances that are looked at.
const INSTANCES_MAX: usize = 100_000;

/// An instance as the store has it.
pub(super) struct Kept {
    pub(super) instance: Instance,
    pub(super) record: Record,
    pub(super) inbox: Vec<Inbound>,
    /// How many events wait in its queue.
    pub(super) queued: u64,
}

impl Kept {
    async fn of(store: &dyn Query, instance: Instance) -> Result<Self, String> {
        let record = instance.outcome.as_ref().map(Record::from_payload).transpose()?.unwrap_or_default();
        let inbox = store.inbox(instance.num, 0).await.map_err(|error| error.to_string())?;
        let depth = store.depth(&instance.workflow, Timestamp::AT_ONCE).await.map_err(|error| error.to_string())?;
        Ok(Self { instance, record, inbox, queued: depth.queued })
    }

    /// Why it is not at rest, if it is not. One that runs again and again must have run more often than before.
    pub(super) fn unrest(&self, runs_before: &BTreeMap<Name, u64>) -> Option<&'static str> {
        let Self { instance, record, inbox, queued } = self;
        let kind = JobKind::of(&instance.id);
        let wake = instance.wake;
        match instance.status {
            Status::Stuck => Some("it is set aside"),
            _ if !inbox.is_empty() => Some("something waits for it"),
            Status::Paused { .. } if instance.owner != Epoch(0) => Some("somebody drives it"),
            Status::Paused { why: Pause::Hand, .. } => None,
            Status::Paused { until, .. } if kind == Some(JobKind::Continuous) => {
                let is_planned = record.next.is_some() && record.next == until && wake == until;
                let is_busy = record.is_triggered || record.retry.is_some() || record.trouble.is_some();
                match () {
                    () if is_busy => Some("it has something to do"),
                    () if !is_planned => Some("it has no next run"),
                    () if record.runs <= runs_before.get(&instance.id).copied().unwrap_or(0) => {
                        Some("it has not run since the faults stopped")
                    }
                    () => None,
                }
            }
            Status::Paused { until: None, .. } if wake.is_none() => match kind {
                _ if *queued > 0 => Some("events are in its queue, and nothing wakes it"),
                Some(JobKind::Debounce) => Some("it keeps a batch, and nothing wakes it"),
                _ => None,
            },
            _ => Some("it goes on"),
        }
    }

    /// The same in words.
    pub(super) fn problem(&self, runs_before: &BTreeMap<Name, u64>) -> Option<String> {
        let why = self.unrest(runs_before)?;
        let Self { instance, record, inbox, queued } = self;
        Some(format!(
            "job {} is not at rest though nothing is in its way: {why} ({}, note {:?}, wake {:?}, owner {:?}, {queued} \
             queued, inbox {inbox:?}, {record:?})",
            instance.id, instance.status, instance.note, instance.wake, instance.owner
        ))
    }
}

/// All instances of jobs.
pub(super) async fn all(store: &dyn Query) -> Result<Vec<Kept>, String> {
    let page = store.list(&Filter::jobs(), None, INSTANCES_MAX).await.map_err(|error| error.to_string())?;
    let mut all = Vec::with_capacity(page.instances.len());
    for instance in page.instances.into_iter().filter(|instance| !instance.status.is_ended()) {
        all.push(Kept::of(store, instance).await?);
    }
    Ok(all)
}
