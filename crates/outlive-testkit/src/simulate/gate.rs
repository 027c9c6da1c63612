//! A worker's connection to the shared store: calls wait until the world lets them through.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::output::{Output, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Depth, QueuePage, QueueRead};
use outlive_core::store::commit::{Answer, Epoch, Write};
use outlive_core::store::memory::MemoryStore;
use outlive_core::store::query::{Counts, FeedItem, Filter, Instance, Page, Query, Suspect, Wake};
use outlive_core::store::{Answered, Error, Store};
use outlive_core::time::Timestamp;
use tokio::sync::{Notify, oneshot};

use crate::random::Random;

/// A call that a worker waits for.
pub(super) enum Call {
    /// A batch whose reply is pending, whether or not it has been written.
    Write { batch: Arc<Vec<Write>>, reply: oneshot::Sender<Result<Vec<Answer>, Error>> },
    /// Permission to read.
    Read(oneshot::Sender<()>),
}

/// The connection of one worker process.
pub(super) struct Gate {
    store: Arc<MemoryStore>,
    inner: Mutex<Inner>,
    changed: Notify,
}

struct Inner {
    calls: VecDeque<Call>,
    /// Decides which reads wait.
    random: Random,
    /// Every call waits.
    is_cut: bool,
    /// No read waits.
    is_free: bool,
}

impl Gate {
    pub(super) fn new(store: Arc<MemoryStore>, seed: u64) -> Self {
        let inner = Inner { calls: VecDeque::new(), random: Random::new(seed), is_cut: false, is_free: false };
        Self { store, inner: Mutex::new(inner), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many calls wait, or zero if the worker is cut off.
    pub(super) fn waiting(&self) -> usize {
        let inner = self.lock();
        if inner.is_cut { 0 } else { inner.calls.len() }
    }

    /// Takes the first call. Order matters only among writes, of which there is one at a time.
    pub(super) fn take(&self) -> Option<Call> {
        self.lock().calls.pop_front()
    }

    /// Whether the first call is a write.
    pub(super) fn has_write(&self) -> bool {
        matches!(self.lock().calls.front(), Some(Call::Write { .. }))
    }

    pub(super) fn cut(&self, is_cut: bool) {
        self.lock().is_cut = is_cut;
    }

    pub(super) fn is_cut(&self) -> bool {
        self.lock().is_cut
    }

    /// Lets all reads through from now on.
    pub(super) fn free(&self) {
        self.lock().is_free = true;
    }

    /// Hints that another process has written.
    pub(super) fn hint(&self) {
        self.changed.notify_one();
    }

    async fn pass(&self) {
        let leave = {
            let mut inner = self.lock();
            if inner.is_free || (!inner.is_cut && !inner.random.is(4)) {
                return;
            }
            let (reply, leave) = oneshot::channel();
            inner.calls.push_back(Call::Read(reply));
            leave
        };
        // If the world has ended, so has everything in it.
        let _ = leave.await;
    }
}

impl Store for Gate {
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch> {
        self.store.lease(now)
    }

    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>> {
        let (reply, answer) = oneshot::channel();
        self.lock().calls.push_back(Call::Write { batch, reply });
        Box::pin(async move {
            match answer.await {
                Ok(answer) => answer,
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn release(&self, epoch: Epoch) -> Answered<'_, ()> {
        self.store.release(epoch)
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.changed.notified())
    }

    fn durability(&self) -> String {
        self.store.durability()
    }
}

impl Query for Gate {
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>> {
        Box::pin(async move {
            self.pass().await;
            self.store.instance(id).await
        })
    }

    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>> {
        Box::pin(async move {
            self.pass().await;
            self.store.journal(num, after, limit).await
        })
    }

    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>> {
        Box::pin(async move {
            self.pass().await;
            self.store.inbox(num, after, limit).await
        })
    }

    fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>> {
        Box::pin(async move {
            self.pass().await;
            self.store.wakes_after(after, until, limit).await
        })
    }

    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>> {
        Box::pin(async move {
            self.pass().await;
            self.store.suspects(until).await
        })
    }

    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page> {
        Box::pin(async move {
            self.pass().await;
            self.store.list(filter, before, limit).await
        })
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts> {
        Box::pin(async move {
            self.pass().await;
            self.store.count(filter).await
        })
    }

    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage> {
        self.store.queue(num, read)
    }

    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth> {
        self.store.depth(job, now)
    }

    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>> {
        self.store.dead(job, after, limit)
    }

    fn jobs(&self) -> Answered<'_, Vec<Name>> {
        self.store.jobs()
    }

    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<FeedItem>> {
        self.store.feed(after, limit)
    }

    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>> {
        self.store.mark(name)
    }

    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>> {
        self.store.reply(pos)
    }

    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>> {
        self.store.outputs(num, read, limit)
    }
}
