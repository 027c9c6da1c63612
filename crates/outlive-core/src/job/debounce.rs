//! Debounce jobs: collect events and handle them together.

use std::time::Duration;

use super::call::{FlushReason, HandlerKind};
use super::record::Troubled;
use super::retrying::Policy;
use super::{Job, Next, Rules};
use crate::event::Event;
use crate::lifecycle::{Detail, LifecycleRecordKind};
use crate::message::Message;
use crate::payload::Payload;
use crate::time::Timestamp;

/// The options of a debounce. A batch is flushed by whichever condition is met first.
#[derive(Clone, Debug)]
pub struct DebounceRules {
    /// How failures are handled.
    pub policy: Policy,
    /// Flush this long after the first event.
    pub window: Option<Duration>,
    /// Flush this long after the last event.
    pub quiet: Option<Duration>,
    /// Flush at this many events.
    pub max_events: Option<u64>,
}

impl Job {
    /// Returns what is next when nothing is retried: a flush that is due, otherwise the next event.
    pub(super) fn next_batch(&mut self, now: Timestamp) -> Next {
        loop {
            self.record.flush = self.record.flush.or_else(|| self.flush_due(now));
            if self.record.flush.is_some() {
                return Next::Call(self.call(HandlerKind::Execute, None));
            }
            let Some(inbound) = self.inbox.front() else { break };
            let pos = inbound.pos;
            match inbound.message.clone() {
                Message::Event(event) if event.batch > 0 && self.record.events > 0 => {
                    // A retried batch is not mixed with the current one, which is flushed first.
                    self.record.flush = Some(FlushReason::Manual);
                    continue;
                }
                Message::Event(event) if event.batch > 0 => self.restore(pos, event),
                Message::Event(_) => return Next::Call(self.call(HandlerKind::Event, Some(pos))),
                Message::Trigger if self.record.events > 0 => self.record.flush = Some(FlushReason::Manual),
                _ => {}
            }
            self.touch();
            self.take(pos);
        }
        match self.record.next {
            None => Next::Over,
            next => self.waiting_until(next),
        }
    }

    /// Returns why the batch has to be flushed now, if it has to.
    fn flush_due(&self, now: Timestamp) -> Option<FlushReason> {
        let Rules::Debounce(rules) = &self.rules else { return None };
        if self.record.events == 0 {
            return None;
        }
        if rules.max_events.is_some_and(|max| self.record.events >= max) {
            return Some(FlushReason::MaxEvents);
        }
        if self.has_in_time() {
            return None;
        }
        let is_window = self.window_end().is_some_and(|end| end <= now);
        match self.record.next {
            _ if is_window => Some(FlushReason::Window),
            Some(next) if next <= now => Some(FlushReason::Quiet),
            _ => None,
        }
    }

    /// Returns `true` if the next message was accepted before the flush was due and was only held up. It still belongs
    /// to this batch; otherwise each such event would become its own batch.
    fn has_in_time(&self) -> bool {
        let (Some(inbound), Some(next)) = (self.inbox.front(), self.record.next) else { return false };
        let is_meant = match &inbound.message {
            Message::Event(event) => event.batch == 0,
            message => matches!(message, Message::Trigger),
        };
        is_meant && inbound.at < next
    }

    fn window_end(&self) -> Option<Timestamp> {
        let Rules::Debounce(rules) = &self.rules else { return None };
        Some(self.record.opened_at?.after(rules.window?))
    }

    /// Adds a handled event to the batch.
    pub(super) fn collected(&mut self, pos: u64, at: Timestamp, event: &Event, now: Timestamp) {
        let Rules::Debounce(rules) = &self.rules else { return };
        let quiet = rules.quiet;
        let is_first = self.record.events == 0;
        self.record.events += 1;
        self.record.batch.1 = pos;
        if is_first {
            self.record.opened_at = Some(at);
            self.record.first_event = Some(event.payload.clone());
            self.record.batch.0 = pos;
        }
        let quiet_end = quiet.map(|quiet| at.after(quiet));
        // The window starts with the first event and is not extended by later ones, or a steady stream would delay the
        // flush forever.
        self.record.next = [self.window_end(), quiet_end].into_iter().flatten().min();
        if is_first {
            self.report(
                LifecycleRecordKind::DebounceStarted,
                now,
                Detail { at: self.record.next, ..Detail::default() },
            );
        }
    }

    /// Restores a batch from its dead letter, to retry it.
    fn restore(&mut self, pos: u64, event: Event) {
        self.record.events = event.batch;
        self.record.batch = (pos, pos);
        self.record.first_event = None;
        self.record.state = Some(event.payload).filter(|_| !event.is_stateless);
        self.record.flush = Some(FlushReason::Retried);
    }

    /// Drops the batch, even if it is being retried, and all messages before the one that asked for it.
    pub(super) fn clear(&mut self, pos: u64, at: Timestamp) {
        let before = self.inbox.iter().filter(|inbound| inbound.pos < pos);
        let (before, events): (Vec<u64>, Vec<u64>) =
            before.map(|inbound| (inbound.pos, events_in(&inbound.message))).unzip();
        let events = Some(self.record.events + events.iter().sum::<u64>());
        before.into_iter().for_each(|pos| self.take(pos));
        self.report(LifecycleRecordKind::DebounceCleared, at, Detail { events, ..Detail::default() });
        (self.record.retry, self.record.trouble) = (None, None);
        self.record.batch.1 = pos;
        self.empty();
    }

    /// Starts a new batch and releases the dedup keys of the old one.
    fn empty(&mut self) {
        self.change.keys_until = self.change.keys_until.max(self.record.batch.1);
        let record = &mut self.record;
        (record.state, record.first_event, record.opened_at, record.next) = (None, None, None, None);
        (record.events, record.flush, record.batch) = (0, None, (0, 0));
    }

    /// Finishes a batch that was handled.
    pub(super) fn flushed(&mut self, reason: Option<FlushReason>, now: Timestamp) {
        let reason = reason.map(|reason| reason.as_str().into());
        let detail = Detail { reason, events: Some(self.record.events), ..Detail::default() };
        self.report(LifecycleRecordKind::DebounceFlushed, now, detail);
        self.empty();
    }

    /// Gives up the batch: keeps it as one dead letter and starts the next one.
    pub(super) fn batch_given_up(&mut self, trouble: &Troubled, now: Timestamp) {
        let (batch, is_stateless) = (self.record.events.max(1), self.record.state.is_none());
        let payload = self.record.state.clone().unwrap_or_else(|| Payload::recorded("null"));
        let event = Event { batch, is_stateless, ..Event::new(payload) };
        self.bury(self.record.batch.0, event, trouble, now);
        self.empty();
    }
}

/// Returns the number of events in a message; a retried batch has several.
fn events_in(message: &Message) -> u64 {
    match message {
        Message::Event(event) => event.batch.max(1),
        _ => 0,
    }
}
