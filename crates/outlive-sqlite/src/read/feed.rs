//! Reads the feed of lifecycle events by position, and marks.

use outlive_core::id::{InstanceNum, Name};
use outlive_core::lifecycle::{LifecycleRecord, LifecycleRecordKind};
use outlive_core::payload::Payload;
use outlive_core::store::page::Room;
use outlive_core::store::query::{FeedContent, FeedItem};
use outlive_core::store::touched::{Touch, Touched};
use rusqlite::{Connection, OptionalExtension, Row, Rows, params};

use crate::row;
use crate::schema;

const ENTRIES: &str = "SELECT seq, at, kind, op, site, attempt, started, due, payload, sum, pos, instance, number \
     FROM entry WHERE pos > ?1 ORDER BY pos";

const LIFECYCLE: &str =
    "SELECT pos, instance, number, at, kind, attempt, detail FROM lifecycle WHERE pos > ?1 ORDER BY pos";

const WHOSE: &str = "SELECT id, workflow FROM instance WHERE num = ?1 \
     UNION ALL SELECT id, workflow FROM gone WHERE num = ?1 LIMIT 1";

/// The positions at which instances were removed, and those at which they were removed or had a lifecycle event.
const REMOVED: &str = "SELECT pos, num FROM gone WHERE pos > ?1 ORDER BY pos LIMIT ?2";
const REPORTED: &str = "SELECT pos, instance FROM lifecycle WHERE pos > ?1 UNION ALL SELECT pos, num FROM gone WHERE pos > ?1 \
     ORDER BY pos LIMIT ?2";

/// The maximum number of feed rows read at once to find the instances they belong to.
const TOUCHED_MAX: usize = 10_000;

const END: &str =
    "SELECT max(coalesce((SELECT max(pos) FROM entry), 0), coalesce((SELECT max(pos) FROM lifecycle), 0))";

/// Returns the number stored under a name, or without a name the last position of the feed.
pub(crate) fn mark(connection: &Connection, name: Option<&Name>) -> rusqlite::Result<Option<u64>> {
    let value: Option<i64> = match name {
        Some(name) => {
            let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
            statement.query_row([schema::mark_key(name)], |row| row.get(0)).optional()?
        }
        None => Some(connection.prepare_cached(END)?.query_row([], |row| row.get(0))?),
    };
    Ok(value.map(i64::cast_unsigned))
}

/// Returns which instances changed past a position, or `None` if the feed past it has been trimmed.
pub(crate) fn touched(connection: &Connection, after: u64, touch: Touch) -> rusqlite::Result<Option<Touched>> {
    // Both queries must see one state of the file.
    let whole = connection.unchecked_transaction()?;
    let mut trimmed = whole.prepare_cached("SELECT 1 FROM meta WHERE key = 'trimmed' AND value > ?1")?;
    if trimmed.exists([after.cast_signed()])? {
        return Ok(None);
    }
    let sql = if touch == Touch::Removed { REMOVED } else { REPORTED };
    let mut statement = whole.prepare_cached(sql)?;
    let rows = statement.query_map(params![after.cast_signed(), TOUCHED_MAX as i64], |row| {
        Ok((number(row, 0), InstanceNum(number(row, 1))))
    })?;
    let rows: Vec<(u64, InstanceNum)> = rows.collect::<rusqlite::Result<_>>()?;
    let last = rows.last().map_or(after, |(pos, _)| *pos);
    let is_all = rows.len() < TOUCHED_MAX;
    Ok(Some(Touched { nums: rows.into_iter().map(|(_, num)| num).collect(), last, is_all }))
}

/// Returns one page of the feed past a position, in order. The two tables are merged while reading, so that no more of
/// either is in memory than goes on the page.
pub(crate) fn read(connection: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<FeedItem>> {
    // Both tables and the names must be of one state of the file.
    let whole = connection.unchecked_transaction()?;
    let (mut entries, mut lifecycle) = (whole.prepare_cached(ENTRIES)?, whole.prepare_cached(LIFECYCLE)?);
    let (mut entries, mut lifecycle) = (entries.query([after.cast_signed()])?, lifecycle.query([after.cast_signed()])?);
    let (mut entry, mut other) = (next(&mut entries, of_entry)?, next(&mut lifecycle, of_lifecycle)?);
    let (mut page, mut room) = (Vec::new(), Room::new(limit));
    while !room.is_full() {
        let is_entry = match (&entry, &other) {
            (None, None) => break,
            (Some(entry), Some(other)) => entry.pos < other.pos,
            (entry, _) => entry.is_some(),
        };
        let place = match is_entry {
            true => std::mem::replace(&mut entry, next(&mut entries, of_entry)?),
            false => std::mem::replace(&mut other, next(&mut lifecycle, of_lifecycle)?),
        };
        // A damaged entry affects only its own run.
        if let Some(item) = place.map(|place| whose(&whole, place)).transpose()?.flatten() {
            room.take(&item);
            page.push(item);
        }
    }
    Ok(page)
}

/// A row of the feed; `content` is `None` if it is damaged.
struct FeedRow {
    pos: u64,
    num: u64,
    number: u64,
    content: Option<FeedContent>,
}

fn next(rows: &mut Rows<'_>, place: fn(&Row<'_>) -> FeedRow) -> rusqlite::Result<Option<FeedRow>> {
    Ok(rows.next()?.map(place))
}

fn of_entry(row: &Row<'_>) -> FeedRow {
    let seq = row::int(row, 0).unwrap_or(0).cast_unsigned();
    let content = row::entry(row, seq).ok().map(FeedContent::Entry);
    FeedRow { pos: number(row, 10), num: number(row, 11), number: number(row, 12), content }
}

fn of_lifecycle(row: &Row<'_>) -> FeedRow {
    FeedRow {
        pos: number(row, 0),
        num: number(row, 1),
        number: number(row, 2),
        content: lifecycle_record(row).map(FeedContent::Lifecycle),
    }
}

fn whose(connection: &Connection, row: FeedRow) -> rusqlite::Result<Option<FeedItem>> {
    let FeedRow { pos, num, number, content: Some(content) } = row else { return Ok(None) };
    let mut statement = connection.prepare_cached(WHOSE)?;
    let names = statement.query_row([num.cast_signed()], |row| Ok((name(row, 0), name(row, 1)))).optional()?;
    let (id, workflow) = names.unwrap_or_else(|| (Name::recorded(""), Name::recorded("")));
    Ok(Some(FeedItem { pos, num: InstanceNum(num), id, workflow, number, content }))
}

fn name(row: &Row<'_>, column: usize) -> Name {
    Name::recorded(&row::text(row, column))
}

fn number(row: &Row<'_>, column: usize) -> u64 {
    row::int(row, column).unwrap_or(0).cast_unsigned()
}

fn lifecycle_record(row: &Row<'_>) -> Option<LifecycleRecord> {
    Some(LifecycleRecord {
        at: row::time(row, 3).unwrap_or_default(),
        kind: row::int(row, 4).and_then(|code| u8::try_from(code).ok()).and_then(LifecycleRecordKind::from_code)?,
        attempt: row::count(row, 5),
        detail: row::optional_text(row, 6).map(|json| Payload::recorded(&json)),
    })
}
