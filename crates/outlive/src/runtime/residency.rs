//! The instances in memory: how many there may be, and which of them can leave.
//!
//! A store may hold far more instances than fit in memory, and most of them are paused. So memory has a limited number
//! of places. A place is reserved before an instance is claimed, and taken when the instance is loaded. A running
//! instance keeps its place. A paused one is released in the store, so it can leave at any time and be claimed again
//! later. It may stay while at most half of the places are taken, which saves loading and replaying it if it resumes
//! soon. When places run short, the instance that has been idle longest is asked to leave. One in a long pause is asked
//! to leave at a set time in any case. That is only a note in its mailbox: if something else has arrived as well, the
//! instance looks at that first.
//!
//! Two kinds of place go beyond the limit: those added for now when nothing could be claimed
//! ([`reserve_more`](Residency::reserve_more)), and those for instances that are asked to end
//! ([`reserve_beyond`](Residency::reserve_beyond)). `services/due/claims.rs` explains why they are needed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use outlive_core::id::InstanceNum;
use outlive_core::time::Timestamp;
use tokio::task::AbortHandle;

use crate::instance::mailbox::Mailbox;
use crate::instance::meters;

/// How many instances that are asked to end may be in memory in addition to all others.
const BEYOND_MAX: usize = 256;

/// The instances in memory.
pub(crate) struct Residency {
    inner: Mutex<Residents>,
    max_resident: usize,
}

#[derive(Default)]
struct Residents {
    residents: HashMap<InstanceNum, Resident>,
    /// Places reserved for instances that are about to be loaded.
    reserved: usize,
    /// Places that were added for now.
    more: usize,
    /// The paused instances, by when they paused: the first has been idle longest.
    paused: BTreeMap<u64, InstanceNum>,
    /// The instances in a long pause, by when they are to leave.
    cooling: BTreeSet<(Timestamp, InstanceNum)>,
    pauses: u64,
}

struct Resident {
    id: String,
    mailbox: Arc<Mailbox>,
    abort: Option<AbortHandle>,
    paused: Option<u64>,
    /// When it is due, while it is paused.
    wake: Option<Timestamp>,
    cold_at: Option<Timestamp>,
}

impl Residents {
    fn unpause(&mut self, num: InstanceNum) {
        let Some(resident) = self.residents.get_mut(&num) else { return };
        if let Some(place) = resident.paused.take() {
            self.paused.remove(&place);
        }
        if let Some(cold_at) = resident.cold_at.take() {
            self.cooling.remove(&(cold_at, num));
        }
    }
}

impl Residency {
    pub(crate) fn new(max_resident: usize) -> Self {
        Self { inner: Mutex::default(), max_resident: max_resident.max(1) }
    }

    fn lock(&self) -> MutexGuard<'_, Residents> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Reserves places for instances that are about to be loaded, and returns how many were free. For each one that is
    /// missing, a paused instance is asked to leave.
    pub(crate) fn reserve(&self, wanted: usize) -> usize {
        let mut inner = self.lock();
        let free = self.max_resident.saturating_sub(inner.residents.len() + inner.reserved);
        let got = wanted.min(free);
        inner.reserved += got;
        for _ in got..wanted {
            let Some(num) = inner.paused.values().next().copied() else { break };
            inner.unpause(num);
            if let Some(resident) = inner.residents.get_mut(&num) {
                resident.mailbox.post(|arrivals| arrivals.is_evicted = true);
            }
        }
        got
    }

    /// Reserves one of the places that were added, if one is free.
    pub(crate) fn reserve_more(&self) -> bool {
        let mut inner = self.lock();
        let is_free = inner.residents.len() + inner.reserved < self.max_resident + inner.more;
        inner.reserved += usize::from(is_free);
        is_free
    }

    /// Reserves places for instances that are asked to end, even if none is free, up to a limit.
    pub(crate) fn reserve_beyond(&self, wanted: usize) -> usize {
        let mut inner = self.lock();
        let places = self.max_resident + inner.more + BEYOND_MAX;
        let got = wanted.min(places.saturating_sub(inner.residents.len() + inner.reserved));
        inner.reserved += got;
        got
    }

    /// Removes added places that are no longer used.
    pub(crate) fn trim_more(&self) {
        let mut inner = self.lock();
        inner.more = inner.more.min((inner.residents.len() + inner.reserved + 1).saturating_sub(self.max_resident));
    }

    /// Returns the number of places that were added.
    pub(crate) fn more(&self) -> usize {
        self.lock().more
    }

    pub(crate) fn set_more(&self, more: usize) {
        self.lock().more = more;
    }

    /// Returns the number of places, without those that were added.
    pub(crate) fn max(&self) -> usize {
        self.max_resident
    }

    /// Gives back places that were not needed.
    pub(crate) fn unreserve(&self, count: usize) {
        let mut inner = self.lock();
        inner.reserved = inner.reserved.saturating_sub(count);
    }

    /// Puts an instance into its reserved place.
    pub(crate) fn enter(&self, num: InstanceNum, id: String, mailbox: Arc<Mailbox>) {
        let mut inner = self.lock();
        inner.reserved = inner.reserved.saturating_sub(1);
        inner.residents.insert(num, Resident { id, mailbox, abort: None, paused: None, wake: None, cold_at: None });
        meters::resident(inner.residents.len());
    }

    /// Ends the instances with this id and another number, because they were replaced.
    pub(crate) fn replace(&self, id: &str, num: InstanceNum) {
        let inner = self.lock();
        let old = inner.residents.iter().filter(|(other, resident)| **other != num && resident.id == id);
        old.for_each(|(_, resident)| {
            resident.mailbox.post(|arrivals| arrivals.is_fenced = true);
        });
    }

    /// Sets the handle that aborts the task of an instance.
    pub(crate) fn set_abort(&self, num: InstanceNum, abort: AbortHandle) {
        if let Some(resident) = self.lock().residents.get_mut(&num) {
            resident.abort = Some(abort);
        }
    }

    /// Removes an instance, unless it has [retired](Self::retire): another one may be in its place since. Returns
    /// `true` if it was removed.
    pub(crate) fn leave(&self, num: InstanceNum, mailbox: &Arc<Mailbox>) -> bool {
        let mut inner = self.lock();
        let is_here = inner.residents.get(&num).is_some_and(|resident| Arc::ptr_eq(&resident.mailbox, mailbox));
        if is_here {
            inner.unpause(num);
            inner.residents.remove(&num);
            meters::resident(inner.residents.len());
        }
        is_here
    }

    /// Returns `true` if an instance is in memory and not paused, so that the store records it as ours.
    pub(crate) fn is_at_work(&self, num: InstanceNum) -> bool {
        self.lock().residents.get(&num).is_some_and(|resident| resident.paused.is_none())
    }

    /// Removes an instance that has ended. It is in memory a moment longer, but nothing reaches it any more.
    pub(crate) fn retire(&self, num: InstanceNum) {
        let mut inner = self.lock();
        inner.unpause(num);
        inner.residents.remove(&num);
        meters::resident(inner.residents.len());
    }

    /// Removes an instance that was changed in the store while it was paused, if it is in memory. What is loaded next is
    /// another copy.
    pub(crate) fn renew(&self, num: InstanceNum) {
        if let Some(mailbox) = self.mailbox(num) {
            mailbox.post(|arrivals| arrivals.is_fenced = true);
            self.retire(num);
        }
    }

    /// Returns `true` if an instance is paused in memory until another time than `due`: somebody else has made it due.
    pub(crate) fn is_unexpected(&self, num: InstanceNum, due: Timestamp) -> bool {
        self.lock().residents.get(&num).is_some_and(|one| one.paused.is_some() && one.wake != Some(due))
    }

    /// Returns the mailbox of an instance, if it is in memory.
    pub(crate) fn mailbox(&self, num: InstanceNum) -> Option<Arc<Mailbox>> {
        self.lock().residents.get(&num).map(|resident| resident.mailbox.clone())
    }

    /// Marks an instance as paused until `wake`. If the pause is long, the instance is to leave at `cold_at`. Returns
    /// `true` if there is room for it to stay.
    pub(crate) fn pause(&self, num: InstanceNum, wake: Option<Timestamp>, cold_at: Option<Timestamp>) -> bool {
        let mut inner = self.lock();
        if (inner.residents.len() + inner.reserved) * 2 > self.max_resident {
            return false;
        }
        inner.unpause(num);
        inner.pauses += 1;
        let place = inner.pauses;
        if let Some(resident) = inner.residents.get_mut(&num) {
            resident.paused = Some(place);
            resident.wake = wake;
            resident.cold_at = cold_at;
            inner.paused.insert(place, num);
            inner.cooling.extend(cold_at.map(|cold_at| (cold_at, num)));
        }
        true
    }

    /// Marks an instance as running again. Returns when it would have been due.
    pub(crate) fn resume(&self, num: InstanceNum) -> Option<Timestamp> {
        let mut inner = self.lock();
        inner.unpause(num);
        inner.residents.get_mut(&num).and_then(|resident| resident.wake.take())
    }

    /// Returns when the next instance is to leave.
    pub(crate) fn next_cold(&self) -> Option<Timestamp> {
        self.lock().cooling.first().map(|(cold_at, _)| *cold_at)
    }

    /// Asks the instances to leave that have been in a long pause for long enough.
    pub(crate) fn evict_cold(&self, now: Timestamp) {
        let mut inner = self.lock();
        while let Some(&(cold_at, num)) = inner.cooling.first() {
            if cold_at > now {
                return;
            }
            inner.unpause(num);
            if let Some(resident) = inner.residents.get(&num) {
                resident.mailbox.post(|arrivals| arrivals.is_evicted = true);
            }
        }
    }

    /// Returns how many instances are in memory or about to be.
    pub(crate) fn len(&self) -> usize {
        let inner = self.lock();
        inner.residents.len() + inner.reserved
    }

    /// Returns how many instances in memory are not paused.
    #[cfg(feature = "testing")]
    pub(crate) fn working(&self) -> usize {
        let inner = self.lock();
        inner.residents.len() - inner.paused.len()
    }

    /// Returns all mailboxes.
    pub(crate) fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        self.lock().residents.values().map(|resident| resident.mailbox.clone()).collect()
    }

    /// Aborts all tasks.
    pub(crate) fn abort(&self) {
        for resident in self.lock().residents.values() {
            resident.abort.iter().for_each(AbortHandle::abort);
        }
    }
}
