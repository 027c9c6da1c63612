//! Outcomes that wait to be delivered to user code, in the order of their numbers.

use std::collections::{BTreeSet, VecDeque};

use super::Slot;

/// The deliveries of a run.
#[derive(Default)]
pub(super) struct Deliveries {
    /// Outstanding operations with an undelivered outcome, ordered by delivery number.
    queue: VecDeque<(u64, Slot)>,
    /// The one operation that may become ready before the next quiet point.
    current: Option<Slot>,
    /// Operations that have their delivery but were polled while another one was current, by delivery number.
    held: BTreeSet<(u64, Slot)>,
    /// The number of deliveries that user code has not consumed.
    unconsumed: usize,
    /// The number of the last delivered outcome.
    last: u64,
}

impl Deliveries {
    /// Adds an outcome. Recorded ones may be added in any order.
    pub(super) fn add(&mut self, seq: u64, slot: Slot) {
        let place = match self.queue.back() {
            Some((last, _)) if *last > seq => self.queue.partition_point(|(other, _)| *other < seq),
            _ => self.queue.len(),
        };
        self.queue.insert(place, (seq, slot));
    }

    /// Removes an outcome whose operation was dropped before the delivery.
    pub(super) fn remove(&mut self, seq: u64) {
        self.queue.retain(|(other, _)| *other != seq);
    }

    /// Returns `true` if an outcome that is durable waits to be delivered.
    pub(super) fn has_next(&self, durable: u64) -> bool {
        self.queue.front().is_some_and(|(seq, _)| *seq <= durable) || !self.held.is_empty()
    }

    /// Returns the operation that is delivered to next.
    pub(super) fn next(&self) -> Option<Slot> {
        self.held.first().or_else(|| self.queue.front()).map(|(_, slot)| *slot)
    }

    /// Returns `true` if the next outcome was recorded up to `seq`.
    pub(super) fn is_next_up_to(&self, seq: u64) -> bool {
        self.queue.front().is_some_and(|(next, _)| *next <= seq)
    }

    /// Makes the next operation current. Its outcome is new to it unless it was held.
    pub(super) fn advance(&mut self, durable: u64) -> Option<Delivery> {
        self.current = None;
        // An operation that was polled out of turn goes first: no later delivery may overtake it.
        if let Some((_, slot)) = self.held.pop_first() {
            self.current = Some(slot);
            return Some(Delivery::Held(slot));
        }
        let &(seq, slot) = self.queue.front().filter(|(seq, _)| *seq <= durable)?;
        self.queue.pop_front();
        (self.last, self.current) = (seq, Some(slot));
        self.unconsumed += 1;
        Some(Delivery::New(slot))
    }

    /// Ends the turn of the current operation, which was not polled.
    pub(super) fn end_turn(&mut self) {
        self.current = None;
    }

    /// Called when a delivered operation is polled. Returns `true` if it is its turn; otherwise it waits for one.
    pub(super) fn is_turn_of(&mut self, slot: Slot, seq: u64) -> bool {
        let is_turn = self.current == Some(slot);
        match is_turn {
            true => self.current = None,
            false => drop(self.held.insert((seq, slot))),
        }
        is_turn
    }

    /// Notes that a delivered operation was consumed or dropped.
    pub(super) fn consumed(&mut self, slot: Slot, seq: u64) {
        self.held.remove(&(seq, slot));
        self.unconsumed -= 1;
    }

    /// Notes that an operation is closed, whatever it was waiting for.
    pub(super) fn closed(&mut self, slot: Slot) {
        if self.current == Some(slot) {
            self.current = None;
        }
    }

    /// Returns `true` if user code has consumed everything that was delivered.
    pub(super) fn are_consumed(&self) -> bool {
        self.unconsumed == 0
    }

    /// Returns the number of the last delivered outcome; 0 before the first.
    pub(super) fn last(&self) -> u64 {
        self.last
    }
}

/// A delivery to an operation.
pub(super) enum Delivery {
    /// Its outcome has just become its own.
    New(Slot),
    /// It has had its outcome before, and could not take it then.
    Held(Slot),
}
