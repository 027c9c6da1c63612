//! The plan of the demo: when to kill the process and when to approve the order.

use std::time::Duration;

use outlive::{EntryKind, Status, Timestamp};

use super::snapshot::OrderSnapshot;

/// One action of the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DemoAction {
    /// Kill the process; the text says at which point.
    Kill(&'static str),
    Approve,
}

/// Which actions have been done.
#[derive(Default)]
pub(crate) struct Plan {
    is_killed_asleep: bool,
    is_killed_at_work: bool,
    is_approved: bool,
}

/// How long the order sleeps before the process is killed, so that people can follow.
const ASLEEP: Duration = Duration::from_millis(800);
/// How long the order waits before it is approved.
const WAITING: Duration = Duration::from_millis(700);
/// How long the last step runs before the process is killed; the step takes three times as long.
const AT_WORK: Duration = Duration::from_millis(300);

impl Plan {
    /// Returns the action that is due now, if any, and marks it as done.
    pub(crate) fn next(&mut self, snapshot: &OrderSnapshot, now: Timestamp) -> Option<DemoAction> {
        let is_past = |at: Option<Timestamp>, time: Duration| at.is_some_and(|at| at.after(time) <= now);
        let slept = snapshot.entry(EntryKind::SleepSet).map(|entry| entry.at);
        if !self.is_killed_asleep && is_past(slept, ASLEEP) {
            self.is_killed_asleep = true;
            return Some(DemoAction::Kill("in the middle of its sleep"));
        }
        let waited = snapshot.entry(EntryKind::WaitSet).map(|entry| entry.at);
        let is_waiting = matches!(snapshot.info.status, Status::Waiting { .. });
        if !self.is_approved && is_waiting && is_past(waited, WAITING) {
            self.is_approved = true;
            return Some(DemoAction::Approve);
        }
        let shipping = snapshot.executions_of("ship").next().map(|execution| execution.at);
        if !self.is_killed_at_work && is_past(shipping, AT_WORK) {
            self.is_killed_at_work = true;
            return Some(DemoAction::Kill("in the middle of \"ship\""));
        }
        None
    }
}
