//! The status of an instance.

use std::fmt;

use crate::time::Timestamp;

/// The status of an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Status {
    /// Accepted but not started.
    Pending,
    /// Executing.
    Running,
    /// Not executing until a time or a message wakes it.
    Paused {
        /// What it is waiting for.
        why: Pause,
        /// When it resumes by itself, if it does.
        until: Option<Timestamp>,
    },
    /// Ended with a result.
    Completed,
    /// Ended with a failure.
    Failed,
    /// Ended by request.
    Cancelled,
    /// Needs a person or a deploy to continue. Nothing is lost.
    Stuck,
}

/// What a paused instance is waiting for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Pause {
    /// The end of a sleep.
    Sleep,
    /// The next attempt of a step.
    Retry,
    /// A signal.
    Wait,
    /// A manual resume.
    Hand,
}

/// A status without its details, for filters, counts and columns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is the status of the same name")]
pub enum StatusKind {
    Pending = 0,
    Running = 1,
    Paused = 2,
    Stuck = 3,
    Completed = 4,
    Failed = 5,
    Cancelled = 6,
}

impl StatusKind {
    /// All kinds, in the order of the lifecycle.
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Running, Self::Paused, Self::Stuck, Self::Completed, Self::Failed, Self::Cancelled];

    /// Returns the name of the kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stuck => "stuck",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the kind with this name, if there is one.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Returns `true` if the kind is completed, failed or cancelled.
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns the stored code.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the kind with this code, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl Status {
    /// Returns `true` if the status is completed, failed or cancelled. A stuck instance has not ended.
    #[must_use]
    pub fn is_ended(self) -> bool {
        self.kind().is_ended()
    }

    /// Returns the name shown to people. Only an instance that was paused manually is `paused`.
    ///
    /// ```
    /// # use outlive_core::status::{Pause, Status};
    /// assert_eq!(Status::Paused { why: Pause::Retry, until: None }.as_str(), "retrying");
    /// assert_eq!(Status::Paused { why: Pause::Hand, until: None }.as_str(), "paused");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paused { why: Pause::Sleep, .. } => "sleeping",
            Self::Paused { why: Pause::Retry, .. } => "retrying",
            Self::Paused { why: Pause::Wait, .. } => "waiting",
            other => other.kind().as_str(),
        }
    }

    /// Returns the status without its details.
    #[must_use]
    pub fn kind(self) -> StatusKind {
        match self {
            Self::Pending => StatusKind::Pending,
            Self::Running => StatusKind::Running,
            Self::Paused { .. } => StatusKind::Paused,
            Self::Completed => StatusKind::Completed,
            Self::Failed => StatusKind::Failed,
            Self::Cancelled => StatusKind::Cancelled,
            Self::Stuck => StatusKind::Stuck,
        }
    }

    /// Returns the two columns stored besides the kind: why it is paused, and until when.
    #[must_use]
    pub fn pause(self) -> (Option<Pause>, Option<Timestamp>) {
        match self {
            Self::Paused { why, until } => (Some(why), until),
            _ => (None, None),
        }
    }

    /// Rebuilds a status from its columns. A pause without a reason counts as manual.
    #[must_use]
    pub fn from_parts(kind: StatusKind, why: Option<Pause>, until: Option<Timestamp>) -> Self {
        match kind {
            StatusKind::Pending => Self::Pending,
            StatusKind::Running => Self::Running,
            StatusKind::Paused => Self::Paused { why: why.unwrap_or(Pause::Hand), until },
            StatusKind::Stuck => Self::Stuck,
            StatusKind::Completed => Self::Completed,
            StatusKind::Failed => Self::Failed,
            StatusKind::Cancelled => Self::Cancelled,
        }
    }
}

impl Pause {
    const ALL: [Self; 4] = [Self::Sleep, Self::Retry, Self::Wait, Self::Hand];

    /// Returns the stored name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Retry => "retry",
            Self::Wait => "wait",
            Self::Hand => "by hand",
        }
    }

    /// Returns the pause with this name, if there is one.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pause| pause.as_str() == text)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { why: Pause::Retry, until: Some(until) } => write!(f, "retrying (at {until})"),
            Self::Paused { until: Some(until), .. } => write!(f, "{} (until {until})", self.as_str()),
            _ => f.write_str(self.as_str()),
        }
    }
}
