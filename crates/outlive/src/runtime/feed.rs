//! Notifies listeners after each durable batch that the feed may have grown; free while nobody listens.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Rung whenever the feed may have grown.
#[derive(Default)]
pub(crate) struct Bell {
    listeners: AtomicUsize,
    wakeup: Notify,
    /// Notified when the first listener arrives.
    pub(crate) begun: Notify,
}

impl Bell {
    /// Notifies all listeners that the feed may have grown.
    pub(crate) fn ring(&self) {
        if self.listeners.load(Ordering::Relaxed) > 0 {
            self.wakeup.notify_waiters();
        }
    }

    /// Returns `true` if there is a listener.
    pub(crate) fn has_any(&self) -> bool {
        self.listeners.load(Ordering::SeqCst) > 0
    }

    /// Listens until the listener is dropped.
    pub(crate) fn listen(self: &Arc<Self>) -> FeedListener {
        if self.listeners.fetch_add(1, Ordering::SeqCst) == 0 {
            self.begun.notify_one();
        }
        FeedListener(self.clone())
    }
}

/// A listener to the bell.
pub(crate) struct FeedListener(Arc<Bell>);

impl FeedListener {
    /// Waits for the next ring, from this call on. A subscriber that reads the feed after this call and then waits
    /// misses nothing.
    pub(crate) fn changed(&self) -> Pin<Box<Notified<'_>>> {
        let mut changed = Box::pin(self.0.wakeup.notified());
        changed.as_mut().enable();
        changed
    }
}

impl Drop for FeedListener {
    fn drop(&mut self) {
        self.0.listeners.fetch_sub(1, Ordering::SeqCst);
    }
}
