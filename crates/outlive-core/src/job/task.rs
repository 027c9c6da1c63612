//! Tasks: handle one event after another and wake themselves.

use super::call::{Call, HandlerKind, Next, Planned};
use super::policy::Policy;
use super::state::JobState;
use crate::lifecycle::{Detail, LifecycleRecordKind};
use crate::time::Timestamp;

/// The options of a task.
#[derive(Clone, Debug)]
pub struct TaskRules {
    /// How failures are handled.
    pub policy: Policy,
    /// Whether there is an `on_idle` to call.
    pub has_idle: bool,
}

impl TaskRules {
    /// Returns what is next when nothing is retried: events, wakes and triggers in order of arrival, then `on_idle`. An
    /// event that was accepted after a wake was due does not delay the wake.
    pub(super) fn next(&self, state: &JobState, now: Timestamp) -> Next {
        let (front, record) = (state.inbox.front(), &state.record);
        let due = record.next.filter(|next| *next <= now);
        if due.is_some_and(|due| front.is_none_or(|inbound| inbound.at > due)) && !state.is_void() {
            return Next::Call(state.execution(false));
        }
        let is_triggered = record.is_triggered && !state.is_void();
        if is_triggered && front.is_none_or(|inbound| inbound.pos > record.trigger) {
            return Next::Call(state.execution(true));
        }
        if let Some(inbound) = front {
            return Next::Call(state.call(HandlerKind::Event, Some(inbound.pos)));
        }
        if state.is_void() {
            return Next::Over;
        }
        if self.has_idle && record.is_restless && record.next.is_none() {
            return Next::Call(state.call(HandlerKind::Idle, None));
        }
        Next::wait_until(record.next)
    }
}

/// Finishes an event that was handled.
pub(super) fn event_handled(state: &mut JobState, call: &Call, now: Timestamp) {
    state.record.events += 1;
    state.record.is_restless = true;
    let event = call.event.as_ref().map(|inbound| inbound.pos);
    let detail = Detail { event, ..Detail::default() };
    state.change.report_attempt(LifecycleRecordKind::EventHandled, call.attempt, now, detail);
}

/// Finishes an execution. A wake that the handler sets is applied after this.
pub(super) fn executed(state: &mut JobState, was_trigger: bool) {
    state.record.is_triggered = false;
    state.record.is_restless = true;
    // A triggered execution leaves the wake alone, even if it came due meanwhile.
    if !was_trigger {
        state.record.next = None;
    }
}

/// Sets or clears the wake of a task as its handler asked.
pub(super) fn plan(state: &mut JobState, planned: Planned, now: Timestamp) {
    match planned {
        Planned::At(at) => {
            state.record.next = Some(at);
            let detail = Detail { at: Some(at), ..Detail::default() };
            state.change.report(LifecycleRecordKind::TaskScheduled, now, detail);
        }
        Planned::Never => state.record.next = None,
    }
}
