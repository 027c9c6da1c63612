//! What a user sends to a job, with what is known of its way so far.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::id::Name;
use crate::payload::Payload;
use crate::time::Timestamp;

/// A value for a job.
///
/// ```
/// use outlive_core::event::Event;
/// use outlive_core::payload::Payload;
///
/// let event = Event { priority: 5, ..Event::new(Payload::recorded(r#"{"to":"ada"}"#)) };
/// assert_eq!(Event::from_parts(event.to_text().as_deref(), event.payload.clone()), Some(event));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its value.
    pub payload: Payload,
    /// Larger ones go first, in a queue.
    pub priority: i32,
    /// Events of different keys take turns, in a queue.
    pub key: Option<Name>,
    /// Not before this, in a queue.
    pub due: Option<Timestamp>,
    /// Another event with this key is not accepted while this one counts.
    pub dedup: Option<Name>,
    /// Whether somebody waits for an answer.
    pub is_asking: bool,
    /// How often it was tried and failed.
    pub failed: u32,
    /// When it was first tried, if it failed since.
    pub tried_at: Option<Timestamp>,
    /// How it failed last.
    pub failure: Option<Payload>,
    /// How often the process died while it was handled, as far as that is known.
    pub deaths: u32,
    /// How many events it stands for, if it is a batch that was given up and is tried again; else 0.
    pub batch: u64,
    /// Whether it is a batch that had no state: then its payload stands for nothing.
    pub is_stateless: bool,
}

/// All but the payload, each left out if it is as in [`Event::new`].
#[derive(Serialize, Deserialize)]
struct Wire<'a> {
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
    /// An event with nothing special about it.
    ///
    /// ```
    /// # use outlive_core::{event::Event, payload::Payload};
    /// assert_eq!(Event::new(Payload::recorded("42")).to_text(), None);
    /// ```
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

    /// The same as it was before it was ever tried.
    ///
    /// ```
    /// # use outlive_core::{event::Event, payload::Payload};
    /// let tried = Event { failed: 3, ..Event::new(Payload::recorded("42")) };
    /// assert_eq!(tried.anew().failed, 0);
    /// ```
    #[must_use]
    pub fn anew(self) -> Self {
        Self { due: None, is_asking: false, failed: 0, tried_at: None, failure: None, deaths: 0, ..self }
    }

    /// All but the payload, as text for a column; `None` if there is nothing special.
    ///
    /// ```
    /// # use outlive_core::{event::Event, payload::Payload};
    /// let event = Event { priority: 5, ..Event::new(Payload::recorded("42")) };
    /// assert_eq!(event.to_text().as_deref(), Some(r#"{"priority":5}"#));
    /// ```
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        if *self == Self::new(self.payload.clone()) {
            return None;
        }
        let text = |name: &'_ Option<Name>| name.as_ref().map(|name| Cow::Owned(name.to_string()));
        let wire = Wire {
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

    /// Back from columns; `None` if they are not an event's.
    ///
    /// ```
    /// # use outlive_core::{event::Event, payload::Payload};
    /// assert_eq!(Event::from_parts(Some("priority 5"), Payload::recorded("42")), None);
    /// ```
    #[must_use]
    pub fn from_parts(text: Option<&str>, payload: Payload) -> Option<Self> {
        let Some(text) = text else { return Some(Self::new(payload)) };
        let wire: Wire<'_> = serde_json::from_str(text).ok()?;
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
