//! Effects: what a run starts and sends elsewhere, as writes in the commit of its own entry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::checksum::Sum;
use crate::child::Parent;
use crate::event::Event;
use crate::id::{Epoch, LENGTH_MAX, Name};
use crate::journal::SentTo;
use crate::message::Message;
use crate::origin::RunOrigin;
use crate::output::{AnswerRecord, OutputContent, OutputWrite};
use crate::payload::Payload;
use crate::queue::{PushTarget, PushWrite};
use crate::status::{Status, StatusKind};
use crate::store::commit::{OnConflict, Refusal, SendWrite, StartWrite, Write};
use crate::time::Timestamp;

use super::rewound::Rewinds;

/// The prefix in the identity of the start of a child, which its id does not repeat.
pub(super) const CHILD_PREFIX: &str = "child:";

/// What an effect does.
#[derive(Clone, Debug)]
pub enum EffectSpec {
    /// Starts a run.
    Start(StartEffect),
    /// Sends a message to a run.
    Message {
        /// The id of the run.
        id: Name,
        /// The message.
        message: Message,
    },
    /// Pushes an event to an instance of a job.
    Push {
        /// The id of the instance.
        id: Name,
        /// The name of the job with its kind.
        job: Name,
        /// The event.
        event: Event,
        /// Where it is stored until it is taken.
        place: PushTarget,
    },
    /// Gives something out, for others to read. The version of a value is filled in, and an answer is the plain value.
    Output(OutputContent),
}

/// A run to start.
#[derive(Clone, Debug)]
pub struct StartEffect {
    /// The name of the workflow.
    pub workflow: Name,
    /// The input.
    pub input: Payload,
    /// The id. Without one, a child is named for its parent and its operation, and any other run gets a new id.
    pub id: Option<Name>,
    /// Where it comes from.
    pub origin: Option<Arc<RunOrigin>>,
    /// Labels for searching.
    pub tags: BTreeMap<String, String>,
    /// When it may start.
    pub due: Timestamp,
    /// The parent, if it is a child.
    pub parent: Option<Parent>,
    /// How long it may take from its start.
    pub deadline: Option<Duration>,
}

/// Why an effect was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedEffect {
    /// The id of the instance.
    pub id: String,
    /// Why.
    pub refusal: Refusal,
}

/// The stored form of a [`RefusedEffect`].
#[derive(Serialize, Deserialize)]
struct RefusedWire {
    id: String,
    why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl RefusedEffect {
    pub(super) fn to_payload(&self) -> Payload {
        let (why, detail) = match &self.refusal {
            Refusal::NotFound => ("not found", None),
            Refusal::Status(status) => ("status", Some(status.as_str().to_owned())),
            Refusal::Conflict { workflow } => ("conflict", Some(workflow.to_string())),
            Refusal::Taken => ("taken", None),
            Refusal::Child { parent } => ("child", Some(parent.to_string())),
            Refusal::Changed => ("changed", None),
            Refusal::Full { max_items } => ("full", Some(max_items.to_string())),
        };
        let wire = RefusedWire { id: self.id.clone(), why: why.to_owned(), detail };
        Payload::encode(&wire).unwrap_or_else(|_| Payload::recorded("{}"))
    }

    pub(super) fn from_payload(payload: &Payload) -> Result<Self, String> {
        let RefusedWire { id, why, detail } = payload.decode().map_err(|error| format!("not a refusal: {error}"))?;
        let detail = detail.unwrap_or_default();
        let status = StatusKind::from_text(&detail).map(|kind| Status::from_parts(kind, None));
        let refusal = match (why.as_str(), status) {
            ("not found", _) => Refusal::NotFound,
            ("status", Some(status)) => Refusal::Status(status),
            ("conflict", _) => Refusal::Conflict { workflow: Name::recorded(&detail) },
            ("taken", _) => Refusal::Taken,
            ("full", _) => Refusal::Full { max_items: detail.parse().unwrap_or_default() },
            ("child", _) => Refusal::Child { parent: Name::recorded(&detail) },
            ("changed", _) => Refusal::Changed,
            _ => return Err(format!("unknown refusal {why:?}")),
        };
        Ok(Self { id, refusal })
    }
}

/// What the numbers and the id of an effect are made from.
pub(super) struct EffectSource<'a> {
    /// The seed of the run.
    pub(super) seed: u64,
    /// The identity of the operation.
    pub(super) op: &'a str,
    /// The number of its entry: an effect that is repeated after a rewind is another one.
    pub(super) seq: u64,
    /// The number of the run, which restarts count.
    pub(super) run_number: u32,
    pub(super) now: Timestamp,
    /// What the run has forgotten, if it was rewound or forked.
    pub(super) rewinds: Option<&'a Rewinds>,
}

impl EffectSource<'_> {
    fn number(&self, purpose: u64) -> u64 {
        Sum::new().number(self.seed).text(self.op).number(self.seq).number(purpose).whole()
    }

    /// Returns a new id, which sorts by time: a UUID of version 7.
    fn new_id(&self) -> Name {
        let millis = u64::try_from(self.now.as_millis()).unwrap_or(0) & 0xffff_ffff_ffff;
        let (one, two) = (self.number(3), self.number(4));
        let (high, low) = (millis << 16 | 0x7000 | one & 0x0fff, two & 0x3fff_ffff_ffff_ffff | 1 << 63);
        let text = format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        );
        Name::recorded(&text)
    }

    /// Names a child for its parent, the run of it, and its operation, unless it has an id. One that replaces a child
    /// that the run has forgotten gets another id, as that one keeps its own.
    fn child_id(&self, given: Option<&Name>, parent: &Parent) -> Name {
        let op = self.op.replacen(CHILD_PREFIX, "", 1);
        let named = || match self.run_number {
            0 | 1 => self.fitted(format!("{}/{op}", parent.id)),
            number => self.fitted(format!("{}#{number}/{op}", parent.id)),
        };
        let id = given.cloned().unwrap_or_else(named);
        match self.rewinds {
            Some(rewinds) if rewinds.has_child(id.as_str()) => self.fitted(format!("{id}@{}", rewinds.last())),
            _ => id,
        }
    }

    /// Shortens an id that is too long; what is left out still counts.
    fn fitted(&self, id: String) -> Name {
        if id.len() <= LENGTH_MAX {
            return Name::recorded(&id);
        }
        let mut end = LENGTH_MAX - 17;
        while !id.is_char_boundary(end) {
            end -= 1;
        }
        Name::recorded(&format!("{}~{:016x}", &id[..end], Sum::new().text(&id).whole()))
    }
}

impl EffectSpec {
    /// Returns `true` if it starts a child.
    pub(super) fn is_child(&self) -> bool {
        matches!(self, Self::Start(StartEffect { parent: Some(_), .. }))
    }

    /// Returns the write that has this effect, and where it goes.
    pub(super) fn to_write(&self, source: &EffectSource<'_>) -> (Write, SentTo) {
        let (at, token, seed) = (source.now, source.number(1), source.number(2));
        match self {
            Self::Start(start) => {
                let id = match (&start.id, &start.parent) {
                    (given, Some(parent)) => source.child_id(given.as_ref(), parent),
                    (Some(id), None) => id.clone(),
                    (None, None) => source.new_id(),
                };
                let to = SentTo { id: id.to_string(), detached: start.parent.as_ref().map(|one| one.is_detached) };
                let StartEffect { workflow, input, origin, tags, due, parent, .. } = start.clone();
                let deadline = start.deadline.map(|limit| at.after(limit));
                let due = deadline.map_or(due, |deadline| due.min(deadline));
                // The parent of an existing run would wait for an outcome that is reported to somebody else.
                let on_conflict = if parent.is_some() { OnConflict::Reject } else { OnConflict::Join };
                let owner = Epoch(0);
                let start = StartWrite {
                    id,
                    workflow,
                    input,
                    origin,
                    seed,
                    tags,
                    at,
                    due,
                    on_conflict,
                    token,
                    owner,
                    parent,
                    deadline,
                };
                (Write::Start(start), to)
            }
            Self::Message { id, message } => {
                let to = SentTo { id: id.to_string(), detached: None };
                let (id, message) = (id.clone(), message.clone());
                (Write::Message(SendWrite { id, num: None, message, at, dedup: None, token }), to)
            }
            Self::Push { id, job, event, place } => {
                let to = SentTo { id: id.to_string(), detached: None };
                let (id, job, events) = (id.clone(), job.clone(), vec![event.clone()]);
                (Write::Push(PushWrite { id, job, events, place: *place, at, seed, token }), to)
            }
            Self::Output(content) => {
                let content = match content.clone() {
                    OutputContent::Value { name, payload, .. } => {
                        OutputContent::Value { name, version: source.seq, payload }
                    }
                    OutputContent::Answer { question, payload } => {
                        OutputContent::Answer { question, payload: AnswerRecord::Value(payload).to_payload() }
                    }
                    other => other,
                };
                let to = SentTo { id: content.stream().to_owned(), detached: None };
                (Write::Output(OutputWrite::carried(content, at, token).into()), to)
            }
        }
    }
}

/// Returns another id for a child whose own is taken; `None` if this is the other one.
pub(super) fn renamed(id: &Name, parent: &Parent) -> Option<Name> {
    let suffix = format!("~{}", parent.num.0);
    if id.as_str().ends_with(&suffix) {
        return None;
    }
    let mut end = id.as_str().len().min(LENGTH_MAX - suffix.len());
    while !id.as_str().is_char_boundary(end) {
        end -= 1;
    }
    Some(Name::recorded(&format!("{}{suffix}", &id.as_str()[..end])))
}
