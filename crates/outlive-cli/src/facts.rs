//! Runs and journal entries as JSON for programs. The field names are a stable interface.

use std::collections::BTreeMap;

use outlive::{Counts, Entry, EntryKind, Failure, Payload, RunInfo, Status, StatusKind, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A status, split into fields.
#[derive(Serialize)]
pub(crate) struct StatusFacts {
    status: &'static str,
    until: Option<String>,
}

/// A run as JSON.
#[derive(Serialize)]
pub(crate) struct RunFacts {
    id: String,
    workflow: String,
    #[serde(flatten)]
    status: StatusFacts,
    created_at: String,
    started_at: Option<String>,
    ended_at: Option<String>,
    duration_ms: Option<u64>,
    input: Box<RawValue>,
    output: Option<Box<RawValue>>,
    failure: Option<Box<RawValue>>,
    note: Option<String>,
    tags: BTreeMap<String, String>,
    recoveries: u32,
}

/// A journal entry as JSON.
#[derive(Serialize)]
pub(crate) struct EntryFacts {
    seq: u64,
    at: String,
    kind: String,
    op: String,
    site: String,
    attempt: Option<u32>,
    started_at: Option<String>,
    duration_ms: Option<u64>,
    due_at: Option<String>,
    value: Option<Box<RawValue>>,
    failure: Option<Box<RawValue>>,
    ended_by: Option<String>,
    reason: Option<String>,
}

impl From<Status> for StatusFacts {
    fn from(status: Status) -> Self {
        Self { status: status.as_str(), until: status.until().map(|until| until.to_string()) }
    }
}

impl RunFacts {
    pub(crate) fn new(info: &RunInfo, now: Timestamp) -> Self {
        Self {
            id: info.id.clone(),
            workflow: info.workflow.clone(),
            status: info.status.into(),
            created_at: info.created_at.to_string(),
            started_at: info.started_at.map(|at| at.to_string()),
            ended_at: info.ended_at.map(|at| at.to_string()),
            duration_ms: duration(info, now).map(millis),
            input: raw(&info.input),
            output: info.output.as_ref().map(raw),
            failure: info.failure.as_ref().map(|failure| raw(&failure.to_payload())),
            note: info.note.clone(),
            tags: info.tags.clone(),
            recoveries: info.recoveries,
        }
    }
}

impl From<&Entry> for EntryFacts {
    fn from(entry: &Entry) -> Self {
        let said = Said::of(entry);
        let (mut value, mut failure, mut ended_by, mut reason) = (None, None, None, None);
        match said {
            Said::Nothing => {}
            Said::Value(payload) => value = Some(raw(&payload)),
            Said::Reason(text) => reason = Some(text),
            Said::Failure { ended, failure: what } => {
                ended_by = ended;
                failure = Some(raw(&what.to_payload()));
            }
        }
        Self {
            seq: entry.seq,
            at: entry.at.to_string(),
            kind: entry.kind.as_str().replace(' ', "_"),
            op: entry.op.to_string(),
            site: entry.site.to_string(),
            attempt: Some(entry.attempt).filter(|attempt| *attempt > 0),
            started_at: entry.started.map(|at| at.to_string()),
            duration_ms: entry.started.map(|started| millis(entry.at.since(started))),
            due_at: due(entry).map(|at| at.to_string()),
            value,
            failure,
            ended_by,
            reason,
        }
    }
}

/// The meaning of an entry's payload.
pub(crate) enum Said {
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

impl Said {
    pub(crate) fn of(entry: &Entry) -> Self {
        let Some(payload) = entry.payload.clone() else { return Self::Nothing };
        match entry.kind {
            EntryKind::AttemptFailed | EntryKind::FallingBack => Self::failure(None, payload),
            EntryKind::StepFailed => match payload.decode::<FailedStep>() {
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
struct FailedStep {
    ended: String,
    failure: Box<RawValue>,
}

/// Returns when the operation of an entry is due. A taken signal stores its inbox position in that field, which is not
/// a time.
pub(crate) fn due(entry: &Entry) -> Option<Timestamp> {
    entry.due.filter(|_| entry.kind != EntryKind::SignalTaken)
}

/// Returns how long a run took, or has taken so far.
pub(crate) fn duration(info: &RunInfo, now: Timestamp) -> Option<std::time::Duration> {
    let begun = info.started_at?;
    Some(info.ended_at.unwrap_or(now).since(begun))
}

/// Returns the number of runs in each status, and in total.
pub(crate) fn counts(counts: &Counts) -> BTreeMap<&'static str, u64> {
    let each = StatusKind::ALL.into_iter().map(|kind| (kind.as_str(), counts.of(kind)));
    each.chain([("total", counts.total())]).collect()
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the JSON unchanged, so that no number loses digits. Damaged JSON becomes a string.
pub(crate) fn raw(payload: &Payload) -> Box<RawValue> {
    RawValue::from_string(payload.as_str().to_owned())
        .or_else(|_| serde_json::value::to_raw_value(payload.as_str()))
        .unwrap_or_else(|_| RawValue::NULL.to_owned())
}
