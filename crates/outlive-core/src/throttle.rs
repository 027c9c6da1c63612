//! Limits how often something is done, such as logging the same warning.

use std::time::Duration;

/// Lets one event per interval pass and counts the rest. The caller passes in the time, measured from any moment.
///
/// ```
/// use std::time::Duration;
/// use outlive_core::throttle::Throttle;
///
/// let (mut warnings, seconds) = (Throttle::new(Duration::from_secs(60)), Duration::from_secs);
/// assert_eq!(warnings.pass(seconds(7)), Some(0));
/// assert_eq!(warnings.pass(seconds(66)), None);
/// assert_eq!(warnings.pass(seconds(67)), Some(1), "one was held back");
/// ```
#[derive(Clone, Debug)]
pub struct Throttle {
    every: Duration,
    last: Option<Duration>,
    held_back: u64,
}

impl Throttle {
    /// Creates a throttle for one pass per interval.
    ///
    /// ```
    /// # use outlive_core::throttle::Throttle;
    /// let once_a_minute = Throttle::new(std::time::Duration::from_secs(60));
    /// ```
    #[must_use]
    pub const fn new(every: Duration) -> Self {
        Self { every, last: None, held_back: 0 }
    }

    /// Returns how many were held back since the last one that passed, or `None` if this one is held back too.
    ///
    /// ```
    /// # use outlive_core::throttle::Throttle;
    /// # let (mut throttle, now) = (Throttle::new(std::time::Duration::from_secs(60)), std::time::Duration::ZERO);
    /// assert!(throttle.pass(now).is_some() && throttle.pass(now).is_none());
    /// ```
    pub fn pass(&mut self, now: Duration) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_sub(last) < self.every) {
            self.held_back += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.held_back))
    }
}
