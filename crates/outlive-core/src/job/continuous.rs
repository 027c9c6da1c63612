//! Continuous jobs: run again and again on a schedule.

use super::call::{Call, Next};
use super::policy::Policy;
use super::record::Record;
use super::state::JobState;
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

impl ContinuousRules {
    /// Sets the first tick of a new instance.
    pub(super) fn begin(&self, record: &mut Record, created_at: Timestamp) {
        record.next = self.schedule.first(created_at, self.is_immediate);
        record.schedule = Some(self.schedule.to_string());
    }

    /// Returns what is next when nothing is retried: the tick that is due, then a trigger.
    pub(super) fn next(&self, state: &mut JobState, now: Timestamp) -> Next {
        if !state.record.is_stopped {
            self.resolve_overdue(state, now);
            if state.record.next.is_some_and(|tick| tick <= now) {
                return Next::Call(state.execution(false));
            }
        }
        if state.record.is_triggered {
            return Next::Call(state.execution(true));
        }
        match state.record.is_stopped {
            true => Next::Wait(Status::Paused),
            false => Next::wait_until(state.record.next),
        }
    }

    /// Applies the policy for missed ticks. A tick that had begun runs again first, because some of it may have
    /// happened.
    fn resolve_overdue(&self, state: &mut JobState, now: Timestamp) {
        let Some(tick) = state.record.next else { return };
        if tick > now || state.record.begun == Some(tick) {
            return;
        }
        let due = self.schedule.overdue(tick, now, self.missed);
        if due != state.record.next {
            state.record.next = due;
            state.change.touch();
        }
    }

    /// Recomputes the next tick if the schedule has changed, and returns the old schedule. A tick that is due, has
    /// begun or is being retried is left alone.
    pub(super) fn adopt_schedule(&self, state: &mut JobState, now: Timestamp) -> Option<String> {
        let schedule = self.schedule.to_string();
        if state.record.schedule.as_ref() == Some(&schedule) {
            return None;
        }
        let before = state.record.schedule.replace(schedule);
        state.change.touch();
        let begun = state.record.begun;
        let is_open = state.record.next.is_none_or(|tick| tick > now && begun != Some(tick)) && !state.is_held_up();
        if before.is_some() && is_open {
            state.record.next = self.schedule.first(now, false);
        }
        before
    }

    /// Handles a message: stops or resumes the schedule.
    pub(super) fn take_order(&self, state: &mut JobState, message: &Message, at: Timestamp, now: Timestamp) {
        let record = &mut state.record;
        match message {
            Message::Pause if !record.is_stopped => {
                record.is_stopped = true;
                // What failed is not retried, and a failed trigger does not run again either.
                if record.retry.take().is_some_and(|retry| retry.is_trigger) {
                    record.is_triggered = false;
                }
                state.change.report(LifecycleRecordKind::JobStopped, at, Detail::default());
            }
            Message::Resume if record.is_stopped => {
                (record.is_stopped, record.begun) = (false, None);
                record.next = self.schedule.first(now, self.is_immediate);
                state.change.report(LifecycleRecordKind::JobResumed, at, Detail::default());
            }
            _ => {}
        }
    }

    /// Finishes an execution. A triggered one leaves the schedule alone.
    pub(super) fn finish(&self, state: &mut JobState, tick: Option<Timestamp>, was_trigger: bool, now: Timestamp) {
        state.record.begun = None;
        if was_trigger {
            state.record.is_triggered = false;
        } else if let Some(tick) = tick {
            state.record.next = self.schedule.next(tick, now, self.missed);
        }
    }
}

/// Records that the execution for a tick begins. Returns `true` if that is new.
pub(super) fn begin_tick(state: &mut JobState, call: &Call) -> bool {
    let is_new = call.tick.is_some() && state.record.begun != call.tick;
    if is_new {
        state.record.begun = call.tick;
        state.change.touch();
    }
    is_new
}
