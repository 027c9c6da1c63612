//! What we tell the world of an instance: one line for each thing that was committed and is no entry of a journal.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::payload::Payload;
use crate::status::{Status, StatusKind};
use crate::time::Timestamp;

/// One thing that happened to an instance. Numbered by the store, one by one with the entries of its journal.
///
/// ```
/// use outlive_core::lifecycle::{News, NewsKind};
/// use outlive_core::time::Timestamp;
///
/// let news = News { attempt: 2, ..News::new(NewsKind::JobFailed, Timestamp::from_millis(1)) };
/// assert_eq!((news.kind.as_str(), news.detail), ("job failed", None));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct News {
    /// When it happened.
    pub at: Timestamp,
    /// What.
    pub kind: NewsKind,
    /// The attempt that it is about; 0 if it is about none.
    pub attempt: u32,
    /// More of it, as JSON.
    pub detail: Option<Payload>,
}

impl News {
    /// News of a kind, about no attempt.
    ///
    /// ```
    /// # use outlive_core::{lifecycle::{News, NewsKind}, time::Timestamp};
    /// assert_eq!(News::new(NewsKind::JobStarted, Timestamp::from_millis(7)).attempt, 0);
    /// ```
    #[must_use]
    pub fn new(kind: NewsKind, at: Timestamp) -> Self {
        Self { at, kind, attempt: 0, detail: None }
    }

    /// The same with more of it.
    ///
    /// ```
    /// # use outlive_core::{lifecycle::{News, NewsKind}, payload::Payload, time::Timestamp};
    /// let news = News::new(NewsKind::TaskScheduled, Timestamp::from_millis(7)).with(Payload::recorded("60000"));
    /// assert_eq!(news.detail, Some(Payload::recorded("60000")));
    /// ```
    #[must_use]
    pub fn with(mut self, detail: Payload) -> Self {
        self.detail = Some(detail);
        self
    }

    /// The end of an instance of a job, with its reason.
    ///
    /// ```
    /// # use outlive_core::{lifecycle::{News, NewsKind}, time::Timestamp};
    /// assert_eq!(News::terminated("moved away", Timestamp::from_millis(7)).kind, NewsKind::JobTerminated);
    /// ```
    #[must_use]
    pub fn terminated(reason: &str, at: Timestamp) -> Self {
        let detail = Detail { reason: Some(reason.to_owned().into()), ..Detail::default() };
        Self::new(NewsKind::JobTerminated, at).with(detail.to_payload())
    }

    /// What a change of a run's status tells, if it tells anything.
    ///
    /// ```
    /// # use outlive_core::{lifecycle::{News, NewsKind}, status::{Status, StatusKind}, time::Timestamp};
    /// let at = Timestamp::from_millis(1);
    /// let news = News::of_run(Some(StatusKind::Running), Status::Completed, None, at);
    /// assert_eq!(news.map(|news| news.kind), Some(NewsKind::RunCompleted));
    /// assert_eq!(News::of_run(Some(StatusKind::Running), Status::Running, None, at), None);
    /// ```
    #[must_use]
    pub fn of_run(before: Option<StatusKind>, now: Status, note: Option<&str>, at: Timestamp) -> Option<Self> {
        let kind = match (before, now) {
            (_, Status::Pending) => NewsKind::RunQueued,
            (Some(StatusKind::Pending), Status::Running) => NewsKind::RunStarted,
            (Some(before), Status::Running) if before.is_idle() => NewsKind::RunResumed,
            (_, Status::Running) => return None,
            (_, idle) if idle.is_idle() => NewsKind::RunPaused,
            (_, Status::Completed) => NewsKind::RunCompleted,
            (_, Status::Failed) => NewsKind::RunFailed,
            (_, Status::Cancelled) => NewsKind::RunCancelled,
            _ => NewsKind::RunStuck,
        };
        let detail = match note {
            _ if now.is_idle() => Payload::encode(&(now.as_str(), now.until())).ok(),
            // The note of one that goes on is why it did not before.
            Some(note) if !matches!(now, Status::Pending | Status::Running) => Payload::encode(note).ok(),
            _ => None,
        };
        Some(Self { at, kind, attempt: 0, detail })
    }

    /// The same; if it tells that a run failed, with what it failed with.
    ///
    /// ```
    /// # use outlive_core::{lifecycle::{News, NewsKind}, payload::Payload, time::Timestamp};
    /// let outcome = Payload::recorded(r#"{"cause":"error","message":"declined"}"#);
    /// let news = News::new(NewsKind::RunFailed, Timestamp::from_millis(7)).because(Some(&outcome));
    /// assert_eq!(news.detail, Some(outcome));
    /// ```
    #[must_use]
    pub fn because(mut self, outcome: Option<&Payload>) -> Self {
        if let (NewsKind::RunFailed, Some(failure)) = (self.kind, outcome) {
            self.detail = Some(failure.clone());
        }
        self
    }
}

macro_rules! kinds {
    ($($kind:ident = $code:literal $text:literal,)*) => {
        /// What happened.
        ///
        /// ```
        /// use outlive_core::lifecycle::NewsKind;
        /// assert_eq!(NewsKind::from_code(NewsKind::JobExecuted.code()), Some(NewsKind::JobExecuted));
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        #[expect(missing_docs, reason = "each says what its name says")]
        pub enum NewsKind {
            $($kind = $code,)*
        }

        impl NewsKind {
            /// All of them.
            ///
            /// ```
            /// use outlive_core::lifecycle::NewsKind;
            /// assert!(NewsKind::ALL.contains(&NewsKind::RunStuck));
            /// ```
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The words for it.
            ///
            /// ```
            /// assert_eq!(outlive_core::lifecycle::NewsKind::RunQueued.as_str(), "run queued");
            /// ```
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

impl NewsKind {
    /// The number in a column.
    ///
    /// ```
    /// assert_eq!(outlive_core::lifecycle::NewsKind::RunQueued.code(), 1);
    /// ```
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this number.
    ///
    /// ```
    /// assert_eq!(outlive_core::lifecycle::NewsKind::from_code(255), None);
    /// ```
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.code() == code)
    }

    /// How many numbers it takes: two things in one line take two.
    ///
    /// ```
    /// use outlive_core::lifecycle::NewsKind;
    /// assert_eq!((NewsKind::RunBegun.count(), NewsKind::RunStarted.count()), (2, 1));
    /// ```
    #[must_use]
    pub fn count(self) -> u64 {
        if self == Self::RunBegun { 2 } else { 1 }
    }
}

/// More of what happened to a job, each part of it where it applies: the [`detail`](News::detail) of its news.
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
    /// The position of the event that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// How many events it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Which run of the job, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// Which handler: `execute`, `on_event`, `on_idle`, `on_error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<Cow<'static, str>>,
    /// For how long it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What went wrong: the message with its causes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// The delay until then, with chance in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// The delay as the backoff gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_delay_ms: Option<u64>,
    /// The kind of backoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Cow<'static, str>>,
    /// The kind of jitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Cow<'static, str>>,
    /// Why: the reason of a flush, of the end of retries, of a termination, of being stuck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// When something is to happen: a flush, the wake of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Detail {
    /// As JSON.
    ///
    /// ```
    /// assert_eq!(outlive_core::lifecycle::Detail::default().to_payload().as_str(), "{}");
    /// ```
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        Payload::encode(self).unwrap_or_else(|_| Payload::recorded("{}"))
    }

    /// Back from JSON; `None` if it is something else.
    ///
    /// ```
    /// # use outlive_core::{lifecycle::Detail, payload::Payload};
    /// assert_eq!(Detail::from_payload(&Payload::recorded("42")), None);
    /// ```
    #[must_use]
    pub fn from_payload(payload: &Payload) -> Option<Self> {
        payload.decode().ok()
    }
}
