//! What can be sent to an instance from outside, and how it lies in the inbox until it is taken.

use std::borrow::Cow;
use std::fmt;

use crate::event::Event;
use crate::id::Name;
use crate::payload::Payload;
use crate::time::Timestamp;

/// One thing that somebody tells an instance.
///
/// ```
/// use outlive_core::id::Name;
/// use outlive_core::message::Message;
/// use outlive_core::payload::Payload;
/// let paid = Message::Signal { name: Name::recorded("paid"), payload: Payload::recorded("42") };
/// assert!(!paid.is_end());
/// ```
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
    /// End, after cleaning up.
    Cancel {
        /// Why.
        reason: String,
    },
    /// End at once.
    Terminate {
        /// Why.
        reason: String,
    },
    /// Stop going on until resumed.
    Pause,
    /// Go on after a pause by hand.
    Resume,
    /// For a job: a value.
    Event(Event),
    /// For a job: execute now, whatever is scheduled.
    Trigger,
    /// For a job: forget what was collected.
    Clear,
    /// Discard a dead letter of the run: the signal that this entry refused.
    Discard {
        /// The entry's number.
        seq: u64,
    },
}

/// A message in an inbox.
///
/// ```
/// use outlive_core::message::{Inbound, Message};
/// # use outlive_core::time::Timestamp;
/// let inbound = Inbound { pos: 1, at: Timestamp::from_millis(0), message: Message::Pause };
/// assert_eq!(inbound.message, Message::Pause);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inbound {
    /// Its place in the order of arrival: larger for later messages to the same instance.
    pub pos: u64,
    /// When it was accepted.
    pub at: Timestamp,
    /// What it says.
    pub message: Message,
}

/// The kinds of message, as in a column.
///
/// ```
/// use outlive_core::message::{Message, MessageKind};
/// assert_eq!(Message::Resume.to_parts().0 as u8, MessageKind::Resume as u8);
/// ```
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
}

impl Message {
    /// Whether it is to end the instance.
    ///
    /// ```
    /// # use outlive_core::message::Message;
    /// assert!(Message::Cancel { reason: "sold out".to_owned() }.is_end());
    /// assert!(!Message::Pause.is_end());
    /// ```
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Cancel { .. } | Self::Terminate { .. })
    }

    /// As three columns: kind, name or reason, payload.
    ///
    /// ```
    /// # use outlive_core::message::{Message, MessageKind};
    /// let message = Message::Cancel { reason: "sold out".to_owned() };
    /// assert_eq!(message.to_parts(), (MessageKind::Cancel, Some("sold out".into()), None));
    /// ```
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
        }
    }

    /// Back from columns.
    ///
    /// # Errors
    /// If they are not a message.
    ///
    /// ```
    /// # use outlive_core::message::Message;
    /// assert_eq!(Message::from_parts(4, None, None).unwrap(), Message::Pause);
    /// assert!(Message::from_parts(1, Some("paid"), None).is_err(), "a signal has a payload");
    /// ```
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
            _ => Err(UnknownMessage(kind)),
        }
    }
}

/// Columns that are no message.
///
/// ```
/// use outlive_core::message::{Message, UnknownMessage};
/// let error = Message::from_parts(9, None, None).unwrap_err();
/// assert_eq!(error, UnknownMessage(9));
/// assert_eq!(error.to_string(), "a message of kind 9 with the wrong columns");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownMessage(pub u8);

impl fmt::Display for UnknownMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message of kind {} with the wrong columns", self.0)
    }
}

impl std::error::Error for UnknownMessage {}
