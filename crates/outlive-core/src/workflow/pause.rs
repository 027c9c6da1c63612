//! Sleeps and waits: starting them, binding signals, and looking ahead in a shadow machine.

use crate::journal::EntryKind;
use crate::payload::Payload;
use crate::time::Timestamp;

use super::op::OpPhase;
use super::spec::{Outcome, Spec};
use super::{Machine, Mode, Slot, record};

impl Machine {
    /// Moves a shadow machine past its frontier, as far as the future is known: binds received signals to the waits
    /// that expect them, or else ends the sleep that is due first. Returns `false` if a step, or a signal that has not
    /// arrived, decides what comes next.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let now = Timestamp::from_millis(1);
    /// let mut copy = Machine::new(Mode::Shadow, 7, now, &[]).unwrap();
    /// let slot = copy.open(OpKind::Sleep, "sleep".into(), "src/shop.rs:12".into());
    /// copy.begin(slot, Spec::SleepUntil(Timestamp::MAX));
    /// assert_eq!(copy.deliver(), None);
    /// assert!(copy.foresee(now));
    /// assert_eq!(copy.deliver(), Some(slot), "the code continues after the sleep");
    /// ```
    pub fn foresee(&mut self, now: Timestamp) -> bool {
        if self.mode == Mode::Live || !self.may_deliver() || self.is_over() || self.has_next() {
            return false;
        }
        let mut idle = std::mem::take(&mut self.frontier.idle);
        let asked = idle.len();
        idle.retain(|slot| {
            let Some(Spec::Wait { name, .. }) = self.ops.get(*slot).and_then(|op| op.spec.as_ref()) else {
                return true;
            };
            let name = name.clone();
            let taken = self.inbox.as_mut().and_then(|inbox| inbox.signals.take(name.as_str()));
            let Some((pos, payload)) = taken else { return true };
            self.bind(*slot, pos, payload, now);
            false
        });
        if idle.len() == asked
            && let Some((due, slot)) = self.first_of_sleeps(&idle, now)
        {
            self.settle(slot, EntryKind::SleepDone, Outcome::Slept, due);
            idle.retain(|other| *other != slot);
        }
        let has_moved = idle.len() < asked;
        self.frontier.idle = idle;
        self.recorder.set_durable(self.recorder.seq());
        has_moved
    }

    /// Returns the sleep that is due first, if all idle operations are sleeps.
    fn first_of_sleeps(&self, idle: &[Slot], now: Timestamp) -> Option<(Timestamp, Slot)> {
        let due = |slot: Slot| {
            let op = self.ops.get(slot)?;
            let due = match op.spec.as_ref()? {
                Spec::SleepFor(duration) => now.after(*duration),
                Spec::SleepUntil(due) => *due,
                Spec::Step(_) | Spec::Wait { .. } => return None,
            };
            Some((op.record.due.unwrap_or(due), slot))
        };
        let dues: Option<Vec<_>> = idle.iter().map(|slot| due(*slot)).collect();
        dues?.into_iter().min()
    }

    pub(super) fn begin_sleep(&mut self, slot: Slot, due: Timestamp, now: Timestamp) {
        let recorded = self.ops.get(slot).and_then(|op| op.record.due);
        if recorded.is_none() && due > now {
            self.push(slot, EntryKind::SleepSet, now, |entry| entry.due = Some(due));
        }
        // Even if it is overdue: timers that are due earlier fire first.
        self.arm(slot, recorded.unwrap_or(due));
    }

    pub(super) fn begin_wait(&mut self, slot: Slot, name: &str, limit: Option<Timestamp>, now: Timestamp) {
        let recorded = self.ops.get(slot).and_then(|op| op.record.due);
        // A signal that this wait cannot read may be meant for a wait that begins next, so it is examined again once
        // all have begun.
        if self.inbox.as_ref().is_some_and(|inbox| {
            inbox.waiting.get(name).is_none_or(Vec::is_empty)
                && inbox.signals.first(name).is_some_and(|payload| self.accepts(slot, payload).is_ok())
        }) && let Some((pos, payload)) = self.inbox_mut().signals.take(name)
        {
            return self.bind(slot, pos, payload, now);
        }
        self.inbox_mut().wait(name, slot);
        match (limit, recorded) {
            // Even if a timeout is recorded: a deploy removed it.
            (None, _) => self.ops.set_phase(slot, OpPhase::Listening),
            (Some(_), Some(due)) => self.arm(slot, due),
            (Some(due), None) => {
                self.push(slot, EntryKind::WaitSet, now, |entry| entry.due = Some(due));
                self.arm(slot, due);
            }
        }
    }

    fn bind(&mut self, slot: Slot, pos: u64, payload: Payload, now: Timestamp) {
        self.recorder.take_message(pos);
        let outcome = Outcome::Signal { pos, payload };
        self.settle(slot, EntryKind::SignalTaken, outcome, now);
        let seq = self.recorder.seq();
        self.inbox_mut().signals.give(pos, seq);
    }

    pub(super) fn bind_signals(&mut self, now: Timestamp) {
        let Some(inbox) = &self.inbox else { return };
        let mut bound = Vec::new();
        // Most runs have no wait, or no signal for it.
        let names: Vec<_> = inbox.waiting.keys().filter(|name| inbox.signals.has(name)).cloned().collect();
        for name in names {
            while let Some((slot, pos, payload)) = self.match_signal(&name, now) {
                bound.push((slot, pos, payload));
            }
        }
        // In order of arrival across names: the order in which signals arriving one by one would have been bound.
        bound.sort_by_key(|(_, pos, _)| *pos);
        for (slot, pos, payload) in bound {
            self.bind(slot, pos, payload, now);
        }
    }

    /// Takes the first signal with this name that a wait can read, together with that wait. Earlier signals that no
    /// wait with the name can read become dead letters.
    fn match_signal(&mut self, name: &str, now: Timestamp) -> Option<(Slot, u64, Payload)> {
        loop {
            let inbox = self.inbox.as_ref()?;
            let slots = inbox.waiting.get(name)?;
            let first = *slots.first()?;
            let payload = inbox.signals.first(name)?;
            let accepting = slots.iter().position(|slot| self.accepts(*slot, payload).is_ok());
            if let Some(place) = accepting {
                let inbox = self.inbox.as_mut()?;
                let slot = inbox.waiting.get_mut(name)?.remove(place);
                let (pos, payload) = inbox.signals.take(name)?;
                return Some((slot, pos, payload));
            }
            let problem = self.accepts(first, payload).err().unwrap_or_default();
            let (pos, payload) = self.inbox.as_mut()?.signals.take(name)?;
            self.recorder.take_message(pos);
            self.push(first, EntryKind::SignalRefused, now, |entry| {
                entry.payload = Some(record::refused_to(&payload, &problem));
                entry.due = Some(record::signal_mark(pos));
            });
        }
    }

    /// Checks whether a wait can read a signal; the error says why not.
    fn accepts(&self, slot: Slot, payload: &Payload) -> Result<(), String> {
        match self.ops.get(slot).and_then(|op| op.spec.as_ref()) {
            Some(Spec::Wait { accepts, .. }) => accepts(payload),
            _ => Ok(()),
        }
    }
}
