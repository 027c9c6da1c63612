//! The outstanding operations of a run, by slot, and their timers.

use std::collections::BTreeSet;

use crate::time::Timestamp;

use crate::workflow::Slot;
use crate::workflow::op::{Op, OpPhase};

/// The outstanding operations of a run.
#[derive(Default)]
pub(super) struct OpTable {
    slots: Vec<Option<Op>>,
    free: Vec<usize>,
    timers: BTreeSet<(Timestamp, Slot)>,
    /// The number of operations with a running body.
    working: usize,
}

impl OpTable {
    /// Adds an operation and returns its slot.
    #[inline]
    pub(super) fn insert(&mut self, op: Op) -> Slot {
        match self.free.pop() {
            Some(index) => {
                self.slots[index] = Some(op);
                Slot(index)
            }
            None => {
                // Most runs have one outstanding operation at a time.
                self.slots.reserve_exact(usize::from(self.slots.is_empty()));
                self.slots.push(Some(op));
                Slot(self.slots.len() - 1)
            }
        }
    }

    /// Removes an operation with its timer. Its slot is free from here on.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) {
        let Some(place) = self.slots.get_mut(slot.0) else { return };
        let Some(op) = place else { return };
        self.working -= usize::from(op.is_working());
        if let Some(due) = op.timer {
            self.timers.remove(&(due, slot));
        }
        *place = None;
        self.free.push(slot.0);
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Op> {
        self.slots.get(slot.0)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Op> {
        self.slots.get_mut(slot.0)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Op)> {
        self.slots.iter().enumerate().filter_map(|(index, op)| Some((Slot(index), op.as_ref()?)))
    }

    /// Returns how many operations are outstanding.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns how many of them have a running body.
    pub(super) fn working(&self) -> usize {
        self.working
    }

    pub(super) fn phase(&self, slot: Slot) -> Option<&OpPhase> {
        self.get(slot).map(|op| &op.phase)
    }

    pub(super) fn set_phase(&mut self, slot: Slot, phase: OpPhase) {
        if let Some(op) = self.slots.get_mut(slot.0).and_then(Option::as_mut) {
            let was = op.is_working();
            op.phase = phase;
            self.working = self.working + usize::from(op.is_working()) - usize::from(was);
        }
    }

    /// Returns the operation whose outcome is recorded as entry `seq` and not delivered.
    pub(super) fn settled_as(&mut self, seq: u64) -> Option<&mut Op> {
        let is_it = |op: &&mut Op| matches!(op.phase, OpPhase::Settled { seq: own, .. } if own == seq);
        self.slots.iter_mut().flatten().find(is_it)
    }

    // ---- timers ----

    /// Sets the time at which an operation continues by itself.
    pub(super) fn set_timer(&mut self, slot: Slot, due: Timestamp) {
        self.clear_timer(slot);
        if let Some(op) = self.get_mut(slot) {
            op.timer = Some(due);
            self.timers.insert((due, slot));
        }
    }

    pub(super) fn clear_timer(&mut self, slot: Slot) {
        if let Some(due) = self.get_mut(slot).and_then(|op| op.timer.take()) {
            self.timers.remove(&(due, slot));
        }
    }

    /// Returns the timers in the order in which they are due.
    pub(super) fn timers(&self) -> impl Iterator<Item = (Timestamp, Slot)> {
        self.timers.iter().copied()
    }

    /// Takes the first timer that is due, and returns its operation.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<Slot> {
        let &(due, slot) = self.timers.first().filter(|(due, _)| *due <= now)?;
        self.timers.remove(&(due, slot));
        self.get_mut(slot).into_iter().for_each(|op| op.timer = None);
        Some(slot)
    }
}
