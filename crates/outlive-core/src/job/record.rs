//! What an instance of a job keeps between its turns, and how that is written.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::call::{FlushReason, HandlerKind};
use crate::payload::{Payload, present};
use crate::time::Timestamp;

/// What an instance keeps.
///
/// ```
/// use outlive_core::job::Record;
/// use outlive_core::payload::Payload;
///
/// let record = Record { state: Some(Payload::recorded("[1,2]")), runs: 3, ..Record::default() };
/// assert_eq!(Record::from_payload(&record.to_payload()), Ok(record));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// The user's state.
    pub state: Option<Payload>,
    /// How often `execute` came to its end; a retry is no new run.
    pub runs: u64,
    /// How many events were handled; of a debounce, those in the batch.
    pub events: u64,
    /// When `execute` is due: the next tick, flush or wake. Only the commit that sets the wake of the row changes it.
    pub next: Option<Timestamp>,
    /// What failed and is tried again.
    pub retry: Option<Retrying>,
    /// What was given up, until `on_error` has dealt with it.
    pub trouble: Option<Troubled>,
    /// Somebody asked for an execution now.
    pub is_triggered: bool,
    /// The position of the message that did.
    pub trigger: u64,
    /// Somebody stopped the schedule.
    pub is_stopped: bool,
    /// Something was done since `on_idle` was last called.
    pub is_restless: bool,
    /// Why the batch is being flushed, if it is.
    pub flush: Option<FlushReason>,
    /// When the first event of the batch was accepted.
    pub opened_at: Option<Timestamp>,
    /// The first event of the batch.
    pub first_event: Option<Payload>,
    /// The positions of the first and the last event of the batch.
    pub batch: (u64, u64),
    /// The last failure, for people.
    pub error: Option<String>,
    /// The schedule that the next tick was reckoned by, in words.
    pub schedule: Option<String>,
    /// How many calls of handlers have ended, in this life and in those before: two calls never share a key.
    pub calls: u64,
}

/// Something that failed and is tried again.
///
/// ```
/// use outlive_core::job::Retrying;
/// fn attempt(retry: &Retrying) -> u32 {
///     retry.failed + 1
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Retrying {
    /// Which handler.
    pub handler: HandlerKind,
    /// For which event.
    pub event: Option<u64>,
    /// How often it has failed.
    pub failed: u32,
    /// When it was first tried.
    pub since: Timestamp,
    /// When it is tried again.
    pub due: Timestamp,
    /// Whether somebody asked for it, beside the schedule.
    #[serde(default)]
    pub is_trigger: bool,
}

/// Something that was given up.
///
/// ```
/// use outlive_core::job::Troubled;
/// fn line(trouble: &Troubled) -> String {
///     format!("{} failed {} times", trouble.handler.as_str(), trouble.attempts)
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Troubled {
    /// Which handler failed.
    pub handler: HandlerKind,
    /// For which event.
    pub event: Option<u64>,
    /// How often it was tried.
    pub attempts: u32,
    /// Whether somebody had asked for it, beside the schedule.
    pub is_trigger: bool,
    /// The last failure, as [`Failure::to_payload`](crate::failure::Failure::to_payload) writes it.
    pub failure: Payload,
}

/// The record as it is written: short names, and nothing that is as in a new one.
#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    state: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "is_default")]
    runs: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    events: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    next: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<Retrying>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trouble: Option<TroubledWire>,
    #[serde(default, skip_serializing_if = "is_default")]
    triggered: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    trigger: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    stopped: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    restless: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flush: Option<FlushReason>,
    #[serde(default, skip_serializing_if = "is_default")]
    opened_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    first_event: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "is_default")]
    batch: (u64, u64),
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    calls: u64,
}

#[derive(Serialize, Deserialize)]
struct TroubledWire {
    handler: HandlerKind,
    event: Option<u64>,
    attempts: u32,
    #[serde(default)]
    is_trigger: bool,
    failure: Box<RawValue>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn raw(payload: &Payload) -> Option<Box<RawValue>> {
    RawValue::from_string(payload.as_str().to_owned()).ok()
}

fn payload(raw: &RawValue) -> Payload {
    Payload::recorded(raw.get())
}

impl Record {
    /// As JSON.
    ///
    /// ```
    /// assert_eq!(outlive_core::job::Record::default().to_payload().as_str(), "{}");
    /// ```
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        let trouble = self.trouble.as_ref().and_then(|trouble| {
            Some(TroubledWire {
                handler: trouble.handler,
                event: trouble.event,
                attempts: trouble.attempts,
                is_trigger: trouble.is_trigger,
                failure: raw(&trouble.failure)?,
            })
        });
        let wire = Wire {
            state: self.state.as_ref().and_then(raw),
            runs: self.runs,
            events: self.events,
            next: self.next,
            retry: self.retry.clone(),
            trouble,
            triggered: self.is_triggered,
            trigger: self.trigger,
            stopped: self.is_stopped,
            restless: self.is_restless,
            flush: self.flush,
            opened_at: self.opened_at,
            first_event: self.first_event.as_ref().and_then(raw),
            batch: self.batch,
            error: self.error.clone(),
            schedule: self.schedule.clone(),
            calls: self.calls,
        };
        Payload::encode(&wire).unwrap_or_else(|_| Payload::recorded("{}"))
    }

    /// Back from JSON.
    ///
    /// # Errors
    /// What is wrong with it.
    ///
    /// ```
    /// # use outlive_core::{job::Record, payload::Payload};
    /// assert!(Record::from_payload(&Payload::recorded("[")).is_err());
    /// ```
    pub fn from_payload(text: &Payload) -> Result<Self, String> {
        let wire: Wire = text.decode().map_err(|error| error.to_string())?;
        Ok(Self {
            state: wire.state.as_deref().map(payload),
            runs: wire.runs,
            events: wire.events,
            next: wire.next,
            retry: wire.retry,
            trouble: wire.trouble.map(|trouble| Troubled {
                handler: trouble.handler,
                event: trouble.event,
                attempts: trouble.attempts,
                is_trigger: trouble.is_trigger,
                failure: payload(&trouble.failure),
            }),
            is_triggered: wire.triggered,
            trigger: wire.trigger,
            is_stopped: wire.stopped,
            is_restless: wire.restless,
            flush: wire.flush,
            opened_at: wire.opened_at,
            first_event: wire.first_event.as_deref().map(payload),
            batch: wire.batch,
            error: wire.error,
            schedule: wire.schedule,
            calls: wire.calls,
        })
    }
}
