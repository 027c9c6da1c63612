//! Reads what the journals have recorded whenever no worker is alive, as a baseline for later effects.

use std::collections::BTreeMap;
use std::path::Path;

use outlive::EntryKind;
use rusqlite::{Connection, OpenFlags};

use super::child::store_in;
use super::effects;

/// Everything seen so far.
#[derive(Default)]
pub(super) struct Records {
    /// By run and step: the length of the ledger when the step was first seen to be over.
    pub(super) over: BTreeMap<(String, String), u64>,
    /// By run, step and failed attempt: the length of the ledger when that was first seen.
    pub(super) failed: BTreeMap<(String, String, u32), u64>,
    /// Position of the last entry seen.
    last: i64,
    /// Number of runs with an owner when a worker was killed, over all kills.
    pub(super) driven: u64,
}

/// Opens the store alongside its users, as any program may.
pub(super) fn open(folder: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(store_in(folder), flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(connection)
}

impl Records {
    /// Reads the store while no worker is alive.
    pub(super) fn look(&mut self, folder: &Path) -> Result<(), String> {
        self.read(folder, effects::length(folder))
            .map_err(|e| format!("failed to read the store alongside its users: {e}"))
    }

    fn read(&mut self, folder: &Path, length: u64) -> rusqlite::Result<()> {
        let connection = open(folder)?;
        let sql = "SELECT pos, id, op, kind, attempt FROM entry JOIN instance ON num = entry.instance WHERE pos > ?1 ORDER BY pos";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([self.last])?;
        while let Some(row) = rows.next()? {
            self.last = row.get(0)?;
            let (run, op): (String, String) = (row.get(1)?, row.get(2)?);
            // Only the first time counts: if it is recorded again, it ran again.
            match EntryKind::from_code(row.get(3)?) {
                Some(EntryKind::StepDone | EntryKind::StepFailed) => {
                    self.over.entry((run, op)).or_insert(length);
                }
                Some(EntryKind::AttemptFailed) => {
                    self.failed.entry((run, op, row.get(4)?)).or_insert(length);
                }
                _ => {}
            }
        }
        let driven: i64 =
            connection.query_row("SELECT count(*) FROM instance WHERE owner <> 0", [], |row| row.get(0))?;
        self.driven += driven.unsigned_abs();
        Ok(())
    }
}
