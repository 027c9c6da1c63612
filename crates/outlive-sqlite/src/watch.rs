//! Hearing of writes by others, so that a message sent from another process does not wait for the next poll.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How often an executor with a doorbell looks all the same: a ring may be lost, or the writer know nothing of doorbells.
pub(crate) const NET: Duration = Duration::from_secs(1);

/// Without a doorbell, the time between two looks is a hundredth of the time since others last wrote, within bounds. So
/// what is heard of is late by a hundredth of the time it took.
const LOOK_MIN: Duration = Duration::from_millis(1);
const SHARE: u32 = 100;

/// The upper bound for an executor: whoever sends to it expects something to happen.
pub(crate) const EXECUTOR_MAX: Duration = Duration::from_millis(10);
/// The upper bound for everybody else.
pub(crate) const CLIENT_MAX: Duration = Duration::from_millis(100);

/// Returns the time until the next look, `quiet` after others last wrote.
pub(crate) fn look_in(quiet: Duration, max: Duration) -> Duration {
    (quiet / SHARE).clamp(LOOK_MIN, max)
}

/// The time by which looks are spaced, which no run ever sees.
#[expect(clippy::disallowed_methods, reason = "how often the file is polled is no matter of the engine's time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Between the writer of a connection, which sees that others have written, and the handles that share it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    ears: Mutex<Vec<Weak<Ear>>>,
    /// How many wait.
    waiting: AtomicUsize,
    /// Whether the writer looks. It stops by itself when nobody waits.
    is_on: AtomicBool,
    /// How often it has looked.
    looks: AtomicU64,
}

/// What one handle hears by.
#[derive(Debug)]
pub(crate) struct Ear {
    watch: Arc<Watch>,
    news: Notify,
}

impl Watch {
    fn ears(&self) -> MutexGuard<'_, Vec<Weak<Ear>>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the writer is to look. If nobody waits, this turns it off.
    pub(crate) fn is_wanted(&self) -> bool {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            return true;
        }
        self.is_on.store(false, Ordering::SeqCst);
        // Who has begun to wait since may have found it on.
        let is_wanted = self.waiting.load(Ordering::SeqCst) > 0;
        if is_wanted {
            self.is_on.store(true, Ordering::SeqCst);
        }
        is_wanted
    }

    /// Whether the writer looks.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::SeqCst)
    }

    /// The writer looks once more.
    pub(crate) fn count_look(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the writer has looked.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Others have written: tells whoever waits on each handle, or who waits next, as he may have been about to.
    pub(crate) fn tell(&self) {
        // The lock is free again before they are dropped: one may be the last of its kind, and needs it then.
        let ears: Vec<Arc<Ear>> = self.ears().iter().filter_map(Weak::upgrade).collect();
        ears.iter().for_each(|ear| ear.ring());
    }

    /// One of the handles has written: tells the others.
    pub(crate) fn tell_others(&self, writer: &Weak<Ear>) {
        let ears = self.ears();
        if ears.len() < 2 {
            return;
        }
        let others: Vec<Arc<Ear>> = ears.iter().filter(|ear| !ear.ptr_eq(writer)).filter_map(Weak::upgrade).collect();
        drop(ears);
        others.iter().for_each(|ear| ear.ring());
    }
}

impl Ear {
    /// Listens to what the others write, from now on.
    pub(crate) fn new(watch: &Arc<Watch>) -> Arc<Self> {
        let ear = Arc::new(Self { watch: watch.clone(), news: Notify::new() });
        watch.ears().push(Arc::downgrade(&ear));
        ear
    }

    /// Wakes all who wait on the handle, and whoever waits next, as he may have been about to.
    fn ring(&self) {
        self.news.notify_waiters();
        self.news.notify_one();
    }

    /// Comes back when others have written. `turn_on` is called if the writer does not look yet.
    pub(crate) fn changed(self: &Arc<Self>, turn_on: impl FnOnce()) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.watch.waiting.fetch_add(1, Ordering::SeqCst);
        let waiting = Waiting(self.clone());
        if !self.watch.is_on.swap(true, Ordering::SeqCst) {
            turn_on();
        }
        Box::pin(async move { waiting.0.news.notified().await })
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.watch.ears().retain(|ear| ear.strong_count() > 0);
    }
}

/// Somebody who waits.
struct Waiting(Arc<Ear>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.watch.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
