//! A job that runs again and again, by a schedule.

use super::call::HandlerKind;
use super::retrying::Policy;
use super::{Job, Next, Rules};
use crate::lifecycle::{Detail, NewsKind};
use crate::message::Message;
use crate::schedule::{Missed, Schedule};
use crate::status::{Pause, Status};
use crate::time::Timestamp;

/// What a definition says of a recurring job.
///
/// ```
/// use outlive_core::job::{ContinuousRules, Policy};
/// use outlive_core::schedule::{Missed, Schedule};
/// let rules = ContinuousRules {
///     policy: Policy::default(),
///     schedule: Schedule::every("30 minutes")?,
///     missed: Missed::CatchUpOne,
///     is_immediate: true,
/// };
/// assert!(rules.is_immediate);
/// # Ok::<(), outlive_core::schedule::ScheduleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ContinuousRules {
    /// What failures lead to.
    pub policy: Policy,
    /// When it runs.
    pub schedule: Schedule,
    /// What becomes of ticks at which it could not run.
    pub missed: Missed,
    /// Whether its first run is at its start.
    pub is_immediate: bool,
}

impl Job {
    /// What is next, with nothing to be tried again.
    pub(super) fn next_tick(&mut self, now: Timestamp) -> Next {
        if self.record.is_triggered {
            return Next::Call(self.call(HandlerKind::Execute, None));
        }
        if self.record.is_stopped {
            return Next::Wait(Status::Paused { why: Pause::Hand, until: None });
        }
        if let (Some(tick), Rules::Continuous(rules)) = (self.record.next, &self.rules)
            && tick <= now
        {
            let due = rules.schedule.overdue(tick, now, rules.missed);
            if due != self.record.next {
                self.record.next = due;
                self.touch();
            }
        }
        match self.record.next {
            Some(tick) if tick <= now => Next::Call(self.call(HandlerKind::Execute, None)),
            next => self.waiting_until(next),
        }
    }

    /// Deals with what somebody told it.
    pub(super) fn take_tick_order(&mut self, message: Message, at: Timestamp, now: Timestamp) {
        match message {
            Message::Trigger => self.record.is_triggered = true,
            Message::Pause if !self.record.is_stopped => {
                self.record.is_stopped = true;
                // What failed is not tried again, nor begun anew because somebody had asked for it.
                if self.record.retry.take().is_some_and(|retry| retry.is_trigger) {
                    self.record.is_triggered = false;
                }
                self.tell(NewsKind::JobStopped, at, Detail::default());
            }
            Message::Resume if self.record.is_stopped => {
                self.record.is_stopped = false;
                self.tell(NewsKind::JobResumed, at, Detail::default());
                if let Rules::Continuous(rules) = &self.rules {
                    self.record.next = rules.schedule.first(now, rules.is_immediate);
                }
            }
            _ => {}
        }
    }

    /// A run came to its end. One that somebody asked for leaves the schedule as it is.
    pub(super) fn tick_over(&mut self, tick: Option<Timestamp>, was_trigger: bool, now: Timestamp) {
        if was_trigger {
            self.record.is_triggered = false;
        } else if let (Some(tick), Rules::Continuous(rules)) = (tick, &self.rules) {
            self.record.next = rules.schedule.next(tick, now, rules.missed);
        }
    }
}
