//! Reads the queues of jobs: the next events without scanning the others, the depth, dead letters and replies.

use outlive_core::event::Event;
use outlive_core::id::Name;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Depth, PushTarget, QueuePage, QueueRead, Queued, Spot, take_turns};
use outlive_core::store::page::Room;
use outlive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::row;
use crate::schema::{DEAD, QUEUED};

/// The maximum number of events on a page, and so of lanes read for it.
const PAGE_MAX: usize = 16_384;

/// The maximum number of due delayed events read for a page, longest due first. They are ordered by time, so only these
/// are compared by priority.
const DUE_MAX: usize = 1_024;

macro_rules! select_events {
    () => {
        "SELECT pos, at, kind, text, payload, sum, rank, lane FROM inbox WHERE instance = ?1 AND "
    };
}

const OF_LANE: &str = concat!(select_events!(), "rank = ?2 AND lane = ?3 AND pos > ?5 ORDER BY pos LIMIT ?4");

const DUE: &str = concat!(select_events!(), "rank = ?2 AND lane <= ?3 AND pos > ?5 ORDER BY lane, pos LIMIT ?4");

const NEXT_RANK: &str = "SELECT rank FROM inbox WHERE instance = ?1 AND rank > ?2 AND rank < ?3 ORDER BY rank LIMIT 1";

const NEXT_LANE: &str = "SELECT lane FROM inbox WHERE instance = ?1 AND rank = ?2 AND lane > ?3 ORDER BY lane LIMIT 1";

const FIRST_LANE: &str = "SELECT lane FROM inbox WHERE instance = ?1 AND rank = ?2 ORDER BY lane LIMIT 1";

const DEAD_LETTERS: &str = "SELECT pos, id, at, attempts, queued, text, failure, payload FROM dead \
     WHERE job = ?1 AND pos > ?2 ORDER BY pos LIMIT ?3";

/// Returns the next events in the queue of an instance.
pub(crate) fn read(connection: &Connection, num: u64, read: &QueueRead) -> rusqlite::Result<QueuePage> {
    let whole = connection.unchecked_transaction()?;
    let limit = read.limit.min(PAGE_MAX);
    let now = Spot::delayed_until(read.now);
    let mut ready = events(&whole, DUE, num, &Part { spot: now.clone(), after: 0, limit: DUE_MAX })?;
    // Delayed events that are due do not count: if their priority is low, the others go first.
    let mut wanted = limit;
    let mut rank = 0;
    while wanted > 0
        && let Some(next) = next_rank(&whole, num, rank)?
    {
        rank = next;
        let more = of_rank(&whole, num, lanes(&whole, num, rank, read)?, wanted)?;
        wanted = wanted.saturating_sub(more.len());
        ready.extend(more);
    }
    let mut statement = whole.prepare_cached(NEXT_LANE)?;
    let next_due: Option<String> =
        statement.query_row(params![num.cast_signed(), Spot::DELAYED, now.lane], |row| row.get(0)).optional()?;
    let next_due = next_due.map(|lane| Spot { rank: Spot::DELAYED, lane }.due());
    Ok(QueuePage { events: take_turns(ready, read.after.as_deref(), limit, Queued::turn), next_due })
}

fn next_rank(connection: &Connection, num: u64, after: i64) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached(NEXT_RANK)?;
    statement.query_row(params![num.cast_signed(), after, Spot::DELAYED], |row| row.get(0)).optional()
}

/// Returns as many events of a rank as wanted, the same number from each lane; longer lanes make up for short ones.
fn of_rank(connection: &Connection, num: u64, lanes: Vec<Spot>, wanted: usize) -> rusqlite::Result<Vec<Queued>> {
    let mut ready = Vec::new();
    let mut parts: Vec<_> = lanes.into_iter().map(|spot| Part { spot, after: 0, limit: 0 }).collect();
    while ready.len() < wanted && !parts.is_empty() {
        let share = (wanted - ready.len()).div_ceil(parts.len());
        let mut longer = Vec::new();
        for part in parts {
            let part = Part { limit: share, ..part };
            let more = events(connection, OF_LANE, num, &part)?;
            if let Some(last) = more.last().filter(|_| more.len() == share) {
                longer.push(Part { after: last.pos, ..part });
            }
            ready.extend(more);
        }
        parts = longer;
    }
    Ok(ready)
}

/// Returns the lanes in turn order, starting after the one that had the last turn.
fn lanes(connection: &Connection, num: u64, rank: i64, read: &QueueRead) -> rusqlite::Result<Vec<Spot>> {
    let lanes_max = read.limit.min(PAGE_MAX);
    let mut lanes: Vec<String> = Vec::new();
    let mut after = read.after.clone();
    let mut has_wrapped = after.is_none();
    while lanes.len() < lanes_max {
        let next: Option<String> = match &after {
            None => connection
                .prepare_cached(FIRST_LANE)?
                .query_row(params![num.cast_signed(), rank], |row| row.get(0))
                .optional()?,
            Some(after) => connection
                .prepare_cached(NEXT_LANE)?
                .query_row(params![num.cast_signed(), rank, after], |row| row.get(0))
                .optional()?,
        };
        match next {
            // Back at the first lane.
            Some(lane) if has_wrapped && lanes.first() == Some(&lane) => break,
            Some(lane) => {
                after = Some(lane.clone());
                lanes.push(lane);
            }
            None if has_wrapped => break,
            None => (after, has_wrapped) = (None, true),
        }
    }
    Ok(lanes.into_iter().map(|lane| Spot { rank, lane }).collect())
}

/// A part of a queue: the events at a spot past a position.
struct Part {
    spot: Spot,
    after: u64,
    limit: usize,
}

fn events(connection: &Connection, sql: &str, num: u64, part: &Part) -> rusqlite::Result<Vec<Queued>> {
    let mut statement = connection.prepare_cached(sql)?;
    let limit = i64::try_from(part.limit).unwrap_or(i64::MAX);
    let key = params![num.cast_signed(), part.spot.rank, part.spot.lane, limit, part.after.cast_signed()];
    let rows = statement.query_map(key, |row| Ok(queued(row)))?;
    rows.collect()
}

fn queued(row: &Row<'_>) -> Queued {
    let pos = row::int(row, 0).unwrap_or(0).cast_unsigned();
    let spot = Spot { rank: row::int(row, 6).unwrap_or(0), lane: row::text(row, 7).into_owned() };
    let event = row::message(row).and_then(|inbound| match inbound.message {
        Message::Event(event) => Ok(event),
        other => Err(format!("message {pos} is not an event but {other:?}")),
    });
    Queued { pos, spot, at: row::time(row, 1).unwrap_or_default(), event }
}

/// Returns how many events of a job are queued, delayed or dead.
pub(crate) fn depth(connection: &Connection, job: &Name, now: Timestamp) -> rusqlite::Result<Depth> {
    let mut statement = connection.prepare_cached("SELECT n FROM counter WHERE workflow = ?1 AND status = ?2")?;
    let mut counted = |what: u8| -> rusqlite::Result<u64> {
        let n: Option<i64> = statement.query_row(params![job.as_str(), what], |row| row.get(0)).optional()?;
        Ok(n.unwrap_or(0).max(0).cast_unsigned())
    };
    let (queued, dead) = (counted(QUEUED)?, counted(DEAD)?);
    let sql = "SELECT count(*) FROM instance JOIN inbox ON inbox.instance = instance.num \
         WHERE workflow = ?1 AND rank = ?2 AND lane > ?3";
    let now = Spot::delayed_until(now);
    let delayed: i64 =
        connection.prepare_cached(sql)?.query_row(params![job.as_str(), now.rank, now.lane], |row| row.get(0))?;
    Ok(Depth { queued, delayed: delayed.cast_unsigned(), dead })
}

/// Returns the dead letters of a job past a number.
pub(crate) fn dead(connection: &Connection, job: &Name, after: u64, limit: usize) -> rusqlite::Result<Vec<Dead>> {
    let mut statement = connection.prepare_cached(DEAD_LETTERS)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query_map(params![job.as_str(), after.cast_signed(), limit], |row| {
        let payload = Payload::recorded(&row::text(row, 7));
        let text = row::optional_text(row, 5);
        Ok(Dead {
            pos: row::int(row, 0).unwrap_or(0).cast_unsigned(),
            job: job.clone(),
            id: Name::recorded(&row::text(row, 1)),
            at: row::time(row, 2).unwrap_or_default(),
            attempts: row::count(row, 3),
            failure: Payload::recorded(&row::text(row, 6)),
            event: Event::from_parts(text.as_deref(), payload.clone()).unwrap_or_else(|| Event::new(payload)),
            place: if row::int(row, 4) == Some(1) { PushTarget::Queue } else { PushTarget::Inbox },
        })
    })?;
    let (mut page, mut room) = (Vec::new(), Room::new(usize::MAX));
    while !room.is_full()
        && let Some(dead) = rows.next().transpose()?
    {
        room.take(&dead);
        page.push(dead);
    }
    Ok(page)
}

/// Returns the reply to the event at a position.
pub(crate) fn reply(connection: &Connection, pos: u64) -> rusqlite::Result<Option<Payload>> {
    let mut statement = connection.prepare_cached("SELECT outcome FROM reply WHERE pos = ?1")?;
    let outcome = statement.query_row([pos.cast_signed()], |row| Ok(Payload::recorded(&row::text(row, 0))));
    outcome.optional()
}
