//! A store that stops replying at a chosen write, as a dying process does.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::output::{Output, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Depth, QueuePage, QueueRead};
use outlive_core::store::commit::{Answer, Epoch, Write};
use outlive_core::store::query::{Counts, FeedItem, Filter, Instance, Page, Query, Suspect, Wake};
use outlive_core::store::touched::{Touch, Touched};
use outlive_core::store::{Answered, Error, ErrorKind, Store};
use outlive_core::time::Timestamp;
use tokio::sync::Notify;

/// A fault and the write at which it happens, counted from 1. A batch is one write.
///
/// ```
/// use outlive_core::store::memory::MemoryStore;
/// use outlive_testkit::{Fault, Faults, TestEngine};
/// use std::sync::Arc;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
/// faults.add(Fault::UnknownAfter(1)); // the start is written, but the caller cannot know
/// let test = TestEngine::new(|engine| engine.workflow("double", double)).store(faults).await;
/// let run = test.start(double, &21).await?; // written again, and found to exist
/// assert_eq!(test.result(&run).await?, 42);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing is written, and the store never replies again.
    CrashBefore(u64),
    /// The batch is written, but the store never replies again.
    CrashAfter(u64),
    /// The batch is written, but the reply says that the outcome is unknown.
    UnknownAfter(u64),
    /// Nothing is written, and the reply says that the outcome is unknown.
    UnknownBefore(u64),
    /// Nothing is written, and the reply says so.
    Refuse(u64),
}

/// A store that wraps another one and injects faults.
///
/// ```
/// use outlive_core::store::memory::MemoryStore;
/// use outlive_testkit::{Fault, Faults, TestEngine};
/// use std::sync::Arc;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let faults = Arc::new(Faults::new(Arc::new(MemoryStore::new())));
/// faults.add(Fault::CrashBefore(2)); // after the start, before the result
/// let mut test = TestEngine::new(|engine| engine.workflow("double", double)).store(faults.clone()).await;
/// let run = test.start(double, &21).await?;
/// test.settle().await;
/// assert!(faults.is_dead());
/// faults.revive();
/// test.crash().await;
/// assert_eq!(test.result(&run).await?, 42);
/// # Ok(()) }
/// ```
pub struct Faults {
    inner: Arc<dyn Store>,
    writes: AtomicU64,
    faults: Mutex<Vec<Fault>>,
    is_dead: Mutex<bool>,
    /// Notified each time the store stops replying.
    died: Notify,
    witness: Option<Arc<dyn Witness>>,
}

/// Observes each write, and each write at which the store dies.
pub(crate) trait Witness: Send + Sync {
    /// A batch was written, with these results.
    fn written(&self, write: u64, batch: &Arc<Vec<Write>>, answers: &[Answer]);
    /// The store stops replying at this write.
    fn died(&self, fault: Fault, batch: &Arc<Vec<Write>>);
}

impl Faults {
    /// Wraps a store, with no faults yet.
    ///
    /// ```
    /// # use outlive_core::store::memory::MemoryStore;
    /// # use outlive_testkit::Faults;
    /// # use std::sync::Arc;
    /// let faults = Faults::new(Arc::new(MemoryStore::new()));
    /// assert!(faults.writes() == 0 && !faults.is_dead());
    /// ```
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            writes: AtomicU64::new(0),
            faults: Mutex::default(),
            is_dead: Mutex::new(false),
            died: Notify::new(),
            witness: None,
        }
    }

    /// Wraps a store, with a witness that sees every write.
    pub(crate) fn witnessed(inner: Arc<dyn Store>, witness: Arc<dyn Witness>) -> Self {
        Self { witness: Some(witness), ..Self::new(inner) }
    }

    /// Waits until the store stops replying.
    pub(crate) async fn died(&self) {
        while !self.is_dead() {
            self.died.notified().await;
        }
    }

    /// Adds a fault.
    ///
    /// ```
    /// # use outlive_core::store::memory::MemoryStore;
    /// # use outlive_testkit::{Fault, Faults};
    /// # use std::sync::Arc;
    /// let faults = Faults::new(Arc::new(MemoryStore::new()));
    /// faults.add(Fault::UnknownAfter(3));
    /// faults.add(Fault::CrashBefore(faults.writes() + 7));
    /// ```
    pub fn add(&self, fault: Fault) {
        self.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(fault);
    }

    /// Returns how many writes there were.
    ///
    /// ```
    /// use outlive_core::store::Store;
    /// # use outlive_core::store::memory::MemoryStore;
    /// # use outlive_testkit::Faults;
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let faults = Faults::new(Arc::new(MemoryStore::new()));
    /// faults.write(Arc::new(vec![])).await.unwrap();
    /// assert_eq!(faults.writes(), 1);
    /// # }
    /// ```
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    /// Returns `true` if the store has stopped replying.
    ///
    /// ```
    /// use outlive_core::store::Store;
    /// # use outlive_core::store::memory::MemoryStore;
    /// # use outlive_testkit::{Fault, Faults};
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let faults = Faults::new(Arc::new(MemoryStore::new()));
    /// faults.add(Fault::CrashAfter(1));
    /// let answer = tokio::time::timeout(Duration::from_millis(1), faults.write(Arc::new(vec![]))).await;
    /// assert!(answer.is_err() && faults.is_dead());
    /// # }
    /// ```
    pub fn is_dead(&self) -> bool {
        *self.is_dead.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Makes the store reply again, as for a new process. The write counter keeps its value.
    ///
    /// ```
    /// use outlive_core::store::Store;
    /// # use outlive_core::store::memory::MemoryStore;
    /// # use outlive_testkit::{Fault, Faults};
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let faults = Faults::new(Arc::new(MemoryStore::new()));
    /// faults.add(Fault::CrashBefore(1));
    /// let _ = tokio::time::timeout(Duration::from_millis(1), faults.write(Arc::new(vec![]))).await;
    /// faults.revive();
    /// faults.write(Arc::new(vec![])).await.unwrap(); // no fault at the second write
    /// assert!(!faults.is_dead());
    /// # }
    /// ```
    pub fn revive(&self) {
        self.set_dead(false);
    }

    fn set_dead(&self, dead: bool) {
        *self.is_dead.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = dead;
    }

    /// Stops replying from now on.
    pub(crate) fn kill(&self) {
        self.set_dead(true);
    }

    async fn write_inner(&self, write: u64, batch: &Arc<Vec<Write>>) -> Result<Vec<Answer>, Error> {
        let answers = self.inner.write(batch.clone()).await?;
        if let Some(witness) = &self.witness {
            witness.written(write, batch, &answers);
        }
        Ok(answers)
    }

    async fn die(&self, fault: Fault, batch: &Arc<Vec<Write>>) -> Result<Vec<Answer>, Error> {
        if let Some(witness) = &self.witness {
            witness.died(fault, batch);
        }
        self.set_dead(true);
        self.died.notify_one();
        pending().await
    }

    fn fault(&self, write: u64) -> Option<Fault> {
        let faults = self.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        faults.iter().copied().find(|fault| match fault {
            Fault::CrashBefore(n)
            | Fault::CrashAfter(n)
            | Fault::UnknownAfter(n)
            | Fault::UnknownBefore(n)
            | Fault::Refuse(n) => *n == write,
        })
    }
}

impl Store for Faults {
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch> {
        self.inner.lease(now)
    }

    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>> {
        Box::pin(async move {
            if self.is_dead() {
                return pending().await;
            }
            let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
            let fault = self.fault(number);
            let in_doubt = || Error::new(ErrorKind::Unknown, "the reply was lost (injected fault)");
            match fault {
                None => self.write_inner(number, &batch).await,
                Some(fault @ Fault::CrashBefore(_)) => self.die(fault, &batch).await,
                Some(fault @ Fault::CrashAfter(_)) => {
                    self.write_inner(number, &batch).await?;
                    self.die(fault, &batch).await
                }
                Some(Fault::UnknownAfter(_)) => {
                    self.write_inner(number, &batch).await?;
                    Err(in_doubt())
                }
                Some(Fault::UnknownBefore(_)) => Err(in_doubt()),
                Some(Fault::Refuse(_)) => Err(Error::new(ErrorKind::Unavailable, "no room (injected fault)")),
            }
        })
    }

    fn release(&self, epoch: Epoch) -> Answered<'_, ()> {
        self.inner.release(epoch)
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.inner.changed()
    }

    fn touched(&self, after: u64, touch: Touch) -> Answered<'_, Option<Touched>> {
        self.inner.touched(after, touch)
    }

    fn durability(&self) -> String {
        self.inner.durability()
    }
}

impl Query for Faults {
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>> {
        self.inner.instance(id)
    }

    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>> {
        self.inner.journal(num, after, limit)
    }

    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>> {
        self.inner.inbox(num, after, limit)
    }

    fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>> {
        self.inner.wakes_after(after, until, limit)
    }

    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>> {
        self.inner.suspects(until)
    }

    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page> {
        self.inner.list(filter, before, limit)
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts> {
        self.inner.count(filter)
    }

    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage> {
        self.inner.queue(num, read)
    }

    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth> {
        self.inner.depth(job, now)
    }

    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>> {
        self.inner.dead(job, after, limit)
    }

    fn jobs(&self) -> Answered<'_, Vec<Name>> {
        self.inner.jobs()
    }

    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<FeedItem>> {
        self.inner.feed(after, limit)
    }

    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>> {
        self.inner.mark(name)
    }

    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>> {
        self.inner.reply(pos)
    }

    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>> {
        self.inner.outputs(num, read, limit)
    }
}
