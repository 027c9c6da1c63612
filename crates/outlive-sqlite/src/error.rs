//! Turns SQLite errors into messages that name the file and what to do.

use std::path::Path;
use std::time::Duration;

use outlive_core::store::{Error, ErrorKind};
use rusqlite::ErrorCode;

use crate::unchanged_file::log_of;

/// How long a statement waits for another process to unlock the file.
pub(crate) const BUSY_MAX: Duration = Duration::from_secs(5);

/// How many times [`BUSY_MAX`] a write waits for its turn while other connections keep committing.
pub(crate) const CROWD: u32 = 12;

/// Returns `true` if another connection held the lock for the whole wait.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The error when other connections write one after another and this one never gets its turn.
pub(crate) fn crowded(path: &Path, waited: Duration) -> Error {
    let message = format!(
        "too many processes write to {}: this one got no turn for {waited:?}; let fewer processes write to it, or \
         write in larger batches",
        path.display()
    );
    Error::new(ErrorKind::Unavailable, message)
}

/// Maps an error while opening. Errors that waiting does not fix have kind `Open`.
pub(crate) fn on_open(path: &Path, error: &rusqlite::Error) -> Error {
    let name = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            let message = format!("{name} is not a SQLite database; use another file, or move this one away");
            Error::new(ErrorKind::Open, message)
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            let message = format!(
                "{name} is not writable ({error}); make the file and its directory writable, as SQLite keeps two more \
                 files there"
            );
            Error::new(ErrorKind::Open, message)
        }
        _ => while_reading(path, error),
    }
}

/// The error when the WAL holds changes but cannot be read, because nothing can be written here.
pub(crate) fn unreadable_log(path: &Path, error: &rusqlite::Error) -> Error {
    let (name, log) = (path.display(), log_of(path));
    let message = format!(
        "{name} cannot be read without its WAL {log:?}, which SQLite cannot read here ({error}); copy both to a \
         writable directory, and read the copy"
    );
    Error::new(ErrorKind::Open, message)
}

/// Maps an error while reading, or in a write before its COMMIT: nothing has changed.
pub(crate) fn while_reading(path: &Path, error: &rusqlite::Error) -> Error {
    let name = path.display();
    let (kind, message) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            (ErrorKind::Unavailable, format!("the disk of {name} is full; free some space, and work resumes by itself"))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::Unavailable,
            format!(
                "another process has held a transaction open on {name} for {BUSY_MAX:?}, which blocks all writes; find \
                 it with `fuser {name}`, and end that transaction"
            ),
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => (
            ErrorKind::Unavailable,
            format!("{name} has become read-only ({error}); make the file and its directory writable"),
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation) => (
            ErrorKind::Corrupt,
            format!(
                "{name} is damaged ({error}); keep a copy, then try `sqlite3 {name} .recover`, or restore a backup"
            ),
        ),
        _ => (ErrorKind::Unavailable, format!("{name} could not be read or written ({error}); check its disk")),
    };
    Error::new(kind, message)
}

/// Maps an error of a COMMIT. Only if the disk is full, the file is locked or damage was found is it certain that
/// nothing was written.
pub(crate) fn on_commit(path: &Path, error: &rusqlite::Error, is_rolled_back: bool) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseCorrupt) if is_rolled_back => {
            while_reading(path, error)
        }
        _ => Error::new(
            ErrorKind::Unknown,
            format!("{} may or may not hold the last batch: COMMIT failed ({error}); write it again", path.display()),
        ),
    }
}

/// The error when the name of the store leads to another file, or to none.
pub(crate) fn moved(path: &Path) -> Error {
    let message = format!(
        "{} was moved, removed or replaced while in use; put it back, or restart this process on the new file",
        path.display()
    );
    Error::new(ErrorKind::Unavailable, message)
}

/// The error when the serving thread is gone, which only a bug in it can cause.
pub(crate) fn gone(path: &Path) -> Error {
    Error::new(
        ErrorKind::Unknown,
        format!("the thread that serves {} has stopped; reopen the store, and report this", path.display()),
    )
}

/// Returns `true` if a page of the file is damaged, which affects only the rows on it.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}
