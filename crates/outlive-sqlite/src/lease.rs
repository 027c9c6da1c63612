//! Who executes: a lock on a file beside the store, which the kernel frees when its holder dies, and the epoch.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use outlive_core::mutant::{Mutant, is_on};
use outlive_core::store::{Error, ErrorKind};
use outlive_core::time::Timestamp;
use rusqlite::params;

use crate::batch::Batch;
use crate::open::private;
use crate::row;

/// The lock while it is held. It ends with the value, or with the process.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of the store at `store`.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] if another process, or another handle of this one, holds it.
    pub(crate) fn take(store: &Path) -> Result<Self, Error> {
        let path = path_of(store);
        let trouble = |e: std::io::Error| {
            let message = format!("{} cannot be locked ({e}); let this user write it and its folder", path.display());
            Error::new(ErrorKind::Unavailable, message)
        };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = private(options).open(&path).map_err(trouble)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(store, &mut file)),
            Err(TryLockError::Error(e)) => return Err(trouble(e)),
        }
        // The number is for people. If it cannot be written, the lock holds all the same.
        let _ = file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
        Ok(Self { file })
    }
}

impl Drop for Lock {
    /// The file stays: to remove it would let two processes lock two files of the same name.
    fn drop(&mut self) {
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

fn path_of(store: &Path) -> PathBuf {
    let mut path = OsString::from(store);
    path.push(".lock");
    path.into()
}

fn held(store: &Path, file: &mut File) -> Error {
    let mut text = String::new();
    let pid: Option<u32> = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
    let who = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
    let message =
        format!("{} is executed by {who}; stop it, or use `Client::open` to read and signal", store.display());
    Error::new(ErrorKind::Locked { pid }, message)
}

impl Batch<'_> {
    /// Begins a new epoch, and makes due what was driven in an earlier one.
    pub(crate) fn take_over(&mut self, now: Timestamp) -> rusqlite::Result<u64> {
        let sql =
            "UPDATE instance SET wake = ?1, owner = 0, recoveries = recoveries + iif(num = ?2, ?3, 1) WHERE owner <> 0";
        if !is_on(Mutant::SqliteFreesNobody) {
            let values = params![now.as_millis(), self.culprit()?, row::BLAMED];
            self.connection.prepare_cached(sql)?.execute(values)?;
        }
        self.ledger.marks.epoch += 1;
        self.ledger.drop_all_facts();
        Ok(self.ledger.marks.epoch)
    }

    /// The one that alone can be blamed for a death: the only one driven of the most suspicious sort.
    fn culprit(&self) -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT num, min(recoveries, 2) AS sort FROM instance WHERE owner <> 0 ORDER BY sort DESC LIMIT 2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let worst = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let worst: Vec<(i64, i64)> = worst.collect::<rusqlite::Result<_>>()?;
        Ok(match worst[..] {
            [(num, _)] => Some(num),
            [(num, first), (_, second)] if first > second => Some(num),
            _ => None,
        })
    }

    /// Makes due what is still driven, for whoever comes next.
    pub(crate) fn let_go(&mut self) -> rusqlite::Result<()> {
        self.connection.prepare_cached("UPDATE instance SET wake = 0, owner = 0 WHERE owner <> 0")?.execute([])?;
        self.ledger.drop_all_facts();
        Ok(())
    }
}
