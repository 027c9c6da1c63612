//! Heartbeats of a running attempt: recorded at most once a second, and missed when they do not come.
//!
//! A heartbeat that comes too soon after one that was recorded waits, and is replaced by the next. It is recorded when
//! the second is over, or with the failure of its attempt. What is recorded last is handed to the next attempt.

use std::time::Duration;

use crate::failure::Failure;
use crate::journal::EntryKind;
use crate::payload::Payload;
use crate::time::Timestamp;
use crate::workflow::Slot;
use crate::workflow::care::{Beat, HeartbeatSource};
use crate::workflow::op::{Op, OpPhase};

use super::Operations;
use super::cursor::OpCursor;

/// The least time between two recorded heartbeats of an attempt.
const INTERVAL: Duration = Duration::from_secs(1);

/// Accepts a heartbeat. Returns `false` if its attempt is no longer running.
pub(super) fn accept(ops: &mut Operations, source: &HeartbeatSource, value: Payload, now: Timestamp) -> bool {
    let mut step = ops.at(source.slot, now);
    let is_running = |op: &&mut Op| {
        op.key == source.op && matches!(op.phase, OpPhase::Working { attempt, .. } if attempt == source.attempt)
    };
    let Some(op) = step.get_mut().filter(is_running) else { return false };
    let care = op.record.care.get_or_insert_default();
    let beat = care.beat.get_or_insert(Beat { last: now, recorded: None, pending: None });
    (beat.last, beat.pending) = (now, Some(value));
    record_due(&mut step);
    set_timer(&mut step);
    true
}

/// Returns the last heartbeat of a step that was recorded.
pub(super) fn progress(ops: &Operations, slot: Slot) -> Option<&Payload> {
    ops.table.get(slot)?.record.care.as_ref()?.progress.as_ref()
}

/// Begins to listen to an attempt that starts now.
#[inline]
pub(super) fn begin(step: &mut OpCursor<'_>) {
    let now = step.now;
    let Some(op) = step.get_mut() else { return };
    if timeout(op).is_some() {
        op.record.care.get_or_insert_default();
    }
    let Some(care) = op.record.care.as_mut() else { return };
    let recorded = care.beat.take().and_then(|beat| beat.recorded);
    care.beat = Some(Beat { last: now, recorded, pending: None });
}

/// Returns when a running attempt needs attention: it has been silent for too long, or a heartbeat may be recorded.
pub(super) fn due(op: &Op) -> Option<Timestamp> {
    let beat = op.record.care.as_ref()?.beat.as_ref()?;
    let silent = timeout(op).map(|limit| beat.last.after(limit));
    let pending = beat.pending.as_ref().and(beat.recorded).map(|recorded| recorded.after(INTERVAL));
    [silent, pending].into_iter().flatten().min()
}

/// Records a pending heartbeat if a second has passed since the last one.
pub(super) fn record_due(step: &mut OpCursor<'_>) {
    let now = step.now;
    let beat = step.get().and_then(|op| op.record.care.as_ref()?.beat.as_ref());
    // A clock that was set back does not hold back heartbeats.
    let is_due = |recorded: Timestamp| recorded.after(INTERVAL) <= now || recorded > now;
    if beat.is_some_and(|beat| beat.recorded.is_none_or(is_due)) {
        record(step);
    }
}

/// Records a pending heartbeat.
pub(super) fn record(step: &mut OpCursor<'_>) {
    let now = step.now;
    let Some(care) = step.get_mut().and_then(|op| op.record.care.as_mut()) else { return };
    let Some(beat) = care.beat.as_mut() else { return };
    let Some(value) = beat.pending.take() else { return };
    beat.recorded = Some(now);
    care.progress = Some(value.clone());
    step.push(EntryKind::Heartbeat, |entry| entry.payload = Some(value));
}

/// Returns the failure of an attempt that has been silent for too long.
pub(super) fn silence(step: &OpCursor<'_>) -> Option<Failure> {
    let op = step.get()?;
    let last = op.record.care.as_ref()?.beat.as_ref()?.last;
    let limit = timeout(op)?;
    (last.after(limit) <= step.now).then(|| Failure::silent(limit, step.now.since(last)))
}

/// Sets the timer of a running attempt: its timeout, or what its heartbeats need.
#[inline]
pub(super) fn set_timer(step: &mut OpCursor<'_>) {
    let Some(op) = step.get() else { return };
    let next = [op.deadline(), due(op)].into_iter().flatten().min();
    next.into_iter().for_each(|due| step.set_timer(due));
}

fn timeout(op: &Op) -> Option<Duration> {
    op.step_spec()?.care.as_ref()?.heartbeat_timeout
}
