//! Which runs are in memory, how many may be, and which of them can leave.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use outlive_core::id::InstanceNum;
use outlive_core::mutant::{Mutant, is_on};
use outlive_core::time::Timestamp;
use tokio::task::AbortHandle;

use crate::mailbox::Mailbox;

/// How many runs that are to end may be in memory beside all others.
const BEYOND_MAX: usize = 256;

/// The runs in memory.
pub(crate) struct Residency {
    inner: Mutex<Inner>,
    residents_max: usize,
}

#[derive(Default)]
struct Inner {
    residents: HashMap<InstanceNum, Resident>,
    /// Places taken for runs that are about to come.
    reserved: usize,
    /// Places that there are for now beside the usual ones.
    more: usize,
    /// Those that are paused, by when they paused: the first has been idle longest.
    paused: BTreeMap<u64, InstanceNum>,
    /// Those of them that pause for long, by when they are to leave.
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

impl Inner {
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
    pub(crate) fn new(residents_max: usize) -> Self {
        Self { inner: Mutex::default(), residents_max: residents_max.max(1) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes places for runs that are about to come; answers how many there were. A paused run is asked to leave for
    /// each one that is missing.
    pub(crate) fn reserve(&self, wanted: usize) -> usize {
        let mut inner = self.lock();
        let free = self.residents_max.saturating_sub(inner.residents.len() + inner.reserved);
        let got = wanted.min(free);
        inner.reserved += got;
        for _ in got..wanted {
            let working = || inner.residents.keys().min().filter(|_| is_on(Mutant::EvictedAtWork));
            let Some(num) = inner.paused.values().next().or_else(working).copied() else { break };
            inner.unpause(num);
            if let Some(resident) = inner.residents.get_mut(&num) {
                resident.mailbox.post(|letters| letters.is_evicted = true);
            }
        }
        got
    }

    /// Takes one of the places that there are for now, if one is free.
    pub(crate) fn reserve_more(&self) -> bool {
        let mut inner = self.lock();
        let is_free = inner.residents.len() + inner.reserved < self.residents_max + inner.more;
        inner.reserved += usize::from(is_free);
        is_free
    }

    /// Takes places for runs that are to end, whether there are any or not, but not without limit.
    pub(crate) fn reserve_beyond(&self, wanted: usize) -> usize {
        let mut inner = self.lock();
        let places = self.residents_max + inner.more + BEYOND_MAX;
        let got = wanted.min(places.saturating_sub(inner.residents.len() + inner.reserved));
        inner.reserved += got;
        got
    }

    /// Gives up the places beside the usual ones that nobody has any more.
    pub(crate) fn trim_more(&self) {
        let mut inner = self.lock();
        inner.more = inner.more.min((inner.residents.len() + inner.reserved + 1).saturating_sub(self.residents_max));
    }

    /// How many places there are beside the usual ones.
    pub(crate) fn more(&self) -> usize {
        self.lock().more
    }

    pub(crate) fn set_more(&self, more: usize) {
        self.lock().more = more;
    }

    /// How many places there are usually.
    pub(crate) fn max(&self) -> usize {
        self.residents_max
    }

    /// Gives back places that were not needed.
    pub(crate) fn unreserve(&self, count: usize) {
        let mut inner = self.lock();
        inner.reserved = inner.reserved.saturating_sub(count);
    }

    /// A run moves into its reserved place.
    pub(crate) fn enter(&self, num: InstanceNum, id: String, mailbox: Arc<Mailbox>) {
        let mut inner = self.lock();
        inner.reserved = inner.reserved.saturating_sub(1);
        inner.residents.insert(num, Resident { id, mailbox, abort: None, paused: None, wake: None, cold_at: None });
    }

    /// Ends those of an id whose number is another: they were replaced.
    pub(crate) fn replace(&self, id: &str, num: InstanceNum) {
        let inner = self.lock();
        let old = inner.residents.iter().filter(|(other, resident)| **other != num && resident.id == id);
        old.for_each(|(_, resident)| {
            resident.mailbox.post(|letters| letters.is_fenced = true);
        });
    }

    /// How to end the task of a run, should that be needed.
    pub(crate) fn set_abort(&self, num: InstanceNum, abort: AbortHandle) {
        if let Some(resident) = self.lock().residents.get_mut(&num) {
            resident.abort = Some(abort);
        }
    }

    /// A run leaves, unless it has [retired](Self::retire); another one may have come in its place since. Answers
    /// whether it does.
    pub(crate) fn leave(&self, num: InstanceNum, mailbox: &Arc<Mailbox>) -> bool {
        let mut inner = self.lock();
        let is_here = inner.residents.get(&num).is_some_and(|resident| Arc::ptr_eq(&resident.mailbox, mailbox));
        if is_here {
            inner.unpause(num);
            inner.residents.remove(&num);
        }
        is_here
    }

    /// Whether a run is in memory and not paused: the store takes it for ours.
    pub(crate) fn is_at_work(&self, num: InstanceNum) -> bool {
        self.lock().residents.get(&num).is_some_and(|resident| resident.paused.is_none())
    }

    /// A run has ended: it is in memory for a moment still, but nothing reaches it any more.
    pub(crate) fn retire(&self, num: InstanceNum) {
        let mut inner = self.lock();
        inner.unpause(num);
        inner.residents.remove(&num);
    }

    /// The mailbox of a run, if it is in memory.
    pub(crate) fn mailbox(&self, num: InstanceNum) -> Option<Arc<Mailbox>> {
        self.lock().residents.get(&num).map(|resident| resident.mailbox.clone())
    }

    /// A run pauses until `wake`; if that is for long, it is to leave at `cold_at`. Answers whether there is room for it to
    /// stay.
    pub(crate) fn pause(&self, num: InstanceNum, wake: Option<Timestamp>, cold_at: Option<Timestamp>) -> bool {
        let mut inner = self.lock();
        if (inner.residents.len() + inner.reserved) * 2 > self.residents_max {
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

    /// A run goes on. Returns when it would have been due.
    pub(crate) fn resume(&self, num: InstanceNum) -> Option<Timestamp> {
        let mut inner = self.lock();
        inner.unpause(num);
        inner.residents.get_mut(&num).and_then(|resident| resident.wake.take())
    }

    /// When the next run is to leave.
    pub(crate) fn next_cold(&self) -> Option<Timestamp> {
        self.lock().cooling.first().map(|(cold_at, _)| *cold_at)
    }

    /// Asks those to leave that have paused for long enough.
    pub(crate) fn evict_cold(&self, now: Timestamp) {
        let mut inner = self.lock();
        while let Some(&(cold_at, num)) = inner.cooling.first() {
            if cold_at > now {
                return;
            }
            inner.unpause(num);
            if let Some(resident) = inner.residents.get(&num) {
                resident.mailbox.post(|letters| letters.is_evicted = true);
            }
        }
    }

    /// How many runs are in memory or about to be.
    pub(crate) fn len(&self) -> usize {
        let inner = self.lock();
        inner.residents.len() + inner.reserved
    }

    /// How many runs in memory are not paused.
    pub(crate) fn working(&self) -> usize {
        let inner = self.lock();
        inner.residents.len() - inner.paused.len()
    }

    /// All mailboxes.
    pub(crate) fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        self.lock().residents.values().map(|resident| resident.mailbox.clone()).collect()
    }

    /// Ends all tasks at once.
    pub(crate) fn abort(&self) {
        for resident in self.lock().residents.values() {
            resident.abort.iter().for_each(AbortHandle::abort);
        }
    }
}
