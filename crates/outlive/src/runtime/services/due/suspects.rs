//! Finds the instance that crashes the process, by bisection.
//!
//! The store counts how many times a process died while it drove an instance, since the instance last made progress.
//! After one death, all instances are loaded together. Those that were driven at two deaths are suspects. They are
//! loaded group by group, half of the most suspicious first, while everything else runs. If the process dies again,
//! only the suspects that were admitted become more suspicious, so the most suspicious group is half the size the next
//! time, until the culprit is alone. A group that survives while it is watched is spared, and the next one is admitted.
//! Only an instance that was alone at a death is blamed for it, and one that survives for longer is absolved.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use outlive_core::id::InstanceNum;
use outlive_core::store::query::Suspect;
use outlive_core::time::Timestamp;

/// How many recoveries stay counted against spared suspects: if the process dies all the same, they are suspects again,
/// but not the worst.
pub(crate) const SPARED: u32 = 1;
/// How long a group is watched: twice as long after each further death, as the culprit may take its time.
const WATCH_MIN: Duration = Duration::from_secs(2);
const WATCH_MAX: Duration = Duration::from_secs(10);
/// After this long without a death, nothing is counted against what was driven.
const SURVIVED: Duration = Duration::from_secs(10);

/// The suspects, as found when this process started.
#[derive(Default)]
pub(super) struct Suspects {
    /// Groups that wait to be admitted; the next one is last.
    waiting: Vec<Group>,
    /// All instances in those groups.
    held: HashSet<InstanceNum>,
    /// The group that was admitted last, while others wait.
    watched: Option<Watched>,
    /// Instances that were driven at a death, and when they are absolved.
    survivors: VecDeque<(Timestamp, HashSet<InstanceNum>)>,
}

struct Group {
    nums: Vec<InstanceNum>,
    watch: Duration,
}

struct Watched {
    /// Instances that are not in memory yet.
    coming: HashSet<InstanceNum>,
    /// Instances that have made no progress yet.
    unproven: HashSet<InstanceNum>,
    watch: Duration,
    /// When watching ends, once all are in memory.
    until: Option<Timestamp>,
}

impl Suspects {
    /// Sorts the store's suspects into groups.
    pub(super) fn new(mut suspects: Vec<Suspect>) -> Self {
        suspects.sort_by_key(|suspect| (suspect.recoveries, suspect.num));
        let held = suspects.iter().map(|suspect| suspect.num).collect();
        let mut waiting: Vec<Group> = suspects.chunk_by(|a, b| a.recoveries == b.recoveries).map(Group::of).collect();
        if let Some(worst) = waiting.last_mut().filter(|worst| worst.nums.len() > 1) {
            let rest = worst.nums.split_off(worst.nums.len() / 2);
            let half = Group { nums: std::mem::replace(&mut worst.nums, rest), watch: worst.watch };
            waiting.push(half);
        }
        Self { waiting, held, ..Self::default() }
    }

    /// Returns `true` if an instance must wait until its group is admitted.
    pub(super) fn is_waiting(&self, num: InstanceNum) -> bool {
        self.held.contains(&num)
    }

    /// Returns `true` if there is nothing left to watch.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.survivors.is_empty()
    }

    /// Admits the next group if the previous one has survived. Returns the instances to claim, and those to spare.
    pub(super) fn admit(&mut self, now: Timestamp) -> (Vec<InstanceNum>, Vec<InstanceNum>) {
        let is_watching = self
            .watched
            .as_ref()
            .is_some_and(|watched| watched.until.is_none_or(|until| until > now) && !watched.unproven.is_empty());
        if is_watching {
            return Default::default();
        }
        let before = self.watched.take();
        let Some(Group { nums, watch }) = self.waiting.pop() else { return Default::default() };
        nums.iter().for_each(|num| {
            self.held.remove(num);
        });
        let all: HashSet<InstanceNum> = nums.iter().copied().collect();
        self.watched = Some(Watched { coming: all.clone(), unproven: all, watch, until: None });
        (nums, before.into_iter().flat_map(|before| before.unproven).collect())
    }

    /// Admits all that wait together, because the culprit was found.
    pub(super) fn found(&mut self) -> Vec<InstanceNum> {
        (self.watched, self.held) = (None, HashSet::new());
        self.waiting.drain(..).flat_map(|group| group.nums).collect()
    }

    /// Notes that these were claimed, or turned out to be gone.
    pub(super) fn came(&mut self, nums: &[InstanceNum], now: Timestamp) {
        let Some(watched) = &mut self.watched else { return };
        nums.iter().for_each(|num| {
            watched.coming.remove(num);
        });
        if watched.coming.is_empty() && watched.until.is_none() {
            watched.until = Some(now.after(watched.watch));
        }
    }

    /// Notes that an instance has recorded something, so the store counts nothing against it any more.
    pub(super) fn recorded(&mut self, num: InstanceNum) {
        self.survivors.iter_mut().any(|(_, nums)| nums.remove(&num));
        self.survivors.retain(|(_, nums)| !nums.is_empty());
    }

    /// Notes that an instance has made progress, or is no longer driven. Returns `true` if that may admit the next
    /// group.
    pub(super) fn progressed(&mut self, num: InstanceNum) -> bool {
        let Some(watched) = &mut self.watched else { return false };
        watched.unproven.remove(&num) && watched.unproven.is_empty()
    }

    /// Notes that these are driven, as they were at a death.
    pub(super) fn drive(&mut self, nums: HashSet<InstanceNum>, now: Timestamp) {
        if !nums.is_empty() {
            self.survivors.push_back((now.after(SURVIVED), nums));
        }
    }

    /// Takes the instances that are to be absolved now.
    pub(super) fn take_survivors(&mut self, now: Timestamp) -> Vec<InstanceNum> {
        let due = self.survivors.partition_point(|(at, _)| *at <= now);
        self.survivors.drain(..due).flat_map(|(_, nums)| nums).collect()
    }

    /// Returns when the next group may be admitted.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.watched.as_ref().filter(|_| !self.waiting.is_empty()).and_then(|watched| watched.until)
    }

    /// Returns when there is something to do.
    pub(super) fn next_look(&self) -> Option<Timestamp> {
        [self.next(), self.survivors.front().map(|(at, _)| *at)].into_iter().flatten().min()
    }
}

impl Group {
    fn of(suspects: &[Suspect]) -> Self {
        let deaths = suspects.first().map_or(0, |suspect| suspect.recoveries.saturating_sub(2));
        let watch = WATCH_MIN.saturating_mul(2_u32.saturating_pow(deaths)).min(WATCH_MAX);
        Self { nums: suspects.iter().map(|suspect| suspect.num).collect(), watch }
    }
}
