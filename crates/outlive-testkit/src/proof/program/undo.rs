//! Derives which undos a run must have run, from its journal.

use std::collections::BTreeSet;

use outlive::{EntryKind, Status};

use crate::simulate::EndedRun;

/// Checks that a run has undone what it has done, last first, if it failed or was cancelled, and only then.
pub(crate) fn check_undos(run: &EndedRun) -> Result<(), String> {
    // A restart leaves behind what could be undone before it.
    let last = run.journal.iter().rposition(|entry| entry.kind == EntryKind::Restarted).unwrap_or(0);
    let journal = &run.journal[last..];
    let of_kind = |kind| journal.iter().filter(move |entry| entry.kind == kind);
    let planned: Vec<_> = of_kind(EntryKind::UndoPlanned).map(|entry| &*entry.op).collect();
    let is_undo: BTreeSet<_> = planned.iter().copied().collect();
    let done: Vec<_> = of_kind(EntryKind::StepDone).map(|entry| &*entry.op).filter(|op| is_undo.contains(op)).collect();
    let unplanned: Vec<_> = of_kind(EntryKind::StepDone).filter(|entry| !is_planned(run, &entry.op)).collect();
    if let Some(entry) = unplanned.first() {
        return Err(format!("{} was undone, which was not planned", entry.op));
    }
    let is_undone = done.iter().eq(planned.iter().rev());
    match run.status {
        Status::Completed if done.is_empty() => Ok(()),
        Status::Failed | Status::Cancelled if is_undone => Ok(()),
        status => Err(format!("it is {status}, planned to undo {planned:?}, and undid {done:?}")),
    }
}

/// Returns `true` if an operation is no undo, or one that was planned before.
fn is_planned(run: &EndedRun, op: &str) -> bool {
    let is_plan = |kind: EntryKind| kind == EntryKind::UndoPlanned;
    !op.contains("undo:") || run.journal.iter().any(|entry| is_plan(entry.kind) && &*entry.op == op)
}
