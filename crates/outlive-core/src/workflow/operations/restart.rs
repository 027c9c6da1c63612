//! Restarts: the end of a journal, and what the next one begins with.

use crate::payload::Payload;
use crate::restart::RestartRecord;
use crate::time::Timestamp;
use crate::workflow::op::OpPhase;
use crate::workflow::spec::Spec;

use super::Operations;
use super::cursor::OpCursor;

/// Begins a restart. It never becomes ready: the run ends here, unless user code drops the operation before it is quiet.
pub(super) fn begin(op: &mut OpCursor<'_>) {
    op.set_phase(OpPhase::Refused);
    op.ops.restarting = Some(op.slot);
}

/// Returns the input of the restart that has begun, if one has.
pub(in crate::workflow) fn input(ops: &Operations) -> Option<&Payload> {
    match ops.table.get(ops.restarting?)?.spec.as_ref()? {
        Spec::Restart(input) => Some(input),
        _ => None,
    }
}

/// Records a restart, with all that the next run needs. The outcomes of children that nobody has waited for are dropped:
/// the next run cannot wait for them.
pub(in crate::workflow) fn record(ops: &mut Operations, input: Payload, now: Timestamp) {
    let mut restart = RestartRecord::new(input);
    if let Some(signals) = ops.inbox.signals() {
        restart.signals = signals.to_carry();
        for (pos, child) in signals.ended_children() {
            ops.recorder.take_message(pos);
            ops.children.ended(&child);
        }
    }
    restart.children = ops.children.to_carry();
    restart.dead = ops.dead.clone();
    let run_number = ops.run_number.saturating_add(1);
    ops.recorder.push_restart(restart.to_entry(0, now, run_number));
}
