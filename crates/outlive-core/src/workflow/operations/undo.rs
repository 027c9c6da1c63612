//! Undos: planning them with the success they belong to, and the point from which on a run only undoes.

use crate::journal::EntryKind;
use crate::message::Message;
use crate::payload::Payload;
use crate::workflow::Slot;
use crate::workflow::op::OpPhase;
use crate::workflow::spec::{OpKind, Outcome, Spec};
use crate::workflow::undos;

use super::Operations;
use super::cursor::OpCursor;

/// Records that the run unwinds, and asks its attached children to end.
pub(super) fn unwind(op: &mut OpCursor<'_>) {
    let Some(Spec::Unwind(reason)) = op.spec() else { return };
    let reason = Payload::encode(reason).unwrap_or_else(|_| Payload::recorded("\"\""));
    op.settle(EntryKind::Unwinding, Outcome::Unwinding(reason));
    let message = Message::Cancel { reason: "its parent undoes what it has done".to_owned() };
    let notices = op.ops.children.end_all(&message, op.ops.seed, op.ops.recorder.seq(), op.now);
    op.ops.recorder.send(notices);
}

impl Operations {
    /// Returns the value of an operation that has succeeded and was not consumed, with the number of its outcome: what an
    /// undo of it is given.
    #[must_use]
    pub fn undoable(&self, slot: Slot) -> Option<(u64, Payload)> {
        let op = self.table.get(slot)?;
        let (OpPhase::Settled { seq, outcome, .. } | OpPhase::Delivered { seq, outcome }) = &op.phase else {
            return None;
        };
        let kind = if op.kind == OpKind::Result { EntryKind::ChildEnded } else { EntryKind::StepDone };
        Some((*seq, undos::value_of(kind, outcome)?))
    }
}
