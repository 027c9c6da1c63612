//! A worker's own clock, which is ahead of the world's or behind it.

use std::future::Future;
use std::pin::Pin;

use outlive::Timestamp;
use outlive::clock::Clock;

use crate::clock::TestClock;

/// The world's clock, shifted.
pub(super) struct Skewed {
    pub(super) world: TestClock,
    /// How far it is ahead; negative if it is behind.
    pub(super) ahead_ms: i64,
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        shifted(self.world.now(), self.ahead_ms)
    }

    fn sleep_toward(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.world.sleep_toward(shifted(until, -self.ahead_ms))
    }
}

/// Converts a moment to another clock.
pub(super) fn shifted(moment: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_millis(moment.as_millis().saturating_add(millis))
}
