//! The job machine: decides which handler of an instance is called next, and what the end of a call changes.
//!
//! Unlike a run, a job has no journal and is never replayed. All that an instance keeps between calls is one
//! [`Record`]: the user's state, when it is due next, and what is being retried. The driver repeats one cycle. Messages
//! come in ([`Job::receive`]); [`Job::next`] says which handler to call; the handler runs to its end, which is reported
//! with [`Job::ended`]; and everything that the call changed is one [`Change`] ([`Job::take_change`]), which the driver
//! commits whole or not at all. So a crash in the middle of a call leaves the instance as it was before, and the call
//! is made again.
//!
//! [`Job::next`] looks at things in a fixed order: messages that end the instance, messages that need no handler, a
//! failure that waits for `on_error`, a retry, and only then new work. The kinds of job differ in the last part alone:
//! a continuous job follows its schedule, a debounce collects events into a batch, and a task handles one event after
//! another. One handler runs at a time, so whatever is being retried holds up the events behind it. Worker pools, which
//! run many handlers at once, have a machine of their own: [`Pool`].
//!
//! Both machines are pure: the time, the seed and the messages are passed in, and changes come out.

mod call;
mod continuous;
mod debounce;
mod pool;
mod record;
mod retrying;
mod task;

use std::collections::VecDeque;

pub use self::call::{Call, Done, End, Exhausted, FlushReason, HandlerKind, Planned};
pub use self::continuous::ContinuousRules;
pub use self::debounce::DebounceRules;
pub use self::pool::{
    Dispatch, EventJudge, Fate, Finished, Handling, Pool, PoolChange, PoolDurable, PoolNeed, PoolRules, PoolSetup,
    PoolTurn, RefusedTurn,
};
pub use self::record::{Record, Retrying, Troubled};
pub use self::retrying::{FailureVerdict, Policy, failure_records};
pub use self::task::TaskRules;
use crate::id::Name;
use crate::kind::JobKind;
use crate::lifecycle::{Detail, LifecycleRecord, LifecycleRecordKind};
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::queue::Dead;
use crate::status::Status;
use crate::time::Timestamp;

/// The options of a job definition.
#[derive(Clone, Debug)]
pub enum Rules {
    /// A job that runs on a schedule.
    Continuous(ContinuousRules),
    /// A job that collects events and handles them together.
    Debounce(DebounceRules),
    /// A job that handles events one by one.
    Task(TaskRules),
}

impl Rules {
    /// Returns the kind of job.
    #[must_use]
    pub fn kind(&self) -> JobKind {
        match self {
            Self::Continuous(_) => JobKind::Continuous,
            Self::Debounce(_) => JobKind::Debounce,
            Self::Task(_) => JobKind::Task,
        }
    }

    fn policy(&self) -> &Policy {
        match self {
            Self::Continuous(rules) => &rules.policy,
            Self::Debounce(rules) => &rules.policy,
            Self::Task(rules) => &rules.policy,
        }
    }
}

/// What to do next for an instance.
#[derive(Clone, PartialEq, Debug)]
pub enum Next {
    /// Call a handler, and report its end with [`Job::ended`].
    Call(Call),
    /// Wait for a time or a message.
    Wait(Status),
    /// Remove the instance: it holds nothing worth keeping.
    Over,
}

/// Everything to commit for an instance, collected until the commit.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Change {
    /// Lifecycle events.
    pub lifecycle: Vec<LifecycleRecord>,
    /// Inbox positions of messages that are done.
    pub taken: Vec<u64>,
    /// Dead letters.
    pub dead: Vec<Dead>,
    /// Replies to events, by inbox position.
    pub replies: Vec<(u64, Payload)>,
    /// Dedup keys of messages up to this position are released.
    pub keys_until: u64,
    /// Exhausted retries, for the `on_exhausted` hook.
    pub exhausted: Vec<Exhausted>,
    /// Why the instance is stuck, if it is.
    pub stuck: Option<String>,
    /// Whether the instance is removed.
    pub is_removed: bool,
    /// Whether a handler (or, for a continuous job, a message) ended the instance: messages that arrived meanwhile are
    /// removed with it.
    pub is_terminated: bool,
    /// Whether a message ended the instance: events accepted after that message start a new one.
    pub is_ended: bool,
    /// Whether the record changed.
    pub is_touched: bool,
}

impl Change {
    /// Returns `true` if there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One job instance: its record, its inbox, and its uncommitted change.
///
/// ```
/// # use outlive_core::{event::Event, id::Name, message::{Inbound, Message}, payload::Payload, time::Timestamp};
/// use outlive_core::job::{Done, End, Job, Next, Policy, Record, Rules, TaskRules};
///
/// let rules = Rules::Task(TaskRules { policy: Policy::default(), has_idle: false });
/// let mut job = Job::new(rules, Name::recorded("task:orders:42"), Record::default(), 7);
/// let at = Timestamp::from_millis(1);
/// assert_eq!(job.next(at), Next::Over, "it has no events");
///
/// // An event arrives, so its handler is called. Nothing changes until the call has ended.
/// job.receive(Inbound { pos: 3, at, message: Message::Event(Event::new(Payload::recorded("42"))) });
/// let Next::Call(call) = job.next(at) else { panic!("there is an event") };
/// assert!(!job.has_change());
///
/// // Then one change takes the event from the inbox, together with all else that the handler did.
/// job.ended(&call, End::Done(Done::default()), at, at);
/// assert_eq!(job.take_change().taken, [3]);
/// ```
#[derive(Clone, Debug)]
pub struct Job {
    rules: Rules,
    id: Name,
    /// The seed of its random numbers.
    seed: u64,
    record: Record,
    inbox: VecDeque<Inbound>,
    /// The number of messages in the inbox that need no handler, and how many of those end the instance. A long inbox
    /// is searched only if there are any.
    orders: (usize, usize),
    /// The last inbox position that was received.
    seen: u64,
    change: Change,
}

/// A snapshot of an instance before a call ended, for [`Job::roll_back`].
#[derive(Clone, Debug)]
pub struct Checkpoint {
    record: Record,
    change: Change,
}

impl Job {
    /// Restores an instance from its record.
    #[must_use]
    pub fn new(rules: Rules, id: Name, record: Record, seed: u64) -> Self {
        let (inbox, change) = (VecDeque::new(), Change::default());
        Self { rules, id, seed, record, inbox, orders: (0, 0), seen: 0, change }
    }

    /// Initializes an instance that was created at `created_at`, with an initial state if one was given.
    pub fn begin(&mut self, state: Option<Payload>, created_at: Timestamp) {
        self.record.state = state;
        self.touch();
        self.report(LifecycleRecordKind::JobStarted, created_at, Detail::default());
        if let Rules::Continuous(rules) = &self.rules {
            self.record.next = rules.schedule.first(created_at, rules.is_immediate);
            self.record.schedule = Some(rules.schedule.to_string());
        }
    }

    /// Returns what the instance keeps between calls.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the last inbox position that the instance has seen.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns `true` if events that arrive now have to wait, because a retry, `on_error` or a flush comes first.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.record.retry.is_some() || self.record.trouble.is_some() || self.record.flush.is_some()
    }

    /// Returns the messages that are [held up](Self::is_held_up), each with the number of events up to it. Events that
    /// ask for a reply are not included.
    #[must_use]
    pub fn held(&self) -> Vec<(u64, u64)> {
        if !self.is_held_up() {
            return Vec::new();
        }
        let mut events = 0;
        let held = self.inbox.iter().filter_map(|inbound| match &inbound.message {
            Message::Event(event) => {
                events += 1;
                (!event.is_asking).then_some((inbound.pos, events))
            }
            Message::Trigger => Some((inbound.pos, events)),
            _ => None,
        });
        held.collect()
    }

    /// Receives a message. Ignores one that was received before.
    pub fn receive(&mut self, inbound: Inbound) {
        if inbound.pos > self.seen {
            self.seen = inbound.pos;
            self.orders.0 += usize::from(self.is_order(&inbound.message));
            self.orders.1 += usize::from(inbound.message.is_end());
            self.inbox.push_back(inbound);
        }
    }

    /// Returns `true` if the message at `pos` was received. Always `true` for 0, which stands for no message.
    #[must_use]
    pub fn has_received(&self, pos: u64) -> bool {
        pos <= self.seen
    }

    /// Returns what to do now. Handles messages that need no handler on the way; what they change is committed with the
    /// next change.
    pub fn next(&mut self, now: Timestamp) -> Next {
        if self.change.stuck.is_some() {
            return Next::Wait(Status::Stuck);
        }
        if self.change.is_removed {
            return Next::Over;
        }
        if let Some(over) = self.end_if_told(now) {
            return over;
        }
        self.take_orders(now);
        if let Some(next) = self.trouble().or_else(|| self.retry(now)) {
            return next;
        }
        match self.rules.kind() {
            JobKind::Continuous => self.next_tick(now),
            JobKind::Debounce => self.next_batch(now),
            _ => self.next_event(now),
        }
    }

    /// Reports the end of a call. What it changes is part of the next [`take_change`](Self::take_change).
    pub fn ended(&mut self, call: &Call, end: End, began: Timestamp, now: Timestamp) {
        self.touch();
        match end {
            End::Done(Done { terminate: Some(reason), .. }) => self.terminate(&reason, now),
            End::Done(done) => self.done(call, done, began, now),
            End::Failed(failure) => self.failed(call, failure, began, now),
            End::Unreadable(problem) => self.unreadable(call, problem, now),
        }
        // Attempts of one call are one call.
        self.record.calls += u64::from(self.record.retry.is_none());
    }

    /// Takes everything to commit since the last call.
    pub fn take_change(&mut self) -> Change {
        std::mem::take(&mut self.change)
    }

    /// Puts back a change that could not be committed, so that it is committed again.
    pub fn put_back(&mut self, change: Change) {
        debug_assert!(self.change.is_empty(), "nothing may change between taking a change and putting it back");
        self.change = change;
    }

    /// Returns `true` if the inbox has a message that ends the instance at once.
    #[must_use]
    pub fn is_ended_by_message(&self) -> bool {
        self.orders.1 > 0
    }

    /// Takes a snapshot. Does not copy the inbox, which may be long.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { record: self.record.clone(), change: self.change.clone() }
    }

    /// Undoes the end of a call that could not be committed.
    pub fn roll_back(&mut self, before: Checkpoint, call: &Call) {
        (self.record, self.change) = (before.record, before.change);
        let Some(inbound) = &call.event else { return };
        // The end of a call takes nothing from the inbox but the event it was for.
        let place = self.inbox.partition_point(|other| other.pos < inbound.pos);
        if self.inbox.get(place).is_none_or(|other| other.pos != inbound.pos) {
            self.orders.0 += usize::from(self.is_order(&inbound.message));
            self.inbox.insert(place, inbound.clone());
        }
    }

    /// Makes the instance stuck for this reason. Everything it holds is kept.
    pub fn set_aside(&mut self, problem: String, now: Timestamp) {
        let reason = Some(problem.clone().into());
        self.report(LifecycleRecordKind::JobStuck, now, Detail { reason, ..Detail::default() });
        self.change.stuck = Some(problem);
    }

    /// Removes the instance, because it holds nothing.
    pub fn remove(&mut self) {
        self.change.is_removed = true;
    }

    /// Keeps the instance after all, because a message arrived before it was removed. If a message had ended it, it
    /// starts anew.
    pub fn keep(&mut self, now: Timestamp) {
        self.change.is_removed = self.change.is_terminated;
        if std::mem::take(&mut self.change.is_ended) {
            self.begin(None, now);
        }
    }

    /// Returns `true` if there is something to commit.
    #[must_use]
    pub fn has_change(&self) -> bool {
        !self.change.is_empty()
    }

    // ---- shared by all kinds ----

    fn touch(&mut self) {
        self.change.is_touched = true;
    }

    fn report(&mut self, kind: LifecycleRecordKind, at: Timestamp, detail: Detail) {
        self.report_attempt(kind, 0, at, detail);
    }

    fn report_attempt(&mut self, kind: LifecycleRecordKind, attempt: u32, at: Timestamp, detail: Detail) {
        let detail = (detail != Detail::default()).then(|| detail.to_payload());
        self.change.lifecycle.push(LifecycleRecord { at, kind, attempt, detail });
    }

    /// Takes a message out of the inbox.
    fn take(&mut self, pos: u64) {
        // The inbox is sorted by position.
        if let Ok(place) = self.inbox.binary_search_by_key(&pos, |inbound| inbound.pos)
            && let Some(inbound) = self.inbox.remove(place)
        {
            self.orders.0 -= usize::from(self.is_order(&inbound.message));
            self.orders.1 -= usize::from(inbound.message.is_end());
            self.change.taken.push(pos);
        }
    }

    /// Returns `true` if a message needs no handler, whatever else is in progress.
    fn is_order(&self, message: &Message) -> bool {
        match (message, self.rules.kind()) {
            (Message::Event(_), JobKind::Continuous) => true,
            (Message::Event(_), _) | (Message::Trigger, JobKind::Debounce) => false,
            _ => true,
        }
    }

    /// Ends the instance at once if a message asks for it, whatever else is in progress.
    fn end_if_told(&mut self, now: Timestamp) -> Option<Next> {
        while self.orders.1 > 0 {
            let (pos, reason) = self.inbox.iter().rev().find_map(|inbound| match &inbound.message {
                Message::Terminate { reason } | Message::Cancel { reason } => Some((inbound.pos, reason.clone())),
                _ => None,
            })?;
            if self.rules.kind() == JobKind::Continuous {
                self.terminate(&reason, now);
                return Some(Next::Over);
            }
            if self.end_at(pos, &reason, now) {
                return Some(Next::Over);
            }
        }
        None
    }

    /// Ends the instance because of a message: everything accepted before it is dropped, and events accepted after it
    /// start a new instance. Returns `true` if there are no such events.
    fn end_at(&mut self, pos: u64, reason: &str, now: Timestamp) -> bool {
        let reason = Some(reason.to_owned().into());
        self.report(LifecycleRecordKind::JobTerminated, now, Detail { reason, ..Detail::default() });
        let is_over = !self.inbox.iter().any(|other| other.pos > pos && matches!(other.message, Message::Event(_)));
        let gone = self.inbox.iter().map(|inbound| inbound.pos).filter(|other| is_over || *other <= pos);
        gone.collect::<Vec<_>>().into_iter().for_each(|pos| self.take(pos));
        self.record = Record { calls: self.record.calls, ..Record::default() };
        self.change.keys_until = self.change.keys_until.max(pos);
        self.touch();
        match is_over {
            true => (self.change.is_removed, self.change.is_ended) = (true, true),
            false => self.begin(None, now),
        }
        is_over
    }

    /// Handles the messages that need no handler, whatever else is in progress.
    fn take_orders(&mut self, now: Timestamp) {
        if self.orders.0 == 0 {
            return;
        }
        let orders = self.inbox.iter().filter(|inbound| self.is_order(&inbound.message));
        let orders: Vec<Inbound> = orders.cloned().collect();
        for Inbound { pos, at, message } in orders {
            match (self.rules.kind(), message) {
                (_, Message::Trigger) => self.triggered(pos),
                (JobKind::Continuous, message) => self.take_tick_order(message, at, now),
                (JobKind::Debounce, Message::Clear) => self.clear(pos, at),
                _ => {}
            }
            self.touch();
            self.take(pos);
        }
    }

    /// Removes the instance together with its inbox.
    fn terminate(&mut self, reason: &str, now: Timestamp) {
        let reason = Some(reason.to_owned().into());
        self.report(LifecycleRecordKind::JobTerminated, now, Detail { reason, ..Detail::default() });
        self.change.taken.extend(self.inbox.iter().map(|inbound| inbound.pos));
        (self.change.is_removed, self.change.is_terminated) = (true, true);
    }

    /// Returns the call of `on_error`, if a failure that was given up waits for it.
    fn trouble(&self) -> Option<Next> {
        let trouble = self.record.trouble.as_ref()?;
        Some(Next::Call(Call {
            handler: HandlerKind::Error,
            attempt: 1,
            event: None,
            tick: None,
            trigger: None,
            flush: None,
            failure: Some(trouble.failure.clone()),
        }))
    }

    /// Returns the retry of what failed. It comes before anything else, but not before it is due.
    fn retry(&self, now: Timestamp) -> Option<Next> {
        let retry = self.record.retry.as_ref()?;
        if retry.due > now {
            return Some(Next::Wait(Status::Retrying { at: retry.due }));
        }
        match retry.handler {
            HandlerKind::Execute => Some(Next::Call(self.execution(retry.is_trigger))),
            handler => Some(Next::Call(self.call(handler, retry.event))),
        }
    }

    /// Returns a call of `execute`, for a trigger or for the time that is due.
    fn execution(&self, is_trigger: bool) -> Call {
        let (tick, trigger) = match is_trigger {
            true => (None, Some(self.record.trigger)),
            false => (self.record.next, None),
        };
        Call { tick, trigger, ..self.call(HandlerKind::Execute, None) }
    }

    /// Returns a call of a handler with its current attempt.
    fn call(&self, handler: HandlerKind, pos: Option<u64>) -> Call {
        let attempt = self.record.retry.as_ref().map_or(1, |retry| retry.failed.saturating_add(1));
        let find = |pos| self.inbox.binary_search_by_key(&pos, |inbound| inbound.pos).ok();
        let event = pos.and_then(find).and_then(|place| self.inbox.get(place)).cloned();
        Call { handler, attempt, event, tick: None, trigger: None, flush: self.record.flush, failure: None }
    }

    /// Requests an execution. Several triggers before it begins count as one.
    fn triggered(&mut self, pos: u64) {
        if !self.record.is_triggered {
            (self.record.is_triggered, self.record.trigger) = (true, pos);
        }
    }

    fn done(&mut self, call: &Call, done: Done, began: Timestamp, now: Timestamp) {
        if let Some(state) = done.state {
            self.record.state = Some(state);
        }
        self.record.retry = None;
        let was_trigger = call.trigger.is_some();
        match call.handler {
            HandlerKind::Event => self.event_done(call, done.answer, now),
            HandlerKind::Execute => {
                self.record.runs += 1;
                let duration_ms = u64::try_from(now.since(began).as_millis()).ok();
                let detail = Detail { run: Some(self.record.runs), duration_ms, ..Detail::default() };
                self.report_attempt(LifecycleRecordKind::JobExecuted, call.attempt, now, detail);
                self.executed(call, was_trigger, now);
            }
            HandlerKind::Error => self.recovered(now),
            HandlerKind::Idle => self.record.is_restless = false,
        }
        if let Some(plan) = done.plan {
            self.plan(plan, now);
        }
    }

    /// Sets or clears the wake of a task as its handler asked.
    fn plan(&mut self, plan: Planned, now: Timestamp) {
        match plan {
            Planned::At(at) => {
                self.record.next = Some(at);
                self.report(LifecycleRecordKind::TaskScheduled, now, Detail { at: Some(at), ..Detail::default() });
            }
            Planned::Never => self.record.next = None,
        }
    }

    /// Finishes an event that was handled.
    fn event_done(&mut self, call: &Call, answer: Option<Payload>, now: Timestamp) {
        let Some(Inbound { pos, at, message: Message::Event(event) }) = &call.event else { return };
        if event.is_asking {
            self.change.replies.push((*pos, answered(answer)));
        }
        match self.rules.kind() {
            JobKind::Debounce => self.collected(*pos, *at, event, now),
            _ => {
                self.record.events += 1;
                self.record.is_restless = true;
                let detail = Detail { event: Some(*pos), ..Detail::default() };
                self.report_attempt(LifecycleRecordKind::EventHandled, call.attempt, now, detail);
            }
        }
        self.take(*pos);
    }

    /// Finishes a successful execution.
    fn executed(&mut self, call: &Call, was_trigger: bool, now: Timestamp) {
        match self.rules.kind() {
            JobKind::Continuous => self.tick_over(call.tick, was_trigger, now),
            JobKind::Debounce => self.flushed(call.flush, now),
            _ => self.task_executed(was_trigger),
        }
    }

    /// Returns `true` if the instance holds nothing yet: no handler has succeeded and nothing is scheduled.
    fn is_void(&self) -> bool {
        let record = &self.record;
        record.state.is_none() && record.events == 0 && record.runs == 0 && record.next.is_none()
    }

    /// Returns the wait of an instance that has nothing to do.
    fn waiting_until(&self, until: Option<Timestamp>) -> Next {
        Next::Wait(until.map_or(Status::Waiting { until: None }, |until| Status::Sleeping { until }))
    }
}

/// Encodes the reply of a handler; `null` if it gave none.
fn answered(answer: Option<Payload>) -> Payload {
    Payload::recorded(&format!(r#"{{"ok":{}}}"#, answer.as_ref().map_or("null", Payload::as_str)))
}
