//! Commits the outcomes of a pool's handlers.

use std::sync::atomic::Ordering;

use outlive_core::event::Event;
use outlive_core::job::{Exhausted, HandlerKind, Record, Verdict, failure_records};
use outlive_core::lifecycle::{Detail, LifecycleRecord, LifecycleRecordKind};
use outlive_core::queue::{Dead, Moved, Queued};
use outlive_core::status::Status;
use outlive_core::store::commit::{NewState, Turn, Write};
use outlive_core::time::Timestamp;

use super::PoolDriver;
use super::outcome::{Fate, Finished, event_of};
use crate::instance::logs;
use crate::runtime::committer::Reply;

/// A commit in progress.
pub(super) struct Submitted {
    pub(super) events: Vec<u64>,
    pub(super) taken: Vec<u64>,
    pub(super) exhausted: Vec<Exhausted>,
    /// Calls that start once this commit is durable.
    pub(super) begins: Vec<Vec<Queued>>,
    /// The finished call, in case the commit is refused.
    pub(super) again: Option<Finished>,
    /// The values of `reported` and `is_owned` before, in case the commit is refused.
    pub(super) before: (u64, bool),
    /// Whether the commit makes events wait for a time.
    pub(super) is_delaying: bool,
    pub(super) is_rest: bool,
}

/// A commit being put together.
#[derive(Default)]
pub(super) struct Draft {
    lifecycle: Vec<LifecycleRecord>,
    taken: Vec<u64>,
    moved: Vec<Moved>,
    dead: Vec<Dead>,
    writes: Vec<Write>,
    events: Vec<u64>,
    exhausted: Vec<Exhausted>,
    begins: Vec<Vec<Queued>>,
}

impl Draft {
    fn is_empty(&self) -> bool {
        self.moved.is_empty() && self.taken.is_empty()
    }
}

impl PoolDriver {
    /// Commits the outcomes of handlers, and the calls that are about to start.
    pub(super) fn settle(&mut self, now: Timestamp) {
        if !self.work.undurable.is_empty() {
            // One commit at a time: it may be refused, and what follows would not fit. Also, if the reply to several is
            // lost and they are repeated together, only the last turn of an instance is recognized.
            return;
        }
        let (alone, together): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *self.finished()).into_iter().partition(|one| !one.writes.is_empty());
        let mut alone = alone.into_iter();
        let mut draft = self.new_draft();
        together.into_iter().for_each(|one| self.add(&mut draft, one));
        for queued in draft.begins.iter().flatten() {
            // A row that does not decode is not overwritten.
            if let Ok(event) = &queued.event {
                let (pos, from, to) = (queued.pos, queued.spot.clone(), Some(event.clone()));
                draft.moved.push(Moved { pos, from, key: None, to });
            }
        }
        if !draft.is_empty() {
            self.submit(draft, None, now);
        } else if let Some(first) = alone.next() {
            let again = first.clone();
            self.add(&mut draft, first);
            self.submit(draft, Some(again), now);
        }
        self.finished().extend(alone);
    }

    pub(super) fn new_draft(&mut self) -> Draft {
        let work = &mut self.work;
        let (taken, lifecycle) = (std::mem::take(&mut work.taken), std::mem::take(&mut work.lifecycle));
        let mut begins = std::mem::take(&mut work.marked);
        if self.record.is_stopped || work.is_stopping {
            // They do not start any more.
            for mut queued in begins.drain(..).flatten().rev() {
                work.wary += 1;
                queued.event.iter_mut().for_each(|event| event.deaths = event.deaths.saturating_sub(1));
                work.window.push_front(queued);
            }
        }
        Draft { taken, lifecycle, begins, ..Draft::default() }
    }

    /// Adds the outcome of a call to a draft.
    fn add(&mut self, draft: &mut Draft, finished: Finished) {
        let Finished { events, began, at, writes } = finished;
        draft.writes.extend(writes);
        for (queued, fate) in events {
            let (pos, event) = (queued.pos, event_of(&queued));
            draft.events.push(pos);
            let key = event.dedup.clone();
            let to = match fate {
                Fate::Done => {
                    let duration_ms = u64::try_from(at.since(began).as_millis()).ok().filter(|millis| *millis > 0);
                    let detail = Detail { event: Some(pos), duration_ms, ..Detail::default() }.to_payload();
                    let (kind, attempt) = (LifecycleRecordKind::JobExecuted, event.failed + 1);
                    draft.lifecycle.push(LifecycleRecord { at, kind, attempt, detail: Some(detail) });
                    None
                }
                fate => self.failed(draft, pos, event, fate, at),
            };
            if let Some(due) = to.as_ref().and_then(|event| event.due) {
                self.work.next_due = [self.work.next_due, Some(due)].into_iter().flatten().min();
                self.worker.wakes.add(due, self.num);
            }
            draft.moved.push(Moved { pos, from: queued.spot, key, to });
        }
    }

    /// Records the failure of an event. Returns the event to store if it is retried.
    fn failed(&self, draft: &mut Draft, pos: u64, event: Event, fate: Fate, at: Timestamp) -> Option<Event> {
        let Fate::Failed { failure, failed, since, verdict, letter } = fate else { return None };
        logs::handler_failed(self.id.as_str(), "execute", failed, &failure);
        letter.iter().for_each(|letter| logs::dead(letter));
        let about = Detail { event: Some(pos), handler: Some("execute".into()), ..Detail::default() };
        let (failed_record, exhausted) = failure_records(&verdict, &failure, failed, about, at);
        draft.lifecycle.push(failed_record);
        draft.lifecycle.extend(exhausted);
        draft.dead.extend(letter.map(|letter| *letter));
        match verdict {
            Verdict::Again { due, .. } => {
                let failure = Some(failure.to_payload());
                Some(Event { failed, due: Some(due), tried_at: Some(since), failure, deaths: 0, ..event })
            }
            Verdict::GiveUp(reason) => {
                draft.exhausted.extend(reason.map(|reason| {
                    Exhausted::new(&self.id, HandlerKind::Execute, failed, reason, failure, at.since(since))
                }));
                None
            }
        }
    }

    fn submit(&mut self, draft: Draft, again: Option<Finished>, now: Timestamp) {
        let has_orders = !draft.taken.is_empty();
        let state = (!self.is_owned || has_orders).then(|| self.state(Status::Running, true, None, now));
        self.send(draft, again, state);
        self.is_owned = true;
    }

    pub(super) fn send(&mut self, draft: Draft, again: Option<Finished>, state: Option<NewState>) {
        let Draft { lifecycle, taken, moved, dead, writes, events, exhausted, begins } = draft;
        let reported = self.reported;
        self.work.undurable.push_back(Submitted {
            events,
            taken: taken.clone(),
            exhausted,
            begins,
            again,
            before: (reported, self.is_owned),
            is_delaying: moved.iter().any(|moved| moved.to.as_ref().is_some_and(|event| event.due.is_some())),
            is_rest: state.as_ref().is_some_and(|state| !state.is_owned),
        });
        self.reported += lifecycle.iter().map(|record| record.kind.count()).sum::<u64>();
        let turn = Turn {
            lifecycle,
            taken,
            queue: moved,
            dead,
            writes,
            state,
            ..Turn::new(self.num, self.worker.epoch, reported)
        };
        self.worker.committer.submit(Write::Turn(Box::new(turn)), Reply::Job(self.mailbox.clone()));
    }

    pub(super) fn state(&self, status: Status, is_owned: bool, wake: Option<Timestamp>, at: Timestamp) -> NewState {
        let events = self.running.load(Ordering::Relaxed) as u64;
        let record = Record { events, ..self.record.clone() }.to_payload();
        let seen = (!is_owned).then_some(self.seen);
        NewState { status, wake, is_owned, seen, outcome: Some(record), note: None, at }
    }
}
