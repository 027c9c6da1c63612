//! What is kept of a failure of user code: data that is journaled, shown to people and given back after a restart.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::duration;
use crate::payload::Payload;

/// A failure as recorded: the message, what caused it, and its details if the error serialises.
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
    /// What kind of thing went wrong.
    pub cause: Cause,
    /// The error's own message.
    pub message: String,
    /// The messages of the errors behind it, outermost first.
    pub causes: Vec<String>,
    /// The error itself as JSON, where it was given.
    pub details: Option<Payload>,
    /// Whether trying again was, or would be, of use.
    pub retryable: bool,
}

/// What kind of thing went wrong.
///
/// ```
/// use outlive_core::failure::{Cause, Failure};
/// assert_eq!(Failure::new(Cause::Panic, "index out of bounds").to_string(), "panicked: index out of bounds");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// User code returned an error.
    Error,
    /// User code panicked.
    Panic,
    /// It took longer than its timeout.
    Timeout,
    /// The process ended between the start and the record of a step that may run at most once.
    Interrupted,
    /// The value it returned cannot be kept: it does not serialise, does not read back or is too large.
    Output,
}

/// Names as they are written in the journal.
const CAUSES: [(Cause, &str); 5] = [
    (Cause::Error, "error"),
    (Cause::Panic, "panic"),
    (Cause::Timeout, "timeout"),
    (Cause::Interrupted, "interrupted"),
    (Cause::Output, "output"),
];

impl Cause {
    /// The name in the journal.
    ///
    /// ```
    /// assert_eq!(outlive_core::failure::Cause::Timeout.as_str(), "timeout");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        CAUSES.iter().find(|(cause, _)| *cause == self).map_or("error", |(_, text)| text)
    }

    fn from_text(text: &str) -> Option<Self> {
        CAUSES.iter().find(|(_, known)| *known == text).map(|(cause, _)| *cause)
    }
}

/// The shape on disk.
#[derive(Serialize, Deserialize)]
struct Wire {
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
    /// A failure with a message and nothing else.
    ///
    /// ```
    /// # use outlive_core::failure::{Cause, Failure};
    /// let failure = Failure::new(Cause::Error, "no such card");
    /// assert!(failure.retryable && failure.causes.is_empty());
    /// ```
    #[must_use]
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), causes: Vec::new(), details: None, retryable: true }
    }

    /// It took longer than its timeout.
    ///
    /// ```
    /// # use outlive_core::failure::Failure;
    /// # use std::time::Duration;
    /// let failure = Failure::timed_out(Duration::from_secs(5), Duration::from_millis(5003));
    /// assert_eq!(failure.to_string(), "timed out after 5s");
    /// ```
    #[must_use]
    pub fn timed_out(timeout: Duration, elapsed: Duration) -> Self {
        let times = Times { timeout_ms: millis(timeout), elapsed_ms: millis(elapsed) };
        let failure = Self::new(Cause::Timeout, format!("timed out after {}", duration::text(timeout)));
        Self { details: Payload::encode(&times).ok(), ..failure }
    }

    /// The timeout, and the time that had passed, of one that took longer than it.
    ///
    /// ```
    /// # use outlive_core::failure::Failure;
    /// # use std::time::Duration;
    /// let (timeout, elapsed) = (Duration::from_secs(5), Duration::from_millis(5003));
    /// assert_eq!(Failure::timed_out(timeout, elapsed).times(), Some((timeout, elapsed)));
    /// ```
    #[must_use]
    pub fn times(&self) -> Option<(Duration, Duration)> {
        let details = self.details.as_ref().filter(|_| self.cause == Cause::Timeout)?;
        let times: Times = details.decode().ok()?;
        Some((Duration::from_millis(times.timeout_ms), Duration::from_millis(times.elapsed_ms)))
    }

    /// What there is to keep of an error: its message and those behind it.
    ///
    /// ```
    /// # use outlive_core::failure::Failure;
    /// let error = std::io::Error::other("the line is down");
    /// assert_eq!(Failure::of(&error).message, "the line is down");
    /// ```
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::new(Cause::Error, error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if text != failure.message && failure.causes.last() != Some(&text) {
                failure.causes.push(text);
            }
            source = cause.source();
        }
        failure
    }

    /// The same with the error itself as JSON.
    ///
    /// ```
    /// # use outlive_core::failure::{Cause, Failure};
    /// # use outlive_core::payload::Payload;
    /// let failure = Failure::new(Cause::Error, "declined").with_details(Payload::recorded(r#"{"code":51}"#));
    /// assert_eq!(failure.details.unwrap().as_str(), r#"{"code":51}"#);
    /// ```
    #[must_use]
    pub fn with_details(mut self, details: Payload) -> Self {
        self.details = Some(details);
        self
    }

    /// Returns the error itself, if it was kept and reads back as an `E`.
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

    /// The same, not to be tried again.
    ///
    /// ```
    /// # use outlive_core::failure::{Cause, Failure};
    /// assert!(!Failure::new(Cause::Error, "no such card").permanent().retryable);
    /// ```
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.retryable = false;
        self
    }

    /// As JSON, for the journal.
    ///
    /// ```
    /// # use outlive_core::failure::{Cause, Failure};
    /// let failure = Failure::new(Cause::Error, "declined");
    /// assert_eq!(failure.to_payload().as_str(), r#"{"cause":"error","message":"declined"}"#);
    /// ```
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        let raw = |payload: &Payload| serde_json::value::RawValue::from_string(payload.as_str().to_owned()).ok();
        let wire = Wire {
            cause: self.cause.as_str().to_owned(),
            message: self.message.clone(),
            causes: self.causes.clone(),
            details: self.details.as_ref().and_then(raw),
            permanent: !self.retryable,
        };
        Payload::encode(&wire).unwrap_or_else(|_| Payload::recorded(r#"{"cause":"error","message":""}"#))
    }

    /// Back from JSON.
    ///
    /// # Errors
    /// If the text is not a failure.
    ///
    /// ```
    /// # use outlive_core::failure::{Cause, Failure};
    /// # use outlive_core::payload::Payload;
    /// let failure = Failure::from_payload(&Payload::recorded(r#"{"cause":"panic","message":"oh"}"#)).unwrap();
    /// assert_eq!(failure.cause, Cause::Panic);
    /// assert!(Failure::from_payload(&Payload::recorded("42")).is_err());
    /// ```
    pub fn from_payload(payload: &Payload) -> Result<Self, String> {
        let wire: Wire = payload.decode().map_err(|error| format!("not a recorded failure: {error}"))?;
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

/// The shape on disk of a failed step: how it ended, and the failure.
#[derive(Deserialize)]
struct StepWire {
    ended: String,
    failure: Box<serde_json::value::RawValue>,
}

/// A failure with a word more: JSON that reads as the failure, and has this member too.
pub(crate) fn with_note(failure: &Failure, member: &str, value: &(impl Serialize + ?Sized)) -> Payload {
    let (payload, note) = (failure.to_payload(), Payload::encode(value));
    match (payload.as_str().strip_suffix('}'), note) {
        // Put together by hand, because both are JSON already.
        (Some(open), Ok(note)) => Payload::recorded(&format!(r#"{open},"{member}":{note}}}"#)),
        _ => payload,
    }
}

/// A failed step as JSON, for the journal.
pub(crate) fn for_step(ended: &str, failure: &Failure) -> Payload {
    // Put together by hand, because the failure is JSON already.
    Payload::recorded(&format!(r#"{{"ended":"{ended}","failure":{}}}"#, failure.to_payload()))
}

/// How a recorded step ended, and with which failure.
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
