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
//! An instance in memory is its `JobState`: the record, the [`JobInbox`] and the [`Change`]. What differs between the
//! kinds is in their rules ([`ContinuousRules`], [`DebounceRules`], [`TaskRules`]), which are functions of that state.
//! [`Job`] makes the decisions that all of them share.
//!
//! Both machines are pure: the time, the seed and the messages are passed in, and changes come out.

mod call;
mod change;
mod continuous;
mod debounce;
mod failing;
mod inbox;
mod policy;
mod pool;
mod record;
mod rules;
mod state;
mod task;

pub use self::call::{Call, Done, End, Exhausted, FlushReason, HandlerKind, Next, Planned};
pub use self::change::Change;
pub use self::continuous::ContinuousRules;
pub use self::debounce::DebounceRules;
pub use self::inbox::JobInbox;
pub use self::policy::{FailureVerdict, Policy, failure_records};
pub use self::pool::{
    Dispatch, EventJudge, Fate, Finished, Handling, Pool, PoolChange, PoolDurable, PoolNeed, PoolRules, PoolSetup,
    PoolTurn, RefusedTurn,
};
pub use self::record::{Record, Retrying, Troubled};
pub use self::rules::Rules;
pub use self::task::TaskRules;

use self::state::JobState;
use crate::id::Name;
use crate::kind::JobKind;
use crate::lifecycle::{Detail, LifecycleRecordKind};
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::status::Status;
use crate::time::Timestamp;

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
    /// The seed of its random numbers.
    seed: u64,
    state: JobState,
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
        let (inbox, change) = (JobInbox::new(rules.kind()), Change::default());
        Self { rules, seed, state: JobState { id, record, inbox, change } }
    }

    /// Initializes an instance that was created at `created_at`, with an initial state if one was given.
    pub fn begin(&mut self, state: Option<Payload>, created_at: Timestamp) {
        let JobState { record, change, .. } = &mut self.state;
        record.state = state;
        change.touch();
        change.report(LifecycleRecordKind::JobStarted, created_at, Detail::default());
        if let Rules::Continuous(rules) = &self.rules {
            rules.begin(record, created_at);
        }
    }

    /// Returns what the instance keeps between calls.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.state.record
    }

    /// Returns the messages that are not taken yet.
    #[must_use]
    pub fn inbox(&self) -> &JobInbox {
        &self.state.inbox
    }

    // ---- messages and calls ----

    /// Receives a message. Ignores one that was received before.
    pub fn receive(&mut self, inbound: Inbound) {
        self.state.inbox.receive(inbound);
    }

    /// Returns what to do now. Handles messages that need no handler on the way; what they change is committed with the
    /// next change.
    pub fn next(&mut self, now: Timestamp) -> Next {
        if self.state.change.stuck.is_some() {
            return Next::Wait(Status::Stuck);
        }
        if self.state.change.is_removed || self.end_if_requested(now) {
            return Next::Over;
        }
        for order in self.state.inbox.orders() {
            self.rules.take_order(&mut self.state, order, now);
        }
        if let Some(next) = self.state.next_error().or_else(|| self.state.next_retry(now)) {
            return next;
        }
        self.rules.next(&mut self.state, now)
    }

    /// Reports the end of a call. What it changes is part of the next [`take_change`](Self::take_change).
    pub fn ended(&mut self, call: &Call, end: End, began: Timestamp, now: Timestamp) {
        self.state.change.touch();
        match end {
            End::Done(Done { terminate: Some(reason), .. }) => self.terminate(&reason, now),
            End::Done(done) => self.done(call, done, began, now),
            End::Failed(failure) => self.failed(call, failure, began, now),
            End::Unreadable(problem) => self.unreadable(call, problem, now),
        }
        // Attempts of one call are one call.
        self.state.record.calls += u64::from(self.state.record.retry.is_none());
    }

    /// Returns the messages that have to wait because a retry, `on_error` or a flush comes first, each with the number
    /// of events up to it. Events that ask for a reply are not included.
    #[must_use]
    pub fn held(&self) -> Vec<(u64, u64)> {
        if !self.state.is_held_up() {
            return Vec::new();
        }
        let mut events = 0;
        let held = self.state.inbox.iter().filter_map(|inbound| match &inbound.message {
            Message::Event(event) => {
                events += 1;
                (!event.is_asking).then_some((inbound.pos, events))
            }
            Message::Trigger => Some((inbound.pos, events)),
            _ => None,
        });
        held.collect()
    }

    // ---- ticks ----

    /// Records that the execution for a tick begins. Returns `true` if that has to be committed before the call: after a
    /// crash, this tick runs again, with its key.
    pub fn begin_tick(&mut self, call: &Call) -> bool {
        matches!(self.rules, Rules::Continuous(_)) && continuous::begin_tick(&mut self.state, call)
    }

    /// Returns `true` if a call is the first one of a tick that has begun: whatever comes in between, it is made.
    #[must_use]
    pub fn is_begun_tick(&self, call: &Call) -> bool {
        call.attempt <= 1 && call.tick.is_some() && self.state.record.begun == call.tick
    }

    /// Recomputes the next tick if the schedule has changed, and returns the old schedule. A tick that is due, has
    /// begun or is being retried is left alone.
    pub fn adopt_schedule(&mut self, now: Timestamp) -> Option<String> {
        match &self.rules {
            Rules::Continuous(rules) => rules.adopt_schedule(&mut self.state, now),
            _ => None,
        }
    }

    // ---- commits ----

    /// Returns `true` if there is something to commit.
    #[must_use]
    pub fn has_change(&self) -> bool {
        !self.state.change.is_empty()
    }

    /// Takes everything to commit since the last call.
    pub fn take_change(&mut self) -> Change {
        std::mem::take(&mut self.state.change)
    }

    /// Puts back a change that could not be committed, so that it is committed again.
    pub fn put_back(&mut self, change: Change) {
        debug_assert!(!self.has_change(), "nothing may change between taking a change and putting it back");
        self.state.change = change;
    }

    /// Takes a snapshot. Does not copy the inbox, which may be long.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { record: self.state.record.clone(), change: self.state.change.clone() }
    }

    /// Undoes the end of a call that could not be committed.
    pub fn roll_back(&mut self, before: Checkpoint, call: &Call) {
        (self.state.record, self.state.change) = (before.record, before.change);
        // The end of a call takes nothing from the inbox but the event it was for.
        call.event.iter().for_each(|inbound| self.state.inbox.put_back(inbound));
    }

    // ---- the end of an instance ----

    /// Makes the instance stuck for this reason. Everything it holds is kept.
    pub fn mark_stuck(&mut self, problem: String, now: Timestamp) {
        let reason = Some(problem.clone().into());
        self.state.change.report(LifecycleRecordKind::JobStuck, now, Detail { reason, ..Detail::default() });
        self.state.change.stuck = Some(problem);
    }

    /// Removes the instance, because it holds nothing.
    pub fn remove(&mut self) {
        self.state.change.is_removed = true;
    }

    /// Keeps the instance after all, because a message arrived before it was removed. If a message had ended it, it
    /// starts anew.
    pub fn keep(&mut self, now: Timestamp) {
        let change = &mut self.state.change;
        change.is_removed = change.is_terminated;
        if std::mem::take(&mut change.is_ended) {
            self.begin(None, now);
        }
    }

    /// Ends the instance if a message asks for it, whatever else is in progress. Returns `true` if it is over.
    fn end_if_requested(&mut self, now: Timestamp) -> bool {
        while let Some((pos, reason)) = self.state.inbox.last_end() {
            if self.rules.kind() == JobKind::Continuous {
                self.terminate(&reason, now);
                return true;
            }
            if self.end_at(pos, &reason, now) {
                return true;
            }
        }
        false
    }

    /// Ends the instance because of a message: everything accepted before it is dropped, and events accepted after it
    /// start a new instance. Returns `true` if there are no such events.
    fn end_at(&mut self, pos: u64, reason: &str, now: Timestamp) -> bool {
        self.report_end(reason, now);
        let state = &mut self.state;
        let is_over = !state.inbox.iter().any(|other| other.pos > pos && matches!(other.message, Message::Event(_)));
        let gone = state.inbox.iter().map(|inbound| inbound.pos).filter(|other| is_over || *other <= pos);
        gone.collect::<Vec<_>>().into_iter().for_each(|pos| state.take(pos));
        state.record = Record { calls: state.record.calls, ..Record::default() };
        state.change.release_keys(pos);
        state.change.touch();
        match is_over {
            true => (state.change.is_removed, state.change.is_ended) = (true, true),
            false => self.begin(None, now),
        }
        is_over
    }

    /// Removes the instance together with its inbox.
    fn terminate(&mut self, reason: &str, now: Timestamp) {
        self.report_end(reason, now);
        let JobState { inbox, change, .. } = &mut self.state;
        change.taken.extend(inbox.iter().map(|inbound| inbound.pos));
        (change.is_removed, change.is_terminated) = (true, true);
    }

    fn report_end(&mut self, reason: &str, now: Timestamp) {
        let reason = Some(reason.to_owned().into());
        self.state.change.report(LifecycleRecordKind::JobTerminated, now, Detail { reason, ..Detail::default() });
    }

    // ---- the end of a call ----

    fn done(&mut self, call: &Call, done: Done, began: Timestamp, now: Timestamp) {
        let state = &mut self.state;
        if done.state.is_some() {
            state.record.state = done.state;
        }
        state.record.retry = None;
        match call.handler {
            HandlerKind::Event => self.event_done(call, done.answer, now),
            HandlerKind::Execute => {
                state.record.runs += 1;
                let duration_ms = u64::try_from(now.since(began).as_millis()).ok();
                let detail = Detail { run: Some(state.record.runs), duration_ms, ..Detail::default() };
                state.change.report_attempt(LifecycleRecordKind::JobExecuted, call.attempt, now, detail);
                self.rules.executed(state, call, now);
            }
            HandlerKind::Error => self.recovered(now),
            HandlerKind::Idle => state.record.is_restless = false,
        }
        if let Some(planned) = done.plan {
            task::plan(&mut self.state, planned, now);
        }
    }

    /// Finishes an event that was handled.
    fn event_done(&mut self, call: &Call, answer: Option<Payload>, now: Timestamp) {
        let Some(Inbound { pos, message: Message::Event(event), .. }) = &call.event else { return };
        if event.is_asking {
            self.state.change.replies.push((*pos, encode_reply(answer)));
        }
        self.rules.event_handled(&mut self.state, call, now);
        self.state.take(*pos);
    }
}

/// Encodes the reply of a handler; `null` if it gave none.
fn encode_reply(answer: Option<Payload>) -> Payload {
    Payload::recorded(&format!(r#"{{"ok":{}}}"#, answer.as_ref().map_or("null", Payload::as_str)))
}
