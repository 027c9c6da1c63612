//! Checks the feed in order: the numbers of each instance count up without a gap, and none is missing at the end.
//!
//! Makes one pass over both tables by position, with a few numbers per instance in memory: sorting a million rows by
//! instance took longer than all other checks.

use std::collections::HashMap;

use rusqlite::{Row, Rows};

use super::examiner::Examiner;
use super::report::FindingKind;
use crate::row;

const ENTRIES: &str = "SELECT pos, instance, number, 1, seq FROM entry ORDER BY pos";

/// The start of a run takes two numbers.
const LIFECYCLE: &str = "SELECT pos, instance, number, iif(kind = 9, 2, 1), 0 FROM lifecycle ORDER BY pos";

/// The position up to which the feed may have been trimmed.
const FORGOTTEN: &str = "SELECT coalesce((SELECT value FROM meta WHERE key = 'trimmed'), 0)";

const REMEDY: &str = "no run is affected; report this";

/// A row of the feed.
struct FeedRecord {
    pos: i64,
    whose: i64,
    number: i64,
    /// How many numbers it takes.
    count: i64,
    seq: i64,
}

/// What is known of the feed of one instance.
#[derive(Default)]
struct SeenFeed {
    /// The last number past the position up to which the feed may have been trimmed.
    before: Option<i64>,
    /// The largest number, and the last position.
    number: i64,
    pos: i64,
    /// The last entry of its journal.
    seq: i64,
}

pub(super) fn examine(examiner: &mut Examiner<'_>) -> rusqlite::Result<()> {
    let until: i64 = examiner.connection.query_row(FORGOTTEN, [], |row| row.get(0))?;
    let mut seen: HashMap<i64, SeenFeed> = HashMap::new();
    let (mut entries, mut lifecycle) = (examiner.connection.prepare(ENTRIES)?, examiner.connection.prepare(LIFECYCLE)?);
    let (mut entries, mut lifecycle) = (entries.query([])?, lifecycle.query([])?);
    let (mut entry, mut other) = (next(&mut entries)?, next(&mut lifecycle)?);
    loop {
        let is_entry = match (&entry, &other) {
            (None, None) => break,
            (Some(entry), Some(other)) => entry.pos < other.pos,
            (entry, _) => entry.is_some(),
        };
        let record = match is_entry {
            true => std::mem::replace(&mut entry, next(&mut entries)?),
            false => std::mem::replace(&mut other, next(&mut lifecycle)?),
        };
        if let Some(record) = record {
            examiner.count_row();
            follow(examiner, seen.entry(record.whose).or_default(), &record, until);
        }
    }
    ends(examiner, &seen, until)
}

fn next(rows: &mut Rows<'_>) -> rusqlite::Result<Option<FeedRecord>> {
    let number = |row: &Row<'_>, column| row::int(row, column).unwrap_or(0);
    Ok(rows.next()?.map(|row| FeedRecord {
        pos: number(row, 0),
        whose: number(row, 1),
        number: number(row, 2),
        count: number(row, 3),
        seq: number(row, 4),
    }))
}

/// Checks that a row follows the one before it.
fn follow(examiner: &mut Examiner<'_>, seen: &mut SeenFeed, record: &FeedRecord, until: i64) {
    if record.pos > until {
        let wanted = record.number - record.count;
        let is_next = seen.before.map_or(until > 0 || wanted == 0, |before| before == wanted);
        if !is_next && examiner.id_of(record.whose).is_some() {
            let found = format!("number {} follows number {}", record.number, seen.before.unwrap_or(0));
            let holds = "the feed numbers of an instance count up from 1 without a gap";
            examiner.find(FindingKind::Feed, Some(record.whose), found, holds, REMEDY);
        }
        seen.before = Some(record.number);
    }
    seen.number = seen.number.max(record.number);
    seen.pos = record.pos;
    seen.seq = seen.seq.max(record.seq);
}

/// Checks that no row is missing at the end of an instance's feed.
fn ends(examiner: &mut Examiner<'_>, seen: &HashMap<i64, SeenFeed>, until: i64) -> rusqlite::Result<()> {
    let mut statement = examiner.connection.prepare("SELECT num, reported FROM instance")?;
    let mut rows = statement.query([])?;
    let nothing = SeenFeed::default();
    while let Some(row) = rows.next()? {
        let num = row::int(row, 0).unwrap_or(0);
        let SeenFeed { number, pos, seq, .. } = seen.get(&num).unwrap_or(&nothing);
        let wanted = row::int(row, 1).unwrap_or(0) + seq;
        if *number != wanted && (until == 0 || *pos > until || *number > wanted) {
            let found = format!("its last feed number is {number}, but should be {wanted}");
            let holds = "the last feed number of an instance matches its entries and lifecycle events";
            examiner.find(FindingKind::Feed, Some(num), found, holds, REMEDY);
        }
    }
    Ok(())
}
