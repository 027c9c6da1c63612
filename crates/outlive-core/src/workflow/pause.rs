//! Sleeps and waits: how they begin, and how signals find them.

use crate::journal::EntryKind;
use crate::mutant::{Mutant, is_on};
use crate::payload::Payload;
use crate::time::Timestamp;

use super::op::{Outcome, Phase};
use super::{Machine, Slot};

impl Machine {
    pub(super) fn begin_sleep(&mut self, slot: Slot, due: Timestamp, now: Timestamp) {
        let recorded = self.op(slot).and_then(|op| op.record.due).filter(|_| !is_on(Mutant::SleepRearmed));
        if recorded.is_none() && due > now {
            self.push(slot, EntryKind::SleepSet, now, |entry| entry.due = Some(due));
        }
        // Also if it is overdue: what is due before it goes first.
        self.arm(slot, recorded.unwrap_or(due));
    }

    pub(super) fn begin_wait(&mut self, slot: Slot, name: &str, limit: Option<Timestamp>, now: Timestamp) {
        let recorded = self.op(slot).and_then(|op| op.record.due).filter(|_| !is_on(Mutant::WaitRearmed));
        if let Some((pos, payload)) = self.signals.take(name) {
            return self.bind(slot, pos, payload, now);
        }
        match self.waiting.get_mut(name) {
            Some(slots) => slots.push(slot),
            None => {
                self.waiting.insert(name.into(), vec![slot]);
            }
        }
        match (recorded, limit) {
            (Some(due), _) => self.arm(slot, due),
            (None, Some(due)) => {
                self.push(slot, EntryKind::WaitSet, now, |entry| entry.due = Some(due));
                self.arm(slot, due);
            }
            (None, None) => self.set_phase(slot, Phase::Listening),
        }
    }

    fn bind(&mut self, slot: Slot, pos: u64, payload: Payload, now: Timestamp) {
        self.outgoing.taken.push(pos);
        let outcome = Outcome::Signal { pos, payload };
        self.settle(slot, EntryKind::SignalTaken, outcome, now);
        self.signals.give(pos, self.seq);
    }

    pub(super) fn bind_signals(&mut self, now: Timestamp) {
        let mut bound = Vec::new();
        for (name, slots) in &mut self.waiting {
            while !slots.is_empty() {
                let Some((pos, payload)) = self.signals.take(name) else { break };
                bound.push((slots.remove(0), pos, payload));
            }
        }
        // In order of arrival, whatever their names: that is the order in which they would have come one by one.
        bound.sort_by_key(|(_, pos, _)| *pos);
        for (slot, pos, payload) in bound {
            self.bind(slot, pos, payload, now);
        }
    }
}
