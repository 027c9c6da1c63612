//! Step attempts as they start, for listeners in this process: not committed, and free while nobody listens.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use outlive_core::id::InstanceNum;
use outlive_core::retry::BreakerChange;
use outlive_core::time::Timestamp;

/// The most attempts that wait for one listener. When one more comes, the oldest is dropped.
const WAITING_MAX: usize = 1024;

/// An attempt that starts.
pub(crate) struct Begun {
    pub(crate) at: Timestamp,
    pub(crate) num: InstanceNum,
    pub(crate) instance: String,
    pub(crate) workflow: String,
    pub(crate) step: String,
    pub(crate) operation: Arc<str>,
    pub(crate) attempt: u32,
    /// The number of the last entry that the run had recorded.
    pub(crate) seq: u64,
    /// Whether that entry was durable.
    pub(crate) is_durable: bool,
    /// Set if this is not the start of an attempt, but what one has done to a breaker.
    pub(crate) breaker: Option<Box<(String, BreakerChange)>>,
}

/// The listeners to the attempts of an engine.
#[derive(Default)]
pub(crate) struct Attempts {
    count: AtomicUsize,
    listeners: Mutex<Vec<Arc<Mutex<LiveAttempts>>>>,
}

/// The attempts that wait for one listener.
#[derive(Default)]
struct LiveAttempts {
    /// In order, each with its number among all that were sent to this listener.
    begun: VecDeque<(u64, Arc<Begun>)>,
    /// The number of attempts sent to this listener.
    told: u64,
    waker: Option<Waker>,
}

impl Attempts {
    /// Sends an attempt to all listeners. It is not even built if there are none.
    pub(crate) fn report(&self, begun: impl FnOnce() -> Begun) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let begun = Arc::new(begun());
        for listener in lock(&self.listeners).iter() {
            let mut waiting = lock(listener);
            if waiting.begun.len() == WAITING_MAX {
                waiting.begun.pop_front();
            }
            let number = waiting.told;
            waiting.begun.push_back((number, begun.clone()));
            waiting.told += 1;
            let waker = waiting.waker.take();
            drop(waiting);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Listens until the listener is dropped.
    pub(crate) fn listen(attempts: Arc<Self>) -> AttemptListener {
        let waiting = Arc::default();
        lock(&attempts.listeners).push(Arc::clone(&waiting));
        attempts.count.fetch_add(1, Ordering::SeqCst);
        AttemptListener { attempts, waiting }
    }
}

/// A listener to attempts.
pub(crate) struct AttemptListener {
    attempts: Arc<Attempts>,
    waiting: Arc<Mutex<LiveAttempts>>,
}

impl AttemptListener {
    /// Returns how many attempts were sent to this listener so far.
    pub(crate) fn told(&self) -> u64 {
        lock(&self.waiting).told
    }

    /// Takes out the attempts that are wanted, in order.
    pub(crate) fn take(&self, is_wanted: impl Fn(u64, &Begun) -> bool) -> Vec<Arc<Begun>> {
        let mut taken = Vec::new();
        lock(&self.waiting).begun.retain(|(number, begun)| {
            let is_taken = is_wanted(*number, begun);
            if is_taken {
                taken.push(begun.clone());
            }
            !is_taken
        });
        taken
    }

    /// Becomes ready once more than `told` attempts were sent.
    pub(crate) fn poll_more(&self, told: u64, cx: &Context<'_>) -> Poll<()> {
        let mut waiting = lock(&self.waiting);
        if waiting.told > told {
            return Poll::Ready(());
        }
        waiting.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for AttemptListener {
    fn drop(&mut self) {
        self.attempts.count.fetch_sub(1, Ordering::SeqCst);
        lock(&self.attempts.listeners).retain(|waiting| !Arc::ptr_eq(waiting, &self.waiting));
    }
}

/// Locks a mutex. Nothing panics behind these locks, so the data is consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
