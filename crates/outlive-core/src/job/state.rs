//! The state of an instance in memory that all kinds of job share: its record, its inbox and its change.

use super::call::{Call, HandlerKind, Next};
use super::change::Change;
use super::inbox::JobInbox;
use super::record::{Record, Troubled};
use crate::event::Event;
use crate::id::Name;
use crate::kind::JobKind;
use crate::message::Message;
use crate::payload::Payload;
use crate::queue::{Dead, PushTarget};
use crate::status::Status;
use crate::time::Timestamp;

/// What the rules of a job read and change.
#[derive(Clone, Debug)]
pub(super) struct JobState {
    pub(super) id: Name,
    pub(super) record: Record,
    pub(super) inbox: JobInbox,
    pub(super) change: Change,
}

impl JobState {
    /// Takes a message out of the inbox.
    pub(super) fn take(&mut self, pos: u64) {
        if self.inbox.remove(pos) {
            self.change.taken.push(pos);
        }
    }

    /// Requests an execution. Several triggers before it begins count as one.
    pub(super) fn trigger(&mut self, pos: u64) {
        if !self.record.is_triggered {
            (self.record.is_triggered, self.record.trigger) = (true, pos);
        }
    }

    /// Returns `true` if the instance holds nothing yet: no handler has succeeded and nothing is scheduled.
    pub(super) fn is_void(&self) -> bool {
        let record = &self.record;
        record.state.is_none() && record.events == 0 && record.runs == 0 && record.next.is_none()
    }

    /// Returns `true` if events that arrive now have to wait, because a retry, `on_error` or a flush comes first.
    pub(super) fn is_held_up(&self) -> bool {
        self.record.retry.is_some() || self.record.trouble.is_some() || self.record.flush.is_some()
    }

    // ---- calls ----

    /// Returns the call of `on_error`, if a failure that was given up waits for it.
    pub(super) fn next_error(&self) -> Option<Next> {
        let trouble = self.record.trouble.as_ref()?;
        Some(Next::Call(Call {
            handler: HandlerKind::Error,
            attempt: 1,
            event: None,
            tick: None,
            trigger: None,
            flush: None,
            failure: Some(trouble.failure.clone()),
        }))
    }

    /// Returns the retry of what failed. It comes before anything else, but not before it is due.
    pub(super) fn next_retry(&self, now: Timestamp) -> Option<Next> {
        let retry = self.record.retry.as_ref()?;
        if retry.due > now {
            return Some(Next::Wait(Status::Retrying { at: retry.due }));
        }
        match retry.handler {
            HandlerKind::Execute => Some(Next::Call(self.execution(retry.is_trigger))),
            handler => Some(Next::Call(self.call(handler, retry.event))),
        }
    }

    /// Returns a call of `execute`, for a trigger or for the time that is due.
    pub(super) fn execution(&self, is_trigger: bool) -> Call {
        let (tick, trigger) = match is_trigger {
            true => (None, Some(self.record.trigger)),
            false => (self.record.next, None),
        };
        Call { tick, trigger, ..self.call(HandlerKind::Execute, None) }
    }

    /// Returns a call of a handler with its current attempt.
    pub(super) fn call(&self, handler: HandlerKind, pos: Option<u64>) -> Call {
        let attempt = self.record.retry.as_ref().map_or(1, |retry| retry.failed.saturating_add(1));
        let event = pos.and_then(|pos| self.inbox.get(pos)).cloned();
        Call { handler, attempt, event, tick: None, trigger: None, flush: self.record.flush, failure: None }
    }

    // ---- dead letters ----

    /// Gives up an event: it becomes a dead letter, and a sender that waits for a reply gets the failure.
    pub(super) fn give_up_event(&mut self, pos: u64, trouble: &Troubled, now: Timestamp) {
        let found = self.inbox.get(pos).map(|inbound| inbound.message.clone());
        let Some(Message::Event(event)) = found else { return };
        if event.is_asking {
            let failed = format!(r#"{{"failed":{}}}"#, trouble.failure);
            self.change.replies.push((pos, Payload::recorded(&failed)));
        }
        self.add_dead_letter(pos, event, trouble, now);
        self.take(pos);
        self.record.is_restless = true;
    }

    /// Keeps an event that was given up as a dead letter.
    pub(super) fn add_dead_letter(&mut self, pos: u64, event: Event, trouble: &Troubled, now: Timestamp) {
        self.change.dead.push(Dead {
            pos,
            job: JobKind::job_of(&self.id),
            id: self.id.clone(),
            at: now,
            attempts: trouble.attempts,
            failure: trouble.failure.clone(),
            event,
            place: PushTarget::Inbox,
        });
    }
}
