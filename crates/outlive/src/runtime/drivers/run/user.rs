//! The user's future and its polls: those that a delivery causes, and those besides, which are made up for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use outlive_core::failure::Failure;
use outlive_core::payload::Payload;
use outlive_core::workflow::Slot;

use super::end::RunEnd;
use super::script::Script;
use crate::ctx::Unwinding;
use crate::error::BoxError;
use crate::instance::logs;
use crate::instance::panics;
use crate::instance::polls::ROUND;
use crate::instance::resident::{ResidentRun, ResidentState, RunWaker};
use crate::runtime::begin::NotBegun;
use crate::workflow::WorkflowFuture;

/// How many times a future may wake itself in its own poll before others get a turn.
pub(super) const TURNS_MAX: u32 = 256;

/// The user's future.
pub(super) struct UserFuture {
    /// `None` once the run has ended or left memory.
    future: Option<WorkflowFuture>,
    /// How the workflow function ended, while the run undoes what it has done.
    ended: Option<Box<RunEnd>>,
    run_waker: Arc<RunWaker>,
    waker: Waker,
    /// Whether the future needs a poll.
    is_woken: bool,
    /// Operations to wake for a reason other than a delivery, one per poll.
    wakes: VecDeque<Slot>,
    /// Whether the current polls have a reason other than a delivery. A replay does not make them.
    is_besides: bool,
    /// The number of such polls since the last delivery, modulo [`ROUND`].
    polls_besides: u8,
    span: tracing::Span,
    /// Whether user code repeats what it did before, and the delivery after which it may do something new.
    is_replay: bool,
    new_from: u64,
}

/// What is left of waking an operation once the run is unlocked.
pub(super) enum WakeUp {
    /// Nothing: the operation is polled with the run.
    Done,
    /// A part of the future that has its own waker.
    Part(Waker),
}

impl UserFuture {
    /// Creates the future of a run, which has yet to [begin](Self::begin). After the delivery `new_from`, user code may
    /// do something new.
    pub(super) fn new(resident: &ResidentRun, new_from: u64) -> Self {
        let run_waker = RunWaker::new(resident);
        Self {
            future: None,
            ended: None,
            waker: Waker::from(run_waker.clone()),
            run_waker,
            is_woken: true,
            wakes: VecDeque::new(),
            is_besides: false,
            polls_besides: 0,
            span: logs::run(&resident.info),
            is_replay: new_from > 0,
            new_from,
        }
    }

    /// Calls the workflow function.
    pub(super) fn begin(&mut self, resident: &Arc<ResidentRun>, script: &Script) -> Result<(), NotBegun> {
        let call = || script.begin(resident);
        let begun = self.span.in_scope(|| if self.is_replay { resident.env.silence.keep(call) } else { call() });
        self.future = Some(begun?);
        Ok(())
    }

    /// Returns `true` if the future needs a poll.
    pub(super) fn is_woken(&self) -> bool {
        self.is_woken
    }

    /// Returns `true` if there is a future and it is not quiet yet.
    pub(super) fn is_restless(&self) -> bool {
        self.is_woken && self.future.is_some()
    }

    /// Returns `true` if there are operations to [wake](Self::wake_next).
    pub(super) fn has_wakes(&self) -> bool {
        !self.wakes.is_empty()
    }

    /// Adds operations to wake for a reason other than a delivery.
    pub(super) fn add_wakes(&mut self, slots: impl IntoIterator<Item = Slot>) {
        self.wakes.extend(slots);
    }

    /// Polls the future for as long as it wakes itself. Returns how it ended, if it did.
    #[inline]
    pub(super) fn poll(&mut self, resident: &ResidentRun) -> Option<RunEnd> {
        let future = self.future.as_mut()?;
        if !self.is_woken {
            return None;
        }
        self.is_woken = false;
        let cx = &mut Context::from_waker(&self.waker);
        let _in_span = self.span.enter();
        for _ in 0..TURNS_MAX {
            if self.is_besides {
                self.polls_besides = (self.polls_besides + 1) % ROUND;
            }
            let mut poll = || resident.polling(|| panics::poll(future.as_mut(), cx));
            match if self.is_replay { resident.env.silence.keep(poll) } else { poll() } {
                Poll::Ready(returned) => return Some(end_of(self.ended.take(), returned)),
                Poll::Pending if self.run_waker.take() => resident.lock().regions.end_poll(),
                Poll::Pending => return None,
            }
        }
        self.is_woken = true;
        None
    }

    /// Undoes what the run has done, after its function has ended.
    pub(super) fn unwind(&mut self, unwinding: Unwinding, ended: RunEnd) {
        self.future = Some(Box::pin(async move {
            unwinding.await;
            Ok(Payload::recorded("null"))
        }));
        (self.ended, self.is_woken) = (Some(Box::new(ended)), true);
    }

    /// Wakes the next operation whose body can continue, or that the machine wants polled. One per poll, so that each
    /// future in between is polled as often as its operations were woken; those polled with the run itself are woken
    /// together.
    #[inline]
    pub(super) fn wake_next(&mut self, state: &mut ResidentState) -> Option<WakeUp> {
        self.is_besides = true;
        let mut woken = None;
        while let Some(slot) = self.wakes.pop_front() {
            let Some(waker) = state.waker(slot) else { continue };
            if waker.will_wake(&self.waker) {
                self.is_woken = true;
                woken = Some(WakeUp::Done);
                continue;
            }
            if woken.is_some() {
                self.wakes.push_front(slot);
                break;
            }
            let waker = waker.clone();
            state.regions.expect_poll(&waker);
            return Some(WakeUp::Part(waker));
        }
        woken
    }

    /// Delivers one more outcome to user code, once every future has been polled as often as in a replay, or more often
    /// by a multiple of [`ROUND`].
    #[inline]
    pub(super) fn deliver_next(&mut self, state: &mut ResidentState) -> Option<WakeUp> {
        let is_owing = self.polls_besides != 0 || state.regions.has_debts();
        if is_owing && state.machine.next_delivery().is_some() {
            if state.is_sequential(&self.run_waker, &self.waker) {
                state.regions.forgive();
                self.polls_besides = 0;
            } else if let Some(waker) = state.regions.next_owed() {
                self.is_besides = true;
                return Some(self.wake_up(&waker));
            } else if self.polls_besides != 0 {
                (self.is_besides, self.is_woken) = (true, true);
                return Some(WakeUp::Done);
            }
        }
        self.is_besides = false;
        let slot = state.machine.deliver()?;
        self.is_replay = self.is_replay && state.machine.operations().delivered() < self.new_from;
        let woken = state.waker(slot).map(|waker| self.wake_up(waker));
        if let Some(WakeUp::Part(waker)) = &woken {
            state.regions.expect_delivery(waker);
        }
        Some(woken.unwrap_or(WakeUp::Done))
    }

    /// Wakes the run itself, or returns what is left to wake.
    fn wake_up(&mut self, waker: &Waker) -> WakeUp {
        if waker.will_wake(&self.waker) {
            self.is_woken = true;
            return WakeUp::Done;
        }
        WakeUp::Part(waker.clone())
    }

    /// Wakes a part of the future on behalf of the run, which must not be locked.
    pub(super) fn wake(&mut self, resident: &ResidentRun, wake_up: &WakeUp) {
        if let WakeUp::Part(waker) = wake_up {
            resident.polling(|| waker.wake_by_ref());
            self.is_woken |= self.run_waker.take();
        }
    }

    /// Drops the future. A panic in that can only be logged.
    pub(super) fn drop_future(&mut self, resident: &ResidentRun) {
        let future = self.future.take();
        let drop = || resident.polling(|| panics::catch(|| drop(future)));
        if let Err(panic) = self.span.in_scope(drop) {
            tracing::warn!(run = resident.info.id, "dropped workflow {panic}");
        }
    }

    /// Drops the undos that are left, which may hold the run. They are user code as well.
    pub(super) fn drop_undos(&mut self, resident: &ResidentRun) {
        let undos = resident.lock().undos.take();
        if let Err(panic) = self.span.in_scope(|| panics::catch(|| drop(undos))) {
            tracing::warn!(run = resident.info.id, "dropped undo {panic}");
        }
    }

    /// Returns `true` if something still holds a waker of the run though its future is gone.
    pub(super) fn is_awaited_elsewhere(&self, resident: &ResidentRun) -> bool {
        resident.lock().forget_wakers();
        Arc::strong_count(&self.run_waker) > 2
    }
}

/// Returns how the run ends: as its function did, once everything is undone.
fn end_of(ended: Option<Box<RunEnd>>, returned: Result<Result<Payload, BoxError>, Failure>) -> RunEnd {
    match (ended, returned) {
        (Some(ended), Ok(_)) => *ended,
        (_, returned) => RunEnd::of(returned),
    }
}
