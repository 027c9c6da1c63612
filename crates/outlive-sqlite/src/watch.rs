//! Hearing of writes by others, so that a message sent from another process does not wait for the next poll.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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

/// Between the writer, which sees that others have written, and those who wait for it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    news: Notify,
    /// How many wait.
    waiting: AtomicUsize,
    /// Whether the writer looks. It stops by itself when nobody waits.
    is_on: AtomicBool,
    /// How often it has looked.
    looks: AtomicU64,
}

impl Watch {
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

    /// Others have written: tells whoever waits, or who waits next, as he may have been about to.
    pub(crate) fn tell(&self) {
        self.news.notify_one();
    }

    /// Comes back when others have written. `turn_on` is called if the writer does not look yet.
    pub(crate) fn changed(self: &Arc<Self>, turn_on: impl FnOnce()) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waiting = Waiting(self.clone());
        if !self.is_on.swap(true, Ordering::SeqCst) {
            turn_on();
        }
        Box::pin(async move { waiting.0.news.notified().await })
    }
}

/// Somebody who waits.
struct Waiting(Arc<Watch>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
