//! Table tests of the run machine: a run that is paused by hand does nothing, and continues where it was.

use std::time::Duration;

use outlive_core::id::Name;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::time::Timestamp;
use outlive_core::workflow::{Machine, Mode, OpKind, Outcome, Polled, Slot, Spec, StepSpec, base};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn machine() -> Machine {
    Machine::new(Mode::Live, 7, at(0), &[]).unwrap()
}

fn begin(machine: &mut Machine, kind: OpKind, name: &str, spec: Spec, now: Timestamp) -> Slot {
    let slot = machine.open(kind, base("", kind, name, None), "src/shop.rs:12".into());
    machine.begin(slot, spec);
    machine.poll(slot, now);
    slot
}

fn sleep(machine: &mut Machine) -> Slot {
    begin(machine, OpKind::Sleep, "", Spec::SleepFor(Duration::from_secs(60)), at(0))
}

fn receive(machine: &mut Machine, pos: u64, message: Message) {
    machine.inbox_mut().receive(Inbound { pos, at: at(0), message });
}

/// Makes everything durable that is handed out.
fn commit(machine: &mut Machine) {
    let last = machine.take_outgoing().and_then(|outgoing| outgoing.entries.last().map(|last| last.seq));
    last.into_iter().for_each(|seq| machine.durable(seq));
}

#[test]
fn held_run_has_no_timer_and_ends_no_sleep() {
    let mut machine = machine();
    let slot = sleep(&mut machine);
    commit(&mut machine);
    receive(&mut machine, 1, Message::Pause);
    machine.act(at(1));
    assert_eq!((machine.pause().status(), machine.pause().due()), (Status::Paused, None));
    machine.act(at(99));
    assert!(machine.take_outgoing().is_none(), "the sleep does not end");
    receive(&mut machine, 2, Message::Resume);
    machine.act(at(100));
    commit(&mut machine);
    assert_eq!(machine.deliver(), Some(slot), "it was due in the meantime");
}

#[test]
fn held_run_gets_no_outcome_and_starts_no_body() {
    let mut machine = machine();
    let slot = begin(&mut machine, OpKind::Step, "a", Spec::Step(StepSpec::default()), at(0));
    receive(&mut machine, 1, Message::Pause);
    machine.act(at(0));
    assert!(matches!(machine.poll(slot, at(0)), Polled::Work(_)), "what is running finishes");
    machine.finish(slot, Ok(Payload::recorded("1")), at(1));
    commit(&mut machine);
    assert_eq!((machine.deliver(), machine.next_delivery().is_some()), (None, false));
    let other = begin(&mut machine, OpKind::Step, "b", Spec::Step(StepSpec::default()), at(2));
    machine.act(at(2));
    assert!(matches!(machine.poll(other, at(2)), Polled::Pending), "nothing begins");
    receive(&mut machine, 2, Message::Resume);
    machine.act(at(3));
    assert_eq!(machine.deliver(), Some(slot));
    assert!(matches!(machine.poll(slot, at(3)), Polled::Ready(Outcome::Value(_))));
    machine.act(at(3));
    assert!(matches!(machine.poll(other, at(3)), Polled::Work(_)));
}

#[test]
fn held_run_takes_no_signal_until_it_is_resumed() {
    let mut machine = machine();
    let name = Name::recorded("go");
    let wait = Spec::Wait { name: name.clone(), timeout: None, accepts: |_| Ok(()) };
    let slot = begin(&mut machine, OpKind::Wait, "go", wait, at(0));
    receive(&mut machine, 1, Message::Pause);
    receive(&mut machine, 2, Message::Signal { name, payload: Payload::recorded("1") });
    machine.act(at(1));
    assert!(machine.take_outgoing().is_none());
    assert_eq!(machine.inbox().controls_done(), [1], "the pause leaves the inbox with the new state, the signal stays");
    receive(&mut machine, 3, Message::Resume);
    machine.act(at(2));
    let outgoing = machine.take_outgoing().unwrap();
    assert_eq!(outgoing.taken, [2]);
    machine.durable(outgoing.entries[0].seq);
    assert_eq!(machine.deliver(), Some(slot));
}

/// A run without a timer or a wait depends on something foreign, unless it is paused before it could do anything.
#[test]
fn run_held_before_its_first_operation_is_not_forsaken() {
    let mut machine = machine();
    assert!(machine.pause().is_forsaken());
    machine.inbox_mut().hold();
    assert!(!machine.pause().is_forsaken());
}

#[test]
fn cancel_ends_a_pause_by_hand() {
    let mut machine = machine();
    let slot = sleep(&mut machine);
    commit(&mut machine);
    receive(&mut machine, 1, Message::Pause);
    machine.act(at(1));
    receive(&mut machine, 2, Message::Cancel { reason: "enough".into() });
    machine.act(at(2));
    assert!(!machine.inbox().is_held());
    commit(&mut machine);
    assert_eq!(machine.deliver(), Some(slot));
    assert!(matches!(machine.poll(slot, at(2)), Polled::Ready(Outcome::Cancelled)));
}
