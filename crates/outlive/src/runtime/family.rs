//! Parents and children: what the end of a run means for others.

use outlive_core::child::ChildOutcome;
use outlive_core::id::Name;
use outlive_core::message::Message;
use outlive_core::store::commit::{NewState, SendWrite, Write};
use outlive_core::workflow::Machine;

use crate::instance::info::Info;

/// Returns what is sent with the commit that ends a run: its parent learns of its outcome, and its attached children are
/// cancelled or terminated.
pub(crate) fn notices(info: &Info, machine: &Machine, state: &NewState) -> Vec<Write> {
    let message = match machine.inbox().terminate_reason() {
        Some(reason) => Message::Terminate { reason: format!("its parent was terminated: {reason}") },
        None => Message::Cancel { reason: format!("its parent has ended: {}", state.status) },
    };
    let mut writes = machine.end_children(&message, state.at);
    writes.extend(to_parent(info, state, machine.recorder().seq()));
    writes
}

/// Returns the message by which the parent of a run learns of its outcome. `seq` is the last number of its journal.
pub(crate) fn to_parent(info: &Info, state: &NewState, seq: u64) -> Option<Write> {
    let parent = info.parent.as_deref()?;
    let outcome = ChildOutcome::of(state.status, state.outcome.as_ref(), state.note.as_deref())?;
    let token = info.seed.wrapping_add(seq);
    let send = SendWrite::child_ended(parent, &Name::recorded(&info.id), &outcome, token, state.at);
    Some(Write::Message(send))
}
