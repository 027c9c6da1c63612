//! Which instances are due when, for the near future; the rest lies in the store.
//!
//! The store's wakes are read in pages, in their order. The horizon is how far: what lies before it is in memory or was
//! handed on, so that the next page begins there, whatever became of the ones before. When others have written, reading
//! starts over, but never before it has come past what is due; and it does once a minute, should nobody have told.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use outlive_core::id::InstanceNum;
use outlive_core::query::Wake;
use outlive_core::time::Timestamp;
use tokio::sync::Notify;

/// How many wakes are held in memory that the store holds too.
const STORED_MAX: usize = 65_536;
/// How often several pages are read again because others write.
const PACE: Duration = Duration::from_secs(1);
/// How often all is read again whether others write or not.
const EVERY: Duration = Duration::from_secs(60);

/// Near wakes in memory. One too many does no harm: whoever is woken looks what is due.
pub(crate) struct Wakes {
    inner: Mutex<Inner>,
    /// Told when there is something to look at earlier than thought.
    pub(crate) news: Notify,
}

struct Inner {
    /// Those that no row in the store stands for: of runs in memory.
    timers: BTreeSet<Wake>,
    /// Those that the store holds too, up to the horizon.
    stored: BTreeSet<Wake>,
    /// Up to here, the store's wakes are in memory or were handed on.
    horizon: Wake,
    /// Whether others have written since reading started over.
    is_stale: bool,
    /// When it did, and how many pages have been read since.
    started: Timestamp,
    pages: usize,
}

impl Inner {
    /// Starts over if that is called for: if one page is not enough, not all the time.
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

/// The last one of a moment.
fn last_of(due: Timestamp) -> Wake {
    Wake { due, num: InstanceNum(u64::MAX) }
}

impl Wakes {
    pub(crate) fn new() -> Self {
        let (timers, stored, started) = (BTreeSet::new(), BTreeSet::new(), Timestamp::MIN);
        let inner = Inner { timers, stored, horizon: Wake::FIRST, is_stale: false, started, pages: 0 };
        Self { inner: Mutex::new(inner), news: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Remembers a wake that no row in the store stands for.
    pub(crate) fn add(&self, due: Timestamp, num: InstanceNum) {
        let mut inner = self.lock();
        let is_first = inner.first().is_none_or(|first| due < first);
        inner.timers.insert(Wake { due, num });
        drop(inner);
        if is_first {
            self.news.notify_one();
        }
    }

    /// Forgets a wake that no row in the store stands for.
    pub(crate) fn remove(&self, due: Timestamp, num: InstanceNum) {
        self.lock().timers.remove(&Wake { due, num });
    }

    /// Remembers a wake that the store holds too: only if it is near.
    pub(crate) fn add_stored(&self, due: Timestamp, num: InstanceNum) {
        let mut inner = self.lock();
        let wake = Wake { due, num };
        if wake > inner.horizon {
            return;
        }
        let is_first = inner.first().is_none_or(|first| due < first);
        inner.stored.insert(wake);
        while inner.stored.len() > STORED_MAX {
            // The last ones are read again when their time is near.
            inner.stored.pop_last();
            inner.horizon = inner.stored.last().map_or(Wake::FIRST, |last| *last);
        }
        drop(inner);
        if is_first {
            self.news.notify_one();
        }
    }

    /// Forgets a wake that the store does not hold any more.
    pub(crate) fn remove_stored(&self, due: Timestamp, num: InstanceNum) {
        self.lock().stored.remove(&Wake { due, num });
    }

    /// Something due is not in memory: the store is to be asked again.
    pub(crate) fn forget_horizon(&self) {
        self.lock().horizon = Wake::FIRST;
    }

    /// Others have written: reading starts over, once it has come past what is due.
    pub(crate) fn start_over(&self, now: Timestamp) {
        let mut inner = self.lock();
        inner.is_stale = true;
        inner.start_over(now);
    }

    /// The store is about to be asked for its wakes up to a moment: what is set meanwhile is remembered too.
    /// Answers the old horizon.
    pub(crate) fn raise(&self, until: Timestamp) -> Wake {
        std::mem::replace(&mut self.lock().horizon, last_of(until))
    }

    /// Takes over a page of the store's wakes up to a moment, unless something was left out meanwhile.
    pub(crate) fn load(&self, page: Vec<Wake>, is_last: bool, now: Timestamp) {
        let mut inner = self.lock();
        if let Some(last) = page.last().filter(|_| !is_last) {
            inner.horizon = inner.horizon.min(*last);
        }
        inner.stored.extend(page);
        inner.pages += 1;
        inner.start_over(now);
    }

    /// The store could not be asked: no more is known than before.
    pub(crate) fn lower(&self, horizon: Wake) {
        let mut inner = self.lock();
        inner.horizon = inner.horizon.min(horizon);
    }

    /// Takes those that are due, in order.
    pub(crate) fn take_due(&self, now: Timestamp) -> Vec<Wake> {
        let mut inner = self.lock();
        let Inner { timers, stored, .. } = &mut *inner;
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

    /// When to look again: at the next wake, or when the store must be asked for more.
    pub(crate) fn next(&self) -> Timestamp {
        let inner = self.lock();
        let again = inner.is_stale.then(|| inner.started.after(PACE));
        let next = [inner.first(), again].into_iter().flatten().fold(inner.horizon.due, Timestamp::min);
        // No clock is asked to wait for a moment before there were any.
        next.max(Timestamp::AT_ONCE)
    }

    /// The next wake in memory.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.lock().first()
    }

    /// The next wake in memory after a moment.
    pub(crate) fn first_after(&self, now: Timestamp) -> Option<Timestamp> {
        let inner = self.lock();
        let first = |wakes: &BTreeSet<Wake>| wakes.iter().map(|wake| wake.due).find(|due| *due > now);
        [first(&inner.timers), first(&inner.stored)].into_iter().flatten().min()
    }

    /// Whether the store is to be asked for more.
    pub(crate) fn is_short(&self, now: Timestamp) -> bool {
        let mut inner = self.lock();
        inner.start_over(now);
        inner.horizon.due <= now
    }

    /// How many wakes are in memory.
    pub(crate) fn len(&self) -> usize {
        let inner = self.lock();
        inner.timers.len() + inner.stored.len()
    }
}
