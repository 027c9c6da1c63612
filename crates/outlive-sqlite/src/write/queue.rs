//! The queue of a job, as writes see it: moves and removes events, and stores dead letters and replies.

use outlive_core::id::Name;
use outlive_core::kind::JobKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Moved, PushTarget, Spot};
use outlive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::batch::Batch;
use super::inbox;
use crate::schema::{DEAD, QUEUED};

/// How many positions back replies are kept. A caller that waits for one polls many times a second.
const REPLIES_KEPT: u64 = 100_000;

const REMOVE: &str = "DELETE FROM inbox WHERE instance = ?1 AND rank = ?2 AND lane = ?3 AND pos = ?4";

const FIRST_SPOT: &str = "SELECT rank, lane FROM inbox WHERE instance = ?1 AND rank > 0 ORDER BY rank, lane LIMIT 1";

/// Returns the number of events in the queue of an instance.
pub(super) fn len(connection: &Connection, num: u64) -> rusqlite::Result<i64> {
    let mut statement = connection.prepare_cached("SELECT count(*) FROM inbox WHERE instance = ?1 AND rank > 0")?;
    statement.query_row([num.cast_signed()], |row| row.get(0))
}

/// Returns when the first event in the queue of an instance is due.
pub(super) fn first_due(connection: &Connection, num: u64) -> rusqlite::Result<Option<Timestamp>> {
    let mut statement = connection.prepare_cached(FIRST_SPOT)?;
    let wake = statement.query_row([num.cast_signed()], |row| Ok(Spot { rank: row.get(0)?, lane: row.get(1)? }.wake()));
    wake.optional()
}

/// Removes all messages of an instance, and all queued events if it belongs to a job.
pub(super) fn clear(batch: &mut Batch<'_>, num: u64, workflow: &Name) -> rusqlite::Result<()> {
    if JobKind::of(workflow).is_some() {
        let queued = len(batch.connection, num)?;
        batch.cache.add(workflow, QUEUED, -queued);
    }
    batch.connection.prepare_cached("DELETE FROM inbox WHERE instance = ?1")?.execute([num.cast_signed()])?;
    Ok(())
}

/// Removes an event from the queue, or moves it to where it belongs now. Returns how many were removed.
pub(super) fn shift(batch: &mut Batch<'_>, num: u64, moved: &Moved) -> rusqlite::Result<i64> {
    let (pos, from) = (moved.pos, &moved.from);
    let key = params![num.cast_signed(), from.rank, from.lane, pos.cast_signed()];
    let Some(event) = &moved.to else {
        let gone = batch.connection.prepare_cached(REMOVE)?.execute(key)?;
        if let Some(key) = &moved.key {
            let sql = "DELETE FROM dedup WHERE instance = ?1 AND key = ?2 AND pos = ?3";
            let values = params![num.cast_signed(), key.as_str(), pos.cast_signed()];
            batch.connection.prepare_cached(sql)?.execute(values)?;
        }
        return Ok(i64::try_from(gone).unwrap_or(0));
    };
    let sql = "DELETE FROM inbox WHERE instance = ?1 AND rank = ?2 AND lane = ?3 AND pos = ?4 RETURNING at";
    let at: Option<i64> = batch.connection.prepare_cached(sql)?.query_row(key, |row| row.get(0)).optional()?;
    if let Some(at) = at {
        let inbound = Inbound { pos, at: Timestamp::from_millis(at), message: Message::Event(event.clone()) };
        inbox::insert(batch, num, &inbound, Some(&Spot::of(event)))?;
    }
    Ok(0)
}

/// Stores an event that was given up as a dead letter.
pub(super) fn give_up(batch: &mut Batch<'_>, dead: &Dead) -> rusqlite::Result<()> {
    let mut forget = batch.connection.prepare_cached("DELETE FROM dead WHERE pos = ?1")?;
    let known = forget.execute([dead.pos.cast_signed()])?;
    let sql = "INSERT INTO dead (pos, job, id, at, attempts, queued, text, failure, payload) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    batch.connection.prepare_cached(sql)?.execute(params![
        dead.pos.cast_signed(),
        dead.job.as_str(),
        dead.id.as_str(),
        dead.at.as_millis(),
        dead.attempts,
        dead.place == PushTarget::Queue,
        dead.event.to_text(),
        dead.failure.as_str(),
        dead.event.payload.as_str(),
    ])?;
    batch.cache.add(&dead.job, DEAD, 1 - i64::try_from(known).unwrap_or(0));
    Ok(())
}

/// Stores the reply to the event at a position, and drops replies that nobody can be waiting for.
pub(super) fn reply(connection: &Connection, pos: u64, outcome: &Payload) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("INSERT OR REPLACE INTO reply (pos, outcome) VALUES (?1, ?2)")?;
    statement.execute(params![pos.cast_signed(), outcome.as_str()])?;
    let old = pos.saturating_sub(REPLIES_KEPT);
    connection.prepare_cached("DELETE FROM reply WHERE pos < ?1")?.execute([old.cast_signed()])?;
    Ok(())
}
