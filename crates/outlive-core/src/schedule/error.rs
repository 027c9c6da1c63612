//! The error of an invalid schedule, returned where the schedule is created.

use crate::duration::DurationError;

/// Why a schedule is invalid. The message contains the rejected value and a fix.
///
/// ```
/// use outlive_core::schedule::{Cron, Schedule, ScheduleError};
///
/// let error = Cron::new("61 * * * *").unwrap_err();
/// assert!(error.to_string().starts_with(r#"cron "61 * * * *": minute 61 is not within 0-59; "#));
/// assert!(matches!(Schedule::every("0s"), Err(ScheduleError::Zero { .. })));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The time between two runs is zero.
    #[error("{what} 0s must be greater than zero; set the time between two runs, such as \"30 minutes\"")]
    Zero {
        /// The name of the setting.
        what: &'static str,
    },
    /// The value is not a duration.
    #[error("{what}: {source}")]
    Duration {
        /// The name of the setting.
        what: &'static str,
        /// What is wrong with it.
        source: DurationError,
    },
    /// The text is not a cron pattern.
    #[error(
        "cron {}: {problem}; use minute, hour, day of month, month and day of week, such as \"0 9 * * MON\"",
        shown(text)
    )]
    Pattern {
        /// The full text of the rejected value.
        text: String,
        /// The invalid field and its value.
        problem: String,
    },
    /// The pattern never matches, such as 30 February.
    #[error("cron {}: no date from 1970 to 5000 matches; use a day that exists in the month", shown(text))]
    Never {
        /// The full text of the rejected value.
        text: String,
    },
    /// No time zone has this name.
    #[error("time zone {} is unknown; use an IANA name such as \"Europe/Paris\", or leave it out for UTC", shown(name))]
    Zone {
        /// The full text of the rejected value.
        name: String,
    },
}

/// Quotes the text, shortened if it is long.
fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 80;
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown:?}{more}")
}
