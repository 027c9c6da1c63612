//! The `Store` trait: transactional storage of rows, fenced by a lease. A store knows nothing about workflows.

pub mod beginning;
pub mod commit;
mod error;
pub mod expire;
pub mod memory;
pub mod page;
pub mod query;
pub mod touched;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::store::commit::{Answer, Epoch, Write};
pub use crate::store::error::{Answered, Error, ErrorKind};
use crate::store::query::Query;
use crate::store::touched::{Touch, Touched};
use crate::time::Timestamp;

/// The storage of all instances.
pub trait Store: Query + 'static {
    /// Takes the lease under a new epoch. Instances that an earlier owner was driving are released and due at `now`,
    /// and their recoveries go up by one. If one of them stands out, because it is the only
    /// [suspect](crate::store::query::Instance::is_suspect), the only one with recoveries or the only one at all, it is
    /// blamed.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] while another owner is alive.
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch>;

    /// Writes a batch in order, in one transaction, and returns the result of each write once all of it is durable.
    /// Each write is atomic by itself: a refused or fenced one does not affect the others.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if nothing of the batch was written, [`ErrorKind::Unknown`] if that is not known:
    /// then write the same batch again, and it returns the results that the first write should have returned.
    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>>;

    /// Releases the lease.
    fn release(&self, epoch: Epoch) -> Answered<'_, ()>;

    /// Resolves when another process may have written. Never resolves if no other process can write.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns the instances changed after a position of the feed, or `None` if the store does not know, in which case
    /// any instance may have changed.
    fn touched(&self, _after: u64, _touch: Touch) -> Answered<'_, Option<Touched>> {
        Box::pin(async { Ok(None) })
    }

    /// Describes how durable a completed write is, as read back from the store, for people and benchmarks.
    fn durability(&self) -> String;

    /// Returns the name of the store for messages, such as its file name.
    fn name(&self) -> String {
        "this store".to_owned()
    }
}
