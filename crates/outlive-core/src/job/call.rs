//! Handler calls and how they end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::id::Name;
use crate::kind::JobKind;
use crate::message::Inbound;
use crate::payload::Payload;
use crate::retry::Reason;
use crate::status::Status;
use crate::time::Timestamp;

/// What to do next for an instance.
#[derive(Clone, PartialEq, Debug)]
pub enum Next {
    /// Call a handler, and report its end with [`Job::ended`](super::Job::ended).
    Call(Call),
    /// Wait for a time or a message.
    Wait(Status),
    /// Remove the instance: it holds nothing worth keeping.
    Over,
}

impl Next {
    /// Returns the wait of an instance that has nothing to do.
    pub(super) fn wait_until(until: Option<Timestamp>) -> Self {
        Self::Wait(until.map_or(Status::Waiting { until: None }, |until| Status::Sleeping { until }))
    }
}

/// A call to make.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The handler to call.
    pub handler: HandlerKind,
    /// The attempt number, from 1.
    pub attempt: u32,
    /// The event to handle, for `on_event`.
    pub event: Option<Inbound>,
    /// The time at which `execute` was due, if that is why it is called.
    pub tick: Option<Timestamp>,
    /// The inbox position of the message that triggered it, if one did.
    pub trigger: Option<u64>,
    /// Why the batch is flushed.
    pub flush: Option<FlushReason>,
    /// The failure to handle, for `on_error`.
    pub failure: Option<Payload>,
}

/// A handler of a job.
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
    /// Returns its name in the API.
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FlushReason {
    /// The window since the first event is over.
    Window,
    /// The quiet period since the last event is over.
    Quiet,
    /// The batch has its maximum number of events.
    MaxEvents,
    /// A user asked for it, or the batch had to make room for one that is retried.
    Manual,
    /// The batch was a dead letter and is retried.
    Retried,
}

impl FlushReason {
    /// Returns its text for people.
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
#[derive(Clone, Debug)]
pub enum End {
    /// The handler succeeded, or ended the instance.
    Done(Done),
    /// The handler failed; nothing it did counts.
    Failed(Failure),
    /// The event or the state could not be read, so the handler was not called.
    Unreadable(String),
}

/// The result of a handler that succeeded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Done {
    /// The new state, if it changed.
    pub state: Option<Payload>,
    /// The next wake, if the handler set or cleared it.
    pub plan: Option<Planned>,
    /// The reply to a sender that asked for one.
    pub answer: Option<Payload>,
    /// Why the instance ends, if it does. Takes precedence over everything else, even over a failure.
    pub terminate: Option<String>,
}

/// The next wake of a task, as set by its handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planned {
    /// Wake at this time.
    At(Timestamp),
    /// Do not wake.
    Never,
}

/// Retries that ran out.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Exhausted {
    /// The kind of job.
    pub kind: JobKind,
    /// The job's name.
    pub name: String,
    /// The id of the instance, as the user gave it.
    pub instance: String,
    /// The handler that failed.
    pub handler: HandlerKind,
    /// The number of attempts.
    pub attempts: u32,
    /// Why there is no further retry.
    pub reason: Reason,
    /// The last failure.
    pub last: Failure,
    /// The time from the first attempt to the last failure.
    pub total: Duration,
}

impl Exhausted {
    /// Describes exhausted retries of the instance with this full id, such as `task:orders:42`.
    #[must_use]
    pub fn new(id: &Name, handler: HandlerKind, attempts: u32, reason: Reason, last: Failure, total: Duration) -> Self {
        let name = id.as_str().split(':').nth(1).unwrap_or_default().to_owned();
        let kind = JobKind::of(id).unwrap_or(JobKind::Task);
        Self { kind, name, instance: JobKind::own_id(id).to_owned(), handler, attempts, reason, last, total }
    }
}
