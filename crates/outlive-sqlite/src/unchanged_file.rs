//! Detects changes to a file that SQLite reads as immutable: one that nobody has open, in a directory that cannot be
//! written.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use outlive_core::store::{Error, ErrorKind};

use crate::place::FileIdentity;

/// A file as it was when it was opened for reading without a WAL and without locks.
#[derive(Clone, Debug)]
pub(crate) struct UnchangedFile {
    path: PathBuf,
    seen: FileState,
}

/// What changes whenever the file does. A program that writes it creates a WAL first.
#[derive(Clone, PartialEq, Eq, Debug)]
struct FileState {
    identity: FileIdentity,
    bytes: u64,
    modified: Option<SystemTime>,
    log_bytes: u64,
}

impl UnchangedFile {
    /// Returns the file, or `None` if its WAL holds changes that are not in it yet.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let seen = FileState::at(path).filter(|seen| seen.log_bytes == 0)?;
        Some(Self { path: path.to_owned(), seen })
    }

    /// Returns the URI under which SQLite reads the file as immutable.
    pub(crate) fn uri(&self) -> String {
        let mut uri = "file:".to_owned();
        for byte in self.path.as_os_str().as_encoded_bytes() {
            match byte {
                b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(*byte)),
                // Writing to a string cannot fail.
                _ => write!(uri, "%{byte:02x}").unwrap_or_default(),
            }
        }
        uri + "?immutable=1"
    }

    /// Checks that the file has not changed since: otherwise what was read may be stale or inconsistent.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if the file has changed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if FileState::at(&self.path).as_ref() == Some(&self.seen) {
            return Ok(());
        }
        let message =
            format!("{} was changed by another program while it was being read; open it again", self.path.display());
        Err(Error::new(ErrorKind::Unavailable, message))
    }
}

impl FileState {
    fn at(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        let log_bytes = fs::metadata(log_of(path)).map_or(0, |log| log.len());
        Some(Self {
            identity: FileIdentity::of(&found),
            bytes: found.len(),
            modified: found.modified().ok(),
            log_bytes,
        })
    }
}

/// Returns the path of the WAL that SQLite keeps next to a file.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    let mut log = OsString::from(path);
    log.push("-wal");
    log.into()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn change_of_the_file_or_its_wal_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b?.db");
        fs::write(&path, "one").unwrap();
        let unchanged = UnchangedFile::of(&path).unwrap();
        assert!(unchanged.uri().ends_with("/a%20b%3f.db?immutable=1"), "{}", unchanged.uri());
        unchanged.check().unwrap();
        fs::write(log_of(&path), "a change").unwrap();
        assert!(unchanged.check().unwrap_err().message.contains("was changed by another program"));
        assert!(UnchangedFile::of(&path).is_none(), "its WAL holds changes");
        fs::remove_file(log_of(&path)).unwrap();
        fs::write(&path, "another").unwrap();
        assert_eq!(unchanged.check().unwrap_err().kind, ErrorKind::Unavailable);
    }
}
