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
mod deliveries;
mod identity;
mod inbox;
mod op;
mod ops;
mod parsed;
mod pause;
mod record;
mod recorder;
mod signals;
mod spec;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub use identity::{base, numbered_scope, scope};
pub use op::Asked;
pub use parsed::{ParsedIdentity, unescaped};
pub use recorder::Outgoing;
pub use spec::{Accepts, FailedStep, OpKind, Outcome, Spec, StepEnding, StepSpec};

use crate::failure::Failure;
use crate::journal::{Entry, EntryKind};
use crate::message::Inbound;
use crate::time::Timestamp;

use deliveries::{Deliveries, Delivery};
use identity::{Identities, numbered, op_words};
use inbox::RunInbox;
use op::{Op, OpPhase};
use ops::Operations;
use record::{Records, signal_mark};
use recorder::Recorder;

/// Handle of an outstanding operation. Slots are reused once the operation is closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub usize);

/// The result of polling an operation.
#[derive(Debug)]
pub enum Polled {
    /// Nothing to do. The caller drops the operation's body if it still has one.
    Pending,
    /// The body runs or has to be started.
    Work(StepAttempt),
    /// The outcome; the operation is no longer outstanding.
    Ready(Outcome),
}

/// One try of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepAttempt {
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
    ops: Operations,
    deliveries: Deliveries,
    frontier: Frontier,
    recorder: Recorder,
    /// Allocated with the first message or wait: many runs have neither.
    inbox: Option<Box<RunInbox>>,
    /// Set when the engine shuts down: nothing begins or is delivered any more.
    is_frozen: bool,
    /// The time of the last delivery, which is the time user code sees.
    now: Timestamp,
    trouble: Option<Trouble>,
    /// The operation that most recently had its first poll, and its call site.
    last_begun: Option<(Arc<str>, Arc<str>)>,
}

/// What happens at the frontier of a run.
#[derive(Default)]
struct Frontier {
    /// Whether the last quiet point found no outstanding operation with a recorded outcome.
    is_reached: bool,
    /// Operations that were polled before they were allowed to begin.
    idle: Vec<Slot>,
    /// Steps whose start entry is not durable yet.
    starting: Vec<Slot>,
    /// Operations that have to be polled again because of something the machine did.
    wakes: Vec<Slot>,
}

impl Machine {
    /// Creates a machine for a run that started at `started` and has this journal.
    ///
    /// # Errors
    /// Returns an error if the journal is damaged.
    pub fn new(mode: Mode, seed: u64, started: Timestamp, journal: &[Entry]) -> Result<Self, Trouble> {
        let mut records = Records::fold(journal).map_err(|problem| {
            Trouble(format!(
                "the journal cannot be read: {problem}; restore the store from a backup, then retry the run"
            ))
        })?;
        let mut machine = Self {
            mode,
            seed,
            recorder: Recorder::new(records.seq),
            inbox: None,
            identities: Identities::default(),
            renamed: BTreeSet::new(),
            ops: Operations::default(),
            deliveries: Deliveries::default(),
            frontier: Frontier::default(),
            is_frozen: false,
            now: started,
            trouble: None,
            last_begun: None,
            records: Records::default(),
        };
        if records.cancel.is_some() || !records.given.is_empty() || !records.refused.is_empty() {
            let inbox = machine.inbox_mut();
            inbox.cancel = records.cancel.take();
            std::mem::take(&mut records.given).into_iter().for_each(|(pos, seq)| inbox.signals.give(pos, seq));
            std::mem::take(&mut records.refused).into_iter().for_each(|pos| inbox.signals.refuse(pos));
        }
        machine.records = records;
        Ok(machine)
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
            record: record::OpRecord::default(),
            phase: OpPhase::Called,
            timer: None,
        };
        self.ops.insert(op)
    }

    /// Changes the identity of an operation that was just opened, because it turns out to have a key.
    pub fn rename(&mut self, slot: Slot, base: Arc<str>) {
        let Some(op) = self.ops.get_mut(slot) else { return };
        debug_assert!(matches!(op.phase, OpPhase::Called), "a key must be set before the first poll");
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
        if let Some(op) = self.ops.get_mut(slot) {
            op.aliases.push(base);
        }
    }

    /// Begins an operation on its first poll, when its options are known: finds its record, if it has one.
    pub fn begin(&mut self, slot: Slot, spec: Spec) {
        let Some(op) = self.ops.get_mut(slot) else { return };
        op.spec = Some(spec);
        op.key = op.identity.text();
        self.last_begun = Some((op.key.clone(), op.site.clone()));
        if self.renamed.contains(&op.key) {
            let (name, site) = (op.key.clone(), op.site.clone());
            op.phase = OpPhase::Refused;
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
            op.phase = OpPhase::Refused;
            return self.fail(format!(
                "{name} ({site}) was called while another {} without a key was outstanding; \
                 give each a `.key(..)` or a `scope(..)`",
                op_words(&name)
            ));
        }
        let (record, outcome) = record.unwrap_or_default();
        op.record = record;
        match outcome {
            Some(found) => {
                op.phase = OpPhase::Settled { seq: found.seq, at: found.at, outcome: found.outcome };
                self.deliveries.add(found.seq, slot);
            }
            None => {
                op.phase = OpPhase::Idle;
                self.frontier.idle.push(slot);
            }
        }
    }

    /// Polls an operation, which must have [begun](Self::begin).
    pub fn poll(&mut self, slot: Slot, now: Timestamp) -> Polled {
        if self.may_begin() && matches!(self.ops.phase(slot), Some(OpPhase::Idle)) {
            self.frontier.idle.retain(|other| *other != slot);
            self.begin_work(slot, now);
            // It is being polled right now, so it needs no wake.
            self.frontier.wakes.retain(|other| *other != slot);
        }
        match self.ops.phase(slot) {
            Some(OpPhase::Working { .. } | OpPhase::FallingBack { .. }) => {
                self.attempt(slot).map_or(Polled::Pending, Polled::Work)
            }
            Some(OpPhase::Delivered { seq, .. }) => self.consume(slot, *seq),
            _ => Polled::Pending,
        }
    }

    /// Returns `true` if the operation has been polled before.
    #[must_use]
    pub fn has_begun(&self, slot: Slot) -> bool {
        !matches!(self.ops.phase(slot), Some(OpPhase::Called) | None)
    }

    /// Closes an operation that was consumed or dropped. An unconsumed signal returns to its place in the queue.
    pub fn close(&mut self, slot: Slot) {
        let Some(op) = self.ops.remove(slot) else { return };
        self.identities.end(&op.identity);
        match op.phase {
            OpPhase::Idle => self.frontier.idle.retain(|other| *other != slot),
            OpPhase::Starting { .. } => self.frontier.starting.retain(|other| *other != slot),
            OpPhase::Settled { seq, .. } => self.deliveries.remove(seq),
            OpPhase::Delivered { seq, .. } => self.deliveries.consumed(slot, seq),
            _ => {}
        }
        self.deliveries.closed(slot);
        if let (Some(Spec::Wait { name, .. }), Some(inbox)) = (&op.spec, self.inbox.as_deref_mut()) {
            inbox.stop_waiting(name.as_str(), slot);
            if let OpPhase::Settled { seq, outcome: Outcome::Signal { pos, payload }, .. }
            | OpPhase::Delivered { seq, outcome: Outcome::Signal { pos, payload } } = op.phase
            {
                inbox.signals.give_back(name.as_str(), pos, seq, payload);
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
        if !self.may_deliver() || self.is_over() {
            return None;
        }
        let slot = match self.deliveries.advance(self.recorder.durable())? {
            Delivery::Held(slot) => return Some(slot),
            Delivery::New(slot) => slot,
        };
        let op = self.ops.get_mut(slot)?;
        if let OpPhase::Settled { seq, at, outcome } = std::mem::replace(&mut op.phase, OpPhase::Refused) {
            op.phase = OpPhase::Delivered { seq, outcome };
            self.now = self.now.max(at);
        }
        self.frontier.is_reached = false;
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
        if self.is_held() || self.has_next() {
            return !self.frontier.wakes.is_empty();
        }
        self.deliveries.end_turn();
        self.frontier.is_reached = true;
        if !self.frontier.idle.is_empty() {
            std::mem::take(&mut self.frontier.idle).into_iter().for_each(|slot| self.begin_work(slot, now));
        }
        self.bind_signals(now);
        self.end_due(now);
        !self.frontier.wakes.is_empty()
    }

    /// Takes the operations that have to be polled again because of what the machine did.
    pub fn take_wakes(&mut self) -> Vec<Slot> {
        // Keeps the buffer if it is empty.
        if self.frontier.wakes.is_empty() { Vec::new() } else { std::mem::take(&mut self.frontier.wakes) }
    }

    /// Receives messages without a gap: all up to the last of these have arrived. Those that cannot be acted on yet are
    /// kept.
    pub fn receive_all(&mut self, inbox: Vec<Inbound>) {
        if !inbox.is_empty() {
            self.inbox_mut().receive_all(inbox);
        }
    }

    /// Receives one message. Messages from other processes with lower positions may not have been received yet.
    pub fn receive(&mut self, inbound: Inbound) {
        self.inbox_mut().receive(inbound);
    }

    /// Marks everything up to `seq` as durable.
    pub fn durable(&mut self, seq: u64) {
        self.recorder.set_durable(seq);
        if self.frontier.starting.is_empty() {
            return;
        }
        let (durable, ops, wakes) = (self.recorder.durable(), &mut self.ops, &mut self.frontier.wakes);
        self.frontier.starting.retain(|slot| {
            let Some(&OpPhase::Starting { seq, attempt, started }) = ops.phase(*slot) else { return false };
            if seq > durable {
                return true;
            }
            ops.set_phase(*slot, OpPhase::Working { attempt, started });
            wakes.push(*slot);
            false
        });
    }

    /// Takes the entries that have to be made durable now.
    pub fn take_outgoing(&mut self) -> Option<Outgoing> {
        self.recorder.take_outgoing()
    }

    // ---- internals ----

    fn inbox_mut(&mut self) -> &mut RunInbox {
        self.inbox.get_or_insert_default()
    }

    /// Returns `true` if an operation may begin as soon as it is polled. During a replay it may not: an outcome that is
    /// still to be delivered could drop the operation, and then it must not have run.
    fn may_begin(&self) -> bool {
        if self.mode == Mode::Shadow || !self.may_deliver() || self.is_over() {
            return false;
        }
        // An unconsumed delivery, however old, may drop an operation that is polled before it is consumed.
        self.deliveries.are_consumed() && (self.frontier.is_reached || (!self.is_replaying() && !self.has_controls()))
    }

    /// Returns `true` if something that an earlier process recorded is still to be delivered or asked for.
    fn is_replaying(&self) -> bool {
        self.records.has_unasked() || self.deliveries.is_next_up_to(self.records.seq)
    }

    /// Returns `true` if an outcome waits to be delivered.
    fn has_next(&self) -> bool {
        self.deliveries.has_next(self.recorder.durable())
    }

    /// Returns `true` if nothing may begin any more because the run is stuck or terminated.
    fn is_over(&self) -> bool {
        self.trouble.is_some() || self.terminate_reason().is_some()
    }

    fn consume(&mut self, slot: Slot, seq: u64) -> Polled {
        if !self.deliveries.is_turn_of(slot, seq) {
            return Polled::Pending;
        }
        let op = self.ops.get_mut(slot);
        let phase = op.map(|op| std::mem::replace(&mut op.phase, OpPhase::Refused));
        self.close(slot);
        match phase {
            Some(OpPhase::Delivered { outcome, .. }) => {
                self.deliveries.consumed(slot, seq);
                if let (Outcome::Signal { pos, .. }, Some(inbox)) = (&outcome, self.inbox.as_deref_mut()) {
                    inbox.signals.consume(*pos);
                }
                Polled::Ready(outcome)
            }
            _ => Polled::Pending,
        }
    }

    fn begin_work(&mut self, slot: Slot, now: Timestamp) {
        match self.ops.get(slot).and_then(|op| op.spec.as_ref()) {
            Some(Spec::Step(_)) => self.begin_step(slot, now),
            Some(_) if self.cancel_reason().is_some() => {
                self.settle(slot, EntryKind::OpCancelled, Outcome::Cancelled, now)
            }
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
        while let Some(slot) = self.ops.take_due(now) {
            match self.ops.get(slot).map(|op| op.kind) {
                Some(OpKind::Sleep) => self.settle(slot, EntryKind::SleepDone, Outcome::Slept, now),
                Some(OpKind::Wait) => self.settle(slot, EntryKind::WaitTimedOut, Outcome::TimedOut, now),
                Some(OpKind::Step) => self.step_due(slot, now),
                None => {}
            }
        }
    }

    /// Records the outcome of an operation, which gives it a delivery number.
    fn settle(&mut self, slot: Slot, kind: EntryKind, outcome: Outcome, now: Timestamp) {
        self.ops.clear_timer(slot);
        if let Some(inbox) = self.inbox.as_deref_mut()
            && let Some(Op { spec: Some(Spec::Wait { name, .. }), .. }) = self.ops.get(slot)
        {
            inbox.stop_waiting(name.as_str(), slot);
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
        let seq = self.recorder.seq();
        self.ops.set_phase(slot, OpPhase::Settled { seq, at: now, outcome });
        self.deliveries.add(seq, slot);
    }

    /// Appends an entry about an operation, with its current attempt.
    fn push(&mut self, slot: Slot, kind: EntryKind, now: Timestamp, fill: impl FnOnce(&mut Entry)) {
        let Some(op) = self.ops.get(slot) else { return };
        let entry = self.recorder.push(kind, &op.key, &op.site, now);
        (entry.attempt, entry.started) = match op.phase {
            OpPhase::Working { attempt, started } | OpPhase::Starting { attempt, started, .. } => {
                (attempt, Some(started))
            }
            OpPhase::FallingBack { attempt, started, .. } => (attempt, Some(started)),
            _ => (op.record.failed, None),
        };
        fill(entry);
    }

    /// Wakes an operation that still has a body, because the body is dropped when the operation is polled.
    fn drop_body(&mut self, slot: Slot) {
        if self.ops.get(slot).is_some_and(Op::is_working) {
            self.frontier.wakes.push(slot);
        }
    }

    /// Sets the time at which an operation continues by itself.
    fn arm(&mut self, slot: Slot, due: Timestamp) {
        self.ops.set_phase(slot, OpPhase::Armed);
        self.ops.set_timer(slot, due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Cause;
    use crate::message::Message;
    use crate::payload::Payload;

    /// Regression: the position after the highest possible one overflowed.
    #[test]
    fn message_at_the_highest_position_is_received() {
        let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).expect("an empty journal is valid");
        machine.receive_all(vec![Inbound { pos: u64::MAX, at: Timestamp::AT_ONCE, message: Message::Pause }]);
        assert!(machine.has_received(u64::MAX));
    }

    /// Regression: the attempt after the highest possible one overflowed.
    #[test]
    fn step_at_the_highest_attempt_continues() {
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
    fn nothing_begins_before_a_carried_delivery_is_consumed() {
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
        assert!(matches!(machine.poll(a, now), Polled::Pending), "it is not its turn yet");
        assert_eq!(machine.deliver(), Some(a));
        assert!(matches!(machine.poll(a, now), Polled::Ready(_)));
        assert!(matches!(machine.poll(b, now), Polled::Work(_)), "it was not dropped");
    }
}
