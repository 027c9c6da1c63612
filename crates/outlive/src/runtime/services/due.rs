//! The due instances that are not in memory: those that wait for a place, and those that may crash the process.

mod claims;
mod suspects;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlive_core::id::InstanceNum;
use outlive_core::store::commit::{Answer, Claim, Claimed, Write};
use outlive_core::store::query::Suspect;
use outlive_core::time::Timestamp;
use tokio::sync::Notify;

use crate::runtime::residency::Residency;
pub(crate) use claims::CLAIM_MAX;
use claims::Claims;
pub(crate) use suspects::SPARED;
use suspects::Suspects;

/// The instances to claim. A suspect is not queued before it is admitted.
#[derive(Default)]
pub(crate) struct DueQueue {
    /// Instances that are due and wait for a place.
    claims: Mutex<Claims>,
    /// Instances that may have crashed the process.
    suspects: Mutex<Suspects>,
    /// Whether any of them waits to be loaded or absolved.
    is_recovering: AtomicBool,
    /// Notified when a place is free or something is to be claimed.
    pub(crate) wakeup: Notify,
}

impl DueQueue {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn suspects(&self) -> MutexGuard<'_, Suspects> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- instances that wait for a place ----

    /// Queues a claim, unless the instance must not be claimed yet.
    pub(crate) fn add(&self, num: InstanceNum) {
        if !self.has_to_wait(num) && self.claims().add(num) {
            self.wakeup.notify_one();
        }
    }

    /// Moves up a queued instance that was asked to end.
    pub(crate) fn hurry(&self, num: InstanceNum) {
        self.claims().hurry(num);
    }

    pub(crate) fn has(&self, num: InstanceNum) -> bool {
        self.claims().has(num)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.claims().is_empty()
    }

    /// Returns how many instances wait for a place.
    pub(crate) fn len(&self) -> usize {
        self.claims().len()
    }

    /// Returns `true` if there is room for this many more.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.claims().has_room(more)
    }

    /// Takes as many instances as there are places for.
    pub(crate) fn take(&self, residency: &Residency, now: Timestamp) -> Vec<InstanceNum> {
        self.claims().take(residency, now)
    }

    /// Adds a place if nothing could be claimed for a moment. Returns `true` if it did.
    pub(crate) fn grow(&self, residency: &Residency, now: Timestamp) -> bool {
        self.claims().grow(residency, now)
    }

    /// Returns when there is something to do if nothing happens before.
    pub(crate) fn next_look(&self) -> Option<Timestamp> {
        let suspects = self.suspects().next_look();
        [suspects, self.claims().next()].into_iter().flatten().min()
    }

    /// Returns when an instance that waits may be loaded, if nothing else happens.
    #[cfg(feature = "testing")]
    pub(crate) fn next_admission(&self) -> Option<Timestamp> {
        let suspects = self.suspects().next();
        [suspects, self.claims().next()].into_iter().flatten().min()
    }

    // ---- instances that may crash the process ----

    /// Takes over what the store suspects. Those that are queued already have to wait.
    pub(crate) fn suspect(&self, found: Vec<Suspect>) {
        *self.suspects() = Suspects::new(found);
        self.note_suspects();
        let suspects = self.suspects();
        self.claims().retain(|num| !suspects.is_waiting(num));
    }

    fn note_suspects(&self) {
        self.is_recovering.store(!self.suspects().is_over(), Ordering::Relaxed);
    }

    /// Returns `true` if an instance must not be claimed yet because it may crash the process.
    fn has_to_wait(&self, num: InstanceNum) -> bool {
        self.is_recovering.load(Ordering::Relaxed) && self.suspects().is_waiting(num)
    }

    /// Queues the next group of suspects if the previous one has survived. Returns the instances to spare.
    pub(crate) fn admit(&self, now: Timestamp) -> Vec<InstanceNum> {
        let (admitted, spared) = self.suspects().admit(now);
        self.note_suspects();
        admitted.into_iter().for_each(|num| self.add(num));
        spared
    }

    /// Queues all other suspects, because the culprit was found and is stuck.
    pub(crate) fn admit_all(&self) {
        let others = self.suspects().found();
        self.note_suspects();
        others.into_iter().for_each(|num| self.add(num));
    }

    /// Takes the instances that are to be absolved now.
    pub(crate) fn take_survivors(&self, now: Timestamp) -> Vec<InstanceNum> {
        self.suspects().take_survivors(now)
    }

    /// Absolves these instances later, because that could not be done now.
    pub(crate) fn absolve_later(&self, nums: HashSet<InstanceNum>, now: Timestamp) {
        self.suspects().drive(nums, now);
    }

    /// Notes that these instances are loaded again, some of which were driven when a process died.
    pub(crate) fn driven_again(&self, claim: &Claim, claimed: &[Claimed], now: Timestamp) {
        let blamed = claimed.iter().filter(|one| one.instance.recoveries > 0).map(|one| one.instance.num).collect();
        let mut suspects = self.suspects();
        suspects.came(&claim.nums, now);
        suspects.drive(blamed, now);
        drop(suspects);
        self.note_suspects();
    }

    /// Notes that something of an instance was written, which may admit suspects that wait for it to survive.
    pub(crate) fn note_progress(&self, write: &Write, answer: &Answer) {
        if !self.is_recovering.load(Ordering::Relaxed) {
            return;
        }
        let (num, has_recorded) = match (write, answer) {
            (Write::Commit(commit), Answer::Done | Answer::DoneWith(_)) => (commit.num, commit.is_progress()),
            (Write::Turn(turn), Answer::DoneWith(_)) if !turn.lifecycle.is_empty() => (turn.num, true),
            _ => return,
        };
        let mut suspects = self.suspects();
        if has_recorded {
            suspects.recorded(num);
        }
        if suspects.progressed(num) {
            self.wakeup.notify_one();
        }
    }
}
