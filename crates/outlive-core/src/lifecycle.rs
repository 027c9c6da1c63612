//! Lifecycle events: what the feed reports about an instance besides its journal entries.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::payload::Payload;
use crate::status::{Status, StatusKind};
use crate::time::Timestamp;

/// A lifecycle event of an instance. The store numbers it in one sequence with the journal entries of the instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LifecycleRecord {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub kind: LifecycleRecordKind,
    /// The attempt it is about; 0 if it is not about an attempt.
    pub attempt: u32,
    /// Details as JSON.
    pub detail: Option<Payload>,
}

impl LifecycleRecord {
    /// Creates an event without attempt and details.
    #[must_use]
    pub fn new(kind: LifecycleRecordKind, at: Timestamp) -> Self {
        Self { at, kind, attempt: 0, detail: None }
    }

    /// Adds details.
    #[must_use]
    pub fn with(mut self, detail: Payload) -> Self {
        self.detail = Some(detail);
        self
    }

    /// Creates the event for the termination of an instance of a job.
    #[must_use]
    pub fn terminated(reason: &str, at: Timestamp) -> Self {
        let detail = Detail { reason: Some(reason.to_owned().into()), ..Detail::default() };
        Self::new(LifecycleRecordKind::JobTerminated, at).with(detail.to_payload())
    }

    /// Creates the event for a status change of a run, if the change is reported.
    #[must_use]
    pub fn of_run(before: Option<StatusKind>, now: Status, note: Option<&str>, at: Timestamp) -> Option<Self> {
        let kind = match (before, now) {
            (_, Status::Pending) => LifecycleRecordKind::RunQueued,
            (Some(StatusKind::Pending), Status::Running) => LifecycleRecordKind::RunStarted,
            (Some(before), Status::Running) if before.is_idle() => LifecycleRecordKind::RunResumed,
            (_, Status::Running) => return None,
            (_, idle) if idle.is_idle() => LifecycleRecordKind::RunPaused,
            (_, Status::Completed) => LifecycleRecordKind::RunCompleted,
            (_, Status::Failed) => LifecycleRecordKind::RunFailed,
            (_, Status::Cancelled) => LifecycleRecordKind::RunCancelled,
            _ => LifecycleRecordKind::RunStuck,
        };
        let detail = match note {
            _ if now.is_idle() => Payload::encode(&(now.as_str(), now.until())).ok(),
            // The note of a run that continues says why it had stopped before.
            Some(note) if !matches!(now, Status::Pending | Status::Running) => Payload::encode(note).ok(),
            _ => None,
        };
        Some(Self { at, kind, attempt: 0, detail })
    }

    /// Adds the failure as details, if this is the event of a failed run.
    #[must_use]
    pub fn because(mut self, outcome: Option<&Payload>) -> Self {
        if let (LifecycleRecordKind::RunFailed, Some(failure)) = (self.kind, outcome) {
            self.detail = Some(failure.clone());
        }
        self
    }
}

macro_rules! kinds {
    ($($kind:ident = $code:literal $text:literal,)*) => {
        /// The kind of a lifecycle event.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        #[expect(missing_docs, reason = "the names are self-explanatory")]
        pub enum LifecycleRecordKind {
            $($kind = $code,)*
        }

        impl LifecycleRecordKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Returns the name shown to people.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $text,)*
                }
            }
        }
    };
}

kinds! {
    RunQueued = 1 "run queued",
    RunStarted = 2 "run started",
    RunPaused = 3 "run paused",
    RunResumed = 4 "run resumed",
    RunCompleted = 5 "run completed",
    RunFailed = 6 "run failed",
    RunCancelled = 7 "run cancelled",
    RunStuck = 8 "run stuck",
    RunBegun = 9 "run queued and started",
    JobStarted = 20 "job started",
    JobExecuted = 21 "job executed",
    JobFailed = 22 "job failed",
    JobExhausted = 23 "job exhausted",
    JobTerminated = 24 "job terminated",
    JobStopped = 25 "job stopped",
    JobResumed = 26 "job resumed",
    JobStuck = 27 "job stuck",
    EventHandled = 30 "event handled",
    DebounceStarted = 40 "debounce started",
    DebounceFlushed = 41 "debounce flushed",
    DebounceCleared = 42 "debounce cleared",
    TaskScheduled = 50 "task scheduled",
}

impl LifecycleRecordKind {
    /// Returns the stored code.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the kind with this code, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.code() == code)
    }

    /// Returns how many sequence numbers it takes: an event that stands for two takes two.
    #[must_use]
    pub fn count(self) -> u64 {
        if self == Self::RunBegun { 2 } else { 1 }
    }
}

/// The [`detail`](LifecycleRecord::detail) of a lifecycle event of a job. Each field is set only where it applies.
///
/// ```
/// use outlive_core::lifecycle::Detail;
///
/// let detail = Detail { events: Some(3), reason: Some("max events".into()), ..Detail::default() };
/// let payload = detail.to_payload();
/// assert_eq!(payload.as_str(), r#"{"events":3,"reason":"max events"}"#);
/// assert_eq!(Detail::from_payload(&payload), Some(detail));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// The position of the event it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// The number of events it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// The run of the job, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// The handler: `execute`, `on_event`, `on_idle` or `on_error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<Cow<'static, str>>,
    /// How long the handler ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The error message with its causes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it is retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// The delay until then, with jitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// The delay of the backoff, without jitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_delay_ms: Option<u64>,
    /// The kind of backoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Cow<'static, str>>,
    /// The kind of jitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Cow<'static, str>>,
    /// The reason for a flush, the end of retries, a termination or being stuck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// When something is due: a flush, the wake of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Detail {
    /// Serializes the details.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        Payload::encode(self).unwrap_or_else(|_| Payload::recorded("{}"))
    }

    /// Deserializes the details; `None` if the payload is something else.
    #[must_use]
    pub fn from_payload(payload: &Payload) -> Option<Self> {
        payload.decode().ok()
    }
}
