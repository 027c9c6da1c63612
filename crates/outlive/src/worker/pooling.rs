//! Drives a pool: hands the events of its queue to handlers, many at a time.

mod ahead;
mod commits;
mod fate;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use outlive_core::commit::Answer;
use outlive_core::event::Event;
use outlive_core::failure::{Cause, Failure};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::job::{End, Record};
use outlive_core::lifecycle::{News, NewsKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::queue::{QueuePage, Queued};
use outlive_core::status::Status;
use outlive_core::time::Timestamp;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::error::Error;
use crate::handling::{Calling, Definition, Ended, PoolGiven, PoolHandlers, PoolRules};
use crate::logs;
use crate::mailbox::{Letters, Mailbox};
use crate::replies;

use super::Worker;
use super::turns::refused;
use commits::Submitted;
use fate::{Fate, Finished, Judge, Shown};

/// How many events may be done and not durable yet before no more are begun.
const UNDURABLE_MAX: usize = 8_192;

/// A pool in memory.
pub(crate) struct Pooling {
    pub(crate) worker: Arc<Worker>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) rules: PoolRules,
    pub(crate) handlers: Arc<dyn PoolHandlers>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) num: InstanceNum,
    pub(crate) id: Name,
    /// How often the world was told of it, once all that was submitted is durable.
    pub(crate) told: u64,
    pub(crate) record: Record,
    pub(crate) seed: u64,
    /// The last message that was seen.
    pub(crate) seen: u64,
    pub(crate) is_owned: bool,
    /// How often the process died while the pool was at work since it last got on.
    pub(crate) recoveries: u32,
    /// How many events are being handled; for whoever asks.
    pub(crate) running: Arc<AtomicUsize>,
    pub(crate) work: Work,
}

/// What is under way.
#[derive(Default)]
pub(crate) struct Work {
    /// Read, and waiting for a handler.
    window: VecDeque<Queued>,
    /// Events that are in the window, at work, or done and not durable yet.
    held: BTreeSet<u64>,
    /// Events whose commits are under way, in their order.
    undurable: VecDeque<Submitted>,
    /// The handlers at work. They end with the pool.
    handlers: JoinSet<()>,
    /// How many there are.
    calls: Arc<AtomicUsize>,
    /// What handlers have ended with.
    finished: Arc<Mutex<Vec<Finished>>>,
    /// A page that was read.
    page: Arc<Mutex<Option<Result<QueuePage, Error>>>>,
    is_reading: bool,
    /// Events that were done with while a page was read: it may have them as they were before.
    passed: BTreeSet<u64>,
    /// The smallest rank of what was pushed since a page was asked for.
    pushed: Option<i64>,
    /// Whether a page was full of what is at work already.
    is_crowded: bool,
    /// Whether there may be more in the queue than was read.
    is_unread: bool,
    /// When the next event is ready that waits for a time.
    next_due: Option<Timestamp>,
    /// The lane that had its turn last.
    lane: Option<String>,
    /// When calls began of late.
    begun: VecDeque<Timestamp>,
    /// How many events are begun with care, as the process died while the pool was at work.
    wary: usize,
    /// Events of calls that begin once that is durable.
    marked: Vec<Vec<Queued>>,
    /// Whether an event is at work that was at work when the process died.
    is_alone: bool,
    /// Messages that are done with, and what they change.
    taken: Vec<u64>,
    news: Vec<News>,
    is_stopping: bool,
    is_resting: bool,
    /// Its place in memory is wanted.
    is_evicted: bool,
}

impl Work {
    /// How many calls are under way, or about to begin.
    fn at_work(&self) -> usize {
        let about_to = self.undurable.iter().map(|submitted| submitted.begins.len()).sum::<usize>();
        self.calls.load(Ordering::Relaxed) + self.marked.len() + about_to
    }
}

/// Why driving ends.
struct Over;

/// However it ends, also if its task is aborted, it is not in memory any more.
impl Drop for Pooling {
    fn drop(&mut self) {
        self.mailbox.close();
        self.worker.pool_gone(&self.definition.job);
        self.worker.job_gone(self.num, &self.mailbox);
    }
}

impl Pooling {
    pub(crate) async fn drive(mut self) {
        self.work.is_unread = true;
        if self.recoveries > 0 {
            // Those that were at work when the process died are among the first.
            self.work.wary = UNDURABLE_MAX.saturating_add(self.rules.concurrency.saturating_mul(self.rules.batch));
        }
        let mut letters = Letters::default();
        while self.turn(letters).is_ok() {
            letters = Letters::default();
            let mailbox = self.mailbox.clone();
            std::future::poll_fn(|cx| match mailbox.take(cx, &mut letters) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            })
            .await;
        }
    }

    fn now(&self) -> Timestamp {
        self.worker.env.clock.now()
    }

    /// Does what can be done without waiting.
    fn turn(&mut self, letters: Letters) -> Result<(), Over> {
        self.read(letters)?;
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

    // ---- what comes ----

    fn read(&mut self, letters: Letters) -> Result<(), Over> {
        if letters.is_fenced || self.worker.committer.is_closed() {
            return Err(Over);
        }
        self.work.is_stopping |= letters.is_stopping;
        self.work.is_evicted |= letters.is_evicted;
        self.worker.resume(self.num);
        if letters.is_pushed {
            self.work.is_unread = true;
            self.work.is_resting = false;
        }
        if let Some(rank) = letters.rank_pushed {
            self.make_way(rank);
        }
        letters.inbox.into_iter().try_for_each(|inbound| self.hear(inbound))?;
        for (inbound, before) in letters.messages {
            if before > self.seen {
                // One from elsewhere came before it: order counts, so the whole inbox is read.
                self.worker.read_inbox(self.num, &self.mailbox);
                break;
            }
            self.hear(inbound)?;
        }
        for answer in letters.answers {
            self.answered(answer)?;
        }
        if letters.is_claimed {
            // The store takes it for ours again.
            (self.is_owned, self.work.is_resting) = (true, false);
        }
        Ok(())
    }

    /// Somebody told it something.
    fn hear(&mut self, inbound: Inbound) -> Result<(), Over> {
        if inbound.pos <= self.seen {
            return Ok(());
        }
        self.seen = inbound.pos;
        self.work.is_resting = false;
        match inbound.message {
            Message::Pause if !self.record.is_stopped => {
                self.record.is_stopped = true;
                self.work.news.push(News::new(NewsKind::JobStopped, inbound.at));
            }
            Message::Resume if self.record.is_stopped => {
                self.record.is_stopped = false;
                self.work.news.push(News::new(NewsKind::JobResumed, inbound.at));
            }
            _ => {}
        }
        self.work.taken.push(inbound.pos);
        Ok(())
    }

    /// A commit was answered.
    fn answered(&mut self, answer: Answer) -> Result<(), Over> {
        let Some(submitted) = self.work.undurable.pop_front() else { return Err(Over) };
        match answer {
            Answer::Turned(_) => {
                for pos in &submitted.events {
                    self.work.held.remove(pos);
                    self.work.passed.extend(self.work.is_reading.then_some(*pos));
                }
                // Those are found when they are looked for from now on.
                self.work.is_unread |= submitted.is_delaying || std::mem::take(&mut self.work.is_crowded);
                if !submitted.taken.is_empty() {
                    self.worker.waiters.ask(self.num);
                }
                for pos in &submitted.taken {
                    let taken = || replies::Reply::Taken { answer: None, event_count: 0, next: None };
                    self.worker.replies.tell(*pos, taken);
                }
                self.definition.tell(&submitted.exhausted);
                let now = self.now();
                submitted.begins.into_iter().for_each(|events| self.begin_marked(events, now));
                if submitted.is_rest {
                    (self.is_owned, self.work.is_resting) = (false, false);
                    // What was pushed just before is in the queue, and nobody may have told.
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
                // What a handler asked of others: it has failed.
                let Some(finished) = submitted.again else { return Err(Over) };
                (self.told, self.is_owned) = submitted.before;
                let problem = refused(&refusal);
                if finished.events.iter().any(|(_, fate)| matches!(fate, Fate::Failed { .. })) {
                    // What `on_dead` asked for. The event is given up without it, as if `on_dead` had failed.
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
            _ => Err(Over),
        }
    }

    fn finished(&self) -> std::sync::MutexGuard<'_, Vec<Finished>> {
        self.work.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- handlers ----

    /// Begins as many calls as there may be.
    fn begin(&mut self, now: Timestamp) {
        while !self.record.is_stopped && !self.work.is_stopping && self.work.held.len() < UNDURABLE_MAX {
            let Some(deaths) = self.work.window.front().map(deaths_of) else { return };
            let at_work = self.work.at_work();
            let is_full = at_work >= self.rules.concurrency;
            // One that may be deadly has no others beside it, which would be blamed as well.
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

    /// Has events handled. If the process died of late while this pool was at work, it is first made durable that they
    /// are about to be, so that one that takes the process down is found.
    fn set_off(&mut self, mut events: Vec<Queued>, now: Timestamp) {
        let deaths = events.first().map_or(0, deaths_of);
        if deaths > self.worker.recoveries_max.saturating_add(1) {
            // It takes the process down even when `on_dead` looks at it.
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

    /// Goes on with events now that it is durable that they are about to be handled.
    fn begin_marked(&mut self, events: Vec<Queued>, now: Timestamp) {
        let deaths = events.first().map_or(0, deaths_of).saturating_sub(1);
        match deaths > self.worker.recoveries_max {
            true => self.give_up(events, deaths, now, Shown::ToUser),
            false => self.spawn_readable(events, now),
        }
    }

    /// Gives up an event that takes the process down.
    fn give_up(&mut self, events: Vec<Queued>, deaths: u32, now: Timestamp, shown: Shown) {
        let failure = Failure::new(Cause::Error, crate::aside::deadly_event(deaths)).permanent();
        let ended = Ended { end: End::Failed(failure), writes: Vec::new() };
        self.conclude(events, now, shown, ended.at_once());
    }

    /// Has events handled together, but each that cannot be read by itself: it is no fault of the others.
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

    /// Whether the rate allows another call; if not, has the pool woken when it does.
    fn may_begin(&mut self, now: Timestamp) -> bool {
        let Some((calls, per)) = self.rules.rate else { return true };
        let begun = &mut self.work.begun;
        if begun.back().is_some_and(|last| *last > now) {
            // The clock was set back: what began by the time before began now at the latest.
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
        let given = readable.map(|readable| PoolGiven {
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

    /// Waits for the end of a call, and for the decision what becomes of its events.
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
        let judge = Judge {
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

    /// If there is nothing to do, says so: what is pushed from here on makes it due.
    fn rest(&mut self, now: Timestamp) -> Result<(), Over> {
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
            return Err(Over);
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

    /// It is released, with nothing to do. Others may need its place in memory more.
    fn stay_or_leave(&mut self, now: Timestamp) -> Result<(), Over> {
        if let (Some((_, per)), Some(last)) = (self.rules.rate, self.work.begun.back().map(|last| now.min(*last)))
            && last.after(per) > now
        {
            // Only memory knows how many calls the rate still allows.
            self.worker.wakes.add(last.after(per), self.num);
            return Ok(());
        }
        let stays = !self.work.is_evicted && self.worker.residency.pause(self.num, None, None);
        if !stays && self.mailbox.close_if_empty() {
            return Err(Over);
        }
        self.worker.news.notify_one();
        Ok(())
    }
}

/// How often the process died while an event was at work, as far as that is known.
fn deaths_of(queued: &Queued) -> u32 {
    queued.event.as_ref().map_or(0, |event| event.deaths)
}
