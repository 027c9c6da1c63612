//! Children: which run a run is a child of, and how the parent learns of its outcome.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::{Cause, Failure};
use crate::id::{InstanceNum, Name};
use crate::payload::Payload;
use crate::status::Status;

/// The run that started a child and waits for its outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parent {
    /// The number of the parent.
    pub num: InstanceNum,
    /// The id of the parent.
    pub id: Name,
    /// Whether the child continues when its parent ends.
    pub is_detached: bool,
}

/// The outcome of a child.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChildOutcome {
    /// It returned a value.
    Completed(Payload),
    /// It returned an error.
    Failed(Failure),
    /// It was cancelled or terminated, for this reason.
    Cancelled(String),
}

/// The stored form: an object with one field, named for the status.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Wire<'a> {
    #[serde(borrow)]
    Completed(&'a RawValue),
    #[serde(borrow)]
    Failed(&'a RawValue),
    #[serde(borrow)]
    Cancelled(Cow<'a, str>),
}

impl ChildOutcome {
    /// Returns the outcome of a run that ended like this; `None` if it has not ended.
    ///
    /// ```
    /// # use outlive_core::{child::ChildOutcome, payload::Payload, status::Status};
    /// let value = Payload::recorded("42");
    /// let outcome = ChildOutcome::of(Status::Completed, Some(&value), None).unwrap();
    /// assert_eq!(outcome.to_payload().as_str(), r#"{"completed":42}"#);
    /// assert_eq!(ChildOutcome::from_payload(&outcome.to_payload()), Ok(outcome));
    /// ```
    #[must_use]
    pub fn of(status: Status, outcome: Option<&Payload>, note: Option<&str>) -> Option<Self> {
        let value = || outcome.cloned().unwrap_or_else(|| Payload::recorded("null"));
        match status {
            Status::Completed => Some(Self::Completed(value())),
            Status::Failed => Some(Self::Failed(Failure::from_payload(&value()).unwrap_or_else(|problem| {
                Failure::new(Cause::Error, format!("the failure cannot be read: {problem}"))
            }))),
            Status::Cancelled => Some(Self::Cancelled(note.unwrap_or_default().to_owned())),
            _ => None,
        }
    }

    /// Returns the failure, if it is one. The cause of a child that was cancelled is [`Cause::Cancelled`].
    #[must_use]
    pub fn into_failure(self) -> Option<Failure> {
        match self {
            Self::Completed(_) => None,
            Self::Failed(failure) => Some(failure),
            Self::Cancelled(reason) => Some(Failure::new(Cause::Cancelled, format!("it was cancelled: {reason}"))),
        }
    }

    /// Returns it as JSON.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        match self {
            Self::Completed(value) => Payload::recorded(&format!("{{\"completed\":{value}}}")),
            Self::Failed(failure) => Payload::recorded(&format!("{{\"failed\":{}}}", failure.to_payload())),
            Self::Cancelled(reason) => {
                let reason = Payload::encode(reason).unwrap_or_else(|_| Payload::recorded("\"\""));
                Payload::recorded(&format!("{{\"cancelled\":{reason}}}"))
            }
        }
    }

    /// Parses what [`to_payload`](Self::to_payload) returns.
    ///
    /// # Errors
    /// Returns a description of the problem if it is something else.
    pub fn from_payload(payload: &Payload) -> Result<Self, String> {
        match serde_json::from_str(payload.as_str()).map_err(|error| format!("not the outcome of a child: {error}"))? {
            Wire::Completed(value) => Ok(Self::Completed(Payload::recorded(value.get()))),
            Wire::Failed(failure) => Failure::from_payload(&Payload::recorded(failure.get())).map(Self::Failed),
            Wire::Cancelled(reason) => Ok(Self::Cancelled(reason.into_owned())),
        }
    }
}
