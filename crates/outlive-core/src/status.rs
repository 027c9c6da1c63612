//! Where an instance is in its life.

use std::fmt;

use crate::time::Timestamp;

/// Where an instance is in its life.
///
/// ```
/// use outlive_core::status::Status;
/// assert!(Status::Completed.is_ended() && !Status::Stuck.is_ended());
/// assert_eq!(Status::Running.to_string(), "running");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Status {
    /// Accepted; not begun.
    Pending,
    /// Something of it is at work.
    Running,
    /// Nothing of it is at work until a time or a message comes.
    Paused {
        /// What it waits for.
        why: Pause,
        /// When it goes on by itself, if it does.
        until: Option<Timestamp>,
    },
    /// Ended with a result.
    Completed,
    /// Ended with a failure.
    Failed,
    /// Ended because somebody asked for it.
    Cancelled,
    /// Set aside: it cannot go on without a change. Nothing of it is lost.
    Stuck,
}

/// What a paused instance waits for.
///
/// ```
/// use outlive_core::status::{Pause, Status};
/// let status = Status::Paused { why: Pause::Wait, until: None };
/// assert_eq!(status.to_string(), "waiting");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Pause {
    /// The end of a sleep.
    Sleep,
    /// The next attempt of a step.
    Retry,
    /// A signal.
    Wait,
    /// Somebody to resume it.
    Hand,
}

/// The kinds of status, without what belongs to one of them: for filters, counts and columns.
///
/// ```
/// use outlive_core::status::{Pause, Status, StatusKind};
/// let status = Status::Paused { why: Pause::Sleep, until: None };
/// assert_eq!(status.kind(), StatusKind::Paused);
/// ```
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
    /// All of them, in the order of a life.
    ///
    /// ```
    /// use outlive_core::status::StatusKind;
    /// assert_eq!(StatusKind::ALL.into_iter().filter(|kind| kind.is_ended()).count(), 3);
    /// ```
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Running, Self::Paused, Self::Stuck, Self::Completed, Self::Failed, Self::Cancelled];

    /// The word for it.
    ///
    /// ```
    /// assert_eq!(outlive_core::status::StatusKind::Stuck.as_str(), "stuck");
    /// ```
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

    /// The kind with this word.
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

    /// Whether it is one of the three ends.
    ///
    /// ```
    /// # use outlive_core::status::StatusKind;
    /// assert!(StatusKind::Cancelled.is_ended() && !StatusKind::Paused.is_ended());
    /// ```
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The number in a column.
    ///
    /// ```
    /// assert_eq!(outlive_core::status::StatusKind::Completed.code(), 4);
    /// ```
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this number.
    ///
    /// ```
    /// # use outlive_core::status::StatusKind;
    /// assert_eq!(StatusKind::from_code(4), Some(StatusKind::Completed));
    /// assert_eq!(StatusKind::from_code(99), None);
    /// ```
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl Status {
    /// Whether it is one of the three ends.
    ///
    /// ```
    /// # use outlive_core::status::Status;
    /// assert!(Status::Failed.is_ended());
    /// assert!(!Status::Stuck.is_ended(), "it may go on");
    /// ```
    #[must_use]
    pub fn is_ended(self) -> bool {
        self.kind().is_ended()
    }

    /// The word for it. Only an instance that somebody paused is `paused`.
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

    /// Its kind alone.
    ///
    /// ```
    /// # use outlive_core::status::{Status, StatusKind};
    /// assert_eq!(Status::Running.kind(), StatusKind::Running);
    /// ```
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

    /// As two columns beside the kind: why it is paused, and until when.
    ///
    /// ```
    /// # use outlive_core::status::{Pause, Status};
    /// # use outlive_core::time::Timestamp;
    /// let until = Some(Timestamp::from_millis(60_000));
    /// assert_eq!(Status::Paused { why: Pause::Sleep, until }.pause(), (Some(Pause::Sleep), until));
    /// assert_eq!(Status::Running.pause(), (None, None));
    /// ```
    #[must_use]
    pub fn pause(self) -> (Option<Pause>, Option<Timestamp>) {
        match self {
            Self::Paused { why, until } => (Some(why), until),
            _ => (None, None),
        }
    }

    /// Back from columns. A pause without a reason reads as one by hand.
    ///
    /// ```
    /// # use outlive_core::status::{Pause, Status, StatusKind};
    /// let status = Status::from_parts(StatusKind::Paused, Some(Pause::Retry), None);
    /// assert_eq!(status, Status::Paused { why: Pause::Retry, until: None });
    /// ```
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

    /// The word for it.
    ///
    /// ```
    /// assert_eq!(outlive_core::status::Pause::Hand.as_str(), "by hand");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Retry => "retry",
            Self::Wait => "wait",
            Self::Hand => "by hand",
        }
    }

    /// The pause with this word.
    ///
    /// ```
    /// # use outlive_core::status::Pause;
    /// assert_eq!(Pause::from_text("retry"), Some(Pause::Retry));
    /// ```
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
