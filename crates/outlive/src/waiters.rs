//! Who waits for the end of which run, or for what becomes of a message to a job.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll};

use outlive_core::commit::State;
use outlive_core::id::InstanceNum;
use outlive_core::payload::Payload;
use outlive_core::query::Instance;
use outlive_core::status::Status;
use tokio::sync::{Notify, oneshot};

/// Who waits for the end of which run, or for what becomes of a message to a job.
#[derive(Default)]
pub(crate) struct Waiters {
    inner: Mutex<Waiting>,
    /// Notified when there was nobody and somebody begins to wait.
    pub(crate) begun: Notify,
}

#[derive(Default)]
struct Waiting {
    /// Those who wait for something that the feed reports.
    reported: Senders,
    /// Those who wait for something that it may not: they ask the store whenever it has changed.
    other: Senders,
}

type Senders = HashMap<InstanceNum, Vec<oneshot::Sender<End>>>;

impl Waiting {
    fn of(&mut self, until: Until) -> &mut Senders {
        match until {
            Until::Reported => &mut self.reported,
            Until::Changed => &mut self.other,
        }
    }

    fn is_empty(&self) -> bool {
        self.reported.is_empty() && self.other.is_empty()
    }
}

/// When the store is asked, if another process executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// The feed has a line about the instance, or it was removed.
    Reported,
    /// The store has changed in any way.
    Changed,
}

/// What a run came to.
#[derive(Clone)]
pub(crate) struct End {
    pub(crate) status: Status,
    /// The result or the failure.
    pub(crate) outcome: Option<Payload>,
    pub(crate) note: Option<String>,
}

impl End {
    /// Whether it is one: a run that is stuck does not go on by itself.
    pub(crate) fn is_in(status: Status) -> bool {
        status.is_ended() || status == Status::Stuck
    }
}

impl From<&State> for End {
    fn from(state: &State) -> Self {
        Self { status: state.status, outcome: state.outcome.clone(), note: state.note.clone() }
    }
}

impl From<Instance> for End {
    fn from(instance: Instance) -> Self {
        Self { status: instance.status, outcome: instance.outcome, note: instance.note }
    }
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether anybody waits.
    pub(crate) fn has_any(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Waits for news of an instance, from now on: its end, or `None` if it may have come and the store is to be asked.
    pub(crate) fn news(&self, num: InstanceNum, until: Until) -> News<'_> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        let is_first = waiting.is_empty();
        waiting.of(until).entry(num).or_default().push(sender);
        drop(waiting);
        if is_first {
            self.begun.notify_one();
        }
        News { waiters: self, num, until, receiver }
    }

    /// A run has ended.
    pub(crate) fn tell(&self, num: InstanceNum, state: &State) {
        let Some(senders) = self.lock().reported.remove(&num) else { return };
        // Who does not wait any more misses nothing.
        senders.into_iter().for_each(|sender| drop(sender.send(End::from(state))));
    }

    /// A run may have ended: whoever waits for it asks the store.
    pub(crate) fn ask(&self, num: InstanceNum) {
        let mut waiting = self.lock();
        waiting.reported.remove(&num);
        waiting.other.remove(&num);
    }

    /// The store has changed, and these have been reported on or removed.
    pub(crate) fn ask_these(&self, nums: &[InstanceNum]) {
        let mut waiting = self.lock();
        waiting.other.clear();
        for num in nums {
            waiting.reported.remove(num);
        }
    }

    /// Any run may have ended.
    pub(crate) fn ask_all(&self) {
        *self.lock() = Waiting::default();
    }
}

/// News of a run, once there is any.
pub(crate) struct News<'a> {
    waiters: &'a Waiters,
    num: InstanceNum,
    until: Until,
    receiver: oneshot::Receiver<End>,
}

impl Future for News<'_> {
    type Output = Option<End>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<End>> {
        Pin::new(&mut self.receiver).poll(cx).map(Result::ok)
    }
}

impl Drop for News<'_> {
    /// Leaves nothing behind for a run that may not end for years.
    fn drop(&mut self) {
        if self.receiver.is_terminated() {
            return;
        }
        self.receiver.close();
        if let Entry::Occupied(mut waiting) = self.waiters.lock().of(self.until).entry(self.num) {
            waiting.get_mut().retain(|sender| !sender.is_closed());
            if waiting.get().is_empty() {
                waiting.remove();
            }
        }
    }
}
