//! Which instances are due when, for the near future; the rest lies in the store.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use outlive_core::id::InstanceNum;
use outlive_core::query::Wake;
use outlive_core::time::Timestamp;
use tokio::sync::Notify;

/// How many wakes are held in memory that the store holds too.
const STORED_MAX: usize = 65_536;

/// Near wakes in memory. One too many does no harm: whoever is woken looks what is due.
pub(crate) struct Wakes {
    inner: Mutex<Inner>,
    /// Told when there is something to look at earlier than thought.
    pub(crate) news: Notify,
}

struct Inner {
    wakes: BTreeSet<Wake>,
    /// Up to here, the store's wakes are in memory.
    horizon: Timestamp,
}

impl Wakes {
    pub(crate) fn new() -> Self {
        let inner = Inner { wakes: BTreeSet::new(), horizon: Timestamp::MIN };
        Self { inner: Mutex::new(inner), news: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Remembers a wake that no row in the store stands for.
    pub(crate) fn add(&self, due: Timestamp, num: InstanceNum) {
        let mut inner = self.lock();
        let wake = Wake { due, num };
        let is_first = inner.wakes.first().is_none_or(|first| wake < *first);
        inner.wakes.insert(wake);
        drop(inner);
        if is_first {
            self.news.notify_one();
        }
    }

    /// Remembers a wake that the store holds too: only if it is near.
    pub(crate) fn add_stored(&self, due: Timestamp, num: InstanceNum) {
        let mut inner = self.lock();
        if due > inner.horizon {
            return;
        }
        if inner.wakes.len() >= STORED_MAX {
            inner.horizon = Timestamp::MIN;
            drop(inner);
            return self.news.notify_one();
        }
        drop(inner);
        self.add(due, num);
    }

    /// Something due is not in memory: the store is to be asked again.
    pub(crate) fn forget_horizon(&self) {
        self.lock().horizon = Timestamp::MIN;
    }

    /// The store is about to be asked for its wakes up to a moment: what is set meanwhile is remembered too.
    /// Answers the old horizon.
    pub(crate) fn raise(&self, horizon: Timestamp) -> Timestamp {
        std::mem::replace(&mut self.lock().horizon, horizon)
    }

    /// Takes over the store's wakes. They are complete up to a moment, unless something was left out meanwhile.
    pub(crate) fn load(&self, wakes: Vec<Wake>, horizon: Timestamp) {
        let mut inner = self.lock();
        inner.wakes.extend(wakes);
        inner.horizon = inner.horizon.min(horizon);
    }

    /// Forgets a wake that no row in the store stands for.
    pub(crate) fn remove(&self, due: Timestamp, num: InstanceNum) {
        self.lock().wakes.remove(&Wake { due, num });
    }

    /// Takes those that are due, in order.
    pub(crate) fn take_due(&self, now: Timestamp) -> Vec<Wake> {
        let mut inner = self.lock();
        let mut due = Vec::new();
        while inner.wakes.first().is_some_and(|wake| wake.due <= now) {
            due.extend(inner.wakes.pop_first());
        }
        due
    }

    /// When to look again: at the next wake, or when the store must be asked for more.
    pub(crate) fn next(&self) -> Timestamp {
        let inner = self.lock();
        inner.wakes.first().map_or(inner.horizon, |wake| wake.due.min(inner.horizon))
    }

    /// The next wake in memory.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.lock().wakes.first().map(|wake| wake.due)
    }

    /// The next wake in memory after a moment.
    pub(crate) fn first_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.lock().wakes.iter().map(|wake| wake.due).find(|due| *due > now)
    }

    /// Up to when the store's wakes are in memory.
    pub(crate) fn horizon(&self) -> Timestamp {
        self.lock().horizon
    }
}
