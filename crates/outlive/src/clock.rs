//! Clocks: the machine's, or one that a test moves.

use std::future::Future;
use std::pin::Pin;

use outlive_core::time::Timestamp;

/// A source of time. The engine asks nothing else for the time.
///
/// ```
/// use outlive::Timestamp;
/// use outlive::clock::{Clock, SystemClock};
/// use std::{pin::Pin, time::Duration};
///
/// /// A clock an hour ahead of the machine.
/// struct Ahead;
/// impl Clock for Ahead {
///     fn now(&self) -> Timestamp { SystemClock.now().after(Duration::from_secs(3600)) }
///     fn sleep_toward(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
///         Box::pin(tokio::time::sleep(until.since(self.now())))
///     }
/// }
/// assert!(Ahead.now() > SystemClock.now());
/// ```
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Sleeps toward `until`, and may return early: a clock that can be set looks again from time to time. For
    /// implementors; callers use [`sleep_until`](#method.sleep_until), which never returns early.
    fn sleep_toward(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Not a provided method of the trait, so that no implementation can make it return early.
impl dyn Clock {
    /// Sleeps until this clock reaches `until`, however often [`sleep_toward`](Clock::sleep_toward) returns early.
    ///
    /// ```
    /// use outlive::clock::{Clock, SystemClock};
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let clock: &dyn Clock = &SystemClock;
    /// let until = clock.now().after(Duration::from_millis(5));
    /// clock.sleep_until(until).await;
    /// assert!(clock.now() >= until);
    /// # }
    /// ```
    pub async fn sleep_until(&self, until: Timestamp) {
        while self.now() < until {
            self.sleep_toward(until).await;
        }
    }
}

/// The machine's clock.
///
/// ```
/// use outlive::clock::{Clock, SystemClock};
/// let before = SystemClock.now();
/// # std::thread::sleep(std::time::Duration::from_millis(5));
/// assert!(SystemClock.now() > before);
/// ```
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// The longest real sleep at once: a step of the machine's clock is noticed after this at the latest.
#[cfg(feature = "tokio")]
const WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(5);

#[cfg(feature = "tokio")]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        // Whole milliseconds that have passed, never rounded up: nothing may happen early.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep_toward(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let wait = until.since(self.now()).min(WAIT_MAX);
        Box::pin(tokio::time::sleep(wait))
    }
}
