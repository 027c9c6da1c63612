//! A clock that stands still until a test moves it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use outlive::Timestamp;
use outlive::clock::Clock;

/// A clock that stands still until a test moves it. Clones are the same clock.
///
/// ```
/// use outlive::clock::Clock;
/// use outlive_testkit::TestClock;
/// let clock = TestClock::new();
/// let before = clock.now();
/// clock.advance(std::time::Duration::from_secs(60));
/// assert_eq!(clock.now().since(before).as_secs(), 60);
/// ```
#[derive(Clone)]
pub struct TestClock(Arc<Mutex<Inner>>);

struct Inner {
    now: Timestamp,
    sleepers: Vec<(Timestamp, Waker)>,
    /// Number of times it was set back.
    set_back: u64,
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl TestClock {
    /// Creates a clock at the beginning of 2026.
    ///
    /// ```
    /// use outlive::clock::Clock;
    /// use outlive_testkit::TestClock;
    /// assert_eq!(TestClock::new().now().to_string(), "2026-01-01T00:00:00Z");
    /// ```
    #[must_use]
    pub fn new() -> Self {
        let now = Timestamp::from_millis(1_767_225_600_000);
        Self(Arc::new(Mutex::new(Inner { now, sleepers: Vec::new(), set_back: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Moves the clock forward.
    ///
    /// ```
    /// # use outlive::clock::Clock;
    /// # use outlive_testkit::TestClock;
    /// let (clock, before) = (TestClock::new(), TestClock::new().now());
    /// clock.advance(std::time::Duration::from_millis(250));
    /// assert_eq!(clock.now().since(before).as_millis(), 250);
    /// ```
    pub fn advance(&self, duration: Duration) {
        let now = self.lock().now;
        self.set(now.after(duration));
    }

    /// Sets the clock, possibly backward, as happens to a machine's clock.
    ///
    /// ```
    /// use outlive::Timestamp;
    /// # use outlive::clock::Clock;
    /// # use outlive_testkit::TestClock;
    /// let clock = TestClock::new();
    /// clock.set(Timestamp::from_millis(1_000));
    /// assert_eq!(clock.now().as_millis(), 1_000);
    /// ```
    pub fn set(&self, now: Timestamp) {
        let mut inner = self.lock();
        let is_back = now < inner.now;
        inner.now = now;
        // Sleepers notice that the clock was set back, as with the machine's clock.
        inner.set_back += u64::from(is_back);
        let is_woken = |(until, _): &(Timestamp, Waker)| is_back || *until <= now;
        let (due, later) = std::mem::take(&mut inner.sleepers).into_iter().partition(is_woken);
        inner.sleepers = later;
        drop(inner);
        let due: Vec<(Timestamp, Waker)> = due;
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn sleep_toward(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let set_back = self.lock().set_back;
        Box::pin(Until { clock: self, until, set_back })
    }
}

struct Until<'a> {
    clock: &'a TestClock,
    until: Timestamp,
    /// The clock's `set_back` when this sleep began.
    set_back: u64,
}

impl Future for Until<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.clock.lock();
        if inner.now >= self.until || inner.set_back != self.set_back {
            return Poll::Ready(());
        }
        inner.sleepers.retain(|(_, waker)| !waker.will_wake(cx.waker()));
        inner.sleepers.push((self.until, cx.waker().clone()));
        Poll::Pending
    }
}
