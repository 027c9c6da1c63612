//! Deadlines of running handlers.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlive_core::time::Timestamp;

/// The deadlines of all running handlers that have one, each with a unique number.
#[derive(Default)]
pub(crate) struct Deadlines(Mutex<(u64, BTreeSet<(Timestamp, u64)>)>);

impl Deadlines {
    fn lock(&self) -> MutexGuard<'_, (u64, BTreeSet<(Timestamp, u64)>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the earliest deadline, for a clock that is moved by hand.
    #[cfg(feature = "testing")]
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.lock().1.first().map(|(at, _)| *at)
    }

    /// Adds a deadline. It is removed when the returned guard is dropped.
    pub(crate) fn add(&self, at: Timestamp) -> Deadline<'_> {
        let mut all = self.lock();
        all.0 += 1;
        let of = (at, all.0);
        all.1.insert(of);
        Deadline { all: self, of }
    }
}

/// The deadline of a running handler.
pub(crate) struct Deadline<'a> {
    all: &'a Deadlines,
    of: (Timestamp, u64),
}

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        self.all.lock().1.remove(&self.of);
    }
}
