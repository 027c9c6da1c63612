//! A moment in time as the engine sees it: milliseconds since 1970, handed in from outside.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment, in whole milliseconds since 1970 in UTC. Arithmetic saturates; it never overflows or panics.
///
/// ```
/// use outlive_core::time::Timestamp;
/// use std::time::Duration;
///
/// let noon = Timestamp::from_millis(43_200_000);
/// assert_eq!(noon.to_string(), "1970-01-01T12:00:00Z");
/// assert_eq!(noon.after(Duration::from_secs(1)).since(noon), Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest moment there is.
    pub const MIN: Self = Self(i64::MIN);
    /// A moment that has passed by any clock: what is due then is due at once, even if the clock is set back.
    ///
    /// ```
    /// # use outlive_core::time::Timestamp;
    /// assert!(Timestamp::AT_ONCE <= Timestamp::from(std::time::SystemTime::now()));
    /// ```
    pub const AT_ONCE: Self = Self(0);
    /// The latest moment there is.
    pub const MAX: Self = Self(i64::MAX);

    /// The moment that many milliseconds after 1970 began.
    ///
    /// ```
    /// # use outlive_core::time::Timestamp;
    /// assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00Z");
    /// ```
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    ///
    /// ```
    /// # use outlive_core::time::Timestamp;
    /// assert_eq!(Timestamp::from_millis(7).as_millis(), 7);
    /// ```
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This moment and `duration` more. A part of a millisecond counts as a whole one, so nothing comes early.
    ///
    /// ```
    /// # use outlive_core::time::Timestamp;
    /// # use std::time::Duration;
    /// let noon = Timestamp::from_millis(43_200_000);
    /// assert_eq!(noon.after(Duration::from_micros(1)).as_millis(), 43_200_001);
    /// assert_eq!(noon.after(Duration::MAX), Timestamp::MAX);
    /// ```
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let whole = duration.as_nanos().div_ceil(1_000_000);
        Self(self.0.saturating_add(i64::try_from(whole).unwrap_or(i64::MAX)))
    }

    /// How long it is from `earlier` to this moment; zero if that lies ahead.
    ///
    /// ```
    /// # use outlive_core::time::Timestamp;
    /// # use std::time::Duration;
    /// let (early, late) = (Timestamp::from_millis(1_000), Timestamp::from_millis(3_000));
    /// assert_eq!(late.since(early), Duration::from_secs(2));
    /// assert_eq!(early.since(late), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let millis = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_millis(u64::try_from(millis.max(0)).unwrap_or(u64::MAX))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(0).after(after),
            Err(before) => Self(i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis)),
        }
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, or the bare number of milliseconds for a moment outside the calendar's years.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// As milliseconds since 1970: exact, and the same in every language.
impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i64::deserialize(deserializer).map(Self)
    }
}
