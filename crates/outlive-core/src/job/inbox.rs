//! The inbox of an instance in memory: the messages that were received and not taken yet, in order.

use std::collections::VecDeque;

use crate::kind::JobKind;
use crate::message::{Inbound, Message};

/// The messages of an instance that are not taken yet.
#[derive(Clone, Debug)]
pub struct JobInbox {
    kind: JobKind,
    /// Sorted by position.
    messages: VecDeque<Inbound>,
    /// How many messages need no handler, and how many end the instance. A long inbox is searched only if there are
    /// any.
    order_count: usize,
    end_count: usize,
    /// The last position that was received.
    seen: u64,
}

impl JobInbox {
    /// Creates the empty inbox of an instance of this kind.
    pub(super) fn new(kind: JobKind) -> Self {
        Self { kind, messages: VecDeque::new(), order_count: 0, end_count: 0, seen: 0 }
    }

    /// Returns the last position that was received.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns `true` if the message at `pos` was received. Always `true` for 0, which stands for no message.
    #[must_use]
    pub fn has_received(&self, pos: u64) -> bool {
        pos <= self.seen
    }

    /// Returns `true` if there is a message that ends the instance at once.
    #[must_use]
    pub fn has_end(&self) -> bool {
        self.end_count > 0
    }

    /// Adds a message. Ignores one that was received before.
    pub(super) fn receive(&mut self, inbound: Inbound) {
        if inbound.pos > self.seen {
            self.seen = inbound.pos;
            self.insert(self.messages.len(), inbound);
        }
    }

    /// Returns the next message.
    pub(super) fn front(&self) -> Option<&Inbound> {
        self.messages.front()
    }

    /// Returns the message at a position.
    pub(super) fn get(&self, pos: u64) -> Option<&Inbound> {
        self.place_of(pos).ok().and_then(|place| self.messages.get(place))
    }

    /// Returns all messages in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Inbound> {
        self.messages.iter()
    }

    /// Returns the messages that need no handler, whatever else is in progress.
    pub(super) fn orders(&self) -> Vec<Inbound> {
        if self.order_count == 0 {
            return Vec::new();
        }
        self.iter().filter(|inbound| self.is_order(&inbound.message)).cloned().collect()
    }

    /// Returns the position and the reason of the last message that ends the instance.
    pub(super) fn last_end(&self) -> Option<(u64, String)> {
        if !self.has_end() {
            return None;
        }
        self.messages.iter().rev().find_map(|inbound| match &inbound.message {
            Message::Terminate { reason } | Message::Cancel { reason } => Some((inbound.pos, reason.clone())),
            _ => None,
        })
    }

    /// Removes the message at a position. Returns `true` if it was there.
    pub(super) fn remove(&mut self, pos: u64) -> bool {
        let removed = self.place_of(pos).ok().and_then(|place| self.messages.remove(place));
        if let Some(inbound) = &removed {
            self.order_count -= usize::from(self.is_order(&inbound.message));
            self.end_count -= usize::from(inbound.message.is_end());
        }
        removed.is_some()
    }

    /// Puts back a message that was removed. Ignores one that is there.
    pub(super) fn put_back(&mut self, inbound: &Inbound) {
        if let Err(place) = self.place_of(inbound.pos) {
            self.insert(place, inbound.clone());
        }
    }

    fn insert(&mut self, place: usize, inbound: Inbound) {
        self.order_count += usize::from(self.is_order(&inbound.message));
        self.end_count += usize::from(inbound.message.is_end());
        self.messages.insert(place, inbound);
    }

    fn place_of(&self, pos: u64) -> Result<usize, usize> {
        self.messages.binary_search_by_key(&pos, |inbound| inbound.pos)
    }

    /// Returns `true` if a message needs no handler, whatever else is in progress.
    fn is_order(&self, message: &Message) -> bool {
        match (message, self.kind) {
            (Message::Event(_), JobKind::Continuous) => true,
            (Message::Event(_), _) | (Message::Trigger, JobKind::Debounce) => false,
            _ => true,
        }
    }
}
