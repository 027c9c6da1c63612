//! Lets the fuzzer read rows that were never written.

use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::store::query::Instance;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use crate::row;

pub use rusqlite;

/// Reads arbitrary columns as the row of a table.
pub struct RowReader(Connection);

impl RowReader {
    /// Creates a reader without a file.
    ///
    /// # Errors
    /// Returns an error if SQLite cannot open a database in memory.
    pub fn new() -> rusqlite::Result<Self> {
        Ok(Self(Connection::open_in_memory()?))
    }

    /// Reads a journal entry, which should be number `expected`.
    ///
    /// # Errors
    /// Returns an error if SQLite refuses the columns.
    pub fn entry(&self, columns: &[Value], expected: u64) -> rusqlite::Result<Result<Entry, String>> {
        self.read(columns, |read| row::entry(read, expected))
    }

    /// Reads a message from an inbox.
    ///
    /// # Errors
    /// Returns an error if SQLite refuses the columns.
    pub fn message(&self, columns: &[Value]) -> rusqlite::Result<Result<Inbound, String>> {
        self.read(columns, row::message)
    }

    /// Reads an instance, and what is wrong with its row.
    ///
    /// # Errors
    /// Returns an error if SQLite refuses the columns.
    pub fn instance(&self, columns: &[Value]) -> rusqlite::Result<(Instance, Option<String>)> {
        self.read(columns, |read| {
            let read = row::instance(read);
            (read.instance, read.damage)
        })
    }

    fn read<T>(&self, columns: &[Value], read: impl FnOnce(&Row<'_>) -> T) -> rusqlite::Result<T> {
        let marks = vec!["?"; columns.len()].join(", ");
        let mut statement = self.0.prepare_cached(&format!("SELECT {marks}"))?;
        statement.query_row(params_from_iter(columns), |found| Ok(read(found)))
    }
}

/// Returns the columns of a journal entry, as they are written.
#[must_use]
pub fn entry_columns(entry: &Entry) -> Vec<Value> {
    let time = |at: outlive_core::time::Timestamp| Value::Integer(at.as_millis());
    vec![
        Value::Integer(entry.seq.cast_signed()),
        time(entry.at),
        Value::Integer(entry.kind.code().into()),
        Value::Text(entry.op.to_string()),
        Value::Text(entry.site.to_string()),
        Value::Integer(entry.attempt.into()),
        entry.started.map_or(Value::Null, time),
        entry.due.map_or(Value::Null, time),
        entry.payload.as_ref().map_or(Value::Null, |payload| Value::Text(payload.as_str().to_owned())),
        Value::Integer(entry.checksum().into()),
    ]
}

/// Returns the columns of a message in an inbox, as they are written.
#[must_use]
pub fn message_columns(inbound: &Inbound) -> Vec<Value> {
    let (kind, text, payload) = inbound.message.to_parts();
    vec![
        Value::Integer(inbound.pos.cast_signed()),
        Value::Integer(inbound.at.as_millis()),
        Value::Integer(i64::from(kind as u8)),
        text.map_or(Value::Null, |text| Value::Text(text.into_owned())),
        payload.map_or(Value::Null, |payload| Value::Text(payload.as_str().to_owned())),
        Value::Integer(row::message_sum(inbound).into()),
    ]
}
