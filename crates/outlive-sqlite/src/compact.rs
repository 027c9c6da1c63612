//! Gives the free pages of a file back to the file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use outlive_core::store::Error;
use rusqlite::Connection;

use crate::error;
use crate::lease::Lock;
use crate::open::{self, Options, WriterConnection};
use crate::place;

/// How often progress is reported.
const LOOK: Duration = Duration::from_millis(100);

const PAGES: &str = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, \
     pragma_page_size";

const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// How far a compaction has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactProgress {
    /// The bytes written so far. Nothing is written while the contents are being gathered.
    pub done: u64,
    /// The bytes that the file will have.
    pub total: u64,
}

/// The size of a file before and after it was compacted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compacted {
    /// The bytes before.
    pub before: u64,
    /// The bytes after.
    pub after: u64,
}

/// Rewrites the store in this file without its free pages. While it is being rewritten, no process can execute the store,
/// and other processes wait if they write. Needs about twice the space of what is in use. A crash loses nothing.
///
/// # Errors
/// Returns an error of kind `Locked` if a process executes the store, and one of kind `Unavailable` if another one keeps
/// reading it or the disk is full.
///
/// ```
/// # use outlive_sqlite::{Options, SqliteStore, compact};
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("shop.db");
/// # drop(SqliteStore::open(&file, Options::default()).unwrap());
/// let sizes = compact(&file, |progress| eprintln!("{} of {} bytes", progress.done, progress.total)).unwrap();
/// assert!(sizes.after <= sizes.before);
/// ```
pub fn compact(path: &Path, mut report: impl FnMut(CompactProgress)) -> Result<Compacted, Error> {
    let path = &place::canonical(path)?;
    // Refuses what is not a store before anything is locked or created.
    drop(open::existing(path)?);
    let _lock = Lock::take(path)?;
    let WriterConnection { connection, .. } = open::writer(path, &Options::default().existing())?;
    let trouble = |e: rusqlite::Error| error::while_reading(path, &e);
    checkpoint(&connection).map_err(trouble)?;
    let before = size(path);
    let total = connection.query_row(PAGES, [], |row| row.get::<_, i64>(0)).map_err(trouble)?.unsigned_abs();
    let log = log_of(path);
    let connection = thread::scope(|scope| {
        let rewriting = scope.spawn(move || connection.execute_batch("VACUUM").map(|()| connection));
        while !rewriting.is_finished() {
            report(CompactProgress { done: size(&log).min(total), total });
            thread::sleep(LOOK);
        }
        rewriting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    checkpoint(&connection.map_err(trouble)?).map_err(trouble)?;
    report(CompactProgress { done: total, total });
    Ok(Compacted { before, after: size(path) })
}

/// Moves everything from the WAL to the file.
fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row(CHECKPOINT, [], |_| Ok(()))
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}
