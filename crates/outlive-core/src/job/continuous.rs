//! Continuous jobs: run again and again on a schedule.

use super::call::Call;
use super::retrying::Policy;
use super::{Job, Next, Rules};
use crate::lifecycle::{Detail, LifecycleRecordKind};
use crate::message::Message;
use crate::schedule::{Missed, Schedule};
use crate::status::Status;
use crate::time::Timestamp;

/// The options of a continuous job.
#[derive(Clone, Debug)]
pub struct ContinuousRules {
    /// How failures are handled.
    pub policy: Policy,
    /// When the job runs.
    pub schedule: Schedule,
    /// What to do about ticks at which the job could not run.
    pub missed: Missed,
    /// Whether the first run is right at the start.
    pub is_immediate: bool,
}

impl Job {
    /// Returns what is next when nothing is retried: the tick that is due, then a trigger.
    pub(super) fn next_tick(&mut self, now: Timestamp) -> Next {
        if !self.record.is_stopped {
            self.resolve_overdue(now);
            if self.record.next.is_some_and(|tick| tick <= now) {
                return Next::Call(self.execution(false));
            }
        }
        if self.record.is_triggered {
            return Next::Call(self.execution(true));
        }
        match self.record.is_stopped {
            true => Next::Wait(Status::Paused),
            false => self.waiting_until(self.record.next),
        }
    }

    /// Applies the policy for missed ticks. A tick that had begun runs again first, because some of it may have
    /// happened.
    fn resolve_overdue(&mut self, now: Timestamp) {
        let (Some(tick), Rules::Continuous(rules)) = (self.record.next, &self.rules) else { return };
        if tick > now || self.record.begun == Some(tick) {
            return;
        }
        let due = rules.schedule.overdue(tick, now, rules.missed);
        if due != self.record.next {
            self.record.next = due;
            self.touch();
        }
    }

    /// Records that the execution for a tick begins. Returns `true` if that has to be committed before the call: after a
    /// crash, this tick runs again, with its key.
    pub fn begin_tick(&mut self, call: &Call) -> bool {
        let is_new =
            matches!(self.rules, Rules::Continuous(_)) && call.tick.is_some() && self.record.begun != call.tick;
        if is_new {
            self.record.begun = call.tick;
            self.touch();
        }
        is_new
    }

    /// Returns `true` if a call is the first one of a tick that has begun: whatever comes in between, it is made.
    #[must_use]
    pub fn is_begun_tick(&self, call: &Call) -> bool {
        call.attempt <= 1 && call.tick.is_some() && self.record.begun == call.tick
    }

    /// Recomputes the next tick if the schedule has changed, and returns the old schedule. A tick that is due, has
    /// begun or is being retried is left alone.
    pub fn adopt_schedule(&mut self, now: Timestamp) -> Option<String> {
        let Rules::Continuous(rules) = &self.rules else { return None };
        let schedule = rules.schedule.to_string();
        if self.record.schedule.as_ref() == Some(&schedule) {
            return None;
        }
        let next = rules.schedule.first(now, false);
        let before = self.record.schedule.replace(schedule);
        self.touch();
        let is_open =
            self.record.next.is_none_or(|tick| tick > now && self.record.begun != Some(tick)) && !self.is_held_up();
        if before.is_some() && is_open {
            self.record.next = next;
        }
        before
    }

    /// Handles a message: stops or resumes the schedule.
    pub(super) fn take_tick_order(&mut self, message: Message, at: Timestamp, now: Timestamp) {
        match message {
            Message::Pause if !self.record.is_stopped => {
                self.record.is_stopped = true;
                // What failed is not retried, and a failed trigger does not run again either.
                if self.record.retry.take().is_some_and(|retry| retry.is_trigger) {
                    self.record.is_triggered = false;
                }
                self.report(LifecycleRecordKind::JobStopped, at, Detail::default());
            }
            Message::Resume if self.record.is_stopped => {
                (self.record.is_stopped, self.record.begun) = (false, None);
                self.report(LifecycleRecordKind::JobResumed, at, Detail::default());
                if let Rules::Continuous(rules) = &self.rules {
                    self.record.next = rules.schedule.first(now, rules.is_immediate);
                }
            }
            _ => {}
        }
    }

    /// Finishes an execution. A triggered one leaves the schedule alone.
    pub(super) fn tick_over(&mut self, tick: Option<Timestamp>, was_trigger: bool, now: Timestamp) {
        self.record.begun = None;
        if was_trigger {
            self.record.is_triggered = false;
        } else if let (Some(tick), Rules::Continuous(rules)) = (tick, &self.rules) {
            self.record.next = rules.schedule.next(tick, now, rules.missed);
        }
    }
}
