//! The outstanding operations of a run: begins them, records their outcomes and delivers those.
//!
//! Each kind of operation has a file below this one, with what it does when it begins and when its timer fires. What
//! they share is the `OpCursor`. A new kind is one more file, and one more arm in `Operations::begin_work` and in
//! `Operations::end_due`.
//!
//! What each step goes through and one place calls is `#[inline]`: large values would be copied once more at each border.

mod ahead;
mod attempts;
mod control;
mod cursor;
mod effect;
mod gate;
mod heartbeat;
mod output;
mod pause;
mod restart;
mod sleep;
mod step;
mod table;
mod undo;
mod wait;

use std::sync::Arc;

use crate::failure::Failure;
use crate::journal::{Entry, EntryKind};
use crate::payload::Payload;
use crate::time::Timestamp;

use super::care::BreakerNotice;
use super::children::LiveChildren;
use super::deliveries::{Deliveries, Delivery};
use super::failures::SeenFailures;
use super::identity::Identity;
use super::inbox::RunInbox;
use super::op::{Asked, Op, OpPhase};
use super::record::{OpRecord, Recorded};
use super::recorder::Recorder;
use super::rewound::Rewinds;
use super::spec::{OpKind, Outcome, Spec};
use super::undos::Undos;
use super::{Polled, Slot, Trouble};

pub use attempts::AttemptCare;
pub use control::DEADLINE_PASSED;
use cursor::OpCursor;
pub use pause::Pause;
pub use restart::RunRestart;
use step::StepAttempts;
use table::OpTable;

/// The outstanding operations of a run, with what they record and receive.
///
/// The [`Machine`](super::Machine) decides when something may happen; this is what then happens.
pub struct Operations {
    /// The seed of the run, from which the jitter of retries comes.
    pub(super) seed: u64,
    table: OpTable,
    pub(super) deliveries: Deliveries,
    pub(super) recorder: Recorder,
    pub(super) inbox: RunInbox,
    /// Operations that were polled before they were allowed to begin.
    idle: Vec<Slot>,
    /// Steps whose start entry is not durable yet.
    starting: Vec<Slot>,
    /// Operations that have to be polled again because of something the machine did.
    wakes: Vec<Slot>,
    trouble: Option<Trouble>,
    pub(super) children: LiveChildren,
    /// The last failures that user code has seen.
    pub(super) failures: SeenFailures,
    /// When the run is cancelled.
    pub(super) deadline: Option<Timestamp>,
    pub(super) undos: Undos,
    /// Changes of breakers that attempts of this run have caused.
    notices: Vec<BreakerNotice>,
    pub(super) past: Past,
}

/// What a run has behind it, and what it leaves behind when it restarts.
pub(super) struct Past {
    /// The number of the run, which restarts count.
    pub(super) run_number: u32,
    /// The operation that restarts the run, once it has begun.
    restarting: Option<Slot>,
    /// The entries that refused a signal which was not discarded.
    pub(super) dead: Vec<Entry>,
    /// What the run has forgotten, if it was rewound or forked.
    pub(super) rewinds: Option<Box<Rewinds>>,
}

impl Operations {
    /// Returns `true` if the operation has been polled before.
    #[must_use]
    pub fn has_begun(&self, slot: Slot) -> bool {
        !matches!(self.table.phase(slot), Some(OpPhase::Called) | None)
    }

    /// Returns `true` if the body of the operation may be running.
    #[must_use]
    pub fn is_working(&self, slot: Slot) -> bool {
        self.table.get(slot).is_some_and(Op::is_working)
    }

    /// Returns `true` if at most one operation is outstanding.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.table.len() <= 1
    }

    /// Returns `true` if every entry is durable and no body is running, so only time or a message can move the run.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.table.working() == 0 && self.recorder.is_durable()
    }

    /// Returns the number of the last delivered outcome; 0 before the first.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.deliveries.last()
    }

    /// Returns what the run has forgotten, if it was rewound or forked.
    #[must_use]
    pub fn rewinds(&self) -> Option<&Rewinds> {
        self.past.rewinds.as_deref()
    }

    /// Returns the identity of an operation.
    #[must_use]
    pub fn key(&self, slot: Slot) -> Option<Arc<str>> {
        self.table.get(slot).map(|op| op.key.clone())
    }

    /// Returns the recorded value of an operation that is not delivered yet.
    #[must_use]
    pub fn recorded(&self, slot: Slot) -> Option<&Payload> {
        match self.table.phase(slot)? {
            OpPhase::Settled { outcome: Outcome::Value(payload) | Outcome::Signal { payload, .. }, .. } => {
                Some(payload)
            }
            _ => None,
        }
    }

    /// Returns the identities of the operations that were polled, sorted.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Arc<str>> {
        let mut keys: Vec<_> = self.polled().map(|op| op.key.clone()).collect();
        keys.sort();
        keys
    }

    /// Returns the operations that were polled, sorted by identity.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        let mut asked: Vec<_> = self.polled().map(Asked::of).collect();
        asked.sort_by(|one, other| one.op.cmp(&other.op));
        asked
    }

    fn polled(&self) -> impl Iterator<Item = &Op> {
        self.table.iter().map(|(_, op)| op).filter(|op| !matches!(op.phase, OpPhase::Called))
    }

    // ---- called by the machine ----

    /// Creates the operations of a run whose journal ends with entry `seq`.
    pub(super) fn new(seed: u64, seq: u64) -> Self {
        Self {
            seed,
            table: OpTable::default(),
            deliveries: Deliveries::default(),
            recorder: Recorder::new(seq),
            inbox: RunInbox::default(),
            idle: Vec::new(),
            starting: Vec::new(),
            wakes: Vec::new(),
            trouble: None,
            children: LiveChildren::default(),
            failures: SeenFailures::default(),
            deadline: None,
            undos: Undos::default(),
            notices: Vec::new(),
            past: Past { run_number: 1, restarting: None, dead: Vec::new(), rewinds: None },
        }
    }

    /// Adds an operation that user code has called.
    #[inline]
    pub(super) fn open(&mut self, kind: OpKind, identity: Identity, site: Arc<str>) -> Slot {
        self.table.insert(Op {
            key: identity.base.clone(),
            identity,
            kind,
            site,
            aliases: Vec::new(),
            spec: None,
            record: OpRecord::default(),
            phase: OpPhase::Called,
            has_appended: false,
            timer: None,
        })
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Op> {
        self.table.get(slot)
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Op> {
        self.table.get_mut(slot)
    }

    /// Continues an operation after its first poll: with its recorded outcome, or at the frontier.
    #[inline]
    pub(super) fn continue_from(&mut self, slot: Slot, recorded: Option<Recorded>) {
        let Some(op) = self.table.get_mut(slot) else { return };
        debug_assert!(!op.is_working(), "an operation begins only once");
        match recorded {
            Some(Recorded { seq, at, outcome }) => {
                op.phase = OpPhase::Settled { seq, at, outcome };
                self.deliveries.add(seq, slot);
            }
            None => {
                op.phase = OpPhase::Idle;
                self.idle.push(slot);
            }
        }
    }

    /// Passes a patch that is not recorded although later operations are.
    pub(super) fn pass(&mut self, slot: Slot) {
        self.table.set_phase(slot, OpPhase::Passed);
    }

    /// Makes the run stuck because of an operation, which can never become ready.
    pub(super) fn refuse(&mut self, slot: Slot, sentence: String) {
        self.table.set_phase(slot, OpPhase::Refused);
        self.fail(sentence);
    }

    /// Makes the run stuck, unless it already is.
    pub(super) fn fail(&mut self, sentence: String) {
        self.trouble.get_or_insert(Trouble(sentence));
    }

    pub(super) fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Returns `true` if the operation was polled and has not begun.
    pub(super) fn is_idle(&self, slot: Slot) -> bool {
        matches!(self.table.phase(slot), Some(OpPhase::Idle))
    }

    /// Begins an idle operation that is being polled.
    #[inline]
    pub(super) fn begin_polled(&mut self, slot: Slot, now: Timestamp) {
        self.idle.retain(|other| *other != slot);
        self.begin_work(slot, now);
        // It is being polled right now, so it needs no wake.
        self.wakes.retain(|other| *other != slot);
    }

    /// Polls an operation. If it is ready, the caller closes it.
    #[inline]
    pub(super) fn poll(&mut self, slot: Slot) -> Polled {
        match self.table.get(slot).map(|op| (op, &op.phase)) {
            Some((op, OpPhase::Working { .. } | OpPhase::FallingBack { .. })) => {
                step::current(op).map_or(Polled::Pending, Polled::Work)
            }
            Some((_, OpPhase::Delivered { seq, .. })) => self.consume(slot, *seq),
            Some((_, OpPhase::Passed)) => Polled::Ready(Outcome::Patched(false)),
            _ => Polled::Pending,
        }
    }

    #[inline]
    fn consume(&mut self, slot: Slot, seq: u64) -> Polled {
        if !self.deliveries.is_turn_of(slot, seq) {
            return Polled::Pending;
        }
        let phase = self.table.get_mut(slot).map(|op| std::mem::replace(&mut op.phase, OpPhase::Refused));
        let Some(OpPhase::Delivered { outcome, .. }) = phase else { return Polled::Pending };
        self.deliveries.consumed(slot, seq);
        self.failures.see(seq, &outcome, self.table.get(slot).map(|op| op.kind));
        if let (Outcome::Signal { pos, .. }, Some(signals)) = (&outcome, self.inbox.signals_mut()) {
            signals.consume(*pos);
        }
        Polled::Ready(outcome)
    }

    /// Reports the result of an attempt of a step or of its fallback.
    #[inline]
    pub(super) fn finish(&mut self, slot: Slot, result: Result<Payload, Failure>, now: Timestamp) {
        StepAttempts::of(self.at(slot, now)).finish(result);
    }

    /// Removes an operation. An unconsumed signal returns to its place in the queue.
    #[inline]
    pub(super) fn close(&mut self, slot: Slot) {
        if self.table.get(slot).is_some_and(|op| op.has_appended) {
            output::abandon(self, slot);
        }
        let Some(op) = self.table.get_mut(slot) else { return };
        self.past.restarting.take_if(|restarting| *restarting == slot);
        match op.phase {
            OpPhase::Idle => self.idle.retain(|other| *other != slot),
            OpPhase::Starting { .. } => self.starting.retain(|other| *other != slot),
            OpPhase::Settled { seq, .. } => self.deliveries.remove(seq),
            OpPhase::Delivered { seq, .. } => self.deliveries.consumed(slot, seq),
            _ => {}
        }
        self.deliveries.closed(slot);
        self.undos.close(slot);
        if let (Some(name), Some(signals)) = (op.spec.as_ref().and_then(Spec::awaited), self.inbox.signals_mut()) {
            signals.stop_waiting(name, slot);
            if let OpPhase::Settled { seq, outcome: Outcome::Signal { pos, payload }, .. }
            | OpPhase::Delivered { seq, outcome: Outcome::Signal { pos, payload } } = &op.phase
            {
                signals.give_back(name, *pos, *seq, payload.clone());
            }
        }
        self.table.remove(slot);
    }

    /// Returns `true` if an outcome waits to be delivered.
    pub(super) fn has_next(&self) -> bool {
        self.deliveries.has_next(self.recorder.durable())
    }

    /// Delivers the next outcome. Returns the operation, and the time of the outcome unless the operation already had
    /// it and could not take it.
    #[inline]
    pub(super) fn deliver(&mut self) -> Option<(Slot, Option<Timestamp>)> {
        let slot = match self.deliveries.advance(self.recorder.durable())? {
            Delivery::Held(slot) => return Some((slot, None)),
            Delivery::New(slot) => slot,
        };
        let op = self.table.get_mut(slot)?;
        let phase = std::mem::replace(&mut op.phase, OpPhase::Refused);
        debug_assert!(matches!(phase, OpPhase::Settled { .. }), "what is delivered has an outcome");
        let OpPhase::Settled { seq, at, outcome } = phase else { return Some((slot, None)) };
        op.phase = OpPhase::Delivered { seq, outcome };
        Some((slot, Some(at)))
    }

    /// Begins operations that were polled too early, binds signals to waits and fires due timers.
    #[inline]
    pub(super) fn advance(&mut self, now: Timestamp) {
        if !self.idle.is_empty() {
            std::mem::take(&mut self.idle).into_iter().for_each(|slot| self.begin_work(slot, now));
        }
        wait::bind_signals(self, now);
        self.end_due(now);
    }

    pub(super) fn has_wakes(&self) -> bool {
        !self.wakes.is_empty()
    }

    /// Takes the operations that have to be polled again.
    pub(super) fn take_wakes(&mut self) -> Vec<Slot> {
        // Keeps the buffer if it is empty.
        if self.wakes.is_empty() { Vec::new() } else { std::mem::take(&mut self.wakes) }
    }

    /// Marks everything up to `seq` as durable. Steps whose start is durable begin to work.
    pub(super) fn durable(&mut self, seq: u64) {
        if let Some(sent) = self.recorder.set_durable(seq) {
            sent.entries.iter().for_each(|entry| self.children.started_by(entry));
        }
        if self.starting.is_empty() {
            return;
        }
        let (durable, table, wakes) = (self.recorder.durable(), &mut self.table, &mut self.wakes);
        self.starting.retain(|slot| {
            let Some(&OpPhase::Starting { seq, attempt, started }) = table.phase(*slot) else { return false };
            if seq > durable {
                return true;
            }
            table.set_phase(*slot, OpPhase::Working { attempt, started });
            wakes.push(*slot);
            false
        });
    }

    // ---- by kind ----

    fn begin_work(&mut self, slot: Slot, now: Timestamp) {
        let mut op = self.at(slot, now);
        match op.spec() {
            Some(Spec::Step(_)) => StepAttempts::of(op).begin(),
            Some(Spec::Patch) => op.settle(EntryKind::Patched, Outcome::Patched(true)),
            Some(Spec::Unwind(_)) => undo::unwind(&mut op),
            // A run that is cancelled may still send what its clean-up sends, but starts no children.
            Some(Spec::Effect(effect)) if !effect.is_child() || op.ops.inbox.cancel_reason().is_none() => {
                effect::begin(&mut op);
            }
            Some(_) if op.ops.inbox.cancel_reason().is_some() && !op.ops.undos.is_unwinding() => {
                op.settle(EntryKind::OpCancelled, Outcome::Cancelled)
            }
            Some(Spec::Restart(_)) => restart::begin(&mut op),
            Some(&Spec::SleepFor(duration)) => sleep::begin(&mut op, now.after(duration)),
            Some(&Spec::SleepUntil(due)) => sleep::begin(&mut op, due),
            Some(Spec::Wait { name, timeout, .. }) => {
                let (name, limit) = (name.clone(), timeout.map(|limit| now.after(limit)));
                wait::begin(&mut op, name.as_str(), limit);
            }
            Some(Spec::Result(child)) => {
                let child = child.clone();
                wait::begin(&mut op, child.as_str(), None);
            }
            Some(Spec::Effect(_)) | None => {}
        }
    }

    /// Fires due timers.
    fn end_due(&mut self, now: Timestamp) {
        while let Some(slot) = self.table.take_due(now) {
            let mut op = self.at(slot, now);
            match op.get().map(|op| op.kind) {
                Some(OpKind::Step | OpKind::Undo) => StepAttempts::of(op).due(),
                Some(OpKind::Sleep) => sleep::due(&mut op),
                Some(OpKind::Wait | OpKind::Question) => wait::due(&mut op),
                // The others have no timers.
                Some(_) | None => {}
            }
        }
    }

    fn at(&mut self, slot: Slot, now: Timestamp) -> OpCursor<'_> {
        OpCursor::new(self, slot, now)
    }
}
