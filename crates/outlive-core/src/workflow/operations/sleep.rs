//! Sleeps: the due time is recorded once, and kept across restarts.

use crate::journal::EntryKind;
use crate::time::Timestamp;
use crate::workflow::spec::Outcome;

use super::cursor::OpCursor;

/// Sets a sleep.
pub(super) fn begin(sleep: &mut OpCursor<'_>, due: Timestamp) {
    let recorded = sleep.get().and_then(|op| op.record.due);
    if recorded.is_none() && due > sleep.now {
        sleep.push(EntryKind::SleepSet, |entry| entry.due = Some(due));
    }
    // Even if it is overdue: timers that are due earlier fire first.
    sleep.arm(recorded.unwrap_or(due));
}

/// Ends a sleep.
pub(super) fn due(sleep: &mut OpCursor<'_>) {
    sleep.settle(EntryKind::SleepDone, Outcome::Slept);
}
