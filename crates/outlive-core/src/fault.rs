//! Why a store could not do it, and how its answers come.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// The answer of a store, to be awaited.
pub type Answered<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Why a store could not do it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What kind of trouble.
    pub kind: ErrorKind,
    /// What happened and the way out, in a sentence.
    pub message: String,
}

/// Kinds of trouble with a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// It cannot be opened as it is: not a store, a newer format, a missing folder, a wrong setting.
    Open,
    /// Another process executes on it.
    Locked {
        /// That process, if it said so.
        pid: Option<u32>,
    },
    /// Not now: the disk is full, read-only or failing. Nothing was written.
    Unavailable,
    /// A write failed in a way that leaves open whether it is durable.
    Unknown,
    /// What is stored cannot be what was written.
    Corrupt,
}

impl Error {
    /// An error of that kind.
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
