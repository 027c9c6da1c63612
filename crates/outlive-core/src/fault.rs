//! Why a store could not do it, and how its answers come.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// The answer of a store, to be awaited.
///
/// ```
/// use outlive_core::store::{Answered, Error, ErrorKind};
///
/// fn full() -> Answered<'static, u64> {
///     Box::pin(async { Err(Error::new(ErrorKind::Unavailable, "the disk is full; free some space")) })
/// }
/// ```
pub type Answered<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Why a store could not do it.
///
/// ```
/// use outlive_core::store::{Error, ErrorKind};
///
/// fn is_worth_another_try(error: &Error) -> bool {
///     matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Unknown)
/// }
/// assert!(!is_worth_another_try(&Error::new(ErrorKind::Corrupt, "entry 3 is damaged; restore a backup")));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What kind of trouble.
    pub kind: ErrorKind,
    /// What happened and the way out, in a sentence.
    pub message: String,
}

/// Kinds of trouble with a store.
///
/// ```
/// use outlive_core::store::ErrorKind;
///
/// fn holder(kind: ErrorKind) -> Option<u32> {
///     match kind {
///         ErrorKind::Locked { pid } => pid,
///         _ => None,
///     }
/// }
/// assert_eq!(holder(ErrorKind::Locked { pid: Some(4711) }), Some(4711));
/// ```
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
    ///
    /// ```
    /// use outlive_core::store::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::Open, "shop.db is a folder; name a file in it");
    /// assert_eq!(error.to_string(), "shop.db is a folder; name a file in it");
    /// ```
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
