//! Drives a pool: hands the events of its queue to handlers, many at a time.
//!
//! A pool is one instance, and its events stay in the store's queue until they are done. The driver works in turns. A
//! turn reads the mailbox, takes over a page of the queue ([`ahead`]), commits what handlers have finished
//! ([`commits`]), starts handlers for events in the window as concurrency and rate allow, and requests the next page
//! when the window runs low. A turn never waits: handlers, reads and commits run elsewhere and post to the mailbox when
//! they are done. The store has no record of which events are being handled. If the process dies, they are still in the
//! queue and are handled again.
//!
//! If the process died while the pool was running, one of its events may be the cause. So the next events start only
//! once it is durable that they do, with one more death counted for each. An event that comes back with deaths runs
//! alone, so that no other is blamed, and is given up after too many.

mod commit;
mod outcome;
mod read_ahead;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use outlive_core::event::Event;
use outlive_core::failure::{Cause, Failure};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::job::{End, Record};
use outlive_core::lifecycle::{LifecycleRecord, LifecycleRecordKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::queue::{QueuePage, Queued};
use outlive_core::status::Status;
use outlive_core::store::commit::Answer;
use outlive_core::time::Timestamp;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::error::Error;
use crate::instance::logs;
use crate::instance::mailbox::{Arrivals, Mailbox};
use crate::runtime::handlers::{Calling, Definition, Ended, PoolCall, PoolHandlers, PoolRules};
use crate::runtime::replies;

use super::Worker;
use super::job_driver::Receivers;
use commit::Submitted;
use outcome::{Fate, Finished, OutcomeJudge, Shown};

/// The most events held at a time. While that many are read, being handled, or done and not durable yet, no more are
/// started.
const UNDURABLE_MAX: usize = 8_192;

/// A pool in memory.
pub(crate) struct PoolDriver {
    pub(crate) worker: Arc<Worker>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) rules: PoolRules,
    pub(crate) handlers: Arc<dyn PoolHandlers>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) num: InstanceNum,
    pub(crate) id: Name,
    /// The number of lifecycle events reported for it, once everything that was submitted is durable.
    pub(crate) reported: u64,
    pub(crate) record: Record,
    pub(crate) seed: u64,
    /// The position of the last message that was seen.
    pub(crate) seen: u64,
    pub(crate) is_owned: bool,
    /// How many times the process died while the pool was running, since it last made progress.
    pub(crate) recoveries: u32,
    /// The number of events being handled, shared with those who read the status.
    pub(crate) running: Arc<AtomicUsize>,
    pub(crate) work: PoolWork,
}

/// Work in progress.
#[derive(Default)]
pub(crate) struct PoolWork {
    /// Events that were read and wait for a handler.
    window: VecDeque<Queued>,
    /// Events that are in the window, being handled, or done and not durable yet.
    held: BTreeSet<u64>,
    /// Commits in progress, in order.
    undurable: VecDeque<Submitted>,
    /// The running handlers. They end with the pool.
    handlers: JoinSet<()>,
    /// The number of running handlers.
    calls: Arc<AtomicUsize>,
    /// Calls that have ended and are not committed yet.
    finished: Arc<Mutex<Vec<Finished>>>,
    /// A page that was read and not taken over yet.
    page: Arc<Mutex<Option<Result<QueuePage, Error>>>>,
    is_reading: bool,
    /// Events that were finished while a page was being read. The page may have them as they were before.
    passed: BTreeSet<u64>,
    /// The smallest rank of what was pushed since a page was requested.
    pushed: Option<i64>,
    /// Whether a full page held nothing but events that are held already.
    is_crowded: bool,
    /// Whether the queue may have more than was read.
    is_unread: bool,
    /// When the next delayed event becomes ready.
    next_due: Option<Timestamp>,
    /// The lane that had its turn last.
    lane: Option<String>,
    /// When recent calls started, for the rate.
    begun: VecDeque<Timestamp>,
    /// How many events are still to be started with care, because the process died while the pool was running.
    wary: usize,
    /// Events of calls that start once that is durable.
    marked: Vec<Vec<Queued>>,
    /// Whether the event being handled was also being handled when the process died.
    is_alone: bool,
    /// Messages that were taken, and the lifecycle events they lead to.
    taken: Vec<u64>,
    lifecycle: Vec<LifecycleRecord>,
    is_stopping: bool,
    is_resting: bool,
    /// Another instance needs its place in memory.
    is_evicted: bool,
}

impl PoolWork {
    /// Returns how many calls are running or about to start.
    fn at_work(&self) -> usize {
        let about_to = self.undurable.iter().map(|submitted| submitted.begins.len()).sum::<usize>();
        self.calls.load(Ordering::Relaxed) + self.marked.len() + about_to
    }
}

/// The driver must stop.
struct PoolIsOver;

/// However the driver ends, even if its task is aborted, the pool is no longer in memory.
impl Drop for PoolDriver {
    fn drop(&mut self) {
        self.mailbox.close();
        self.worker.pool_gone(&self.definition.job);
        self.worker.job_gone(self.num, &self.mailbox);
    }
}

impl PoolDriver {
    pub(crate) async fn drive(mut self) {
        self.work.is_unread = true;
        if self.recoveries > 0 {
            // The events that were being handled when the process died are among the first.
            self.work.wary = UNDURABLE_MAX.saturating_add(self.rules.concurrency.saturating_mul(self.rules.batch));
        }
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

    fn now(&self) -> Timestamp {
        self.worker.env.clock.now()
    }

    /// Does everything that can be done without waiting.
    fn turn(&mut self, arrivals: Arrivals) -> Result<(), PoolIsOver> {
        self.read(arrivals)?;
        let now = self.now();
        self.take_page(now);
        self.settle(now);
        self.begin(now);
        if !self.work.marked.is_empty() {
            self.settle(now);
        }
        self.read_on(now);
        self.rest(now)
    }

    // ---- mailbox ----

    fn read(&mut self, mut arrivals: Arrivals) -> Result<(), PoolIsOver> {
        if arrivals.is_fenced || self.worker.committer.is_closed() {
            return Err(PoolIsOver);
        }
        self.work.is_stopping |= arrivals.is_stopping;
        self.work.is_evicted |= arrivals.is_evicted;
        self.worker.resume(self.num);
        if arrivals.is_pushed {
            self.work.is_unread = true;
            self.work.is_resting = false;
        }
        let rare = arrivals.take_rare().unwrap_or_default();
        if let Some(rank) = rare.rank_pushed {
            self.make_way(rank);
        }
        rare.inbox.into_iter().try_for_each(|inbound| self.hear(inbound))?;
        for (inbound, before) in rare.messages {
            if before > self.seen {
                // A message from another process came before it. Order counts, so the whole inbox is read.
                self.worker.read_inbox(self.num, &self.mailbox);
                break;
            }
            self.hear(inbound)?;
        }
        for answer in rare.answers {
            self.answered(answer)?;
        }
        if arrivals.is_claimed {
            // The store records it as ours again.
            (self.is_owned, self.work.is_resting) = (true, false);
        }
        Ok(())
    }

    /// Takes a message.
    fn hear(&mut self, inbound: Inbound) -> Result<(), PoolIsOver> {
        if inbound.pos <= self.seen {
            return Ok(());
        }
        self.seen = inbound.pos;
        self.work.is_resting = false;
        match inbound.message {
            Message::Pause if !self.record.is_stopped => {
                self.record.is_stopped = true;
                self.work.lifecycle.push(LifecycleRecord::new(LifecycleRecordKind::JobStopped, inbound.at));
            }
            Message::Resume if self.record.is_stopped => {
                self.record.is_stopped = false;
                self.work.lifecycle.push(LifecycleRecord::new(LifecycleRecordKind::JobResumed, inbound.at));
            }
            _ => {}
        }
        self.work.taken.push(inbound.pos);
        Ok(())
    }

    /// Handles the reply to a commit.
    fn answered(&mut self, answer: Answer) -> Result<(), PoolIsOver> {
        let Some(submitted) = self.work.undurable.pop_front() else { return Err(PoolIsOver) };
        match answer {
            Answer::Turned(_) => {
                for pos in &submitted.events {
                    self.work.held.remove(pos);
                    self.work.passed.extend(self.work.is_reading.then_some(*pos));
                }
                // A new read finds the delayed events, and what is behind a crowded page.
                self.work.is_unread |= submitted.is_delaying || std::mem::take(&mut self.work.is_crowded);
                if !submitted.taken.is_empty() {
                    self.worker.waiters.ask(self.num);
                }
                for pos in &submitted.taken {
                    let taken = || replies::Reply::Taken { answer: None, event_count: 0, next: None };
                    self.worker.replies.send(*pos, taken);
                }
                self.definition.report_exhausted(&submitted.exhausted);
                let now = self.now();
                submitted.begins.into_iter().for_each(|events| self.begin_marked(events, now));
                if submitted.is_rest {
                    (self.is_owned, self.work.is_resting) = (false, false);
                    // An event pushed just before is in the queue, and may not have been reported.
                    self.work.is_unread = true;
                    self.worker.rested.notify_waiters();
                }
                Ok(())
            }
            Answer::Unseen(messages) => {
                self.work.taken.extend(submitted.taken);
                messages.into_iter().try_for_each(|inbound| self.hear(inbound))
            }
            Answer::Refused(refusal) => {
                // A write that a handler asked for was refused, so the handler has failed.
                let Some(finished) = submitted.again else { return Err(PoolIsOver) };
                (self.reported, self.is_owned) = submitted.before;
                let problem = Receivers::of(&finished.writes).refused(&refusal);
                if finished.events.iter().any(|(_, fate)| matches!(fate, Fate::Failed { .. })) {
                    // It was `on_dead` that asked for the write. The event is given up without it, as if `on_dead` had
                    // failed.
                    tracing::warn!(job = self.id.as_str(), "on_dead failed: {problem}");
                    self.finished().push(Finished { writes: Vec::new(), ..finished });
                    return Ok(());
                }
                let end = End::Failed(Failure::new(Cause::Error, problem));
                let events = finished.events.into_iter().map(|(queued, _)| queued).collect();
                let ended = Ended { end, writes: Vec::new() };
                self.conclude(events, finished.began, Shown::ToUser, ended.at_once());
                Ok(())
            }
            _ => Err(PoolIsOver),
        }
    }

    fn finished(&self) -> std::sync::MutexGuard<'_, Vec<Finished>> {
        self.work.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- handlers ----

    /// Starts as many calls as are allowed.
    fn begin(&mut self, now: Timestamp) {
        while !self.record.is_stopped && !self.work.is_stopping && self.work.held.len() < UNDURABLE_MAX {
            let Some(deaths) = self.work.window.front().map(deaths_of) else { return };
            let at_work = self.work.at_work();
            let is_full = at_work >= self.rules.concurrency;
            // An event that may be deadly runs alone, as others would be blamed for it too.
            let is_in_the_way = at_work > 0 && (deaths > 0 || self.work.is_alone);
            if is_full || is_in_the_way || !self.may_begin(now) {
                return;
            }
            self.work.is_alone = deaths > 0;
            let innocent = self.work.window.iter().take(self.rules.batch).take_while(|queued| deaths_of(queued) == 0);
            let count = innocent.count().max(1);
            let events: Vec<Queued> = self.work.window.drain(..count).collect();
            self.work.lane = events.last().map(|queued| queued.turn().1);
            self.set_off(events, now);
        }
    }

    /// Handles events. If the process died recently while this pool was running, it is first made durable that they are
    /// about to start, so that an event that crashes the process is found.
    fn set_off(&mut self, mut events: Vec<Queued>, now: Timestamp) {
        let deaths = events.first().map_or(0, deaths_of);
        if deaths > self.worker.max_recoveries.saturating_add(1) {
            // It crashes the process even when `on_dead` looks at it.
            return self.give_up(events, deaths, now, Shown::ToNobody);
        }
        let is_unreadable = events.iter().all(|queued| queued.event.is_err());
        if is_unreadable || (self.work.wary == 0 && deaths == 0) {
            return self.spawn_readable(events, now);
        }
        self.work.wary = self.work.wary.saturating_sub(events.len());
        for event in events.iter_mut().filter_map(|queued| queued.event.as_mut().ok()) {
            event.deaths = event.deaths.saturating_add(1);
        }
        self.work.marked.push(events);
    }

    /// Continues with events once it is durable that they are about to start.
    fn begin_marked(&mut self, events: Vec<Queued>, now: Timestamp) {
        let deaths = events.first().map_or(0, deaths_of).saturating_sub(1);
        match deaths > self.worker.max_recoveries {
            true => self.give_up(events, deaths, now, Shown::ToUser),
            false => self.spawn_readable(events, now),
        }
    }

    /// Gives up an event that crashes the process.
    fn give_up(&mut self, events: Vec<Queued>, deaths: u32, now: Timestamp, shown: Shown) {
        let failure = Failure::new(Cause::Error, crate::runtime::stuck::deadly_event(deaths)).permanent();
        let ended = Ended { end: End::Failed(failure), writes: Vec::new() };
        self.conclude(events, now, shown, ended.at_once());
    }

    /// Handles events together, except those that do not decode: each of them fails alone, as it is no fault of the
    /// others.
    fn spawn_readable(&mut self, events: Vec<Queued>, now: Timestamp) {
        let is_readable = |queued: &Queued| match &queued.event {
            Ok(event) => self.definition.handlers.check(&event.payload).is_ok(),
            Err(_) => false,
        };
        let (together, alone): (Vec<_>, Vec<_>) = match events.len() {
            1 => (events, Vec::new()),
            _ => events.into_iter().partition(is_readable),
        };
        alone.into_iter().for_each(|queued| self.spawn(vec![queued], now));
        if !together.is_empty() {
            self.spawn(together, now);
        }
    }

    /// Returns `true` if the rate allows another call. If not, sets a wake for when it does.
    fn may_begin(&mut self, now: Timestamp) -> bool {
        let Some((calls, per)) = self.rules.rate else { return true };
        let begun = &mut self.work.begun;
        if begun.back().is_some_and(|last| *last > now) {
            // The clock was set back: calls with a later start count as started now.
            begun.iter_mut().for_each(|at| *at = now.min(*at));
        }
        while begun.front().is_some_and(|first| first.after(per) <= now) {
            begun.pop_front();
        }
        if begun.len() < calls {
            begun.push_back(now);
            return true;
        }
        begun.front().into_iter().for_each(|first| self.worker.wakes.add(first.after(per), self.num));
        false
    }

    fn spawn(&mut self, events: Vec<Queued>, began: Timestamp) {
        let readable: Result<Vec<(u64, Event)>, String> =
            events.iter().map(|queued| queued.event.clone().map(|event| (queued.pos, event))).collect();
        let attempt = readable.as_ref().ok().and_then(|events| events.first()).map_or(1, |(_, event)| event.failed + 1);
        let span = logs::job(self.id.as_str(), "execute", attempt);
        let given = readable.map(|readable| PoolCall {
            around: self.worker.around.clone(),
            care: self.definition.care.clone(),
            id: self.id.clone(),
            handler: "execute",
            events: readable,
            pushed_at: events.first().map_or(began, |queued| queued.at),
            started_at: began,
        });
        let calling = match given {
            Ok(given) => span.in_scope(|| Calling::begin(|| self.handlers.call(given))),
            Err(problem) => Ended::unreadable(problem).at_once(),
        };
        self.conclude(events, began, Shown::ToUser, calling.instrument(span));
    }

    /// Waits for the end of a call and for the decision about its events.
    fn conclude(
        &mut self,
        events: Vec<Queued>,
        began: Timestamp,
        shown: Shown,
        calling: impl Future<Output = Ended> + Send + 'static,
    ) {
        while self.work.handlers.try_join_next().is_some() {}
        let count = events.len();
        self.running.fetch_add(count, Ordering::Relaxed);
        self.work.calls.fetch_add(1, Ordering::Relaxed);
        let judge = OutcomeJudge {
            handlers: self.handlers.clone(),
            care: self.definition.care.clone(),
            rules: self.rules.clone(),
            around: self.worker.around.clone(),
            id: self.id.clone(),
            seed: self.seed,
            shown,
        };
        let (finished, running, mailbox) = (self.work.finished.clone(), self.running.clone(), self.mailbox.clone());
        let calls = self.work.calls.clone();
        self.work.handlers.spawn(async move {
            let decided = judge.decide(events, calling.await, began).await;
            finished.lock().unwrap_or_else(PoisonError::into_inner).push(decided);
            running.fetch_sub(count, Ordering::Relaxed);
            calls.fetch_sub(1, Ordering::Relaxed);
            mailbox.post(|_| {});
        });
    }

    /// Releases the pool if there is nothing to do. What is pushed from here on makes it due.
    fn rest(&mut self, now: Timestamp) -> Result<(), PoolIsOver> {
        let work = &self.work;
        let is_idle = self.running.load(Ordering::Relaxed) == 0
            && work.undurable.is_empty()
            && work.taken.is_empty()
            && work.marked.is_empty()
            && self.finished().is_empty();
        if !is_idle {
            return Ok(());
        }
        let is_empty = work.window.is_empty() && !work.is_unread && !work.is_reading;
        if work.is_stopping && !self.is_owned {
            return Err(PoolIsOver);
        }
        if (is_empty || self.record.is_stopped || work.is_stopping) && !work.is_resting && self.is_owned {
            let due = work.next_due;
            let (status, wake) = match (self.record.is_stopped, due) {
                (true, _) => (Status::Paused, None),
                (_, Some(until)) => (Status::Sleeping { until }, due),
                _ => (Status::Waiting { until: None }, None),
            };
            self.work.is_resting = true;
            let state = self.state(status, false, wake, now);
            let draft = self.new_draft();
            self.send(draft, None, Some(state));
        } else if (is_empty || self.record.is_stopped) && !self.is_owned {
            return self.stay_or_leave(now);
        }
        Ok(())
    }

    /// Decides whether a released pool with nothing to do stays in memory. Others may need its place more.
    fn stay_or_leave(&mut self, now: Timestamp) -> Result<(), PoolIsOver> {
        if let (Some((_, per)), Some(last)) = (self.rules.rate, self.work.begun.back().map(|last| now.min(*last)))
            && last.after(per) > now
        {
            // Only memory knows how many calls the rate still allows.
            self.worker.wakes.add(last.after(per), self.num);
            return Ok(());
        }
        let stays = !self.work.is_evicted && self.worker.residency.pause(self.num, None, None);
        if !stays && self.mailbox.close_if_empty() {
            return Err(PoolIsOver);
        }
        self.worker.wakeup.notify_one();
        Ok(())
    }
}

/// Returns how many times the process is known to have died while an event was being handled.
fn deaths_of(queued: &Queued) -> u32 {
    queued.event.as_ref().map_or(0, |event| event.deaths)
}
