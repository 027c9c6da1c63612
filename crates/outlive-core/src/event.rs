//! Events that users send to jobs, with their delivery history.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::id::Name;
use crate::payload::Payload;
use crate::time::Timestamp;

/// An event for a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The value.
    pub payload: Payload,
    /// Priority in a queue; larger values go first.
    pub priority: i32,
    /// Fairness key in a queue; events with different keys take turns.
    pub key: Option<Name>,
    /// The earliest time at which it is handled, in a queue.
    pub due: Option<Timestamp>,
    /// Another event with this key is not accepted while the key is kept.
    pub dedup: Option<Name>,
    /// `true` if the sender waits for a reply.
    pub is_asking: bool,
    /// The number of failed attempts.
    pub failed: u32,
    /// When the first attempt started, if it has failed since.
    pub tried_at: Option<Timestamp>,
    /// The last failure.
    pub failure: Option<Payload>,
    /// How often the process died while handling it, as far as is known.
    pub deaths: u32,
    /// The number of events it stands for, if it is a batch that was given up and is being retried; otherwise 0.
    pub batch: u64,
    /// `true` if it is a batch without state, whose payload is meaningless.
    pub is_stateless: bool,
}

/// All fields except the payload, each omitted if it has the default of [`Event::new`].
#[derive(Serialize, Deserialize)]
struct EventWire<'a> {
    #[serde(default, skip_serializing_if = "is_zero")]
    priority: i32,
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    dedup: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    asks: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    failed: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tried_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    failure: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "is_zero")]
    deaths: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    batch: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    stateless: bool,
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

impl Event {
    /// Creates an event with default settings.
    #[must_use]
    pub fn new(payload: Payload) -> Self {
        Self {
            payload,
            priority: 0,
            key: None,
            due: None,
            dedup: None,
            is_asking: false,
            failed: 0,
            tried_at: None,
            failure: None,
            deaths: 0,
            batch: 0,
            is_stateless: false,
        }
    }

    /// Resets the event to its state before the first attempt.
    #[must_use]
    pub fn anew(self) -> Self {
        Self { due: None, is_asking: false, failed: 0, tried_at: None, failure: None, deaths: 0, ..self }
    }

    /// Serializes all fields except the payload for a column; `None` if all of them are defaults.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        if *self == Self::new(self.payload.clone()) {
            return None;
        }
        let text = |name: &'_ Option<Name>| name.as_ref().map(|name| Cow::Owned(name.to_string()));
        let wire = EventWire {
            priority: self.priority,
            key: text(&self.key),
            due: self.due,
            dedup: text(&self.dedup),
            asks: self.is_asking,
            failed: self.failed,
            tried_at: self.tried_at,
            failure: self.failure.as_ref().map(|failure| Cow::Borrowed(failure.as_str())),
            deaths: self.deaths,
            batch: self.batch,
            stateless: self.is_stateless,
        };
        serde_json::to_string(&wire).ok()
    }

    /// Rebuilds an event from its columns; `None` if they are invalid.
    #[must_use]
    pub fn from_parts(text: Option<&str>, payload: Payload) -> Option<Self> {
        let Some(text) = text else { return Some(Self::new(payload)) };
        let wire: EventWire<'_> = serde_json::from_str(text).ok()?;
        let name = |text: Option<Cow<'_, str>>| text.map(|text| Name::recorded(&text));
        Some(Self {
            payload,
            priority: wire.priority,
            key: name(wire.key),
            due: wire.due,
            dedup: name(wire.dedup),
            is_asking: wire.asks,
            failed: wire.failed,
            tried_at: wire.tried_at,
            failure: wire.failure.map(|failure| Payload::recorded(&failure)),
            deaths: wire.deaths,
            batch: wire.batch,
            is_stateless: wire.stateless,
        })
    }
}
