//! A file that is only read, whoever executes it.

use std::fmt;
use std::path::{Path, PathBuf};

use outlive_core::store::Error;

use crate::open::{self, Options};
use crate::place;
use crate::reader::Reader;

/// A store that is only read: nothing of it is written, no lease is taken, and whoever executes it is not held up.
///
/// SQLite keeps two files beside a database (`-wal` and `-shm`). If nobody else has it open they may be left there,
/// and the next program that opens it takes them over.
///
/// ```
/// use outlive_core::query::{Filter, Query};
/// use outlive_sqlite::{Options, SqliteReader, SqliteStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("shop.db");
/// # let _executor = SqliteStore::open(&file, Options::default())?;
/// let reader = SqliteReader::open(&file)?;
/// assert_eq!(reader.count(&Filter::new()).await?.total(), 0);
/// # Ok(())
/// # }
/// ```
pub struct SqliteReader {
    path: PathBuf,
    /// For short questions about one instance, and wakes.
    pub(crate) lookups: Reader,
    /// For lists and counts, which may take a while.
    pub(crate) lists: Reader,
}

impl SqliteReader {
    /// Opens a file that is there.
    ///
    /// # Errors
    /// [`ErrorKind::Open`](outlive_core::store::ErrorKind::Open) if it is no store, with the reason and the way out.
    ///
    /// ```
    /// use outlive_sqlite::SqliteReader;
    /// let error = SqliteReader::open("mistyped.db".as_ref()).unwrap_err();
    /// assert!(error.message.contains("mistyped.db does not exist"));
    /// ```
    pub fn open(path: &Path) -> Result<Self, Error> {
        let path = place::canonical(path)?;
        open::existing(&path)?;
        Self::start(path, &Options::default())
    }

    /// Whether a file is a SQLite database, of whichever application. It is not changed.
    ///
    /// # Errors
    /// If it is not there or cannot be read.
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

    /// Reads a file that was found to be a store.
    pub(crate) fn start(path: PathBuf, options: &Options) -> Result<Self, Error> {
        let lookups = Reader::start(&path, options, "outlive-lookups")?;
        let lists = Reader::start(&path, options, "outlive-lists")?;
        Ok(Self { path, lookups, lists })
    }

    /// The file, by its absolute name.
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

impl fmt::Debug for SqliteReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteReader").field("path", &self.path).finish_non_exhaustive()
    }
}
