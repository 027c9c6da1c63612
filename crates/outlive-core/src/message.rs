//! Messages to an instance, and the form in which they wait in its inbox.

use std::borrow::Cow;
use std::fmt;

use crate::event::Event;
use crate::id::Name;
use crate::payload::Payload;
use crate::time::Timestamp;

/// A message to an instance.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Message {
    /// A named value.
    Signal {
        /// Its name.
        name: Name,
        /// Its value.
        payload: Payload,
    },
    /// Cancels the instance: it may clean up, then ends.
    Cancel {
        /// The reason.
        reason: String,
    },
    /// Ends the instance immediately.
    Terminate {
        /// The reason.
        reason: String,
    },
    /// Pauses the instance until it is resumed.
    Pause,
    /// Resumes an instance that was paused manually.
    Resume,
    /// A value for a job.
    Event(Event),
    /// Makes a job execute now, regardless of its schedule.
    Trigger,
    /// Makes a job drop the events it has collected.
    Clear,
    /// Discards a dead letter of the run: the signal that this journal entry refused.
    Discard {
        /// The sequence number of the entry.
        seq: u64,
    },
    /// A child of the run has ended.
    ChildEnded {
        /// The id of the child.
        id: Name,
        /// Its [outcome](crate::child::ChildOutcome).
        outcome: Payload,
    },
    /// A question, which the run answers.
    Question {
        /// Its name.
        name: Name,
        /// Its value.
        payload: Payload,
    },
}

/// A message in an inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inbound {
    /// Position in order of arrival: later messages to the same instance have larger positions.
    pub pos: u64,
    /// When it was accepted.
    pub at: Timestamp,
    /// The message.
    pub message: Message,
}

/// The kind of a message, as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is the message of the same name")]
pub enum MessageKind {
    Signal = 1,
    Cancel = 2,
    Terminate = 3,
    Pause = 4,
    Resume = 5,
    Event = 6,
    Trigger = 7,
    Clear = 8,
    Discard = 9,
    ChildEnded = 10,
    Question = 11,
}

impl Message {
    /// Returns `true` if the message ends the instance.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Cancel { .. } | Self::Terminate { .. })
    }

    /// Returns `true` if the sender does not depend on the message: if its receiver has ended or is gone, there is
    /// nothing to do.
    #[must_use]
    pub fn is_notice(&self) -> bool {
        self.is_end() || matches!(self, Self::ChildEnded { .. })
    }

    /// Splits the message into three columns: kind, name or reason, payload.
    #[must_use]
    pub fn to_parts(&self) -> (MessageKind, Option<Cow<'_, str>>, Option<&Payload>) {
        match self {
            Self::Signal { name, payload } => (MessageKind::Signal, Some(name.as_str().into()), Some(payload)),
            Self::Cancel { reason } => (MessageKind::Cancel, Some(reason.into()), None),
            Self::Terminate { reason } => (MessageKind::Terminate, Some(reason.into()), None),
            Self::Pause => (MessageKind::Pause, None, None),
            Self::Resume => (MessageKind::Resume, None, None),
            Self::Event(event) => (MessageKind::Event, event.to_text().map(Cow::Owned), Some(&event.payload)),
            Self::Trigger => (MessageKind::Trigger, None, None),
            Self::Clear => (MessageKind::Clear, None, None),
            Self::Discard { seq } => (MessageKind::Discard, Some(seq.to_string().into()), None),
            Self::ChildEnded { id, outcome } => (MessageKind::ChildEnded, Some(id.as_str().into()), Some(outcome)),
            Self::Question { name, payload } => (MessageKind::Question, Some(name.as_str().into()), Some(payload)),
        }
    }

    /// Rebuilds a message from its columns.
    ///
    /// # Errors
    /// If the columns do not form a message.
    pub fn from_parts(kind: u8, text: Option<&str>, payload: Option<Payload>) -> Result<Self, UnknownMessage> {
        let reason = || text.unwrap_or_default().to_owned();
        match (kind, text, payload) {
            (1, Some(name), Some(payload)) => Ok(Self::Signal { name: Name::recorded(name), payload }),
            (2, _, None) => Ok(Self::Cancel { reason: reason() }),
            (3, _, None) => Ok(Self::Terminate { reason: reason() }),
            (4, None, None) => Ok(Self::Pause),
            (5, None, None) => Ok(Self::Resume),
            (6, text, Some(payload)) => Event::from_parts(text, payload).map(Self::Event).ok_or(UnknownMessage(kind)),
            (7, None, None) => Ok(Self::Trigger),
            (8, None, None) => Ok(Self::Clear),
            (9, Some(seq), None) => seq.parse().map(|seq| Self::Discard { seq }).map_err(|_| UnknownMessage(kind)),
            (10, Some(id), Some(outcome)) => Ok(Self::ChildEnded { id: Name::recorded(id), outcome }),
            (11, Some(name), Some(payload)) => Ok(Self::Question { name: Name::recorded(name), payload }),
            _ => Err(UnknownMessage(kind)),
        }
    }
}

/// The error for columns that do not form a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownMessage(pub u8);

impl fmt::Display for UnknownMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid columns for a message of kind {}", self.0)
    }
}

impl std::error::Error for UnknownMessage {}
