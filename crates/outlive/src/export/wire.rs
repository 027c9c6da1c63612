//! The lines of an export, as types of their own, so that the file format stays when the code changes.

use std::collections::BTreeMap;

use outlive_core::child::Parent;
use outlive_core::id::{Epoch, InstanceNum, Name};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::origin::{RunOrigin, TraceContext};
use outlive_core::output::{AppendedBy, Output, OutputKey, OutputKind};
use outlive_core::payload::{Payload, present};
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::query::Instance;
use outlive_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Exported;

/// The word that identifies an export.
pub(super) const FORMAT: &str = "outlive-export";
/// The version of the format that this release writes, and the latest it reads.
pub(super) const VERSION: u32 = 1;

/// The first line.
#[derive(Serialize, Deserialize)]
pub(super) struct HeaderLine {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) source: String,
    pub(super) at: i64,
    /// The number of runs when the export was begun.
    pub(super) runs: u64,
}

/// The last line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndLine {
    /// The number of runs in the file.
    pub(super) end: u64,
}

/// Every other line: a run.
#[derive(Serialize, Deserialize)]
pub(super) struct RunLine {
    num: u64,
    id: String,
    workflow: String,
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
    created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_at: Option<i64>,
    input: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    outcome: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    seed: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    recoveries: u32,
    #[serde(default)]
    blamed: u32,
    #[serde(default)]
    reported: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wake: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<ParentLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<i64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    restarts: u32,
    #[serde(default)]
    journal: Vec<EntryLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    journal_damage: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inbox: Vec<MessageLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inbox_damage: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<OutputLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outputs_damage: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ParentLine {
    num: u64,
    id: String,
    #[serde(default)]
    detached: bool,
}

#[derive(Serialize, Deserialize)]
struct EntryLine {
    seq: u64,
    at: i64,
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    op: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    site: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    payload: Option<Box<RawValue>>,
}

#[derive(Serialize, Deserialize)]
struct MessageLine {
    pos: u64,
    at: i64,
    kind: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    payload: Option<Box<RawValue>>,
}

#[derive(Serialize, Deserialize)]
struct OutputLine {
    kind: u8,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    item: u64,
    at: i64,
    epoch: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    op: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    attempt: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    failed: bool,
    payload: Box<RawValue>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl RunLine {
    pub(super) fn of(run: &Exported) -> Self {
        let Exported { instance, journal, inbox, outputs } = run;
        let entries = journal.as_deref().unwrap_or_default();
        let messages = inbox.as_deref().unwrap_or_default();
        Self {
            num: instance.num.0,
            id: instance.id.to_string(),
            workflow: instance.workflow.to_string(),
            status: instance.status.kind().as_str().to_owned(),
            until: instance.status.until().map(Timestamp::as_millis),
            created_at: instance.created_at.as_millis(),
            started_at: instance.started_at.map(Timestamp::as_millis),
            ended_at: instance.ended_at.map(Timestamp::as_millis),
            input: raw(&instance.input),
            outcome: instance.outcome.as_ref().map(raw),
            note: instance.note.clone(),
            version: instance.version().map(str::to_owned),
            trace: instance.trace().map(|trace| trace.as_str().to_owned()),
            seed: instance.seed,
            tags: instance.tags.clone(),
            recoveries: instance.recoveries,
            blamed: instance.blamed,
            reported: instance.reported,
            wake: instance.wake.map(Timestamp::as_millis),
            parent: instance.parent.as_ref().map(ParentLine::of),
            deadline: instance.deadline.map(Timestamp::as_millis),
            restarts: instance.restarts,
            journal: entries.iter().map(EntryLine::of).collect(),
            journal_damage: journal.as_ref().err().cloned(),
            inbox: messages.iter().map(MessageLine::of).collect(),
            inbox_damage: inbox.as_ref().err().cloned(),
            outputs: outputs.iter().flatten().map(OutputLine::of).collect(),
            outputs_damage: outputs.as_ref().err().cloned(),
        }
    }

    /// Converts the line to a run.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub(super) fn into_run(self) -> Result<Exported, String> {
        let kind = StatusKind::from_text(&self.status).ok_or_else(|| format!("no such status: {:?}", self.status))?;
        let journal = match self.journal_damage {
            Some(damage) => Err(damage),
            None => Ok(self.journal.into_iter().map(EntryLine::into_entry).collect::<Result<_, _>>()?),
        };
        let inbox = match self.inbox_damage {
            Some(damage) => Err(damage),
            None => Ok(self.inbox.into_iter().map(MessageLine::into_message).collect::<Result<_, _>>()?),
        };
        let instance = Instance {
            restarts: self.restarts,
            deadline: self.deadline.map(Timestamp::from_millis),
            parent: self.parent.map(ParentLine::into_parent),
            num: InstanceNum(self.num),
            id: Name::recorded(&self.id),
            workflow: Name::recorded(&self.workflow),
            status: Status::from_parts(kind, self.until.map(Timestamp::from_millis)),
            created_at: Timestamp::from_millis(self.created_at),
            started_at: self.started_at.map(Timestamp::from_millis),
            ended_at: self.ended_at.map(Timestamp::from_millis),
            input: payload(&self.input),
            outcome: self.outcome.as_deref().map(payload),
            note: self.note,
            origin: RunOrigin::new(
                self.version.as_deref().map(Name::recorded),
                self.trace.as_deref().map(TraceContext::recorded),
            ),
            seed: self.seed,
            tags: self.tags,
            recoveries: self.recoveries,
            blamed: self.blamed,
            reported: self.reported,
            // The owner is a fact about the process it was read from, not about the run.
            owner: Epoch(0),
            wake: self.wake.map(Timestamp::from_millis),
        };
        let outputs = match self.outputs_damage {
            Some(damage) => Err(damage),
            None => Ok(self.outputs.into_iter().map(OutputLine::into_output).collect::<Result<_, _>>()?),
        };
        Ok(Exported { instance, journal, inbox, outputs })
    }
}

impl ParentLine {
    fn of(parent: &Parent) -> Self {
        Self { num: parent.num.0, id: parent.id.to_string(), detached: parent.is_detached }
    }

    fn into_parent(self) -> Parent {
        Parent { num: InstanceNum(self.num), id: Name::recorded(&self.id), is_detached: self.detached }
    }
}

impl EntryLine {
    fn of(entry: &Entry) -> Self {
        Self {
            seq: entry.seq,
            at: entry.at.as_millis(),
            kind: entry.kind.as_str().to_owned(),
            op: entry.op.to_string(),
            site: entry.site.to_string(),
            attempt: entry.attempt,
            started: entry.started.map(Timestamp::as_millis),
            due: entry.due.map(Timestamp::as_millis),
            payload: entry.payload.as_ref().map(raw),
        }
    }

    fn into_entry(self) -> Result<Entry, String> {
        let kind = EntryKind::ALL.into_iter().find(|kind| kind.as_str() == self.kind);
        let kind = kind.ok_or_else(|| format!("entry {}: no such kind: {:?}", self.seq, self.kind))?;
        Ok(Entry {
            seq: self.seq,
            at: Timestamp::from_millis(self.at),
            kind,
            op: self.op.into(),
            site: self.site.into(),
            attempt: self.attempt,
            started: self.started.map(Timestamp::from_millis),
            due: self.due.map(Timestamp::from_millis),
            payload: self.payload.as_deref().map(payload),
        })
    }
}

impl MessageLine {
    fn of(inbound: &Inbound) -> Self {
        let (kind, text, payload) = inbound.message.to_parts();
        Self {
            pos: inbound.pos,
            at: inbound.at.as_millis(),
            kind: kind as u8,
            text: text.map(std::borrow::Cow::into_owned),
            payload: payload.map(raw),
        }
    }

    fn into_message(self) -> Result<Inbound, String> {
        let payload = self.payload.as_deref().map(payload);
        let message = Message::from_parts(self.kind, self.text.as_deref(), payload)
            .map_err(|unknown| format!("message {}: {unknown}", self.pos))?;
        Ok(Inbound { pos: self.pos, at: Timestamp::from_millis(self.at), message })
    }
}

impl OutputLine {
    fn of(output: &Output) -> Self {
        Self {
            kind: output.key.kind as u8,
            name: output.key.name.to_string(),
            item: output.key.item,
            at: output.at.as_millis(),
            epoch: output.epoch.0,
            op: output.origin.as_ref().map(|origin| origin.op.to_string()),
            attempt: output.origin.as_ref().map_or(0, |origin| origin.attempt),
            failed: output.is_failed,
            payload: raw(&output.payload),
        }
    }

    fn into_output(self) -> Result<Output, String> {
        let (code, attempt) = (self.kind, self.attempt);
        let kind = OutputKind::from_code(code).ok_or_else(|| format!("output {}: no such kind: {code}", self.item))?;
        Ok(Output {
            key: OutputKey { kind, name: Name::recorded(&self.name), item: self.item },
            at: Timestamp::from_millis(self.at),
            epoch: Epoch(self.epoch),
            payload: payload(&self.payload),
            origin: self.op.map(|op| AppendedBy { op: op.into(), attempt }),
            is_failed: self.failed,
        })
    }
}

/// Returns JSON as it is, so that no number loses a digit on the way; damaged JSON as text. JSON can have a line break
/// only between two values, where a space means the same.
fn raw(payload: &Payload) -> Box<RawValue> {
    let text = payload.as_str().replace(['\n', '\r'], " ");
    RawValue::from_string(text)
        .or_else(|_| serde_json::value::to_raw_value(payload.as_str()))
        .unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn payload(raw: &RawValue) -> Payload {
    Payload::recorded(raw.get())
}
