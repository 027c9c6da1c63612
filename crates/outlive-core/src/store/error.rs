//! Errors of a store, and the future that its methods return.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// The boxed future that the methods of a store return.
pub type Answered<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// An error of a store.
///
/// ```
/// use outlive_core::store::{Error, ErrorKind};
///
/// fn is_transient(error: &Error) -> bool {
///     matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Unknown)
/// }
/// assert!(!is_transient(&Error::new(ErrorKind::Corrupt, "entry 3 is damaged; restore a backup")));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
    /// What happened and what to do about it, in one line.
    pub message: String,
}

/// The kind of a store error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store cannot be opened: it is not a store, has a newer format, is in a missing folder or has a wrong
    /// setting.
    Open,
    /// Another process holds the lease.
    Locked {
        /// The process id of the owner, if known.
        pid: Option<u32>,
    },
    /// The store cannot write at the moment: the disk is full, read-only or failing. Nothing was written.
    Unavailable,
    /// A write failed, and whether it is durable is not known.
    Unknown,
    /// The stored data cannot be what was written.
    Corrupt,
}

impl Error {
    /// Creates an error of this kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
