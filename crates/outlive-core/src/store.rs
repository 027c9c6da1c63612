//! What a store must do: keep rows, all or nothing, for whoever holds the lease. It knows nothing of workflows.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::commit::{Answer, Epoch, Write};
pub use crate::fault::{Answered, Error, ErrorKind};
use crate::query::Query;
use crate::time::Timestamp;
use crate::touched::{Touch, Touched};

/// Where instances live.
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// use std::sync::Arc;
///
/// use outlive_core::memory::MemoryStore;
/// use outlive_core::query::Filter;
/// use outlive_core::store::Store;
/// # use outlive_core::time::Timestamp;
///
/// let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
/// let epoch = store.lease(Timestamp::from_millis(0)).await?;
/// assert_eq!(store.count(&Filter::new()).await?.total(), 0);
/// store.release(epoch).await?;
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
pub trait Store: Query + 'static {
    /// Takes the right to execute under a new epoch. What an earlier holder was driving is made due at `now`,
    /// released, and its recoveries counted up by one. If one of them stands out, because it alone is a
    /// [suspect](crate::query::Instance::is_suspect), or alone has recoveries, or is alone, it is blamed.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] while another holder is alive.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::{store::Store, time::Timestamp};
    /// let first = store.lease(Timestamp::from_millis(0)).await?;
    /// let second = store.lease(Timestamp::from_millis(1)).await?;
    /// assert!(second > first, "what the first holder writes is fenced off");
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch>;

    /// Writes a batch in order, in one transaction, and answers each write once all of it is durable. Each write
    /// is all or nothing by itself: a refused or fenced one does not hold up the others.
    ///
    /// # Errors
    /// If the batch as a whole was not written ([`ErrorKind::Unavailable`]), or that is not known
    /// ([`ErrorKind::Unknown`]): then write the same batch again, and it is answered as it should have been.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::commit::{Answer, Refusal, Write};
    /// # use outlive_core::{id::Name, store::Store};
    /// let batch = vec![Write::Purge(Name::recorded("order-42"), None), Write::Purge(Name::recorded("order-43"), None)];
    /// let answers = store.write(batch.into()).await?;
    /// assert_eq!(answers.len(), 2);
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>>;

    /// Gives back the right to execute.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::{store::Store, time::Timestamp};
    /// let epoch = store.lease(Timestamp::from_millis(0)).await?;
    /// store.release(epoch).await?;
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn release(&self, epoch: Epoch) -> Answered<'_, ()>;

    /// Comes back when somebody outside this process may have written. Never comes back if nobody can.
    ///
    /// ```
    /// use outlive_core::store::Store;
    ///
    /// async fn watch(store: &dyn Store, look: impl Fn()) {
    ///     loop {
    ///         store.changed().await;
    ///         look();
    ///     }
    /// }
    /// ```
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns which instances were changed past a position of the feed, or `None` if the store does not know: then any
    /// may have been.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// use outlive_core::memory::MemoryStore;
    /// use outlive_core::store::Store;
    /// use outlive_core::touched::Touch;
    /// // Nobody else can write to a store in memory.
    /// assert_eq!(MemoryStore::new().touched(0, Touch::Reported).await?, None);
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn touched(&self, _after: u64, _touch: Touch) -> Answered<'_, Option<Touched>> {
        Box::pin(async { Ok(None) })
    }

    /// How durable an answered write is, as read back from the store: for people and benches.
    ///
    /// ```
    /// use outlive_core::memory::MemoryStore;
    /// use outlive_core::store::Store;
    /// assert_eq!(MemoryStore::new().durability(), "memory: none");
    /// ```
    fn durability(&self) -> String;

    /// What people call the store, such as the name of its file: for messages.
    ///
    /// ```
    /// use outlive_core::memory::MemoryStore;
    /// use outlive_core::store::Store;
    /// let store = MemoryStore::new();
    /// assert_eq!(format!("{} is executed by another process", store.name()), "this store is executed by another process");
    /// ```
    fn name(&self) -> String {
        "this store".to_owned()
    }
}
