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
    op.ops.past.restarting = Some(op.slot);
}

/// The restart of a run.
pub struct RunRestart<'a> {
    ops: &'a mut Operations,
}

impl<'a> RunRestart<'a> {
    pub(in crate::workflow) fn of(ops: &'a mut Operations) -> Self {
        Self { ops }
    }

    /// Returns the input with which user code restarts the run, once it has asked for that.
    #[must_use]
    pub fn input(self) -> Option<&'a Payload> {
        match self.ops.table.get(self.ops.past.restarting?)?.spec.as_ref()? {
            Spec::Restart(input) => Some(input),
            _ => None,
        }
    }

    /// Records a restart as the first entry of the next journal, with all that the next run takes along. The machine is
    /// of no use after that: a new one continues from that entry.
    ///
    /// The outcomes of children that nobody has waited for are dropped: the next run cannot wait for them.
    pub fn record(self, input: Payload, now: Timestamp) {
        let ops = self.ops;
        let mut restart = RestartRecord::new(input);
        if let Some(signals) = ops.inbox.signals() {
            restart.signals = signals.to_carry();
            for (pos, child) in signals.ended_children() {
                ops.recorder.take_message(pos);
                ops.children.ended(&child);
            }
        }
        restart.children = ops.children.to_carry();
        restart.dead = ops.past.dead.clone();
        let run_number = ops.past.run_number.saturating_add(1);
        ops.recorder.push_restart(restart.to_entry(0, now, run_number));
    }
}
