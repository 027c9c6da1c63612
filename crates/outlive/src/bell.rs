//! Who is to hear that the feed has grown: rung after each durable batch, and free while nobody listens.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Rung whenever the feed may have grown.
#[derive(Default)]
pub(crate) struct Bell {
    listeners: AtomicUsize,
    news: Notify,
    /// Notified when there was nobody and somebody begins to listen.
    pub(crate) begun: Notify,
}

impl Bell {
    /// The feed may have grown.
    pub(crate) fn ring(&self) {
        if self.listeners.load(Ordering::Relaxed) > 0 {
            self.news.notify_waiters();
        }
    }

    /// Whether anybody listens.
    pub(crate) fn has_any(&self) -> bool {
        self.listeners.load(Ordering::SeqCst) > 0
    }

    /// Listens until it is dropped.
    pub(crate) fn listen(self: &Arc<Self>) -> Listener {
        if self.listeners.fetch_add(1, Ordering::SeqCst) == 0 {
            self.begun.notify_one();
        }
        Listener(self.clone())
    }
}

/// Somebody who listens.
pub(crate) struct Listener(Arc<Bell>);

impl Listener {
    /// Comes back once it rings. It hears from now on: who looks at the feed after this call, and then waits, misses
    /// nothing.
    pub(crate) fn news(&self) -> Pin<Box<Notified<'_>>> {
        let mut news = Box::pin(self.0.news.notified());
        news.as_mut().enable();
        news
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.listeners.fetch_sub(1, Ordering::SeqCst);
    }
}
