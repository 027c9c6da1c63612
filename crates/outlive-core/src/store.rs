//! What a store must do: keep rows, all or nothing, for whoever holds the lease. It knows nothing of workflows.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::commit::{Answer, Epoch, Write};
pub use crate::fault::{Answered, Error, ErrorKind};
use crate::query::Query;
use crate::time::Timestamp;

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
