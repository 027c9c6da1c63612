//! A read-only store, whether or not another process executes it.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use outlive_core::store::commit::{Answer, Epoch, Write};
use outlive_core::store::{Answered, Error, ErrorKind, Store};
use outlive_core::time::Timestamp;

use super::threads::ReaderThreads;
use crate::open::{self, Options, ReaderConnection};
use crate::place;
use crate::unchanged_file::UnchangedFile;
use crate::watch::{HandleListener, Watch};

/// How often the file is polled while somebody waits for changes.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// How many lists and counts can be read at once.
const LIST_THREADS: usize = 3;

/// A read-only store: it writes nothing, takes no lease, and does not block the process that executes the store.
///
/// SQLite keeps two files next to a database (`-wal` and `-shm`). If nobody else has the database open, they may be
/// left behind, and the next program that opens it takes them over. In a directory that is not writable they cannot be
/// created; a file that was closed properly can be read anyway, but reads fail if a program opens it meanwhile.
///
/// It implements [`Store`], but leasing and writing fail.
///
/// ```
/// use outlive_core::store::query::{Filter, Query};
/// use outlive_sqlite::{Options, SqliteReader, SqliteStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("shop.db");
/// # let _executor = SqliteStore::open(&file, Options::default())?;
/// let reader = SqliteReader::open(&file)?;
/// assert_eq!(reader.count(&Filter::runs()).await?.total(), 0);
/// # Ok(())
/// # }
/// ```
pub struct SqliteReader {
    path: PathBuf,
    /// For short reads about one instance, and wakes.
    pub(crate) lookups: ReaderThreads,
    /// For lists and counts, which may be slow.
    pub(crate) lists: ReaderThreads,
    watch: Arc<Watch>,
    listener: Arc<HandleListener>,
}

impl SqliteReader {
    /// Opens an existing file.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Open`](outlive_core::store::ErrorKind::Open) if the file is not a store, with the reason
    /// and what to do.
    ///
    /// ```
    /// use outlive_sqlite::SqliteReader;
    /// let error = SqliteReader::open("mistyped.db".as_ref()).unwrap_err();
    /// assert!(error.message.contains("mistyped.db does not exist"));
    /// ```
    pub fn open(path: &Path) -> Result<Self, Error> {
        let path = place::canonical(path)?;
        open::existing(&path)?;
        Self::start(path, &Options::view())
    }

    /// Returns `true` if a file is a SQLite database of any application. The file is not changed.
    ///
    /// # Errors
    /// Returns an error if the file does not exist or cannot be read.
    ///
    /// ```
    /// use outlive_sqlite::SqliteReader;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let notes = folder.path().join("notes.txt");
    /// std::fs::write(&notes, "milk, tea").unwrap();
    /// assert!(!SqliteReader::is_database(&notes).unwrap());
    /// ```
    pub fn is_database(path: &Path) -> Result<bool, Error> {
        open::is_database(&place::canonical(path)?)
    }

    /// Starts the reading threads on a file that is known to be a store.
    pub(crate) fn start(path: PathBuf, options: &Options) -> Result<Self, Error> {
        let lookups = ReaderThreads::start(&path, options, "outlive-lookups", 1)?;
        let lists = ReaderThreads::start(&path, options, "outlive-lists", LIST_THREADS)?;
        let watch = Arc::default();
        Ok(Self { path, lookups, lists, listener: HandleListener::new(&watch), watch })
    }

    /// Returns the absolute path of the file.
    ///
    /// ```
    /// # use outlive_sqlite::{Options, SqliteReader, SqliteStore};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let file = folder.path().join("shop.db");
    /// # let _executor = SqliteStore::open(&file, Options::default()).unwrap();
    /// assert!(SqliteReader::open(&file).unwrap().path().ends_with("shop.db"));
    /// ```
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl SqliteReader {
    fn refusal<T>(&self) -> Answered<'_, T> {
        let message = format!("{} is open read-only; open it as a store to write to it", self.path.display());
        Box::pin(async { Err(Error::new(ErrorKind::Open, message)) })
    }
}

impl Store for SqliteReader {
    fn lease(&self, _: Timestamp) -> Answered<'_, Epoch> {
        self.refusal()
    }

    fn write(&self, _: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>> {
        self.refusal()
    }

    fn release(&self, _: Epoch) -> Answered<'_, ()> {
        self.refusal()
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.listener.changed(|| {
            let (path, watch) = (self.path.clone(), Arc::downgrade(&self.watch));
            let thread =
                thread::Builder::new().name("outlive-watch".to_owned()).spawn(move || poll_for_writes(&path, &watch));
            if let Err(e) = thread {
                tracing::warn!("cannot watch {} for changes: could not start a thread ({e})", self.path.display());
            }
        })
    }

    fn durability(&self) -> String {
        format!("sqlite {}: read-only", rusqlite::version())
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// Polls for foreign writes and notifies `watch`, until the last handle is gone.
fn poll_for_writes(path: &Path, watch: &Weak<Watch>) {
    let ReaderConnection { connection, unchanged } = loop {
        if watch.strong_count() == 0 {
            return;
        }
        // Readers hit the same error and report it.
        match open::reader(path, &Options::view()) {
            Ok(reading) => break reading,
            Err(_) => thread::sleep(POLL_EVERY),
        }
    };
    let version = || connection.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0)).ok();
    let mut seen = version();
    // Writes before this point would go unnoticed.
    watch.upgrade().into_iter().for_each(|watch| watch.notify());
    while let Some(watch) = watch.upgrade() {
        let now = version();
        if now != seen || unchanged.as_ref().is_some_and(|unchanged: &UnchangedFile| unchanged.check().is_err()) {
            seen = now;
            watch.notify();
        }
        drop(watch);
        thread::sleep(POLL_EVERY);
    }
}

impl fmt::Debug for SqliteReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteReader").field("path", &self.path).finish_non_exhaustive()
    }
}
