//! A store wrapper that tracks pending calls and how fast runs write, so that a test can wait for replies from another
//! thread and notice a run that never pauses.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use outlive::clock::Clock;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::output::{Output, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Depth, QueuePage, QueueRead};
use outlive_core::store::commit::{Answer, Commit, Epoch, Write};
use outlive_core::store::query::{Counts, FeedItem, Filter, Instance, Page, Query, Suspect, Wake as Due};
use outlive_core::store::touched::{Touch, Touched};
use outlive_core::store::{Answered, Store};
use outlive_core::time::Timestamp;
use tokio::sync::Notify;

use crate::clock::TestClock;
use crate::words::name;

/// The wrapped store.
pub(crate) struct Watched {
    inner: Arc<dyn Store>,
    calls: Arc<Calls>,
    pace: Mutex<Pace>,
    clock: TestClock,
    /// Notified when a run has written too much without pausing.
    ran_away: Notify,
}

/// The calls that are pending.
#[derive(Default)]
struct Calls {
    all: Mutex<Vec<Weak<Asked>>>,
    /// Grows with each reply.
    answers: AtomicU64,
    /// Notified when a reply arrives, and when none can.
    answered: Notify,
}

/// Number of entries each run has written at one moment of virtual time.
struct Pace {
    at: Timestamp,
    entries: BTreeMap<InstanceNum, usize>,
    entries_max: usize,
    /// Describes a run that wrote more than that.
    runaway: Option<String>,
}

impl Watched {
    /// Wraps a store. A run may write this many entries without any time passing.
    pub(crate) fn new(inner: Arc<dyn Store>, clock: TestClock, entries_max: usize) -> Self {
        let pace = Pace { at: clock.now(), entries: BTreeMap::new(), entries_max, runaway: None };
        Self { inner, calls: Arc::default(), pace: Mutex::new(pace), clock, ran_away: Notify::new() }
    }

    /// Returns a number that grows with each reply.
    pub(crate) fn answers(&self) -> u64 {
        self.calls.answers.load(Ordering::SeqCst)
    }

    /// Whether a reply may still arrive. Replies that arrived earlier are counted by [`answers`](Self::answers).
    pub(crate) fn is_asked(&self) -> bool {
        self.calls.lock().iter().filter_map(Weak::upgrade).any(|call| call.wakers.load(Ordering::SeqCst) > 0)
    }

    /// Returns when a reply has arrived, or cannot arrive any more.
    pub(crate) async fn answered(&self) {
        self.calls.answered.notified().await;
    }

    /// Describes a run that keeps writing without any time passing, if there is one.
    pub(crate) fn runaway(&self) -> Option<String> {
        self.pace().runaway.clone()
    }

    /// Returns when there is such a run.
    pub(crate) async fn ran_away(&self) -> String {
        loop {
            let notified = self.ran_away.notified();
            if let Some(sentence) = self.runaway() {
                return sentence;
            }
            notified.await;
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tally(&self, batch: &[Write]) {
        let mut pace = self.pace();
        let now = self.clock.now();
        if pace.at != now {
            pace.at = now;
            pace.entries.clear();
        }
        for write in batch {
            let Write::Commit(Commit { num, entries, .. }) = write else { continue };
            let count = pace.entries.entry(*num).or_default();
            *count += entries.len();
            let count = *count;
            if let Some(last) = entries.last().filter(|_| count > pace.entries_max) {
                pace.runaway.get_or_insert_with(|| runaway(count, last));
                self.ran_away.notify_waiters();
            }
        }
    }

    fn call<'a, T: 'a>(&'a self, call: Answered<'a, T>) -> Answered<'a, T> {
        let asked = Arc::new(Asked {
            outer: Mutex::new(Waker::noop().clone()),
            wakers: AtomicUsize::new(0),
            calls: self.calls.clone(),
        });
        let mut all = self.calls.lock();
        all.retain(|call| call.strong_count() > 0);
        all.push(Arc::downgrade(&asked));
        drop(all);
        Box::pin(Call { call, asked })
    }
}

fn runaway(count: usize, last: &Entry) -> String {
    let (op, site) = (name(&last.op), &last.site);
    format!(
        "the run does not end: it recorded {count} entries without any time passing, the last for {op:?} ({site}); \
         bound its loop, or let time pass in it with `ctx.sleep(..)`"
    )
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Asked>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.answered.notify_waiters();
        self.answered.notify_one();
    }
}

/// A call to the store.
struct Call<'a, T> {
    call: Answered<'a, T>,
    asked: Arc<Asked>,
}

/// The state of a call. As long as an unused waker of it exists, a reply may arrive. A store that plays dead keeps no
/// waker: such a call never gets a reply, and nothing waits for it.
struct Asked {
    outer: Mutex<Waker>,
    /// Number of such wakers.
    wakers: AtomicUsize,
    calls: Arc<Calls>,
}

/// The waker a call is polled with.
struct CallWaker {
    asked: Arc<Asked>,
    is_used: AtomicBool,
}

impl CallWaker {
    fn new(asked: &Arc<Asked>) -> Arc<Self> {
        asked.wakers.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self { asked: asked.clone(), is_used: AtomicBool::new(false) })
    }

    /// Marks the waker as used, or as one that never will be.
    fn use_up(&self) {
        if !self.is_used.swap(true, Ordering::SeqCst) {
            self.asked.wakers.fetch_sub(1, Ordering::SeqCst);
            self.asked.calls.tell();
        }
    }
}

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Counted first: code that sees no waker must also see that there was a reply.
        self.asked.calls.answers.fetch_add(1, Ordering::SeqCst);
        self.asked.outer.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        self.use_up();
    }
}

impl Drop for CallWaker {
    fn drop(&mut self) {
        self.use_up();
    }
}

impl<T> Future for Call<'_, T> {
    type Output = <Answered<'static, T> as Future>::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.asked.outer.lock().unwrap_or_else(PoisonError::into_inner).clone_from(cx.waker());
        let waker = Waker::from(CallWaker::new(&self.asked));
        self.call.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

impl Store for Watched {
    fn lease(&self, now: Timestamp) -> Answered<'_, Epoch> {
        self.call(self.inner.lease(now))
    }

    fn write(&self, batch: Arc<Vec<Write>>) -> Answered<'_, Vec<Answer>> {
        self.tally(&batch);
        self.call(self.inner.write(batch))
    }

    fn release(&self, epoch: Epoch) -> Answered<'_, ()> {
        self.call(self.inner.release(epoch))
    }

    /// Resolves when another process writes, which no test waits for.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.inner.changed()
    }

    fn touched(&self, after: u64, touch: Touch) -> Answered<'_, Option<Touched>> {
        self.call(self.inner.touched(after, touch))
    }

    fn durability(&self) -> String {
        self.inner.durability()
    }
}

impl Query for Watched {
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>> {
        self.call(self.inner.instance(id))
    }

    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>> {
        self.call(self.inner.journal(num, after, limit))
    }

    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>> {
        self.call(self.inner.inbox(num, after, limit))
    }

    fn wakes_after(&self, after: Due, until: Timestamp, limit: usize) -> Answered<'_, Vec<Due>> {
        self.call(self.inner.wakes_after(after, until, limit))
    }

    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>> {
        self.call(self.inner.suspects(until))
    }

    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page> {
        self.call(self.inner.list(filter, before, limit))
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts> {
        self.call(self.inner.count(filter))
    }

    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage> {
        self.call(self.inner.queue(num, read))
    }

    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth> {
        self.call(self.inner.depth(job, now))
    }

    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>> {
        self.call(self.inner.dead(job, after, limit))
    }

    fn jobs(&self) -> Answered<'_, Vec<Name>> {
        self.call(self.inner.jobs())
    }

    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<FeedItem>> {
        self.call(self.inner.feed(after, limit))
    }

    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>> {
        self.call(self.inner.mark(name))
    }

    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>> {
        self.call(self.inner.reply(pos))
    }

    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>> {
        self.call(self.inner.outputs(num, read, limit))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::future::poll_fn;

    use outlive_core::store::memory::MemoryStore;

    use super::*;

    async fn is_pending<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
        poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx).is_pending())).await
    }

    /// A call whose waker is held by the test.
    fn asked<'a>(watched: &'a Watched, held: &Arc<Mutex<Option<Waker>>>) -> Answered<'a, ()> {
        let held = held.clone();
        watched.call(Box::pin(poll_fn(move |cx| {
            *held.lock().unwrap() = Some(cx.waker().clone());
            Poll::Pending
        })))
    }

    /// A store that simulates a crash after a write drops the waker on its own thread, a moment after it was used.
    #[tokio::test]
    async fn call_is_awaited_until_its_waker_is_dropped() {
        let watched = Watched::new(Arc::new(MemoryStore::new()), TestClock::new(), 10);
        let held = Arc::default();
        let mut call = asked(&watched, &held);
        assert!(is_pending(&mut call).await && watched.is_asked());
        let mut answered = Box::pin(watched.answered());
        assert!(is_pending(&mut answered).await);
        let waker = held.lock().unwrap().take();
        drop(waker);
        answered.await;
        assert!(!watched.is_asked() && watched.answers() == 0);
    }

    /// A channel keeps the waker it has used until its value is taken.
    #[tokio::test]
    async fn answered_call_that_is_not_polled_is_not_awaited() {
        let watched = Watched::new(Arc::new(MemoryStore::new()), TestClock::new(), 10);
        let held: Arc<Mutex<Option<Waker>>> = Arc::default();
        let mut call = asked(&watched, &held);
        assert!(is_pending(&mut call).await && watched.is_asked());
        held.lock().unwrap().as_ref().unwrap().wake_by_ref();
        watched.answered().await;
        assert!(!watched.is_asked() && watched.answers() == 1);
        assert!(is_pending(&mut call).await && watched.is_asked(), "the call is polled again");
    }
}
