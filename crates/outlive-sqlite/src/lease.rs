//! The lease: a lock on a file next to the store, which the kernel releases when its holder dies.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use outlive_core::store::{Error, ErrorKind};

use crate::place::{self, FileIdentity, links, private};

/// How often taking the lock is retried when others remove the file or ask who holds it at that moment.
const TAKES_MAX: u32 = 100;

/// The approximate time it takes to ask who executes a store.
const ASKING: Duration = Duration::from_millis(1);

/// The process that executes a store, if any.
///
/// ```
/// use outlive_sqlite::Executor;
/// let executor = Executor::of("no-such-store.db".as_ref());
/// assert_eq!(executor, Executor::Nobody);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Executor {
    /// No process executes it.
    Nobody,
    /// A process executes it.
    Process {
        /// The process id, if it has been recorded.
        pid: Option<u32>,
    },
    /// Not known: this user may not read the lock of the store.
    Unknown,
}

impl Executor {
    /// Returns who executes the store in this file right now. Writes nothing and blocks nobody.
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

/// A held lock. It is released when the value is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock of the store at `store`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Locked`] if another process, or another handle of this one, holds it, and
    /// [`ErrorKind::Open`] if the lock is not a regular file.
    pub(crate) fn take(store: &Path) -> Result<Self, Error> {
        let path = path_of(store);
        for _ in 0..TAKES_MAX {
            let mut file = open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                // Nobody executes it; somebody is only asking who does, and is done in a moment.
                Err(TryLockError::WouldBlock) if is_free(&file) => {
                    thread::sleep(ASKING);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Err(held(store, &mut file)),
                Err(TryLockError::Error(e)) => return Err(trouble(&path, &e)),
            }
            let mut lock = Self { file, path: path.clone() };
            // Only now is it certain that the name leads to the file that is locked.
            if lock.is_in_place() {
                // Records this process, and the file it executes in case that is renamed. The lock holds even if this
                // cannot be written.
                let pid = std::process::id();
                let text = FileIdentity::at(store).map_or_else(|| pid.to_string(), |file| format!("{pid}\n{file}\n"));
                let _ = lock.file.set_len(0).and_then(|()| lock.file.write_all(text.as_bytes()));
                return Ok(lock);
            }
        }
        Err(trouble(&path, &io::Error::other("other processes keep removing it or asking who holds it")))
    }

    /// Creates and locks the file again if somebody has removed it, so that others find it locked. If another process
    /// was faster, the epoch fences this one.
    pub(crate) fn restore(&mut self, store: &Path) {
        if self.is_in_place() {
            return;
        }
        if let Ok(lock) = Self::take(store) {
            tracing::warn!(
                "{} was removed while this process executes the store and has been created again; do not remove it",
                self.path.display()
            );
            *self = lock;
        }
    }

    /// Returns `true` if the name still leads to the file that is locked here.
    fn is_in_place(&self) -> bool {
        self.file.metadata().is_ok_and(|locked| FileIdentity::at(&self.path) == Some(FileIdentity::of(&locked)))
    }
}

impl Drop for Lock {
    /// Releases the lock but leaves the file: removing it would let two processes lock two files of the same name.
    fn drop(&mut self) {
        if self.is_in_place() {
            let _ = self.file.set_len(0);
        }
        let _ = self.file.unlock();
    }
}

/// Opens the lock file, creating it if it does not exist. Never locks or writes through a link: its target belongs to
/// somebody else.
fn open(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let opened = match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() || links(&found) > 1 => {
            let message = format!(
                "{} is a link or not a regular file, and locking it would change another file; remove it",
                path.display()
            );
            return Err(Error::new(ErrorKind::Open, message));
        }
        Ok(_) => options.open(path),
        Err(_) => match private(options.create_new(true)).open(path) {
            // Another process has just created it.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => OpenOptions::new().read(true).write(true).open(path),
            made => made,
        },
    };
    opened.map_err(|e| trouble(path, &e))
}

fn trouble(path: &Path, e: &io::Error) -> Error {
    let message = format!("cannot lock {} ({e}); make it and its directory writable", path.display());
    Error::new(ErrorKind::Unavailable, message)
}

fn path_of(store: &Path) -> PathBuf {
    let mut path = OsString::from(store);
    path.push(".lock");
    path.into()
}

/// Returns `true` if nobody holds the lock exclusively. Processes that ask who executes the store share it for a
/// moment.
fn is_free(file: &File) -> bool {
    file.try_lock_shared().is_ok_and(|()| file.unlock().is_ok())
}

fn pid_in(file: &mut File) -> Option<u32> {
    holder(file).0
}

/// Refuses the store at `path` if a process executes this very file under the lock next to `home`. A copy is another
/// file, and a file that was moved while nobody executed it has no such process.
///
/// # Errors
/// Returns [`ErrorKind::Locked`] if one does.
pub(crate) fn check_home(path: &Path, home: &Path) -> Result<(), Error> {
    let (here, there) = (path_of(path), path_of(home));
    let is_plain = fs::symlink_metadata(&there).is_ok_and(|found| found.is_file());
    // The same directory by another route, such as a bind mount, has the same lock and the same WAL.
    if !cfg!(unix) || !is_plain || FileIdentity::at(&here) == FileIdentity::at(&there) {
        return Ok(());
    }
    let Ok(mut file) = File::open(&there) else { return Ok(()) };
    let (pid, store) = holder(&mut file);
    // The lock is tried only after this check, so that it does not get in the way of a process about to take it.
    if store.is_none() || store != FileIdentity::at(path) {
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

/// Reads a lock file: the process that holds it, and the store that it executes.
fn holder(file: &mut File) -> (Option<u32>, Option<FileIdentity>) {
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
