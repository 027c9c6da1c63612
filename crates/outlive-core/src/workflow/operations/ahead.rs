//! Looks ahead in a shadow machine: what is known to happen after the end of a journal.

use crate::journal::EntryKind;
use crate::time::Timestamp;
use crate::workflow::Slot;
use crate::workflow::spec::{Outcome, Spec};

use super::table::OpTable;
use super::{Operations, wait};

impl Operations {
    /// Takes patches, binds received signals to the waits that expect them, or else ends the sleep that is due first. Returns `false`
    /// if a step, or a signal that has not arrived, decides what comes next.
    pub(in crate::workflow) fn foresee(&mut self, now: Timestamp) -> bool {
        let mut idle = std::mem::take(&mut self.idle);
        let asked = idle.len();
        idle.retain(|slot| {
            if let Some(Spec::Patch) = self.table.get(*slot).and_then(|op| op.spec.as_ref()) {
                self.at(*slot, now).settle(EntryKind::Patched, Outcome::Patched(true));
                return false;
            }
            let Some(name) = self.table.get(*slot).and_then(|op| op.spec.as_ref()?.awaited()) else {
                return true;
            };
            let taken = self.inbox.signals_mut().and_then(|signals| signals.take(name));
            let Some((pos, payload)) = taken else { return true };
            wait::bind(&mut self.at(*slot, now), pos, payload);
            false
        });
        if idle.len() == asked
            && let Some((due, slot)) = first_of_sleeps(&self.table, &idle, now)
        {
            self.at(slot, due).settle(EntryKind::SleepDone, Outcome::Slept);
            idle.retain(|other| *other != slot);
        }
        let has_moved = idle.len() < asked;
        self.idle = idle;
        self.recorder.set_durable(self.recorder.seq());
        has_moved
    }
}

/// Returns the sleep that is due first, if all idle operations are sleeps.
fn first_of_sleeps(table: &OpTable, idle: &[Slot], now: Timestamp) -> Option<(Timestamp, Slot)> {
    let due = |slot: Slot| {
        let op = table.get(slot)?;
        let due = match op.spec.as_ref()? {
            Spec::SleepFor(duration) => now.after(*duration),
            Spec::SleepUntil(due) => *due,
            Spec::Step(_) | Spec::Wait { .. } | Spec::Effect(_) | Spec::Result(_) => return None,
            Spec::Patch | Spec::Restart(_) | Spec::Unwind(_) => return None,
        };
        Some((op.record.due.unwrap_or(due), slot))
    };
    let dues: Option<Vec<_>> = idle.iter().map(|slot| due(*slot)).collect();
    dues?.into_iter().min()
}
