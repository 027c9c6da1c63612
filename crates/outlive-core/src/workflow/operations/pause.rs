//! The pause of a run: its status, when it ends by itself, and which operations the run waits for.

use crate::status::Status;
use crate::time::Timestamp;
use crate::workflow::Slot;
use crate::workflow::op::{Asked, OpPhase};
use crate::workflow::spec::OpKind;

use super::Operations;

/// What a [quiet](Operations::is_quiet) run waits for.
pub struct Pause<'a> {
    ops: &'a Operations,
}

impl<'a> Pause<'a> {
    pub(in crate::workflow) fn of(ops: &'a Operations) -> Self {
        Self { ops }
    }

    /// Returns the status of the run.
    #[must_use]
    pub fn status(&self) -> Status {
        if self.ops.inbox.is_held() {
            return Status::Paused;
        }
        let Some((due, slot)) = self.first() else {
            return Status::Waiting { until: None };
        };
        let op = self.ops.table.get(slot);
        let is_held = op.and_then(|op| op.record.care.as_ref()).is_some_and(|care| care.held.is_some());
        match op.map(|op| op.kind) {
            Some(OpKind::Sleep) => Status::Sleeping { until: due },
            Some(OpKind::Step | OpKind::Undo) if !is_held => Status::Retrying { at: due },
            _ => Status::Waiting { until: Some(due) },
        }
    }

    /// Returns the time of the next timer, or the deadline of the run if that comes first. If a body is running, the timer
    /// may be its timeout. A run that is paused by hand has only its deadline.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let timer = self.first().filter(|_| !self.ops.inbox.is_held()).map(|(due, _)| due);
        [timer, self.ops.next_deadline()].into_iter().flatten().min()
    }

    /// Returns `true` if neither time nor a signal can resume the run: it has no timer and no wait, and is not paused
    /// by hand.
    #[must_use]
    pub fn is_forsaken(&self) -> bool {
        self.first().is_none() && !self.ops.inbox.is_held() && self.waits().next().is_none()
    }

    /// Returns the operations that the run waits for: timers by due time, then waits without a timeout, at most `max`
    /// of each. The flag is `true` if there are more.
    #[must_use]
    pub fn awaited(&self, max: usize) -> (Vec<Asked>, bool) {
        let table = &self.ops.table;
        let listening = |slot: &Slot| matches!(table.phase(*slot), Some(OpPhase::Listening));
        let timed = table.timers().map(|(_, slot)| slot);
        let untimed = self.waits().filter(listening);
        let mut has_more = false;
        let mut found = Vec::new();
        for slots in [timed.take(max + 1).collect::<Vec<_>>(), untimed.take(max + 1).collect()] {
            has_more |= slots.len() > max;
            found.extend(slots.iter().take(max).filter_map(|slot| table.get(*slot)).map(Asked::of));
        }
        (found, has_more)
    }

    fn first(&self) -> Option<(Timestamp, Slot)> {
        self.ops.table.timers().next()
    }

    fn waits(&self) -> impl Iterator<Item = Slot> {
        self.ops.inbox.signals().into_iter().flat_map(|signals| signals.waits())
    }
}
