//! Notifies handles of writes by others, so that a message from another process does not wait for the next poll.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How often an executor polls even with a doorbell: a ring may be lost, or the writing process may know nothing of
/// doorbells.
pub(crate) const NET: Duration = Duration::from_secs(1);

/// Without a doorbell, the poll interval is a hundredth of the time since others last wrote, within bounds. A write is
/// thus noticed late by at most a hundredth of the time it took to come.
const POLL_MIN: Duration = Duration::from_millis(1);
const SHARE: u32 = 100;

/// The upper bound for an executor: senders expect it to react.
pub(crate) const EXECUTOR_MAX: Duration = Duration::from_millis(10);
/// The upper bound for all other handles.
pub(crate) const CLIENT_MAX: Duration = Duration::from_millis(100);

/// Returns the time until the next poll, `quiet` after others last wrote.
pub(crate) fn next_poll_in(quiet: Duration, max: Duration) -> Duration {
    (quiet / SHARE).clamp(POLL_MIN, max)
}

/// Returns the time used to space polls, which no run ever sees.
#[expect(clippy::disallowed_methods, reason = "polling intervals do not depend on the engine's clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Connects the writer, which notices foreign writes, with the handles that share it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    listeners: Mutex<Vec<Weak<HandleListener>>>,
    /// How many callers wait.
    waiting: AtomicUsize,
    /// `true` while the writer polls. It stops by itself when nobody waits.
    is_on: AtomicBool,
    /// How often the writer has polled.
    polls: AtomicU64,
}

/// The listening end of one handle.
#[derive(Debug)]
pub(crate) struct HandleListener {
    watch: Arc<Watch>,
    wakeup: Notify,
}

impl Watch {
    fn listeners(&self) -> MutexGuard<'_, Vec<Weak<HandleListener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if the writer should poll. If nobody waits, turns polling off.
    pub(crate) fn is_wanted(&self) -> bool {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            return true;
        }
        self.is_on.store(false, Ordering::SeqCst);
        // A caller that began to wait in between may have found it on.
        let is_wanted = self.waiting.load(Ordering::SeqCst) > 0;
        if is_wanted {
            self.is_on.store(true, Ordering::SeqCst);
        }
        is_wanted
    }

    /// Returns `true` if the writer polls.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::SeqCst)
    }

    /// Counts one more poll.
    pub(crate) fn count_poll(&self) {
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often the writer has polled.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Notifies every handle that others have written.
    pub(crate) fn notify(&self) {
        // The lock is released before the listeners are dropped: dropping the last reference to one takes the lock.
        let listeners: Vec<Arc<HandleListener>> = self.listeners().iter().filter_map(Weak::upgrade).collect();
        listeners.iter().for_each(|listener| listener.wake());
    }

    /// Notifies all other handles that `writer` has written.
    pub(crate) fn notify_others(&self, writer: &Weak<HandleListener>) {
        let listeners = self.listeners();
        if listeners.len() < 2 {
            return;
        }
        let others: Vec<Arc<HandleListener>> =
            listeners.iter().filter(|listener| !listener.ptr_eq(writer)).filter_map(Weak::upgrade).collect();
        drop(listeners);
        others.iter().for_each(|listener| listener.wake());
    }
}

impl HandleListener {
    /// Listens for writes by others from now on.
    pub(crate) fn new(watch: &Arc<Watch>) -> Arc<Self> {
        let listener = Arc::new(Self { watch: watch.clone(), wakeup: Notify::new() });
        watch.listeners().push(Arc::downgrade(&listener));
        listener
    }

    /// Wakes all callers that wait on the handle, and the next one to wait, which may have been about to.
    fn wake(&self) {
        self.wakeup.notify_waiters();
        self.wakeup.notify_one();
    }

    /// Completes when others have written. Calls `turn_on` if the writer does not poll yet.
    pub(crate) fn changed(self: &Arc<Self>, turn_on: impl FnOnce()) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.watch.waiting.fetch_add(1, Ordering::SeqCst);
        let waiting = WaitGuard(self.clone());
        if !self.watch.is_on.swap(true, Ordering::SeqCst) {
            turn_on();
        }
        Box::pin(async move { waiting.0.wakeup.notified().await })
    }
}

impl Drop for HandleListener {
    fn drop(&mut self) {
        self.watch.listeners().retain(|listener| listener.strong_count() > 0);
    }
}

/// A caller that waits; dropping it stops waiting.
struct WaitGuard(Arc<HandleListener>);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.watch.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
