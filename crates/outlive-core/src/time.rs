//! Timestamps in milliseconds since the Unix epoch, always passed in by the caller.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time, in whole milliseconds since the Unix epoch. Arithmetic saturates; it never overflows or panics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest timestamp.
    pub const MIN: Self = Self(i64::MIN);
    /// A timestamp in the past of every clock: whatever is due then is due immediately, even if the clock is set back.
    pub const AT_ONCE: Self = Self(0);
    /// The latest timestamp.
    pub const MAX: Self = Self(i64::MAX);

    /// Creates a timestamp from milliseconds since the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the timestamp `duration` later. A fraction of a millisecond rounds up, so nothing happens early.
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

    /// Returns the time elapsed since `earlier`; zero if `earlier` is later than this timestamp.
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
    /// Writes RFC 3339 in UTC, or the number of milliseconds if the calendar cannot represent the timestamp.
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

/// Serializes as milliseconds since the Unix epoch: exact, and the same in every language.
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
