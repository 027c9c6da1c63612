//! The life of an instance: its status, and the status without its details.

use std::fmt;

use crate::time::Timestamp;

/// Where an instance is in its life.
///
/// ```
/// use outlive_core::status::Status;
/// assert!(Status::Completed.is_ended() && !Status::Stuck.is_ended());
/// assert_eq!(Status::Waiting { until: None }.to_string(), "waiting");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Status {
    /// Accepted, not started yet.
    Pending,
    /// Being executed.
    Running,
    /// Asleep until a time.
    Sleeping {
        /// When it resumes.
        until: Timestamp,
    },
    /// Waiting for a signal or an event.
    Waiting {
        /// When the wait times out, if it does.
        until: Option<Timestamp>,
    },
    /// Waiting for the next attempt of something that failed.
    Retrying {
        /// When the attempt starts.
        at: Timestamp,
    },
    /// Paused by an operator until one resumes it.
    Paused,
    /// Ended with a result.
    Completed,
    /// Ended with a failure.
    Failed,
    /// Ended because somebody asked for it.
    Cancelled,
    /// Needs a person or a deploy to continue. Nothing of it is lost.
    Stuck,
}

/// A status without its details, for filters, counts and columns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the status of the same name")]
pub enum StatusKind {
    Pending = 0,
    Running = 1,
    Sleeping = 7,
    Waiting = 8,
    Retrying = 9,
    Paused = 2,
    Stuck = 3,
    Completed = 4,
    Failed = 5,
    Cancelled = 6,
}

impl StatusKind {
    /// All kinds, in the order of a life.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Sleeping,
        Self::Waiting,
        Self::Retrying,
        Self::Paused,
        Self::Stuck,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Returns its name in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::Waiting => "waiting",
            Self::Retrying => "retrying",
            Self::Paused => "paused",
            Self::Stuck => "stuck",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the kind of this name.
    ///
    /// ```
    /// # use outlive_core::status::StatusKind;
    /// assert_eq!(StatusKind::from_text("failed"), Some(StatusKind::Failed));
    /// assert_eq!(StatusKind::from_text("asleep"), None);
    /// ```
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Returns `true` for the three ends: completed, failed and cancelled.
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns `true` if a time, a message or an operator must come before it runs: sleeping, waiting, retrying and paused.
    #[must_use]
    pub fn is_idle(self) -> bool {
        matches!(self, Self::Sleeping | Self::Waiting | Self::Retrying | Self::Paused)
    }

    /// Returns the number stored for it.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the kind stored as this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl Status {
    /// Returns `true` for the three ends: completed, failed and cancelled.
    #[must_use]
    pub fn is_ended(self) -> bool {
        self.kind().is_ended()
    }

    /// Returns `true` if a time, a message or an operator must come before it runs: sleeping, waiting, retrying and paused.
    #[must_use]
    pub fn is_idle(self) -> bool {
        self.kind().is_idle()
    }

    /// Returns its name in lower case, without details.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.kind().as_str()
    }

    /// Returns its kind.
    #[must_use]
    pub fn kind(self) -> StatusKind {
        match self {
            Self::Pending => StatusKind::Pending,
            Self::Running => StatusKind::Running,
            Self::Sleeping { .. } => StatusKind::Sleeping,
            Self::Waiting { .. } => StatusKind::Waiting,
            Self::Retrying { .. } => StatusKind::Retrying,
            Self::Paused => StatusKind::Paused,
            Self::Completed => StatusKind::Completed,
            Self::Failed => StatusKind::Failed,
            Self::Cancelled => StatusKind::Cancelled,
            Self::Stuck => StatusKind::Stuck,
        }
    }

    /// Returns when it resumes by itself: the end of a sleep, the timeout of a wait, the time of the next attempt.
    ///
    /// ```
    /// # use outlive_core::status::Status;
    /// # use outlive_core::time::Timestamp;
    /// let at = Timestamp::from_millis(60_000);
    /// assert_eq!(Status::Retrying { at }.until(), Some(at));
    /// assert_eq!(Status::Waiting { until: None }.until(), None);
    /// ```
    #[must_use]
    pub fn until(self) -> Option<Timestamp> {
        match self {
            Self::Sleeping { until } | Self::Retrying { at: until } => Some(until),
            Self::Waiting { until } => until,
            _ => None,
        }
    }

    /// Builds a status from its kind and its time. A sleep or a retry without a time reads as a wait without one.
    #[must_use]
    pub fn from_parts(kind: StatusKind, until: Option<Timestamp>) -> Self {
        match (kind, until) {
            (StatusKind::Pending, _) => Self::Pending,
            (StatusKind::Running, _) => Self::Running,
            (StatusKind::Sleeping, Some(until)) => Self::Sleeping { until },
            (StatusKind::Retrying, Some(at)) => Self::Retrying { at },
            (StatusKind::Sleeping | StatusKind::Waiting | StatusKind::Retrying, until) => Self::Waiting { until },
            (StatusKind::Paused, _) => Self::Paused,
            (StatusKind::Stuck, _) => Self::Stuck,
            (StatusKind::Completed, _) => Self::Completed,
            (StatusKind::Failed, _) => Self::Failed,
            (StatusKind::Cancelled, _) => Self::Cancelled,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.until()) {
            (Self::Retrying { at }, _) => write!(f, "retrying (at {at})"),
            (_, Some(until)) => write!(f, "{} (until {until})", self.as_str()),
            (_, None) => f.write_str(self.as_str()),
        }
    }
}
