//! Opens the file: checks that it can serve as a store and that SQLite applied the requested settings.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use outlive_core::store::{Error, ErrorKind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use crate::error::{self, BUSY_MAX};
use crate::home;
use crate::place;
use crate::schema::{self, Content};
use crate::unchanged_file::UnchangedFile;

/// The oldest supported SQLite. Earlier versions can corrupt a file that two connections write and checkpoint
/// (sqlite.org/wal.html#walresetbug).
const LIBRARY_MIN: i32 = 3_051_003;

/// The delays between attempts to take a lock that another connection holds: short ones for about as long as one write
/// takes, then longer ones. They do not grow further, or newcomers would overtake a connection that has waited long.
const FIRST_WAITS: i32 = 20;
const FIRST_WAIT: Duration = Duration::from_micros(100);
const LATER_WAIT: Duration = Duration::from_micros(250);

thread_local! {
    /// How long a statement on this thread waits for another process to unlock the file.
    static PATIENCE: Cell<Duration> = const { Cell::new(BUSY_MAX) };
}

/// Sets how long a statement on this thread waits for another process to unlock the file.
pub(crate) fn set_patience(patience: Duration) {
    PATIENCE.set(patience);
}

/// The delay between attempts to take the lock for switching to WAL mode.
const WAL_WAIT: Duration = Duration::from_millis(10);

/// The writer runs checkpoints itself, so that it can inspect their results.
/// A WAL that has grown is truncated to 16 MiB when it is restarted.
const WRITER: &str = "PRAGMA cache_size = -65536; PRAGMA temp_store = memory; PRAGMA wal_autocheckpoint = 0;
     PRAGMA journal_size_limit = 16777216;";

const READER: &str = "PRAGMA cache_size = -16384; PRAGMA temp_store = memory; PRAGMA wal_autocheckpoint = 0;
     PRAGMA query_only = on;";

/// Options for opening a store.
///
/// ```
/// use outlive_sqlite::{Durability, Options};
/// assert_eq!(Options::default(), Options::new().durability(Durability::Full));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    durability: Durability,
    absent: Absent,
    max_pages: Option<u32>,
    /// How many pages may wait in the WAL; `None` uses the writer's default.
    pub(crate) checkpoint_pages: Option<i64>,
    /// The SQLite VFS that holds the file; `None` uses the system's.
    vfs: Option<String>,
    /// How long a write waits for another process to unlock the file; `None` uses the writer's default.
    pub(crate) patience: Option<Duration>,
    /// How often an executor with a doorbell polls for foreign writes; `None` uses the writer's default.
    pub(crate) net: Option<Duration>,
    /// `true` if nothing here writes the file, so the file may be unwritable.
    is_view: bool,
}

/// What to do when the file does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Absent {
    #[default]
    Make,
    Refuse,
}

/// How durable an acknowledged write is.
///
/// ```
/// use outlive_sqlite::Durability;
/// assert_eq!(Durability::default(), Durability::Full);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Durability {
    /// On disk: a power cut loses no acknowledged write.
    #[default]
    Full,
    /// Handed to the operating system: a process crash loses nothing, but a power cut loses everything written since
    /// the last checkpoint. For work that can be redone.
    Relaxed,
}

impl Options {
    /// Returns the default options: [`Durability::Full`], and the file is created if it does not exist.
    ///
    /// ```
    /// # use outlive_sqlite::Options;
    /// assert_eq!(Options::new(), Options::default());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how durable an acknowledged write is.
    ///
    /// ```
    /// use outlive_sqlite::{Durability, Options};
    /// let for_tests = Options::new().durability(Durability::Relaxed);
    /// assert_ne!(for_tests, Options::default());
    /// ```
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Requires the file to exist. For readers and senders, which would otherwise see an empty store when the name is
    /// mistyped.
    ///
    /// ```
    /// use outlive_sqlite::{Options, SqliteStore};
    /// assert!(SqliteStore::open("mistyped.db".as_ref(), Options::new().existing()).is_err());
    /// ```
    #[must_use]
    pub fn existing(mut self) -> Self {
        self.absent = Absent::Refuse;
        self
    }

    /// Returns `true` if threads started with one set of options can serve the other.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        *self == Self { absent: self.absent, ..other.clone() }
    }

    /// For tests: simulates a disk that is full at this many pages.
    #[doc(hidden)]
    #[must_use]
    pub fn max_pages(mut self, pages: u32) -> Self {
        self.max_pages = Some(pages);
        self
    }

    /// For tests: checkpoints as soon as this many pages wait in the WAL.
    #[doc(hidden)]
    #[must_use]
    pub fn checkpoint_pages(mut self, pages: u32) -> Self {
        self.checkpoint_pages = Some(pages.into());
        self
    }

    /// Returns options for reading a file that this process does not write.
    pub(crate) fn view() -> Self {
        Self { is_view: true, ..Self::default() }
    }

    /// For tests: sets how long a write waits for another process to unlock the file.
    #[doc(hidden)]
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// For tests: sets how often an executor polls for writes by processes that have not rung.
    #[doc(hidden)]
    #[must_use]
    pub fn net(mut self, every: Duration) -> Self {
        self.net = Some(every);
        self
    }

    /// For tests: opens the file through a registered SQLite VFS. Its name and its lock are still in the file system.
    #[doc(hidden)]
    #[must_use]
    pub fn vfs(mut self, name: impl Into<String>) -> Self {
        self.vfs = Some(name.into());
        self
    }
}

/// The writing connection, and how it makes acknowledged writes durable.
pub(crate) struct WriterConnection {
    pub(crate) connection: Connection,
    /// The settings, read back.
    pub(crate) durability: String,
}

/// Serializes opening within this process: see [`make_file`].
static OPENING: Mutex<()> = Mutex::new(());

/// Opens the writing connection, creating the file if it does not exist.
///
/// # Errors
/// Returns an error if the file cannot serve as a store, with the reason and what to do.
pub(crate) fn writer(path: &Path, options: &Options) -> Result<WriterConnection, Error> {
    let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    check_library()?;
    check_place(path, options.absent)?;
    make_file(path)?;
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, options)?;
    check_access(&connection, path)?;
    // Inspect first, or we would change the settings of another application's database.
    let content = schema::inspect(&connection, path)?;
    if let Content::Store = content {
        home::check(&connection, path)?;
    }
    set_wal(&connection, path)?;
    set(&connection, path, options)?;
    let durability = read_back(&connection, path, options)?;
    if let Content::Empty = content {
        schema::prepare(&connection, path)?;
    }
    Ok(WriterConnection { connection, durability })
}

/// A reading connection.
pub(crate) struct ReaderConnection {
    pub(crate) connection: Connection,
    /// The file as it was when opened, if SQLite reads it as immutable.
    pub(crate) unchanged: Option<UnchangedFile>,
}

/// Opens a reading connection.
///
/// # Errors
/// Returns an error if the file is gone or cannot be read.
pub(crate) fn reader(path: &Path, options: &Options) -> Result<ReaderConnection, Error> {
    let reading = reading(path, options)?;
    reading.connection.execute_batch(READER).map_err(|e| error::on_open(path, &e))?;
    Ok(reading)
}

/// Opens a reading connection. A view also works on a file that cannot be written: SQLite keeps two more files next to
/// one that it reads, and does without them only if it may treat the file as immutable. A handle that also writes the
/// file does not do this: the file does change, and the error is temporary.
fn reading(path: &Path, options: &Options) -> Result<ReaderConnection, Error> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, options)?;
    match connection.query_row("PRAGMA application_id", [], |_| Ok(())) {
        Err(e)
            if options.is_view
                && matches!(e.sqlite_error_code(), Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen)) =>
        {
            let unchanged = UnchangedFile::of(path).ok_or_else(|| error::unreadable_log(path, &e))?;
            let access = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            let connection = connect(unchanged.uri().as_ref(), access, options)?;
            Ok(ReaderConnection { connection, unchanged: Some(unchanged) })
        }
        // The next read meets any other error again, and reports it.
        _ => Ok(ReaderConnection { connection, unchanged: None }),
    }
}

/// Opens a reading connection to an existing store that this process does not have open.
///
/// # Errors
/// Returns an error if the file is gone, cannot be read or is not a store.
pub(crate) fn existing(path: &Path) -> Result<Connection, Error> {
    check_library()?;
    check_place(path, Absent::Refuse)?;
    let connection = reader(path, &Options::view())?.connection;
    match schema::inspect(&connection, path)? {
        Content::Store => home::check(&connection, path).map(|()| connection),
        Content::Empty => {
            let message = format!("{} is empty; pass a store that a program has created", path.display());
            Err(Error::new(ErrorKind::Open, message))
        }
    }
}

/// Returns `true` if the file is a SQLite database at all. Only SQLite opens the file: see [`make_file`].
///
/// # Errors
/// Returns an error if the file does not exist or cannot be read.
pub(crate) fn is_database(path: &Path) -> Result<bool, Error> {
    check_place(path, Absent::Refuse)?;
    let connection = reading(path, &Options::view())?.connection;
    match connection.query_row("PRAGMA application_id", [], |_| Ok(())) {
        Ok(()) => Ok(true),
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Ok(false),
        Err(e) => Err(error::on_open(path, &e)),
    }
}

/// Reads the writer's settings back. Returns an error if they differ from those requested.
fn read_back(connection: &Connection, path: &Path, options: &Options) -> Result<String, Error> {
    let trouble = |e: rusqlite::Error| error::on_open(path, &e);
    let journal: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(trouble)?;
    let level: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).map_err(trouble)?;
    let (level_asked, word) = match options.durability {
        Durability::Full => (2, "full"),
        Durability::Relaxed => (1, "normal"),
    };
    if journal != "wal" || level != level_asked {
        let message = format!(
            "SQLite runs {} with journal_mode={journal}, synchronous={level} instead of wal and {level_asked}, which \
             could lose acknowledged writes; put the file on a local disk",
            path.display()
        );
        return Err(Error::new(ErrorKind::Open, message));
    }
    Ok(format!("sqlite {}: journal_mode={journal}, synchronous={word}", rusqlite::version()))
}

fn check_library() -> Result<(), Error> {
    if rusqlite::version_number() >= LIBRARY_MIN {
        return Ok(());
    }
    let message = format!(
        "the linked SQLite {} can corrupt a file that is read while it is written; link 3.51.3 or later: update the \
         crate that needs an old `libsqlite3-sys` (see `cargo tree -i libsqlite3-sys`), or install SQLite and build \
         with LIBSQLITE3_SYS_USE_PKG_CONFIG=1",
        rusqlite::version()
    );
    Err(Error::new(ErrorKind::Open, message))
}

fn check_place(path: &Path, absent: Absent) -> Result<(), Error> {
    let name = path.display();
    if let Ok(found) = path.metadata()
        && !found.is_file()
    {
        // SQLite would wait for the other end of a pipe, and see an empty database in a device.
        let what = if found.is_dir() { "is a directory; name a file in it" } else { "is not a regular file; name one" };
        return Err(Error::new(ErrorKind::Open, format!("{name} {what}")));
    }
    if absent == Absent::Refuse && !path.exists() {
        let message = format!("{name} does not exist; check the path, or start the program that creates it");
        return Err(Error::new(ErrorKind::Open, message));
    }
    match path.parent() {
        Some(folder) if !folder.is_dir() => {
            let message =
                format!("the directory of {name} does not exist; create it first: mkdir -p {}", folder.display());
            Err(Error::new(ErrorKind::Open, message))
        }
        _ => place::check_links(path),
    }
}

/// Creates the file if it does not exist. Only SQLite ever opens an existing file: closing it here would release the
/// locks that other handles of this process hold on it, because POSIX locks belong to the process.
fn make_file(path: &Path) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    match place::private(options.write(true).create_new(true)).open(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            let message =
                format!("cannot create {} ({e}); make its directory writable, or use another path", path.display());
            Err(Error::new(ErrorKind::Open, message))
        }
        _ => Ok(()),
    }
}

/// Refuses a file that this user cannot write: SQLite silently opens it read-only.
fn check_access(connection: &Connection, path: &Path) -> Result<(), Error> {
    if connection.is_readonly(MAIN_DB).map_err(|e| error::on_open(path, &e))? {
        let message = format!("{} is read-only; make it writable, or use another file", path.display());
        return Err(Error::new(ErrorKind::Open, message));
    }
    Ok(())
}

fn connect(path: &Path, access: OpenFlags, options: &Options) -> Result<Connection, Error> {
    let trouble = |e: rusqlite::Error| error::on_open(path, &e);
    let mut flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if cfg!(unix) {
        // The path is canonical, so any link in it was put there since.
        flags |= OpenFlags::SQLITE_OPEN_NOFOLLOW;
    }
    let connection = match &options.vfs {
        None => Connection::open_with_flags(path, flags),
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str()),
    };
    let mut connection = connection.map_err(trouble)?;
    wait_for_others(&mut connection).map_err(trouble)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Otherwise SQLite re-prepares a statement whenever a bound value could change its plan. Our plans are intended.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(trouble)?;
    Ok(connection)
}

/// Makes a connection wait while another one writes, up to this thread's limit ([`BUSY_MAX`] by default). SQLite's own
/// delays soon grow as long as a hundred writes; most locks are held for the time of one.
pub(crate) fn wait_for_others(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait as fn(i32) -> bool))
}

/// Sleeps before attempt number `tries`. Returns `true` to try again.
fn wait(tries: i32) -> bool {
    let (first, later) = (tries.min(FIRST_WAITS), (tries - FIRST_WAITS).max(0));
    let waited = FIRST_WAIT * first.unsigned_abs() + LATER_WAIT * later.unsigned_abs();
    thread::sleep(if tries < FIRST_WAITS { FIRST_WAIT } else { LATER_WAIT });
    waited < PATIENCE.get()
}

/// Switches the file to WAL mode, which persists. SQLite does not wait for the lock this takes, so this function does.
fn set_wal(connection: &Connection, path: &Path) -> Result<(), Error> {
    let mut waited = Duration::ZERO;
    loop {
        match connection.query_row("PRAGMA journal_mode = wal", [], |_| Ok(())) {
            Ok(()) => return Ok(()),
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && waited < BUSY_MAX => {
                thread::sleep(WAL_WAIT);
                waited += WAL_WAIT;
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
    let pages = options.max_pages.map(|pages| format!("PRAGMA max_page_count = {pages};")).unwrap_or_default();
    connection.execute_batch(&format!("{WRITER}{level}{pages}")).map_err(|e| error::on_open(path, &e))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn settings_that_did_not_take_effect_are_refused() {
        let connection = Connection::open_in_memory().unwrap();
        let error = read_back(&connection, Path::new("runs.db"), &Options::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Open);
        assert!(error.message.contains("journal_mode=memory, synchronous=2 instead of wal and 2"), "{error}");
    }

    /// What broke: reading the journal of each run re-prepared its statement, which took longer than the read itself.
    #[test]
    fn statement_is_prepared_once_for_all_bindings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        let writing = writer(&path, &Options::default()).unwrap().connection;
        for connection in [writing, reader(&path, &Options::default()).unwrap().connection] {
            let sql = "SELECT seq FROM entry WHERE instance = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
            let mut statement = connection.prepare(sql).unwrap();
            for n in 0..3 {
                assert!(!statement.exists([n, n, n]).unwrap());
            }
            assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0);
        }
    }

    #[test]
    fn weaker_sync_than_requested_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        let connection = writer(&path, &Options::default()).unwrap().connection;
        connection.execute_batch("PRAGMA synchronous = off").unwrap();
        let error = read_back(&connection, &path, &Options::default()).unwrap_err();
        assert!(error.message.contains("journal_mode=wal, synchronous=0"), "{error}");
    }
}
