//! Undos: planning them with the success they belong to, and the point from which on a run only undoes.

use crate::child::ChildOutcome;
use crate::journal::EntryKind;
use crate::message::Message;
use crate::payload::Payload;
use crate::workflow::Slot;
use crate::workflow::op::OpPhase;
use crate::workflow::spec::{OpKind, Outcome, Spec};

use super::Operations;
use super::cursor::OpCursor;

/// Records that the run unwinds, and asks its attached children to end.
pub(super) fn unwind(op: &mut OpCursor<'_>) {
    let Some(Spec::Unwind(reason)) = op.spec() else { return };
    let reason = Payload::encode(reason).unwrap_or_else(|_| Payload::recorded("\"\""));
    op.settle(EntryKind::Unwinding, Outcome::Unwinding(reason));
    let message = Message::Cancel { reason: "its parent undoes what it has done".to_owned() };
    let notices = op.ops.end_children(&message, op.now);
    op.ops.recorder.send(notices);
}

/// Called before the outcome of an operation is recorded. If it succeeds, its undos are recorded first: the outcome is the
/// last entry, by whose number it is known.
pub(super) fn settling(op: &mut OpCursor<'_>, kind: EntryKind, outcome: &Outcome) {
    let Some((key, site)) = op.get().map(|op| (op.key.clone(), op.site.clone())) else { return };
    if value_of(kind, outcome).is_some() {
        for (undo, payload) in op.ops.undos.plan(op.slot, &site) {
            op.ops.recorder.push(EntryKind::UndoPlanned, &undo, &site, op.now).payload = Some(payload);
        }
    }
    let seq = op.ops.recorder.seq() + 1;
    op.ops.undos.ended(&key, kind, seq);
}

/// Returns the value that an undo is given, if the operation has succeeded.
fn value_of(kind: EntryKind, outcome: &Outcome) -> Option<Payload> {
    match (kind, outcome) {
        (EntryKind::StepDone, Outcome::Value(value)) => Some(value.clone()),
        (EntryKind::ChildEnded, Outcome::Signal { payload, .. }) => match ChildOutcome::from_payload(payload) {
            Ok(ChildOutcome::Completed(value)) => Some(value),
            _ => None,
        },
        _ => None,
    }
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
        Some((*seq, value_of(kind, outcome)?))
    }
}
