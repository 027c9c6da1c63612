//! What a driver asks of a machine, and what it tells it beside the run's own doings.

use std::sync::Arc;

use crate::status::{Pause, Status};
use crate::time::Timestamp;

use super::op::{OpKind, Phase};
use super::{Machine, Slot, Trouble};

impl Machine {
    /// What makes the run stuck, if anything does.
    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// The run cannot go on.
    pub fn fail(&mut self, sentence: String) {
        self.trouble.get_or_insert(Trouble(sentence));
    }

    /// The reason of the cancel that was taken, if one was.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<&str> {
        self.cancel.as_deref()
    }

    /// Whether it is paused by hand.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Says that it is paused by hand, as its status was when it was claimed.
    pub fn hold(&mut self) {
        self.is_held = true;
    }

    /// Nothing is begun or delivered any more; what is at work may end.
    pub fn freeze(&mut self) {
        self.is_frozen = true;
    }

    /// Whether a message has been received, or there is none (0).
    #[must_use]
    pub fn has_received(&self, pos: u64) -> bool {
        pos <= self.seen || self.received.contains(&pos)
    }

    /// Has the run look again, as if a message had come.
    pub fn set_news(&mut self) {
        self.has_news = true;
    }

    /// Whether a message came that nobody has looked at.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// Whether a message came since this was last asked.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Whether an outcome waits to be delivered, and may be.
    #[must_use]
    pub fn has_deliverable(&self) -> bool {
        !self.is_held && !self.is_frozen && !self.is_over() && self.has_next()
    }

    /// Whether there is something to be made durable.
    #[must_use]
    pub fn has_outgoing(&self) -> bool {
        !self.outgoing.entries.is_empty() || !self.outgoing.taken.is_empty()
    }

    /// The inbox position up to which all messages have been received.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether there are control messages to [`act`](Self::act) on.
    #[must_use]
    pub fn has_controls(&self) -> bool {
        !self.controls.is_empty()
    }

    /// Why the run is to end at once, if it is.
    #[must_use]
    pub fn terminate_reason(&self) -> Option<&str> {
        self.terminate.as_deref()
    }

    /// The messages that are to leave the inbox with the run's next state.
    #[must_use]
    pub fn controls_done(&self) -> &[u64] {
        &self.controls_done
    }

    /// The run's state is durable, and the messages that made it are gone.
    pub fn forget_controls(&mut self) {
        self.controls_done.clear();
    }

    /// Whether all that was handed out is durable, and nothing of it is at work: nothing moves without time or a message.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.working == 0 && self.durable == self.seq
    }

    /// Whether all that was handed out is durable.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.durable == self.seq
    }

    /// The last number given.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// When something is due next.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        match self.is_held {
            true => None,
            false => self.timers.first().map(|(due, _)| *due),
        }
    }

    /// What to call the pause of a quiet run.
    #[must_use]
    pub fn pause(&self) -> Status {
        if self.is_held {
            return Status::Paused { why: Pause::Hand, until: None };
        }
        let Some(&(due, slot)) = self.timers.first() else {
            return Status::Paused { why: Pause::Wait, until: None };
        };
        let why = match self.ops[slot.0].as_ref().map(|op| op.kind) {
            Some(OpKind::Sleep) => Pause::Sleep,
            Some(OpKind::Step) => Pause::Retry,
            _ => Pause::Wait,
        };
        Status::Paused { why, until: Some(due) }
    }

    /// Whether anything is recorded that the code has not asked for.
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        self.records.unasked().next().is_some()
    }

    /// The operations that are recorded and that the code has not asked for, with the place of their call.
    pub fn orphans(&self) -> impl Iterator<Item = (&str, &str)> {
        self.records.unasked().map(|(op, site)| (&**op, &**site))
    }

    /// The identities of the outstanding operations that were polled, in order of identity.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Arc<str>> {
        let polled = self.ops.iter().flatten().filter(|op| !matches!(op.phase, Phase::Called));
        let mut keys: Vec<_> = polled.map(|op| op.key.clone()).collect();
        keys.sort();
        keys
    }

    /// The identity of an outstanding operation.
    #[must_use]
    pub fn key(&self, slot: Slot) -> Option<Arc<str>> {
        self.ops.get(slot.0)?.as_ref().map(|op| op.key.clone())
    }

    /// The operation to name when something else goes wrong: the one that was first polled last.
    #[must_use]
    pub fn last_awaited(&self) -> Option<(Arc<str>, Arc<str>)> {
        self.last_begun.clone()
    }
}
