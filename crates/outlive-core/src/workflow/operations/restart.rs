//! Restarts: the end of a journal, and what the next one begins with.

use crate::payload::Payload;
use crate::restart::Restart;
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

impl Operations {
    /// Returns the input of the restart that has begun, if one has.
    pub(in crate::workflow) fn restart_input(&self) -> Option<&Payload> {
        match self.table.get(self.restarting?)?.spec.as_ref()? {
            Spec::Restart(input) => Some(input),
            _ => None,
        }
    }

    /// Records a restart, with all that the next run needs. The outcomes of children that nobody has waited for are
    /// dropped: the next run cannot wait for them.
    pub(in crate::workflow) fn record_restart(&mut self, input: Payload, now: Timestamp) {
        let mut restart = Restart::new(input);
        if let Some(signals) = self.inbox.signals() {
            restart.signals = signals.to_carry();
            for (pos, child) in signals.ended_children() {
                self.recorder.take_message(pos);
                self.children.ended(&child);
            }
        }
        restart.children = self.children.to_carry();
        restart.dead = self.dead.clone();
        let run_number = self.run_number.saturating_add(1);
        self.recorder.push_restart(restart.to_entry(0, now, run_number));
    }
}
