//! The workflow machine: records what a run does and decides which outcome user code sees next.
//!
//! A workflow is an ordinary `async` function that must survive a crash. Its stack is never saved. After a crash the
//! function runs again from the start, and every operation (step, sleep or wait) that already has an outcome in the
//! journal gets that outcome instead of running again. This works only if the replay shows user code the same outcomes
//! in the same order, even where it races operations with `select!` or `join!`.
//!
//! **Delivery** is the rule that makes it so. The driver polls the user's future until it is quiet: nothing moves
//! without new input. Then the machine takes the undelivered outcome with the lowest journal number, makes that one
//! operation ready, and the driver polls again. At most one operation becomes ready between two quiet points, so the
//! order of outcomes in the journal is the order in which user code saw them, the first time and in every replay. An
//! outcome is delivered only once it is durable, so user code never acts on something that a crash can undo.
//!
//! A run with no recorded outcome left to deliver is at its **frontier**. There, step bodies begin, sleeps and waits
//! are set, signals are bound to waits, control messages are taken and timers fire. During a replay nothing may begin
//! before that: an outcome that is still to be delivered could make user code drop the operation, and then its body
//! must not have run. Once the replay is over, an operation begins as soon as it is polled.
//!
//! The machine is pure. It takes what happens ([`Machine::poll`], [`Machine::finish`], [`Machine::receive`],
//! [`Machine::act`]) and the time as input, and returns the entries to make durable ([`Machine::take_outgoing`]) and
//! the operation to poll next ([`Machine::deliver`]). It never blocks and never reads a clock.

mod ask;
mod attempt;
mod control;
mod identity;
mod op;
mod parsed;
mod pause;
mod record;
mod signals;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

pub use identity::{base, numbered_scope, scope};
pub use op::{Accepts, Asked, Ended, FailedStep, OpKind, Outcome, Spec, StepSpec};
pub use parsed::{ParsedIdentity, unescaped};

use crate::failure::Failure;
use crate::journal::{Entry, EntryKind};
use crate::message::{Inbound, Message};
use crate::time::Timestamp;

use identity::{Identities, numbered, op_words};
use op::{Op, Phase};
use record::{Records, signal_mark};
use signals::Signals;

/// Handle of an outstanding operation. Slots are reused once the operation is closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub usize);

/// The result of polling an operation.
#[derive(Debug)]
pub enum Polled {
    /// Nothing to do. The caller drops the operation's body if it still has one.
    Pending,
    /// The body runs or has to be started.
    Work(Attempt),
    /// The outcome; the operation is no longer outstanding.
    Ready(Outcome),
}

/// One try of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// The attempt number, from 1.
    pub number: u32,
    /// When the attempt times out, if it does.
    pub deadline: Option<Timestamp>,
    /// Set if the fallback runs instead of the body: the failure of the last attempt.
    pub fallback_for: Option<Box<Failure>>,
}

/// Why a run is stuck and what to do about it, as one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble(pub String);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The purpose a machine is created for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Drives a run.
    Live,
    /// Shows what the code asks for, given a journal, without starting or recording anything.
    Shadow,
}

/// Journal entries and the messages they take from the inbox, to be made durable together.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The last sequence number before these entries.
    pub seq_before: u64,
    /// The entries, numbered without gaps.
    pub entries: Vec<Entry>,
    /// The inbox positions of the messages that they take.
    pub taken: Vec<u64>,
}

/// The state machine of one run.
///
/// ```
/// use outlive_core::payload::Payload;
/// use outlive_core::workflow::{Machine, Mode, OpKind, Outcome, Polled, Spec, StepSpec, base};
/// # use outlive_core::time::Timestamp;
///
/// let now = Timestamp::from_millis(1_000);
/// let mut machine = Machine::new(Mode::Live, 7, now, &[]).unwrap();
///
/// // User code calls a step and awaits it, so its body runs.
/// let slot = machine.open(OpKind::Step, base("", OpKind::Step, "charge", None), "src/shop.rs:12".into());
/// machine.begin(slot, Spec::Step(StepSpec::default()));
/// assert!(matches!(machine.poll(slot, now), Polled::Work(attempt) if attempt.number == 1));
/// machine.finish(slot, Ok(Payload::recorded("42")), now);
///
/// // The outcome is delivered once it is durable, and not before.
/// let outgoing = machine.take_outgoing().unwrap();
/// assert_eq!(machine.deliver(), None);
/// machine.durable(outgoing.entries[0].seq);
/// assert_eq!(machine.deliver(), Some(slot));
/// assert!(matches!(machine.poll(slot, now), Polled::Ready(Outcome::Value(_))));
/// assert_eq!(machine.now(), now);
/// ```
pub struct Machine {
    mode: Mode,
    seed: u64,
    records: Records,
    identities: Identities,
    /// Old names under which renamed operations are still recorded. No other operation may use them.
    renamed: BTreeSet<Arc<str>>,
    ops: Vec<Option<Op>>,
    free: Vec<usize>,
    /// Outstanding operations with an undelivered outcome, ordered by delivery number.
    queue: VecDeque<(u64, Slot)>,
    /// The one operation that may become ready before the next quiet point.
    current: Option<Slot>,
    /// Operations that have their delivery but were polled while another one was current, by delivery number.
    held: BTreeSet<(u64, Slot)>,
    /// The number of deliveries that user code has not consumed.
    unconsumed: usize,
    /// Whether the last quiet point found no outstanding operation with a recorded outcome.
    is_frontier: bool,
    /// Operations that were polled before they were allowed to begin.
    idle: Vec<Slot>,
    /// Steps whose start entry is not durable yet.
    starting: Vec<Slot>,
    /// Waits by signal name, in order of their first poll.
    waiting: BTreeMap<Box<str>, Vec<Slot>>,
    timers: BTreeSet<(Timestamp, Slot)>,
    signals: Signals,
    /// Control messages that have not been taken yet.
    controls: VecDeque<(u64, Message)>,
    /// Control messages that take effect with the run's next state and leave the inbox with it.
    controls_done: Vec<u64>,
    /// The reason of a terminate message, once there is one.
    terminate: Option<String>,
    /// All messages up to this inbox position have been received.
    seen: u64,
    /// Messages beyond `seen` that have been received too.
    received: BTreeSet<u64>,
    /// The reason of the cancel message, once it is taken.
    cancel: Option<String>,
    is_held: bool,
    /// Set when the engine shuts down: nothing begins or is delivered any more.
    is_frozen: bool,
    /// Whether a message arrived since the last [`take_news`](Self::take_news).
    has_news: bool,
    /// The number of operations with a running body.
    working: usize,
    seq: u64,
    durable: u64,
    /// The number of the last delivered outcome.
    delivered: u64,
    outgoing: Outgoing,
    /// The time of the last delivery, which is the time user code sees.
    now: Timestamp,
    /// Operations that have to be polled again because of something the machine did.
    wakes: Vec<Slot>,
    trouble: Option<Trouble>,
    /// The operation that most recently had its first poll, and its call site.
    last_begun: Option<(Arc<str>, Arc<str>)>,
}

impl Machine {
    /// Creates a machine for a run that started at `started` and has this journal.
    ///
    /// # Errors
    /// Returns an error if the journal is damaged.
    pub fn new(mode: Mode, seed: u64, started: Timestamp, journal: &[Entry]) -> Result<Self, Trouble> {
        let records = Records::fold(journal).map_err(|problem| {
            Trouble(format!(
                "the journal cannot be read: {problem}; restore the store from a backup, then retry the run"
            ))
        })?;
        let mut signals = Signals::default();
        records.given.iter().for_each(|(pos, seq)| signals.give(*pos, *seq));
        records.refused.iter().for_each(|pos| signals.refuse(*pos));
        Ok(Self {
            mode,
            seed,
            seq: records.seq,
            durable: records.seq,
            delivered: 0,
            outgoing: Outgoing { seq_before: records.seq, ..Outgoing::default() },
            cancel: records.cancel.clone(),
            records,
            identities: Identities::default(),
            renamed: BTreeSet::new(),
            ops: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            current: None,
            held: BTreeSet::new(),
            unconsumed: 0,
            is_frontier: false,
            idle: Vec::new(),
            starting: Vec::new(),
            waiting: BTreeMap::new(),
            timers: BTreeSet::new(),
            signals,
            controls: VecDeque::new(),
            controls_done: Vec::new(),
            terminate: None,
            seen: 0,
            received: BTreeSet::new(),
            is_held: false,
            is_frozen: false,
            has_news: false,
            working: 0,
            now: started,
            wakes: Vec::new(),
            trouble: None,
            last_begun: None,
        })
    }

    // ---- called by operations ----

    /// Opens an operation when user code calls it, and assigns its identity.
    pub fn open(&mut self, kind: OpKind, base: Arc<str>, site: Arc<str>) -> Slot {
        let identity = self.identities.take(base);
        let op = Op {
            key: identity.base.clone(),
            identity,
            kind,
            site,
            aliases: Vec::new(),
            spec: None,
            record: record::Record::default(),
            phase: Phase::Called,
            timer: None,
        };
        match self.free.pop() {
            Some(index) => {
                self.ops[index] = Some(op);
                Slot(index)
            }
            None => {
                // Most runs have one outstanding operation at a time.
                self.ops.reserve_exact(usize::from(self.ops.is_empty()));
                self.ops.push(Some(op));
                Slot(self.ops.len() - 1)
            }
        }
    }

    /// Changes the identity of an operation that was just opened, because it turns out to have a key.
    pub fn rename(&mut self, slot: Slot, base: Arc<str>) {
        let Some(op) = self.ops.get_mut(slot.0).and_then(Option::as_mut) else { return };
        debug_assert!(matches!(op.phase, Phase::Called), "a key must be set before the first poll");
        self.identities.undo(&op.identity);
        op.identity = self.identities.take(base);
    }

    /// Adds a name that the operation had in an earlier version of the code. If it has no record under its own name,
    /// the first alias with a record counts.
    ///
    /// ```
    /// # use outlive_core::{journal::*, time::Timestamp, workflow::*};
    /// # let done = Entry { op: "sleep[old]".into(), ..Entry::of_run(1, Timestamp::AT_ONCE, EntryKind::SleepDone) };
    /// # let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[done]).unwrap();
    /// let slot = machine.open(OpKind::Sleep, "sleep[new]".into(), "src/shop.rs:12".into());
    /// machine.alias(slot, "sleep[old]".into());
    /// machine.begin(slot, Spec::SleepUntil(Timestamp::MAX));
    /// assert_eq!(machine.deliver(), Some(slot), "the sleep is over, as recorded under its old name");
    /// ```
    pub fn alias(&mut self, slot: Slot, base: Arc<str>) {
        if let Some(op) = self.ops.get_mut(slot.0).and_then(Option::as_mut) {
            op.aliases.push(base);
        }
    }

    /// Begins an operation on its first poll, when its options are known: finds its record, if it has one.
    pub fn begin(&mut self, slot: Slot, spec: Spec) {
        let Some(op) = self.ops.get_mut(slot.0).and_then(Option::as_mut) else { return };
        op.spec = Some(spec);
        op.key = op.identity.text();
        self.last_begun = Some((op.key.clone(), op.site.clone()));
        if self.renamed.contains(&op.key) {
            let (name, site) = (op.key.clone(), op.site.clone());
            op.phase = Phase::Refused;
            return self.fail(format!(
                "{name} ({site}) was the name of another step in this run, which still uses it (`.was`); \
                 give this one another name"
            ));
        }
        let mut record = self.records.take(&op.key);
        for alias in &op.aliases {
            if record.is_some() {
                break;
            }
            let old = numbered(alias, op.identity.occurrence);
            record = self.records.take(&old);
            if record.is_some() {
                self.renamed.insert(old.clone());
                op.key = old;
            }
        }
        if op.identity.is_ambiguous {
            let (name, site) = (op.key.clone(), op.site.clone());
            op.phase = Phase::Refused;
            return self.fail(format!(
                "{name} ({site}) was called while another {} without a key was outstanding; \
                 give each a `.key(..)` or a `scope(..)`",
                op_words(&name)
            ));
        }
        op.record = record.unwrap_or_default();
        match op.record.outcome.take() {
            Some(found) => {
                op.phase = Phase::Settled { seq: found.seq, at: found.at, outcome: found.outcome };
                let place = self.queue.partition_point(|(seq, _)| *seq < found.seq);
                self.queue.insert(place, (found.seq, slot));
            }
            None => {
                op.phase = Phase::Idle;
                self.idle.push(slot);
            }
        }
    }

    /// Polls an operation, which must have [begun](Self::begin).
    pub fn poll(&mut self, slot: Slot, now: Timestamp) -> Polled {
        if self.may_begin() && matches!(self.phase(slot), Some(Phase::Idle)) {
            self.idle.retain(|other| *other != slot);
            self.begin_work(slot, now);
            // It is being polled right now, so it needs no wake.
            self.wakes.retain(|other| *other != slot);
        }
        match self.phase(slot) {
            Some(Phase::Working { .. } | Phase::FallingBack { .. }) => {
                self.attempt(slot).map_or(Polled::Pending, Polled::Work)
            }
            Some(Phase::Delivered { seq, .. }) => self.consume(slot, *seq),
            _ => Polled::Pending,
        }
    }

    /// Returns `true` if the operation has been polled before.
    #[must_use]
    pub fn has_begun(&self, slot: Slot) -> bool {
        !matches!(self.phase(slot), Some(Phase::Called) | None)
    }

    /// Closes an operation that was consumed or dropped. An unconsumed signal returns to its place in the queue.
    pub fn close(&mut self, slot: Slot) {
        let Some(op) = self.ops.get_mut(slot.0).and_then(Option::take) else { return };
        self.free.push(slot.0);
        self.identities.end(&op.identity);
        self.working -= usize::from(op.is_working());
        if let Some(due) = op.timer {
            self.timers.remove(&(due, slot));
        }
        match op.phase {
            Phase::Idle => self.idle.retain(|other| *other != slot),
            Phase::Starting { .. } => self.starting.retain(|other| *other != slot),
            Phase::Settled { seq, .. } => self.queue.retain(|(other, _)| *other != seq),
            Phase::Delivered { seq, .. } => {
                self.held.remove(&(seq, slot));
                self.unconsumed -= 1;
            }
            _ => {}
        }
        if self.current == Some(slot) {
            self.current = None;
        }
        if let Some(Spec::Wait { name, .. }) = &op.spec {
            if let Some(slots) = self.waiting.get_mut(name.as_str()) {
                slots.retain(|other| *other != slot);
            }
            if let Phase::Settled { seq, outcome: Outcome::Signal { pos, payload }, .. }
            | Phase::Delivered { seq, outcome: Outcome::Signal { pos, payload } } = op.phase
            {
                self.signals.give_back(name.as_str(), pos, seq, payload);
            }
        }
    }

    /// Returns the time as user code sees it: the time of the last delivery, so every replay sees the same.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    // ---- called by the driver ----

    /// Delivers the next outcome at a quiet point and returns the operation to poll. Returns `None` if there is nothing
    /// to deliver.
    pub fn deliver(&mut self) -> Option<Slot> {
        if self.is_held || self.is_frozen || self.is_over() {
            return None;
        }
        self.current = None;
        // An operation that was polled out of turn goes first: no later delivery may overtake it.
        if let Some((_, slot)) = self.held.pop_first() {
            self.current = Some(slot);
            return Some(slot);
        }
        let &(seq, slot) = self.queue.front()?;
        if seq > self.durable {
            return None;
        }
        self.queue.pop_front();
        self.delivered = seq;
        let op = self.ops.get_mut(slot.0).and_then(Option::as_mut)?;
        if let Phase::Settled { at, outcome, .. } = std::mem::replace(&mut op.phase, Phase::Refused) {
            op.phase = Phase::Delivered { seq, outcome };
            self.unconsumed += 1;
            self.now = self.now.max(at);
        }
        self.is_frontier = false;
        self.current = Some(slot);
        Some(slot)
    }

    /// Acts at the frontier: takes control messages, begins operations that were polled too early, binds signals to
    /// waits and fires due timers. Returns `true` if any operation has to be polled again
    /// ([`take_wakes`](Self::take_wakes)).
    pub fn act(&mut self, now: Timestamp) -> bool {
        if self.mode == Mode::Shadow || self.is_frozen || self.is_over() {
            return false;
        }
        self.take_controls(now);
        if self.is_held || self.has_next() {
            return !self.wakes.is_empty();
        }
        self.current = None;
        self.is_frontier = true;
        if !self.idle.is_empty() {
            std::mem::take(&mut self.idle).into_iter().for_each(|slot| self.begin_work(slot, now));
        }
        self.bind_signals(now);
        self.end_due(now);
        !self.wakes.is_empty()
    }

    /// Takes the operations that have to be polled again because of what the machine did.
    pub fn take_wakes(&mut self) -> Vec<Slot> {
        // Keeps the buffer if it is empty.
        if self.wakes.is_empty() { Vec::new() } else { std::mem::take(&mut self.wakes) }
    }

    /// Receives messages without a gap: all up to the last of these have arrived. Those that cannot be acted on yet are
    /// kept.
    pub fn receive_all(&mut self, inbox: Vec<Inbound>) {
        let last = inbox.iter().map(|inbound| inbound.pos).max().unwrap_or(0);
        inbox.into_iter().for_each(|inbound| self.receive(inbound));
        self.seen = self.seen.max(last);
        let seen = self.seen;
        self.received.retain(|pos| *pos > seen);
    }

    /// Receives one message. Messages from other processes with lower positions may not have been received yet.
    pub fn receive(&mut self, inbound: Inbound) {
        if inbound.pos <= self.seen || !self.received.insert(inbound.pos) {
            return;
        }
        self.has_news = true;
        match inbound.message {
            Message::Signal { name, payload } => self.signals.put(name.as_str(), inbound.pos, payload),
            Message::Terminate { reason } => self.terminate = Some(reason),
            other => self.controls.push_back((inbound.pos, other)),
        }
    }

    /// Marks everything up to `seq` as durable.
    pub fn durable(&mut self, seq: u64) {
        debug_assert!(seq <= self.seq, "only entries that were handed out can become durable");
        self.durable = self.durable.max(seq);
        let durable = self.durable;
        let ops = &mut self.ops;
        let wakes = &mut self.wakes;
        self.starting.retain(|slot| {
            let Some(op) = ops.get_mut(slot.0).and_then(Option::as_mut) else { return false };
            let Phase::Starting { seq, attempt, started } = op.phase else { return false };
            if seq > durable {
                return true;
            }
            op.phase = Phase::Working { attempt, started };
            wakes.push(*slot);
            false
        });
    }

    /// Takes the entries that have to be made durable now.
    pub fn take_outgoing(&mut self) -> Option<Outgoing> {
        if !self.has_outgoing() {
            return None;
        }
        let next = Outgoing { seq_before: self.seq, ..Outgoing::default() };
        Some(std::mem::replace(&mut self.outgoing, next))
    }

    // ---- internals ----

    fn phase(&self, slot: Slot) -> Option<&Phase> {
        self.ops.get(slot.0)?.as_ref().map(|op| &op.phase)
    }

    /// Returns `true` if an operation may begin as soon as it is polled. During a replay it may not: an outcome that is
    /// still to be delivered could drop the operation, and then it must not have run.
    fn may_begin(&self) -> bool {
        if self.mode == Mode::Shadow || self.is_held || self.is_frozen || self.is_over() {
            return false;
        }
        // An unconsumed delivery, however old, may drop an operation that is polled before it is consumed.
        self.unconsumed == 0 && (self.is_frontier || (!self.is_replaying() && self.controls.is_empty()))
    }

    /// Returns `true` if something that an earlier process recorded is still to be delivered or asked for.
    fn is_replaying(&self) -> bool {
        let is_recorded = |(seq, _): &(u64, Slot)| *seq <= self.records.seq;
        self.records.has_unasked() || self.queue.front().is_some_and(is_recorded)
    }

    /// Returns `true` if an outcome waits to be delivered.
    fn has_next(&self) -> bool {
        self.queue.front().is_some_and(|(seq, _)| *seq <= self.durable) || !self.held.is_empty()
    }

    /// Returns `true` if nothing may begin any more because the run is stuck or terminated.
    fn is_over(&self) -> bool {
        self.trouble.is_some() || self.terminate.is_some()
    }

    fn consume(&mut self, slot: Slot, seq: u64) -> Polled {
        if self.current != Some(slot) {
            self.held.insert((seq, slot));
            return Polled::Pending;
        }
        self.current = None;
        let op = self.ops.get_mut(slot.0).and_then(Option::as_mut);
        let phase = op.map(|op| std::mem::replace(&mut op.phase, Phase::Refused));
        self.close(slot);
        match phase {
            Some(Phase::Delivered { outcome, .. }) => {
                self.unconsumed -= 1;
                if let Outcome::Signal { pos, .. } = outcome {
                    self.signals.consume(pos);
                }
                Polled::Ready(outcome)
            }
            _ => Polled::Pending,
        }
    }

    fn begin_work(&mut self, slot: Slot, now: Timestamp) {
        match self.op(slot).and_then(|op| op.spec.as_ref()) {
            Some(Spec::Step(_)) => self.begin_step(slot, now),
            Some(_) if self.cancel.is_some() => self.settle(slot, EntryKind::OpCancelled, Outcome::Cancelled, now),
            Some(&Spec::SleepFor(duration)) => self.begin_sleep(slot, now.after(duration), now),
            Some(&Spec::SleepUntil(due)) => self.begin_sleep(slot, due, now),
            Some(Spec::Wait { name, timeout, .. }) => {
                let (name, limit) = (name.clone(), timeout.map(|limit| now.after(limit)));
                self.begin_wait(slot, name.as_str(), limit, now)
            }
            None => {}
        }
    }

    fn end_due(&mut self, now: Timestamp) {
        while let Some(&(due, slot)) = self.timers.first() {
            if due > now {
                return;
            }
            self.timers.pop_first();
            let Some(op) = self.ops[slot.0].as_mut() else { continue };
            op.timer = None;
            match op.kind {
                OpKind::Sleep => self.settle(slot, EntryKind::SleepDone, Outcome::Slept, now),
                OpKind::Wait => self.settle(slot, EntryKind::WaitTimedOut, Outcome::TimedOut, now),
                OpKind::Step => self.step_due(slot, now),
            }
        }
    }

    /// Records the outcome of an operation, which gives it a delivery number.
    fn settle(&mut self, slot: Slot, kind: EntryKind, outcome: Outcome, now: Timestamp) {
        self.disarm(slot);
        let waited = match self.op(slot) {
            Some(Op { spec: Some(Spec::Wait { name, .. }), .. }) => Some(name.clone()),
            _ => None,
        };
        if let Some(slots) = waited.and_then(|name| self.waiting.get_mut(name.as_str())) {
            slots.retain(|other| *other != slot);
        }
        self.push(slot, kind, now, |entry| match &outcome {
            Outcome::Value(payload) => entry.payload = Some(payload.clone()),
            Outcome::Failed(failed) => entry.payload = Some(record::failed_to(failed)),
            Outcome::Signal { pos, payload } => {
                entry.payload = Some(payload.clone());
                entry.due = Some(signal_mark(*pos));
            }
            Outcome::Slept | Outcome::TimedOut | Outcome::Cancelled => {}
        });
        let seq = self.seq;
        self.set_phase(slot, Phase::Settled { seq, at: now, outcome });
        self.queue.push_back((seq, slot));
    }

    /// Appends an entry about an operation, with its current attempt.
    fn push(&mut self, slot: Slot, kind: EntryKind, now: Timestamp, fill: impl FnOnce(&mut Entry)) {
        let Some(op) = self.ops.get(slot.0).and_then(Option::as_ref) else { return };
        let (attempt, started) = match op.phase {
            Phase::Working { attempt, started } | Phase::Starting { attempt, started, .. } => (attempt, Some(started)),
            Phase::FallingBack { attempt, started, .. } => (attempt, Some(started)),
            _ => (op.record.failed, None),
        };
        self.seq += 1;
        let mut entry = Entry {
            seq: self.seq,
            at: now,
            kind,
            op: op.key.clone(),
            site: op.site.clone(),
            attempt,
            started,
            due: None,
            payload: None,
        };
        fill(&mut entry);
        // Nearly every commit has a single entry.
        self.outgoing.entries.reserve_exact(usize::from(self.outgoing.entries.is_empty()));
        self.outgoing.entries.push(entry);
    }

    /// Wakes an operation that still has a body, because the body is dropped when the operation is polled.
    fn drop_body(&mut self, slot: Slot) {
        if self.op(slot).is_some_and(Op::is_working) {
            self.wakes.push(slot);
        }
    }

    fn op(&self, slot: Slot) -> Option<&Op> {
        self.ops.get(slot.0)?.as_ref()
    }

    fn set_phase(&mut self, slot: Slot, phase: Phase) {
        if let Some(op) = self.ops.get_mut(slot.0).and_then(Option::as_mut) {
            let was = op.is_working();
            op.phase = phase;
            self.working = self.working + usize::from(op.is_working()) - usize::from(was);
        }
    }

    /// Sets the time at which an operation continues by itself.
    fn arm(&mut self, slot: Slot, due: Timestamp) {
        self.set_phase(slot, Phase::Armed);
        self.set_timer(slot, due);
    }

    fn set_timer(&mut self, slot: Slot, due: Timestamp) {
        self.disarm(slot);
        if let Some(op) = self.ops.get_mut(slot.0).and_then(Option::as_mut) {
            op.timer = Some(due);
            self.timers.insert((due, slot));
        }
    }

    fn disarm(&mut self, slot: Slot) {
        if let Some(due) = self.ops.get_mut(slot.0).and_then(Option::as_mut).and_then(|op| op.timer.take()) {
            self.timers.remove(&(due, slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Cause;
    use crate::payload::Payload;

    /// The position after the highest possible one overflowed.
    #[test]
    fn a_message_at_the_last_place_there_is_is_received() {
        let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).expect("an empty journal is valid");
        machine.receive_all(vec![Inbound { pos: u64::MAX, at: Timestamp::AT_ONCE, message: Message::Pause }]);
        assert!(machine.has_received(u64::MAX));
    }

    /// The attempt after the highest possible one overflowed.
    #[test]
    fn a_step_with_the_last_attempt_there_is_goes_on() {
        let at = Timestamp::AT_ONCE;
        let failed = Entry {
            op: "step:a".into(),
            attempt: u32::MAX,
            due: Some(at),
            payload: Some(Failure::new(Cause::Error, "declined").to_payload()),
            ..Entry::of_run(1, at, EntryKind::AttemptFailed)
        };
        let mut machine = Machine::new(Mode::Live, 7, at, &[failed]).expect("the journal is valid");
        let slot = machine.open(OpKind::Step, base("", OpKind::Step, "a", None), "src/shop.rs:31".into());
        machine.begin(slot, Spec::Step(StepSpec::default()));
        machine.act(at);
        assert!(matches!(machine.poll(slot, at), Polled::Work(_)));
    }

    fn step(seq: u64, op: &str) -> Entry {
        let payload = Some(Payload::recorded("1"));
        Entry { op: op.into(), payload, ..Entry::of_run(seq, Timestamp::AT_ONCE, EntryKind::StepDone) }
    }

    #[test]
    fn nothing_begins_before_a_delivery_that_was_carried_is_consumed() {
        // User code keeps `a` and `b` while it awaits `c`, then races the two. `a` already has its outcome, but a
        // replay polled `b` first and ran its body for nothing.
        let now = Timestamp::from_millis(1);
        let mut machine =
            Machine::new(Mode::Live, 7, now, &[step(1, "step:a"), step(2, "step:c")]).expect("the journal is valid");
        let [a, b, c] = ["step:a", "step:b", "step:c"].map(|op| {
            let slot = machine.open(OpKind::Step, op.into(), "src/shop.rs:12".into());
            machine.begin(slot, Spec::Step(StepSpec::default()));
            assert!(matches!(machine.poll(slot, now), Polled::Pending));
            slot
        });
        assert_eq!(machine.deliver(), Some(a), "user code does not poll it yet");
        assert_eq!(machine.deliver(), Some(c));
        assert!(matches!(machine.poll(c, now), Polled::Ready(_)));
        assert!(matches!(machine.poll(b, now), Polled::Pending), "the outcome of `a` may drop it");
        assert!(matches!(machine.poll(a, now), Polled::Pending), "it is not its turn");
        assert_eq!(machine.deliver(), Some(a));
        assert!(matches!(machine.poll(a, now), Polled::Ready(_)));
        assert!(matches!(machine.poll(b, now), Polled::Work(_)), "it was not dropped");
    }
}
