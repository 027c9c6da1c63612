//! Failures of user code as data: journaled, shown to people and returned after a restart.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::duration;
use crate::payload::Payload;

/// A recorded failure: the message, its causes, and the serialized error if there is one.
///
/// ```
/// use outlive_core::failure::{Cause, Failure};
/// let failure = Failure::of(&"x".parse::<u8>().unwrap_err());
/// assert_eq!((failure.cause, failure.message.as_str()), (Cause::Error, "invalid digit found in string"));
/// assert_eq!(Failure::from_payload(&failure.to_payload()).unwrap(), failure);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The kind of failure.
    pub cause: Cause,
    /// The message of the error.
    pub message: String,
    /// The messages of its source errors, outermost first.
    pub causes: Vec<String>,
    /// The error itself as JSON, if it was recorded.
    pub details: Option<Payload>,
    /// `true` if a retry could succeed.
    pub retryable: bool,
}

/// The kind of failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// User code returned an error.
    Error,
    /// User code panicked.
    Panic,
    /// User code exceeded its timeout.
    Timeout,
    /// The process ended between the start of an at-most-once step and the record of its outcome.
    Interrupted,
    /// The returned value cannot be stored: it does not serialize, does not deserialize again or is too large.
    Output,
    /// It was cancelled or terminated.
    Cancelled,
}

/// The maximum number of causes that are kept.
const CAUSES_MAX: usize = 64;

/// The maximum length of a message that is kept, in bytes: it is stored with every attempt, and shown to people.
const MESSAGE_MAX: usize = 64 << 10;

/// Shortens the message of an error that is too long to keep.
fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_MAX {
        let bytes = message.len();
        let end = (0..=MESSAGE_MAX).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push_str(&format!(" … ({bytes} bytes in all)"));
    }
    message
}

/// The names written to the journal.
const CAUSES: [(Cause, &str); 6] = [
    (Cause::Error, "error"),
    (Cause::Panic, "panic"),
    (Cause::Timeout, "timeout"),
    (Cause::Interrupted, "interrupted"),
    (Cause::Output, "output"),
    (Cause::Cancelled, "cancelled"),
];

impl Cause {
    /// Returns the name used in the journal.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        CAUSES.iter().find(|(cause, _)| *cause == self).map_or("error", |(_, text)| text)
    }

    fn from_text(text: &str) -> Option<Self> {
        CAUSES.iter().find(|(_, known)| *known == text).map(|(cause, _)| *cause)
    }
}

/// The stored form of a failure.
#[derive(Serialize, Deserialize)]
struct FailureWire {
    cause: String,
    message: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::payload::present")]
    details: Option<Box<serde_json::value::RawValue>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    permanent: bool,
}

/// The details of a timeout.
#[derive(Serialize, Deserialize)]
struct Times {
    timeout_ms: u64,
    elapsed_ms: u64,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Failure {
    /// Creates a retryable failure with a message and nothing else.
    #[must_use]
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), causes: Vec::new(), details: None, retryable: true }
    }

    /// Creates the failure of an operation that exceeded its timeout.
    #[must_use]
    pub fn timed_out(timeout: Duration, elapsed: Duration) -> Self {
        let times = Times { timeout_ms: millis(timeout), elapsed_ms: millis(elapsed) };
        let failure = Self::new(Cause::Timeout, format!("timed out after {}", duration::text(timeout)));
        Self { details: Payload::encode(&times).ok(), ..failure }
    }

    /// Creates the failure of an attempt that has sent no heartbeat for too long.
    #[must_use]
    pub fn silent(timeout: Duration, elapsed: Duration) -> Self {
        let failure = Self::timed_out(timeout, elapsed);
        Self { message: format!("sent no heartbeat for {}", duration::text(timeout)), ..failure }
    }

    /// Returns the timeout and the elapsed time, if this is a timeout.
    #[must_use]
    pub fn times(&self) -> Option<(Duration, Duration)> {
        let details = self.details.as_ref().filter(|_| self.cause == Cause::Timeout)?;
        let times: Times = details.decode().ok()?;
        Some((Duration::from_millis(times.timeout_ms), Duration::from_millis(times.elapsed_ms)))
    }

    /// Creates a failure from an error, with its message and the messages of its sources.
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::new(Cause::Error, shortened(error.to_string()));
        // A chain may be a circle.
        for cause in std::iter::successors(error.source(), |cause| (*cause).source()).take(CAUSES_MAX) {
            let text = shortened(cause.to_string());
            if text != failure.message && failure.causes.last() != Some(&text) {
                failure.causes.push(text);
            }
        }
        failure
    }

    /// Adds the error itself as JSON.
    #[must_use]
    pub fn with_details(mut self, details: Payload) -> Self {
        self.details = Some(details);
        self
    }

    /// Returns the error itself, if it was recorded and deserializes to an `E`.
    ///
    /// ```
    /// # use outlive_core::failure::{Cause, Failure};
    /// # use outlive_core::payload::Payload;
    /// #[derive(serde::Deserialize)]
    /// struct Declined { code: u32 }
    ///
    /// let failure = Failure::new(Cause::Error, "declined").with_details(Payload::recorded(r#"{"code":51}"#));
    /// assert_eq!(failure.details().map(|declined: Declined| declined.code), Some(51));
    /// ```
    #[must_use]
    pub fn details<E: DeserializeOwned>(&self) -> Option<E> {
        self.details.as_ref()?.decode().ok()
    }

    /// Marks the failure as not retryable.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.retryable = false;
        self
    }

    /// Serializes the failure for the journal.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        let raw = |payload: &Payload| serde_json::value::RawValue::from_string(payload.as_str().to_owned()).ok();
        let wire = FailureWire {
            cause: self.cause.as_str().to_owned(),
            message: self.message.clone(),
            causes: self.causes.clone(),
            details: self.details.as_ref().and_then(raw),
            permanent: !self.retryable,
        };
        Payload::encode(&wire).unwrap_or_else(|_| Payload::recorded(r#"{"cause":"error","message":""}"#))
    }

    /// Deserializes a failure from the journal.
    ///
    /// # Errors
    /// If the payload is not a failure.
    pub fn from_payload(payload: &Payload) -> Result<Self, String> {
        let wire: FailureWire = payload.decode().map_err(|error| format!("not a recorded failure: {error}"))?;
        let cause = Cause::from_text(&wire.cause).ok_or_else(|| format!("unknown cause {:?}", wire.cause))?;
        Ok(Self {
            cause,
            message: wire.message,
            causes: wire.causes,
            details: wire.details.map(|raw| Payload::recorded(raw.get())),
            retryable: !wire.permanent,
        })
    }
}

/// The stored form of a failed step: how it ended, and the failure.
#[derive(Deserialize)]
struct StepWire {
    ended: String,
    failure: Box<serde_json::value::RawValue>,
}

/// Serializes a failure with one extra member; the result still deserializes to the failure.
pub(crate) fn with_note(failure: &Failure, member: &str, value: &(impl Serialize + ?Sized)) -> Payload {
    let (payload, note) = (failure.to_payload(), Payload::encode(value));
    match (payload.as_str().strip_suffix('}'), note) {
        // Concatenated, because both are JSON already.
        (Some(open), Ok(note)) => Payload::recorded(&format!(r#"{open},"{member}":{note}}}"#)),
        _ => payload,
    }
}

/// Serializes the failure of a run, with the number of the entry that made it fail, if that is known.
#[must_use]
pub fn of_run(failure: &Failure, entry: Option<u64>) -> Payload {
    entry.map_or_else(|| failure.to_payload(), |entry| with_note(failure, "entry", &entry))
}

/// Returns the number of the entry that made a run fail, as [`of_run`] serializes it.
pub(crate) fn entry_of(outcome: &Payload) -> Option<u64> {
    #[derive(Deserialize)]
    struct At {
        entry: Option<u64>,
    }
    outcome.decode::<At>().ok()?.entry
}

/// Serializes a failed step for the journal.
pub(crate) fn for_step(ended: &str, failure: &Failure) -> Payload {
    // Formatted by hand, because the failure is JSON already.
    Payload::recorded(&format!(r#"{{"ended":"{ended}","failure":{}}}"#, failure.to_payload()))
}

/// Returns how a recorded step ended, and its failure.
pub(crate) fn of_step(payload: &Payload) -> Result<(String, Failure), String> {
    let wire: StepWire = payload.decode().map_err(|error| format!("not a failed step: {error}"))?;
    Ok((wire.ended, Failure::from_payload(&Payload::recorded(wire.failure.get()))?))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Panic => write!(f, "panicked: {}", self.message)?,
            _ => f.write_str(&self.message)?,
        }
        self.causes.iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error that is its own cause. Following it never ended.
    #[derive(Debug)]
    struct Circle;

    impl std::fmt::Display for Circle {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&"é".repeat(MESSAGE_MAX))
        }
    }

    impl Error for Circle {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&Circle)
        }
    }

    #[test]
    fn endless_causes_and_long_messages_are_cut() {
        let failure = Failure::of(&Circle);
        assert!(failure.message.len() < MESSAGE_MAX + 100, "{}", failure.message.len());
        assert!(failure.message.ends_with(" … (131072 bytes in all)"));
        assert!(failure.causes.len() <= CAUSES_MAX);
    }
}
