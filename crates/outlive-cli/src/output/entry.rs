//! What the payload and the due time of a journal entry mean.

use std::collections::BTreeMap;

use outlive::{Cause, Entry, EntryKind, Failure, Payload, SentTo, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The meaning of an entry's payload.
pub(crate) enum EntryPayload {
    Nothing,
    /// The value of a step or a signal.
    Value(Payload),
    /// The failure of an attempt or a step, and what ended the step.
    Failure {
        ended: Option<String>,
        failure: Failure,
    },
    /// The reason somebody gave.
    Reason(String),
    /// Where an effect went, or the child that was started.
    Sent(SentTo),
    /// Where an effect was to go, and why it was refused.
    SendRefused {
        id: String,
        why: String,
    },
    /// The result of a child.
    ChildCompleted(Payload),
    /// How a child failed, or that it was cancelled.
    ChildFailed {
        status: &'static str,
        failure: Failure,
    },
}

impl EntryPayload {
    pub(crate) fn of(entry: &Entry) -> Self {
        if let Some(kept_to) = entry.rewound_to() {
            return Self::Reason(match entry.forked_from() {
                Some(from) => format!("from run {:?}, up to entry {kept_to}", from.run),
                None => format!("keeps what precedes it up to entry {kept_to}"),
            });
        }
        let Some(payload) = entry.payload.clone() else { return Self::Nothing };
        match entry.kind {
            EntryKind::AttemptFailed | EntryKind::FallingBack => Self::failure(None, payload),
            EntryKind::StepFailed => match payload.decode::<RecordedStepFailure>() {
                Ok(step) => Self::failure(Some(step.ended), Payload::recorded(step.failure.get())),
                Err(_) => Self::Value(payload),
            },
            // Its identity says what it undoes.
            EntryKind::UndoPlanned => Self::Nothing,
            EntryKind::CancelTaken | EntryKind::Unwinding => {
                Self::Reason(payload.decode().unwrap_or_else(|_| payload.to_string()))
            }
            EntryKind::Sent => entry.sent_to().map_or(Self::Value(payload), Self::Sent),
            EntryKind::SendRefused | EntryKind::AppendRefused => match payload.decode::<RecordedRefusal>() {
                Ok(refusal) => Self::SendRefused { why: refusal.sentence(), id: refusal.id },
                Err(_) => Self::Value(payload),
            },
            EntryKind::ChildEnded => Self::child(entry, payload),
            _ => Self::Value(payload),
        }
    }

    fn child(entry: &Entry, payload: Payload) -> Self {
        let outcome = payload.decode::<BTreeMap<String, Box<RawValue>>>().unwrap_or_default();
        match (outcome.get("completed"), entry.failure()) {
            (Some(value), _) => Self::ChildCompleted(Payload::recorded(value.get())),
            (None, Some(failure)) if failure.cause == Cause::Cancelled => {
                Self::ChildFailed { status: "cancelled", failure }
            }
            (None, Some(failure)) => Self::ChildFailed { status: "failed", failure },
            (None, None) => Self::Value(payload),
        }
    }

    fn failure(ended: Option<String>, payload: Payload) -> Self {
        match Failure::from_payload(&payload) {
            Ok(failure) => Self::Failure { ended, failure },
            Err(_) => Self::Value(payload),
        }
    }
}

/// Returns the kind of an entry in words.
pub(crate) fn kind(entry: &Entry) -> &'static str {
    match entry.sent_to() {
        Some(to) if to.is_child() => "child started",
        _ => entry.kind.as_str(),
    }
}

/// The recorded form of a failed step.
#[derive(Deserialize)]
struct RecordedStepFailure {
    ended: String,
    failure: Box<RawValue>,
}

/// The recorded refusal of an effect.
#[derive(Deserialize)]
struct RecordedRefusal {
    id: String,
    why: String,
    #[serde(default)]
    detail: String,
}

impl RecordedRefusal {
    fn sentence(&self) -> String {
        let Self { why, detail, .. } = self;
        match why.as_str() {
            "status" => format!("it is {detail}"),
            "conflict" => format!("the id belongs to a run of {detail:?}"),
            "taken" => "the id is taken".to_owned(),
            "child" => format!("it is a child of {detail:?}"),
            "full" => format!("it has {detail} items, which is its limit"),
            _ => why.clone(),
        }
    }
}

/// Returns when the operation of an entry is due. In entries about messages that field is a position, and in entries about
/// the run a number: these are not times.
pub(crate) fn due(entry: &Entry) -> Option<Timestamp> {
    let has_position = matches!(
        entry.kind,
        EntryKind::SignalTaken
            | EntryKind::QuestionTaken
            | EntryKind::SignalRefused
            | EntryKind::SignalDiscarded
            | EntryKind::ChildEnded
            | EntryKind::NearlyFull
    );
    let has_number = matches!(entry.kind, EntryKind::Retried | EntryKind::Rewound | EntryKind::Forked);
    entry.due.filter(|_| !has_position && !has_number)
}
