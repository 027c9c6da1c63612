//! Identifies files: one canonical path per store, and a check that the path still leads to the same file.

use std::fmt;
use std::fs::{self, Metadata, OpenOptions};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use outlive_core::store::{Error, ErrorKind};

use crate::watch;

/// How long the path of an open store is trusted before it is checked again.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// Returns the path of a store's file: absolute, and on Unix free of symbolic links, so that everybody who opens the
/// file finds the same lock and the same WAL next to it. The file need not exist yet.
///
/// # Errors
/// Returns an error if the path cannot name a file, or is a dangling link.
pub(crate) fn canonical(path: &Path) -> Result<PathBuf, Error> {
    let absolute = std::path::absolute(path).map_err(|e| {
        let message = format!("{path:?} is not a file name ({e}); use a path such as shop.db");
        Error::new(ErrorKind::Open, message)
    })?;
    if !cfg!(unix) {
        return Ok(absolute);
    }
    if let Ok(found) = fs::canonicalize(&absolute) {
        return Ok(found);
    }
    if absolute.is_symlink() {
        let message = format!(
            "{} is a symbolic link to a file that does not exist; remove the link, or use the path of the file itself",
            absolute.display()
        );
        return Err(Error::new(ErrorKind::Open, message));
    }
    let folder = absolute.parent().and_then(|folder| fs::canonicalize(folder).ok());
    Ok(folder.zip(absolute.file_name()).map_or(absolute.clone(), |(folder, name)| folder.join(name)))
}

/// Refuses a file that has more than one name: SQLite keeps a WAL next to each of them, and two WALs damage the file.
///
/// # Errors
/// Returns [`ErrorKind::Open`] if it has.
pub(crate) fn check_links(path: &Path) -> Result<(), Error> {
    let links = fs::metadata(path).map_or(1, |found| links(&found));
    if links < 2 {
        return Ok(());
    }
    let message = format!(
        "{name} has {links} hard links, and opening it under two names would damage it; remove the others \
         (`find / -xdev -samefile {name}` lists them)",
        name = path.display()
    );
    Err(Error::new(ErrorKind::Open, message))
}

/// Returns the number of hard links to a file.
#[cfg(unix)]
pub(crate) fn links(file: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(file)
}

/// Returns 1, as the system does not report the number of hard links.
#[cfg(not(unix))]
pub(crate) fn links(_: &Metadata) -> u64 {
    1
}

/// Makes a created file accessible only to its owner, as it holds payloads.
pub(crate) fn private(options: &mut OpenOptions) -> &OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// The identity of a file, independent of its name. Where the system has none, all files count as the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileIdentity(u64, u64);

impl FileIdentity {
    #[cfg(unix)]
    pub(crate) fn of(file: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(file.dev(), file.ino())
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_: &Metadata) -> Self {
        Self(0, 0)
    }

    /// Returns the file at this path now, without following a link.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|found| Self::of(&found))
    }
}

impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

impl FromStr for FileIdentity {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (device, file) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self(device.parse()?, file.parse()?))
    }
}

/// The path of an open store, and whether it still leads to the file that was opened.
#[derive(Debug)]
pub(crate) struct OpenPath {
    path: PathBuf,
    opened: Option<FileIdentity>,
    is_moved: bool,
    checked_at: Instant,
}

impl OpenPath {
    /// Remembers the file that the path leads to now.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { opened: FileIdentity::at(&path), is_moved: false, checked_at: watch::now(), path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `true` if the path led to another file, or to none, at the last check.
    pub(crate) fn is_moved(&self) -> bool {
        self.is_moved
    }

    /// Returns `true` if the last check is too old, or found the file moved.
    pub(crate) fn is_check_due(&self) -> bool {
        self.is_moved || self.checked_at.elapsed() >= CHECK_EVERY
    }

    pub(crate) fn check(&mut self) {
        self.checked_at = watch::now();
        self.is_moved = FileIdentity::at(&self.path) != self.opened;
    }
}
