//! What happens to attempts besides starting and ending: heartbeats, appends, and changes of their breakers.

use crate::output::AppendedBy;
use crate::payload::Payload;
use crate::time::Timestamp;
use crate::workflow::Slot;
use crate::workflow::care::{BreakerNotice, HeartbeatSource};

use super::{Operations, gate, heartbeat, output};

/// The heartbeats, breakers and streams of a run's attempts.
pub struct AttemptCare<'a> {
    ops: &'a mut Operations,
}

impl<'a> AttemptCare<'a> {
    pub(in crate::workflow) fn of(ops: &'a mut Operations) -> Self {
        Self { ops }
    }

    /// Accepts a heartbeat of a running attempt. Returns `false` if the attempt is not running.
    pub fn heartbeat(self, source: &HeartbeatSource, value: Payload, now: Timestamp) -> bool {
        heartbeat::accept(self.ops, source, value, now)
    }

    /// Returns the last heartbeat of a step that was recorded.
    #[must_use]
    pub fn progress(self, slot: Slot) -> Option<&'a Payload> {
        heartbeat::progress(self.ops, slot)
    }

    /// Notes that an attempt is about to append something to a stream. Returns `false` if that attempt is over.
    pub fn appends(self, slot: Slot, origin: &AppendedBy) -> bool {
        output::appends(self.ops, slot, origin)
    }

    /// Has an attempt that its breaker holds back ask again at the next [`act`](crate::workflow::Machine::act).
    pub fn ask_again(self, slot: Slot) {
        gate::ask_again(self.ops, slot);
    }

    /// Takes the changes of breakers that attempts of this run have caused.
    #[must_use]
    pub fn take_notices(self) -> Vec<BreakerNotice> {
        std::mem::take(&mut self.ops.notices)
    }
}
