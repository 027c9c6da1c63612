//! The stage: one disk, and the folder in which the store finds its name and its lock.

use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;

use outlive_sqlite::{Durability, Options, SqliteStore};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::disk::{Disk, Syncs};
use crate::model::told;
use crate::vfs::Vfs;

/// Limit on the pages in the log: few, so that there are many checkpoints.
const CHECKPOINT_PAGES: u32 = 25;

/// The digest of a file without tables.
pub(crate) const EMPTY: u64 = 0;

/// The durability settings of the store and its disk.
///
/// ```
/// use outlive_powercut::Setting;
/// assert_eq!(Setting::default(), Setting::Full);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Setting {
    /// `synchronous=FULL`, as users have it: nothing acknowledged may be lost.
    #[default]
    Full,
    /// `synchronous=NORMAL`: a power cut loses what was written last, but never a part of a batch.
    Relaxed,
    /// `synchronous=FULL` on a disk whose syncs do nothing: a power cut may lose and tear anything.
    LyingSync,
}

/// A named disk.
#[derive(Debug)]
pub(crate) struct Stage {
    vfs: Vfs,
    folder: TempDir,
    setting: Setting,
}

/// How thoroughly to check the pages of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Each page by itself.
    Quick,
    /// Also each index against its table.
    Thorough,
}

impl Stage {
    pub(crate) fn new(setting: Setting) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|e| format!("failed to create a folder for the store's lock: {e}"))?;
        Ok(Self { vfs: Vfs::register(), folder, setting })
    }

    pub(crate) fn disk(&self) -> &std::sync::Arc<Disk> {
        self.vfs.disk()
    }

    pub(crate) fn syncs(&self) -> Syncs {
        if self.setting == Setting::LyingSync { Syncs::Lying } else { Syncs::Honest }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("runs.db")
    }

    /// Opens the store, with all its threads.
    pub(crate) fn store(&self) -> Result<SqliteStore, outlive_core::store::Error> {
        let durability = if self.setting == Setting::Relaxed { Durability::Relaxed } else { Durability::Full };
        let options = Options::new().durability(durability).checkpoint_pages(CHECKPOINT_PAGES).vfs(self.vfs.name());
        SqliteStore::open(&self.path(), options)
    }

    /// Opens the store where nothing should prevent it.
    pub(crate) fn open(&self) -> Result<SqliteStore, String> {
        told(self.store()).map_err(|error| format!("failed to open the store: {error}"))
    }

    /// Hashes all rows of all tables, if the file is sound.
    pub(crate) fn digest(&self, look: Look) -> Result<u64, String> {
        self.read(look).map_err(|error| format!("failed to read the file: {error}"))?
    }

    fn read(&self, look: Look) -> rusqlite::Result<Result<u64, String>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs(self.path(), flags, self.vfs.name())?;
        let check = match look {
            Look::Quick => "PRAGMA quick_check(1)",
            Look::Thorough => "PRAGMA integrity_check(1)",
        };
        let found: String = connection.query_row(check, [], |row| row.get(0))?;
        if found != "ok" {
            return Ok(Err(format!("the file is damaged: {found}")));
        }
        digest(&connection).map(Ok)
    }
}

/// Hashes all rows of all tables.
fn digest(connection: &Connection) -> rusqlite::Result<u64> {
    let mut names = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
    let names: Vec<String> = names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if names.is_empty() {
        return Ok(EMPTY);
    }
    let mut sum = DefaultHasher::new();
    for name in names {
        sum.write(name.as_bytes());
        let mut statement = connection.prepare(&format!("SELECT * FROM \"{name}\""))?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                eat(&mut sum, row.get_ref(column)?);
            }
        }
    }
    Ok(sum.finish())
}

fn eat(sum: &mut DefaultHasher, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => sum.write_u8(0),
        ValueRef::Integer(number) => sum.write_i64(number),
        ValueRef::Real(number) => sum.write_u64(number.to_bits()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            sum.write_usize(bytes.len());
            sum.write(bytes);
        }
    }
}
