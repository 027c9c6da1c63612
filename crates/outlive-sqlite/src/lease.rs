//! Who executes: a lock on a file beside the store, which the kernel frees when its holder dies, and the epoch.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use outlive_core::mutant::{Mutant, is_on};
use outlive_core::store::{Error, ErrorKind};
use outlive_core::time::Timestamp;
use rusqlite::params;

use crate::batch::Batch;
use crate::place::{self, Identity, links, private};
use crate::row;

/// How often the file is opened anew because somebody removes it just then.
const TAKES_MAX: u32 = 100;

/// How long to ask who executes a store takes, about.
const ASKING: Duration = Duration::from_millis(1);

/// Who executes a store.
///
/// ```
/// use outlive_sqlite::Executor;
/// let executor = Executor::of("no-such-store.db".as_ref());
/// assert_eq!(executor, Executor::Nobody);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Executor {
    /// No process does.
    Nobody,
    /// A process does.
    Process {
        /// Its number, if it has written it down.
        pid: Option<u32>,
    },
    /// It cannot be found out: this user may not read the lock of the store.
    Unknown,
}

impl Executor {
    /// Looks who executes the store in this file, now. Nothing is written, and nobody is held up.
    ///
    /// ```
    /// use outlive_core::{store::Store, time::Timestamp};
    /// use outlive_sqlite::{Executor, Options, SqliteStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let file = folder.path().join("shop.db");
    /// let store = SqliteStore::open(&file, Options::default())?;
    /// assert_eq!(Executor::of(&file), Executor::Nobody);
    /// let epoch = store.lease(Timestamp::from_millis(0)).await?;
    /// assert_eq!(Executor::of(&file), Executor::Process { pid: Some(std::process::id()) });
    /// # store.release(epoch).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn of(store: &Path) -> Self {
        let Ok(store) = place::canonical(store) else { return Self::Unknown };
        let lock = path_of(&store);
        match fs::symlink_metadata(&lock) {
            Ok(found) if found.is_file() => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Self::Nobody,
            _ => return Self::Unknown,
        }
        let Ok(mut file) = File::open(&lock) else { return Self::Unknown };
        match file.try_lock_shared() {
            Ok(()) => Self::Nobody,
            Err(TryLockError::WouldBlock) => Self::Process { pid: pid_in(&mut file) },
            Err(TryLockError::Error(_)) => Self::Unknown,
        }
    }
}

/// The lock while it is held. It ends with the value, or with the process.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock of the store at `store`.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] if another process, or another handle of this one, holds it; [`ErrorKind::Open`] if the
    /// lock is not a plain file.
    pub(crate) fn take(store: &Path) -> Result<Self, Error> {
        let path = path_of(store);
        for _ in 0..TAKES_MAX {
            let mut file = open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                // Nobody executes it; somebody has asked who does, and is done at once.
                Err(TryLockError::WouldBlock) if is_free(&file) => {
                    thread::sleep(ASKING);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Err(held(store, &mut file)),
                Err(TryLockError::Error(e)) => return Err(trouble(&path, &e)),
            }
            let mut lock = Self { file, path: path.clone() };
            // Only now is it certain that the name leads to what is locked, and not elsewhere.
            if lock.is_in_place() {
                // Which process this is, and which file it executes, should that be renamed. If it cannot be written, the
                // lock holds all the same.
                let pid = std::process::id();
                let text = Identity::at(store).map_or_else(|| pid.to_string(), |file| format!("{pid}\n{file}\n"));
                let _ = lock.file.set_len(0).and_then(|()| lock.file.write_all(text.as_bytes()));
                return Ok(lock);
            }
        }
        Err(trouble(&path, &io::Error::other("others keep removing it, or asking who holds it")))
    }

    /// Makes and locks the file again if somebody has removed it, so that others find it locked. If another process was
    /// faster, this one is fenced by the epoch.
    pub(crate) fn restore(&mut self, store: &Path) {
        if self.is_in_place() {
            return;
        }
        if let Ok(lock) = Self::take(store) {
            tracing::warn!(
                "{} was removed while this process executes the store, and is made again; leave it where it is",
                self.path.display()
            );
            *self = lock;
        }
    }

    /// Whether whoever opens the file by its name opens the one that is locked here.
    fn is_in_place(&self) -> bool {
        self.file.metadata().is_ok_and(|locked| Identity::at(&self.path) == Some(Identity::of(&locked)))
    }
}

impl Drop for Lock {
    /// The file stays: to remove it would let two processes lock two files of the same name.
    fn drop(&mut self) {
        if self.is_in_place() {
            let _ = self.file.set_len(0);
        }
        let _ = self.file.unlock();
    }
}

/// Opens the lock file, and makes it if there is none. Nothing is locked or written through a link: what it leads to
/// belongs to somebody else.
fn open(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let opened = match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() || links(&found) > 1 => {
            let message = format!(
                "{} is a link or no plain file, and locking it would change another file; remove it",
                path.display()
            );
            return Err(Error::new(ErrorKind::Open, message));
        }
        Ok(_) => options.open(path),
        Err(_) => match private(options.create_new(true)).open(path) {
            // Another process has made it just now.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => OpenOptions::new().read(true).write(true).open(path),
            made => made,
        },
    };
    opened.map_err(|e| trouble(path, &e))
}

fn trouble(path: &Path, e: &io::Error) -> Error {
    let message = format!("{} cannot be locked ({e}); let this user write it and its folder", path.display());
    Error::new(ErrorKind::Unavailable, message)
}

fn path_of(store: &Path) -> PathBuf {
    let mut path = OsString::from(store);
    path.push(".lock");
    path.into()
}

/// Whether nobody holds the lock alone. Those who ask who executes the store hold it together, for a moment.
fn is_free(file: &File) -> bool {
    file.try_lock_shared().is_ok_and(|()| file.unlock().is_ok())
}

fn pid_in(file: &mut File) -> Option<u32> {
    holder(file).0
}

/// Refuses the store at `path` if a process executes this very file by the lock beside `home`. A copy is another file, and
/// one that was moved while nobody executed it has no such process.
///
/// # Errors
/// [`ErrorKind::Locked`] if one does.
pub(crate) fn check_home(path: &Path, home: &Path) -> Result<(), Error> {
    let (here, there) = (path_of(path), path_of(home));
    let is_plain = fs::symlink_metadata(&there).is_ok_and(|found| found.is_file());
    // The same folder by another way, such as a bind mount, has the same lock and the same log.
    if !cfg!(unix) || !is_plain || Identity::at(&here) == Identity::at(&there) {
        return Ok(());
    }
    let Ok(mut file) = File::open(&there) else { return Ok(()) };
    let (pid, store) = holder(&mut file);
    // Only then is it tried: whoever takes the lock just now must not find it taken.
    if store.is_none() || store != Identity::at(path) {
        return Ok(());
    }
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let (path, home) = (path.display(), home.display());
            let message = format!(
                "{path} is executed by {who} as {home}, and opening it under a second name would damage it; move it \
                 back, or stop that process first",
                who = name_of(pid)
            );
            Err(Error::new(ErrorKind::Locked { pid }, message))
        }
        _ => Ok(()),
    }
}

/// What a lock file says: the process that holds it, and the store that it executes.
fn holder(file: &mut File) -> (Option<u32>, Option<Identity>) {
    let mut text = String::new();
    if file.read_to_string(&mut text).is_err() {
        return (None, None);
    }
    let mut words = text.split_whitespace();
    let pid = words.next().and_then(|word| word.parse().ok());
    (pid, words.next().and_then(|word| word.parse().ok()))
}

fn name_of(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

fn held(store: &Path, file: &mut File) -> Error {
    let (pid, _) = holder(file);
    let who = name_of(pid);
    let message =
        format!("{} is executed by {who}; stop it, or use `Client::open` to read and signal", store.display());
    Error::new(ErrorKind::Locked { pid }, message)
}

impl Batch<'_> {
    /// Begins a new epoch, and makes due what was driven in an earlier one.
    pub(crate) fn take_over(&mut self, now: Timestamp) -> rusqlite::Result<(u64, usize)> {
        let mut driven = 0;
        let sql =
            "UPDATE instance SET wake = ?1, owner = 0, recoveries = recoveries + iif(num = ?2, ?3, 1) WHERE owner <> 0";
        if !is_on(Mutant::SqliteFreesNobody) {
            let values = params![now.as_millis(), self.culprit()?, row::BLAMED];
            driven = self.connection.prepare_cached(sql)?.execute(values)?;
        }
        self.ledger.marks.epoch += 1;
        self.ledger.drop_all_facts();
        Ok((self.ledger.marks.epoch, driven))
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

    /// Makes due what is still driven, for whoever comes next. What a later holder drives is not touched.
    pub(crate) fn let_go(&mut self) -> rusqlite::Result<()> {
        if self.epoch == 0 {
            return Ok(());
        }
        self.connection.prepare_cached("UPDATE instance SET wake = 0, owner = 0 WHERE owner <> 0")?.execute([])?;
        self.ledger.drop_all_facts();
        Ok(())
    }
}
