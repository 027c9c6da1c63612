//! A cron pattern in a time zone, and the moments at which it matches.

use std::fmt;
use std::time::Duration;

use jiff::civil;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::error::ScheduleError;
use super::moments::Moments;
use super::pattern::Pattern;
use crate::time::Timestamp;

/// A cron pattern: minute, hour, day of month, month and day of week, in UTC unless a [`zone`](Self::zone) is given,
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
/// A field is `*`, a number, a range `1-5`, a step `*/15` or `10-40/15`, or a list of them. Months and days of the week
/// have names (`JAN`, `MON`), in any case; Sunday is 0 and 7. A field before the minute is the second, and one after
/// the day of the week the year.
///
/// | | |
/// |---|---|
/// | `L`, `LW`, `15W` as day of month | the last day, the last workday, the workday nearest to the 15th |
/// | `FRIL`, `FRI#2` as day of week | the last and the second Friday of the month |
/// | `1` and `MON` | day of month and day of week both given: a day is enough that is one **or** the other |
/// | `1` and `+MON` | a day that is both |
/// | `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually` | the beginning of each |
///
/// There are no ticks after the year 5000.
///
/// # When clocks change
/// The pattern is about the clock on the wall. A pattern with certain hours (`30 2 * * *`, `0 9-17 * * *`) runs once for
/// each of its times:
/// - A time that is left out when clocks are set forward comes at the moment of the change: 02:30 at what is then
///   03:00. Several that are left out come as one.
/// - A time that is had twice when clocks are set back comes the first time.
///
/// A pattern for any hour (`*` or a step of it, or all 24) goes by elapsed time: `*/15 * * * *` comes every 15 minutes,
/// also in the hour that is had twice, and there is nothing to make up for in the hour that is left out.
///
/// The rules of the zones are part of the program, so they are the same on every machine.
#[derive(Clone, PartialEq, Eq)]
pub struct Cron {
    text: String,
    pattern: Pattern,
    zone: TimeZone,
}

impl Cron {
    /// The pattern in UTC.
    ///
    /// ```
    /// # use outlive_core::schedule::Cron;
    /// assert!(Cron::new("*/15 8-18 * * MON-FRI").is_ok());
    /// assert!(Cron::new("@daily").is_ok());
    /// assert!(Cron::new("0 0 30 FEB *").is_err());
    /// ```
    ///
    /// # Errors
    /// If it is not understood, with the field that is wrong, or if it can never match.
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

    /// The same pattern on the clocks of that zone.
    ///
    /// ```
    /// # use outlive_core::schedule::Cron;
    /// let error = Cron::new("@daily")?.zone("Europe/Pariss").unwrap_err();
    /// assert!(error.to_string().starts_with(r#"time zone "Europe/Pariss" is not known; "#));
    /// # Ok::<(), outlive_core::schedule::ScheduleError>(())
    /// ```
    ///
    /// # Errors
    /// If the IANA database has no zone of that name.
    pub fn zone(mut self, name: &str) -> Result<Self, ScheduleError> {
        let zone = TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown());
        self.zone = zone.ok_or_else(|| ScheduleError::Zone { name: name.to_owned() })?;
        Ok(self)
    }

    /// The pattern as it was given.
    ///
    /// ```
    /// assert_eq!(outlive_core::schedule::Cron::new("@daily")?.pattern(), "@daily");
    /// # Ok::<(), outlive_core::schedule::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.text
    }

    /// The name of the zone, as the IANA database writes it.
    ///
    /// ```
    /// # use outlive_core::schedule::Cron;
    /// assert_eq!(Cron::new("@daily")?.zone_name(), "UTC");
    /// assert_eq!(Cron::new("@daily")?.zone("europe/paris")?.zone_name(), "Europe/Paris");
    /// # Ok::<(), outlive_core::schedule::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The first match after that moment; none if there is no more before the year 5000 ends.
    ///
    /// ```
    /// # use outlive_core::{schedule::Cron, time::Timestamp};
    /// let start = Timestamp::from_millis(0);
    /// assert_eq!(Cron::new("@daily")?.next_after(start).unwrap().to_string(), "1970-01-02T00:00:00Z");
    /// # Ok::<(), outlive_core::schedule::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        // A match is a whole second, so what follows a moment follows the second it lies in.
        let second = after.as_millis().div_euclid(1000).max(jiff::Timestamp::MIN.as_second());
        Some(millis(self.moments().next(jiff::Timestamp::from_second(second).ok()?)?)).filter(|next| *next > after)
    }

    /// The last match at that moment or before; none if there is no earlier one.
    ///
    /// ```
    /// # use outlive_core::{schedule::Cron, time::Timestamp};
    /// let noon = Timestamp::from_millis(43_200_000);
    /// assert_eq!(Cron::new("@daily")?.latest_until(noon).unwrap().to_string(), "1970-01-01T00:00:00Z");
    /// # Ok::<(), outlive_core::schedule::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn latest_until(&self, until: Timestamp) -> Option<Timestamp> {
        let second = until.as_millis().div_euclid(1000).min(jiff::Timestamp::MAX.as_second());
        Some(millis(self.moments().latest(jiff::Timestamp::from_second(second).ok()?)?))
    }

    /// No less than the matches there can be in that time.
    pub(super) fn matches_max(&self, time: Duration) -> u64 {
        const DAY_SECONDS: u64 = 86_400;
        // Twice, because clocks may be set back within each day.
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

/// The pattern and the zone.
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
