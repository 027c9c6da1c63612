//! Who waits in this process for what became of a message to a job.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlive_core::id::InstanceNum;
use outlive_core::payload::Payload;
use outlive_core::time::Timestamp;
use tokio::sync::oneshot;

/// What became of a message.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Reply {
    /// It was dealt with; the answer if it asked for one.
    Taken { answer: Option<Payload>, event_count: u64, next: Option<Timestamp> },
    /// It waits for something that comes first; so many events are before it or with it.
    Held { event_count: u64 },
}

/// Who waits. By the token of the write until it is answered, then by the position of the message.
#[derive(Default)]
pub(crate) struct Replies {
    waiting: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    by_token: HashMap<u64, oneshot::Sender<Reply>>,
    by_pos: HashMap<u64, (InstanceNum, oneshot::Sender<Reply>)>,
}

impl Replies {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for what becomes of a message that is sent with this token.
    pub(crate) fn expect(&self, token: u64) -> oneshot::Receiver<Reply> {
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.lock();
        inner.by_token.insert(token, sender);
        self.count(&inner);
        receiver
    }

    /// The message lies with an instance, at a position; 0 if it was not kept.
    pub(crate) fn place(&self, token: u64, num: InstanceNum, pos: u64) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut inner = self.lock();
        if let Some(sender) = inner.by_token.remove(&token).filter(|_| pos > 0) {
            inner.by_pos.insert(pos, (num, sender));
        }
        self.count(&inner);
    }

    /// Nothing comes of it.
    pub(crate) fn forget(&self, token: u64) {
        let mut inner = self.lock();
        inner.by_token.remove(&token);
        self.count(&inner);
    }

    /// Tells whoever waits for the message at a position.
    pub(crate) fn tell(&self, pos: u64, reply: impl FnOnce() -> Reply) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut inner = self.lock();
        let sender = inner.by_pos.remove(&pos);
        self.count(&inner);
        drop(inner);
        if let Some((_, sender)) = sender {
            // Who does not wait any more misses nothing.
            let _ = sender.send(reply());
        }
    }

    /// Nothing more is told of this instance: whoever waits asks the store.
    pub(crate) fn drop_all_of(&self, num: InstanceNum) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut inner = self.lock();
        inner.by_pos.retain(|_, (whose, _)| *whose != num);
        self.count(&inner);
    }

    /// Nothing more comes from this process.
    pub(crate) fn close(&self) {
        *self.lock() = Inner::default();
        self.waiting.store(0, Ordering::Relaxed);
    }

    fn count(&self, inner: &Inner) {
        self.waiting.store(inner.by_token.len() + inner.by_pos.len(), Ordering::Relaxed);
    }
}
