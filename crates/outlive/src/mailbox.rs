//! What reaches a run from outside its own poll: acknowledgements, messages, due times, and wake-ups of step bodies.

use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Waker};

use outlive_core::commit::Answer;
use outlive_core::message::Inbound;
use outlive_core::workflow::Slot;

/// The letters of one resident run, and whom to wake for them.
#[derive(Default)]
pub(crate) struct Mailbox(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    letters: Letters,
    waker: Option<Waker>,
    /// No letter is taken any more: the run is not resident.
    is_closed: bool,
}

/// What has come since the last look.
#[derive(Default)]
pub(crate) struct Letters {
    /// Steps whose bodies can go on.
    pub(crate) woken: Vec<Slot>,
    /// Everything up to this number is durable; 0 says nothing new.
    pub(crate) durable: u64,
    /// Answers to commits with a new state, in order.
    pub(crate) answers: Vec<Answer>,
    /// Single messages, each with the position of the one before it.
    pub(crate) messages: Vec<(Inbound, u64)>,
    /// The whole inbox, as it was read, perhaps more than once.
    pub(crate) inbox: Vec<Inbound>,
    /// What is wrong with its inbox, if that could not be read.
    pub(crate) damage: Option<String>,
    /// Events were added to its queue.
    pub(crate) is_pushed: bool,
    /// The smallest rank of what was pushed, if it may go before what was read of the queue.
    pub(crate) rank_pushed: Option<i64>,
    /// The run was claimed though it was in memory: the store takes it for running.
    pub(crate) is_claimed: bool,
    /// The user's future was woken by somebody who is no part of the run.
    pub(crate) is_foreign: bool,
    /// The run is asked to leave memory if it can.
    pub(crate) is_evicted: bool,
    /// The engine shuts down: finish what is at work, begin nothing.
    pub(crate) is_stopping: bool,
    /// The run is not ours any more.
    pub(crate) is_fenced: bool,
    is_new: bool,
}

impl Letters {
    /// Makes them new again, once they are read. What they hold room for they keep.
    pub(crate) fn clear(&mut self) {
        let (mut woken, mut answers) = (std::mem::take(&mut self.woken), std::mem::take(&mut self.answers));
        woken.clear();
        answers.clear();
        *self = Self { woken, answers, ..Self::default() };
    }
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds to the letters and wakes the driver. Answers whether the run is still there to read them.
    pub(crate) fn post(&self, add: impl FnOnce(&mut Letters)) -> bool {
        let mut inner = self.lock();
        if inner.is_closed {
            return false;
        }
        add(&mut inner.letters);
        inner.letters.is_new = true;
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Takes the letters, in exchange for empty ones that have been read. If there are none, the driver is woken for
    /// the next one.
    pub(crate) fn take(&self, cx: &Context<'_>, read: &mut Letters) -> bool {
        let mut inner = self.lock();
        if inner.letters.is_new {
            std::mem::swap(&mut inner.letters, read);
            return true;
        }
        if !inner.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inner.waker = Some(cx.waker().clone());
        }
        false
    }

    /// Takes the letters if there are any.
    pub(crate) fn take_now(&self, read: &mut Letters) -> bool {
        let mut inner = self.lock();
        let is_new = inner.letters.is_new;
        if is_new {
            std::mem::swap(&mut inner.letters, read);
        }
        is_new
    }

    /// Closes the box if it is empty. If it is not, the driver must read on.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut inner = self.lock();
        inner.is_closed = !inner.letters.is_new;
        inner.is_closed
    }

    /// Closes the box, whatever is in it.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
    }
}
