//! The options of a job definition, and the rules in which the kinds of job differ.

use super::call::{Call, Next};
use super::continuous::ContinuousRules;
use super::debounce::{self, DebounceRules};
use super::policy::Policy;
use super::record::Troubled;
use super::state::JobState;
use super::task::{self, TaskRules};
use crate::kind::JobKind;
use crate::message::{Inbound, Message};
use crate::time::Timestamp;

/// The options of a job definition.
#[derive(Clone, Debug)]
pub enum Rules {
    /// A job that runs on a schedule.
    Continuous(ContinuousRules),
    /// A job that collects events and handles them together.
    Debounce(DebounceRules),
    /// A job that handles events one by one.
    Task(TaskRules),
}

impl Rules {
    /// Returns the kind of job.
    #[must_use]
    pub fn kind(&self) -> JobKind {
        match self {
            Self::Continuous(_) => JobKind::Continuous,
            Self::Debounce(_) => JobKind::Debounce,
            Self::Task(_) => JobKind::Task,
        }
    }

    pub(super) fn policy(&self) -> &Policy {
        match self {
            Self::Continuous(rules) => &rules.policy,
            Self::Debounce(rules) => &rules.policy,
            Self::Task(rules) => &rules.policy,
        }
    }

    /// Returns what is next when nothing is retried.
    pub(super) fn next(&self, state: &mut JobState, now: Timestamp) -> Next {
        match self {
            Self::Continuous(rules) => rules.next(state, now),
            Self::Debounce(rules) => rules.next(state, now),
            Self::Task(rules) => rules.next(state, now),
        }
    }

    /// Handles a message that needs no handler.
    pub(super) fn take_order(&self, state: &mut JobState, order: Inbound, now: Timestamp) {
        let Inbound { pos, at, message } = order;
        match (self, message) {
            (_, Message::Trigger) => state.trigger(pos),
            (Self::Continuous(rules), message) => rules.take_order(state, &message, at, now),
            (Self::Debounce(_), Message::Clear) => debounce::clear(state, pos, at),
            _ => {}
        }
        state.change.touch();
        state.take(pos);
    }

    /// Finishes the event of a call that succeeded.
    pub(super) fn event_handled(&self, state: &mut JobState, call: &Call, now: Timestamp) {
        match self {
            Self::Debounce(rules) => rules.collect(state, call, now),
            _ => task::event_handled(state, call, now),
        }
    }

    /// Finishes an execution that succeeded.
    pub(super) fn executed(&self, state: &mut JobState, call: &Call, now: Timestamp) {
        let was_trigger = call.trigger.is_some();
        match self {
            Self::Continuous(rules) => rules.finish(state, call.tick, was_trigger, now),
            Self::Debounce(_) => debounce::flushed(state, call.flush, now),
            Self::Task(_) => task::executed(state, was_trigger),
        }
    }

    /// Continues without an execution that was given up: a batch becomes a dead letter, a schedule moves on.
    pub(super) fn give_up_execution(&self, state: &mut JobState, trouble: &Troubled, now: Timestamp) {
        match self {
            Self::Continuous(rules) => rules.finish(state, state.record.next, trouble.is_trigger, now),
            Self::Debounce(_) => debounce::give_up_batch(state, trouble, now),
            Self::Task(_) => task::executed(state, trouble.is_trigger),
        }
    }
}
