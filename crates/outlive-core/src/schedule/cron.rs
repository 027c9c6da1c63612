//! Cron patterns in a time zone.

use std::fmt;
use std::time::Duration;

use jiff::civil;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::error::ScheduleError;
use super::moments::Moments;
use super::pattern::Pattern;
use crate::time::Timestamp;

/// A cron pattern: minute, hour, day of month, month and day of week, in UTC unless a [`zone`](Self::zone) is set,
/// never in the zone of the machine.
///
/// ```
/// use outlive_core::schedule::Cron;
/// use outlive_core::time::Timestamp;
///
/// let mondays = Cron::new("0 9 * * MON")?.zone("Europe/Paris")?;
/// let next = mondays.next_after(Timestamp::from_millis(0)).unwrap();
/// assert_eq!(next.to_string(), "1970-01-05T08:00:00Z");
/// # Ok::<(), outlive_core::schedule::ScheduleError>(())
/// ```
///
/// # Pattern
/// A field is `*`, a number, a range `1-5`, a step `*/15` or `10-40/15`, or a list of them. Months and weekdays have
/// names (`JAN`, `MON`), in any case; Sunday is 0 and 7. An extra first field is the second, and an extra last field is
/// the year.
///
/// | | |
/// |---|---|
/// | `L`, `LW`, `15W` as day of month | the last day, the last workday, the workday nearest to the 15th |
/// | `FRIL`, `FRI#2` as day of week | the last and the second Friday of the month |
/// | `1` and `MON` | day of month and day of week both set: a day that matches one **or** the other |
/// | `1` and `+MON` | a day that matches both |
/// | `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually` | the start of each |
///
/// There are no ticks after the year 5000.
///
/// # When clocks change
/// A pattern refers to local time. A pattern with specific hours (`30 2 * * *`, `0 9-17 * * *`) runs once for each of
/// its times:
/// - A time that is skipped when clocks go forward runs at the moment of the change: 02:30 runs at what is then 03:00.
///   Several skipped times run as one.
/// - A time that occurs twice when clocks go back runs the first time.
///
/// A pattern without specific hours (`*`, a step of it, or all 24) follows elapsed time: `*/15 * * * *` runs every 15
/// minutes, including in the hour that occurs twice, and nothing is caught up for the hour that is skipped.
///
/// The time zone rules are compiled in, so they are the same on every machine.
#[derive(Clone, PartialEq, Eq)]
pub struct Cron {
    text: String,
    pattern: Pattern,
    zone: TimeZone,
}

impl Cron {
    /// Parses a pattern, in UTC.
    ///
    /// ```
    /// # use outlive_core::schedule::Cron;
    /// assert!(Cron::new("*/15 8-18 * * MON-FRI").is_ok());
    /// assert!(Cron::new("@daily").is_ok());
    /// assert!(Cron::new("0 0 30 FEB *").is_err());
    /// ```
    ///
    /// # Errors
    /// If the pattern is invalid (the error names the field) or can never match.
    pub fn new(pattern: &str) -> Result<Self, ScheduleError> {
        let text = pattern.trim().to_owned();
        match Pattern::read(&text) {
            Ok(pattern) if pattern.next(civil::date(1970, 1, 1).at(0, 0, 0, 0)).is_none() => {
                Err(ScheduleError::Never { text })
            }
            Ok(pattern) => Ok(Self { text, pattern, zone: TimeZone::UTC }),
            Err(problem) => Err(ScheduleError::Pattern { text, problem }),
        }
    }

    /// Sets the time zone.
    ///
    /// # Errors
    /// If the IANA database has no zone with that name.
    pub fn zone(mut self, name: &str) -> Result<Self, ScheduleError> {
        let zone = TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown());
        self.zone = zone.ok_or_else(|| ScheduleError::Zone { name: name.to_owned() })?;
        Ok(self)
    }

    /// Returns the pattern as it was passed in.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.text
    }

    /// Returns the name of the zone, as spelled in the IANA database.
    #[must_use]
    pub fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// Returns the first match after `after`; `None` if there is none up to the end of the year 5000.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        // Matches are whole seconds, so the first match after a time comes after the second that contains it.
        let second = after.as_millis().div_euclid(1000).max(jiff::Timestamp::MIN.as_second());
        Some(millis(self.moments().next(jiff::Timestamp::from_second(second).ok()?)?)).filter(|next| *next > after)
    }

    /// Returns the last match at or before `until`, if there is one.
    #[must_use]
    pub fn latest_until(&self, until: Timestamp) -> Option<Timestamp> {
        let second = until.as_millis().div_euclid(1000).min(jiff::Timestamp::MAX.as_second());
        Some(millis(self.moments().latest(jiff::Timestamp::from_second(second).ok()?)?))
    }

    /// Returns an upper bound on the number of matches in this much time.
    pub(super) fn matches_max(&self, time: Duration) -> u64 {
        const DAY_SECONDS: u64 = 86_400;
        // Doubled, because clocks may go back within each day.
        let days = time.as_secs() / DAY_SECONDS + 1;
        days.saturating_mul(self.pattern.times_per_day()).saturating_mul(2)
    }

    fn moments(&self) -> Moments<'_> {
        Moments { pattern: &self.pattern, zone: &self.zone }
    }
}

fn millis(moment: jiff::Timestamp) -> Timestamp {
    Timestamp::from_millis(moment.as_millisecond())
}

/// Writes the pattern and the zone.
impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.text, self.zone_name())
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({self})")
    }
}
