//! Where a store is executed, recorded in the file itself, so that a rename does not hide the executor.
//!
//! SQLite keeps the log beside the name of a file. A file that is opened under a second name gets a second log, and is
//! damaged when both are moved into it. The lock lies beside the name too, so it does not keep the second one out: what
//! the file says of itself does.

use std::path::{Path, PathBuf};

use outlive_core::store::Error;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error;
use crate::lease;

/// The key in `meta` is this and the path, as values there are numbers.
const KEY: &str = "home:";

const FIND: &str = "SELECT key FROM meta WHERE key >= 'home:' AND key < 'home;' LIMIT 1";

/// Refuses a store that a process executes under another name.
///
/// # Errors
/// [`ErrorKind::Locked`](outlive_core::store::ErrorKind::Locked) if one does.
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

/// Records that the store is executed under this path. Returns `true` if that is new. A path that is no text is not
/// recorded.
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
