//! The messages of a run: signals and the waits for them, control messages, and what has been received.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::message::{Inbound, Message};

use super::Slot;
use super::signals::Signals;

/// The messages of a run that has any, or waits for some.
#[derive(Default)]
pub(super) struct RunInbox {
    pub(super) signals: Signals,
    /// Waits by signal name, in order of their first poll.
    pub(super) waiting: BTreeMap<Box<str>, Vec<Slot>>,
    /// Control messages that have not been taken yet.
    pub(super) controls: VecDeque<(u64, Message)>,
    /// Control messages that take effect with the run's next state and leave the inbox with it.
    pub(super) controls_done: Vec<u64>,
    /// The reason of a terminate message, once there is one.
    pub(super) terminate: Option<String>,
    /// The reason of the cancel message, once it is taken.
    pub(super) cancel: Option<String>,
    /// Whether the run is paused by hand.
    pub(super) is_held: bool,
    /// Whether a message arrived since this was last checked.
    pub(super) has_new: bool,
    /// All messages up to this inbox position have been received.
    seen: u64,
    /// Messages beyond `seen` that have been received too.
    received: BTreeSet<u64>,
}

impl RunInbox {
    /// Receives messages without a gap: all up to the last of these have arrived.
    pub(super) fn receive_all(&mut self, inbox: Vec<Inbound>) {
        let last = inbox.iter().map(|inbound| inbound.pos).max().unwrap_or(0);
        inbox.into_iter().for_each(|inbound| self.receive(inbound));
        self.seen = self.seen.max(last);
        let seen = self.seen;
        self.received.retain(|pos| *pos > seen);
    }

    /// Receives one message, unless it was received before.
    pub(super) fn receive(&mut self, inbound: Inbound) {
        if inbound.pos <= self.seen || !self.received.insert(inbound.pos) {
            return;
        }
        self.has_new = true;
        match inbound.message {
            Message::Signal { name, payload } => self.signals.put(name.as_str(), inbound.pos, payload),
            Message::Terminate { reason } => self.terminate = Some(reason),
            other => self.controls.push_back((inbound.pos, other)),
        }
    }

    pub(super) fn has_received(&self, pos: u64) -> bool {
        pos <= self.seen || self.received.contains(&pos)
    }

    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// Adds a wait for a signal.
    pub(super) fn wait(&mut self, name: &str, slot: Slot) {
        match self.waiting.get_mut(name) {
            Some(slots) => slots.push(slot),
            None => drop(self.waiting.insert(name.into(), vec![slot])),
        }
    }

    /// Removes a wait for a signal.
    pub(super) fn stop_waiting(&mut self, name: &str, slot: Slot) {
        if let Some(slots) = self.waiting.get_mut(name) {
            slots.retain(|other| *other != slot);
        }
    }
}
