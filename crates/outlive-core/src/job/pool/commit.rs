//! Puts together what a pool commits, and keeps what follows once it is durable.

use super::outcome::{Fate, Finished, readable};
use super::read_ahead::earlier;
use crate::event::Event;
use crate::id::Name;
use crate::job::call::{Exhausted, HandlerKind};
use crate::job::policy::{FailureVerdict, failure_records};
use crate::lifecycle::{Detail, LifecycleRecord, LifecycleRecordKind};
use crate::queue::{Dead, Moved, Queued};
use crate::store::commit::{NewState, Write};
use crate::time::Timestamp;

/// Everything a pool commits at once.
#[derive(Clone, Debug, Default)]
pub struct PoolChange {
    /// Lifecycle events.
    pub lifecycle: Vec<LifecycleRecord>,
    /// Inbox positions of messages that are done.
    pub taken: Vec<u64>,
    /// Changes to events in the queue.
    pub queue: Vec<Moved>,
    /// Dead letters.
    pub dead: Vec<Dead>,
    /// What handlers send.
    pub writes: Vec<Write>,
    /// The new state, if it changes.
    pub state: Option<NewState>,
}

/// A commit in progress: what follows once it is durable, and what is needed if it is refused.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    /// Events that are no longer held.
    pub(super) events: Vec<u64>,
    /// Messages that are done.
    pub(super) taken: Vec<u64>,
    /// Retries that ran out.
    pub(super) exhausted: Vec<Exhausted>,
    /// Calls that start.
    pub(super) begins: Vec<Vec<Queued>>,
    /// The finished call, if it asked for writes.
    pub(super) again: Option<Finished>,
    /// Whether the pool was owned before.
    pub(super) was_owned: bool,
    /// Whether events wait for a time now.
    pub(super) is_delaying: bool,
    /// Whether the pool is released.
    pub(super) is_rest: bool,
}

/// A commit being put together.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) change: PoolChange,
    pub(super) then: InFlight,
    /// When the first event is retried.
    pub(super) next_due: Option<Timestamp>,
}

impl Draft {
    pub(super) fn is_empty(&self) -> bool {
        self.change.queue.is_empty() && self.change.taken.is_empty()
    }

    /// Adds messages that are done, with the lifecycle events they lead to.
    pub(super) fn take(&mut self, taken: Vec<u64>, lifecycle: Vec<LifecycleRecord>) {
        self.then.taken.clone_from(&taken);
        (self.change.taken, self.change.lifecycle) = (taken, lifecycle);
    }

    /// Adds calls that are about to start.
    pub(super) fn mark(&mut self, begins: Vec<Vec<Queued>>) {
        for queued in begins.iter().flatten() {
            // A row that does not decode is not overwritten.
            if let Ok(event) = &queued.event {
                let (pos, from, to) = (queued.pos, queued.spot.clone(), Some(event.clone()));
                self.move_event(Moved { pos, from, key: None, to });
            }
        }
        self.then.begins = begins;
    }

    /// Adds the outcome of a call of the pool with this id.
    pub(super) fn finish(&mut self, id: &Name, finished: Finished) {
        let Finished { events, began, at, writes } = finished;
        self.change.writes.extend(writes);
        for (queued, fate) in events {
            let Queued { pos, spot, event, .. } = queued;
            let event = readable(event);
            let key = event.dedup.clone();
            let to = match fate {
                Fate::Done => {
                    let duration_ms = u64::try_from(at.since(began).as_millis()).ok().filter(|millis| *millis > 0);
                    let detail = Detail { event: Some(pos), duration_ms, ..Detail::default() }.to_payload();
                    let (kind, attempt) = (LifecycleRecordKind::JobExecuted, event.failed + 1);
                    self.change.lifecycle.push(LifecycleRecord { at, kind, attempt, detail: Some(detail) });
                    None
                }
                fate => self.fail(id, (pos, event), fate, at),
            };
            self.next_due = earlier(self.next_due, to.as_ref().and_then(|event| event.due));
            self.then.events.push(pos);
            self.move_event(Moved { pos, from: spot, key, to });
        }
    }

    /// Adds the failure of an event. Returns the event to store if it is retried.
    fn fail(&mut self, id: &Name, (pos, event): (u64, Event), fate: Fate, at: Timestamp) -> Option<Event> {
        let Fate::Failed { failure, failed, since, verdict, dead } = fate else { return None };
        let about = Detail { event: Some(pos), handler: Some("execute".into()), ..Detail::default() };
        let (failed_record, exhausted) = failure_records(&verdict, &failure, failed, about, at);
        self.change.lifecycle.push(failed_record);
        self.change.lifecycle.extend(exhausted);
        self.change.dead.extend(dead.map(|dead| *dead));
        match verdict {
            FailureVerdict::Again { due, .. } => {
                let failure = Some(failure.to_payload());
                Some(Event { failed, due: Some(due), tried_at: Some(since), failure, deaths: 0, ..event })
            }
            FailureVerdict::GiveUp(reason) => {
                self.then.exhausted.extend(
                    reason.map(|reason| {
                        Exhausted::new(id, HandlerKind::Execute, failed, reason, failure, at.since(since))
                    }),
                );
                None
            }
        }
    }

    fn move_event(&mut self, moved: Moved) {
        self.then.is_delaying |= moved.to.as_ref().is_some_and(|event| event.due.is_some());
        self.change.queue.push(moved);
    }
}
