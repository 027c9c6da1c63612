//! Debounce jobs: collect events and handle them together.

use std::time::Duration;

use super::call::{Call, FlushReason, HandlerKind, Next};
use super::policy::Policy;
use super::record::Troubled;
use super::state::JobState;
use crate::event::Event;
use crate::lifecycle::{Detail, LifecycleRecordKind};
use crate::message::{Inbound, Message};
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

impl DebounceRules {
    /// Returns what is next when nothing is retried: a flush that is due, otherwise the next event.
    pub(super) fn next(&self, state: &mut JobState, now: Timestamp) -> Next {
        loop {
            state.record.flush = state.record.flush.or_else(|| self.flush_due(state, now));
            if state.record.flush.is_some() {
                return Next::Call(state.call(HandlerKind::Execute, None));
            }
            let Some(inbound) = state.inbox.front() else { break };
            let pos = inbound.pos;
            match inbound.message.clone() {
                Message::Event(event) if event.batch > 0 && state.record.events > 0 => {
                    // A retried batch is not mixed with the current one, which is flushed first.
                    state.record.flush = Some(FlushReason::Manual);
                    continue;
                }
                Message::Event(event) if event.batch > 0 => restore(state, pos, event),
                Message::Event(_) => return Next::Call(state.call(HandlerKind::Event, Some(pos))),
                Message::Trigger if state.record.events > 0 => state.record.flush = Some(FlushReason::Manual),
                _ => {}
            }
            state.change.touch();
            state.take(pos);
        }
        match state.record.next {
            None => Next::Over,
            next => Next::wait_until(next),
        }
    }

    /// Returns why the batch has to be flushed now, if it has to.
    fn flush_due(&self, state: &JobState, now: Timestamp) -> Option<FlushReason> {
        let record = &state.record;
        if record.events == 0 {
            return None;
        }
        if self.max_events.is_some_and(|max| record.events >= max) {
            return Some(FlushReason::MaxEvents);
        }
        if has_in_time(state) {
            return None;
        }
        let is_window = self.window_end(record.opened_at).is_some_and(|end| end <= now);
        match record.next {
            _ if is_window => Some(FlushReason::Window),
            Some(next) if next <= now => Some(FlushReason::Quiet),
            _ => None,
        }
    }

    /// Returns when the window of a batch ends.
    fn window_end(&self, opened_at: Option<Timestamp>) -> Option<Timestamp> {
        Some(opened_at?.after(self.window?))
    }

    /// Adds a handled event to the batch.
    pub(super) fn collect(&self, state: &mut JobState, call: &Call, now: Timestamp) {
        let Some(Inbound { pos, at, message: Message::Event(event) }) = &call.event else { return };
        let record = &mut state.record;
        let is_first = record.events == 0;
        record.events += 1;
        record.batch.1 = *pos;
        if is_first {
            record.opened_at = Some(*at);
            record.first_event = Some(event.payload.clone());
            record.batch.0 = *pos;
        }
        let quiet_end = self.quiet.map(|quiet| at.after(quiet));
        // The window starts with the first event and is not extended by later ones, or a steady stream would delay the
        // flush forever.
        record.next = [self.window_end(record.opened_at), quiet_end].into_iter().flatten().min();
        if is_first {
            let detail = Detail { at: record.next, ..Detail::default() };
            state.change.report(LifecycleRecordKind::DebounceStarted, now, detail);
        }
    }
}

/// Returns `true` if the next message was accepted before the flush was due and was only held up. It still belongs to
/// this batch; otherwise each such event would become its own batch.
fn has_in_time(state: &JobState) -> bool {
    let (Some(inbound), Some(next)) = (state.inbox.front(), state.record.next) else { return false };
    let is_meant = match &inbound.message {
        Message::Event(event) => event.batch == 0,
        message => matches!(message, Message::Trigger),
    };
    is_meant && inbound.at < next
}

/// Restores a batch from its dead letter, to retry it.
fn restore(state: &mut JobState, pos: u64, event: Event) {
    let record = &mut state.record;
    record.events = event.batch;
    record.batch = (pos, pos);
    record.first_event = None;
    record.state = Some(event.payload).filter(|_| !event.is_stateless);
    record.flush = Some(FlushReason::Retried);
}

/// Drops the batch, even if it is being retried, and all messages before the one that asked for it.
pub(super) fn clear(state: &mut JobState, pos: u64, at: Timestamp) {
    let before = state.inbox.iter().filter(|inbound| inbound.pos < pos);
    let (before, events): (Vec<u64>, Vec<u64>) =
        before.map(|inbound| (inbound.pos, events_in(&inbound.message))).unzip();
    let events = Some(state.record.events + events.iter().sum::<u64>());
    before.into_iter().for_each(|pos| state.take(pos));
    state.change.report(LifecycleRecordKind::DebounceCleared, at, Detail { events, ..Detail::default() });
    (state.record.retry, state.record.trouble) = (None, None);
    state.record.batch.1 = pos;
    start_batch(state);
}

/// Finishes a batch that was handled.
pub(super) fn flushed(state: &mut JobState, reason: Option<FlushReason>, now: Timestamp) {
    let reason = reason.map(|reason| reason.as_str().into());
    let detail = Detail { reason, events: Some(state.record.events), ..Detail::default() };
    state.change.report(LifecycleRecordKind::DebounceFlushed, now, detail);
    start_batch(state);
}

/// Gives up the batch: keeps it as one dead letter and starts the next one.
pub(super) fn give_up_batch(state: &mut JobState, trouble: &Troubled, now: Timestamp) {
    let (batch, is_stateless) = (state.record.events.max(1), state.record.state.is_none());
    let payload = state.record.state.clone().unwrap_or_else(|| Payload::recorded("null"));
    let event = Event { batch, is_stateless, ..Event::new(payload) };
    state.add_dead_letter(state.record.batch.0, event, trouble, now);
    start_batch(state);
}

/// Starts a new batch and releases the dedup keys of the old one.
fn start_batch(state: &mut JobState) {
    let record = &mut state.record;
    state.change.release_keys(record.batch.1);
    (record.state, record.first_event, record.opened_at, record.next) = (None, None, None, None);
    (record.events, record.flush, record.batch) = (0, None, (0, 0));
}

/// Returns the number of events in a message; a retried batch has several.
fn events_in(message: &Message) -> u64 {
    match message {
        Message::Event(event) => event.batch.max(1),
        _ => 0,
    }
}
