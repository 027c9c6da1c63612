//! Operations of a run, from call to consumption.

use std::sync::Arc;
use std::time::Duration;

use crate::failure::Failure;
use crate::id::Name;
use crate::payload::Payload;
use crate::retry::{Reason, Retry};
use crate::time::Timestamp;

use super::identity::Identity;
use super::record::OpRecord;

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpKind {
    /// A side effect whose result is recorded.
    Step,
    /// A pause until a time.
    Sleep,
    /// A pause until a signal.
    Wait,
}

impl OpKind {
    /// Returns the prefix of its identity.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Step => "step:",
            Self::Sleep => "sleep",
            Self::Wait => "wait:",
        }
    }
}

/// What an operation does; known when it is first polled.
#[derive(Clone, Debug)]
pub enum Spec {
    /// Run a body.
    Step(StepSpec),
    /// Sleep for a duration.
    SleepFor(Duration),
    /// Sleep until a moment.
    SleepUntil(Timestamp),
    /// Wait for a signal.
    Wait {
        /// The name of the signal.
        name: Name,
        /// How long to wait before giving up.
        timeout: Option<Duration>,
        /// Checks whether a signal has the expected type.
        accepts: Accepts,
    },
}

/// Checks a value and returns what is wrong with it. May run user code.
pub type Accepts = fn(&Payload) -> Result<(), String>;

/// Retries, timeouts and fallback of a step.
#[derive(Clone, Debug, Default)]
pub struct StepSpec {
    /// When to retry a failed attempt; never without a policy.
    pub retry: Option<Arc<Retry>>,
    /// How long one attempt may take.
    pub attempt_timeout: Option<Duration>,
    /// How long all attempts together may take.
    pub total_timeout: Option<Duration>,
    /// Whether the body must not run a second time, even if the first run may not have taken effect.
    pub is_at_most_once: bool,
    /// Whether a fallback runs when all attempts have failed.
    pub has_fallback: bool,
}

impl StepSpec {
    /// Returns `true` if the start time must survive a crash, so that each start gets its own entry.
    #[must_use]
    pub fn needs_start(&self) -> bool {
        self.is_at_most_once
            || self.attempt_timeout.is_some()
            || self.total_timeout.is_some()
            || self.retry.as_ref().is_some_and(|retry| retry.has_max_duration())
    }
}

/// Why a step failed for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepEnding {
    /// An error that is not retried.
    Error,
    /// The retry policy ran out of attempts or time.
    Exhausted(Reason),
    /// A timeout.
    Timeout,
    /// The process ended during a step that runs at most once.
    Interrupted,
}

/// A step that failed for good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedStep {
    /// Why it failed.
    pub ended: StepEnding,
    /// The number of attempts.
    pub attempts: u32,
    /// The last failure.
    pub failure: Failure,
}

/// The outcome of an operation, as delivered to user code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A step's value.
    Value(Payload),
    /// A step's failure.
    Failed(Box<FailedStep>),
    /// The end of a sleep.
    Slept,
    /// A signal.
    Signal {
        /// Its inbox position.
        pos: u64,
        /// Its value.
        payload: Payload,
    },
    /// The timeout of a wait.
    TimedOut,
    /// The end of an operation because the run was cancelled.
    Cancelled,
}

/// An outstanding operation that the code has asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Its identity, under its old name if that is where the record was found.
    pub op: Arc<str>,
    /// Its identity under its current name, without the occurrence.
    pub base: Arc<str>,
    /// Its call site.
    pub site: Arc<str>,
    /// Its kind.
    pub kind: OpKind,
    /// Whether the journal has an entry about it.
    pub is_recorded: bool,
    /// Whether it is a wait with a timeout.
    pub has_timeout: bool,
    /// The current or next attempt of a step; 0 if it is not a step.
    pub attempt: u32,
    /// The signal that a wait expects.
    pub signal: Option<Name>,
}

impl Asked {
    pub(super) fn of(op: &Op) -> Self {
        let is_over = matches!(op.phase, OpPhase::Settled { .. } | OpPhase::Delivered { .. });
        let record = &op.record;
        let has_begun = record.started.is_some() || record.failed > 0 || record.due.is_some();
        Self {
            op: op.key.clone(),
            base: op.identity.base.clone(),
            site: op.site.clone(),
            kind: op.kind,
            is_recorded: is_over || has_begun || record.falling_back.is_some(),
            has_timeout: matches!(op.spec, Some(Spec::Wait { timeout: Some(_), .. })),
            attempt: if op.kind == OpKind::Step { record.failed.saturating_add(1) } else { 0 },
            signal: match &op.spec {
                Some(Spec::Wait { name, .. }) => Some(name.clone()),
                _ => None,
            },
        }
    }
}

/// The phase of an operation.
#[derive(Debug)]
pub(super) enum OpPhase {
    /// Called but never polled; it takes no part in anything yet.
    Called,
    /// Polled, but not begun in this process.
    Idle,
    /// Waiting for its start entry to become durable: the body may run once `seq` is.
    Starting { seq: u64, attempt: u32, started: Timestamp },
    /// The body is running or may run.
    Working { attempt: u32, started: Timestamp },
    /// The fallback is running or may run.
    FallingBack { attempt: u32, started: Timestamp, failure: Box<Failure> },
    /// Waiting for a timer: the next attempt of a step, or the end of a sleep or wait.
    Armed,
    /// A wait without a timeout.
    Listening,
    /// Has an outcome with a delivery number.
    Settled { seq: u64, at: Timestamp, outcome: Outcome },
    /// Its outcome is delivered but not consumed by user code.
    Delivered { seq: u64, outcome: Outcome },
    /// Can never become ready, because it made the run stuck.
    Refused,
}

/// One operation.
pub(super) struct Op {
    pub(super) identity: Identity,
    /// The identity as text, under the alias if that is where the record was found.
    pub(super) key: Arc<str>,
    pub(super) kind: OpKind,
    pub(super) site: Arc<str>,
    /// Other bases under which it may be recorded, in the order in which they are tried.
    pub(super) aliases: Vec<Arc<str>>,
    pub(super) spec: Option<Spec>,
    /// What the journal says about it, and what happened since.
    pub(super) record: OpRecord,
    pub(super) phase: OpPhase,
    /// Its time in `Machine::timers`, if it has a timer.
    pub(super) timer: Option<Timestamp>,
}

impl Op {
    pub(super) fn step_spec(&self) -> Option<&StepSpec> {
        match &self.spec {
            Some(Spec::Step(spec)) => Some(spec),
            _ => None,
        }
    }

    /// Returns `true` if its body may be running.
    pub(super) fn is_working(&self) -> bool {
        matches!(self.phase, OpPhase::Working { .. } | OpPhase::FallingBack { .. } | OpPhase::Starting { .. })
    }
}
