//! Stores what runs give out: latest values, items of streams, answers, and the ends of attempts that appended.

use outlive_core::id::Name;
use outlive_core::output::{AppendedBy, OutputContent, OutputKind, OutputWrite};
use outlive_core::store::commit::{Answer, Refusal};
use rusqlite::{Connection, OptionalExtension, params};

use super::batch::{Batch, PriorAttempt};

macro_rules! insert {
    ($or:literal) => {
        concat!(
            "INSERT OR ",
            $or,
            " INTO output (instance, kind, name, item, at, epoch, token, attempt, op, payload, sum) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
        )
    };
}

const INSERT: &str = insert!("REPLACE");
/// An answer that was given stays as it is.
const ANSWER: &str = insert!("IGNORE");
const LAST: &str = "SELECT max(item) FROM output WHERE instance = ?1 AND kind = ?2 AND name = ?3";
const FORGET: &str = "DELETE FROM output WHERE instance = ?1 AND kind = ?2 AND name = ?3";

/// How many items back an item is looked for that may have been stored before: more than any batch has.
const LOOK_BACK: i64 = 1 << 16;

/// Stores an output that the attempt of a step wrote on its own.
pub(super) fn apply(batch: &mut Batch<'_>, output: &OutputWrite) -> rusqlite::Result<Answer> {
    if !batch.holds(output.epoch) || !batch.facts(output.num.0)?.is_some_and(|facts| facts.is_open()) {
        return Ok(Answer::Fenced);
    }
    give(batch, output, batch.prior)
}

/// Stores an output that a commit carries, or that was checked before.
pub(super) fn give(batch: &mut Batch<'_>, output: &OutputWrite, prior: PriorAttempt) -> rusqlite::Result<Answer> {
    let (connection, num) = (batch.connection, output.num);
    let given = |item| Ok(Answer::Given { num, item });
    let offset = match &output.content {
        OutputContent::Item { name, max_items, .. } => {
            let next = last(connection, num.0, OutputKind::Item, name)?.map_or(0, |last| last + 1);
            if prior == PriorAttempt::MaybeDurable
                && let Some(offset) = find(connection, num.0, name, output.token, next)?
            {
                return given(offset);
            }
            if next >= *max_items {
                return Ok(Answer::Refused(Refusal::Full { max_items: *max_items }));
            }
            next
        }
        OutputContent::Value { name, version, .. } => {
            if last(connection, num.0, OutputKind::Value, name)?.is_some_and(|last| last > *version) {
                return given(*version);
            }
            let key = params![num.0.cast_signed(), OutputKind::Value as u8, name.as_str()];
            connection.prepare_cached(FORGET)?.execute(key)?;
            0
        }
        OutputContent::Answer { .. } | OutputContent::AttemptEnd { .. } => 0,
    };
    let row = output.to_row(offset);
    let (op, attempt) = match &row.origin {
        Some(AppendedBy { op, attempt }) => (Some(&**op), *attempt),
        None => (None, 0),
    };
    let sql = if matches!(output.content, OutputContent::Answer { .. }) { ANSWER } else { INSERT };
    connection.prepare_cached(sql)?.execute(params![
        num.0.cast_signed(),
        row.key.kind as u8,
        row.key.name.as_str(),
        row.key.item.cast_signed(),
        row.at.as_millis(),
        row.epoch.0.cast_signed(),
        output.token.cast_signed(),
        attempt,
        op,
        row.payload.as_str(),
        row.checksum(),
    ])?;
    given(row.key.item)
}

fn last(connection: &Connection, num: u64, kind: OutputKind, name: &Name) -> rusqlite::Result<Option<u64>> {
    let key = params![num.cast_signed(), kind as u8, name.as_str()];
    let last: Option<i64> = connection.prepare_cached(LAST)?.query_row(key, |row| row.get(0))?;
    Ok(last.map(i64::cast_unsigned))
}

/// Returns the place of an item that was stored with this token, if it is one of the last.
fn find(connection: &Connection, num: u64, name: &Name, token: u64, next: u64) -> rusqlite::Result<Option<u64>> {
    let sql = "SELECT item FROM output WHERE instance = ?1 AND kind = ?2 AND name = ?3 AND item >= ?4 AND token = ?5";
    let from = next.cast_signed().saturating_sub(LOOK_BACK);
    let key = params![num.cast_signed(), OutputKind::Item as u8, name.as_str(), from, token.cast_signed()];
    let found: Option<i64> = connection.prepare_cached(sql)?.query_row(key, |row| row.get(0)).optional()?;
    Ok(found.map(i64::cast_unsigned))
}
