//! Queue of due instances that wait for a place in memory.
//!
//! Memory has a limited number of places, and a claimed instance takes one. A paused run can leave memory to make room,
//! but a run in a step cannot, and its step may be waiting for a run that has no place yet. If such runs take all the
//! places, none ever becomes free. So when nothing could be claimed for a second ([`MOMENT`]), one place is added.
//! Added places go away once nothing waits any more. An added place goes to the youngest instance in the queue, because
//! a run that another one waits for is usually the younger of the two. An instance that is asked to end is claimed even
//! if there is no place.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use outlive_core::id::InstanceNum;
use outlive_core::time::Timestamp;

use crate::runtime::residency::Residency;

/// The most instances claimed in one write.
pub(crate) const CLAIM_MAX: usize = 256;
/// How many due instances may wait in memory.
const CLAIMS_MAX: usize = 65_536;
/// How long nothing can be claimed before a place is added.
const MOMENT: Duration = Duration::from_secs(1);
/// How long all places are taken before a warning is logged, and how often it is repeated.
const LONG: Duration = Duration::from_secs(10);
const WARN_EVERY: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Claims {
    /// In order of arrival. Some may have been claimed since.
    queue: VecDeque<InstanceNum>,
    /// All instances that wait.
    waiting: BTreeSet<InstanceNum>,
    /// Those that were asked to end.
    ending: VecDeque<InstanceNum>,
    /// Since when nothing could be claimed.
    stalled: Option<Timestamp>,
    /// Since when no place has become free.
    full: Option<Timestamp>,
    warned: Option<Timestamp>,
}

impl Claims {
    /// Returns `true` if the instance was not in the queue yet.
    pub(super) fn add(&mut self, num: InstanceNum) -> bool {
        let is_new = self.waiting.insert(num);
        self.queue.extend(is_new.then_some(num));
        is_new
    }

    /// Moves up a queued instance that was asked to end.
    pub(super) fn hurry(&mut self, num: InstanceNum) {
        self.ending.extend(self.waiting.contains(&num).then_some(num));
    }

    pub(super) fn has(&self, num: InstanceNum) -> bool {
        self.waiting.contains(&num)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns `true` if there is room for this many more.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.waiting.len() + more <= CLAIMS_MAX
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(InstanceNum) -> bool) {
        self.waiting.retain(|num| is_kept(*num));
    }

    /// Takes as many instances as there are places for.
    pub(super) fn take(&mut self, residency: &Residency, now: Timestamp) -> Vec<InstanceNum> {
        residency.trim_more();
        let mut nums = Vec::new();
        if !self.ending.is_empty() {
            let places = residency.reserve_beyond(self.ending.len().min(CLAIM_MAX));
            take_from(&mut self.ending, &mut self.waiting, places, &mut nums);
            residency.unreserve(places - nums.len());
        }
        let (before, wanted) = (nums.len(), self.waiting.len().min(CLAIM_MAX));
        let places = if wanted == 0 { 0 } else { residency.reserve(wanted) };
        take_from(&mut self.queue, &mut self.waiting, places, &mut nums);
        if places == 0 && wanted > 0 && residency.reserve_more() {
            nums.extend(self.waiting.pop_last());
        }
        self.note(places, nums.len() > before, residency, now);
        nums
    }

    /// Updates since when what waits has had no place.
    fn note(&mut self, places: usize, has_claimed: bool, residency: &Residency, now: Timestamp) {
        let is_over = self.waiting.is_empty();
        if is_over {
            self.queue.clear();
            self.ending.clear();
            residency.set_more(0);
        }
        if self.queue.len() > 2 * self.waiting.len() + CLAIM_MAX {
            // Most of them were claimed out of turn.
            self.queue.retain(|num| self.waiting.contains(num));
        }
        self.full = if places > 0 || is_over { None } else { self.full.or(Some(now)) };
        self.stalled = if has_claimed || is_over { None } else { self.stalled.or(Some(now)) };
    }

    /// Adds a place if nothing could be claimed for a moment. Returns `true` if it did.
    pub(super) fn grow(&mut self, residency: &Residency, now: Timestamp) -> bool {
        self.warn(residency, now);
        let is_time = self.stalled.is_some_and(|since| since.after(MOMENT) <= now);
        if is_time {
            self.stalled = Some(now);
            residency.set_more(residency.more() + 1);
        }
        is_time
    }

    fn warn(&mut self, residency: &Residency, now: Timestamp) {
        let is_long = self.full.is_some_and(|since| since.after(LONG) <= now);
        if !is_long || self.warned.is_some_and(|warned| warned.after(WARN_EVERY) > now) {
            return;
        }
        self.warned = Some(now);
        tracing::warn!(
            "all {} places in memory have been taken by runs in steps for {LONG:?}, and {} runs are waiting; raise `max_resident`",
            residency.max(),
            self.waiting.len()
        );
    }

    /// Returns when to look again if no place becomes free.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.stalled.map(|since| since.after(MOMENT))
    }
}

/// Takes up to `places` instances from a queue, skipping those that no longer wait.
fn take_from(
    queue: &mut VecDeque<InstanceNum>,
    waiting: &mut BTreeSet<InstanceNum>,
    places: usize,
    nums: &mut Vec<InstanceNum>,
) {
    let end = nums.len() + places;
    while nums.len() < end
        && let Some(num) = queue.pop_front()
    {
        nums.extend(waiting.take(&num));
    }
}
