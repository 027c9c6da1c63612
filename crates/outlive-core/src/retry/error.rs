//! The error of an invalid retry policy, recorded until the policy is checked.

use std::error::Error;
use std::fmt;

use crate::duration::DurationError;

/// Why a policy is invalid. The message contains the rejected value and a fix.
///
/// ```
/// use outlive_core::retry::Retry;
///
/// let error = Retry::times(3).exponential("1 second").factor(0.5).check().unwrap_err();
/// assert_eq!(error.to_string(), "factor 0.5 does not increase delays; use a number above 1, or `constant`");
/// let error = Retry::times(3).constant("5 parsecs").check().unwrap_err();
/// assert_eq!(error.duration().unwrap().text(), "5 parsecs");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyError(Box<PolicyProblem>);

/// Boxed because every policy has a field for an error and almost none has one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PolicyProblem {
    message: String,
    source: Option<DurationError>,
}

impl PolicyError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(Box::new(PolicyProblem { message: message.into(), source: None }))
    }

    /// Creates the error for a `what` that is not a duration.
    pub(super) fn unreadable(what: &str, error: DurationError) -> Self {
        Self(Box::new(PolicyProblem { message: format!("{what}: {error}"), source: Some(error) }))
    }

    /// Returns the error of the duration that could not be parsed, if that was the cause.
    #[must_use]
    pub fn duration(&self) -> Option<&DurationError> {
        self.0.source.as_ref()
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl Error for PolicyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_ref().map(|error| error as &(dyn Error + 'static))
    }
}
