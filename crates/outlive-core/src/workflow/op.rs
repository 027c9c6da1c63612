//! One operation of a run, from its call to its consumption.

use std::sync::Arc;
use std::time::Duration;

use crate::failure::Failure;
use crate::id::Name;
use crate::payload::Payload;
use crate::retry::{Reason, Retry};
use crate::time::Timestamp;

use super::identity::Identity;
use super::record::Record;

/// The kinds of operation.
///
/// ```
/// use outlive_core::workflow::{OpKind, base};
/// assert_eq!(&*base("", OpKind::Wait, "paid", None), "wait:paid");
/// ```
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
    /// How its identity begins.
    ///
    /// ```
    /// assert_eq!(outlive_core::workflow::OpKind::Step.prefix(), "step:");
    /// ```
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Step => "step:",
            Self::Sleep => "sleep",
            Self::Wait => "wait:",
        }
    }
}

/// What an operation is to do; known when it is first polled.
///
/// ```
/// use outlive_core::id::Name;
/// use outlive_core::workflow::Spec;
/// use std::time::Duration;
/// let timeout = Some(Duration::from_secs(60));
/// let wait = Spec::Wait { name: Name::recorded("paid"), timeout, accepts: |_| Ok(()) };
/// assert!(matches!(wait, Spec::Wait { timeout: Some(_), .. }));
/// ```
#[derive(Clone, Debug)]
pub enum Spec {
    /// Run a body.
    Step(StepSpec),
    /// Sleep for a time.
    SleepFor(Duration),
    /// Sleep until a moment.
    SleepUntil(Timestamp),
    /// Wait for a signal.
    Wait {
        /// Its name.
        name: Name,
        /// When to give up.
        timeout: Option<Duration>,
        /// Whether a value reads as what is waited for.
        accepts: Accepts,
    },
}

/// Says what is wrong with a value, if anything is. It may be user code.
///
/// ```
/// use outlive_core::payload::Payload;
/// use outlive_core::workflow::Accepts;
/// let number: Accepts = |payload| payload.decode::<u32>().map(drop).map_err(|error| error.to_string());
/// assert!(number(&Payload::recorded("42")).is_ok() && number(&Payload::recorded("[]")).is_err());
/// ```
pub type Accepts = fn(&Payload) -> Result<(), String>;

/// How a step is to be tried.
///
/// ```
/// use outlive_core::retry::Retry;
/// use outlive_core::workflow::StepSpec;
/// let spec = StepSpec { retry: Some(Retry::times(3).constant("1 second").into()), ..StepSpec::default() };
/// assert!(!spec.is_at_most_once && spec.total_timeout.is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct StepSpec {
    /// When a failed attempt is tried again; never, if there is no policy.
    pub retry: Option<Arc<Retry>>,
    /// How long one attempt may take.
    pub attempt_timeout: Option<Duration>,
    /// How long all attempts together may take.
    pub total_timeout: Option<Duration>,
    /// Whether a second run of the body is worse than none.
    pub is_at_most_once: bool,
    /// Whether there is a fallback to run when all attempts have failed.
    pub has_fallback: bool,
}

impl StepSpec {
    /// Whether the time of the start must outlive the process, so that each start is an entry of its own.
    ///
    /// ```
    /// use outlive_core::workflow::StepSpec;
    /// assert!(!StepSpec::default().needs_start());
    /// assert!(StepSpec { is_at_most_once: true, ..StepSpec::default() }.needs_start());
    /// ```
    #[must_use]
    pub fn needs_start(&self) -> bool {
        self.is_at_most_once
            || self.attempt_timeout.is_some()
            || self.total_timeout.is_some()
            || self.retry.as_ref().is_some_and(|retry| retry.has_max_duration())
    }
}

/// How a step ended when it failed.
///
/// ```
/// use outlive_core::retry::Reason;
/// use outlive_core::workflow::Ended;
/// assert_ne!(Ended::Exhausted(Reason::MaxAttempts), Ended::Exhausted(Reason::MaxDuration));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// With an error that is not tried again.
    Error,
    /// With the last of its attempts, or of its time.
    Exhausted(Reason),
    /// Because its time was over.
    Timeout,
    /// Because the process ended in a step that may run at most once.
    Interrupted,
}

/// A step that finally failed.
///
/// ```
/// use outlive_core::failure::{Cause, Failure};
/// use outlive_core::workflow::{Ended, FailedStep};
/// let failure = Failure::new(Cause::Timeout, "timed out after 5s");
/// let failed = FailedStep { ended: Ended::Timeout, attempts: 2, failure };
/// assert_eq!(failed.failure.to_string(), "timed out after 5s");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedStep {
    /// How it ended.
    pub ended: Ended,
    /// How many attempts were made.
    pub attempts: u32,
    /// The last failure.
    pub failure: Failure,
}

/// What an operation gives to user code.
///
/// ```
/// use outlive_core::payload::Payload;
/// use outlive_core::workflow::Outcome;
///
/// fn value(outcome: Outcome) -> Option<Payload> {
///     match outcome {
///         Outcome::Value(payload) | Outcome::Signal { payload, .. } => Some(payload),
///         _ => None,
///     }
/// }
/// assert_eq!(value(Outcome::TimedOut), None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A step's value.
    Value(Payload),
    /// A step's failure.
    Failed(Box<FailedStep>),
    /// The sleep is over.
    Slept,
    /// A signal.
    Signal {
        /// Where it lay in the inbox.
        pos: u64,
        /// Its value.
        payload: Payload,
    },
    /// The wait gave up.
    TimedOut,
    /// The run was cancelled.
    Cancelled,
}

/// An outstanding operation, as it was asked for.
///
/// ```
/// use outlive_core::workflow::{Asked, OpKind};
/// fn is_new_step(asked: &Asked) -> bool {
///     asked.kind == OpKind::Step && !asked.is_recorded
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Its identity; that of its old name if it was found there.
    pub op: Arc<str>,
    /// Its identity without the count, by its own name.
    pub base: Arc<str>,
    /// Where it is called.
    pub site: Arc<str>,
    /// What it is.
    pub kind: OpKind,
    /// Whether the journal says anything of it.
    pub is_recorded: bool,
    /// Whether it is a wait that gives up by itself.
    pub has_timeout: bool,
    /// The attempt of a step that is under way, or due next; 0 if it is no step.
    pub attempt: u32,
    /// The signal that a wait is for.
    pub signal: Option<Name>,
}

impl Asked {
    pub(super) fn of(op: &Op) -> Self {
        let is_over = matches!(op.phase, Phase::Settled { .. } | Phase::Delivered { .. });
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

/// Where an operation is.
#[derive(Debug)]
pub(super) enum Phase {
    /// Called, never polled: it takes no part in anything yet.
    Called,
    /// Asked for; nothing of it has begun in this process.
    Idle,
    /// Its start is being made durable; the body may run once `seq` is.
    Starting { seq: u64, attempt: u32, started: Timestamp },
    /// The body may run or is running.
    Working { attempt: u32, started: Timestamp },
    /// The body of its fallback may run or is running.
    FallingBack { attempt: u32, started: Timestamp, failure: Box<Failure> },
    /// Its next attempt, or its end as a sleep or wait, is due at a time.
    Armed,
    /// A wait without a timeout.
    Listening,
    /// Its outcome has a delivery number.
    Settled { seq: u64, at: Timestamp, outcome: Outcome },
    /// Its outcome is delivered; user code has not taken it yet.
    Delivered { seq: u64, outcome: Outcome },
    /// It can never become ready: the run is stuck because of it.
    Refused,
}

/// One operation.
pub(super) struct Op {
    pub(super) identity: Identity,
    /// The identity as text; that of the alias if the record was found there.
    pub(super) key: Arc<str>,
    pub(super) kind: OpKind,
    pub(super) site: Arc<str>,
    /// The identities without a count under which it may be recorded too, in the order in which they are tried.
    pub(super) aliases: Vec<Arc<str>>,
    pub(super) spec: Option<Spec>,
    /// What the journal says of it, and what happened since.
    pub(super) record: Record,
    pub(super) phase: Phase,
    /// The time it is entered under in the timers, if any.
    pub(super) timer: Option<Timestamp>,
}

impl Op {
    pub(super) fn step_spec(&self) -> Option<&StepSpec> {
        match &self.spec {
            Some(Spec::Step(spec)) => Some(spec),
            _ => None,
        }
    }

    /// Whether a body of it may be running now.
    pub(super) fn is_working(&self) -> bool {
        matches!(self.phase, Phase::Working { .. } | Phase::FallingBack { .. } | Phase::Starting { .. })
    }
}
