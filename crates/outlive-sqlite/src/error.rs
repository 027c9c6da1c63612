//! What SQLite says, in words that name the file and the way out.

use std::path::Path;
use std::time::Duration;

use outlive_core::store::{Error, ErrorKind};
use rusqlite::ErrorCode;

use crate::still::log_of;

/// How long a statement waits for another process to unlock the file.
pub(crate) const BUSY_MAX: Duration = Duration::from_secs(5);

/// How many times as long a write waits while others make progress, as long as it is not its turn.
pub(crate) const CROWD: u32 = 12;

/// Whether another connection had the file locked for as long as was waited.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Others write one after the other, and this connection never had its turn.
pub(crate) fn crowded(path: &Path, waited: Duration) -> Error {
    let message = format!(
        "so many processes write to {} that this one had no turn for {waited:?}; let fewer processes write to it, or write \
         more at once",
        path.display()
    );
    Error::new(ErrorKind::Unavailable, message)
}

/// Trouble while opening: what cannot be got over by waiting is of kind `Open`.
pub(crate) fn on_open(path: &Path, error: &rusqlite::Error) -> Error {
    let name = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            let message = format!("{name} is not a SQLite database; name another file, or move this one away");
            Error::new(ErrorKind::Open, message)
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            let message = format!(
                "{name} cannot be written ({error}); let this user write the file and its folder, where SQLite \
                 keeps two more files"
            );
            Error::new(ErrorKind::Open, message)
        }
        _ => while_reading(path, error),
    }
}

/// A log holds changes, and cannot be read where nothing can be written.
pub(crate) fn unreadable_log(path: &Path, error: &rusqlite::Error) -> Error {
    let (name, log) = (path.display(), log_of(path));
    let message = format!(
        "{name} cannot be read without its log {log:?}, and SQLite cannot read that here ({error}); copy both to a \
         folder that this user may write, and read the copy"
    );
    Error::new(ErrorKind::Open, message)
}

/// Trouble while reading, or in a write before its COMMIT: nothing has changed.
pub(crate) fn while_reading(path: &Path, error: &rusqlite::Error) -> Error {
    let name = path.display();
    let (kind, message) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            (ErrorKind::Unavailable, format!("the disk of {name} is full; free some space and it goes on by itself"))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::Unavailable,
            format!(
                "another process has had a transaction open on {name} for {BUSY_MAX:?} and keeps everybody from writing; \
                 `fuser {name}` lists the processes, end that transaction"
            ),
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => (
            ErrorKind::Unavailable,
            format!("{name} has become read-only ({error}); let this user write the file and its folder"),
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation) => (
            ErrorKind::Corrupt,
            format!(
                "{name} is damaged ({error}); keep a copy, then try `sqlite3 {name} .recover`, or restore a backup"
            ),
        ),
        _ => (
            ErrorKind::Unavailable,
            format!("{name} could not be read or written ({error}); look at the disk it is on"),
        ),
    };
    Error::new(kind, message)
}

/// Trouble with a COMMIT. Only if the disk is full, the file locked, or damage was met is it certain that nothing was
/// written.
pub(crate) fn on_commit(path: &Path, error: &rusqlite::Error, is_rolled_back: bool) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseCorrupt) if is_rolled_back => {
            while_reading(path, error)
        }
        _ => Error::new(
            ErrorKind::Unknown,
            format!("{} may or may not hold the last batch: its COMMIT said {error}; write it again", path.display()),
        ),
    }
}

/// The name of the file leads to another file, or to none.
pub(crate) fn moved(path: &Path) -> Error {
    let message = format!(
        "{} was moved, removed or replaced while it is in use; put it back, or restart this process on the new file",
        path.display()
    );
    Error::new(ErrorKind::Unavailable, message)
}

/// The thread that was to answer is gone, which only a bug in it can bring about.
pub(crate) fn gone(path: &Path) -> Error {
    Error::new(
        ErrorKind::Unknown,
        format!("the thread that serves {} has ended; open the store again and report this", path.display()),
    )
}

/// Whether a page of the file is damaged, which is the trouble of the rows on it and of no others.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}
