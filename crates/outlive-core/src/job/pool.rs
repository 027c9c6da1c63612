//! The pool machine: decides which events of a queue are handled when, and what the end of their calls changes.
//!
//! A pool is one instance that runs many handlers at once. Its events stay in the store's queue until they are done, and
//! nothing in the store records which of them are being handled: if the process dies, they are still in the queue and
//! are handled again. The driver reports what has happened (messages, pushes, pages that were read, calls that ended,
//! commits that are durable) and then asks for a turn. [`Pool::next`] goes through fixed stages: commit what has
//! finished, start calls as concurrency and rate allow, read ahead when the window runs low, and release the pool when
//! there is nothing to do.
//!
//! There is one commit at a time. It may be refused, and what follows would not fit. Also, if the reply to several is
//! lost and they are repeated together, a store recognizes only the last turn of an instance.
//!
//! The machine is pure: the time, the seed and the messages are passed in, and a [`PoolTurn`] comes out.

mod commit;
mod outcome;
mod rate;
mod read_ahead;
mod suspects;
mod turn;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub use self::commit::PoolChange;
pub use self::outcome::{Dispatch, EventJudge, Fate, Finished, Handling};
pub use self::turn::{PoolDurable, PoolNeed, PoolTurn, RefusedTurn};

use self::commit::{Draft, InFlight};
use self::rate::RateLimit;
use self::read_ahead::{ReadAhead, earlier};
use self::suspects::PoolSuspects;
use super::policy::Policy;
use super::record::Record;
use crate::failure::{Cause, Failure};
use crate::id::Name;
use crate::lifecycle::{LifecycleRecord, LifecycleRecordKind};
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::queue::{QueuePage, Queued};
use crate::status::Status;
use crate::store::commit::{NewState, Write};
use crate::time::Timestamp;

/// The options of a pool.
#[derive(Clone, Debug)]
pub struct PoolRules {
    /// How failures are handled.
    pub policy: Policy,
    /// How many handlers run at a time.
    pub concurrency: usize,
    /// The most events passed to one call.
    pub batch: usize,
    /// At most this many calls start within any period of this length.
    pub rate: Option<(usize, Duration)>,
}

impl PoolRules {
    /// Returns how many events are handled at a time.
    fn at_once(&self) -> usize {
        self.concurrency.saturating_mul(self.batch)
    }
}

/// What a pool is loaded from.
#[derive(Clone, Debug)]
pub struct PoolSetup {
    /// Its options.
    pub rules: PoolRules,
    /// Its full id.
    pub id: Name,
    /// The record it kept.
    pub record: Record,
    /// The seed of its random numbers.
    pub seed: u64,
    /// How many times the process died while the pool was running, since it last made progress.
    pub recoveries: u32,
    /// How many deaths of the process an event may cause before it is given up.
    pub max_recoveries: u32,
}

/// A pool: what it has read, what is being handled, and what is not committed yet.
#[derive(Clone, Debug)]
pub struct Pool {
    rules: PoolRules,
    judge: Arc<EventJudge>,
    record: Record,
    /// The last inbox position that was received.
    seen: u64,
    /// Whether the store records it as ours.
    is_owned: bool,
    is_stopping: bool,
    ahead: ReadAhead,
    rate: RateLimit,
    suspects: PoolSuspects,
    /// The number of calls that are running, and of their events.
    running: (usize, usize),
    /// Calls that start with the next turn.
    starting: Vec<Dispatch>,
    /// Calls that have ended and are not committed yet.
    finished: Vec<Finished>,
    /// Those of them that asked for writes. Each is committed alone, as its writes may be refused.
    sending: VecDeque<Finished>,
    /// Messages that were taken, and the lifecycle events they lead to.
    orders: (Vec<u64>, Vec<LifecycleRecord>),
    /// The commit in progress.
    in_flight: Option<InFlight>,
}

impl Pool {
    /// Loads a pool that was just claimed.
    #[must_use]
    pub fn new(setup: PoolSetup) -> Self {
        let PoolSetup { rules, id, record, seed, recoveries, max_recoveries } = setup;
        Self {
            judge: Arc::new(EventJudge { policy: rules.policy.clone(), id, seed }),
            record,
            seen: 0,
            is_owned: true,
            is_stopping: false,
            ahead: ReadAhead::new(),
            rate: RateLimit::new(rules.rate),
            suspects: PoolSuspects::new(recoveries, max_recoveries, rules.at_once()),
            running: (0, 0),
            starting: Vec::new(),
            finished: Vec::new(),
            sending: VecDeque::new(),
            orders: (Vec::new(), Vec::new()),
            in_flight: None,
            rules,
        }
    }

    /// Returns the judge of events, for calls that end.
    #[must_use]
    pub fn judge(&self) -> Arc<EventJudge> {
        self.judge.clone()
    }

    // ---- what happened ----

    /// Receives a message. Ignores one that was received before.
    pub fn receive(&mut self, inbound: Inbound) {
        if inbound.pos <= self.seen {
            return;
        }
        self.seen = inbound.pos;
        let is_stopped = &mut self.record.is_stopped;
        let kind = match inbound.message {
            Message::Pause if !*is_stopped => Some(LifecycleRecordKind::JobStopped),
            Message::Resume if *is_stopped => Some(LifecycleRecordKind::JobResumed),
            _ => None,
        };
        if let Some(kind) = kind {
            *is_stopped = !*is_stopped;
            self.orders.1.push(LifecycleRecord::new(kind, inbound.at));
        }
        self.orders.0.push(inbound.pos);
    }

    /// Returns `true` if the message at `pos` was received. Always `true` for 0, which stands for no message.
    #[must_use]
    pub fn has_received(&self, pos: u64) -> bool {
        pos <= self.seen
    }

    /// Notes that events were pushed. With a rank, what was read ahead makes way for them.
    pub fn pushed(&mut self, rank: Option<i64>) {
        self.ahead.grown();
        rank.into_iter().for_each(|rank| self.ahead.make_way(rank));
    }

    /// Takes over a page that was read.
    pub fn take_page(&mut self, page: QueuePage) {
        self.ahead.take_page(page, self.rules.at_once());
    }

    /// Notes that a page could not be read: it is requested again.
    pub fn read_failed(&mut self) {
        self.ahead.read_failed();
    }

    /// Reports the end of a call. What it changes is part of the next change.
    pub fn ended(&mut self, finished: Finished) {
        debug_assert!(self.running.0 > 0, "a call that ends was started");
        self.running.0 = self.running.0.saturating_sub(1);
        self.running.1 = self.running.1.saturating_sub(finished.events.len());
        match finished.writes.is_empty() {
            true => self.finished.push(finished),
            false => self.sending.push_back(finished),
        }
    }

    /// Starts nothing more, because the engine stops.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Notes that the pool was claimed while it was in memory, so the store records it as ours again.
    pub fn claimed(&mut self) {
        self.is_owned = true;
    }

    // ---- the result of a commit ----

    /// Notes that the commit in progress is durable. Returns `None` if there is none.
    pub fn committed(&mut self) -> Option<PoolDurable> {
        let InFlight { events, taken, exhausted, begins, is_delaying, is_rest, .. } = self.in_flight.take()?;
        self.ahead.release(&events);
        self.suspects.clear(begins);
        if is_delaying || is_rest {
            // A new read finds the delayed events. After a rest, one that was pushed just before is in the queue, and
            // may not have been reported.
            self.ahead.grown();
        }
        self.is_owned &= !is_rest;
        Some(PoolDurable { taken, exhausted, is_rest })
    }

    /// Receives the messages because of which the commit in progress was refused.
    pub fn unseen(&mut self, messages: Vec<Inbound>) {
        let refused = self.in_flight.take();
        debug_assert!(refused.is_none_or(|refused| refused.is_rest), "only a rest depends on what was seen");
        messages.into_iter().for_each(|inbound| self.receive(inbound));
    }

    /// Returns the writes because of which the commit in progress may be refused.
    #[must_use]
    pub fn writes_in_flight(&self) -> &[Write] {
        let again = self.in_flight.as_ref().and_then(|in_flight| in_flight.again.as_ref());
        again.map_or(&[], |finished| &finished.writes)
    }

    /// Notes that the commit in progress was refused because of its writes.
    pub fn refused(&mut self, problem: &str) -> RefusedTurn {
        let Some(InFlight { again: Some(finished), was_owned, .. }) = self.in_flight.take() else {
            return RefusedTurn::Lost;
        };
        self.is_owned = was_owned;
        if finished.is_failed() {
            self.finished.push(Finished { writes: Vec::new(), ..finished });
            return RefusedTurn::Hook;
        }
        let events: Vec<Queued> = finished.events.into_iter().map(|(queued, _)| queued).collect();
        let failure = Failure::new(Cause::Error, problem);
        self.dispatch(Dispatch { events, began: finished.began, handling: Handling::Fail(failure) });
        RefusedTurn::Handler
    }

    // ---- what to do ----

    /// Returns what to do now. `is_readable` decides whether an event decodes: those of a batch that do not fail alone.
    pub fn next(&mut self, now: Timestamp, is_readable: impl Fn(&Payload) -> bool) -> PoolTurn {
        for (events, handling) in self.suspects.admit_cleared() {
            self.start(events, handling, now, &is_readable);
        }
        let change = self.gather(now);
        let allowed_at = self.start_ready(now, &is_readable);
        // The calls that are about to start, if nothing else is committed before.
        let change = change.or_else(|| self.gather(now));
        let read = if self.is_halted() { None } else { self.ahead.next_page(now) };
        let due = self.ahead.next_due().filter(|due| *due > now);
        let mut turn = PoolTurn {
            change,
            calls: std::mem::take(&mut self.starting),
            read,
            wake: earlier(allowed_at, due),
            need: PoolNeed::Busy,
        };
        self.rest(now, &mut turn);
        turn
    }

    /// Returns `true` if no call may start.
    fn is_halted(&self) -> bool {
        self.record.is_stopped || self.is_stopping
    }

    /// Returns how many calls are running or about to start.
    fn at_work(&self) -> usize {
        let about_to = self.in_flight.as_ref().map_or(0, |in_flight| in_flight.begins.len());
        self.running.0 + self.suspects.marked() + about_to
    }

    /// Starts as many calls as are allowed. Returns when the rate allows the next one, if that is what it waits for.
    fn start_ready(&mut self, now: Timestamp, is_readable: &impl Fn(&Payload) -> bool) -> Option<Timestamp> {
        while !self.is_halted() && !self.ahead.is_full() {
            let next = self.ahead.window().front()?;
            let at_work = self.at_work();
            if at_work >= self.rules.concurrency || self.suspects.must_wait(next, at_work) {
                return None;
            }
            if let Err(allowed_at) = self.rate.start(now) {
                return Some(allowed_at);
            }
            let count = self.suspects.together(self.ahead.window().iter().take(self.rules.batch));
            let events = self.ahead.take(count);
            if let Some((events, handling)) = self.suspects.admit(events) {
                self.start(events, handling, now, is_readable);
            }
        }
        None
    }

    /// Starts a call for events, except for those that do not decode: each of them fails alone, as it is no fault of
    /// the others.
    fn start(
        &mut self,
        events: Vec<Queued>,
        handling: Handling,
        began: Timestamp,
        is_readable: &impl Fn(&Payload) -> bool,
    ) {
        if handling != Handling::Execute {
            return self.dispatch(Dispatch { events, began, handling });
        }
        let is_readable = |queued: &Queued| queued.event.as_ref().is_ok_and(|event| is_readable(&event.payload));
        let (together, alone): (Vec<_>, Vec<_>) = match events.len() {
            1 => (events, Vec::new()),
            _ => events.into_iter().partition(is_readable),
        };
        alone.into_iter().for_each(|queued| self.dispatch(Dispatch::new(vec![queued], began)));
        if !together.is_empty() {
            self.dispatch(Dispatch::new(together, began));
        }
    }

    fn dispatch(&mut self, call: Dispatch) {
        self.running.0 += 1;
        self.running.1 += call.events.len();
        self.starting.push(call);
    }

    /// Gathers the outcomes of calls, and the calls that are about to start, into one change. Returns `None` while a
    /// commit is in progress.
    fn gather(&mut self, now: Timestamp) -> Option<PoolChange> {
        if self.in_flight.is_some() {
            return None;
        }
        let mut draft = Draft::default();
        let (taken, lifecycle) = std::mem::take(&mut self.orders);
        draft.take(taken, lifecycle);
        let id = &self.judge.id;
        self.finished.drain(..).for_each(|finished| draft.finish(id, finished));
        if self.is_halted() {
            // They do not start any more.
            self.suspects.unmark().into_iter().rev().for_each(|queued| self.ahead.put_back(queued));
        }
        draft.mark(self.suspects.take_marked());
        if draft.is_empty() {
            let first = self.sending.pop_front()?;
            draft.then.again = Some(first.clone());
            draft.finish(&self.judge.id, first);
        }
        draft.next_due.into_iter().for_each(|due| self.ahead.delay(due));
        if !self.is_owned || !draft.change.taken.is_empty() {
            draft.change.state = Some(self.state(Status::Running, now));
        }
        draft.then.was_owned = std::mem::replace(&mut self.is_owned, true);
        self.in_flight = Some(draft.then);
        Some(draft.change)
    }

    /// Releases the pool if there is nothing to do. What is pushed from here on makes it due.
    fn rest(&mut self, now: Timestamp, turn: &mut PoolTurn) {
        let is_committed = self.in_flight.is_none() && self.finished.is_empty() && self.sending.is_empty();
        if self.at_work() > 0 || !is_committed || !self.orders.0.is_empty() {
            return;
        }
        let has_nothing = self.ahead.is_empty() || self.record.is_stopped;
        match (self.is_owned, self.is_stopping) {
            (false, true) => turn.need = PoolNeed::Over,
            (true, _) if has_nothing || self.is_stopping => turn.change = Some(self.release(now)),
            (false, _) if has_nothing => match self.rate.cold_at(now) {
                // Only memory knows how many calls the rate still allows.
                Some(cold_at) => turn.wake = earlier(turn.wake, Some(cold_at)),
                None => turn.need = PoolNeed::Idle,
            },
            _ => {}
        }
    }

    /// Returns the commit that releases the pool until its next event.
    fn release(&mut self, now: Timestamp) -> PoolChange {
        let status = match (self.record.is_stopped, self.ahead.next_due()) {
            (true, _) => Status::Paused,
            (false, Some(until)) => Status::Sleeping { until },
            (false, None) => Status::Waiting { until: None },
        };
        self.in_flight = Some(InFlight { is_rest: true, was_owned: true, ..InFlight::default() });
        let state = NewState { is_owned: false, seen: Some(self.seen), ..self.state(status, now) };
        PoolChange { state: Some(state), ..PoolChange::default() }
    }

    /// Returns the state of a pool that stays ours.
    fn state(&self, status: Status, at: Timestamp) -> NewState {
        let record = Record { events: self.running.1 as u64, ..self.record.clone() };
        let outcome = Some(record.to_payload());
        NewState { status, wake: status.until(), is_owned: true, seen: None, outcome, note: None, at }
    }
}
