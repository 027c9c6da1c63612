//! What is wrong with a schedule, said where it is given.

use crate::duration::DurationError;

/// Why a schedule cannot be used. The message has the value that was given and the way out.
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
    /// No time at all between two runs.
    #[error("{what} 0s is zero; give the time between two runs, as in \"30 minutes\"")]
    Zero {
        /// What it was to serve as.
        what: &'static str,
    },
    /// What was to say how long is no duration.
    #[error("{what}: {source}")]
    Duration {
        /// What it was to serve as.
        what: &'static str,
        /// What is wrong with it.
        source: DurationError,
    },
    /// The text is no cron pattern.
    #[error(
        "cron {}: {problem}; write minute, hour, day of month, month and day of week, as in \"0 9 * * MON\"",
        shown(text)
    )]
    Pattern {
        /// What was given, in full.
        text: String,
        /// The field and the value in it that is wrong.
        problem: String,
    },
    /// There is no such date, as with 30 February.
    #[error("cron {}: no date from 1970 to 5000 matches; give days that the month has", shown(text))]
    Never {
        /// What was given, in full.
        text: String,
    },
    /// No time zone has this name.
    #[error(
        "time zone {} is not known; give a name of the IANA database, as in \"Europe/Paris\", or leave it out for UTC",
        shown(name)
    )]
    Zone {
        /// What was given, in full.
        name: String,
    },
}

/// The text in quotes, shortened if it is long.
fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 80;
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown:?}{more}")
}
