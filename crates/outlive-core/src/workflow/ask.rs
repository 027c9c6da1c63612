//! What a driver asks of a machine, and what it tells it beside the run's own doings.

use std::sync::Arc;

use crate::mutant::{Mutant, is_on};
use crate::payload::Payload;
use crate::status::Status;
use crate::time::Timestamp;

use super::op::{Asked, OpKind, Outcome, Phase};
use super::{Machine, Slot, Trouble};

impl Machine {
    /// What makes the run stuck, if anything does.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// assert_eq!(machine.trouble(), None);
    /// ```
    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// The run cannot go on.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// machine.fail("step \"charge\" is gone; bring it back".to_owned());
    /// assert!(machine.trouble().unwrap().to_string().starts_with("step \"charge\" is gone"));
    /// ```
    pub fn fail(&mut self, sentence: String) {
        self.trouble.get_or_insert(Trouble(sentence));
    }

    /// The reason of the cancel that was taken, if one was.
    ///
    /// ```
    /// # use outlive_core::{message::*, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// machine.receive(Inbound { pos: 1, at, message: Message::Cancel { reason: "sold out".to_owned() } });
    /// machine.act(at);
    /// assert_eq!(machine.cancel_reason(), Some("sold out"));
    /// ```
    #[must_use]
    pub fn cancel_reason(&self) -> Option<&str> {
        self.cancel.as_deref()
    }

    /// Whether it is paused by hand.
    ///
    /// ```
    /// # use outlive_core::{message::*, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// machine.receive(Inbound { pos: 1, at, message: Message::Pause });
    /// machine.act(at);
    /// assert!(machine.is_held());
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Says that it is paused by hand, as its status was when it was claimed.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// machine.hold();
    /// assert!(machine.is_held());
    /// ```
    pub fn hold(&mut self) {
        self.is_held = true;
    }

    /// Nothing is begun or delivered any more; what is at work may end.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// let slot = machine.open(OpKind::Step, "step:charge".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::Step(StepSpec::default()));
    /// machine.freeze();
    /// assert!(!machine.act(at), "no step begins");
    /// ```
    pub fn freeze(&mut self) {
        self.is_frozen = true;
    }

    /// Whether a message has been received, or there is none (0).
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// assert!(machine.has_received(0) && !machine.has_received(1));
    /// ```
    #[must_use]
    pub fn has_received(&self, pos: u64) -> bool {
        pos <= self.seen || self.received.contains(&pos)
    }

    /// Has the run look again, as if a message had come.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// machine.set_news();
    /// assert!(machine.has_news());
    /// ```
    pub fn set_news(&mut self) {
        self.has_news = true;
    }

    /// Whether a message came that nobody has looked at.
    ///
    /// ```
    /// # use outlive_core::{message::*, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// machine.receive(Inbound { pos: 1, at, message: Message::Resume });
    /// assert!(machine.has_news());
    /// ```
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// Whether a message came since this was last asked.
    ///
    /// ```
    /// # use outlive_core::{message::*, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// machine.receive(Inbound { pos: 1, at, message: Message::Resume });
    /// assert!(machine.take_news() && !machine.take_news());
    /// ```
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Whether anything may be delivered: it is neither paused by hand nor frozen.
    #[must_use]
    pub fn may_deliver(&self) -> bool {
        !self.is_held && !self.is_frozen
    }

    /// Whether an outcome waits to be delivered, and may be.
    ///
    /// ```
    /// # use outlive_core::{payload::Payload, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// let slot = machine.open(OpKind::Step, "step:charge".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::Step(StepSpec::default()));
    /// machine.poll(slot, at);
    /// machine.finish(slot, Ok(Payload::recorded("42")), at);
    /// assert!(!machine.has_deliverable(), "it is not durable yet");
    /// machine.durable(1);
    /// assert!(machine.has_deliverable());
    /// ```
    #[must_use]
    pub fn has_deliverable(&self) -> bool {
        !self.is_held && !self.is_frozen && !self.is_over() && self.has_next()
    }

    /// The operation that [`deliver`](Self::deliver) hands an outcome to next.
    ///
    /// ```
    /// # use outlive_core::{journal::*, time::Timestamp, workflow::*};
    /// # let done = Entry { op: "sleep".into(), ..Entry::of_run(1, Timestamp::AT_ONCE, EntryKind::SleepDone) };
    /// # let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[done]).unwrap();
    /// let slot = machine.open(OpKind::Sleep, "sleep".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::SleepUntil(Timestamp::MAX));
    /// assert_eq!(machine.next_delivery(), Some(slot));
    /// assert_eq!(machine.deliver(), Some(slot));
    /// ```
    #[must_use]
    pub fn next_delivery(&self) -> Option<Slot> {
        let next = self.held.first().or_else(|| self.queue.front());
        next.filter(|_| self.has_deliverable()).map(|(_, slot)| *slot)
    }

    /// Whether there is something to be made durable.
    ///
    /// ```
    /// # use outlive_core::{payload::Payload, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// let slot = machine.open(OpKind::Step, "step:charge".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::Step(StepSpec::default()));
    /// machine.poll(slot, at);
    /// machine.finish(slot, Ok(Payload::recorded("42")), at);
    /// assert!(machine.has_outgoing());
    /// ```
    #[must_use]
    pub fn has_outgoing(&self) -> bool {
        !self.outgoing.entries.is_empty() || !self.outgoing.taken.is_empty()
    }

    /// The inbox position up to which all messages have been received.
    ///
    /// ```
    /// # use outlive_core::{message::*, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// assert_eq!(machine.seen(), 0);
    /// machine.receive_all(vec![Inbound { pos: 3, at, message: Message::Resume }]);
    /// assert_eq!(machine.seen(), 3);
    /// ```
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether there are control messages to [`act`](Self::act) on.
    ///
    /// ```
    /// # use outlive_core::{message::*, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// machine.receive(Inbound { pos: 1, at, message: Message::Pause });
    /// assert!(machine.has_controls());
    /// ```
    #[must_use]
    pub fn has_controls(&self) -> bool {
        !self.controls.is_empty()
    }

    /// Why the run is to end at once, if it is.
    ///
    /// ```
    /// # use outlive_core::{message::*, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// machine.receive(Inbound { pos: 1, at, message: Message::Terminate { reason: "by mistake".to_owned() } });
    /// assert_eq!(machine.terminate_reason(), Some("by mistake"));
    /// ```
    #[must_use]
    pub fn terminate_reason(&self) -> Option<&str> {
        self.terminate.as_deref()
    }

    /// The messages that are to leave the inbox with the run's next state.
    ///
    /// ```
    /// # use outlive_core::{message::*, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// machine.receive(Inbound { pos: 1, at, message: Message::Pause });
    /// machine.act(at);
    /// assert_eq!(machine.controls_done(), [1]);
    /// ```
    #[must_use]
    pub fn controls_done(&self) -> &[u64] {
        &self.controls_done
    }

    /// The run's state is durable, and the messages that made it are gone.
    ///
    /// ```
    /// # use outlive_core::{message::*, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// machine.receive(Inbound { pos: 1, at, message: Message::Pause });
    /// machine.act(at);
    /// machine.forget_controls();
    /// assert!(machine.controls_done().is_empty());
    /// ```
    pub fn forget_controls(&mut self) {
        self.controls_done.clear();
    }

    /// Whether all that was handed out is durable, and nothing of it is at work: nothing moves without time or a message.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// let slot = machine.open(OpKind::Step, "step:charge".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::Step(StepSpec::default()));
    /// machine.poll(slot, at);
    /// assert!(!machine.is_quiet(), "a body is at work");
    /// ```
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        (self.working == 0 || is_on(Mutant::PausedAtWork)) && self.durable == self.seq
    }

    /// Whether all that was handed out is durable.
    ///
    /// ```
    /// # use outlive_core::{payload::Payload, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// let slot = machine.open(OpKind::Step, "step:charge".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::Step(StepSpec::default()));
    /// machine.poll(slot, at);
    /// machine.finish(slot, Ok(Payload::recorded("42")), at);
    /// assert!(!machine.is_durable());
    /// machine.durable(1);
    /// assert!(machine.is_durable());
    /// ```
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.durable == self.seq
    }

    /// The number of the outcome that was delivered last; 0 before the first.
    ///
    /// ```
    /// # use outlive_core::{journal::*, time::Timestamp, workflow::*};
    /// # let done = Entry { op: "sleep".into(), ..Entry::of_run(1, Timestamp::AT_ONCE, EntryKind::SleepDone) };
    /// # let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[done]).unwrap();
    /// # let slot = machine.open(OpKind::Sleep, "sleep".into(), "src/shop.rs:12".into());
    /// # machine.begin(slot, Spec::SleepUntil(Timestamp::MAX));
    /// assert_eq!(machine.delivered(), 0);
    /// machine.deliver();
    /// assert_eq!(machine.delivered(), 1);
    /// ```
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The last number given.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// assert_eq!(machine.seq(), 0);
    /// ```
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// When something is due next.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// let slot = machine.open(OpKind::Sleep, "sleep".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::SleepUntil(Timestamp::from_millis(60_000)));
    /// machine.poll(slot, at);
    /// assert_eq!(machine.next_due(), Some(Timestamp::from_millis(60_000)));
    /// ```
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        match self.is_held {
            true => None,
            false => self.timers.first().map(|(due, _)| *due),
        }
    }

    /// Whether neither time nor a signal can have the run go on: nothing is due, nothing waits, and nobody paused it.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// assert!(machine.is_forsaken());
    /// let slot = machine.open(OpKind::Sleep, "sleep".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::SleepUntil(Timestamp::from_millis(60_000)));
    /// machine.poll(slot, at);
    /// assert!(!machine.is_forsaken());
    /// ```
    #[must_use]
    pub fn is_forsaken(&self) -> bool {
        !self.is_held && self.timers.is_empty() && self.waiting.values().all(Vec::is_empty)
    }

    /// What a quiet run waits for: what is due first comes first, then waits without a timeout. Lists at most `max` of
    /// each, and says whether there are more.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// let slot = machine.open(OpKind::Sleep, "sleep".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::SleepUntil(Timestamp::from_millis(60_000)));
    /// machine.poll(slot, at);
    /// let (awaited, has_more) = machine.awaited(10);
    /// assert!(&*awaited[0].op == "sleep" && !has_more);
    /// ```
    #[must_use]
    pub fn awaited(&self, max: usize) -> (Vec<Asked>, bool) {
        let listening = |slot: &Slot| self.op(*slot).is_some_and(|op| matches!(op.phase, Phase::Listening));
        let timed = self.timers.iter().map(|(_, slot)| *slot);
        let untimed = self.waiting.values().flatten().copied().filter(listening);
        let mut has_more = false;
        let mut found = Vec::new();
        for slots in [timed.take(max + 1).collect::<Vec<_>>(), untimed.take(max + 1).collect()] {
            has_more |= slots.len() > max;
            found.extend(slots.iter().take(max).filter_map(|slot| self.op(*slot)).map(Asked::of));
        }
        (found, has_more)
    }

    /// What to call the pause of a quiet run.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// let slot = machine.open(OpKind::Sleep, "sleep".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::SleepUntil(Timestamp::from_millis(60_000)));
    /// machine.poll(slot, at);
    /// assert_eq!(machine.pause().to_string(), "sleeping (until 1970-01-01T00:01:00Z)");
    /// ```
    #[must_use]
    pub fn pause(&self) -> Status {
        if self.is_held {
            return Status::Paused;
        }
        let Some(&(due, slot)) = self.timers.first() else {
            return Status::Waiting { until: None };
        };
        match self.ops[slot.0].as_ref().map(|op| op.kind) {
            Some(OpKind::Sleep) => Status::Sleeping { until: due },
            Some(OpKind::Step) => Status::Retrying { at: due },
            _ => Status::Waiting { until: Some(due) },
        }
    }

    /// Whether the body of an operation may be running.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// # let mut machine = Machine::new(Mode::Live, 7, at, &[]).unwrap();
    /// let slot = machine.open(OpKind::Step, "step:charge".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::Step(StepSpec::default()));
    /// assert!(!machine.is_working(slot));
    /// machine.poll(slot, at);
    /// assert!(machine.is_working(slot));
    /// ```
    #[must_use]
    pub fn is_working(&self, slot: Slot) -> bool {
        self.op(slot).is_some_and(super::op::Op::is_working)
    }

    /// Whether at most one operation is outstanding.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// machine.open(OpKind::Step, "step:charge".into(), "src/shop.rs:12".into());
    /// assert!(machine.is_single());
    /// machine.open(OpKind::Step, "step:label".into(), "src/shop.rs:13".into());
    /// assert!(!machine.is_single());
    /// ```
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.ops.len() - self.free.len() <= 1
    }

    /// Whether anything is recorded that the code has not asked for.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// assert!(!machine.has_orphans());
    /// ```
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        self.records.has_unasked()
    }

    /// The operations that are recorded and that the code has not asked for, with the place of their call.
    ///
    /// ```
    /// # use outlive_core::{journal::*, time::Timestamp, workflow::*};
    /// # let at = Timestamp::AT_ONCE;
    /// let slept = Entry::of_run(1, at, EntryKind::SleepDone);
    /// let entry = Entry { op: "sleep".into(), site: "src/shop.rs:12".into(), ..slept };
    /// let machine = Machine::new(Mode::Live, 7, at, &[entry]).unwrap();
    /// assert!(machine.orphans().eq([("sleep", "src/shop.rs:12")]));
    /// ```
    pub fn orphans(&self) -> impl Iterator<Item = (&str, &str)> {
        self.records.unasked().map(|(op, site)| (&**op, &**site))
    }

    /// The identities of the outstanding operations that were polled, in order of identity.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// let slot = machine.open(OpKind::Step, "step:charge".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::Step(StepSpec::default()));
    /// assert_eq!(machine.outstanding(), ["step:charge".into()]);
    /// ```
    #[must_use]
    pub fn outstanding(&self) -> Vec<Arc<str>> {
        let polled = self.ops.iter().flatten().filter(|op| !matches!(op.phase, Phase::Called));
        let mut keys: Vec<_> = polled.map(|op| op.key.clone()).collect();
        keys.sort();
        keys
    }

    /// The outstanding operations that were polled, in order of identity.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let mut machine = Machine::new(Mode::Shadow, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// let slot = machine.open(OpKind::Step, "step:charge".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::Step(StepSpec::default()));
    /// let asked = machine.asked();
    /// assert_eq!((&*asked[0].op, &*asked[0].site), ("step:charge", "src/shop.rs:12"));
    /// assert!(!asked[0].is_recorded, "the journal is empty");
    /// ```
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        let polled = self.ops.iter().flatten().filter(|op| !matches!(op.phase, Phase::Called));
        let mut asked: Vec<_> = polled.map(Asked::of).collect();
        asked.sort_by(|one, other| one.op.cmp(&other.op));
        asked
    }

    /// The identity of an outstanding operation.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// let slot = machine.open(OpKind::Step, "step:charge".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::Step(StepSpec::default()));
    /// assert_eq!(machine.key(slot).as_deref(), Some("step:charge"));
    /// ```
    #[must_use]
    pub fn key(&self, slot: Slot) -> Option<Arc<str>> {
        self.ops.get(slot.0)?.as_ref().map(|op| op.key.clone())
    }

    /// The value that is recorded for an operation and not delivered yet.
    ///
    /// ```
    /// # use outlive_core::{journal::*, payload::Payload, time::Timestamp, workflow::*};
    /// # let (at, payload) = (Timestamp::AT_ONCE, Some(Payload::recorded("42")));
    /// # let done = Entry { op: "step:a".into(), payload, ..Entry::of_run(1, at, EntryKind::StepDone) };
    /// # let mut machine = Machine::new(Mode::Shadow, 7, at, &[done]).unwrap();
    /// let slot = machine.open(OpKind::Step, "step:a".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::Step(StepSpec::default()));
    /// assert_eq!(machine.recorded(slot).map(Payload::as_str), Some("42"));
    /// ```
    #[must_use]
    pub fn recorded(&self, slot: Slot) -> Option<&Payload> {
        match &self.ops.get(slot.0)?.as_ref()?.phase {
            Phase::Settled { outcome: Outcome::Value(payload) | Outcome::Signal { payload, .. }, .. } => Some(payload),
            _ => None,
        }
    }

    /// The operation to name when something else goes wrong: the one that was first polled last.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, workflow::*};
    /// # let mut machine = Machine::new(Mode::Live, 7, Timestamp::AT_ONCE, &[]).unwrap();
    /// let slot = machine.open(OpKind::Step, "step:charge".into(), "src/shop.rs:12".into());
    /// machine.begin(slot, Spec::Step(StepSpec::default()));
    /// assert_eq!(machine.last_awaited(), Some(("step:charge".into(), "src/shop.rs:12".into())));
    /// ```
    #[must_use]
    pub fn last_awaited(&self) -> Option<(Arc<str>, Arc<str>)> {
        self.last_begun.clone()
    }
}
