//! Reopens a failed or stuck instance, so that it continues.

use outlive_core::journal::Entry;
use outlive_core::kind::JobKind;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Answer, Refusal, Reopen};
use outlive_core::store::page::Room;
use rusqlite::{Connection, params};

use super::batch::{Batch, PriorAttempt};
use super::feed::{self, StatusChange};
use super::{family, message};
use crate::row::{self, InstanceRow};

/// The outcome of a job is its record, with which it continues.
const OPEN: &str = "UPDATE instance SET status = ?2, wake = ?3, outcome = iif(?5, outcome, NULL), note = NULL, \
     ended_at = NULL, recoveries = 0, blamed = 0, reported = ?4 WHERE num = ?1";

pub(super) fn apply(batch: &mut Batch<'_>, reopen: &Reopen) -> rusqlite::Result<Answer> {
    let is_meant = |read: &InstanceRow| reopen.num.is_none_or(|num| read.instance.num == num);
    let Some(InstanceRow { instance, .. }) = row::by_id(batch.connection, &reopen.id)?.filter(is_meant) else {
        return Ok(Answer::Refused(Refusal::NotFound));
    };
    let num = instance.num.0;
    batch.cache.forget_damage(num);
    let seq = batch.facts(num)?.map_or(0, |facts| facts.seq);
    if batch.prior == PriorAttempt::MaybeDurable && has_reopened(batch.connection, num, seq, reopen)? {
        return Ok(Answer::Done);
    }
    if !matches!(instance.status, Status::Failed | Status::Stuck) {
        return Ok(Answer::Refused(Refusal::Status(instance.status)));
    }
    let entry = Entry::reopened(seq + 1, reopen.at, instance.status, instance.outcome.as_ref());
    batch.append(num, &entry, instance.reported)?;
    let before = Some(instance.status.kind());
    let change = StatusChange { num, workflow: &instance.workflow, before, seq: seq + 1, at: reopen.at, outcome: None };
    let reported = feed::report_status(batch, change, Status::Pending, None, instance.reported)?.cast_signed();
    let mut statement = batch.connection.prepare_cached(OPEN)?;
    let pending = StatusKind::Pending.code();
    let is_job = JobKind::of(&instance.workflow).is_some();
    statement.execute(params![num.cast_signed(), pending, reopen.at.as_millis(), reported, is_job])?;
    batch.cache.count(&instance.workflow, Some(instance.status.kind()), Some(StatusKind::Pending));
    batch.cache.drop_facts(num);
    if instance.status == Status::Failed {
        for end in family::repeated_ends(batch.connection, num, seq + 1, reopen.at)? {
            message::apply(batch, &end)?;
        }
    }
    Ok(Answer::Done)
}

/// Returns `true` if entry `seq` is the one that this reopening would have written.
fn has_reopened(connection: &Connection, num: u64, seq: u64, reopen: &Reopen) -> rusqlite::Result<bool> {
    let stored = row::entries(connection, num, seq.saturating_sub(1), Room::new(1))?.unwrap_or_default();
    Ok(stored.first().is_some_and(|last| last.is_reopening(reopen.at)))
}
