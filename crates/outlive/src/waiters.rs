//! Who waits for the end of which run.

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
use tokio::sync::oneshot;

/// Who waits for the end of which run.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<Waiting>);

type Waiting = HashMap<InstanceNum, Vec<oneshot::Sender<End>>>;

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
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits for news of a run, from now on: its end, or `None` if it may have ended and the store is to be asked.
    pub(crate) fn news(&self, num: InstanceNum) -> News<'_> {
        let (sender, receiver) = oneshot::channel();
        self.lock().entry(num).or_default().push(sender);
        News { waiters: self, num, receiver }
    }

    /// A run has ended.
    pub(crate) fn tell(&self, num: InstanceNum, state: &State) {
        let Some(senders) = self.lock().remove(&num) else { return };
        // Who does not wait any more misses nothing.
        senders.into_iter().for_each(|sender| drop(sender.send(End::from(state))));
    }

    /// A run may have ended: whoever waits for it asks the store.
    pub(crate) fn ask(&self, num: InstanceNum) {
        self.lock().remove(&num);
    }

    /// Any run may have ended.
    pub(crate) fn ask_all(&self) {
        self.lock().clear();
    }
}

/// News of a run, once there is any.
pub(crate) struct News<'a> {
    waiters: &'a Waiters,
    num: InstanceNum,
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
        if let Entry::Occupied(mut waiting) = self.waiters.lock().entry(self.num) {
            waiting.get_mut().retain(|sender| !sender.is_closed());
            if waiting.get().is_empty() {
                waiting.remove();
            }
        }
    }
}
