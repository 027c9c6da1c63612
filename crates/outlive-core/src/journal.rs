//! Journal entries: the ordered record of what a run has done, in one flat form shared by memory and every store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::checksum::Sum;
use crate::child::ChildOutcome;
use crate::failure::Failure;
use crate::payload::Payload;
use crate::status::Status;
use crate::time::Timestamp;

/// One journal entry.
///
/// `seq` is dense within the instance and starts at 1. The `seq` of an outcome is also its delivery number: outcomes
/// are delivered to user code in this order, live and in every replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Sequence number in the journal.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The kind of entry.
    pub kind: EntryKind,
    /// Identity of the operation, as text; empty if the entry is about the run as a whole.
    pub op: Arc<str>,
    /// Source location of the call, as `file:line`; empty if unknown.
    pub site: Arc<str>,
    /// Attempt of a step, from 1; 0 if the entry is not about an attempt.
    pub attempt: u32,
    /// When that attempt started.
    pub started: Option<Timestamp>,
    /// When the operation continues: the end of a sleep, the timeout of a wait, the time of a retry. For a taken or
    /// refused signal or question, its position in the inbox; for a discarded one, the `seq` of the entry that refused it.
    pub due: Option<Timestamp>,
    /// The value, failure or reason.
    pub payload: Option<Payload>,
}

/// A signal whose value could not be deserialized to the type the wait expects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The value that was sent.
    pub value: Payload,
    /// Why it could not be deserialized.
    pub problem: String,
}

/// Where an effect went, as recorded.
///
/// ```
/// # use outlive_core::journal::{Entry, EntryKind};
/// /// Returns the children that a journal says were started.
/// fn children(journal: &[Entry]) -> Vec<String> {
///     let started = journal.iter().filter(|entry| entry.kind == EntryKind::Sent).filter_map(Entry::sent_to);
///     started.filter(|to| to.is_child()).map(|to| to.id).collect()
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SentTo {
    /// The id of the instance.
    pub id: String,
    /// Whether it is a child that continues when its parent ends; absent if it is not a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached: Option<bool>,
}

/// What an undo undoes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UndoPlan {
    /// The operations that have to be repeated once they are undone.
    pub of: Vec<Box<str>>,
}

impl SentTo {
    /// Returns `true` if it is a child that was started.
    #[must_use]
    pub fn is_child(&self) -> bool {
        self.detached.is_some()
    }

    pub(crate) fn to_payload(&self) -> Payload {
        Payload::encode(self).unwrap_or_else(|_| Payload::recorded("{}"))
    }

    pub(crate) fn from_payload(payload: &Payload) -> Result<Self, String> {
        payload.decode().map_err(|error| format!("it does not say where the effect went: {error}"))
    }
}

/// What is recorded about the run that another one was forked from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForkedFrom {
    /// The id of that run.
    pub run: String,
    /// Its children that the fork has forgotten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// What that run has undone later, so that it is not done in the fork either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<Box<str>>,
}

impl ForkedFrom {
    pub(crate) fn to_payload(&self) -> Payload {
        Payload::encode(self).unwrap_or_else(|_| Payload::recorded("{}"))
    }
}

/// The kind of a journal entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum EntryKind {
    /// An attempt started, recorded because its start had to be durable before it ended.
    StepStarted = 1,
    /// An attempt failed and a retry is scheduled.
    AttemptFailed = 2,
    /// A step succeeded with a value.
    StepDone = 3,
    /// A step failed for good.
    StepFailed = 4,
    /// All attempts failed; the fallback provides the value.
    FallingBack = 5,
    /// A sleep started; it ends at `due`.
    SleepSet = 10,
    /// A sleep ended.
    SleepDone = 11,
    /// A wait started that times out at `due`.
    WaitSet = 20,
    /// A wait received a signal.
    SignalTaken = 21,
    /// A wait timed out.
    WaitTimedOut = 22,
    /// A signal could not be deserialized to the type the wait expects and became a dead letter of the run. The payload
    /// holds its `value` and the `problem`.
    SignalRefused = 23,
    /// A dead letter was discarded; `due` holds the `seq` of the entry that refused it.
    SignalDiscarded = 24,
    /// An operation ended because the run was cancelled.
    OpCancelled = 30,
    /// The run accepted a cancel; the payload is the reason.
    CancelTaken = 31,
    /// A failed run was retried: the failure that ended it and those after it no longer count.
    Retried = 40,
    /// A stuck run was reopened; the whole journal still counts.
    Reopened = 41,
    /// An effect on another instance was committed with this entry. Payload: where it went.
    Sent = 50,
    /// An effect was refused, and nothing was sent. Payload: where it was to go, and why not.
    SendRefused = 51,
    /// A run learned how its child ended. Payload: the outcome of the child.
    ChildEnded = 52,
    /// The run reached a patch with the new code, and takes the new path whenever it is replayed.
    Patched = 60,
    /// An operation succeeded that has an undo, with the commit that records its success. Payload: what it belongs to.
    UndoPlanned = 70,
    /// The run has failed or was cancelled, and undoes what it has done. Payload: why.
    Unwinding = 71,
    /// A running attempt reported its progress, which is handed to the next attempt.
    Heartbeat = 100,
    /// The run restarted: the first entry of its next journal. `attempt` is the run number; the payload is the input with
    /// what the run took along.
    Restarted = 110,
    /// The journal has reached most of the entries it may have.
    NearlyFull = 111,
    /// A run was rewound: of the journal before this, only entries up to the one numbered `due` count, and none of the
    /// operation `op`.
    Rewound = 80,
    /// A run was forked from another one: everything before this was copied from there. Otherwise like `Rewound`. The
    /// payload names the other run, and `started` is when that began.
    Forked = 81,
    /// A value was published with this entry. Payload: the value.
    Published = 90,
    /// An item was appended to a stream with this entry.
    Appended = 91,
    /// An item was not appended, because the stream is full. Payload: the stream, and why not.
    AppendRefused = 92,
    /// A wait received a question.
    QuestionTaken = 93,
    /// A question was answered with this entry. Payload: the answer.
    Answered = 94,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 32] = [
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
        Self::Sent,
        Self::SendRefused,
        Self::ChildEnded,
        Self::Patched,
        Self::UndoPlanned,
        Self::Unwinding,
        Self::Heartbeat,
        Self::Restarted,
        Self::NearlyFull,
        Self::Rewound,
        Self::Forked,
        Self::Published,
        Self::Appended,
        Self::AppendRefused,
        Self::QuestionTaken,
        Self::Answered,
    ];

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

    /// Returns `true` if the entry ends an operation and is therefore delivered to user code.
    ///
    /// ```
    /// # use outlive_core::journal::EntryKind;
    /// assert!(EntryKind::StepFailed.is_outcome());
    /// assert!(!EntryKind::AttemptFailed.is_outcome(), "the step will be retried");
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
                | Self::Sent
                | Self::SendRefused
                | Self::ChildEnded
                | Self::Patched
                | Self::Unwinding
                | Self::Published
                | Self::Appended
                | Self::AppendRefused
                | Self::QuestionTaken
                | Self::Answered
        )
    }

    /// Returns the name shown to people.
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
            Self::Sent => "sent",
            Self::SendRefused => "send refused",
            Self::ChildEnded => "child ended",
            Self::Patched => "patched",
            Self::UndoPlanned => "undo planned",
            Self::Unwinding => "unwinding",
            Self::Heartbeat => "heartbeat",
            Self::Restarted => "restarted",
            Self::NearlyFull => "journal nearly full",
            Self::Rewound => "rewound",
            Self::Forked => "forked",
            Self::Published => "published",
            Self::Appended => "appended",
            Self::AppendRefused => "append refused",
            Self::QuestionTaken => "question taken",
            Self::Answered => "answered",
        }
    }
}

impl Entry {
    /// Creates an entry about the run as a whole.
    #[must_use]
    pub fn of_run(seq: u64, at: Timestamp, kind: EntryKind) -> Self {
        let none: Arc<str> = Arc::from("");
        Self { seq, at, kind, op: none.clone(), site: none, attempt: 0, started: None, due: None, payload: None }
    }

    /// Returns the entry that reopens a run which ended with this status and outcome.
    #[must_use]
    pub fn reopened(seq: u64, at: Timestamp, status: Status, outcome: Option<&Payload>) -> Self {
        if status != Status::Failed {
            return Self::of_run(seq, at, EntryKind::Reopened);
        }
        let failed_at = outcome.and_then(crate::failure::entry_of).and_then(|seq| i64::try_from(seq).ok());
        Self { due: failed_at.map(Timestamp::from_millis), ..Self::of_run(seq, at, EntryKind::Retried) }
    }

    /// Returns `true` if this is the entry that a reopening at this time has written.
    #[must_use]
    pub fn is_reopening(&self, at: Timestamp) -> bool {
        matches!(self.kind, EntryKind::Retried | EntryKind::Reopened) && self.at == at
    }

    /// Returns the number of the entry that made a run fail which was then retried, if it is known.
    #[must_use]
    pub fn failed_at(&self) -> Option<u64> {
        let due = self.due.filter(|_| self.kind == EntryKind::Retried)?;
        u64::try_from(due.as_millis()).ok()
    }

    /// Returns the entry that rewinds a run: of the journal before it, only what is numbered up to `kept_to` counts, and
    /// nothing of operation `op`.
    #[must_use]
    pub fn rewound(seq: u64, at: Timestamp, kept_to: u64, op: Arc<str>) -> Self {
        let due = i64::try_from(kept_to).ok().map(Timestamp::from_millis);
        Self { op, due, ..Self::of_run(seq, at, EntryKind::Rewound) }
    }

    /// Returns the number of the last entry that counts, if this entry rewound the run or the run was forked with it.
    #[must_use]
    pub fn rewound_to(&self) -> Option<u64> {
        let due = self.due.filter(|_| matches!(self.kind, EntryKind::Rewound | EntryKind::Forked))?;
        u64::try_from(due.as_millis()).ok()
    }

    /// Returns what an undo undoes, if this is an [`UndoPlanned`](EntryKind::UndoPlanned) entry.
    #[must_use]
    pub fn undo_plan(&self) -> Option<UndoPlan> {
        self.payload.as_ref().filter(|_| self.kind == EntryKind::UndoPlanned)?.decode().ok()
    }

    /// Returns the run that this one was forked from, if this is a [`Forked`](EntryKind::Forked) entry.
    #[must_use]
    pub fn forked_from(&self) -> Option<ForkedFrom> {
        self.payload.as_ref().filter(|_| self.kind == EntryKind::Forked)?.decode().ok()
    }

    /// Returns the position that a taken or refused signal had in the inbox.
    #[must_use]
    pub fn signal_pos(&self) -> Option<u64> {
        let has_one = matches!(
            self.kind,
            EntryKind::SignalTaken | EntryKind::QuestionTaken | EntryKind::SignalRefused | EntryKind::ChildEnded
        );
        u64::try_from(self.due.filter(|_| has_one)?.as_millis()).ok()
    }

    /// Returns the refused signal, if this is a [`SignalRefused`](EntryKind::SignalRefused) entry.
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

    /// Returns the `seq` of the entry whose signal was discarded, if this is a
    /// [`SignalDiscarded`](EntryKind::SignalDiscarded) entry.
    #[must_use]
    pub fn discarded(&self) -> Option<u64> {
        let due = self.due.filter(|_| self.kind == EntryKind::SignalDiscarded)?;
        u64::try_from(due.as_millis()).ok()
    }

    /// Returns how many entries the journal may have, if this is a [`NearlyFull`](EntryKind::NearlyFull) entry.
    #[must_use]
    pub fn max_entries(&self) -> Option<u64> {
        let due = self.due.filter(|_| self.kind == EntryKind::NearlyFull)?;
        u64::try_from(due.as_millis()).ok()
    }

    /// Returns the failure of an attempt, a step or a child, if this entry records one.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let payload = self.payload.as_ref()?;
        match self.kind {
            EntryKind::AttemptFailed | EntryKind::FallingBack => Failure::from_payload(payload).ok(),
            EntryKind::StepFailed => crate::failure::of_step(payload).ok().map(|(_, failure)| failure),
            EntryKind::ChildEnded => ChildOutcome::from_payload(payload).ok()?.into_failure(),
            _ => None,
        }
    }

    /// Returns where an effect went, or was to go.
    #[must_use]
    pub fn sent_to(&self) -> Option<SentTo> {
        let is_effect = matches!(self.kind, EntryKind::Sent | EntryKind::SendRefused);
        self.payload.as_ref().filter(|_| is_effect)?.decode().ok()
    }

    /// Returns a checksum over every field, stored with the entry to detect corruption.
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

    /// Regression: both contributed nothing to the checksum, so a payload emptied by corruption looked like no payload.
    #[test]
    fn empty_payload_and_no_payload_have_different_checksums() {
        let none = Entry::of_run(1, Timestamp::from_millis(0), EntryKind::SleepDone);
        let empty = Entry { payload: Some(Payload::recorded("")), ..none.clone() };
        assert_ne!(none.checksum(), empty.checksum());
    }
}
