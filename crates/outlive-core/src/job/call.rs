//! A call of a handler, and how it can end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::id::Name;
use crate::kind::JobKind;
use crate::message::Inbound;
use crate::payload::Payload;
use crate::retry::Reason;
use crate::time::Timestamp;

/// A handler that is to be called.
///
/// ```
/// use outlive_core::job::Call;
/// fn is_retry(call: &Call) -> bool {
///     call.attempt > 1
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// Which.
    pub handler: HandlerKind,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The event it is for.
    pub event: Option<Inbound>,
    /// The moment it was due at, if it is for one.
    pub tick: Option<Timestamp>,
    /// The position of the trigger it is for, if somebody asked for it.
    pub trigger: Option<u64>,
    /// Why the batch is flushed.
    pub flush: Option<FlushReason>,
    /// What went wrong, for `on_error`.
    pub failure: Option<Payload>,
}

/// The handlers of a job.
///
/// ```
/// assert_eq!(outlive_core::job::HandlerKind::Event.as_str(), "on_event");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlerKind {
    /// `on_event`.
    Event,
    /// `execute`.
    Execute,
    /// `on_error`.
    Error,
    /// `on_idle`.
    Idle,
}

impl HandlerKind {
    /// Its name in the API.
    ///
    /// ```
    /// assert_eq!(outlive_core::job::HandlerKind::Execute.as_str(), "execute");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "on_event",
            Self::Execute => "execute",
            Self::Error => "on_error",
            Self::Idle => "on_idle",
        }
    }
}

/// Why a batch is flushed.
///
/// ```
/// assert_eq!(outlive_core::job::FlushReason::MaxEvents.as_str(), "max events");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FlushReason {
    /// The time since the first event has passed.
    Window,
    /// The time since the last event has passed.
    Quiet,
    /// There are as many events as there may be.
    MaxEvents,
    /// Somebody asked for it.
    Manual,
    /// It was given up before, and somebody has it tried again.
    Retried,
}

impl FlushReason {
    /// The words for it.
    ///
    /// ```
    /// assert_eq!(outlive_core::job::FlushReason::Quiet.as_str(), "quiet");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Quiet => "quiet",
            Self::MaxEvents => "max events",
            Self::Manual => "manual",
            Self::Retried => "retried",
        }
    }
}

/// How a call ended.
///
/// ```
/// use outlive_core::job::{Done, End};
/// assert!(matches!(End::Done(Done::default()), End::Done(_)));
/// ```
#[derive(Clone, Debug)]
pub enum End {
    /// The handler succeeded, or ended the instance.
    Done(Done),
    /// It failed: nothing of what it did counts.
    Failed(Failure),
    /// The event or the state could not be read, so that it was not called.
    Unreadable(String),
}

/// What a handler leaves when it succeeds.
///
/// ```
/// assert!(outlive_core::job::Done::default().state.is_none());
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Done {
    /// The new state, if it was changed.
    pub state: Option<Payload>,
    /// What it planned.
    pub plan: Option<Planned>,
    /// What it answers to who asks.
    pub answer: Option<Payload>,
    /// Why the instance is to end, if it is. That goes before everything else, also before a failure.
    pub terminate: Option<String>,
}

/// What a handler of a task planned.
///
/// ```
/// use outlive_core::job::Planned;
/// assert_ne!(Planned::Never, Planned::At(outlive_core::time::Timestamp::from_millis(5)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planned {
    /// To be woken at a time.
    At(Timestamp),
    /// Not to be woken.
    Never,
}

/// Retries that came to their end.
///
/// ```
/// use outlive_core::job::Exhausted;
/// fn line(info: &Exhausted) -> String {
///     format!("{} gave up after {} attempts: {}", info.instance, info.attempts, info.last)
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Exhausted {
    /// The kind of job.
    pub kind: JobKind,
    /// The job's name.
    pub name: String,
    /// The instance, as the user named it.
    pub instance: String,
    /// Which handler failed.
    pub handler: HandlerKind,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it is not tried again.
    pub reason: Reason,
    /// The last failure.
    pub last: Failure,
    /// From the first attempt to the last failure.
    pub total: Duration,
}

impl Exhausted {
    /// What came to its end, for an instance by its whole name.
    ///
    /// ```
    /// # use outlive_core::{failure::{Cause, Failure}, id::Name, job::{Exhausted, HandlerKind}, retry::Reason};
    /// # use std::time::Duration;
    /// let last = Failure::new(Cause::Error, "no route");
    /// let id = Name::recorded("task:orders:42");
    /// let info = Exhausted::new(&id, HandlerKind::Execute, 3, Reason::MaxAttempts, last, Duration::from_secs(7));
    /// assert_eq!((info.name.as_str(), info.instance.as_str()), ("orders", "42"));
    /// ```
    #[must_use]
    pub fn new(id: &Name, handler: HandlerKind, attempts: u32, reason: Reason, last: Failure, total: Duration) -> Self {
        let name = id.as_str().split(':').nth(1).unwrap_or_default().to_owned();
        let kind = JobKind::of(id).unwrap_or(JobKind::Task);
        Self { kind, name, instance: JobKind::own_id(id).to_owned(), handler, attempts, reason, last, total }
    }
}
