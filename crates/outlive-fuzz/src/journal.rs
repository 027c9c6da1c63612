//! Loads any entries as the journal of a run, followed by any actions: rejected, or driven without a panic. What one
//! machine writes, the next one reads.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::failure::{Cause, Failure};
use outlive_core::id::Name;
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::retry::{Breaker, Retry, RetryBudget};
use outlive_core::time::Timestamp;
use outlive_core::workflow::{HeartbeatSource, Machine, Mode, OpKind, Polled, Slot, Spec, StepCare, StepSpec, base};

use crate::bytes::Bytes;

/// Operations as a journal names them: those that [`Driver::call`] calls, and some that nothing calls.
const OPS: [&str; 10] =
    ["step:a", "step:a#2", "step:b", "sleep", "sleep#2", "wait:a", "wait:b", "step:a[k]", "step:gone", ""];

const PAYLOADS: [&str; 7] = [
    "null",
    "\"enough\"",
    r#"{"cause":"error","message":"declined"}"#,
    r#"{"ended":"error","failure":{"cause":"error","message":"declined"}}"#,
    r#"{"ended":"max attempts","failure":{"cause":"timeout","message":"","permanent":true}}"#,
    "{",
    "[1]",
];

/// Loads a journal, and drives the run from there.
///
/// ```
/// outlive_fuzz::journal::run(&[1; 200]);
/// ```
///
/// # Panics
/// If a machine writes what it must not, or what the next one cannot read.
pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let journal: Vec<Entry> = (1..=bytes.below(12)).map(|seq| any_entry(&mut bytes, seq)).collect();
    let mode = if bytes.is(6) { Mode::Shadow } else { Mode::Live };
    let Ok(machine) = Machine::new(mode, bytes.any(), bytes.moment(), &journal) else { return };
    let handed = machine.recorder().seq();
    let (breaker, budget) = (Breaker::new(1, Duration::from_secs(1)), RetryBudget::new(0.5));
    let (open, positions) = (Vec::new(), 0);
    let mut driver = Driver { machine, bytes, journal, open, handed, positions, breaker, budget };
    while !driver.bytes.is_empty() && driver.machine.trouble().is_none() {
        driver.go_on();
    }
    driver.end();
}

fn any_entry(bytes: &mut Bytes<'_>, seq: u64) -> Entry {
    Entry {
        seq: if bytes.is(30) { bytes.any() } else { seq },
        at: bytes.moment(),
        kind: bytes.pick(&EntryKind::ALL),
        op: if bytes.is(20) { bytes.text() } else { bytes.pick(&OPS).to_owned() }.into(),
        site: bytes.pick(&["", "src/shop.rs:12"]).into(),
        attempt: if bytes.is(8) { bytes.any() } else { u32::try_from(bytes.below(4)).unwrap_or(0) },
        started: bytes.maybe(Bytes::moment),
        due: bytes.maybe(Bytes::moment),
        payload: bytes.maybe(|bytes| Payload::recorded(bytes.pick(&PAYLOADS))),
    }
}

/// User code, worker and store in one: does to a machine what they may do, in any order.
struct Driver<'a> {
    machine: Machine,
    bytes: Bytes<'a>,
    /// All entries that were loaded or handed out.
    journal: Vec<Entry>,
    open: Vec<Slot>,
    /// The number of the last entry handed out.
    handed: u64,
    /// The last position in the inbox.
    positions: u64,
    breaker: Breaker,
    budget: RetryBudget,
}

impl Driver<'_> {
    fn go_on(&mut self) {
        let now = self.bytes.moment();
        match self.bytes.below(12) {
            0 | 1 => self.call(),
            2..=4 => self.poll(),
            5 => {
                self.machine.deliver();
            }
            6 => {
                self.machine.act(now);
                self.machine.take_wakes();
            }
            7 => self.hand_out(),
            8 => self.acknowledge(),
            9 => self.receive(),
            10 => self.let_go(),
            _ => self.ask(),
        }
    }

    fn call(&mut self) {
        let (kind, name, spec) = match self.bytes.below(3) {
            0 => (OpKind::Step, self.bytes.pick(&["a", "b"]), Spec::Step(self.step())),
            1 if self.bytes.is(2) => (OpKind::Sleep, "", Spec::SleepUntil(self.bytes.moment())),
            1 => (OpKind::Sleep, "", Spec::SleepFor(self.bytes.duration())),
            _ => {
                let name = self.bytes.pick(&["a", "b"]);
                let timeout = self.bytes.maybe(Bytes::duration);
                (OpKind::Wait, name, Spec::Wait { name: Name::recorded(name), timeout, accepts: |_| Ok(()) })
            }
        };
        let key = if self.bytes.is(3) { Some("k") } else { None };
        let slot = self.machine.open(kind, base("", kind, name, None), Arc::from("src/shop.rs:31"));
        if key.is_some() {
            self.machine.rename(slot, base("", kind, name, key));
        }
        if kind == OpKind::Step && self.bytes.is(4) {
            let old = self.bytes.pick(&["a", "b", "gone"]);
            self.machine.alias(slot, base("", kind, old, key));
        }
        self.open.push(slot);
        // Some are called and never awaited.
        if !self.bytes.is(8) {
            self.machine.begin(slot, spec);
        }
    }

    fn step(&mut self) -> StepSpec {
        let retry = |bytes: &mut Bytes<'_>| match bytes.below(3) {
            0 => Retry::times(2).constant(bytes.duration()),
            1 => Retry::forever().exponential("1 s"),
            _ => Retry::times(1).max_duration(bytes.duration()),
        };
        StepSpec {
            retry: self.bytes.maybe(retry).map(Arc::new),
            attempt_timeout: self.bytes.maybe(Bytes::duration),
            total_timeout: self.bytes.maybe(Bytes::duration),
            is_at_most_once: self.bytes.is(4),
            has_fallback: self.bytes.is(4),
            care: if self.bytes.is(3) { Some(self.care().into()) } else { None },
        }
    }

    fn care(&mut self) -> StepCare {
        let heartbeat_timeout = self.bytes.maybe(Bytes::duration);
        StepCare {
            breaker: if self.bytes.is(2) { Some(self.breaker.share()) } else { None },
            budget: if self.bytes.is(2) { Some(self.budget.share()) } else { None },
            heartbeat_timeout,
            ..StepCare::default()
        }
    }

    /// Sends a heartbeat of any attempt, and has any operation ask its breaker again.
    fn beat(&mut self, slot: Slot, now: Timestamp) {
        let op = self.machine.operations().key(slot).unwrap_or_else(|| Arc::from(""));
        let attempt = u32::try_from(self.bytes.below(4)).unwrap_or(1);
        self.machine.attempts().heartbeat(&HeartbeatSource { slot, op, attempt }, Payload::recorded("7"), now);
        self.machine.attempts().ask_again(slot);
    }

    fn slot(&mut self) -> Option<usize> {
        let count = self.open.len() as u64;
        (count > 0).then(|| usize::try_from(self.bytes.below(count)).unwrap_or(0))
    }

    fn poll(&mut self) {
        let Some(index) = self.slot() else { return };
        let (slot, now) = (self.open[index], self.bytes.moment());
        if self.bytes.is(4) {
            self.beat(slot, now);
        }
        match self.machine.poll(slot, now) {
            Polled::Pending => {}
            Polled::Ready(_) => {
                self.open.swap_remove(index);
            }
            Polled::Work(attempt) => {
                assert!(attempt.number > 0 || attempt.fallback_for.is_some(), "attempts count from 1: {attempt:?}");
                let result = match self.bytes.below(3) {
                    0 => return,
                    1 => Ok(Payload::recorded("42")),
                    _ => Err(Failure::new(Cause::Error, "declined")),
                };
                self.machine.finish(slot, result, now);
            }
        }
    }

    /// Checks that what goes to the store has no gap.
    fn hand_out(&mut self) {
        let Some(outgoing) = self.machine.take_outgoing() else { return };
        assert_eq!(outgoing.seq_before, self.handed);
        for entry in outgoing.entries {
            self.handed += 1;
            assert_eq!(entry.seq, self.handed);
            self.journal.push(entry);
        }
    }

    fn acknowledge(&mut self) {
        let seq = self.bytes.below(self.handed + 1);
        self.machine.durable(seq);
    }

    fn receive(&mut self) {
        self.positions += self.bytes.below(3);
        let message = match self.bytes.below(8) {
            0 => Message::Cancel { reason: "enough".to_owned() },
            1 => Message::Terminate { reason: "out".to_owned() },
            2 => Message::Pause,
            3 => Message::Resume,
            _ => {
                Message::Signal { name: Name::recorded(self.bytes.pick(&["a", "b"])), payload: Payload::recorded("1") }
            }
        };
        let pos = if self.bytes.is(20) { self.bytes.any() } else { self.positions };
        let inbound = Inbound { pos, at: self.bytes.moment(), message };
        if self.bytes.is(2) {
            self.machine.inbox_mut().receive(inbound)
        } else {
            self.machine.inbox_mut().receive_all(vec![inbound])
        }
    }

    fn let_go(&mut self) {
        if let Some(index) = self.slot() {
            self.machine.close(self.open.swap_remove(index));
        }
    }

    fn ask(&mut self) {
        match self.bytes.below(12) {
            0 => self.machine.inbox_mut().hold(),
            1 => self.machine.freeze(),
            2 => self.machine.inbox_mut().forget_controls(),
            3 => {
                let now = self.bytes.moment();
                self.machine.take_controls(now);
            }
            _ => {
                let machine = &self.machine;
                let _ = (
                    machine.pause().status(),
                    machine.pause().due(),
                    machine.pause().awaited(2),
                    machine.last_awaited(),
                );
                let _ = (machine.records().orphans().count(), machine.operations().outstanding());
                let _ = (machine.operations().is_quiet(), machine.next_delivery().is_some());
            }
        }
    }

    /// Checks that what was loaded and written can be loaded again.
    fn end(mut self) {
        self.hand_out();
        while let Some(slot) = self.open.pop() {
            self.machine.close(slot);
        }
        let again = Machine::new(Mode::Live, 0, self.machine.now(), &self.journal);
        if let Err(trouble) = again {
            panic!("a machine cannot read what one wrote: {trouble}: {:#?}", self.journal);
        }
        let _ = self.machine.now().since(self.machine.now().after(Duration::MAX));
    }
}
