//! What a store must do: keep rows, all or nothing, for whoever holds the lease. It knows nothing of workflows.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::commit::{Answer, Epoch, Write};
use crate::query::Query;
use crate::time::Timestamp;

/// The answer of a store, to be awaited.
pub type Answered<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Where instances live.
pub trait Store: Query + 'static {
    /// Takes the right to execute under a new epoch. What an earlier holder was driving is made due at `now`,
    /// released, and its recoveries counted up by one.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] while another holder is alive.
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch>;

    /// Writes a batch in order, in one transaction, and answers each write once all of it is durable. Each write
    /// is all or nothing by itself: a refused or fenced one does not hold up the others.
    ///
    /// # Errors
    /// If the batch as a whole was not written ([`ErrorKind::Unavailable`]), or that is not known
    /// ([`ErrorKind::Unknown`]): then write the same batch again, and it is answered as it should have been.
    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>>;

    /// Gives back the right to execute.
    fn release(&self, epoch: Epoch) -> Answered<'_, ()>;

    /// Comes back when somebody outside this process may have written. Never comes back if nobody can.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// How durable an answered write is, as read back from the store: for people and benches.
    fn durability(&self) -> String;
}

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
