//! Machine state that a driver reads, and the few switches it sets.

use std::sync::Arc;

use crate::payload::Payload;
use crate::status::Status;
use crate::time::Timestamp;

use super::inbox::RunInbox;
use super::op::{Asked, OpPhase};
use super::spec::{OpKind, Outcome};
use super::{Machine, Slot, Trouble};

impl Machine {
    /// Returns why the run is stuck, if it is.
    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Makes the run stuck, unless it already is. `sentence` says why and what to do.
    pub fn fail(&mut self, sentence: String) {
        self.trouble.get_or_insert(Trouble(sentence));
    }

    /// Returns the reason of the cancel message, once it is taken.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<&str> {
        self.inbox.as_ref()?.cancel.as_deref()
    }

    /// Returns `true` if the run is paused by hand.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.inbox.as_ref().is_some_and(|inbox| inbox.is_held)
    }

    /// Marks the run as paused by hand, because that was its status when it was claimed.
    pub fn hold(&mut self) {
        self.inbox_mut().is_held = true;
    }

    /// Stops the machine from beginning or delivering anything. Bodies that are running may finish.
    pub fn freeze(&mut self) {
        self.is_frozen = true;
    }

    /// Returns `true` if the message at `pos` has been received. Always `true` for 0, which stands for no message.
    #[must_use]
    pub fn has_received(&self, pos: u64) -> bool {
        pos == 0 || self.inbox.as_ref().is_some_and(|inbox| inbox.has_received(pos))
    }

    /// Makes the run look again, as if a message had arrived.
    pub fn look_again(&mut self) {
        self.inbox_mut().has_new = true;
    }

    /// Returns `true` if a message arrived since the last [`take_new`](Self::take_new).
    #[must_use]
    pub fn has_new(&self) -> bool {
        self.inbox.as_ref().is_some_and(|inbox| inbox.has_new)
    }

    /// Returns `true` if a message arrived since the last call, and resets the flag.
    pub fn take_new(&mut self) -> bool {
        self.inbox.as_mut().is_some_and(|inbox| std::mem::take(&mut inbox.has_new))
    }

    /// Returns `true` if the run is neither paused by hand nor frozen, so that outcomes may be delivered.
    #[must_use]
    pub fn may_deliver(&self) -> bool {
        !self.is_frozen && !self.is_held()
    }

    /// Returns `true` if an outcome is waiting and may be delivered.
    #[must_use]
    pub fn has_deliverable(&self) -> bool {
        self.may_deliver() && !self.is_over() && self.has_next()
    }

    /// Returns the operation that the next [`deliver`](Self::deliver) makes ready.
    #[must_use]
    pub fn next_delivery(&self) -> Option<Slot> {
        self.deliveries.next().filter(|_| self.has_deliverable())
    }

    /// Returns `true` if there is something to make durable.
    #[must_use]
    pub fn has_outgoing(&self) -> bool {
        self.recorder.has_outgoing()
    }

    /// Returns the inbox position up to which all messages have been received.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.inbox.as_ref().map_or(0, |inbox| inbox.seen())
    }

    /// Returns `true` if there are control messages to [`act`](Self::act) on.
    #[must_use]
    pub fn has_controls(&self) -> bool {
        self.inbox.as_ref().is_some_and(|inbox| !inbox.controls.is_empty())
    }

    /// Returns the reason of the terminate message, if there is one.
    #[must_use]
    pub fn terminate_reason(&self) -> Option<&str> {
        self.inbox.as_ref()?.terminate.as_deref()
    }

    /// Returns the messages that leave the inbox with the run's next state.
    #[must_use]
    pub fn controls_done(&self) -> &[u64] {
        self.inbox.as_ref().map_or(&[], |inbox| &inbox.controls_done)
    }

    /// Forgets the messages in [`controls_done`](Self::controls_done), once the state that took them is durable.
    pub fn forget_controls(&mut self) {
        self.inbox.iter_mut().for_each(|inbox| inbox.controls_done.clear());
    }

    /// Returns `true` if every entry is durable and no body is running, so only time or a message can move the run.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.ops.working() == 0 && self.is_durable()
    }

    /// Returns `true` if every entry is durable.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.recorder.is_durable()
    }

    /// Returns the number of the last delivered outcome; 0 before the first.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.deliveries.last()
    }

    /// Returns the last sequence number in use.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.recorder.seq()
    }

    /// Returns the time of the next timer, unless the run is paused by hand.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.ops.timers().next().filter(|_| !self.is_held()).map(|(due, _)| due)
    }

    /// Returns `true` if neither time nor a signal can resume the run: it has no timer and no wait, and is not paused
    /// by hand.
    #[must_use]
    pub fn is_forsaken(&self) -> bool {
        let has_waits = |inbox: &RunInbox| inbox.is_held || inbox.waiting.values().any(|slots| !slots.is_empty());
        self.ops.timers().next().is_none() && !self.inbox.as_deref().is_some_and(has_waits)
    }

    /// Returns what a quiet run waits for: timers by due time, then waits without a timeout, at most `max` of each. The
    /// flag is `true` if there are more.
    #[must_use]
    pub fn awaited(&self, max: usize) -> (Vec<Asked>, bool) {
        let listening = |slot: &Slot| matches!(self.ops.phase(*slot), Some(OpPhase::Listening));
        let timed = self.ops.timers().map(|(_, slot)| slot);
        let waiting = self.inbox.iter().flat_map(|inbox| inbox.waiting.values()).flatten();
        let untimed = waiting.copied().filter(listening);
        let mut has_more = false;
        let mut found = Vec::new();
        for slots in [timed.take(max + 1).collect::<Vec<_>>(), untimed.take(max + 1).collect()] {
            has_more |= slots.len() > max;
            found.extend(slots.iter().take(max).filter_map(|slot| self.ops.get(*slot)).map(Asked::of));
        }
        (found, has_more)
    }

    /// Returns the status of a quiet run, which is paused.
    #[must_use]
    pub fn pause(&self) -> Status {
        if self.is_held() {
            return Status::Paused;
        }
        let Some((due, slot)) = self.ops.timers().next() else {
            return Status::Waiting { until: None };
        };
        match self.ops.get(slot).map(|op| op.kind) {
            Some(OpKind::Sleep) => Status::Sleeping { until: due },
            Some(OpKind::Step) => Status::Retrying { at: due },
            _ => Status::Waiting { until: Some(due) },
        }
    }

    /// Returns `true` if the body of the operation may be running.
    #[must_use]
    pub fn is_working(&self, slot: Slot) -> bool {
        self.ops.get(slot).is_some_and(super::op::Op::is_working)
    }

    /// Returns `true` if at most one operation is outstanding.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.ops.len() <= 1
    }

    /// Returns `true` if the journal has operations that the code has not asked for.
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        self.records.has_unasked()
    }

    /// Returns the recorded operations that the code has not asked for, each with its call site.
    pub fn orphans(&self) -> impl Iterator<Item = (&str, &str)> {
        self.records.unasked().map(|(op, site)| (&**op, &**site))
    }

    /// Returns the identities of the outstanding operations that were polled, sorted.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Arc<str>> {
        let polled = self.ops.iter().map(|(_, op)| op).filter(|op| !matches!(op.phase, OpPhase::Called));
        let mut keys: Vec<_> = polled.map(|op| op.key.clone()).collect();
        keys.sort();
        keys
    }

    /// Returns the outstanding operations that were polled, sorted by identity.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        let polled = self.ops.iter().map(|(_, op)| op).filter(|op| !matches!(op.phase, OpPhase::Called));
        let mut asked: Vec<_> = polled.map(Asked::of).collect();
        asked.sort_by(|one, other| one.op.cmp(&other.op));
        asked
    }

    /// Returns the identity of an outstanding operation.
    #[must_use]
    pub fn key(&self, slot: Slot) -> Option<Arc<str>> {
        self.ops.get(slot).map(|op| op.key.clone())
    }

    /// Returns the recorded value of an operation that is not delivered yet.
    #[must_use]
    pub fn recorded(&self, slot: Slot) -> Option<&Payload> {
        match self.ops.phase(slot)? {
            OpPhase::Settled { outcome: Outcome::Value(payload) | Outcome::Signal { payload, .. }, .. } => {
                Some(payload)
            }
            _ => None,
        }
    }

    /// Returns the operation that most recently had its first poll, and its call site: the one to name when something
    /// else goes wrong.
    #[must_use]
    pub fn last_awaited(&self) -> Option<(Arc<str>, Arc<str>)> {
        self.last_begun.clone()
    }
}
