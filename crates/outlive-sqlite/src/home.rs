//! Records in the file under which path it is executed, so that a rename does not hide the executor.
//!
//! SQLite derives the name of the WAL from the name of the file. A file that is opened under a second name gets a
//! second WAL, and is damaged when both are checkpointed into it. The lock also goes by name, so it does not keep a
//! second opener out; the record in the file does.

use std::path::{Path, PathBuf};

use outlive_core::store::Error;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error;
use crate::lease;

/// The prefix of the key in `meta`. The path is part of the key because values there are numbers.
const KEY: &str = "home:";

const FIND: &str = "SELECT key FROM meta WHERE key >= 'home:' AND key < 'home;' LIMIT 1";

/// Refuses a store that a process executes under another name.
///
/// # Errors
/// Returns [`ErrorKind::Locked`](outlive_core::store::ErrorKind::Locked) if one does.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), Error> {
    match find(connection).map_err(|e| error::on_open(path, &e))? {
        Some(home) if home != path => lease::check_home(path, &home),
        _ => Ok(()),
    }
}

fn find(connection: &Connection) -> rusqlite::Result<Option<PathBuf>> {
    let key: Option<String> = connection.prepare_cached(FIND)?.query_row([], |row| row.get(0)).optional()?;
    Ok(key.map(|key| PathBuf::from(key.strip_prefix(KEY).unwrap_or(&key))))
}

/// Records that the store is executed under this path. Returns `true` if that is new. A path that is not valid UTF-8 is
/// not recorded.
pub(crate) fn record(connection: &Connection, path: &Path) -> rusqlite::Result<bool> {
    let path = path.to_str().map(Path::new);
    if find(connection)?.as_deref() == path {
        return Ok(false);
    }
    connection.prepare_cached("DELETE FROM meta WHERE key >= 'home:' AND key < 'home;'")?.execute([])?;
    if let Some(path) = path {
        let key = format!("{KEY}{}", path.display());
        connection.prepare_cached("INSERT INTO meta (key, value) VALUES (?1, 0)")?.execute(params![key])?;
    }
    Ok(true)
}
