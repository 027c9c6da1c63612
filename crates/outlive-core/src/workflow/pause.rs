//! Sleeps and waits: how they begin, and how signals find them.

use crate::journal::EntryKind;
use crate::mutant::{Mutant, is_on};
use crate::payload::Payload;
use crate::time::Timestamp;

use super::op::{Outcome, Phase, Spec};
use super::{Machine, Slot, record};

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
        if let Some((pos, payload)) = self.take_signal(slot, name, now) {
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
        // Most runs wait for nothing, or nothing has come for them.
        let names: Vec<_> = self.waiting.keys().filter(|name| self.signals.has(name)).cloned().collect();
        for name in names {
            while let Some(slot) = self.waiting.get(&name).and_then(|slots| slots.first().copied()) {
                let Some((pos, payload)) = self.take_signal(slot, &name, now) else { break };
                self.waiting.entry(name.clone()).or_default().remove(0);
                bound.push((slot, pos, payload));
            }
        }
        // In order of arrival, whatever their names: that is the order in which they would have come one by one.
        bound.sort_by_key(|(_, pos, _)| *pos);
        for (slot, pos, payload) in bound {
            self.bind(slot, pos, payload, now);
        }
    }

    /// The first signal of a name that a wait can read. Those before it that it cannot are dead letters from here on.
    fn take_signal(&mut self, slot: Slot, name: &str, now: Timestamp) -> Option<(u64, Payload)> {
        let Some(Spec::Wait { accepts, .. }) = self.op(slot).and_then(|op| op.spec.as_ref()) else { return None };
        let accepts = *accepts;
        loop {
            let (pos, payload) = self.signals.take(name)?;
            let Err(problem) = accepts(&payload) else { return Some((pos, payload)) };
            self.outgoing.taken.push(pos);
            self.push(slot, EntryKind::SignalRefused, now, |entry| {
                entry.payload = Some(record::refused_to(&payload, &problem));
                entry.due = Some(record::signal_mark(pos));
            });
        }
    }
}
