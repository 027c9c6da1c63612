//! The kinds of operations: what each is asked to do, and what it can give user code.

use std::sync::Arc;
use std::time::Duration;

use crate::failure::Failure;
use crate::id::Name;
use crate::journal::SentTo;
use crate::payload::Payload;
use crate::retry::{Reason, Retry};
use crate::time::Timestamp;

use super::care::StepCare;
use super::effect::{CHILD_PREFIX, EffectSpec, RefusedEffect};

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpKind {
    /// A side effect whose result is recorded.
    Step,
    /// A pause until a time.
    Sleep,
    /// A pause until a signal.
    Wait,
    /// The start of a child.
    Child,
    /// A pause until a child has ended.
    Result,
    /// The start of a run that is not a child.
    Start,
    /// A signal to another run.
    Signal,
    /// A request to cancel another run.
    Cancel,
    /// An event for a task or a debounce.
    Send,
    /// An event for a worker pool.
    Push,
    /// A choice between old and new code.
    Patch,
    /// A step that undoes what another operation has done.
    Undo,
    /// The point from which on a run only undoes.
    Unwind,
    /// The end of this journal and the start of the next.
    Restart,
    /// The publication of a value.
    Publish,
    /// An item for a stream.
    Append,
    /// A pause until a question.
    Question,
    /// The answer to a question.
    Reply,
}

impl OpKind {
    /// All kinds.
    pub const ALL: [Self; 18] = [
        Self::Step,
        Self::Sleep,
        Self::Wait,
        Self::Child,
        Self::Result,
        Self::Start,
        Self::Signal,
        Self::Cancel,
        Self::Send,
        Self::Push,
        Self::Patch,
        Self::Undo,
        Self::Unwind,
        Self::Restart,
        Self::Publish,
        Self::Append,
        Self::Question,
        Self::Reply,
    ];

    /// Returns `true` if it waits for a message, and nothing is recorded before that arrives.
    #[must_use]
    pub fn is_wait(self) -> bool {
        matches!(self, Self::Wait | Self::Result | Self::Question)
    }

    /// Returns `true` if it has a body that runs in attempts.
    #[must_use]
    pub fn has_attempts(self) -> bool {
        matches!(self, Self::Step | Self::Undo)
    }

    /// Returns the prefix of its identity.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Step => "step:",
            Self::Sleep => "sleep",
            Self::Wait => "wait:",
            Self::Child => CHILD_PREFIX,
            Self::Result => "result:",
            Self::Start => "start:",
            Self::Signal => "signal:",
            Self::Cancel => "cancel:",
            Self::Send => "send:",
            Self::Push => "push:",
            Self::Patch => "patch:",
            Self::Undo => "undo:",
            Self::Unwind => "unwind",
            Self::Restart => "restart",
            Self::Publish => "publish:",
            Self::Append => "append:",
            Self::Question => "ask:",
            Self::Reply => "reply:",
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
    /// Wait for a signal, or for a question.
    Wait {
        /// The name of the signal, or the [key](crate::output::QuestionKey) of the question.
        name: Name,
        /// How long to wait before giving up.
        timeout: Option<Duration>,
        /// Checks whether a signal has the expected type.
        accepts: Accepts,
    },
    /// Start or send something elsewhere.
    Effect(Box<EffectSpec>),
    /// Wait for a child to end.
    Result(ChildKey),
    /// Take the new path, unless the journal was written on the old one.
    Patch,
    /// Begin to undo, for this reason.
    Unwind(Box<str>),
    /// Restart with this input. Never ready, unless the run is cancelled.
    Restart(Payload),
}

impl Spec {
    /// Returns the name under which what this waits for arrives in the inbox.
    pub(super) fn awaited(&self) -> Option<&str> {
        match self {
            Self::Wait { name, .. } => Some(name.as_str()),
            Self::Result(child) => Some(child.as_str()),
            _ => None,
        }
    }
}

/// The name under which the outcome of a child waits in the inbox: no signal can have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChildKey(Box<str>);

impl ChildKey {
    const PREFIX: &str = "\u{1}";

    /// Returns the key of the child with this id.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(format!("{}{id}", Self::PREFIX).into())
    }

    /// Returns the id of the child.
    #[must_use]
    pub fn id(&self) -> &str {
        Self::id_of(&self.0)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id of the child with this key.
    pub(super) fn id_of(key: &str) -> &str {
        key.strip_prefix(Self::PREFIX).unwrap_or(key)
    }

    /// Returns `true` if a name is the key of a child.
    pub(super) fn is_one(name: &str) -> bool {
        name.starts_with(Self::PREFIX)
    }
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
    /// What few steps have.
    pub care: Option<Box<StepCare>>,
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
    /// The end of an effect.
    Sent(Box<SentTo>),
    /// Whether a patch applies.
    Patched(bool),
    /// The run unwinds from here, for this reason.
    Unwinding(Payload),
    /// The end of an output, with what its entry records besides.
    Given(Option<Payload>),
    /// The refusal of an effect or an output.
    Refused(Box<RefusedEffect>),
    /// A signal, a question, or the [outcome](crate::child::ChildOutcome) of a child.
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
