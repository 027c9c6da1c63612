//! Drives a pool: runs the handlers, reads and commits that its machine asks for.
//!
//! The rules are in [`Pool`]; here are its tasks and its I/O. The driver works in turns. A turn passes on what has
//! arrived, asks the machine what to do, and starts that. It never waits: handlers, reads and commits run elsewhere and
//! post to the mailbox when they are done.

mod call;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive_core::id::InstanceNum;
use outlive_core::job::{Dispatch, Finished, Pool, PoolChange, PoolDurable, PoolNeed, RefusedTurn};
use outlive_core::queue::{QueuePage, QueueRead};
use outlive_core::store::commit::{Answer, Refusal, Turn};
use tokio::task::JoinSet;

use crate::error::Error;
use crate::instance::mailbox::{Arrivals, Mailbox};
use crate::instance::meters;
use crate::runtime::handlers::Definition;
use crate::runtime::replies;
use crate::runtime::services::Services;

use super::turns::{ReceiveInOrder, Receivers, TurnLog};
pub(crate) use call::PoolCaller;

/// How long to wait after the queue could not be read.
const RETRY: Duration = Duration::from_millis(100);

/// A pool in memory.
pub(crate) struct PoolDriver {
    pub(crate) services: Arc<Services>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) num: InstanceNum,
    pub(crate) pool: Pool,
    pub(crate) caller: Arc<PoolCaller>,
    pub(crate) turns: TurnLog,
    /// The number of events being handled, shared with those who read the status.
    pub(crate) running: Arc<AtomicUsize>,
    pub(crate) tasks: PoolTasks,
    /// Another instance needs its place in memory.
    pub(crate) is_evicted: bool,
}

/// The tasks of a pool, and what they have returned.
#[derive(Default)]
pub(crate) struct PoolTasks {
    /// The running handlers. They end with the pool.
    handlers: JoinSet<()>,
    /// Calls that have ended.
    finished: Arc<Mutex<Vec<Finished>>>,
    /// A page that was read.
    page: Arc<Mutex<Option<Result<QueuePage, Error>>>>,
}

/// The driver must stop.
struct PoolIsOver;

/// However the driver ends, even if its task is aborted, the pool is no longer in memory.
impl Drop for PoolDriver {
    fn drop(&mut self) {
        self.mailbox.close();
        self.services.pools.leave(&self.definition.job);
        self.services.job_gone(self.num, &self.mailbox);
    }
}

impl PoolDriver {
    pub(crate) async fn drive(mut self) {
        let mut arrivals = Arrivals::default();
        while self.turn(arrivals).is_ok() {
            arrivals = Arrivals::default();
            let mailbox = self.mailbox.clone();
            std::future::poll_fn(|cx| match mailbox.take(cx, &mut arrivals) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            })
            .await;
        }
    }

    /// Does everything that can be done without waiting.
    fn turn(&mut self, arrivals: Arrivals) -> Result<(), PoolIsOver> {
        self.read_mailbox(arrivals)?;
        self.take_page();
        self.take_finished();
        let handlers = &self.definition.handlers;
        let turn = self.pool.next(self.services.now(), |event| handlers.check(event).is_ok());
        turn.change.into_iter().for_each(|change| self.commit(change));
        turn.calls.into_iter().for_each(|call| self.call(call));
        turn.read.into_iter().for_each(|read| self.read_queue(read));
        turn.wake.into_iter().for_each(|wake| self.services.wakes.add(wake, self.num));
        match turn.need {
            PoolNeed::Busy => Ok(()),
            PoolNeed::Idle => self.stay_or_leave(),
            PoolNeed::Over => Err(PoolIsOver),
        }
    }

    // ---- what has arrived ----

    fn read_mailbox(&mut self, mut arrivals: Arrivals) -> Result<(), PoolIsOver> {
        if arrivals.is_fenced || self.services.committer.is_closed() {
            return Err(PoolIsOver);
        }
        if arrivals.is_stopping {
            self.pool.stop();
        }
        self.is_evicted |= arrivals.is_evicted;
        self.services.resume(self.num);
        let rare = arrivals.take_rare().unwrap_or_default();
        if arrivals.is_pushed {
            self.pool.pushed(rare.rank_pushed);
        }
        if let Some(problem) = rare.damage {
            tracing::warn!(job = %self.definition.job, "orders are not read, events are: {problem}");
        }
        rare.inbox.into_iter().for_each(|inbound| self.pool.receive(inbound));
        if self.pool.receive_until_gap(rare.messages) {
            // Order counts, so the whole inbox is read.
            self.services.read_inbox(self.num, &self.mailbox);
        }
        rare.answers.into_iter().try_for_each(|answer| self.answered(answer))?;
        if arrivals.is_claimed {
            self.pool.claimed();
        }
        Ok(())
    }

    fn take_page(&mut self) {
        let page = lock(&self.tasks.page).take();
        match page {
            Some(Ok(page)) => self.pool.take_page(page),
            Some(Err(error)) => {
                let job = self.caller.id.as_str();
                tracing::warn!(job, "could not read the queue, trying again: {error}");
                self.pool.read_failed();
            }
            None => {}
        }
    }

    fn take_finished(&mut self) {
        let finished = std::mem::take(&mut *lock(&self.tasks.finished));
        if !finished.is_empty() {
            meters::pool_running(self.definition.job.as_str(), self.running.load(Ordering::Relaxed));
        }
        finished.into_iter().for_each(|finished| self.pool.ended(finished));
    }

    // ---- commits ----

    fn commit(&mut self, change: PoolChange) {
        let PoolChange { lifecycle, taken, queue, dead, writes, state } = change;
        let fill = |turn| Turn { lifecycle, taken, queue, dead, writes, state, ..turn };
        self.turns.submit(&self.services, &self.mailbox, fill);
    }

    /// Handles the reply to a commit.
    fn answered(&mut self, answer: Answer) -> Result<(), PoolIsOver> {
        match answer {
            Answer::DoneWith(_) => {
                let durable = self.pool.committed().ok_or(PoolIsOver)?;
                self.turns.committed();
                self.report(&durable);
                Ok(())
            }
            Answer::Unseen(messages) => {
                self.pool.unseen(messages);
                Ok(())
            }
            Answer::WriteRefused { index, refusal } => self.refused(index, &refusal),
            _ => Err(PoolIsOver),
        }
    }

    /// Notifies those who wait for what is durable now.
    fn report(&self, durable: &PoolDurable) {
        if !durable.taken.is_empty() {
            self.services.waiters.ask(self.num);
        }
        for pos in &durable.taken {
            let taken = || replies::MessageOutcome::Taken { answer: None, event_count: 0, next: None };
            self.services.replies.send(*pos, taken);
        }
        self.definition.report_exhausted(&durable.exhausted);
        if durable.is_rest {
            self.services.pools.rested.notify_waiters();
        }
    }

    fn refused(&mut self, index: usize, refusal: &Refusal) -> Result<(), PoolIsOver> {
        let problem = Receivers::of(self.pool.writes_in_flight()).refused(index, refusal);
        match self.pool.refused(&problem) {
            RefusedTurn::Handler => Ok(()),
            RefusedTurn::Hook => {
                tracing::warn!(job = self.caller.id.as_str(), "on_dead failed: {problem}");
                Ok(())
            }
            RefusedTurn::Lost => Err(PoolIsOver),
        }
    }

    // ---- tasks ----

    /// Makes a call. Its end is posted to the mailbox.
    fn call(&mut self, call: Dispatch) {
        while self.tasks.handlers.try_join_next().is_some() {}
        let count = call.events.len();
        let now_running = self.running.fetch_add(count, Ordering::Relaxed) + count;
        meters::pool_running(self.definition.job.as_str(), now_running);
        let (finished, running, mailbox) = (self.tasks.finished.clone(), self.running.clone(), self.mailbox.clone());
        let calling = self.caller.clone().call(call);
        self.tasks.handlers.spawn(async move {
            let ended = calling.await;
            lock(&finished).push(ended);
            running.fetch_sub(count, Ordering::Relaxed);
            mailbox.post(|_| {});
        });
    }

    /// Reads a page of the queue. It is posted to the mailbox.
    fn read_queue(&self, read: QueueRead) {
        let (store, page, mailbox, num) =
            (self.services.store.clone(), self.tasks.page.clone(), self.mailbox.clone(), self.num);
        tokio::spawn(async move {
            let found = store.queue(num, read).await;
            if found.is_err() {
                tokio::time::sleep(RETRY).await;
            }
            *lock(&page) = Some(found.map_err(Error::from));
            mailbox.post(|_| {});
        });
    }

    /// Decides whether a released pool with nothing to do stays in memory. Others may need its place more.
    fn stay_or_leave(&mut self) -> Result<(), PoolIsOver> {
        let stays = !self.is_evicted && self.services.residency.pause(self.num, None, None);
        if !stays && self.mailbox.close_if_empty() {
            return Err(PoolIsOver);
        }
        self.services.due.wakeup.notify_one();
        Ok(())
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
