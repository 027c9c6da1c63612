//! One outstanding operation at a moment: what all kinds of operations do.

use crate::journal::{Entry, EntryKind};
use crate::time::Timestamp;
use crate::workflow::Slot;
use crate::workflow::op::{Op, OpPhase};
use crate::workflow::spec::{Outcome, Spec};
use crate::workflow::{record, undos};

use super::{Operations, output};

/// An operation that is advanced, among all others of its run, and the time.
pub(super) struct OpCursor<'a> {
    pub(super) ops: &'a mut Operations,
    pub(super) slot: Slot,
    pub(super) now: Timestamp,
}

impl<'a> OpCursor<'a> {
    pub(super) fn new(ops: &'a mut Operations, slot: Slot, now: Timestamp) -> Self {
        Self { ops, slot, now }
    }

    pub(super) fn get(&self) -> Option<&Op> {
        self.ops.table.get(self.slot)
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut Op> {
        self.ops.table.get_mut(self.slot)
    }

    pub(super) fn spec(&self) -> Option<&Spec> {
        self.get()?.spec.as_ref()
    }

    pub(super) fn set_phase(&mut self, phase: OpPhase) {
        self.ops.table.set_phase(self.slot, phase);
    }

    pub(super) fn set_timer(&mut self, due: Timestamp) {
        self.ops.table.set_timer(self.slot, due);
    }

    pub(super) fn clear_timer(&mut self) {
        self.ops.table.clear_timer(self.slot);
    }

    /// Lets the operation wait for a time at which it continues by itself.
    pub(super) fn arm(&mut self, due: Timestamp) {
        self.set_phase(OpPhase::Armed);
        self.set_timer(due);
    }

    /// Has the operation polled again.
    pub(super) fn wake(&mut self) {
        self.ops.wakes.push(self.slot);
    }

    /// Wakes an operation that still has a body, because the body is dropped when the operation is polled.
    pub(super) fn drop_body(&mut self) {
        if self.get().is_some_and(Op::is_working) {
            self.wake();
        }
    }

    /// Records the outcome, which gives it a delivery number.
    pub(super) fn settle(&mut self, kind: EntryKind, outcome: Outcome) {
        self.clear_timer();
        if let Some(signals) = self.ops.inbox.signals_mut()
            && let Some(name) = self.ops.table.get(self.slot).and_then(|op| op.spec.as_ref()?.awaited())
        {
            signals.stop_waiting(name, self.slot);
        }
        if self.ops.undos.are_used() {
            self.settle_undos(kind, &outcome);
        }
        self.push(kind, |entry| match &outcome {
            Outcome::Value(payload) => entry.payload = Some(payload.clone()),
            Outcome::Failed(failed) => entry.payload = Some(record::failed_to(failed)),
            Outcome::Signal { pos, payload } => {
                entry.payload = Some(payload.clone());
                entry.due = Some(record::signal_mark(*pos));
            }
            Outcome::Sent(to) => entry.payload = Some(to.to_payload()),
            Outcome::Given(payload) => entry.payload.clone_from(payload),
            Outcome::Refused(refused) => entry.payload = Some(refused.to_payload()),
            Outcome::Unwinding(reason) => entry.payload = Some(reason.clone()),
            Outcome::Slept | Outcome::TimedOut | Outcome::Patched(_) | Outcome::Cancelled => {}
        });
        let seq = self.ops.recorder.seq();
        self.set_phase(OpPhase::Settled { seq, at: self.now, outcome });
        self.ops.deliveries.add(seq, self.slot);
    }

    /// Called before the outcome is recorded. If the operation succeeds, its undos are recorded first: the outcome is the
    /// last entry, by whose number it is known.
    fn settle_undos(&mut self, kind: EntryKind, outcome: &Outcome) {
        let Some((key, site)) = self.get().map(|op| (op.key.clone(), op.site.clone())) else { return };
        if undos::value_of(kind, outcome).is_some() {
            for (undo, payload) in self.ops.undos.plan(self.slot, &site) {
                self.ops.recorder.push(EntryKind::UndoPlanned, &undo, &site, self.now).payload = Some(payload);
            }
        }
        let seq = self.ops.recorder.seq() + 1;
        self.ops.undos.ended(&key, kind, seq);
    }

    /// Appends an entry about the operation, with its current attempt.
    pub(super) fn push(&mut self, kind: EntryKind, fill: impl FnOnce(&mut Entry)) {
        let Some(op) = self.ops.table.get(self.slot) else { return };
        let entry = self.ops.recorder.push(kind, &op.key, &op.site, self.now);
        (entry.attempt, entry.started) = match op.phase {
            OpPhase::Working { attempt, started } | OpPhase::Starting { attempt, started, .. } => {
                (attempt, Some(started))
            }
            OpPhase::FallingBack { attempt, started, .. } => (attempt, Some(started)),
            _ => (op.record.failed, None),
        };
        fill(entry);
        if self.get().is_some_and(|op| op.has_appended) {
            output::end_attempt(self.ops, self.slot, kind, self.now);
        }
    }
}
