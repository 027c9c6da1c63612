//! A job that handles one event after the other, and wakes itself.

use super::call::HandlerKind;
use super::retrying::Policy;
use super::{Job, Next, Rules};
use crate::time::Timestamp;

/// What a definition says of a task.
///
/// ```
/// use outlive_core::job::{Policy, TaskRules};
/// assert!(TaskRules { policy: Policy::default(), has_idle: true }.has_idle);
/// ```
#[derive(Clone, Debug)]
pub struct TaskRules {
    /// What failures lead to.
    pub policy: Policy,
    /// Whether there is an `on_idle` to call.
    pub has_idle: bool,
}

impl Job {
    /// What is next, with nothing to be tried again: events first, then what is due, then `on_idle`.
    pub(super) fn next_event(&mut self, now: Timestamp) -> Next {
        if let Some(inbound) = self.inbox.front() {
            return Next::Call(self.call(HandlerKind::Event, Some(inbound.pos)));
        }
        if self.is_void() {
            return Next::Over;
        }
        if self.record.is_triggered || self.record.next.is_some_and(|next| next <= now) {
            return Next::Call(self.call(HandlerKind::Execute, None));
        }
        let has_idle = matches!(&self.rules, Rules::Task(rules) if rules.has_idle);
        if has_idle && self.record.is_restless && self.record.next.is_none() {
            return Next::Call(self.call(HandlerKind::Idle, None));
        }
        self.waiting_until(self.record.next)
    }

    /// `execute` came to its end. What the handler plans is set after this.
    pub(super) fn task_executed(&mut self, was_trigger: bool) {
        self.record.is_triggered = false;
        self.record.is_restless = true;
        // One that somebody asked for leaves the wake as it is, also if that came due meanwhile.
        if !was_trigger {
            self.record.next = None;
        }
    }
}
