//! The messages of a run: signals, control messages, and what has been received.

use std::collections::{BTreeSet, VecDeque};

use crate::message::{Inbound, Message};
use crate::output::QuestionKey;
use crate::restart::CarriedSignal;

use super::Slot;
use super::signals::Signals;
use super::spec::ChildKey;

/// The messages of a run, and its waits for signals.
#[derive(Default)]
pub struct RunInbox {
    /// Allocated with the first message or wait: many runs have neither.
    messages: Option<Box<RunMessages>>,
}

#[derive(Default)]
struct RunMessages {
    signals: Signals,
    /// Control messages that have not been taken yet.
    controls: VecDeque<(u64, Message)>,
    /// Control messages that take effect with the run's next state and leave the inbox with it.
    controls_done: Vec<u64>,
    /// The reason of a terminate message, once there is one.
    terminate: Option<String>,
    /// The reason of the cancel message, once it is taken.
    cancel: Option<String>,
    /// Whether the run is paused by hand.
    is_held: bool,
    /// Whether a message arrived since this was last checked.
    has_new: bool,
    /// All messages up to this inbox position have been received.
    seen: u64,
    /// Messages beyond `seen` that have been received too.
    received: BTreeSet<u64>,
}

impl RunInbox {
    /// Receives messages without a gap: all up to the last of these have arrived. Those that cannot be acted on yet are
    /// kept.
    pub fn receive_all(&mut self, inbox: Vec<Inbound>) {
        if !inbox.is_empty() {
            self.allocate().receive_all(inbox);
        }
    }

    /// Receives one message. Messages from other processes with lower positions may not have been received yet.
    pub fn receive(&mut self, inbound: Inbound) {
        self.allocate().receive(inbound);
    }

    /// Returns `true` if the message at `pos` has been received. Always `true` for 0, which stands for no message.
    #[must_use]
    pub fn has_received(&self, pos: u64) -> bool {
        pos == 0 || self.messages.as_ref().is_some_and(|inbox| pos <= inbox.seen || inbox.received.contains(&pos))
    }

    /// Returns the inbox position up to which all messages have been received.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.messages.as_ref().map_or(0, |inbox| inbox.seen)
    }

    /// Makes the run look again, as if a message had arrived.
    pub fn look_again(&mut self) {
        self.allocate().has_new = true;
    }

    /// Returns `true` if a message arrived since the last [`take_new`](Self::take_new).
    #[must_use]
    pub fn has_new(&self) -> bool {
        self.messages.as_ref().is_some_and(|inbox| inbox.has_new)
    }

    /// Returns `true` if a message arrived since the last call, and resets the flag.
    pub fn take_new(&mut self) -> bool {
        self.messages.as_mut().is_some_and(|inbox| std::mem::take(&mut inbox.has_new))
    }

    /// Returns the reason of the cancel message, once it is taken.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<&str> {
        self.messages.as_ref()?.cancel.as_deref()
    }

    /// Returns the reason of the terminate message, if there is one.
    #[must_use]
    pub fn terminate_reason(&self) -> Option<&str> {
        self.messages.as_ref()?.terminate.as_deref()
    }

    /// Returns `true` if the run is paused by hand.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.messages.as_ref().is_some_and(|inbox| inbox.is_held)
    }

    /// Marks the run as paused by hand, because a message asks for it or that was its status when it was claimed.
    pub fn hold(&mut self) {
        self.allocate().is_held = true;
    }

    /// Returns `true` if there are control messages to [`act`](super::Machine::act) on.
    #[must_use]
    pub fn has_controls(&self) -> bool {
        self.messages.as_ref().is_some_and(|inbox| !inbox.controls.is_empty())
    }

    /// Returns the messages that leave the inbox with the run's next state.
    #[must_use]
    pub fn controls_done(&self) -> &[u64] {
        self.messages.as_ref().map_or(&[], |inbox| &inbox.controls_done)
    }

    /// Forgets the messages in [`controls_done`](Self::controls_done), once the state that took them is durable.
    pub fn forget_controls(&mut self) {
        self.messages.iter_mut().for_each(|inbox| inbox.controls_done.clear());
    }

    // ---- called by the machine ----

    /// Ends a pause by hand.
    pub(super) fn release(&mut self) {
        self.messages.iter_mut().for_each(|inbox| inbox.is_held = false);
    }

    /// Notes that the cancel message is taken.
    pub(super) fn set_cancel(&mut self, reason: String) {
        self.allocate().cancel = Some(reason);
    }

    /// Takes the control message that arrived first.
    pub(super) fn next_control(&mut self) -> Option<(u64, Message)> {
        self.messages.as_mut()?.controls.pop_front()
    }

    /// Puts a control message back in front of all others, because it cannot be taken yet.
    pub(super) fn put_back(&mut self, pos: u64, message: Message) {
        self.allocate().controls.push_front((pos, message));
    }

    /// Notes that a control message takes effect with the run's next state.
    pub(super) fn control_done(&mut self, pos: u64) {
        self.allocate().controls_done.push(pos);
    }

    /// Adds a wait for a signal.
    pub(super) fn wait(&mut self, name: &str, slot: Slot) {
        self.allocate().signals.wait(name, slot);
    }

    /// Returns the signals and the waits for them, unless there never was one.
    pub(super) fn signals(&self) -> Option<&Signals> {
        self.messages.as_ref().map(|inbox| &inbox.signals)
    }

    /// Returns the signals and the waits for them, unless there never was one.
    pub(super) fn signals_mut(&mut self) -> Option<&mut Signals> {
        self.messages.as_mut().map(|inbox| &mut inbox.signals)
    }

    /// Marks signals as bound to waits or refused, as the journal has it: inbox positions, and for a bound signal the
    /// number of the entry.
    pub(super) fn restore(&mut self, given: Vec<(u64, u64)>, refused: Vec<u64>) {
        if given.is_empty() && refused.is_empty() {
            return;
        }
        let signals = &mut self.allocate().signals;
        given.into_iter().for_each(|(pos, seq)| signals.give(pos, seq));
        refused.into_iter().for_each(|pos| signals.refuse(pos));
    }

    /// Receives the signals that a run took along when it restarted.
    pub(super) fn carry(&mut self, signals: Vec<CarriedSignal>) {
        signals.into_iter().for_each(|signal| self.allocate().signals.carry(signal));
    }

    fn allocate(&mut self) -> &mut RunMessages {
        self.messages.get_or_insert_default()
    }
}

impl RunMessages {
    fn receive_all(&mut self, inbox: Vec<Inbound>) {
        let last = inbox.iter().map(|inbound| inbound.pos).max().unwrap_or(0);
        inbox.into_iter().for_each(|inbound| self.receive(inbound));
        self.seen = self.seen.max(last);
        let seen = self.seen;
        self.received.retain(|pos| *pos > seen);
    }

    /// Receives one message, unless it was received before.
    fn receive(&mut self, inbound: Inbound) {
        if inbound.pos <= self.seen || !self.received.insert(inbound.pos) {
            return;
        }
        self.has_new = true;
        match inbound.message {
            Message::Signal { name, payload } => self.signals.put(name.as_str(), inbound.pos, payload),
            Message::ChildEnded { id, outcome } => {
                self.signals.put(ChildKey::new(id.as_str()).as_str(), inbound.pos, outcome);
            }
            Message::Question { name, payload } => {
                self.signals.put(QuestionKey::new(name.as_str()).into_name().as_str(), inbound.pos, payload);
            }
            Message::Terminate { reason } => self.terminate = Some(reason),
            other => self.controls.push_back((inbound.pos, other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    /// Regression: the position after the highest possible one overflowed.
    #[test]
    fn message_at_the_highest_position_is_received() {
        let mut inbox = RunInbox::default();
        inbox.receive_all(vec![Inbound { pos: u64::MAX, at: Timestamp::AT_ONCE, message: Message::Pause }]);
        assert!(inbox.has_received(u64::MAX));
    }
}
