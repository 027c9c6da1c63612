//! Control messages of a run: cancel, pause, resume and discard.

use crate::journal::EntryKind;
use crate::message::Message;
use crate::payload::Payload;
use crate::time::Timestamp;
use crate::workflow::Slot;
use crate::workflow::op::{Op, OpPhase};
use crate::workflow::spec::{OpKind, Outcome};

use super::Operations;

/// The reason for which a run is cancelled at its deadline.
pub const DEADLINE_PASSED: &str = "its deadline has passed";

impl Operations {
    /// Takes the control messages in order of arrival, and cancels the run if its deadline has passed.
    pub(in crate::workflow) fn take_controls(&mut self, now: Timestamp) {
        while let Some((pos, message)) = self.inbox.next_control() {
            match message {
                Message::Cancel { reason } if self.inbox.cancel_reason().is_none() => {
                    self.inbox.release();
                    if self.has_next() || self.recorder.has_effects() {
                        // Recorded outcomes are delivered first, and what may be refused is a child only once it is
                        // durable; then the cancel is taken.
                        return self.inbox.put_back(pos, Message::Cancel { reason });
                    }
                    self.recorder.take_message(pos);
                    take_cancel(self, reason, now);
                    continue;
                }
                Message::Discard { seq } => {
                    self.recorder.take_message(pos);
                    let entry = self.recorder.push_of_run(EntryKind::SignalDiscarded, now);
                    entry.due = Some(Timestamp::from_millis(i64::try_from(seq).unwrap_or(i64::MAX)));
                    self.past.dead.retain(|dead| dead.seq != seq);
                    continue;
                }
                Message::Pause => self.inbox.hold(),
                Message::Resume => self.inbox.release(),
                _ => {}
            }
            self.inbox.control_done(pos);
        }
        if self.next_deadline().is_some_and(|deadline| deadline <= now) && !self.has_next() {
            self.inbox.release();
            take_cancel(self, DEADLINE_PASSED.to_owned(), now);
        }
    }

    /// Returns the deadline of the run, unless it is being cancelled or its function has returned.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let is_ending = self.undos.is_unwinding() || self.undos.has_unwound();
        self.deadline.filter(|_| self.inbox.cancel_reason().is_none() && !is_ending)
    }
}

/// Cancels every polled operation without an outcome, in order of identity, and the attached children. Steps that begin
/// later can clean up, and an undo continues.
fn take_cancel(ops: &mut Operations, reason: String, now: Timestamp) {
    ops.recorder.push_of_run(EntryKind::CancelTaken, now).payload = Payload::encode(&reason).ok();
    let to_children = Message::Cancel { reason: format!("its parent was cancelled: {reason}") };
    let notices = ops.children.end_all(&to_children, ops.seed, ops.recorder.seq(), now);
    ops.recorder.send(notices);
    ops.inbox.set_cancel(reason);
    let open = |op: &Op| {
        !matches!(op.phase, OpPhase::Called | OpPhase::Settled { .. } | OpPhase::Delivered { .. } | OpPhase::Refused)
    };
    let is_unwinding = ops.undos.is_unwinding();
    let is_shielded = |op: &Op| is_unwinding || matches!(op.kind, OpKind::Undo | OpKind::Unwind);
    let open_ops = ops.table.iter().filter(|(_, op)| open(op) && !is_shielded(op));
    let mut outstanding: Vec<_> = open_ops.map(|(slot, op)| (op.key.clone(), slot)).collect();
    outstanding.sort();
    for (_, slot) in outstanding {
        let mut op = ops.at(slot, now);
        op.drop_body();
        op.settle(EntryKind::OpCancelled, Outcome::Cancelled);
    }
    let table = &ops.table;
    let is_left = |slot: &Slot| table.get(*slot).is_some_and(is_shielded);
    ops.idle.retain(is_left);
    ops.starting.retain(is_left);
}
