//! Signals that have come and that nobody has consumed, in order of arrival.

use std::collections::{BTreeMap, VecDeque};

use crate::payload::Payload;

/// Signals by name. One that was given to a wait which then lost a race comes back to its old place.
#[derive(Default)]
pub(super) struct Signals(BTreeMap<Box<str>, VecDeque<(u64, Payload)>>);

impl Signals {
    /// Keeps a signal at its place in the order of arrival. One that is there already is not kept twice.
    pub(super) fn put(&mut self, name: &str, pos: u64, payload: Payload) {
        let queue = match self.0.get_mut(name) {
            Some(queue) => queue,
            None => self.0.entry(name.into()).or_default(),
        };
        let place = queue.partition_point(|(other, _)| *other < pos);
        if queue.get(place).is_none_or(|(other, _)| *other != pos) {
            queue.insert(place, (pos, payload));
        }
    }

    /// Takes the first signal of a name.
    pub(super) fn take(&mut self, name: &str) -> Option<(u64, Payload)> {
        self.0.get_mut(name)?.pop_front()
    }
}
