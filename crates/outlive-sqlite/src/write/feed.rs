//! Appends lifecycle events to the feed, removes old ones, and stores marks.

use outlive_core::id::Name;
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::LifecycleRecord;
use outlive_core::payload::Payload;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Age, Answer, Trim};
use outlive_core::time::Timestamp;
use rusqlite::params;

use super::batch::Batch;
use super::past;
use crate::row;
use crate::schema;

/// The approximate number of rows trimmed in one write.
const TRIM_MAX: u32 = 4_096;

const REPORT: &str = "INSERT INTO lifecycle (pos, instance, number, at, kind, attempt, detail) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// Records the position up to which the feed may have been trimmed: past it, the numbers of an instance have no gap.
const TRIMMED: &str = "INSERT INTO meta (key, value) VALUES ('trimmed', ?1) \
     ON CONFLICT DO UPDATE SET value = max(value, excluded.value)";

/// A change of an instance's status.
pub(super) struct StatusChange<'a> {
    pub(super) num: u64,
    pub(super) workflow: &'a Name,
    pub(super) before: Option<StatusKind>,
    /// The number of its last journal entry.
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    /// The outcome it ended with, if any.
    pub(super) outcome: Option<&'a Payload>,
}

/// Appends a lifecycle event of an instance to the feed, under the given number.
pub(super) fn report(batch: &mut Batch<'_>, num: u64, number: u64, record: &LifecycleRecord) -> rusqlite::Result<()> {
    let pos = batch.cache.next_in_feed();
    batch.connection.prepare_cached(REPORT)?.execute(params![
        pos.cast_signed(),
        num.cast_signed(),
        number.cast_signed(),
        record.at.as_millis(),
        record.kind.code(),
        record.attempt,
        record.detail.as_ref().map(Payload::as_str),
    ])?;
    Ok(())
}

/// Reports the status of a run if it has changed to one worth reporting. Jobs report for themselves. Returns how many
/// numbers the run's lifecycle events have taken, given `reported` before.
pub(super) fn report_status(
    batch: &mut Batch<'_>,
    change: StatusChange<'_>,
    status: Status,
    note: Option<&str>,
    reported: u64,
) -> rusqlite::Result<u64> {
    if change.before == Some(status.kind()) || JobKind::of(change.workflow).is_some() {
        return Ok(reported);
    }
    let Some(record) = LifecycleRecord::of_run(change.before, status, note, change.at) else { return Ok(reported) };
    let record = record.because(change.outcome);
    let reported = reported + record.kind.count();
    report(batch, change.num, change.seq + reported, &record)?;
    Ok(reported)
}

/// Stores a number under a name.
pub(super) fn set_mark(batch: &Batch<'_>, name: &Name, value: u64) -> rusqlite::Result<Answer> {
    let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
    batch.connection.prepare_cached(sql)?.execute(params![schema::mark_key(name), value.cast_signed()])?;
    Ok(Answer::Done)
}

/// Removes the oldest lifecycle events, the oldest journals that ended with a restart, and the names of removed instances
/// that have no event left.
pub(super) fn trim(batch: &Batch<'_>, trim: &Trim) -> rusqlite::Result<Answer> {
    let mut statement = batch.connection.prepare_cached("SELECT pos, at FROM lifecycle ORDER BY pos")?;
    let mut rows = statement.query([])?;
    let (mut seen, mut last_event) = (0, None);
    while (seen < TRIM_MAX || last_event.is_none())
        && let Some(row) = rows.next()?
    {
        seen += 1;
        match trim.age(row::time(row, 1).unwrap_or_default()) {
            Age::Old => last_event = row::int(row, 0),
            Age::Kept => break,
            Age::Ahead => {}
        }
    }
    drop(rows);
    let forgotten = past::trim(batch.connection, trim, TRIM_MAX)?;
    let Some(last) = last_event.into_iter().chain((forgotten.entries > 0).then_some(forgotten.last)).max() else {
        return Ok(Answer::Trimmed(0));
    };
    let trimmed = match last_event {
        Some(last) => batch.connection.prepare_cached("DELETE FROM lifecycle WHERE pos <= ?1")?.execute([last])?,
        None => 0,
    };
    let trimmed = trimmed + forgotten.entries as usize;
    batch.connection.prepare_cached(TRIMMED)?.execute([last])?;
    let sql = "DELETE FROM gone WHERE pos < (SELECT coalesce(min(pos), ?1) FROM lifecycle)";
    batch.connection.prepare_cached(sql)?.execute([batch.cache.marks.feed.cast_signed()])?;
    Ok(Answer::Trimmed(trimmed as u64))
}
