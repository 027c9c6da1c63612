//! Received signals that are not consumed, in order of arrival, and the waits for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::payload::Payload;
use crate::restart::CarriedSignal;
use crate::small_map::SmallMap;

use super::Slot;
use super::spec::ChildKey;

/// Signals and waits by name. A signal bound to a wait that then lost a race returns to its old place.
#[derive(Default)]
pub(super) struct Signals {
    free: SmallMap<Box<str>, VecDeque<(u64, Payload)>>,
    /// For each signal that is bound but not consumed, the entry that bound it last. Only dropping that wait returns
    /// the signal: an earlier wait may be dropped when the signal has long been bound to another.
    given: BTreeMap<u64, u64>,
    /// The free signals that are no longer in the inbox: a journal took them, and they came back.
    returned: BTreeSet<u64>,
    /// The waits, in order of their first poll.
    waiting: SmallMap<Box<str>, Vec<Slot>>,
}

impl Signals {
    /// Stores a signal at its place in the order of arrival, unless it is already there.
    pub(super) fn put(&mut self, name: &str, pos: u64, payload: Payload) {
        let queue = match self.free.get_mut(name) {
            Some(queue) => queue,
            None => self.free.or_default(name.into()),
        };
        let place = queue.partition_point(|(other, _)| *other < pos);
        if queue.get(place).is_none_or(|(other, _)| *other != pos) {
            queue.insert(place, (pos, payload));
        }
    }

    /// Returns the first signal with this name, if no wait was there before.
    pub(super) fn unawaited(&self, name: &str) -> Option<&Payload> {
        self.first(name).filter(|_| self.waiting.get(name).is_none_or(Vec::is_empty))
    }

    /// Returns the names that have been waited for and have a signal to take.
    pub(super) fn awaited_names(&self) -> Vec<Box<str>> {
        // Most runs have no wait, or no signal for it. One with many children waits for many names.
        if self.free.len() < self.waiting.len() {
            let arrived = self.free.iter().filter(|(_, queue)| !queue.is_empty()).map(|(name, _)| name);
            return arrived.filter(|name| self.waiting.get(*name).is_some()).cloned().collect();
        }
        self.waiting.iter().map(|(name, _)| name).filter(|name| self.first(name).is_some()).cloned().collect()
    }

    /// Returns the waits for this name and the first signal with it, if there are both.
    pub(super) fn candidates(&self, name: &str) -> Option<(&[Slot], &Payload)> {
        let slots = self.waiting.get(name).filter(|slots| !slots.is_empty())?;
        Some((slots, self.first(name)?))
    }

    /// Returns the first signal with this name.
    fn first(&self, name: &str) -> Option<&Payload> {
        self.free.get(name)?.front().map(|(_, payload)| payload)
    }

    /// Takes the first signal with this name.
    pub(super) fn take(&mut self, name: &str) -> Option<(u64, Payload)> {
        let queue = self.free.get_mut(name)?;
        let taken = queue.pop_front();
        if queue.is_empty() && ChildKey::is_one(name) {
            // A child ends once, while a signal may come again.
            self.free.remove(name);
        }
        taken
    }

    /// Marks the signal at `pos` as bound to a wait by entry `seq`.
    pub(super) fn give(&mut self, pos: u64, seq: u64) {
        self.given.insert(pos, seq);
    }

    /// Marks the signal at `pos` as refused, so that an earlier wait it was bound to cannot return it again.
    pub(super) fn refuse(&mut self, pos: u64) {
        self.given.insert(pos, u64::MAX);
    }

    /// Marks the signal at `pos` as consumed.
    pub(super) fn consume(&mut self, pos: u64) {
        self.given.remove(&pos);
    }

    /// Returns the signal to its place, because the wait that entry `seq` bound it to was dropped.
    pub(super) fn give_back(&mut self, name: &str, pos: u64, seq: u64, payload: Payload) {
        if self.given.get(&pos) == Some(&seq) {
            self.given.remove(&pos);
            self.returned.insert(pos);
            self.put(name, pos, payload);
        }
    }

    /// Stores a signal that an earlier journal took from the inbox.
    pub(super) fn carry(&mut self, signal: CarriedSignal) {
        self.returned.insert(signal.pos);
        self.put(&signal.name, signal.pos, signal.value);
    }

    /// Returns the free signals that are in no inbox, in order of arrival.
    pub(super) fn to_carry(&self) -> Vec<CarriedSignal> {
        let named = self.free.iter().filter(|(name, _)| !ChildKey::is_one(name));
        let free = named.flat_map(|(name, queue)| queue.iter().map(move |(pos, value)| (*pos, name, value)));
        let mut carried: Vec<_> = free
            .filter(|(pos, ..)| self.returned.contains(pos))
            .map(|(pos, name, value)| CarriedSignal { pos, name: name.to_string(), value: value.clone() })
            .collect();
        carried.sort_by_key(|signal| signal.pos);
        carried
    }

    /// Returns the ids of the children whose end nobody has waited for, each with the position of the message.
    pub(super) fn ended_children(&self) -> Vec<(u64, String)> {
        let ends = self.free.iter().filter(|(name, _)| ChildKey::is_one(name));
        let ends = ends.flat_map(|(name, queue)| queue.iter().map(move |(pos, _)| (*pos, name)));
        ends.map(|(pos, name)| (pos, ChildKey::id_of(name).to_owned())).collect()
    }

    // ---- waits ----

    /// Adds a wait for a signal.
    pub(super) fn wait(&mut self, name: &str, slot: Slot) {
        match self.waiting.get_mut(name) {
            Some(slots) => slots.push(slot),
            None => *self.waiting.or_default(name.into()) = vec![slot],
        }
    }

    /// Removes a wait for a signal.
    pub(super) fn stop_waiting(&mut self, name: &str, slot: Slot) {
        if let Some(slots) = self.waiting.get_mut(name) {
            slots.retain(|other| *other != slot);
            if slots.is_empty() && ChildKey::is_one(name) {
                self.waiting.remove(name);
            }
        }
    }

    /// Returns all waits, by name.
    pub(super) fn waits(&self) -> impl Iterator<Item = Slot> {
        self.waiting.iter().flat_map(|(_, slots)| slots).copied()
    }
}
