//! Runs and journal entries as JSON for programs. The field names are a stable interface.

use std::collections::BTreeMap;

use outlive::{Counts, Entry, Payload, RunInfo, Status, StatusKind, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::output::entry::{EntryPayload, due};

/// A status, split into fields.
#[derive(Serialize)]
pub(crate) struct StatusJson {
    status: &'static str,
    until: Option<String>,
}

/// A run as JSON.
#[derive(Serialize)]
pub(crate) struct RunJson {
    id: String,
    workflow: String,
    #[serde(flatten)]
    origin: OriginJson,
    #[serde(flatten)]
    status: StatusJson,
    #[serde(flatten)]
    times: TimesJson,
    run_number: u32,
    input: Box<RawValue>,
    output: Option<Box<RawValue>>,
    failure: Option<Box<RawValue>>,
    note: Option<String>,
    tags: BTreeMap<String, String>,
    recoveries: u32,
    #[serde(flatten)]
    parent: ParentJson,
}

/// Where a run comes from.
#[derive(Serialize)]
struct OriginJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

/// When a run was accepted, began and ended.
#[derive(Serialize)]
struct TimesJson {
    created_at: String,
    started_at: Option<String>,
    ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    duration_ms: Option<u64>,
}

/// Which run a run is a child of, and whether it continues without it.
#[derive(Serialize)]
struct ParentJson {
    parent: Option<String>,
    detached: Option<bool>,
}

/// A journal entry as JSON.
#[derive(Serialize)]
pub(crate) struct EntryJson {
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
    to: Option<String>,
    detached: Option<bool>,
}

impl From<Status> for StatusJson {
    fn from(status: Status) -> Self {
        Self { status: status.as_str(), until: status.until().map(|until| until.to_string()) }
    }
}

impl RunJson {
    pub(crate) fn new(info: &RunInfo, now: Timestamp) -> Self {
        Self {
            id: info.id.clone(),
            workflow: info.workflow.clone(),
            origin: OriginJson { version: info.version.clone(), traceparent: info.traceparent.clone() },
            status: info.status.into(),
            times: TimesJson {
                created_at: info.created_at.to_string(),
                started_at: info.started_at.map(|at| at.to_string()),
                ended_at: info.ended_at.map(|at| at.to_string()),
                deadline: info.deadline.map(|at| at.to_string()),
                duration_ms: duration(info, now).map(millis),
            },
            run_number: info.run_number,
            input: raw(&info.input),
            output: info.output.as_ref().map(raw),
            failure: info.failure.as_ref().map(|failure| raw(&failure.to_payload())),
            note: info.note.clone(),
            tags: info.tags.clone(),
            recoveries: info.recoveries,
            parent: ParentJson {
                parent: info.parent.clone(),
                detached: info.parent.as_ref().map(|_| info.is_detached),
            },
        }
    }
}

impl From<&Entry> for EntryJson {
    fn from(entry: &Entry) -> Self {
        let (mut value, mut failure, mut ended_by, mut reason) = (None, None, None, None);
        let (mut to, mut detached) = (None, None);
        match EntryPayload::of(entry) {
            EntryPayload::Nothing => {}
            EntryPayload::Value(payload) => value = Some(raw(&payload)),
            EntryPayload::Reason(text) => reason = Some(text),
            EntryPayload::Failure { ended, failure: what } => {
                ended_by = ended;
                failure = Some(raw(&what.to_payload()));
            }
            EntryPayload::Sent(sent) => (to, detached) = (Some(sent.id), sent.detached),
            EntryPayload::SendRefused { id, why } => (to, reason) = (Some(id), Some(why)),
            EntryPayload::ChildCompleted(payload) => {
                (ended_by, value) = (Some("completed".to_owned()), Some(raw(&payload)));
            }
            EntryPayload::ChildFailed { status, failure: what } => {
                (ended_by, failure) = (Some(status.to_owned()), Some(raw(&what.to_payload())));
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
            to,
            detached,
        }
    }
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
