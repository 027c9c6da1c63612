//! Puts an instance into the state that a commit or a turn chose.

use outlive_core::id::Name;
use outlive_core::kind::JobKind;
use outlive_core::payload::Payload;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Answer, NewState};
use outlive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::batch::Batch;
use super::cache::InstanceFacts;
use super::feed::{self, StatusChange};
use super::queue;

const ENTER: &str = "UPDATE instance SET until = ?4, wake = ?5, outcome = ?6, note = ?7, ended_at = ?8, \
     started_at = coalesce(started_at, ?9), recoveries = ?10, blamed = ?11, reported = ?12, status = ?2, owner = ?3 \
     WHERE num = ?1";

/// [`ENTER`] for an instance whose status and owner stay as they are, which most turns of a job leave alone: SQLite
/// rewrites the index entries of every column that is set, whether its value changes or not.
const STAY: &str = "UPDATE instance SET until = ?4, wake = ?5, outcome = ?6, note = ?7, ended_at = ?8, \
     started_at = coalesce(started_at, ?9), recoveries = ?10, blamed = ?11, reported = ?12 \
     WHERE num = ?1 AND status = ?2 AND owner = ?3";

/// Puts an instance into a state, and drops its cached facts unless they are soon needed again.
pub(super) fn enter(
    batch: &mut Batch<'_>,
    num: u64,
    state: &NewState,
    mut facts: InstanceFacts,
    workflow: Name,
) -> rusqlite::Result<()> {
    let kind = state.status.kind();
    let is_open = !state.status.is_ended() && kind != StatusKind::Stuck;
    let owner = if is_open && state.is_owned { batch.epoch } else { 0 };
    let (before, outcome) = (Some(facts.status), state.outcome.as_ref());
    let change = StatusChange { num, workflow: &workflow, before, seq: facts.seq, at: state.at, outcome };
    facts.reported = feed::report_status(batch, change, state.status, state.note.as_deref(), facts.reported)?;
    let stays = facts.status == kind && write(batch, STAY, num, state, &facts, owner)?;
    if !stays {
        write(batch, ENTER, num, state, &facts, owner)?;
    }
    let is_job = JobKind::of(&workflow).is_some();
    if state.status.is_ended() && (facts.inbox_last > 0 || is_job) {
        queue::clear(batch, num, &workflow)?;
    }
    batch.cache.count(&workflow, Some(facts.status), Some(kind));
    facts.status = kind;
    if owner != 0 || (is_open && is_job) {
        batch.cache.know(num, facts, workflow);
    } else {
        batch.cache.drop_facts(num);
    }
    Ok(())
}

/// Runs [`ENTER`] or [`STAY`]. Returns `false` if it changed nothing.
fn write(
    batch: &Batch<'_>,
    sql: &str,
    num: u64,
    state: &NewState,
    facts: &InstanceFacts,
    owner: u64,
) -> rusqlite::Result<bool> {
    let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
    let is_open = !state.status.is_ended() && state.status.kind() != StatusKind::Stuck;
    let changed = batch.connection.prepare_cached(sql)?.execute(params![
        num.cast_signed(),
        state.status.kind().code(),
        owner.cast_signed(),
        millis(state.status.until()),
        millis(state.wake.filter(|_| is_open)),
        state.outcome.as_ref().map(Payload::as_str),
        state.note,
        millis(state.status.is_ended().then_some(state.at)),
        millis((state.status == Status::Running).then_some(state.at)),
        facts.recoveries,
        facts.blamed,
        facts.reported.cast_signed(),
    ])?;
    Ok(changed > 0)
}

/// Marks a damaged instance stuck. Its driver could not read where its journal ends, so that is not checked.
pub(super) fn mark_stuck(batch: &mut Batch<'_>, num: u64, state: &NewState) -> rusqlite::Result<Answer> {
    match batch.cache.outline(batch.connection, num)? {
        Some((facts, workflow)) if facts.is_open() => enter(batch, num, state, facts, workflow).map(|()| Answer::Done),
        Some(_) if has_entered(batch.connection, num, state)? => Ok(Answer::Done),
        _ => Ok(Answer::Fenced),
    }
}

/// Returns `true` if an ended or stuck instance is in exactly this state.
pub(super) fn has_entered(connection: &Connection, num: u64, state: &NewState) -> rusqlite::Result<bool> {
    let sql =
        "SELECT 1 FROM instance WHERE num = ?1 AND status = ?2 AND outcome IS ?3 AND note IS ?4 AND ended_at IS ?5";
    let ended_at = state.status.is_ended().then_some(state.at.as_millis());
    let outcome = state.outcome.as_ref().map(Payload::as_str);
    let mut statement = connection.prepare_cached(sql)?;
    let key = params![num.cast_signed(), state.status.kind().code(), outcome, state.note, ended_at];
    Ok(statement.query_row(key, |_| Ok(())).optional()?.is_some())
}
