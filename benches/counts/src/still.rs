//! A world in which nothing depends on the speed of the machine: time passes when there is nothing else to do.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use outlive::Timestamp;
use outlive::clock::Clock;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::output::{Output, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Depth, QueuePage, QueueRead};
use outlive_core::store::commit::{Answer, Epoch, Write};
use outlive_core::store::query::{Counts, FeedItem, Filter, Instance, Page, Query, Suspect, Wake};
use outlive_core::store::{Answered, Store};

/// The beginning of 2026.
const BEGINNING: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// The clock of that world. Clones share it.
#[derive(Clone)]
pub(crate) struct Still(Arc<Mutex<Inner>>);

struct Inner {
    now: Timestamp,
    /// Number of store calls in progress.
    asked: usize,
    sleepers: Vec<(Timestamp, Waker)>,
    /// Waits for quiet, if set.
    waits_for_quiet: Option<Waker>,
    is_quiet: bool,
}

impl Still {
    pub(crate) fn new() -> Self {
        let inner = Inner { now: BEGINNING, asked: 0, sleepers: Vec::new(), waits_for_quiet: None, is_quiet: false };
        Self(Arc::new(Mutex::new(inner)))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Called when the runtime has nothing to do. Unless a store call is in progress, wakes the task that waits for
    /// quiet, or lets time pass.
    pub(crate) fn parked(&self) {
        let mut inner = self.lock();
        if inner.asked > 0 {
            return;
        }
        if let Some(waker) = inner.waits_for_quiet.take() {
            inner.is_quiet = true;
            drop(inner);
            return waker.wake();
        }
        let Some(next) = inner.sleepers.iter().map(|(until, _)| *until).min() else { return };
        inner.now = inner.now.max(next);
        let now = inner.now;
        let due: Vec<_> = inner.sleepers.extract_if(.., |(until, _)| *until <= now).collect();
        drop(inner);
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Returns when there is nothing to do, with no time passed.
    pub(crate) async fn quiet(&self) {
        std::future::poll_fn(|cx| {
            let mut inner = self.lock();
            if std::mem::take(&mut inner.is_quiet) {
                return Poll::Ready(());
            }
            inner.waits_for_quiet = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Clock for Still {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn sleep_toward(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Sleep { clock: self, until })
    }
}

struct Sleep<'a> {
    clock: &'a Still,
    until: Timestamp,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.clock.lock();
        if inner.now >= self.until {
            return Poll::Ready(());
        }
        inner.sleepers.retain(|(_, waker)| !waker.will_wake(cx.waker()));
        inner.sleepers.push((self.until, cx.waker().clone()));
        Poll::Pending
    }
}

/// A store of that world: its clock stands still during a call. No other process writes to the store, so it never
/// checks for that either, which would happen more often on a slow machine.
pub(crate) struct StillStore {
    store: Arc<dyn Store>,
    clock: Still,
}

impl StillStore {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Still) -> Self {
        Self { store, clock }
    }

    fn ask<'a, T: Send + 'a>(&'a self, answer: Answered<'a, T>) -> Answered<'a, T> {
        Box::pin(async move {
            self.clock.lock().asked += 1;
            let answer = answer.await;
            self.clock.lock().asked -= 1;
            answer
        })
    }
}

impl Store for StillStore {
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch> {
        self.ask(self.store.lease(now))
    }

    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>> {
        self.ask(self.store.write(batch))
    }

    fn release(&self, epoch: Epoch) -> Answered<'_, ()> {
        self.ask(self.store.release(epoch))
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }

    fn durability(&self) -> String {
        self.store.durability()
    }
}

impl Query for StillStore {
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>> {
        self.ask(self.store.instance(id))
    }

    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>> {
        self.ask(self.store.journal(num, after, limit))
    }

    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>> {
        self.ask(self.store.inbox(num, after, limit))
    }

    fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>> {
        self.ask(self.store.wakes_after(after, until, limit))
    }

    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>> {
        self.ask(self.store.suspects(until))
    }

    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page> {
        self.ask(self.store.list(filter, before, limit))
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts> {
        self.ask(self.store.count(filter))
    }

    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage> {
        self.ask(self.store.queue(num, read))
    }

    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth> {
        self.ask(self.store.depth(job, now))
    }

    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>> {
        self.ask(self.store.dead(job, after, limit))
    }

    fn jobs(&self) -> Answered<'_, Vec<Name>> {
        self.ask(self.store.jobs())
    }

    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<FeedItem>> {
        self.ask(self.store.feed(after, limit))
    }

    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>> {
        self.ask(self.store.mark(name))
    }

    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>> {
        self.ask(self.store.reply(pos))
    }

    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>> {
        self.ask(self.store.outputs(num, read, limit))
    }
}
