//! Starts new instances.

use outlive_core::id::{InstanceNum, Name};
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::{LifecycleRecord, LifecycleRecordKind};
use outlive_core::origin::TraceContext;
use outlive_core::payload::Payload;
use outlive_core::status::StatusKind;
use outlive_core::store::commit::{Answer, OnConflict, Refusal, StartWrite};
use rusqlite::{Connection, OptionalExtension, params};

use super::batch::Batch;
use super::cache::InstanceFacts;
use super::{family, feed, purge};
use crate::row;

const CREATE: &str = "INSERT INTO instance (num, status, owner, wake, recoveries, blamed, created_at, started_at, \
     seed, token, sum, id, workflow, tags, input, reported) VALUES (?1, ?2, ?3, ?4, 0, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) \
     ON CONFLICT (id) DO NOTHING";

/// Separate from [`CREATE`], as few instances are children.
const ADOPT: &str = "UPDATE instance SET parent = ?2, is_detached = ?3, parent_id = ?4 WHERE num = ?1";

/// Separate for the same reason.
const STAMP: &str = "UPDATE instance SET version = ?2, trace = ?3 WHERE num = ?1";

const LABEL: &str = "INSERT INTO tag (key, value, num) VALUES (?1, ?2, ?3)";

const EXISTING: &str = "SELECT num, token, workflow, input, status FROM instance WHERE id = ?1";

/// The instance that has the id a start asks for.
struct ExistingInstance {
    num: u64,
    token: u64,
    workflow: Name,
    input: Payload,
    status: StatusKind,
}

pub(super) fn apply(batch: &mut Batch<'_>, start: &StartWrite) -> rusqlite::Result<Answer> {
    // Nearly every start has a new id, so try to create it before reading anything.
    if let Some(num) = create(batch, start)? {
        return Ok(Answer::Started { num, created: true, is_driven: batch.holds(start.owner) });
    }
    let Some(found) = existing(batch.connection, &start.id)? else {
        return Ok(Answer::Refused(Refusal::Taken));
    };
    let num = InstanceNum(found.num);
    if found.token == start.token {
        return Ok(Answer::Started { num, created: true, is_driven: batch.holds(start.owner) });
    }
    match start.on_conflict {
        OnConflict::Join if found.workflow == start.workflow && found.input == start.input => {
            Ok(Answer::Started { num, created: false, is_driven: false })
        }
        OnConflict::Join => Ok(Answer::Refused(Refusal::Conflict { workflow: found.workflow })),
        OnConflict::Replace => replace(batch, &found, start),
        _ => Ok(Answer::Refused(Refusal::Taken)),
    }
}

fn replace(batch: &mut Batch<'_>, found: &ExistingInstance, start: &StartWrite) -> rusqlite::Result<Answer> {
    if let Some(parent) = family::waiting_parent(batch.connection, found.num)? {
        return Ok(Answer::Refused(Refusal::Child { parent }));
    }
    purge::remove(batch, found.num, &found.workflow, found.status)?;
    match create(batch, start)? {
        Some(num) => Ok(Answer::Started { num, created: true, is_driven: batch.holds(start.owner) }),
        None => Ok(Answer::Refused(Refusal::Taken)),
    }
}

/// Creates the instance unless its id is taken.
pub(super) fn create(batch: &mut Batch<'_>, start: &StartWrite) -> rusqlite::Result<Option<InstanceNum>> {
    let num = batch.cache.marks.num + 1;
    let is_driven = batch.holds(start.owner);
    let status = if is_driven { StatusKind::Running } else { StatusKind::Pending };
    let tags = row::tags_text(&start.tags);
    let begun = if is_driven { LifecycleRecordKind::RunBegun } else { LifecycleRecordKind::RunQueued };
    let queued = JobKind::of(&start.workflow).is_none().then_some(begun);
    let created = batch.connection.prepare_cached(CREATE)?.execute(params![
        num.cast_signed(),
        status.code(),
        if is_driven { batch.epoch.cast_signed() } else { 0 },
        (!is_driven).then_some(start.due.as_millis()),
        start.at.as_millis(),
        is_driven.then_some(start.at.as_millis()),
        start.seed.cast_signed(),
        start.token.cast_signed(),
        row::start_sum(start, tags.as_deref()),
        start.id.as_str(),
        start.workflow.as_str(),
        tags,
        start.input.as_str(),
        queued.map_or(0, LifecycleRecordKind::count).cast_signed(),
    ])?;
    if created == 0 {
        return Ok(None);
    }
    batch.cache.marks.num = num;
    if let Some(parent) = &start.parent {
        let values = params![num.cast_signed(), parent.num.0.cast_signed(), parent.is_detached, parent.id.as_str()];
        batch.connection.prepare_cached(ADOPT)?.execute(values)?;
    }
    if let Some(deadline) = start.deadline {
        let mut statement = batch.connection.prepare_cached("UPDATE instance SET deadline = ?2 WHERE num = ?1")?;
        statement.execute(params![num.cast_signed(), deadline.as_millis()])?;
    }
    if let Some(origin) = &start.origin {
        let (version, trace) =
            (origin.version.as_ref().map(Name::as_str), origin.trace.as_ref().map(TraceContext::as_str));
        batch.connection.prepare_cached(STAMP)?.execute(params![num.cast_signed(), version, trace])?;
    }
    for (key, value) in &start.tags {
        batch.connection.prepare_cached(LABEL)?.execute(params![key, value, num.cast_signed()])?;
    }
    batch.cache.count(&start.workflow, None, Some(status));
    if let Some(kind) = queued {
        feed::report(batch, num, kind.count(), &LifecycleRecord::new(kind, start.at))?;
    }
    if is_driven {
        let facts = InstanceFacts {
            seq: 0,
            status,
            recoveries: 0,
            blamed: 0,
            inbox_last: 0,
            reported: queued.map_or(0, LifecycleRecordKind::count),
        };
        batch.cache.know(num, facts, start.workflow.clone());
    }
    Ok(Some(InstanceNum(num)))
}

/// Returns the instance that this very start has created, if it has.
pub(super) fn num_of(connection: &Connection, start: &StartWrite) -> rusqlite::Result<Option<InstanceNum>> {
    let found = existing(connection, &start.id)?;
    Ok(found.filter(|found| found.token == start.token).map(|found| InstanceNum(found.num)))
}

fn existing(connection: &Connection, id: &Name) -> rusqlite::Result<Option<ExistingInstance>> {
    let mut statement = connection.prepare_cached(EXISTING)?;
    let read = statement.query_row([id.as_str()], |row| {
        Ok(ExistingInstance {
            num: row::int(row, 0).unwrap_or(0).cast_unsigned(),
            token: row::int(row, 1).unwrap_or(0).cast_unsigned(),
            workflow: Name::recorded(&row::text(row, 2)),
            input: Payload::recorded(&row::text(row, 3)),
            status: row::int(row, 4).and_then(row::status_kind).unwrap_or(StatusKind::Stuck),
        })
    });
    read.optional()
}
