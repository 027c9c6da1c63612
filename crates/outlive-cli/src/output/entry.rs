//! What the payload and the due time of a journal entry mean.

use outlive::{Entry, EntryKind, Failure, Payload, Timestamp};
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
}

impl EntryPayload {
    pub(crate) fn of(entry: &Entry) -> Self {
        let Some(payload) = entry.payload.clone() else { return Self::Nothing };
        match entry.kind {
            EntryKind::AttemptFailed | EntryKind::FallingBack => Self::failure(None, payload),
            EntryKind::StepFailed => match payload.decode::<RecordedStepFailure>() {
                Ok(step) => Self::failure(Some(step.ended), Payload::recorded(step.failure.get())),
                Err(_) => Self::Value(payload),
            },
            EntryKind::CancelTaken => Self::Reason(payload.decode().unwrap_or_else(|_| payload.to_string())),
            _ => Self::Value(payload),
        }
    }

    fn failure(ended: Option<String>, payload: Payload) -> Self {
        match Failure::from_payload(&payload) {
            Ok(failure) => Self::Failure { ended, failure },
            Err(_) => Self::Value(payload),
        }
    }
}

/// The recorded form of a failed step.
#[derive(Deserialize)]
struct RecordedStepFailure {
    ended: String,
    failure: Box<RawValue>,
}

/// Returns when the operation of an entry is due. A taken signal stores its inbox position in that field, which is not
/// a time.
pub(crate) fn due(entry: &Entry) -> Option<Timestamp> {
    entry.due.filter(|_| entry.kind != EntryKind::SignalTaken)
}
