//! A stored job instance, and whether a world may end with it in this state.

use std::collections::BTreeMap;

use outlive::{Status, Timestamp};
use outlive_core::id::{Epoch, InstanceNum, Name};
use outlive_core::job::Record;
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::LifecycleRecordKind;
use outlive_core::message::Inbound;
use outlive_core::store::commit::{Answer, Write};
use outlive_core::store::query::{Filter, Instance, Query};

/// Limit on the instances that are read.
const INSTANCES_MAX: usize = 100_000;
/// How often a job that schedules its own next turn must do so before the world may end.
const ROUNDS: u64 = 50;

/// The progress of jobs since the faults stopped.
#[derive(Default)]
pub(super) struct Since {
    /// How often each had run when the faults stopped.
    runs_before: BTreeMap<Name, u64>,
    /// How often the handlers of each have succeeded since.
    done: BTreeMap<InstanceNum, u64>,
}

impl Since {
    /// Starts counting when the faults stop, with the jobs that exist then.
    pub(super) fn begin(jobs: Vec<Kept>) -> Self {
        let runs_before = jobs.into_iter().map(|kept| (kept.instance.id, kept.record.runs)).collect();
        Self { runs_before, done: BTreeMap::new() }
    }

    /// Records durable writes.
    pub(super) fn written(&mut self, batch: &[Write], answers: &[Answer]) {
        for pair in batch.iter().zip(answers) {
            let (Write::Turn(turn), Answer::DoneWith(_)) = pair else { continue };
            let done = turn.lifecycle.iter().filter(|news| {
                matches!(news.kind, LifecycleRecordKind::JobExecuted | LifecycleRecordKind::EventHandled)
            });
            *self.done.entry(turn.num).or_default() += done.count() as u64;
        }
    }

    /// Whether some job may be one that keeps scheduling its own next turn.
    pub(super) fn has_rounds(&self) -> bool {
        self.done.values().any(|done| *done >= ROUNDS)
    }

    fn goes_round(&self, num: InstanceNum) -> bool {
        self.done.get(&num).is_some_and(|done| *done >= ROUNDS)
    }
}

/// A stored job instance.
pub(super) struct Kept {
    pub(super) instance: Instance,
    pub(super) record: Record,
    pub(super) inbox: Vec<Inbound>,
    /// Number of events in its queue.
    pub(super) queued: u64,
}

impl Kept {
    async fn of(store: &dyn Query, instance: Instance) -> Result<Self, String> {
        let record = instance.outcome.as_ref().map(Record::from_payload).transpose()?.unwrap_or_default();
        let inbox = store.inbox(instance.num, 0, usize::MAX).await.map_err(|error| error.to_string())?;
        let depth = store.depth(&instance.workflow, Timestamp::AT_ONCE).await.map_err(|error| error.to_string())?;
        Ok(Self { instance, record, inbox, queued: depth.queued })
    }

    /// Why the instance is not at rest, or `None` if it is. A recurring job must have run since the faults stopped, and
    /// one that schedules its own next turn must have done so often enough.
    pub(super) fn unrest(&self, since: &Since) -> Option<&'static str> {
        let Self { instance, record, inbox, queued } = self;
        let kind = JobKind::of(&instance.id);
        let wake = instance.wake;
        match instance.status {
            Status::Stuck => Some("it is stuck"),
            _ if !inbox.is_empty() => Some("messages wait in its inbox"),
            status if status.is_idle() && instance.owner != Epoch(0) => Some("it has an owner"),
            Status::Paused => None,
            status if status.is_idle() && kind == Some(JobKind::Continuous) => {
                let until = status.until();
                let is_planned = record.next.is_some() && record.next == until && wake == until;
                let is_busy = record.is_triggered || record.retry.is_some() || record.trouble.is_some();
                match () {
                    () if is_busy => Some("it has work to do"),
                    () if !is_planned => Some("it has no next run"),
                    () if record.runs <= since.runs_before.get(&instance.id).copied().unwrap_or(0) => {
                        Some("it has not run since the faults stopped")
                    }
                    () => None,
                }
            }
            Status::Waiting { until: None } if wake.is_none() => match kind {
                _ if *queued > 0 => Some("events are in its queue, but nothing wakes it"),
                Some(JobKind::Debounce) => Some("it holds a batch, but nothing wakes it"),
                _ => None,
            },
            Status::Sleeping { until } | Status::Retrying { at: until }
                if matches!(kind, Some(JobKind::Task | JobKind::Pool)) && since.goes_round(instance.num) =>
            {
                let is_failing = record.retry.is_some() || record.trouble.is_some();
                match () {
                    () if is_failing || record.is_triggered => Some("it has work to do"),
                    () if wake != Some(until) => Some("it waits for a moment, but nothing wakes it then"),
                    () => None,
                }
            }
            _ => Some("it is still running"),
        }
    }

    /// Describes the same for people.
    pub(super) fn problem(&self, since: &Since) -> Option<String> {
        let why = self.unrest(since)?;
        let Self { instance, record, inbox, queued } = self;
        Some(format!(
            "job {} is not at rest, although nothing blocks it: {why} ({}, note {:?}, wake {:?}, owner {:?}, {queued} \
             queued, inbox {inbox:?}, {record:?})",
            instance.id, instance.status, instance.note, instance.wake, instance.owner
        ))
    }
}

/// Reads all job instances.
pub(super) async fn all(store: &dyn Query) -> Result<Vec<Kept>, String> {
    let page = store.list(&Filter::jobs(), None, INSTANCES_MAX).await.map_err(|error| error.to_string())?;
    let mut all = Vec::with_capacity(page.instances.len());
    for instance in page.instances.into_iter().filter(|instance| !instance.status.is_ended()) {
        all.push(Kept::of(store, instance).await?);
    }
    Ok(all)
}
