//! Journals that ended with a restart: begins the next one, and removes old ones from the feed.

use outlive_core::journal::Entry;
use outlive_core::store::commit::{Age, Trim};
use outlive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::row;

const BEGIN: &str = "UPDATE instance SET journal = ?2, restarts = ?3 WHERE num = ?1";

const KEEP: &str = "INSERT INTO past (pos, instance, until, at) VALUES (?1, ?2, ?3, ?4)";

const NEXT: &str = "SELECT pos, instance, until, at FROM past WHERE pos > ?1 ORDER BY pos LIMIT 1";

const FORGET: &str = "DELETE FROM entry WHERE pos IN (SELECT pos FROM entry WHERE instance = ?1 AND seq < ?2 ORDER BY seq \
     LIMIT ?3) RETURNING pos";

/// What was removed of past journals.
#[derive(Default)]
pub(super) struct Forgotten {
    pub(super) entries: u32,
    /// The last feed position among them.
    pub(super) last: i64,
}

/// Begins the journal of an instance with the entry of a restart, which is at `pos` in the feed.
pub(super) fn begin(connection: &Connection, num: u64, restart: &Entry, pos: u64) -> rusqlite::Result<()> {
    let (num, seq, at) = (num.cast_signed(), restart.seq.cast_signed(), restart.at.as_millis());
    connection.prepare_cached(BEGIN)?.execute(params![num, seq, restart.attempt.saturating_sub(1)])?;
    connection.prepare_cached(KEEP)?.execute(params![pos.cast_signed(), num, seq, at])?;
    Ok(())
}

/// Removes entries of old past journals, at most `max`.
pub(super) fn trim(connection: &Connection, trim: &Trim, max: u32) -> rusqlite::Result<Forgotten> {
    let mut forgotten = Forgotten::default();
    let mut after = 0;
    while forgotten.entries < max
        && let Some(past) = next(connection, after)?
    {
        after = past.pos;
        match trim.age(past.at) {
            Age::Old => past.forget(connection, max, &mut forgotten)?,
            Age::Kept => break,
            Age::Ahead => {}
        }
    }
    Ok(forgotten)
}

struct PastRow {
    pos: i64,
    num: i64,
    until: i64,
    at: Timestamp,
}

fn next(connection: &Connection, after: i64) -> rusqlite::Result<Option<PastRow>> {
    let int = |row: &rusqlite::Row<'_>, column| row::int(row, column).unwrap_or(0);
    let mut statement = connection.prepare_cached(NEXT)?;
    let read = statement.query_row([after], |row| {
        Ok(PastRow {
            pos: int(row, 0),
            num: int(row, 1),
            until: int(row, 2),
            at: row::time(row, 3).unwrap_or_default(),
        })
    });
    read.optional()
}

impl PastRow {
    fn forget(&self, connection: &Connection, max: u32, forgotten: &mut Forgotten) -> rusqlite::Result<()> {
        let room = max - forgotten.entries;
        let mut statement = connection.prepare_cached(FORGET)?;
        let mut rows = statement.query(params![self.num, self.until, room])?;
        let mut removed = 0;
        while let Some(row) = rows.next()? {
            removed += 1;
            forgotten.last = forgotten.last.max(row::int(row, 0).unwrap_or(0));
        }
        forgotten.entries += removed;
        if removed < room {
            connection.prepare_cached("DELETE FROM past WHERE pos = ?1")?.execute([self.pos])?;
        }
        Ok(())
    }
}
