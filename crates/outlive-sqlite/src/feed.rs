//! The feed: what is told to the world, written as it happens and read by position.

use outlive_core::commit::Answer;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::{News, NewsKind};
use outlive_core::payload::Payload;
use outlive_core::query::{Line, Told};
use outlive_core::status::{Status, StatusKind};
use outlive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::batch::Batch;
use crate::row;

/// The most lines that are forgotten in one write.
const TRIM_MAX: i64 = 4_096;

const TELL: &str = "INSERT INTO news (pos, instance, number, at, kind, attempt, detail) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

const ENTRIES: &str = "SELECT seq, at, kind, op, site, attempt, started, due, payload, sum, pos, instance, number \
     FROM entry WHERE pos > ?1 ORDER BY pos LIMIT ?2";

const NEWS: &str =
    "SELECT pos, instance, number, at, kind, attempt, detail FROM news WHERE pos > ?1 ORDER BY pos LIMIT ?2";

const WHOSE: &str = "SELECT id, workflow FROM instance WHERE num = ?1 \
     UNION ALL SELECT id, workflow FROM gone WHERE num = ?1 LIMIT 1";

const END: &str = "SELECT max(coalesce((SELECT max(pos) FROM entry), 0), coalesce((SELECT max(pos) FROM news), 0))";

/// Up to where news may have been forgotten: past it, the numbers of an instance have no gap.
const TRIMMED: &str = "INSERT INTO meta (key, value) VALUES ('trimmed', ?1) \
     ON CONFLICT DO UPDATE SET value = max(value, excluded.value)";

/// A change of an instance's status.
pub(crate) struct Change<'a> {
    pub(crate) num: u64,
    pub(crate) workflow: &'a Name,
    pub(crate) before: Option<StatusKind>,
    /// The number of its last entry.
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
}

impl Batch<'_> {
    /// Tells the world of an instance, under a number.
    pub(crate) fn tell(&mut self, num: u64, number: u64, news: &News) -> rusqlite::Result<()> {
        let pos = self.ledger.next_in_feed();
        self.connection.prepare_cached(TELL)?.execute(params![
            pos.cast_signed(),
            num.cast_signed(),
            number.cast_signed(),
            news.at.as_millis(),
            news.kind.code(),
            news.attempt,
            news.detail.as_ref().map(Payload::as_str),
        ])?;
        Ok(())
    }

    /// Tells the world of the status of a run, if it has changed to one that is worth it. Jobs tell of themselves.
    /// Answers how often it was told of the run by now, `news` times before.
    pub(crate) fn tell_status(
        &mut self,
        change: Change<'_>,
        status: Status,
        note: Option<&str>,
        news: u64,
    ) -> rusqlite::Result<u64> {
        if change.before == Some(status.kind()) || JobKind::of(change.workflow).is_some() {
            return Ok(news);
        }
        let Some(told) = News::of_run(change.before, status, note, change.at) else { return Ok(news) };
        let news = news + told.kind.count();
        self.tell(change.num, change.seq + news, &told)?;
        Ok(news)
    }

    pub(crate) fn set_mark(&mut self, name: &Name, value: u64) -> rusqlite::Result<Answer> {
        let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
        self.connection.prepare_cached(sql)?.execute(params![key_of(name), value.cast_signed()])?;
        Ok(Answer::Done)
    }

    /// Forgets the oldest lines, and whose they were once none of them is left.
    pub(crate) fn trim(&mut self, before: Timestamp) -> rusqlite::Result<Answer> {
        let sql = "SELECT max(pos) FROM (SELECT pos, at FROM news ORDER BY pos LIMIT ?2) WHERE at < ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let last: Option<i64> = statement.query_row(params![before.as_millis(), TRIM_MAX], |row| row.get(0))?;
        let Some(last) = last else { return Ok(Answer::Done) };
        let sql = "DELETE FROM news WHERE pos <= ?2 AND at < ?1";
        self.connection.prepare_cached(sql)?.execute(params![before.as_millis(), last])?;
        self.connection.prepare_cached(TRIMMED)?.execute([last])?;
        let sql = "DELETE FROM gone WHERE pos < (SELECT coalesce(min(pos), ?1) FROM news)";
        self.connection.prepare_cached(sql)?.execute([self.ledger.marks.feed.cast_signed()])?;
        Ok(Answer::Done)
    }
}

/// Marks of users lie beside those of the file.
fn key_of(name: &Name) -> String {
    format!("mark:{name}")
}

/// The number kept under a name, or the position of the feed.
pub(crate) fn mark(connection: &Connection, name: Option<&Name>) -> rusqlite::Result<Option<u64>> {
    let value: Option<i64> = match name {
        Some(name) => {
            let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
            statement.query_row([key_of(name)], |row| row.get(0)).optional()?
        }
        None => Some(connection.prepare_cached(END)?.query_row([], |row| row.get(0))?),
    };
    Ok(value.map(i64::cast_unsigned))
}

/// What was told after a position, in order.
pub(crate) fn read(connection: &Connection, mut after: u64, limit: usize) -> rusqlite::Result<Vec<Told>> {
    // Both parts and the names belong to one state of the file.
    let whole = connection.unchecked_transaction()?;
    loop {
        let page = page(&whole, after, limit)?;
        let Some(last) = page.last().map(|(pos, ..)| *pos) else { return Ok(Vec::new()) };
        let told: rusqlite::Result<Vec<Told>> = page
            .into_iter()
            .filter_map(|(pos, num, number, line)| Some(whose(&whole, pos, num, number, line?)))
            .collect();
        // A page of which nothing can be read is not the end.
        if !matches!(&told, Ok(told) if told.is_empty()) {
            return told;
        }
        after = last;
    }
}

/// A line with its position, instance and number; `None` for one that cannot be read, which counts all the same.
type Found = (u64, u64, u64, Option<Line>);

/// The next lines after a position.
fn page(whole: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<Found>> {
    let limit_sql = i64::try_from(limit).unwrap_or(i64::MAX);
    let key = params![after.cast_signed(), limit_sql];
    let mut told: Vec<Found> = Vec::new();
    let mut statement = whole.prepare_cached(ENTRIES)?;
    let mut rows = statement.query(key)?;
    while let Some(row) = rows.next()? {
        let seq = row::int(row, 0).unwrap_or(0).cast_unsigned();
        // A damaged entry is the trouble of its own run.
        let line = row::entry(row, seq).ok().map(Line::Entry);
        told.push((number(row, 10), number(row, 11), number(row, 12), line));
    }
    let mut statement = whole.prepare_cached(NEWS)?;
    let mut rows = statement.query(key)?;
    while let Some(row) = rows.next()? {
        told.push((number(row, 0), number(row, 1), number(row, 2), news(row).map(Line::News)));
    }
    told.sort_unstable_by_key(|(pos, ..)| *pos);
    told.truncate(limit);
    Ok(told)
}

fn whose(connection: &Connection, pos: u64, num: u64, number: u64, line: Line) -> rusqlite::Result<Told> {
    let mut statement = connection.prepare_cached(WHOSE)?;
    let names = statement.query_row([num.cast_signed()], |row| Ok((name(row, 0), name(row, 1)))).optional()?;
    let (id, workflow) = names.unwrap_or_else(|| (Name::recorded(""), Name::recorded("")));
    Ok(Told { pos, num: InstanceNum(num), id, workflow, number, line })
}

fn name(row: &Row<'_>, column: usize) -> Name {
    Name::recorded(&row::text(row, column))
}

fn number(row: &Row<'_>, column: usize) -> u64 {
    row::int(row, column).unwrap_or(0).cast_unsigned()
}

fn news(row: &Row<'_>) -> Option<News> {
    Some(News {
        at: row::time(row, 3).unwrap_or_default(),
        kind: row::int(row, 4).and_then(|code| u8::try_from(code).ok()).and_then(NewsKind::from_code)?,
        attempt: row::int(row, 5).and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX),
        detail: row::optional_text(row, 6).map(|json| Payload::recorded(&json)),
    })
}
