//! Limits how often something happens, such as logging the same warning.

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
/// assert_eq!(warnings.pass(seconds(67)), Some(1), "one was suppressed");
/// ```
#[derive(Clone, Debug)]
pub struct Throttle {
    every: Duration,
    last: Option<Duration>,
    held_back: u64,
}

impl Throttle {
    /// Creates a throttle for one pass per interval.
    #[must_use]
    pub const fn new(every: Duration) -> Self {
        Self { every, last: None, held_back: 0 }
    }

    /// Returns how many events were suppressed since the last one that passed, or `None` if this one is suppressed too.
    pub fn pass(&mut self, now: Duration) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_sub(last) < self.every) {
            self.held_back += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.held_back))
    }
}
