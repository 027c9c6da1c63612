//! What a run has done, in order: one flat line per fact, the same in memory and in every store.

use std::sync::Arc;

use crate::failure::Failure;
use crate::payload::Payload;
use crate::status::Status;
use crate::sum::Sum;
use crate::time::Timestamp;

/// One line of a journal.
///
/// Its `seq` is dense within the instance, from 1. The `seq` of an outcome is also its delivery number:
/// outcomes are handed to user code in this order, live and in every replay.
///
/// ```
/// use outlive_core::journal::{Entry, EntryKind};
/// use outlive_core::payload::Payload;
/// # use outlive_core::time::Timestamp;
///
/// let at = Timestamp::from_millis(0);
/// let entry = Entry {
///     op: "step:charge".into(),
///     site: "src/shop.rs:12".into(),
///     attempt: 1,
///     payload: Some(Payload::recorded("42")),
///     ..Entry::of_run(1, at, EntryKind::StepDone)
/// };
/// assert!(entry.kind.is_outcome());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its place in the journal.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub kind: EntryKind,
    /// The operation it happened to, as its identity in text; empty for what happens to the run as a whole.
    pub op: Arc<str>,
    /// Where in the source the operation was called, `file:line`; empty where that is not known.
    pub site: Arc<str>,
    /// Which attempt of a step, from 1; 0 where there is none.
    pub attempt: u32,
    /// When that attempt began.
    pub started: Option<Timestamp>,
    /// When it is to go on: the end of a sleep, a wait's timeout, a retry. Of a taken or refused signal: its place in
    /// the inbox.
    pub due: Option<Timestamp>,
    /// The value, the failure or the reason.
    pub payload: Option<Payload>,
}

/// A signal that does not read as what the wait is for.
///
/// ```
/// # use outlive_core::{journal::Refused, payload::Payload};
/// let refused = Refused { value: Payload::recorded("7"), problem: "expected a boolean".to_owned() };
/// assert_eq!(refused.value.as_str(), "7");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// What was sent.
    pub value: Payload,
    /// What is wrong with it.
    pub problem: String,
}

/// What an entry says.
///
/// ```
/// use outlive_core::journal::EntryKind;
/// assert!(EntryKind::SleepDone.is_outcome() && !EntryKind::SleepSet.is_outcome());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum EntryKind {
    /// An attempt began, and that had to be known before it ended.
    StepStarted = 1,
    /// An attempt failed and another is due.
    AttemptFailed = 2,
    /// A step ended with a value.
    StepDone = 3,
    /// A step ended with a failure.
    StepFailed = 4,
    /// All attempts failed; the fallback is to give the value.
    FallingBack = 5,
    /// A sleep began; it ends at `due`.
    SleepSet = 10,
    /// A sleep ended.
    SleepDone = 11,
    /// A wait began that gives up at `due`.
    WaitSet = 20,
    /// A wait got a signal.
    SignalTaken = 21,
    /// A wait gave up.
    WaitTimedOut = 22,
    /// A signal does not read as what the wait is for, and is a dead letter of the run. The payload is its `value` and the
    /// `problem`.
    SignalRefused = 23,
    /// A dead letter was discarded: the one of the entry that `due` has the number of.
    SignalDiscarded = 24,
    /// An operation ended because the run was cancelled.
    OpCancelled = 30,
    /// The run was asked to end; the payload is the reason.
    CancelTaken = 31,
    /// Somebody had the run go on after it had failed: failures at the end of the journal are forgotten.
    Retried = 40,
    /// The run goes on after it was stuck; nothing is forgotten.
    Reopened = 41,
}

impl EntryKind {
    /// All of them.
    ///
    /// ```
    /// use outlive_core::journal::EntryKind;
    /// let outcomes = EntryKind::ALL.into_iter().filter(|kind| kind.is_outcome());
    /// assert_eq!(outcomes.count(), 6);
    /// ```
    pub const ALL: [Self; 16] = [
        Self::StepStarted,
        Self::AttemptFailed,
        Self::StepDone,
        Self::StepFailed,
        Self::FallingBack,
        Self::SleepSet,
        Self::SleepDone,
        Self::WaitSet,
        Self::SignalTaken,
        Self::WaitTimedOut,
        Self::SignalRefused,
        Self::SignalDiscarded,
        Self::OpCancelled,
        Self::CancelTaken,
        Self::Retried,
        Self::Reopened,
    ];

    /// The number in a column.
    ///
    /// ```
    /// assert_eq!(outlive_core::journal::EntryKind::StepDone.code(), 3);
    /// ```
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this number.
    ///
    /// ```
    /// # use outlive_core::journal::EntryKind;
    /// assert_eq!(EntryKind::from_code(3), Some(EntryKind::StepDone));
    /// assert_eq!(EntryKind::from_code(99), None);
    /// ```
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Whether it is the end of an operation, and so is delivered to user code.
    ///
    /// ```
    /// # use outlive_core::journal::EntryKind;
    /// assert!(EntryKind::StepFailed.is_outcome());
    /// assert!(!EntryKind::AttemptFailed.is_outcome(), "another attempt is due");
    /// ```
    #[must_use]
    pub fn is_outcome(self) -> bool {
        matches!(
            self,
            Self::StepDone
                | Self::StepFailed
                | Self::SleepDone
                | Self::SignalTaken
                | Self::WaitTimedOut
                | Self::OpCancelled
        )
    }

    /// The words for it.
    ///
    /// ```
    /// assert_eq!(outlive_core::journal::EntryKind::WaitTimedOut.as_str(), "wait timed out");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StepStarted => "step started",
            Self::AttemptFailed => "attempt failed",
            Self::StepDone => "step done",
            Self::StepFailed => "step failed",
            Self::FallingBack => "falling back",
            Self::SleepSet => "sleep set",
            Self::SleepDone => "sleep done",
            Self::WaitSet => "wait set",
            Self::SignalTaken => "signal taken",
            Self::WaitTimedOut => "wait timed out",
            Self::SignalRefused => "signal refused",
            Self::SignalDiscarded => "signal discarded",
            Self::OpCancelled => "cancelled",
            Self::CancelTaken => "cancel taken",
            Self::Retried => "retried",
            Self::Reopened => "reopened",
        }
    }
}

impl Entry {
    /// An entry about the run as a whole.
    ///
    /// ```
    /// # use outlive_core::journal::{Entry, EntryKind};
    /// # use outlive_core::time::Timestamp;
    /// let entry = Entry::of_run(4, Timestamp::from_millis(0), EntryKind::CancelTaken);
    /// assert!(entry.op.is_empty());
    /// ```
    #[must_use]
    pub fn of_run(seq: u64, at: Timestamp, kind: EntryKind) -> Self {
        let none: Arc<str> = Arc::from("");
        Self { seq, at, kind, op: none.clone(), site: none, attempt: 0, started: None, due: None, payload: None }
    }

    /// The entry with which a run goes on that had this status.
    ///
    /// ```
    /// # use outlive_core::journal::{Entry, EntryKind};
    /// # use outlive_core::{status::Status, time::Timestamp};
    /// let entry = Entry::reopened(4, Timestamp::from_millis(0), Status::Failed);
    /// assert_eq!(entry.kind, EntryKind::Retried);
    /// ```
    #[must_use]
    pub fn reopened(seq: u64, at: Timestamp, status: Status) -> Self {
        let kind = if status == Status::Failed { EntryKind::Retried } else { EntryKind::Reopened };
        Self::of_run(seq, at, kind)
    }

    /// The signal that was refused, if that is what the entry says.
    ///
    /// ```
    /// # use outlive_core::{journal::*, payload::Payload, time::Timestamp};
    /// let mut entry = Entry::of_run(1, Timestamp::from_millis(0), EntryKind::SignalRefused);
    /// entry.payload = Some(Payload::recorded(r#"{"value":"yes","problem":"expected a boolean"}"#));
    /// assert_eq!(entry.refused().unwrap().value.as_str(), "\"yes\"");
    /// ```
    #[must_use]
    pub fn refused(&self) -> Option<Refused> {
        #[derive(serde::Deserialize)]
        struct Kept<'a> {
            #[serde(borrow)]
            value: &'a serde_json::value::RawValue,
            problem: String,
        }
        let payload = self.payload.as_ref().filter(|_| self.kind == EntryKind::SignalRefused)?;
        let kept: Kept<'_> = serde_json::from_str(payload.as_str()).ok()?;
        Some(Refused { value: Payload::recorded(kept.value.get()), problem: kept.problem })
    }

    /// The number of the entry whose signal was discarded, if that is what the entry says.
    ///
    /// ```
    /// # use outlive_core::{journal::*, time::Timestamp};
    /// let due = Some(Timestamp::from_millis(7));
    /// let entry = Entry { due, ..Entry::of_run(9, Timestamp::from_millis(0), EntryKind::SignalDiscarded) };
    /// assert_eq!(entry.discarded(), Some(7));
    /// ```
    #[must_use]
    pub fn discarded(&self) -> Option<u64> {
        let due = self.due.filter(|_| self.kind == EntryKind::SignalDiscarded)?;
        u64::try_from(due.as_millis()).ok()
    }

    /// What an attempt or a step failed with, if that is what the entry says.
    ///
    /// ```
    /// # use outlive_core::failure::{Cause, Failure};
    /// # use outlive_core::journal::{Entry, EntryKind};
    /// # use outlive_core::time::Timestamp;
    /// let failure = Failure::new(Cause::Error, "declined");
    /// let mut entry = Entry::of_run(1, Timestamp::from_millis(0), EntryKind::AttemptFailed);
    /// entry.payload = Some(failure.to_payload());
    /// assert_eq!(entry.failure(), Some(failure));
    /// ```
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let payload = self.payload.as_ref()?;
        match self.kind {
            EntryKind::AttemptFailed | EntryKind::FallingBack => Failure::from_payload(payload).ok(),
            EntryKind::StepFailed => crate::failure::of_step(payload).ok().map(|(_, failure)| failure),
            _ => None,
        }
    }

    /// A number that changes when anything in the entry does, kept beside it to find damage.
    ///
    /// ```
    /// # use outlive_core::journal::{Entry, EntryKind};
    /// # use outlive_core::time::Timestamp;
    /// let entry = Entry::of_run(1, Timestamp::from_millis(0), EntryKind::Reopened);
    /// let damaged = Entry { seq: 2, ..entry.clone() };
    /// assert_ne!(entry.checksum(), damaged.checksum());
    /// ```
    #[must_use]
    pub fn checksum(&self) -> u32 {
        let number = |time: Option<Timestamp>| time.unwrap_or_default().as_millis().cast_unsigned();
        let kinds = [self.kind.code(), u8::from(self.started.is_some()), u8::from(self.due.is_some()), 0];
        Sum::new()
            .number(self.seq)
            .number(self.at.as_millis().cast_unsigned())
            .number(u64::from(u32::from_le_bytes(kinds)) << 32 | u64::from(self.attempt))
            .number(number(self.started))
            .number(number(self.due))
            .text(&self.op)
            .text(&self.site)
            .optional(self.payload.as_ref().map(Payload::as_str))
            .end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both were summed up as nothing, so a payload that damage had emptied passed for none.
    #[test]
    fn an_empty_payload_and_none_at_all_have_different_checksums() {
        let none = Entry::of_run(1, Timestamp::from_millis(0), EntryKind::SleepDone);
        let empty = Entry { payload: Some(Payload::recorded("")), ..none.clone() };
        assert_ne!(none.checksum(), empty.checksum());
    }
}
