//! Signals that have come and that nobody has consumed, in order of arrival.

use std::collections::{BTreeMap, VecDeque};

use crate::mutant::{Mutant, is_on};
use crate::payload::Payload;

/// Signals by name. One that was given to a wait which then lost a race comes back to its old place.
#[derive(Default)]
pub(super) struct Signals {
    free: BTreeMap<Box<str>, VecDeque<(u64, Payload)>>,
    /// Of the signals that were given to a wait and not consumed: the entry that gave it last. Only who lets go of
    /// that one gives the signal back; an earlier one may be let go of when the signal has long been given on.
    given: BTreeMap<u64, u64>,
}

impl Signals {
    /// Keeps a signal at its place in the order of arrival. One that is there already is not kept twice.
    pub(super) fn put(&mut self, name: &str, pos: u64, payload: Payload) {
        let queue = match self.free.get_mut(name) {
            Some(queue) => queue,
            None => self.free.entry(name.into()).or_default(),
        };
        let place = queue.partition_point(|(other, _)| *other < pos);
        if queue.get(place).is_none_or(|(other, _)| *other != pos) {
            queue.insert(place, (pos, payload));
        }
    }

    /// Whether a signal of a name waits to be taken.
    pub(super) fn has(&self, name: &str) -> bool {
        self.free.get(name).is_some_and(|queue| !queue.is_empty())
    }

    /// The first signal of a name.
    pub(super) fn first(&self, name: &str) -> Option<&Payload> {
        let queue = self.free.get(name)?;
        let first = if is_on(Mutant::SignalsLastFirst) { queue.back() } else { queue.front() };
        first.map(|(_, payload)| payload)
    }

    /// Takes the first signal of a name.
    pub(super) fn take(&mut self, name: &str) -> Option<(u64, Payload)> {
        let queue = self.free.get_mut(name)?;
        if is_on(Mutant::SignalsLastFirst) { queue.pop_back() } else { queue.pop_front() }
    }

    /// The signal at `pos` is given to a wait, by entry `seq`.
    pub(super) fn give(&mut self, pos: u64, seq: u64) {
        self.given.insert(pos, seq);
    }

    /// The signal at `pos` was refused, after a wait had given it back: it comes back no more.
    pub(super) fn refuse(&mut self, pos: u64) {
        self.given.insert(pos, u64::MAX);
    }

    /// The signal at `pos` is consumed.
    pub(super) fn consume(&mut self, pos: u64) {
        self.given.remove(&pos);
    }

    /// The wait that entry `seq` gave the signal to has let go of it.
    pub(super) fn give_back(&mut self, name: &str, pos: u64, seq: u64, payload: Payload) {
        if self.given.get(&pos) == Some(&seq) {
            self.given.remove(&pos);
            self.put(name, pos, payload);
        }
    }
}
