//! Hearing of writes by others, so that a message sent from another process does not wait for the next poll.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How often the writer looks for foreign writes while it has nothing to do.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How often it looks after it has found some, and how many times: who has written may write again.
pub(crate) const LOOK_CLOSELY: Duration = Duration::from_millis(1);
pub(crate) const CLOSE_LOOKS: u32 = 200;

/// Between the writer, which sees that others have written, and those who wait for it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    news: Notify,
    /// Whether anybody has ever waited; until then the writer sleeps when it has nothing to do.
    is_on: AtomicBool,
}

impl Watch {
    /// Whether the writer is to look.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Has the writer look from now on. Says whether it did so before.
    pub(crate) fn turn_on(&self) -> bool {
        self.is_on.swap(true, Ordering::AcqRel)
    }

    /// Others have written: tells all who wait, and whoever asks next, as he may have been about to wait.
    pub(crate) fn tell(&self) {
        self.news.notify_waiters();
        self.news.notify_one();
    }

    /// Comes back when others have written.
    pub(crate) fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.news.notified())
    }
}
