//! What a run gives out for others to read: latest values, streams, and answers to questions.

use std::fmt;
use std::sync::Arc;

use crate::checksum::Sum;
use crate::id::{Epoch, InstanceNum, Name};
use crate::payload::Payload;
use crate::time::Timestamp;

/// The kind of an output, as stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum OutputKind {
    /// The latest value of a name.
    Value = 1,
    /// An item of a stream.
    Item = 2,
    /// The answer to a question.
    Answer = 3,
    /// How an attempt that appended to a stream ended.
    AttemptEnd = 4,
}

impl OutputKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Value, Self::Item, Self::Answer, Self::AttemptEnd];

    /// Returns the kind with this code, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// The attempt of a step that appended something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppendedBy {
    /// The identity of the step.
    pub op: Arc<str>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// What is given out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutputContent {
    /// Replaces the value of a name.
    Value {
        /// The name.
        name: Name,
        /// The number of the entry that records it: grows with each value.
        version: u64,
        /// The value.
        payload: Payload,
    },
    /// Adds to a stream. Refused if the stream has `max_items` items.
    Item {
        /// The name of the stream.
        name: Name,
        /// The value.
        payload: Payload,
        /// The attempt that appends it; `None` if the run itself does.
        origin: Option<AppendedBy>,
        /// The most items that the stream may have.
        max_items: u64,
    },
    /// Answers a question.
    Answer {
        /// The inbox position of the question.
        question: u64,
        /// The [answer](AnswerRecord), in its stored form.
        payload: Payload,
    },
    /// Ends an attempt that has appended something.
    AttemptEnd {
        /// The attempt.
        origin: AppendedBy,
        /// `true` if it succeeded.
        is_kept: bool,
    },
}

impl OutputContent {
    /// Returns the name of the stream it is appended to; empty if it is something else.
    #[must_use]
    pub fn stream(&self) -> &str {
        match self {
            Self::Item { name, .. } => name.as_str(),
            _ => "",
        }
    }
}

/// An output of a run. Carried by the commit of the entry that records it, or written on its own by the attempt of a
/// step: then it is fenced unless `epoch` holds the lease and the run is neither ended nor stuck.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputWrite {
    /// The run. The driver of a run fills it in, and the epoch.
    pub num: InstanceNum,
    /// The epoch of the lease.
    pub epoch: Epoch,
    /// What is given out.
    pub content: OutputContent,
    /// When.
    pub at: Timestamp,
    /// Distinguishes this item from an equal one when a reply was lost.
    pub token: u64,
}

impl OutputWrite {
    /// Creates an output of the run whose commit carries it.
    #[must_use]
    pub fn carried(content: OutputContent, at: Timestamp, token: u64) -> Self {
        Self { num: InstanceNum(0), epoch: Epoch(0), content, at, token }
    }

    /// Returns `true` if a store may refuse it.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        matches!(self.content, OutputContent::Item { .. })
    }

    /// Returns the row to store, for an item at this place in its stream.
    #[must_use]
    pub fn to_row(&self, offset: u64) -> Output {
        let none = || Name::recorded("");
        let (kind, name, item, payload, origin) = match &self.content {
            OutputContent::Value { name, version, payload } => {
                (OutputKind::Value, name.clone(), *version, payload.clone(), None)
            }
            OutputContent::Item { name, payload, origin, .. } => {
                (OutputKind::Item, name.clone(), offset, payload.clone(), origin.clone())
            }
            OutputContent::Answer { question, payload } => {
                (OutputKind::Answer, none(), *question, payload.clone(), None)
            }
            OutputContent::AttemptEnd { origin, is_kept } => {
                let payload = Payload::recorded(if *is_kept { "true" } else { "false" });
                (OutputKind::AttemptEnd, Name::recorded(&origin.op), u64::from(origin.attempt), payload, None)
            }
        };
        let key = OutputKey { kind, name, item };
        Output { key, at: self.at, epoch: self.epoch, payload, origin, is_failed: false }
    }
}

/// The place of an output among all of its run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OutputKey {
    /// The kind.
    pub kind: OutputKind,
    /// The name of the value or stream; for the end of an attempt, the identity of the step; empty for an answer.
    pub name: Name,
    /// The version of a value, the offset in a stream from 0, the inbox position of a question, or the attempt.
    pub item: u64,
}

/// A stored output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Its place.
    pub key: OutputKey,
    /// When it was given out.
    pub at: Timestamp,
    /// The epoch that drove the run then.
    pub epoch: Epoch,
    /// The value.
    pub payload: Payload,
    /// The attempt that appended it, if it is an item that the run itself did not append.
    pub origin: Option<AppendedBy>,
    /// `true` if that attempt failed or was interrupted, as far as known when it was read. Not stored.
    pub is_failed: bool,
}

impl Output {
    /// Returns a checksum over everything that is stored.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        let attempt = self.origin.as_ref().map_or(0, |origin| origin.attempt);
        Sum::new()
            .number(self.key.kind as u64)
            .text(self.key.name.as_str())
            .number(self.key.item)
            .number(self.at.as_millis().cast_unsigned())
            .number(self.epoch.0)
            .number(u64::from(attempt))
            .optional(self.origin.as_ref().map(|origin| &*origin.op))
            .text(self.payload.as_str())
            .end()
    }

    /// Notes whether the attempt that appended it has failed. `end` is how that attempt ended under which epoch, and
    /// `owner` is the epoch that drives the run now: an attempt is in progress only while its epoch does.
    #[must_use]
    pub fn judged(mut self, end: Option<(Epoch, bool)>, owner: Epoch) -> Self {
        self.is_failed = self.origin.is_some()
            && match end {
                Some((epoch, is_kept)) => epoch != self.epoch || !is_kept,
                None => owner != self.epoch,
            };
        self
    }
}

/// Which outputs of a run to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutputRead {
    /// Those of one kind and name, from an item on.
    Of {
        /// The kind.
        kind: OutputKind,
        /// The name.
        name: Name,
        /// The first item.
        from: u64,
    },
    /// All, in order, after a place.
    All {
        /// The last one that was read.
        after: Option<OutputKey>,
    },
}

/// The answer to a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnswerRecord {
    /// The value that the run replied with.
    Value(Payload),
    /// Why the run could not read the question.
    Unreadable(String),
}

impl AnswerRecord {
    /// Returns the stored form: `{"answer": …}` or `{"unreadable": "…"}`.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        match self {
            Self::Value(payload) => Payload::recorded(&format!("{{\"answer\":{payload}}}")),
            Self::Unreadable(problem) => {
                let problem = Payload::encode(problem).unwrap_or_else(|_| Payload::recorded("\"\""));
                Payload::recorded(&format!("{{\"unreadable\":{problem}}}"))
            }
        }
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_payload(payload: &Payload) -> Result<Self, String> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Wire<'a> {
            #[serde(borrow)]
            Answer(&'a serde_json::value::RawValue),
            Unreadable(String),
        }
        match serde_json::from_str(payload.as_str()) {
            Ok(Wire::Answer(value)) => Ok(Self::Value(Payload::recorded(value.get()))),
            Ok(Wire::Unreadable(problem)) => Ok(Self::Unreadable(problem)),
            Err(error) => Err(format!("it is not an answer: {error}")),
        }
    }
}

/// The name under which questions wait in the inbox: no signal can have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuestionKey(Name);

impl QuestionKey {
    const PREFIX: &str = "\u{2}";

    /// Returns the key of questions with this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(Name::recorded(&format!("{}{name}", Self::PREFIX)))
    }

    /// Returns the key as the name that a wait expects.
    #[must_use]
    pub fn into_name(self) -> Name {
        self.0
    }

    /// Returns the name of the question, if this is the key of one.
    #[must_use]
    pub fn name_in(key: &str) -> Option<&str> {
        key.strip_prefix(Self::PREFIX)
    }
}

impl fmt::Display for QuestionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn item(epoch: u64, origin: Option<AppendedBy>) -> Output {
        let key = OutputKey { kind: OutputKind::Item, name: Name::recorded("tokens"), item: 0 };
        let payload = Payload::recorded("1");
        Output { key, at: Timestamp::AT_ONCE, epoch: Epoch(epoch), payload, origin, is_failed: false }
    }

    #[test]
    fn item_is_failed_unless_its_attempt_was_kept_or_is_in_progress() {
        let origin = Some(AppendedBy { op: "step:ask".into(), attempt: 1 });
        let table = [
            // The attempt succeeded, failed, or is in progress.
            (Some((Epoch(3), true)), 3, false),
            (Some((Epoch(3), false)), 3, true),
            (None, 3, false),
            // A crash interrupted it, and it was repeated, is repeated now, or waits.
            (Some((Epoch(4), true)), 4, true),
            (None, 4, true),
            (None, 0, true),
        ];
        for (end, owner, is_failed) in table {
            let judged = item(3, origin.clone()).judged(end, Epoch(owner));
            assert_eq!(judged.is_failed, is_failed, "{end:?}, owner {owner}");
            assert!(!item(3, None).judged(end, Epoch(owner)).is_failed, "the run itself appended it");
        }
    }

    #[test]
    fn answers_are_read_back() {
        for answered in [AnswerRecord::Value(Payload::recorded("null")), AnswerRecord::Unreadable("a \"b\"".into())] {
            assert_eq!(AnswerRecord::from_payload(&answered.to_payload()).unwrap(), answered);
        }
        assert!(AnswerRecord::from_payload(&Payload::recorded("{}")).is_err());
    }

    #[test]
    fn checksum_covers_every_field() {
        let one = item(1, Some(AppendedBy { op: "step:a".into(), attempt: 1 }));
        let others = [
            Output { epoch: Epoch(2), ..one.clone() },
            Output { origin: None, ..one.clone() },
            Output { origin: Some(AppendedBy { op: "step:a".into(), attempt: 2 }), ..one.clone() },
            Output { payload: Payload::recorded("2"), ..one.clone() },
            Output { at: Timestamp::from_millis(1), ..one.clone() },
            Output { key: OutputKey { item: 1, ..one.key.clone() }, ..one.clone() },
            Output { key: OutputKey { kind: OutputKind::Value, ..one.key.clone() }, ..one.clone() },
        ];
        others.iter().for_each(|other| assert_ne!(other.checksum(), one.checksum(), "{other:?}"));
    }
}
