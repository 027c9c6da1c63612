//! Waits: beginning them, and binding signals to them.

use crate::journal::EntryKind;
use crate::output::QuestionKey;
use crate::payload::Payload;
use crate::time::Timestamp;
use crate::workflow::Slot;
use crate::workflow::op::OpPhase;
use crate::workflow::record;
use crate::workflow::spec::{Outcome, Spec};

use super::cursor::OpCursor;
use super::table::OpTable;
use super::{Operations, output};

/// Begins a wait, or ends it at once if there is a signal for it.
pub(super) fn begin(wait: &mut OpCursor<'_>, name: &str, limit: Option<Timestamp>) {
    let recorded = wait.get().and_then(|op| op.record.due);
    let Operations { table, inbox, .. } = &mut *wait.ops;
    // A signal that this wait cannot read may be meant for a wait that begins next, so it is examined again once all
    // have begun.
    if let Some(signals) = inbox.signals_mut()
        && signals.unawaited(name).is_some_and(|payload| accepts(table, wait.slot, payload).is_ok())
        && let Some((pos, payload)) = signals.take(name)
    {
        return bind(wait, pos, payload);
    }
    inbox.wait(name, wait.slot);
    match (limit, recorded) {
        // Even if a timeout is recorded: a deploy removed it.
        (None, _) => wait.set_phase(OpPhase::Listening),
        (Some(_), Some(due)) => wait.arm(due),
        (Some(due), None) => {
            wait.push(EntryKind::WaitSet, |entry| entry.due = Some(due));
            wait.arm(due);
        }
    }
}

/// Ends a wait whose timeout has passed.
pub(super) fn due(wait: &mut OpCursor<'_>) {
    wait.settle(EntryKind::WaitTimedOut, Outcome::TimedOut);
}

/// Ends a wait with a signal, or with the outcome of a child.
pub(super) fn bind(wait: &mut OpCursor<'_>, pos: u64, payload: Payload) {
    wait.ops.recorder.take_message(pos);
    let kind = match wait.ops.table.get(wait.slot).and_then(|op| op.spec.as_ref()) {
        Some(Spec::Result(child)) => {
            wait.ops.children.ended(child.id());
            EntryKind::ChildEnded
        }
        Some(Spec::Wait { name, .. }) if QuestionKey::name_in(name.as_str()).is_some() => EntryKind::QuestionTaken,
        _ => EntryKind::SignalTaken,
    };
    wait.settle(kind, Outcome::Signal { pos, payload });
    let seq = wait.ops.recorder.seq();
    wait.ops.inbox.signals_mut().into_iter().for_each(|signals| signals.give(pos, seq));
}

/// Gives signals to the waits for them, each to the one that asked first.
pub(super) fn bind_signals(ops: &mut Operations, now: Timestamp) {
    let Some(signals) = ops.inbox.signals() else { return };
    let mut bound = Vec::new();
    for name in signals.awaited_names() {
        while let Some((slot, pos, payload)) = match_signal(ops, &name, now) {
            bound.push((slot, pos, payload));
        }
    }
    // In order of arrival across names: the order in which signals arriving one by one would have been bound.
    bound.sort_by_key(|(_, pos, _)| *pos);
    for (slot, pos, payload) in bound {
        bind(&mut ops.at(slot, now), pos, payload);
    }
}

/// Takes the first signal with this name that a wait can read, together with that wait. Earlier signals that no wait
/// with the name can read become dead letters.
fn match_signal(ops: &mut Operations, name: &str, now: Timestamp) -> Option<(Slot, u64, Payload)> {
    loop {
        let signals = ops.inbox.signals_mut()?;
        let (slots, payload) = signals.candidates(name)?;
        let accepting = slots.iter().copied().find(|slot| accepts(&ops.table, *slot, payload).is_ok());
        if let Some(slot) = accepting {
            signals.stop_waiting(name, slot);
            let (pos, payload) = signals.take(name)?;
            return Some((slot, pos, payload));
        }
        let first = *slots.first()?;
        let problem = accepts(&ops.table, first, payload).err().unwrap_or_default();
        let (pos, payload) = signals.take(name)?;
        ops.recorder.take_message(pos);
        let mut refused = None;
        ops.at(first, now).push(EntryKind::SignalRefused, |entry| {
            entry.payload = Some(record::refused_to(&payload, &problem));
            entry.due = Some(record::signal_mark(pos));
            refused = Some(entry.clone());
        });
        ops.past.dead.extend(refused);
        if QuestionKey::name_in(name).is_some() {
            output::refuse_question(ops, pos, problem, now);
        }
    }
}

/// Checks whether a wait can read a signal; the error says why not.
fn accepts(table: &OpTable, slot: Slot, payload: &Payload) -> Result<(), String> {
    match table.get(slot).and_then(|op| op.spec.as_ref()) {
        Some(Spec::Wait { accepts, .. }) => accepts(payload),
        _ => Ok(()),
    }
}
