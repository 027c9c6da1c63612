//! A job that runs again and again, by a schedule.

use super::retrying::Policy;
use super::{Job, Next, Rules};
use crate::lifecycle::{Detail, NewsKind};
use crate::message::Message;
use crate::schedule::{Missed, Schedule};
use crate::status::Status;
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
    /// What is next, with nothing to be tried again: what is due, then what somebody asked for.
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

    /// Applies the policy for missed ticks. One that had begun runs again first: some of it may have happened.
    fn resolve_overdue(&mut self, now: Timestamp) {
        let (Some(tick), Rules::Continuous(rules)) = (self.record.next, &self.rules) else { return };
        if tick > now || self.begun == Some(tick) {
            return;
        }
        let due = rules.schedule.overdue(tick, now, rules.missed);
        if due != self.record.next {
            self.record.next = due;
            self.touch();
        }
    }

    /// Somebody was driving it when the process died, so that a tick that was due had begun.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}, time::Timestamp};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// job.was_at_work();
    /// ```
    pub fn was_at_work(&mut self) {
        let is_tick = matches!(self.rules, Rules::Continuous(_)) && !self.record.is_triggered && !self.is_held_up();
        self.begun = self.record.next.filter(|_| is_tick);
    }

    /// Reckons the next tick anew if the schedule is another one than it was reckoned by. Returns the schedule before.
    /// What is due, had begun or is tried again is left as it is.
    ///
    /// ```
    /// # use outlive_core::{id::Name, job::{Job, Policy, Record, Rules, TaskRules}, time::Timestamp};
    /// # let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
    /// # let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
    /// assert_eq!(job.adopt_schedule(Timestamp::from_millis(0)), None, "a task has no schedule");
    /// ```
    pub fn adopt_schedule(&mut self, now: Timestamp) -> Option<String> {
        let Rules::Continuous(rules) = &self.rules else { return None };
        let schedule = rules.schedule.to_string();
        if self.record.schedule.as_ref() == Some(&schedule) {
            return None;
        }
        let next = rules.schedule.first(now, false);
        let before = self.record.schedule.replace(schedule);
        self.touch();
        let is_open = self.record.next.is_none_or(|tick| tick > now) && !self.is_held_up();
        if before.is_some() && is_open {
            self.record.next = next;
        }
        before
    }

    /// Deals with what somebody told it.
    pub(super) fn take_tick_order(&mut self, message: Message, at: Timestamp, now: Timestamp) {
        match message {
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
        self.begun = None;
        if was_trigger {
            self.record.is_triggered = false;
        } else if let (Some(tick), Rules::Continuous(rules)) = (tick, &self.rules) {
            self.record.next = rules.schedule.next(tick, now, rules.missed);
        }
    }
}
