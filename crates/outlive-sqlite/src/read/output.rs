//! Reads what runs have given out, and whether the attempts behind it have failed.

use outlive_core::id::{Epoch, Name};
use outlive_core::output::{AppendedBy, Output, OutputKey, OutputKind, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::store::page::Room;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::row;

/// The columns of an output, and how the attempt that appended it ended.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT one.kind, one.name, one.item, one.at, one.epoch, one.attempt, one.op, one.payload, one.sum, \
                 done.epoch, done.payload FROM output AS one \
             LEFT JOIN output AS done ON done.instance = one.instance AND done.kind = 4 AND done.name = one.op \
                 AND done.item = one.attempt WHERE one.instance = ?1 AND ",
            $condition,
            " ORDER BY one.kind, one.name, one.item"
        )
    };
}

const OF: &str = select!("one.kind = ?2 AND one.name = ?3 AND one.item >= ?4");
const ALL: &str = select!("(one.kind, one.name, one.item) > (?2, ?3, ?4)");

/// All outputs of all instances, with the columns that [`output`] reads and the number of the instance.
pub(crate) const ALL_OUTPUTS: &str =
    "SELECT kind, name, item, at, epoch, attempt, op, payload, sum, instance FROM output";

/// Reads one page, or returns what is wrong with an output.
pub(crate) fn read(
    connection: &Connection,
    num: u64,
    read: &OutputRead,
    mut room: Room,
) -> rusqlite::Result<Result<Vec<Output>, String>> {
    let owner = connection.prepare_cached("SELECT owner FROM instance WHERE num = ?1")?;
    let owner: Option<i64> = { owner }.query_row([num.cast_signed()], |row| row.get(0)).optional()?;
    let Some(owner) = owner else { return Ok(Ok(Vec::new())) };
    let (sql, kind, name, item) = match read {
        OutputRead::Of { kind, name, from } => (OF, *kind as u8, name.as_str(), from.cast_signed()),
        OutputRead::All { after: Some(key) } => (ALL, key.kind as u8, key.name.as_str(), key.item.cast_signed()),
        OutputRead::All { after: None } => (ALL, 0, "", 0),
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![num.cast_signed(), kind, name, item])?;
    let mut outputs = Vec::new();
    while !room.is_full()
        && let Some(row) = rows.next()?
    {
        match output(row) {
            Ok(output) => {
                let end = row::int(row, 9).map(|epoch| (Epoch(epoch.cast_unsigned()), row::text(row, 10) == "true"));
                room.take(&output);
                outputs.push(output.judged(end, Epoch(owner.cast_unsigned())));
            }
            Err(damage) => return Ok(Err(damage)),
        }
    }
    Ok(Ok(outputs))
}

/// Reads the output of a row, or returns what is wrong with it.
pub(crate) fn output(row: &Row<'_>) -> Result<Output, String> {
    let (name, item) = (row::text(row, 1), row::int(row, 2).unwrap_or(0).cast_unsigned());
    let code = row::int(row, 0).and_then(|code| u8::try_from(code).ok()).unwrap_or(0);
    let kind = OutputKind::from_code(code)
        .ok_or_else(|| format!("output {item} of {name:?} has kind {code}, which this release does not know"))?;
    let origin = row::optional_text(row, 6).map(|op| AppendedBy { op: op.into(), attempt: row::count(row, 5) });
    let output = Output {
        key: OutputKey { kind, name: Name::recorded(&name), item },
        at: row::time(row, 3).unwrap_or_default(),
        epoch: Epoch(row::int(row, 4).unwrap_or(0).cast_unsigned()),
        payload: Payload::recorded(&row::text(row, 7)),
        origin,
        is_failed: false,
    };
    if row::int(row, 8) != Some(i64::from(output.checksum())) {
        return Err(format!("output {item} of {name:?} does not match its checksum"));
    }
    Ok(output)
}
