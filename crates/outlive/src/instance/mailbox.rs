//! The mailbox of an instance in memory: acknowledgements, messages, due times, and wake-ups of step bodies.

use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Waker};

use outlive_core::message::Inbound;
use outlive_core::store::commit::Answer;
use outlive_core::workflow::Slot;

/// The mailbox of an instance in memory, and the waker of its driver.
#[derive(Default)]
pub(crate) struct Mailbox(Mutex<MailboxState>);

#[derive(Default)]
struct MailboxState {
    arrivals: Arrivals,
    waker: Option<Waker>,
    /// Nothing is accepted any more, because the run is not in memory.
    is_closed: bool,
}

/// What has arrived since the mailbox was last read. Every step of every run passes through one, and with many runs in
/// memory each cache line counts, so what a step does not need is in a box.
#[derive(Default)]
pub(crate) struct Arrivals {
    /// Steps whose bodies can continue.
    pub(crate) woken: Vec<Slot>,
    /// Everything up to this number is durable; 0 means nothing new.
    pub(crate) durable: u64,
    rare: Option<Box<RareArrivals>>,
    /// Events were added to the queue.
    pub(crate) is_pushed: bool,
    /// The run was claimed while it was in memory, so the store records it as running.
    pub(crate) is_claimed: bool,
    /// The user's future was woken by something that is not part of the run.
    pub(crate) is_foreign: bool,
    /// The run must leave memory if it can.
    pub(crate) is_evicted: bool,
    /// The engine is shutting down: finish what is running, start nothing.
    pub(crate) is_stopping: bool,
    /// The run is no longer ours.
    pub(crate) is_fenced: bool,
    is_new: bool,
}

/// What arrives less often than once per step.
#[derive(Default)]
pub(crate) struct RareArrivals {
    /// Replies to commits with a new state, in order.
    pub(crate) answers: Vec<Answer>,
    /// Single messages, each with the position of the one before it.
    pub(crate) messages: Vec<(Inbound, u64)>,
    /// The whole inbox as it was read, perhaps more than once.
    pub(crate) inbox: Vec<Inbound>,
    /// What is wrong with the inbox, if it could not be read.
    pub(crate) damage: Option<String>,
    /// The smallest rank of what was pushed, if it may go before what was read ahead.
    pub(crate) rank_pushed: Option<i64>,
}

impl Arrivals {
    /// Returns the rare part, for adding to it.
    pub(crate) fn rare(&mut self) -> &mut RareArrivals {
        self.rare.get_or_insert_default()
    }

    /// Takes the rare part, if anything of it has arrived.
    pub(crate) fn take_rare(&mut self) -> Option<Box<RareArrivals>> {
        self.rare.take()
    }

    /// Resets the content once it is read, keeping the allocation for wake-ups.
    pub(crate) fn clear(&mut self) {
        let mut woken = std::mem::take(&mut self.woken);
        woken.clear();
        *self = Self { woken, ..Self::default() };
    }
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds to the mailbox and wakes the driver. Returns `false` if the run is no longer there to read it.
    pub(crate) fn post(&self, add: impl FnOnce(&mut Arrivals)) -> bool {
        let mut inner = self.lock();
        if inner.is_closed {
            return false;
        }
        add(&mut inner.arrivals);
        inner.arrivals.is_new = true;
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Takes the content, in exchange for the content that was read before. If there is none, the driver is woken when
    /// something arrives.
    pub(crate) fn take(&self, cx: &Context<'_>, read: &mut Arrivals) -> bool {
        let mut inner = self.lock();
        if inner.arrivals.is_new {
            std::mem::swap(&mut inner.arrivals, read);
            return true;
        }
        if !inner.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inner.waker = Some(cx.waker().clone());
        }
        false
    }

    /// Takes the content, if there is any.
    pub(crate) fn take_now(&self, read: &mut Arrivals) -> bool {
        let mut inner = self.lock();
        let is_new = inner.arrivals.is_new;
        if is_new {
            std::mem::swap(&mut inner.arrivals, read);
        }
        is_new
    }

    /// Closes the mailbox if it is empty. Returns `false` if it is not, and the driver must read it first.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut inner = self.lock();
        inner.is_closed = !inner.arrivals.is_new;
        inner.is_closed
    }

    /// Closes the mailbox, whatever is in it.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
    }
}
