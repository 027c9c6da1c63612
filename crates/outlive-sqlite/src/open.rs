//! Opening the file: whether it can serve as a store, and whether SQLite does what it was told.

use std::fs::OpenOptions;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use outlive_core::store::{Error, ErrorKind};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{self, BUSY_SECONDS};
use crate::schema::{self, Content};

/// Earlier ones can corrupt a file that two connections write and checkpoint (sqlite.org/wal.html#walresetbug).
const LIBRARY_MIN: i32 = 3_051_003;

/// The writer makes its own checkpoints, where it can look at their result.
const WRITER: &str = "PRAGMA cache_size = -65536; PRAGMA temp_store = memory; PRAGMA wal_autocheckpoint = 0;";

const READER: &str = "PRAGMA cache_size = -16384; PRAGMA temp_store = memory; PRAGMA wal_autocheckpoint = 0;
     PRAGMA query_only = on;";

/// How a store is opened.
///
/// ```
/// use outlive_sqlite::{Durability, Options};
/// assert_eq!(Options::default(), Options::new().durability(Durability::Full));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    durability: Durability,
    pages_max: Option<u32>,
}

/// What an answered write has survived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Durability {
    /// It is on the disk: a power cut takes nothing that was answered.
    #[default]
    Full,
    /// It is with the operating system: the end of the process takes nothing, but a power cut takes what was written
    /// since the last checkpoint. For what can be done again.
    Relaxed,
}

impl Options {
    /// The default: [`Durability::Full`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How durable an answered write is to be.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// For tests: a disk that is full at this many pages.
    #[doc(hidden)]
    #[must_use]
    pub fn pages_max(mut self, pages: u32) -> Self {
        self.pages_max = Some(pages);
        self
    }
}

/// Opens the connection that writes, and makes the file if there is none.
///
/// # Errors
/// If the file cannot serve as a store, with the reason and the way out.
pub(crate) fn writer(path: &Path, options: &Options) -> Result<Connection, Error> {
    check_library()?;
    check_place(path)?;
    make_file(path)?;
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Whose file it is comes first, or we would change the settings of another application's database.
    let content = schema::inspect(&connection, path)?;
    set_wal(&connection, path)?;
    set(&connection, path, options)?;
    if let Content::Empty = content {
        schema::create(&connection, path)?;
    }
    Ok(connection)
}

/// Opens a connection that reads.
///
/// # Errors
/// If the file is gone or cannot be read.
pub(crate) fn reader(path: &Path) -> Result<Connection, Error> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.execute_batch(READER).map_err(|e| error::on_open(path, &e))?;
    Ok(connection)
}

/// What the writer's settings are, read back.
///
/// # Errors
/// If they are not those asked for.
pub(crate) fn read_back(connection: &Connection, path: &Path, options: &Options) -> Result<String, Error> {
    let trouble = |e: rusqlite::Error| error::on_open(path, &e);
    let journal: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(trouble)?;
    let level: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).map_err(trouble)?;
    let (level_asked, word) = match options.durability {
        Durability::Full => (2, "full"),
        Durability::Relaxed => (1, "normal"),
    };
    if journal != "wal" || level != level_asked {
        let message = format!(
            "SQLite runs {} with journal_mode={journal}, synchronous={level} where wal and {level_asked} were set, and \
             would not keep what it answers; put the file on a local disk",
            path.display()
        );
        return Err(Error::new(ErrorKind::Open, message));
    }
    Ok(format!("sqlite {}: journal_mode={journal}, synchronous={word}", rusqlite::version()))
}

/// Makes what is created readable for its owner alone: payloads are nobody else's business.
pub(crate) fn private(options: &mut OpenOptions) -> &OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn check_library() -> Result<(), Error> {
    if rusqlite::version_number() >= LIBRARY_MIN {
        return Ok(());
    }
    let message = format!(
        "SQLite {} is linked, which can corrupt a file that is read while it is written; link 3.51.3 or later, or \
         use the feature `bundled` of rusqlite",
        rusqlite::version()
    );
    Err(Error::new(ErrorKind::Open, message))
}

fn check_place(path: &Path) -> Result<(), Error> {
    let name = path.display();
    if path.is_dir() {
        let message = format!("{name} is a folder; name a file in it");
        return Err(Error::new(ErrorKind::Open, message));
    }
    match path.parent() {
        Some(folder) if !folder.is_dir() => {
            let message = format!("the folder of {name} does not exist; make it first: mkdir -p {}", folder.display());
            Err(Error::new(ErrorKind::Open, message))
        }
        _ => Ok(()),
    }
}

/// Makes the file if there is none, and sees whether it can be written.
fn make_file(path: &Path) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false);
    private(options).open(path).map(drop).map_err(|e| {
        let message = format!(
            "{} cannot be opened for writing ({e}); let this user write it, or name another file",
            path.display()
        );
        Error::new(ErrorKind::Open, message)
    })
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, Error> {
    let trouble = |e: rusqlite::Error| error::on_open(path, &e);
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(trouble)?;
    connection.busy_timeout(Duration::from_secs(BUSY_SECONDS)).map_err(trouble)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Puts the file into WAL mode, which it then keeps. SQLite does not wait by itself for the lock that this takes.
fn set_wal(connection: &Connection, path: &Path) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match connection.query_row("PRAGMA journal_mode = wal", [], |_| Ok(())) {
            Ok(()) => return Ok(()),
            Err(e)
                if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && begun.elapsed() < Duration::from_secs(BUSY_SECONDS) =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            Err(e) => return Err(error::on_open(path, &e)),
        }
    }
}

fn set(connection: &Connection, path: &Path, options: &Options) -> Result<(), Error> {
    let level = match options.durability {
        Durability::Full => "PRAGMA synchronous = full;",
        Durability::Relaxed => "PRAGMA synchronous = normal;",
    };
    let pages = options.pages_max.map(|pages| format!("PRAGMA max_page_count = {pages};")).unwrap_or_default();
    connection.execute_batch(&format!("{WRITER}{level}{pages}")).map_err(|e| error::on_open(path, &e))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn settings_that_did_not_take_are_refused_by_what_was_read() {
        let connection = Connection::open_in_memory().unwrap();
        let error = read_back(&connection, Path::new("runs.db"), &Options::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Open);
        assert!(error.message.contains("journal_mode=memory, synchronous=2 where wal and 2 were set"), "{error}");
    }

    #[test]
    fn a_weaker_sync_than_asked_for_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        let connection = writer(&path, &Options::default()).unwrap();
        connection.execute_batch("PRAGMA synchronous = off").unwrap();
        let error = read_back(&connection, &path, &Options::default()).unwrap_err();
        assert!(error.message.contains("journal_mode=wal, synchronous=0"), "{error}");
    }
}
