//! Reads any row of a store as an entry, a message or an instance: decoded, or found to be damaged.

use outlive_core::id::Name;
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_sqlite::fuzzing::rusqlite::types::Value;
use outlive_sqlite::fuzzing::{RowReader, entry_columns, message_columns};

use crate::bytes::Bytes;

thread_local! {
    static READER: RowReader = RowReader::new().expect("SQLite opens in memory");
}

/// Reads a row that is damaged, or that was never written.
///
/// ```
/// outlive_fuzz::entry::run(&[3; 64]);
/// ```
///
/// # Panics
/// If damage goes unnoticed.
pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    READER.with(|reader| match bytes.below(4) {
        0 => {
            let entry = any_entry(&mut bytes);
            let (columns, is_damaged) = damaged(entry_columns(&entry), &mut bytes);
            let read = reader.entry(&columns, entry.seq).expect("SQLite accepts any columns");
            assert!(read.as_ref() == Ok(&entry) || is_damaged && read.is_err(), "{entry:?} as {read:?}: {columns:?}");
        }
        1 => {
            let inbound = any_message(&mut bytes);
            let (columns, is_damaged) = damaged(message_columns(&inbound), &mut bytes);
            let read = reader.message(&columns).expect("SQLite accepts any columns");
            assert!(read.as_ref() == Ok(&inbound) || is_damaged && read.is_err(), "{inbound:?} as {read:?}");
        }
        2 => {
            let columns: Vec<Value> = (0..19).map(|_| value(&mut bytes)).collect();
            let (instance, _) = reader.instance(&columns).expect("SQLite accepts any columns");
            // Formatting it must not panic.
            let _ = (format!("{instance:?}"), instance.status.to_string(), instance.is_early(instance.created_at));
        }
        _ => {
            let columns: Vec<Value> = (0..=bytes.below(12)).map(|_| value(&mut bytes)).collect();
            let expected = bytes.any();
            let _ = reader.entry(&columns, expected).expect("SQLite accepts any columns");
            let _ = reader.message(&columns).expect("SQLite accepts any columns");
        }
    });
}

/// Replaces some columns with others. Returns whether any was replaced.
fn damaged(mut columns: Vec<Value>, bytes: &mut Bytes<'_>) -> (Vec<Value>, bool) {
    let count = bytes.below(3);
    for _ in 0..count {
        let place = usize::try_from(bytes.below(columns.len() as u64)).unwrap_or(0);
        columns[place] = value(bytes);
    }
    (columns, count > 0)
}

fn value(bytes: &mut Bytes<'_>) -> Value {
    match bytes.below(5) {
        0 => Value::Null,
        1 => Value::Integer(bytes.any()),
        2 => Value::Real(bytes.any()),
        3 => Value::Text(bytes.text()),
        _ => Value::Blob(bytes.any()),
    }
}

fn any_entry(bytes: &mut Bytes<'_>) -> Entry {
    Entry {
        seq: bytes.any(),
        at: bytes.moment(),
        kind: bytes.pick(&EntryKind::ALL),
        op: bytes.text().into(),
        site: bytes.text().into(),
        attempt: bytes.any(),
        started: bytes.maybe(Bytes::moment),
        due: bytes.maybe(Bytes::moment),
        payload: bytes.maybe(|bytes| Payload::recorded(&bytes.text())),
    }
}

fn any_message(bytes: &mut Bytes<'_>) -> Inbound {
    let message = match bytes.below(5) {
        0 => Message::Cancel { reason: bytes.text() },
        1 => Message::Terminate { reason: bytes.text() },
        2 => Message::Pause,
        3 => Message::Resume,
        _ => Message::Signal { name: Name::recorded(&bytes.text()), payload: Payload::recorded(&bytes.text()) },
    };
    Inbound { pos: bytes.any(), at: bytes.moment(), message }
}
