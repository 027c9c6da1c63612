//! Tasks: handle one event after another and wake themselves.

use super::call::HandlerKind;
use super::retrying::Policy;
use super::{Job, Next, Rules};
use crate::time::Timestamp;

/// The options of a task.
#[derive(Clone, Debug)]
pub struct TaskRules {
    /// How failures are handled.
    pub policy: Policy,
    /// Whether there is an `on_idle` to call.
    pub has_idle: bool,
}

impl Job {
    /// Returns what is next when nothing is retried: events, wakes and triggers in order of arrival, then `on_idle`. An
    /// event that was accepted after a wake was due does not delay the wake.
    pub(super) fn next_event(&mut self, now: Timestamp) -> Next {
        let front = self.inbox.front();
        let due = self.record.next.filter(|next| *next <= now);
        if due.is_some_and(|due| front.is_none_or(|inbound| inbound.at > due)) && !self.is_void() {
            return Next::Call(self.execution(false));
        }
        let is_triggered = self.record.is_triggered && !self.is_void();
        if is_triggered && front.is_none_or(|inbound| inbound.pos > self.record.trigger) {
            return Next::Call(self.execution(true));
        }
        if let Some(inbound) = front {
            return Next::Call(self.call(HandlerKind::Event, Some(inbound.pos)));
        }
        if self.is_void() {
            return Next::Over;
        }
        let has_idle = matches!(&self.rules, Rules::Task(rules) if rules.has_idle);
        if has_idle && self.record.is_restless && self.record.next.is_none() {
            return Next::Call(self.call(HandlerKind::Idle, None));
        }
        self.waiting_until(self.record.next)
    }

    /// Finishes an execution. A wake that the handler sets is applied after this.
    pub(super) fn task_executed(&mut self, was_trigger: bool) {
        self.record.is_triggered = false;
        self.record.is_restless = true;
        // A triggered execution leaves the wake alone, even if it came due meanwhile.
        if !was_trigger {
            self.record.next = None;
        }
    }
}
