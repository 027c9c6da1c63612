//! The inbox of an instance, as writes see it: finds the receiver, stores, takes and wakes.

use outlive_core::id::Name;
use outlive_core::message::Inbound;
use outlive_core::payload::Payload;
use outlive_core::queue::Spot;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::NewState;
use outlive_core::store::page::Room;
use outlive_core::store::query::{Urgency, Wake};
use outlive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::batch::Batch;
use super::cache::InstanceFacts;
use crate::row;

const RECEIVER: &str = "SELECT num, status, until, owner, wake, workflow, reported FROM instance WHERE id = ?1";

const INSERT: &str = "INSERT INTO inbox (instance, rank, lane, pos, at, kind, text, payload, sum) \
     VALUES (?1, ?8, ?9, ?2, ?3, ?4, ?5, ?6, ?7)";

/// The receiving instance of a message.
pub(super) struct Receiver {
    pub(super) num: u64,
    pub(super) status: Status,
    pub(super) owner: u64,
    pub(super) wake: Option<Timestamp>,
    pub(super) workflow: Name,
    pub(super) reported: u64,
}

/// Returns the instance with this id.
pub(super) fn receiver(connection: &Connection, id: &Name) -> rusqlite::Result<Option<Receiver>> {
    let mut statement = connection.prepare_cached(RECEIVER)?;
    let read = statement.query_row([id.as_str()], |row| {
        let kind = row::int(row, 1).and_then(row::status_kind).unwrap_or(StatusKind::Stuck);
        let until = row::int(row, 2).map(Timestamp::from_millis);
        Ok(Receiver {
            num: row::int(row, 0).unwrap_or(0).cast_unsigned(),
            status: Status::from_parts(kind, until),
            owner: row::int(row, 3).unwrap_or(0).cast_unsigned(),
            wake: row::int(row, 4).map(Timestamp::from_millis),
            workflow: Name::recorded(&row::text(row, 5)),
            reported: row::int(row, 6).unwrap_or(0).cast_unsigned(),
        })
    });
    read.optional()
}

/// Adds a message to the inbox, or to a spot in the queue.
pub(super) fn insert(batch: &mut Batch<'_>, num: u64, inbound: &Inbound, spot: Option<&Spot>) -> rusqlite::Result<()> {
    let (kind, text, payload) = inbound.message.to_parts();
    batch.connection.prepare_cached(INSERT)?.execute(params![
        num.cast_signed(),
        inbound.pos.cast_signed(),
        inbound.at.as_millis(),
        kind as u8,
        text,
        payload.map(Payload::as_str),
        row::message_sum(inbound),
        spot.map_or(0, |spot| spot.rank),
        spot.map_or("", |spot| &spot.lane),
    ])?;
    if let Some(known) = batch.cache.known(num).filter(|_| spot.is_none()) {
        known.inbox_last = inbound.pos;
    }
    Ok(())
}

/// Removes messages from the inbox of an instance.
pub(super) fn take(connection: &Connection, num: u64, taken: &[u64]) -> rusqlite::Result<()> {
    for pos in taken {
        let sql = "DELETE FROM inbox WHERE instance = ?1 AND rank = 0 AND lane = '' AND pos = ?2";
        connection.prepare_cached(sql)?.execute(params![num.cast_signed(), pos.cast_signed()])?;
    }
    Ok(())
}

/// Returns the messages that the owner had not seen when it chose `state`, without those in `taken`.
pub(super) fn unseen(
    connection: &Connection,
    num: u64,
    state: Option<&NewState>,
    taken: &[u64],
    facts: &InstanceFacts,
) -> rusqlite::Result<Vec<Inbound>> {
    let Some(seen) = state.and_then(|state| state.seen) else {
        return Ok(Vec::new());
    };
    if facts.inbox_last <= seen {
        return Ok(Vec::new());
    }
    // A damaged message cannot be handed out; the claim that found it has already reported it.
    let mut later = row::messages(connection, num, seen, Room::unbounded())?.unwrap_or_default();
    later.retain(|inbound| !taken.contains(&inbound.pos));
    Ok(later)
}

/// Returns the position of the last message before `pos` that is not taken, or 0.
pub(super) fn last_before(connection: &Connection, num: u64, pos: u64) -> rusqlite::Result<u64> {
    let sql = "SELECT MAX(pos) FROM inbox WHERE instance = ?1 AND rank = 0 AND lane = '' AND pos < ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let last: Option<i64> = statement.query_row(params![num.cast_signed(), pos.cast_signed()], |row| row.get(0))?;
    Ok(last.map_or(0, i64::cast_unsigned))
}

/// Returns the position of the message that holds a dedup key.
pub(super) fn pos_of_key(connection: &Connection, num: u64, key: &Name) -> rusqlite::Result<Option<u64>> {
    let mut statement = connection.prepare_cached("SELECT pos FROM dedup WHERE instance = ?1 AND key = ?2")?;
    let pos = statement.query_row(params![num.cast_signed(), key.as_str()], |row| row.get(0));
    Ok(pos.optional()?.map(i64::cast_unsigned))
}

/// Makes the receiver of message `pos` due, unless it is stuck, or driven in this process, where its driver is notified
/// directly. One driven by another process is made due as well: that is how its driver learns of the message.
pub(super) fn wake(batch: &Batch<'_>, receiver: &Receiver, pos: u64, urgency: Urgency) -> rusqlite::Result<()> {
    let is_driven_here = receiver.owner != 0 && receiver.owner == batch.epoch;
    let due = Wake::by_message(receiver.wake, pos, if receiver.owner != 0 { Urgency::High } else { urgency });
    let is_due = receiver.wake == Some(due);
    if is_driven_here || is_due || receiver.status == Status::Stuck {
        return Ok(());
    }
    let mut statement = batch.connection.prepare_cached("UPDATE instance SET wake = ?2 WHERE num = ?1")?;
    statement.execute(params![receiver.num.cast_signed(), due.as_millis()])?;
    Ok(())
}
