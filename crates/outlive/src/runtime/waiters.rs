//! Callers that wait for the end of a run, for what it gives out, or for the outcome of a message to a job.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll};

use outlive_core::id::InstanceNum;
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::NewState;
use outlive_core::store::query::Instance;
use tokio::sync::{Notify, oneshot};

/// The callers that wait for the end of a run, or for the outcome of a message to a job.
#[derive(Default)]
pub(crate) struct Waiters {
    inner: Mutex<WaitingCallers>,
    /// Notified when the first caller begins to wait.
    pub(crate) begun: Notify,
}

#[derive(Default)]
struct WaitingCallers {
    /// Callers that wait for something the feed reports.
    reported: Senders,
    /// Callers that wait for something it may not report. They read the store whenever it has changed.
    other: Senders,
}

type Senders = HashMap<InstanceNum, Vec<oneshot::Sender<RunOutcome>>>;

impl WaitingCallers {
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

/// When to read the store, if another process executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// The feed reports something about the instance, or it was removed.
    Reported,
    /// The store has changed in any way.
    Changed,
}

/// The end of a run.
#[derive(Clone)]
pub(crate) struct RunOutcome {
    pub(crate) status: Status,
    /// The result or the failure.
    pub(crate) outcome: Option<Payload>,
    pub(crate) note: Option<String>,
}

impl RunOutcome {
    /// Returns `true` if the status is an end. A stuck run counts, as it does not continue by itself.
    pub(crate) fn is_in(status: Status) -> bool {
        status.is_ended() || status == Status::Stuck
    }
}

impl From<&NewState> for RunOutcome {
    fn from(state: &NewState) -> Self {
        Self { status: state.status, outcome: state.outcome.clone(), note: state.note.clone() }
    }
}

impl From<Instance> for RunOutcome {
    fn from(instance: Instance) -> Self {
        Self { status: instance.status, outcome: instance.outcome, note: instance.note }
    }
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, WaitingCallers> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns `true` if any caller waits.
    pub(crate) fn has_any(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Waits, from now on, for the end of an instance. Resolves to `None` if it may have ended and the store must be
    /// read.
    pub(crate) fn wait_for(&self, num: InstanceNum, until: Until) -> InstanceWait<'_> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        let is_first = waiting.is_empty();
        waiting.of(until).entry(num).or_default().push(sender);
        drop(waiting);
        if is_first {
            self.begun.notify_one();
        }
        InstanceWait { waiters: self, num, until, receiver }
    }

    /// Reports the end of a run to those who wait for it.
    pub(crate) fn notify(&self, num: InstanceNum, state: &NewState) {
        let Some(senders) = self.lock().reported.remove(&num) else { return };
        // The receiver may have been dropped.
        senders.into_iter().for_each(|sender| drop(sender.send(RunOutcome::from(state))));
    }

    /// Makes those who wait for an instance read the store, because it may have ended.
    pub(crate) fn ask(&self, num: InstanceNum) {
        let mut waiting = self.lock();
        waiting.reported.remove(&num);
        waiting.other.remove(&num);
    }

    /// Makes those read the store who wait for a change of an instance that is not its end: it has given something out.
    pub(crate) fn changed(&self, num: InstanceNum) {
        self.lock().other.remove(&num);
    }

    /// Makes callers read the store, because it has changed and these instances were reported on or removed.
    pub(crate) fn ask_these(&self, nums: &[InstanceNum]) {
        let mut waiting = self.lock();
        waiting.other.clear();
        for num in nums {
            waiting.reported.remove(num);
        }
    }

    /// Makes all callers read the store, because any run may have ended.
    pub(crate) fn ask_all(&self) {
        *self.lock() = WaitingCallers::default();
    }
}

/// A wait for the end of an instance.
pub(crate) struct InstanceWait<'a> {
    waiters: &'a Waiters,
    num: InstanceNum,
    until: Until,
    receiver: oneshot::Receiver<RunOutcome>,
}

impl Future for InstanceWait<'_> {
    type Output = Option<RunOutcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RunOutcome>> {
        Pin::new(&mut self.receiver).poll(cx).map(Result::ok)
    }
}

impl Drop for InstanceWait<'_> {
    /// Leaves nothing behind, as the run may not end for years.
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
