//! Callers in this process that wait for the outcome of a message to a job.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlive_core::id::InstanceNum;
use outlive_core::payload::Payload;
use outlive_core::time::Timestamp;
use tokio::sync::oneshot;

/// The outcome of a message.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum MessageOutcome {
    /// The message was taken, with the reply if it asked for one.
    Taken { answer: Option<Payload>, event_count: u64, next: Option<Timestamp> },
    /// The message was given up and is a dead letter.
    GivenUp { failure: Payload },
    /// The message waits for something that comes first. This many events are before it or with it.
    Held { event_count: u64 },
}

/// The waiting callers: by the token of the write until it is durable, then by the position of the message.
#[derive(Default)]
pub(crate) struct Replies {
    waiting: AtomicUsize,
    inner: Mutex<ReplyTable>,
}

#[derive(Default)]
struct ReplyTable {
    by_token: HashMap<u64, oneshot::Sender<MessageOutcome>>,
    by_pos: HashMap<u64, (InstanceNum, oneshot::Sender<MessageOutcome>)>,
}

impl Replies {
    fn lock(&self) -> MutexGuard<'_, ReplyTable> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver for the outcome of a message that is sent with this token.
    pub(crate) fn expect(&self, token: u64) -> oneshot::Receiver<MessageOutcome> {
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.lock();
        inner.by_token.insert(token, sender);
        self.count(&inner);
        receiver
    }

    /// Notes the instance and the position of a message; position 0 means that it was not kept.
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

    /// Drops the wait for a message that has no outcome.
    pub(crate) fn forget(&self, token: u64) {
        let mut inner = self.lock();
        inner.by_token.remove(&token);
        self.count(&inner);
    }

    /// Sends the outcome to the caller that waits for the message at a position.
    pub(crate) fn send(&self, pos: u64, reply: impl FnOnce() -> MessageOutcome) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut inner = self.lock();
        let sender = inner.by_pos.remove(&pos);
        self.count(&inner);
        drop(inner);
        if let Some((_, sender)) = sender {
            // The receiver may have been dropped.
            let _ = sender.send(reply());
        }
    }

    /// Drops all waits for an instance, so that its callers read the store.
    pub(crate) fn drop_all_of(&self, num: InstanceNum) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut inner = self.lock();
        inner.by_pos.retain(|_, (whose, _)| *whose != num);
        self.count(&inner);
    }

    /// Drops all waits, because nothing more comes from this process.
    pub(crate) fn close(&self) {
        *self.lock() = ReplyTable::default();
        self.waiting.store(0, Ordering::Relaxed);
    }

    fn count(&self, inner: &ReplyTable) {
        self.waiting.store(inner.by_token.len() + inner.by_pos.len(), Ordering::Relaxed);
    }
}
