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
//! The [`Machine`] decides when something may happen, and its [`Operations`] are what it happens to. Both are pure. The
//! machine takes what happens ([`Machine::poll`], [`Machine::finish`], [`RunInbox::receive`], [`Machine::act`]) and the time as input, and returns the entries to make durable ([`Machine::take_outgoing`]) and
//! the operation to poll next ([`Machine::deliver`]). It never blocks and never reads a clock.

mod care;
mod children;
mod deliveries;
mod effect;
mod failures;
mod identity;
mod inbox;
mod op;
mod operations;
mod parsed;
mod record;
mod recorder;
mod rewind;
mod rewound;
mod signals;
mod spec;
mod undos;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub use care::{BreakerNotice, HeartbeatSource, HeldBack, StepCare};
pub use children::LiveChildren;
pub use effect::{EffectSpec, RefusedEffect, StartEffect};
pub use identity::{base, numbered_scope, scope};
pub use inbox::RunInbox;
pub use op::Asked;
pub use operations::{AttemptCare, DEADLINE_PASSED, Operations, Pause, RunRestart};
pub use parsed::{ParsedIdentity, unescaped};
pub use record::Records;
pub use recorder::{Outgoing, Recorder};
pub use rewind::{PointProblem, RewindCut, RewindPoint};
pub use rewound::{Rewinds, counted};
pub use spec::{Accepts, ChildKey, FailedStep, OpKind, Outcome, Spec, StepEnding, StepSpec};
pub use undos::{UndoLeft, Undos, undo_identity};

use crate::failure::Failure;
use crate::journal::Entry;
use crate::message::Message;
use crate::payload::Payload;
use crate::store::commit::{Refusal, Write};
use crate::time::Timestamp;

use identity::{Identities, numbered, op_words};
use op::OpPhase;

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
    records: Records,
    identities: Identities,
    ops: Operations,
    /// Whether the last quiet point found no outstanding operation with a recorded outcome.
    is_at_frontier: bool,
    /// Set when the engine shuts down: nothing begins or is delivered any more.
    is_frozen: bool,
    /// The time of the last delivery, which is the time user code sees.
    now: Timestamp,
    /// The operation that most recently had its first poll, and its call site.
    last_begun: Option<(Arc<str>, Arc<str>)>,
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
        let mut ops = Operations::new(seed, records.seq);
        if let Some(reason) = records.cancel.take() {
            ops.inbox.set_cancel(reason);
        }
        ops.children = std::mem::take(&mut records.children);
        ops.undos = std::mem::take(&mut records.undos);
        ops.past.dead = std::mem::take(&mut records.dead);
        if let Some(restart) = records.restart.take() {
            ops.past.run_number = restart.run_number;
            // What this journal has taken in turn is not free any more.
            let taken = records.given.iter().map(|(pos, _)| pos).chain(&records.refused).collect::<BTreeSet<_>>();
            ops.inbox.carry(restart.signals.into_iter().filter(|signal| !taken.contains(&signal.pos)).collect());
        }
        ops.past.rewinds = records.rewinds.take();
        let started = ops.past.rewinds.as_ref().and_then(|rewinds| rewinds.started()).unwrap_or(started);
        ops.inbox.restore(std::mem::take(&mut records.given), std::mem::take(&mut records.refused));
        Ok(Self {
            mode,
            records,
            identities: Identities::default(),
            ops,
            is_at_frontier: false,
            is_frozen: false,
            now: started,
            last_begun: None,
        })
    }

    /// Sets when the run is cancelled if it has not ended, and how many entries its journal may have. A run that records
    /// more becomes stuck.
    #[must_use]
    pub fn with_limits(mut self, deadline: Option<Timestamp>, max_entries: u64) -> Self {
        self.ops.deadline = deadline;
        self.ops.recorder.set_limit(self.records.seq_before, max_entries);
        self.ops.recorder.excess().into_iter().for_each(|sentence| self.ops.fail(sentence));
        self
    }

    // ---- called by operations ----

    /// Opens an operation when user code calls it, and assigns its identity.
    pub fn open(&mut self, kind: OpKind, base: Arc<str>, site: Arc<str>) -> Slot {
        let identity = self.identities.take(base);
        self.ops.open(kind, identity, site)
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
        if self.records.is_renamed(&op.key) {
            let sentence = format!(
                "{} ({}) was the name of another step in this run, which still uses it (`.was`); \
                 give this one another name",
                op.key, op.site
            );
            return self.ops.refuse(slot, sentence);
        }
        // Under its old name it is asked for too, so the record could belong to either.
        if let Some(old) =
            op.aliases.iter().find(|alias| self.identities.is_called(alias) && **alias != op.identity.base)
        {
            let sentence = format!(
                "{} ({}) says that it was {old} (`.was`), which this run asks for as well; give `.was` a name that no other \
                 step has",
                op.key, op.site
            );
            return self.ops.refuse(slot, sentence);
        }
        let old_names = op.aliases.iter().map(|alias| numbered(alias, op.identity.occurrence));
        let record = self.records.find(&mut op.key, old_names);
        if op.identity.is_ambiguous {
            let sentence = format!(
                "{} ({}) was called while another {} without a key was outstanding; \
                 give each a `.key(..)` or a `scope(..)`",
                op.key,
                op.site,
                op_words(&op.key)
            );
            return self.ops.refuse(slot, sentence);
        }
        let is_passed = record.is_none() && matches!(op.spec, Some(Spec::Patch));
        let (record, outcome) = record.unwrap_or_default();
        op.record = record;
        if is_passed && self.is_replaying() {
            return self.ops.pass(slot);
        }
        self.ops.continue_from(slot, outcome);
    }

    /// Returns `true` if an operation that has not begun is recorded.
    #[must_use]
    pub fn has_record(&self, slot: Slot) -> bool {
        self.ops.get(slot).is_some_and(|op| self.records.has(&op.identity.text()))
    }

    /// Polls an operation, which must have [begun](Self::begin).
    pub fn poll(&mut self, slot: Slot, now: Timestamp) -> Polled {
        if self.ops.is_idle(slot) && self.may_begin() {
            self.ops.begin_polled(slot, now);
        }
        let polled = self.ops.poll(slot);
        if matches!(polled, Polled::Ready(_)) {
            self.close(slot);
        }
        polled
    }

    /// Reports the result of an attempt of a step, or of its fallback. A result that comes too late to count is
    /// ignored.
    pub fn finish(&mut self, slot: Slot, result: Result<Payload, Failure>, now: Timestamp) {
        self.ops.finish(slot, result, now);
    }

    /// Returns what concerns heartbeats and breakers of attempts.
    pub fn attempts(&mut self) -> AttemptCare<'_> {
        AttemptCare::of(&mut self.ops)
    }

    /// Closes an operation that was consumed or dropped. An unconsumed signal returns to its place in the queue.
    pub fn close(&mut self, slot: Slot) {
        if let Some(op) = self.ops.get(slot) {
            self.identities.end(&op.identity);
            self.ops.close(slot);
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
        let (slot, at) = self.ops.deliver()?;
        if let Some(at) = at {
            self.now = self.now.max(at);
            self.is_at_frontier = false;
        }
        Some(slot)
    }

    /// Acts at the frontier: takes control messages, begins operations that were polled too early, binds signals to
    /// waits and fires due timers. Returns `true` if any operation has to be polled again
    /// ([`take_wakes`](Self::take_wakes)).
    pub fn act(&mut self, now: Timestamp) -> bool {
        if self.mode == Mode::Shadow || self.is_frozen || self.is_over() {
            return false;
        }
        self.ops.take_controls(now);
        // A control message that is left waits for something, and nothing begins before it is taken.
        if !self.ops.inbox.is_held() && !self.ops.has_next() && !self.ops.inbox.has_controls() {
            self.ops.deliveries.end_turn();
            self.is_at_frontier = true;
            self.ops.advance(now);
        }
        self.ops.has_wakes()
    }

    /// Takes the control messages in order of arrival, as [`act`](Self::act) does.
    pub fn take_controls(&mut self, now: Timestamp) {
        self.ops.take_controls(now);
    }

    /// Moves a shadow machine past its frontier, as far as the future is known: binds received signals to the waits
    /// that expect them, or else ends the sleep that is due first. Returns `false` if a step, or a signal that has not
    /// arrived, decides what comes next.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let now = Timestamp::from_millis(1);
    /// let mut copy = Machine::new(Mode::Shadow, 7, now, &[]).unwrap();
    /// let slot = copy.open(OpKind::Sleep, "sleep".into(), "src/shop.rs:12".into());
    /// copy.begin(slot, Spec::SleepUntil(Timestamp::MAX));
    /// assert_eq!(copy.deliver(), None);
    /// assert!(copy.foresee(now));
    /// assert_eq!(copy.deliver(), Some(slot), "the code continues after the sleep");
    /// ```
    pub fn foresee(&mut self, now: Timestamp) -> bool {
        self.mode == Mode::Shadow
            && self.may_deliver()
            && !self.is_over()
            && !self.ops.has_next()
            && self.ops.foresee(now)
    }

    /// Takes the operations that have to be polled again because of what the machine did.
    pub fn take_wakes(&mut self) -> Vec<Slot> {
        self.ops.take_wakes()
    }

    /// Marks everything up to `seq` as durable.
    pub fn durable(&mut self, seq: u64) {
        self.ops.durable(seq);
    }

    /// Takes the entries that have to be made durable now.
    pub fn take_outgoing(&mut self) -> Option<Outgoing> {
        let outgoing = self.ops.recorder.take_outgoing();
        self.ops.recorder.excess().into_iter().for_each(|sentence| self.ops.fail(sentence));
        outgoing
    }

    /// Changes what was taken as outgoing because the store refused one of its writes, so that nothing of it was
    /// applied. Returns what to commit instead.
    pub fn refused(&mut self, index: usize, refusal: Refusal) -> Option<Outgoing> {
        self.ops.refused(index, refusal)
    }

    /// Returns what the machine knows about a restart.
    pub fn restart(&mut self) -> RunRestart<'_> {
        RunRestart::of(&mut self.ops)
    }

    /// Returns the messages that end the attached children, for the commit that ends the run.
    #[must_use]
    pub fn end_children(&self, message: &Message, now: Timestamp) -> Vec<Write> {
        self.ops.children.end_all(message, self.ops.seed, self.ops.recorder.seq(), now)
    }

    /// Returns the entry of the outcome that made the run fail with `failure`, if there was one.
    #[must_use]
    pub fn cause_of(&self, failure: &Failure) -> Option<u64> {
        self.ops.failures.cause_of(failure)
    }

    /// Makes the run stuck, unless it already is. `sentence` says why and what to do.
    pub fn fail(&mut self, sentence: String) {
        self.ops.fail(sentence);
    }

    /// Stops the machine from beginning or delivering anything. Bodies that are running may finish.
    pub fn freeze(&mut self) {
        self.is_frozen = true;
    }

    /// Returns the messages of the run, to receive more.
    pub fn inbox_mut(&mut self) -> &mut RunInbox {
        &mut self.ops.inbox
    }

    /// Returns the undos of the run, to declare some.
    pub fn undos_mut(&mut self) -> &mut Undos {
        &mut self.ops.undos
    }

    // ---- read by the driver and by checks ----

    /// Returns the undos of the run.
    #[must_use]
    pub fn undos(&self) -> &Undos {
        &self.ops.undos
    }

    /// Returns the messages of the run.
    #[must_use]
    pub fn inbox(&self) -> &RunInbox {
        &self.ops.inbox
    }

    /// Returns the outstanding operations.
    #[must_use]
    pub fn operations(&self) -> &Operations {
        &self.ops
    }

    /// Returns the recorder, which numbers the entries of the run.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.ops.recorder
    }

    /// Returns the journal that the run began with, less what the code has asked for.
    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Returns what the run waits for when nothing in it can move.
    #[must_use]
    pub fn pause(&self) -> Pause<'_> {
        Pause::of(&self.ops)
    }

    /// Returns why the run is stuck, if it is.
    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        self.ops.trouble()
    }

    /// Returns `true` if the run is neither paused by hand nor frozen, so that outcomes may be delivered.
    #[must_use]
    pub fn may_deliver(&self) -> bool {
        !self.is_frozen && !self.ops.inbox.is_held()
    }

    /// Returns the operation that the next [`deliver`](Self::deliver) makes ready, if an outcome is waiting for it and may be
    /// delivered.
    #[must_use]
    pub fn next_delivery(&self) -> Option<Slot> {
        let may = self.may_deliver() && !self.is_over() && self.ops.has_next();
        if may { self.ops.deliveries.next() } else { None }
    }

    /// Returns the operation that most recently had its first poll, and its call site: the one to name when something
    /// else goes wrong.
    #[must_use]
    pub fn last_awaited(&self) -> Option<(Arc<str>, Arc<str>)> {
        self.last_begun.clone()
    }

    // ---- when ----

    /// Returns `true` if an operation may begin as soon as it is polled. During a replay it may not: an outcome that is
    /// still to be delivered could drop the operation, and then it must not have run.
    fn may_begin(&self) -> bool {
        if self.mode == Mode::Shadow || !self.may_deliver() || self.is_over() {
            return false;
        }
        // An unconsumed delivery, however old, may drop an operation that is polled before it is consumed.
        self.ops.deliveries.are_consumed()
            && (self.is_at_frontier || (!self.is_replaying() && !self.ops.inbox.has_controls()))
    }

    /// Returns `true` if something that an earlier process recorded is still to be delivered or asked for.
    fn is_replaying(&self) -> bool {
        self.records.has_unasked() || self.ops.deliveries.is_next_up_to(self.records.seq)
    }

    /// Returns `true` if nothing may begin any more because the run is stuck or terminated.
    fn is_over(&self) -> bool {
        self.ops.trouble().is_some() || self.ops.inbox.terminate_reason().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Cause;
    use crate::journal::EntryKind;

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
