//! The record that a job instance keeps between calls, and its JSON encoding.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::call::{FlushReason, HandlerKind};
use crate::payload::{Payload, present};
use crate::time::Timestamp;

/// All that an instance keeps between calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// The user's state.
    pub state: Option<Payload>,
    /// The number of finished executions; retries do not count as new ones.
    pub runs: u64,
    /// The number of handled events; for a debounce, of those in the batch.
    pub events: u64,
    /// When `execute` is due: the next tick, flush or wake. Changed only by the commit that sets the wake of the row.
    pub next: Option<Timestamp>,
    /// The tick whose execution has begun and not ended.
    pub begun: Option<Timestamp>,
    /// The call that failed and is retried.
    pub retry: Option<Retrying>,
    /// The call that was given up, until `on_error` has handled it.
    pub trouble: Option<Troubled>,
    /// Whether an execution was triggered.
    pub is_triggered: bool,
    /// The inbox position of the trigger.
    pub trigger: u64,
    /// Whether the schedule is stopped.
    pub is_stopped: bool,
    /// Whether anything was handled since the last `on_idle`.
    pub is_restless: bool,
    /// Why the batch is being flushed, if it is being flushed.
    pub flush: Option<FlushReason>,
    /// When the first event of the batch was accepted.
    pub opened_at: Option<Timestamp>,
    /// The first event of the batch.
    pub first_event: Option<Payload>,
    /// The inbox positions of the first and the last event of the batch.
    pub batch: (u64, u64),
    /// The last failure, for people.
    pub error: Option<String>,
    /// The schedule that the next tick was computed from, as text.
    pub schedule: Option<String>,
    /// How many calls of handlers have ended, in this life and in those before: two calls never share a key.
    pub calls: u64,
}

/// A call that failed and is retried.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Retrying {
    /// The handler.
    pub handler: HandlerKind,
    /// The inbox position of its event.
    pub event: Option<u64>,
    /// The number of failed attempts.
    pub failed: u32,
    /// When the first attempt began.
    pub since: Timestamp,
    /// When the next attempt is due.
    pub due: Timestamp,
    /// Whether it was triggered rather than scheduled.
    #[serde(default)]
    pub is_trigger: bool,
}

/// A call that was given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Troubled {
    /// The handler.
    pub handler: HandlerKind,
    /// The inbox position of its event.
    pub event: Option<u64>,
    /// The number of attempts.
    pub attempts: u32,
    /// Whether it was triggered rather than scheduled.
    pub is_trigger: bool,
    /// The last failure, as [`Failure::to_payload`](crate::failure::Failure::to_payload) writes it.
    pub failure: Payload,
}

/// The record as JSON. Leaves out fields that have their default value.
#[derive(Serialize, Deserialize)]
struct RecordWire {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    state: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "is_default")]
    runs: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    events: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    next: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_default")]
    begun: Option<Timestamp>,
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
    /// Encodes the record as JSON.
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
        let wire = RecordWire {
            state: self.state.as_ref().and_then(raw),
            runs: self.runs,
            events: self.events,
            next: self.next,
            begun: self.begun,
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

    /// Decodes a record from JSON.
    ///
    /// # Errors
    /// Returns what is wrong with the JSON.
    pub fn from_payload(text: &Payload) -> Result<Self, String> {
        let wire: RecordWire = text.decode().map_err(|error| error.to_string())?;
        Ok(Self {
            state: wire.state.as_deref().map(payload),
            runs: wire.runs,
            events: wire.events,
            next: wire.next,
            begun: wire.begun,
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
