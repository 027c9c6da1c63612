//! The wakes of the near future, in memory; the rest are in the store.
//!
//! The store's wakes are read in pages, in order. The horizon is how far they were read: everything before it is in
//! memory or was passed on, so the next page starts there, whatever became of the wakes before. When other processes
//! have written, reading starts over, but never before it has passed everything that is due. It also starts over once a
//! minute, in case a write was not noticed.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use outlive_core::id::InstanceNum;
use outlive_core::store::query::Wake;
use outlive_core::time::Timestamp;
use tokio::sync::Notify;

/// How far ahead the store's wakes are kept in memory.
pub(crate) const HORIZON: Duration = Duration::from_secs(60);
/// How many of the store's wakes are kept in memory.
const STORED_MAX: usize = 65_536;
/// How often, at most, several pages are read again because others write.
const PACE: Duration = Duration::from_secs(1);
/// How often everything is read again, whether others write or not.
const EVERY: Duration = Duration::from_secs(60);

/// The wakes in memory. An extra one does no harm: an instance that is woken looks at what is due.
pub(crate) struct Wakes {
    inner: Mutex<WakeTable>,
    /// Notified when there is something to look at earlier than expected.
    pub(crate) wakeup: Notify,
}

struct WakeTable {
    /// Timers of runs in memory, which no row in the store stands for.
    timers: BTreeSet<Wake>,
    /// Wakes that the store has too, up to the horizon.
    stored: BTreeSet<Wake>,
    /// Up to here, the store's wakes are in memory or were passed on.
    horizon: Wake,
    /// Whether others have written since reading started over.
    is_stale: bool,
    /// When reading started over, and how many pages have been read since.
    started: Timestamp,
    pages: usize,
}

impl WakeTable {
    /// Starts reading over if it is time to. If one page is not enough, that is at most once per [`PACE`].
    fn start_over(&mut self, now: Timestamp) {
        let is_old = self.started.after(EVERY) <= now;
        let is_time = is_old || self.is_stale && (self.pages < 2 || self.started.after(PACE) <= now);
        if is_time && self.horizon.due > now {
            self.horizon = if is_old { Wake::FIRST } else { Wake::PAST_MESSAGES };
            (self.is_stale, self.started, self.pages) = (false, now, 0);
        }
    }

    fn first(&self) -> Option<Timestamp> {
        [self.timers.first(), self.stored.first()].into_iter().flatten().min().map(|wake| wake.due)
    }
}

/// Returns the last possible wake at a time.
fn last_of(due: Timestamp) -> Wake {
    Wake { due, num: InstanceNum(u64::MAX) }
}

impl Wakes {
    pub(crate) fn new() -> Self {
        let (timers, stored, started) = (BTreeSet::new(), BTreeSet::new(), Timestamp::MIN);
        let inner = WakeTable { timers, stored, horizon: Wake::FIRST, is_stale: false, started, pages: 0 };
        Self { inner: Mutex::new(inner), wakeup: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, WakeTable> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds a wake that no row in the store stands for.
    pub(crate) fn add(&self, due: Timestamp, num: InstanceNum) {
        let mut inner = self.lock();
        let is_first = inner.first().is_none_or(|first| due < first);
        inner.timers.insert(Wake { due, num });
        drop(inner);
        if is_first {
            self.wakeup.notify_one();
        }
    }

    /// Removes a wake that no row in the store stands for.
    pub(crate) fn remove(&self, due: Timestamp, num: InstanceNum) {
        self.lock().timers.remove(&Wake { due, num });
    }

    /// Adds a wake that the store has too, if it is near.
    pub(crate) fn add_stored(&self, due: Timestamp, num: InstanceNum) {
        let mut inner = self.lock();
        let wake = Wake { due, num };
        if wake > inner.horizon {
            return;
        }
        let is_first = inner.first().is_none_or(|first| due < first);
        inner.stored.insert(wake);
        while inner.stored.len() > STORED_MAX {
            // The last ones are read again when they are near.
            inner.stored.pop_last();
            inner.horizon = inner.stored.last().map_or(Wake::FIRST, |last| *last);
        }
        drop(inner);
        if is_first {
            self.wakeup.notify_one();
        }
    }

    /// Removes a wake that the store no longer has.
    pub(crate) fn remove_stored(&self, due: Timestamp, num: InstanceNum) {
        self.lock().stored.remove(&Wake { due, num });
    }

    /// Resets the horizon, so that the store is read again, because something due is not in memory.
    pub(crate) fn forget_horizon(&self) {
        self.lock().horizon = Wake::FIRST;
    }

    /// Starts reading over, once it has passed everything that is due, because others have written.
    pub(crate) fn start_over(&self, now: Timestamp) {
        let mut inner = self.lock();
        inner.is_stale = true;
        inner.start_over(now);
    }

    /// Raises the horizon to a time before the store's wakes are read up to there, so that wakes set in the meantime
    /// are kept too. Returns the old horizon.
    pub(crate) fn raise(&self, until: Timestamp) -> Wake {
        std::mem::replace(&mut self.lock().horizon, last_of(until))
    }

    /// Takes over a page of the store's wakes. The horizon is where the page ends, or earlier if wakes were left out
    /// meanwhile.
    pub(crate) fn load(&self, page: Vec<Wake>, is_last: bool, now: Timestamp) {
        let mut inner = self.lock();
        if let Some(last) = page.last().filter(|_| !is_last) {
            inner.horizon = inner.horizon.min(*last);
        }
        inner.stored.extend(page);
        inner.pages += 1;
        inner.start_over(now);
    }

    /// Lowers the horizon again, because the store could not be read.
    pub(crate) fn lower(&self, horizon: Wake) {
        let mut inner = self.lock();
        inner.horizon = inner.horizon.min(horizon);
    }

    /// Takes the wakes that are due, in order.
    pub(crate) fn take_due(&self, now: Timestamp) -> Vec<Wake> {
        let mut inner = self.lock();
        let WakeTable { timers, stored, .. } = &mut *inner;
        let mut due = Vec::new();
        for wakes in [timers, stored] {
            while wakes.first().is_some_and(|wake| wake.due <= now) {
                due.extend(wakes.pop_first());
            }
        }
        drop(inner);
        due.sort_unstable();
        due.dedup();
        due
    }

    /// Returns when to look again: at the next wake, or when the store must be read.
    pub(crate) fn next(&self) -> Timestamp {
        let inner = self.lock();
        let again = inner.is_stale.then(|| inner.started.after(PACE));
        let next = [inner.first(), again].into_iter().flatten().fold(inner.horizon.due, Timestamp::min);
        // The horizon may be before any time that a clock shows.
        next.max(Timestamp::AT_ONCE)
    }

    /// Returns the time of the next wake in memory.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.lock().first()
    }

    /// Returns the time of the next wake in memory after `now`.
    #[cfg(feature = "testing")]
    pub(crate) fn first_after(&self, now: Timestamp) -> Option<Timestamp> {
        let inner = self.lock();
        let first = |wakes: &BTreeSet<Wake>| wakes.iter().map(|wake| wake.due).find(|due| *due > now);
        [first(&inner.timers), first(&inner.stored)].into_iter().flatten().min()
    }

    /// Returns `true` if more must be read from the store.
    pub(crate) fn is_short(&self, now: Timestamp) -> bool {
        let mut inner = self.lock();
        inner.start_over(now);
        inner.horizon.due <= now
    }

    /// Returns the number of wakes in memory.
    #[cfg(feature = "testing")]
    pub(crate) fn len(&self) -> usize {
        let inner = self.lock();
        inner.timers.len() + inner.stored.len()
    }
}
