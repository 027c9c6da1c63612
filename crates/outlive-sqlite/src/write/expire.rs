//! Removes runs that ended long ago, a few at a time.

use outlive_core::id::{InstanceNum, Name};
use outlive_core::kind::JobKind;
use outlive_core::restart::dead_letters;
use outlive_core::status::StatusKind;
use outlive_core::store::commit::Answer;
use outlive_core::store::expire::{Expire, ExpireMark};
use outlive_core::store::page::Room;
use rusqlite::{Connection, OptionalExtension, params};

use super::batch::Batch;
use super::purge;
use crate::row;

/// Made when it is first needed: a store that keeps everything does without it.
const INDEX: &str = "CREATE INDEX IF NOT EXISTS instance_by_end ON instance (workflow, status, ended_at) \
     WHERE ended_at IS NOT NULL";

/// Codes 4 to 6 are those of the statuses of an ended run.
const CLASSES: &str = "SELECT workflow, status FROM counter WHERE status IN (4, 5, 6) AND n > 0 \
     AND (workflow, status) >= (?1, ?2) ORDER BY workflow, status";

const ENDED: &str = "SELECT num, ended_at, restarts, parent IS NOT NULL FROM instance \
     WHERE workflow = ?1 AND status = ?2 AND ended_at IS NOT NULL AND ended_at < ?3 AND (ended_at, num) > (?4, ?5) \
     ORDER BY ended_at, num LIMIT ?6";

/// Returns a row if a parent that may continue started this child in its current journal.
const NEEDED: &str = "SELECT 1 FROM instance AS child JOIN instance AS parent ON parent.num = child.parent \
     WHERE child.num = ?1 AND parent.status NOT IN (4, 6) AND child.created_at >= coalesce((SELECT at FROM entry \
         WHERE entry.instance = parent.num AND seq = parent.journal AND kind = 110), child.created_at)";

/// Returns a row if a signal was refused: kind 23. How many of them were discarded, the entries themselves say.
const REFUSED: &str = "SELECT 1 FROM entry WHERE instance = ?1 AND kind = 23 LIMIT 1";

struct EndedRun {
    mark: ExpireMark,
    has_restarted: bool,
    is_child: bool,
}

pub(super) fn apply(batch: &mut Batch<'_>, expire: &Expire) -> rusqlite::Result<Answer> {
    batch.connection.execute_batch(INDEX)?;
    let ended = ended(batch.connection, expire)?;
    let mut removed = 0;
    for run in &ended {
        if !is_needed(batch.connection, run)? {
            purge::remove(batch, run.mark.num.0, &run.mark.workflow, run.mark.status)?;
            removed += 1;
        }
    }
    let is_full = ended.len() == expire.limit as usize;
    let next = ended.into_iter().next_back().filter(|_| is_full).map(|run| run.mark);
    Ok(Answer::Expired { removed, next })
}

/// Returns the next runs that ended long ago.
fn ended(connection: &Connection, expire: &Expire) -> rusqlite::Result<Vec<EndedRun>> {
    let mut found = Vec::new();
    for (workflow, status) in classes(connection, expire.after.as_ref())? {
        let room = expire.limit as usize - found.len();
        let Some(before) = expire.before(&workflow, status).filter(|_| room > 0) else { continue };
        let is_same = |after: &&ExpireMark| after.workflow == workflow && after.status == status;
        let after = expire.after.as_ref().filter(is_same);
        let after = after.map_or((i64::MIN, 0), |after| (after.ended_at.as_millis(), after.num.0.cast_signed()));
        let mut statement = connection.prepare_cached(ENDED)?;
        let key = params![
            workflow.as_str(),
            status.code(),
            before.as_millis(),
            after.0,
            after.1,
            (room as u64).cast_signed()
        ];
        let mut rows = statement.query(key)?;
        while let Some(row) = rows.next()? {
            let num = InstanceNum(row::int(row, 0).unwrap_or(0).cast_unsigned());
            let ended_at = row::time(row, 1).unwrap_or_default();
            let mark = ExpireMark { workflow: workflow.clone(), status, ended_at, num };
            let (has_restarted, is_child) = (row::int(row, 2) != Some(0), row::int(row, 3) == Some(1));
            found.push(EndedRun { mark, has_restarted, is_child });
        }
    }
    Ok(found)
}

/// Returns the workflows and statuses of ended runs, in order, from where an earlier write has come to.
fn classes(connection: &Connection, after: Option<&ExpireMark>) -> rusqlite::Result<Vec<(Name, StatusKind)>> {
    let (workflow, status) = after.map_or(("", 0), |after| (after.workflow.as_str(), after.status.code()));
    let mut statement = connection.prepare_cached(CLASSES)?;
    let read = statement.query_map(params![workflow, status], |row| {
        let status = row::int(row, 1).and_then(row::status_kind).unwrap_or(StatusKind::Stuck);
        Ok((Name::recorded(&row::text(row, 0)), status))
    })?;
    let classes: Vec<_> = read.collect::<rusqlite::Result<_>>()?;
    Ok(classes.into_iter().filter(|(workflow, _)| JobKind::of(workflow).is_none()).collect())
}

/// Returns `true` if something may still need an ended run.
fn is_needed(connection: &Connection, run: &EndedRun) -> rusqlite::Result<bool> {
    let num = run.mark.num.0;
    let is_found = |sql: &str| {
        let mut statement = connection.prepare_cached(sql)?;
        Ok::<_, rusqlite::Error>(statement.query_row([num.cast_signed()], |_| Ok(())).optional()?.is_some())
    };
    if run.is_child && is_found(NEEDED)? {
        return Ok(true);
    }
    if !run.has_restarted && !is_found(REFUSED)? {
        return Ok(false);
    }
    // A damaged journal is not removed unseen.
    let journal = row::entries(connection, num, 0, Room::unbounded())?;
    Ok(journal.map_or(true, |journal| !dead_letters(&journal).is_empty()))
}
