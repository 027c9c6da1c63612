//! Drives a pool: hands the events of its queue to handlers, many at a time, and commits what comes of them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use outlive_core::commit::{Answer, State, Turn, Write};
use outlive_core::event::Event;
use outlive_core::failure::{Cause, Failure};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::job::{End, Exhausted, HandlerKind, Record, Verdict, failed_news};
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::{Detail, News, NewsKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Moved, Place, QueuePage, QueueRead, Queued};
use outlive_core::status::{Pause, Status};
use outlive_core::time::Timestamp;
use tokio::task::JoinSet;

use crate::committer::Reply;
use crate::error::Error;
use crate::handling::{Definition, Ended, PoolGiven, PoolHandlers, PoolRules, Surroundings};
use crate::mailbox::{Letters, Mailbox};
use crate::replies;

use super::Worker;
use super::turns::refused;

/// How many events are read ahead of the handlers.
const AHEAD: usize = 512;
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
    /// Messages that are done with, and what they change.
    taken: Vec<u64>,
    news: Vec<News>,
    is_stopping: bool,
    is_resting: bool,
    /// Its place in memory is wanted.
    is_evicted: bool,
}

/// A commit under way.
struct Submitted {
    events: Vec<u64>,
    taken: Vec<u64>,
    exhausted: Vec<Exhausted>,
    /// What was done, in case it is refused.
    again: Option<Finished>,
    /// How things stood before, in case it is refused.
    before: (u64, bool),
    /// Whether events wait for a time because of it.
    is_delaying: bool,
    is_rest: bool,
}

/// The end of a call.
struct Finished {
    events: Vec<Queued>,
    began: Timestamp,
    ended: Ended,
    /// What came of looking at each event that is given up.
    given_up: Vec<(Dead, Vec<Write>)>,
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
        self.worker.residency.resume(self.num);
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

    /// Events of this rank were pushed: what was read ahead and may come after them goes back to the queue.
    fn make_way(&mut self, rank: i64) {
        self.work.pushed = [self.work.pushed, Some(rank)].into_iter().flatten().min();
        if self.work.window.iter().any(|queued| may_follow(queued, rank)) {
            self.work.window.drain(..).for_each(|queued| {
                self.work.held.remove(&queued.pos);
            });
            self.work.is_unread = true;
        }
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
                for pos in &submitted.taken {
                    let taken = || replies::Reply::Taken { answer: None, event_count: 0, next: None };
                    self.worker.replies.tell(*pos, taken);
                }
                self.tell(&submitted.exhausted);
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
                let Some(mut finished) = submitted.again else { return Err(Over) };
                (self.told, self.is_owned) = submitted.before;
                let failure = Failure::new(Cause::Error, refused(&refusal));
                finished.ended = Ended { end: End::Failed(failure), writes: Vec::new() };
                finished.given_up.clear();
                self.finished().push(finished);
                Ok(())
            }
            _ => Err(Over),
        }
    }

    fn tell(&self, exhausted: &[Exhausted]) {
        for info in exhausted {
            if let Some(tell) = &self.definition.on_exhausted
                && let Err(panic) = crate::panics::catch(|| tell(info))
            {
                tracing::warn!(job = self.id.as_str(), "on_exhausted panicked: {panic}");
            }
        }
    }

    fn finished(&self) -> std::sync::MutexGuard<'_, Vec<Finished>> {
        self.work.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- reading ahead ----

    /// Takes over what was read of the queue.
    fn take_page(&mut self, now: Timestamp) {
        let page = self.work.page.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(page) = page else { return };
        self.work.is_reading = false;
        let passed = std::mem::take(&mut self.work.passed);
        match page {
            Ok(page) => {
                let (mut room, count) = (AHEAD.saturating_sub(self.work.window.len()), page.events.len());
                let pushed = self.work.pushed.unwrap_or(i64::MAX);
                if page.events.iter().any(|queued| may_follow(queued, pushed)) {
                    // Enough to go on with until the next page.
                    room = room.min(self.rules.concurrency.saturating_mul(self.rules.batch));
                    self.work.is_unread = true;
                }
                // A full page is hardly all there is. If it holds nothing new, it is read again once something is done.
                let is_full = count >= AHEAD;
                let before = self.work.window.len();
                for queued in page.events {
                    if passed.contains(&queued.pos) {
                        self.work.is_unread = true;
                    } else if room > 0 && self.work.held.insert(queued.pos) {
                        room -= 1;
                        self.work.window.push_back(queued);
                    }
                }
                self.work.is_unread |= room == 0;
                match self.work.window.len() > before {
                    true => self.work.is_unread |= is_full,
                    false => self.work.is_crowded = is_full,
                }
                self.work.next_due = page.next_due;
                if let Some(due) = page.next_due.filter(|due| *due > now) {
                    self.worker.wakes.add(due, self.num);
                }
            }
            Err(error) => {
                tracing::warn!(job = self.id.as_str(), "its queue could not be read: {error}");
                self.work.is_unread = true;
            }
        }
    }

    /// Reads on if there may be more, and there is room for it.
    fn read_on(&mut self, now: Timestamp) {
        let work = &mut self.work;
        if work.next_due.is_some_and(|due| due <= now) {
            work.is_unread = true;
        }
        let is_wanted = work.is_unread && work.window.len() < AHEAD / 2 && !self.record.is_stopped;
        if !is_wanted || work.is_reading || work.is_stopping {
            return;
        }
        (work.is_unread, work.is_reading, work.pushed) = (false, true, None);
        let read = QueueRead { now, after: work.lane.clone(), limit: AHEAD + work.held.len() };
        let (store, page, mailbox, num) =
            (self.worker.store.clone(), work.page.clone(), self.mailbox.clone(), self.num);
        tokio::spawn(async move {
            let found = store.queue(num, read).await;
            if found.is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            *page.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.map_err(Error::from));
            mailbox.post(|_| {});
        });
    }

    // ---- handlers ----

    /// Begins as many calls as there may be.
    fn begin(&mut self, now: Timestamp) {
        let work_max = self.rules.concurrency;
        while !self.record.is_stopped && !self.work.is_stopping && self.work.held.len() < UNDURABLE_MAX {
            let is_full = self.work.calls.load(Ordering::Relaxed) >= work_max;
            if is_full || self.work.window.is_empty() || !self.may_begin(now) {
                return;
            }
            let count = self.rules.batch.min(self.work.window.len());
            let events: Vec<Queued> = self.work.window.drain(..count).collect();
            self.work.lane = events.last().map(|queued| queued.turn().1);
            self.spawn_readable(events, now);
        }
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
        while self.work.handlers.try_join_next().is_some() {}
        let count = events.len();
        self.running.fetch_add(count, Ordering::Relaxed);
        self.work.calls.fetch_add(1, Ordering::Relaxed);
        let readable: Result<Vec<(u64, Event)>, String> =
            events.iter().map(|queued| queued.event.clone().map(|event| (queued.pos, event))).collect();
        let given = |events: Vec<(u64, Event)>, pushed_at| PoolGiven {
            around: self.worker.around.clone(),
            id: self.id.clone(),
            handler: "execute",
            events,
            pushed_at,
            started_at: began,
        };
        let pushed_at = events.first().map_or(began, |queued| queued.at);
        let calling = readable.map(|readable| self.handlers.call(given(readable, pushed_at)));
        let judge = Judge {
            handlers: self.handlers.clone(),
            rules: self.rules.clone(),
            around: self.worker.around.clone(),
            id: self.id.clone(),
            seed: self.seed,
        };
        let (finished, running, mailbox) = (self.work.finished.clone(), self.running.clone(), self.mailbox.clone());
        let (worker, calls) = (self.worker.clone(), self.work.calls.clone());
        self.work.handlers.spawn(async move {
            let ended = match calling {
                Ok(calling) => calling.await,
                Err(problem) => Ended::unreadable(problem),
            };
            let given_up = judge.look(&events, &ended, began, worker.env.clock.now()).await;
            finished.lock().unwrap_or_else(PoisonError::into_inner).push(Finished { events, began, ended, given_up });
            running.fetch_sub(count, Ordering::Relaxed);
            calls.fetch_sub(1, Ordering::Relaxed);
            mailbox.post(|_| {});
        });
    }

    // ---- commits ----

    /// Commits what handlers have ended with.
    fn settle(&mut self, now: Timestamp) {
        if !self.work.undurable.is_empty() {
            // One after the other: it may be refused, and what follows would not fit; and if the answer to writes is
            // lost and they are repeated together, only the last turn of an instance is known again.
            return;
        }
        let finished = std::mem::take(&mut *self.finished());
        if finished.is_empty() && self.work.taken.is_empty() {
            return;
        }
        let mut together = self.new_turn();
        let mut alone = Vec::new();
        for one in finished {
            match one.ended.writes.is_empty() && one.given_up.iter().all(|(_, writes)| writes.is_empty()) {
                true => self.add(&mut together, one, now),
                false => alone.push(one),
            }
        }
        let mut alone = alone.into_iter();
        if !together.is_empty() {
            self.submit(together, None, now);
        } else if let Some(first) = alone.next() {
            let mut turn = self.new_turn();
            let again = Finished {
                ended: first.ended.clone(),
                events: first.events.clone(),
                given_up: first.given_up.clone(),
                ..first
            };
            self.add(&mut turn, first, now);
            self.submit(turn, Some(again), now);
        }
        self.finished().extend(alone);
    }

    fn new_turn(&mut self) -> Draft {
        let (taken, news) = (std::mem::take(&mut self.work.taken), std::mem::take(&mut self.work.news));
        Draft { taken, news, ..Draft::default() }
    }

    /// Adds what came of a call to what is to be committed.
    fn add(&mut self, draft: &mut Draft, finished: Finished, now: Timestamp) {
        let Finished { events, began, ended, given_up } = finished;
        draft.writes.extend(ended.writes);
        let mut dead = given_up.into_iter();
        for queued in events {
            let event = queued.event.clone().unwrap_or_else(|_| Event::new(Payload::recorded("null")));
            let (pos, from) = (queued.pos, queued.spot.clone());
            draft.events.push(pos);
            let to = match &ended.end {
                End::Done(_) => {
                    let duration_ms = u64::try_from(now.since(began).as_millis()).ok().filter(|millis| *millis > 0);
                    let detail = Detail { event: Some(pos), duration_ms, ..Detail::default() }.to_payload();
                    let (kind, attempt) = (NewsKind::JobExecuted, event.failed + 1);
                    draft.news.push(News { at: now, kind, attempt, detail: Some(detail) });
                    None
                }
                end => {
                    let (failure, is_readable) = match end {
                        End::Failed(failure) => (failure.clone(), true),
                        End::Unreadable(problem) => (Failure::new(Cause::Error, problem.as_str()).permanent(), false),
                        End::Done(_) => (Failure::new(Cause::Error, ""), true),
                    };
                    debug_assert!(is_readable || !failure.retryable, "what cannot be read is not tried again");
                    self.failed(draft, &queued, &event, &failure, began, now, &mut dead)
                }
            };
            if let Some(due) = to.as_ref().and_then(|event| event.due) {
                self.work.next_due = [self.work.next_due, Some(due)].into_iter().flatten().min();
                self.worker.wakes.add(due, self.num);
            }
            draft.moved.push(Moved { pos, from, key: event.dedup.clone(), to });
        }
    }

    /// An event has failed: answers what it is from now on, if it is tried again.
    #[expect(clippy::too_many_arguments, reason = "each is a part of one failure")]
    fn failed(
        &self,
        draft: &mut Draft,
        queued: &Queued,
        event: &Event,
        failure: &Failure,
        began: Timestamp,
        now: Timestamp,
        dead: &mut impl Iterator<Item = (Dead, Vec<Write>)>,
    ) -> Option<Event> {
        let failed = event.failed.saturating_add(1);
        let since = event.tried_at.unwrap_or(began);
        let verdict = self.rules.policy.judge(failure, failed, since, now, self.seed ^ queued.pos);
        let about = Detail { event: Some(queued.pos), handler: Some("execute".into()), ..Detail::default() };
        let (news, exhausted) = failed_news(&verdict, failure, failed, about, now);
        draft.news.push(news);
        draft.news.extend(exhausted);
        match verdict {
            Verdict::Again { due, .. } => {
                let failure = Some(failure.to_payload());
                Some(Event { failed, due: Some(due), tried_at: Some(since), failure, ..event.clone() })
            }
            Verdict::GiveUp(reason) => {
                if let Some(reason) = reason {
                    let (last, total) = (failure.clone(), now.since(since));
                    draft.exhausted.push(Exhausted::new(&self.id, HandlerKind::Execute, failed, reason, last, total));
                }
                let (letter, writes) = dead
                    .find(|(letter, _)| letter.pos == queued.pos)
                    .unwrap_or_else(|| (letter(&self.id, queued.pos, event, failed, failure, now), Vec::new()));
                draft.writes.extend(writes);
                draft.dead.push(letter);
                None
            }
        }
    }

    fn submit(&mut self, draft: Draft, again: Option<Finished>, now: Timestamp) {
        let state = (!self.is_owned || draft.has_orders()).then(|| self.state(Status::Running, true, None, now));
        self.send(draft, again, state);
        self.is_owned = true;
    }

    fn send(&mut self, draft: Draft, again: Option<Finished>, state: Option<State>) {
        let is_rest = state.as_ref().is_some_and(|state| !state.is_owned);
        let before = self.told;
        let is_delaying = draft.moved.iter().any(|moved| moved.to.is_some());
        self.told += draft.news.iter().map(|news| news.kind.count()).sum::<u64>();
        let Draft { news, taken, moved, dead, writes, events, exhausted } = draft;
        let (taken_too, before_it) = (taken.clone(), (before, self.is_owned));
        let submitted =
            Submitted { events, taken: taken_too, exhausted, again, before: before_it, is_delaying, is_rest };
        self.work.undurable.push_back(submitted);
        let turn =
            Turn { news, taken, queue: moved, dead, writes, state, ..Turn::new(self.num, self.worker.epoch, before) };
        self.worker.committer.submit(Write::Turn(Box::new(turn)), Reply::Job(self.mailbox.clone()));
    }

    fn state(&self, status: Status, is_owned: bool, wake: Option<Timestamp>, at: Timestamp) -> State {
        let events = self.running.load(Ordering::Relaxed) as u64;
        let record = Record { events, ..self.record.clone() }.to_payload();
        let seen = (!is_owned).then_some(self.seen);
        State { status, wake, is_owned, seen, outcome: Some(record), note: None, at }
    }

    /// If there is nothing to do, says so: what is pushed from here on makes it due.
    fn rest(&mut self, now: Timestamp) -> Result<(), Over> {
        let work = &self.work;
        let is_idle = self.running.load(Ordering::Relaxed) == 0
            && work.undurable.is_empty()
            && work.taken.is_empty()
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
                (true, _) => (Status::Paused { why: Pause::Hand, until: None }, None),
                (_, Some(_)) => (Status::Paused { why: Pause::Sleep, until: due }, due),
                _ => (Status::Paused { why: Pause::Wait, until: None }, None),
            };
            self.work.is_resting = true;
            let state = self.state(status, false, wake, now);
            let draft = self.new_turn();
            self.send(draft, None, Some(state));
        } else if (is_empty || self.record.is_stopped) && !self.is_owned {
            return self.stay_or_leave(now);
        }
        Ok(())
    }

    /// It is released, with nothing to do. Others may need its place in memory more.
    fn stay_or_leave(&mut self, now: Timestamp) -> Result<(), Over> {
        if let (Some((_, per)), Some(last)) = (self.rules.rate, self.work.begun.back())
            && last.after(per) > now
        {
            // Only memory knows how many calls the rate still allows.
            self.worker.wakes.add(last.after(per), self.num);
            return Ok(());
        }
        let stays = !self.work.is_evicted && self.worker.residency.pause(self.num, None);
        if !stays && self.mailbox.close_if_empty() {
            return Err(Over);
        }
        self.worker.news.notify_one();
        Ok(())
    }
}

/// What is to be committed.
#[derive(Default)]
struct Draft {
    news: Vec<News>,
    taken: Vec<u64>,
    moved: Vec<Moved>,
    dead: Vec<Dead>,
    writes: Vec<Write>,
    events: Vec<u64>,
    exhausted: Vec<Exhausted>,
}

impl Draft {
    fn has_orders(&self) -> bool {
        !self.taken.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.moved.is_empty() && self.taken.is_empty()
    }
}

/// Finds out which events of a call are given up, and lets the user look at them.
struct Judge {
    handlers: Arc<dyn PoolHandlers>,
    rules: PoolRules,
    around: Arc<Surroundings>,
    id: Name,
    seed: u64,
}

impl Judge {
    async fn look(
        &self,
        events: &[Queued],
        ended: &Ended,
        began: Timestamp,
        now: Timestamp,
    ) -> Vec<(Dead, Vec<Write>)> {
        let End::Failed(failure) = &ended.end else { return Vec::new() };
        let mut looked = Vec::new();
        for queued in events {
            let Ok(event) = &queued.event else { continue };
            let (failed, since) = (event.failed.saturating_add(1), event.tried_at.unwrap_or(began));
            let verdict = self.rules.policy.judge(failure, failed, since, now, self.seed ^ queued.pos);
            if matches!(verdict, Verdict::Again { .. }) {
                continue;
            }
            let dead = letter(&self.id, queued.pos, event, failed, failure, now);
            let given = PoolGiven {
                around: self.around.clone(),
                id: self.id.clone(),
                handler: "on_dead",
                events: vec![(queued.pos, event.clone())],
                pushed_at: queued.at,
                started_at: now,
            };
            let Some(calling) = self.handlers.dead(given, &dead) else { continue };
            let Ended { end, writes } = calling.await;
            if let End::Failed(failure) = end {
                tracing::warn!(job = self.id.as_str(), "on_dead failed: {failure}");
            }
            looked.push((dead, writes));
        }
        looked
    }
}

/// Whether it may be the turn of one that is pushed with this rank before that of an event.
fn may_follow(queued: &Queued, rank: i64) -> bool {
    let (own, lane) = queued.turn();
    own > rank || (own == rank && !lane.is_empty())
}

fn letter(id: &Name, pos: u64, event: &Event, attempts: u32, failure: &Failure, at: Timestamp) -> Dead {
    let (job, failure) = (JobKind::job_of(id), failure.to_payload());
    Dead { pos, job, id: id.clone(), at, attempts, failure, event: event.clone(), place: Place::Queue }
}
