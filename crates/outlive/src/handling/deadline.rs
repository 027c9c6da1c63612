//! When handlers at work have to be done.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlive_core::time::Timestamp;

/// The deadlines of all handlers at work that have one, each with a number of its own.
#[derive(Default)]
pub(crate) struct Deadlines(Mutex<(u64, BTreeSet<(Timestamp, u64)>)>);

impl Deadlines {
    fn lock(&self) -> MutexGuard<'_, (u64, BTreeSet<(Timestamp, u64)>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next one, for whoever moves the clock.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.lock().1.first().map(|(at, _)| *at)
    }

    /// One more, until what is answered is dropped.
    pub(crate) fn add(&self, at: Timestamp) -> Deadline<'_> {
        let mut all = self.lock();
        all.0 += 1;
        let of = (at, all.0);
        all.1.insert(of);
        Deadline { all: self, of }
    }
}

/// The deadline of a handler at work.
pub(crate) struct Deadline<'a> {
    all: &'a Deadlines,
    of: (Timestamp, u64),
}

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        self.all.lock().1.remove(&self.of);
    }
}
