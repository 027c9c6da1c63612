//! The pools in memory, for those who ask how many events a pool handles or wait until it rests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive_core::id::Name;
use tokio::sync::Notify;

use crate::instance::mailbox::Mailbox;

/// The pools in memory, by job.
#[derive(Default)]
pub(crate) struct ResidentPools {
    pools: Mutex<BTreeMap<Name, ResidentPool>>,
    /// Notified when a pool has nothing left to do.
    pub(crate) rested: Notify,
}

/// A pool in memory.
struct ResidentPool {
    /// The number of events being handled.
    running: Arc<AtomicUsize>,
    mailbox: Arc<Mailbox>,
}

impl ResidentPools {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, ResidentPool>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a pool that was loaded. Returns the number of events it handles, which its driver keeps up to date.
    pub(crate) fn enter(&self, job: Name, mailbox: Arc<Mailbox>) -> Arc<AtomicUsize> {
        let running: Arc<AtomicUsize> = Arc::default();
        self.lock().insert(job, ResidentPool { running: running.clone(), mailbox });
        running
    }

    /// Removes a pool that is no longer in memory.
    pub(crate) fn leave(&self, job: &Name) {
        self.lock().remove(job);
        self.rested.notify_waiters();
    }

    /// Returns how many events of a pool are being handled, if the pool is in memory.
    pub(crate) fn running(&self, job: &Name) -> Option<u64> {
        self.lock().get(job).map(|pool| pool.running.load(Ordering::Relaxed) as u64)
    }

    /// Wakes the pools after the clock was set back: only memory knows when their rate allows the next call, so they
    /// work it out again.
    pub(crate) fn clock_set_back(&self) {
        for pool in self.lock().values() {
            pool.mailbox.post(|_| {});
        }
    }
}
