//! Outputs: what a run publishes, appends and replies, in the commit of the entry that records it.

use crate::journal::EntryKind;
use crate::output::{AnswerRecord, AppendedBy, OutputContent, OutputWrite};
use crate::store::commit::Write;
use crate::time::Timestamp;
use crate::workflow::Slot;
use crate::workflow::op::{Op, OpPhase};
use crate::workflow::spec::Outcome;

use super::Operations;

/// Returns the kind of entry that records an output, and what the entry keeps of it. Items are kept in their stream
/// only.
pub(super) fn recorded(content: &OutputContent) -> (EntryKind, Outcome) {
    let (kind, kept) = match content {
        OutputContent::Value { payload, .. } => (EntryKind::Published, Some(payload.clone())),
        OutputContent::Answer { payload, .. } => (EntryKind::Answered, Some(payload.clone())),
        OutputContent::Item { .. } | OutputContent::AttemptEnd { .. } => (EntryKind::Appended, None),
    };
    (kind, Outcome::Given(kept))
}

/// Records how an attempt ended that has appended something, together with its entry.
pub(super) fn end_attempt(ops: &mut Operations, slot: Slot, kind: EntryKind, now: Timestamp) {
    let is_kept = match kind {
        EntryKind::StepDone => true,
        EntryKind::AttemptFailed | EntryKind::StepFailed | EntryKind::FallingBack | EntryKind::OpCancelled => false,
        _ => return,
    };
    let Some(Op { phase: OpPhase::Working { attempt, .. }, key, has_appended, .. }) = ops.table.get_mut(slot) else {
        return;
    };
    let origin = AppendedBy { op: key.clone(), attempt: *attempt };
    *has_appended = false;
    send_end(ops, origin, is_kept, now);
}

/// Records that an attempt was given up because its step was dropped. This goes with the next commit; without one, the
/// run ends or pauses, which shows it too.
pub(super) fn abandon(ops: &mut Operations, slot: Slot) {
    let Some(op) = ops.table.get(slot) else { return };
    if let OpPhase::Working { attempt, started } = op.phase {
        let origin = AppendedBy { op: op.key.clone(), attempt };
        send_end(ops, origin, false, started);
    }
}

fn send_end(ops: &mut Operations, origin: AppendedBy, is_kept: bool, at: Timestamp) {
    let end = OutputWrite::carried(OutputContent::AttemptEnd { origin, is_kept }, at, 0);
    ops.recorder.send([Write::Output(end.into())]);
}

/// Lets the asker know that no wait could read the question.
pub(super) fn refuse_question(ops: &mut Operations, question: u64, problem: String, now: Timestamp) {
    let payload = AnswerRecord::Unreadable(problem).to_payload();
    let answer = OutputWrite::carried(OutputContent::Answer { question, payload }, now, 0);
    ops.recorder.send([Write::Output(answer.into())]);
}

/// Notes that an attempt of a step is about to append something. Returns `false` if that attempt is over.
pub(super) fn appends(ops: &mut Operations, slot: Slot, origin: &AppendedBy) -> bool {
    let is_it = |op: &&mut Op| {
        op.key == origin.op && matches!(op.phase, OpPhase::Working { attempt, .. } if attempt == origin.attempt)
    };
    let Some(op) = ops.table.get_mut(slot).filter(is_it) else { return false };
    op.has_appended = true;
    true
}
