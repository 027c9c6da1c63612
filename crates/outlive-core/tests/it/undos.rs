//! Table tests of the run machine: undos that are planned, done, lost and repeated.

use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::time::Timestamp;
use outlive_core::workflow::{Machine, Mode, OpKind, Outcome, Polled, Slot, Spec, StepSpec, base};

const NOW: Timestamp = Timestamp::from_millis(1_000);

fn machine(journal: &[Entry]) -> Machine {
    Machine::new(Mode::Live, 7, NOW, journal).unwrap()
}

fn begin(machine: &mut Machine, kind: OpKind, identity: &str, spec: Spec) -> Slot {
    let slot = machine.open(kind, identity.into(), "src/shop.rs:12".into());
    machine.begin(slot, spec);
    slot
}

/// Opens a step with undos.
fn step(machine: &mut Machine, name: &str, undos: &[&str]) -> Slot {
    let slot = begin(machine, OpKind::Step, &base("", OpKind::Step, name, None), Spec::Step(StepSpec::default()));
    let key = machine.operations().key(slot).unwrap();
    machine.undos_mut().declare(slot, vec![key], undos.iter().copied());
    slot
}

fn undo(machine: &mut Machine, identity: &str) -> Slot {
    begin(machine, OpKind::Undo, identity, Spec::Step(StepSpec::default()))
}

/// Runs the body of an operation and returns what is committed.
fn finish(machine: &mut Machine, slot: Slot) -> Vec<Entry> {
    machine.act(NOW);
    assert!(matches!(machine.poll(slot, NOW), Polled::Work(_)));
    machine.finish(slot, Ok(Payload::recorded("42")), NOW);
    let outgoing = machine.take_outgoing().unwrap();
    machine.durable(outgoing.entries.last().unwrap().seq);
    assert_eq!(machine.deliver(), Some(slot));
    assert!(matches!(machine.poll(slot, NOW), Polled::Ready(Outcome::Value(_))));
    outgoing.entries
}

fn lines(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| format!("{} {} {}", entry.seq, entry.kind.as_str(), entry.op)).collect()
}

fn left(machine: &Machine) -> Vec<String> {
    machine.undos().left().iter().map(|undo| undo.op.to_string()).collect()
}

/// A run that has charged, was undone and failed.
fn undone() -> Vec<Entry> {
    let mut machine = machine(&[]);
    let slot = step(&mut machine, "charge", &["refund"]);
    let mut journal = finish(&mut machine, slot);
    machine.undos_mut().unwind();
    let unwind = begin(&mut machine, OpKind::Unwind, "unwind", Spec::Unwind("no stock".into()));
    machine.act(NOW);
    machine.poll(unwind, NOW);
    let outgoing = machine.take_outgoing().unwrap();
    machine.durable(outgoing.entries[0].seq);
    journal.extend(outgoing.entries);
    machine.deliver();
    machine.poll(unwind, NOW);
    let slot = undo(&mut machine, "undo:refund[step:charge]");
    journal.extend(finish(&mut machine, slot));
    journal
}

#[test]
fn undos_are_recorded_in_the_commit_of_the_success() {
    let mut machine = machine(&[]);
    let slot = step(&mut machine, "charge", &["refund", "mail"]);
    assert!(left(&machine).is_empty(), "it has not succeeded yet");
    let entries = finish(&mut machine, slot);
    let expected =
        ["1 undo planned undo:refund[step:charge]", "2 undo planned undo:mail[step:charge]", "3 step done step:charge"];
    assert_eq!(lines(&entries), expected);
    assert_eq!(left(&machine), ["undo:mail[step:charge]", "undo:refund[step:charge]"]);
}

#[test]
fn step_that_fails_plans_no_undo() {
    let mut machine = machine(&[]);
    let slot = step(&mut machine, "charge", &["refund"]);
    machine.act(NOW);
    machine.poll(slot, NOW);
    let failure = outlive_core::failure::Failure::new(outlive_core::failure::Cause::Error, "declined");
    machine.finish(slot, Err(failure), NOW);
    assert_eq!(lines(&machine.take_outgoing().unwrap().entries), ["1 step failed step:charge"]);
    assert!(left(&machine).is_empty());
}

#[test]
fn undo_that_the_code_does_not_declare_is_lost_until_it_is_done() {
    let journal = undone();
    let machine_of = |length: usize| machine(&journal[..length]);
    assert_eq!(machine_of(2).undos().lost().len(), 1);
    let mut with_step = machine_of(2);
    step(&mut with_step, "charge", &["refund"]);
    assert!(with_step.undos().lost().is_empty() && left(&with_step).len() == 1);
    let mut renamed = machine_of(2);
    step(&mut renamed, "charge", &["pay back"]);
    assert_eq!(&*renamed.undos().lost()[0].op, "undo:refund[step:charge]");
    assert!(machine_of(4).undos().lost().is_empty(), "it is done");
    assert!(machine_of(3).undos().has_unwound() && !machine_of(2).undos().has_unwound());
}

#[test]
fn cancel_does_not_end_an_undo() {
    let mut machine = machine(&[]);
    let slot = step(&mut machine, "charge", &["refund"]);
    finish(&mut machine, slot);
    let undoing = undo(&mut machine, "undo:refund[step:charge]");
    let waiting = step(&mut machine, "mail", &[]);
    machine.act(NOW);
    assert!(matches!(machine.poll(undoing, NOW), Polled::Work(_)));
    machine.inbox_mut().receive(Inbound { pos: 1, at: NOW, message: Message::Cancel { reason: "enough".into() } });
    machine.act(NOW);
    assert!(matches!(machine.poll(undoing, NOW), Polled::Work(_)), "the body continues");
    let entries = machine.take_outgoing().unwrap().entries;
    assert_eq!(lines(&entries), ["3 cancel taken ", "4 cancelled step:mail"]);
    machine.close(waiting);
}

#[test]
fn deadline_does_not_cancel_a_run_that_unwinds() {
    let mut machine = machine(&undone()[..3]).with_limits(Some(NOW), u64::MAX);
    machine.act(NOW);
    assert_eq!(machine.inbox().cancel_reason(), None);
}

#[test]
fn retried_run_repeats_what_was_undone_in_a_new_round() {
    let mut journal = undone();
    journal.push(Entry::of_run(5, NOW, EntryKind::Retried));
    let mut machine = machine(&journal);
    assert_eq!(machine.undos().round("step:charge").as_deref(), Some("~r2"));
    assert_eq!(machine.undos().round("undo:refund[step:charge]").as_deref(), Some("~r2"));
    assert_eq!(machine.undos().round("step:ship"), None);
    assert!(!machine.undos().has_unwound() && left(&machine).is_empty() && !machine.records().has_orphans());
    let slot = step(&mut machine, "charge", &["refund"]);
    let entries = finish(&mut machine, slot);
    assert_eq!(lines(&entries), ["6 undo planned undo:refund[step:charge]", "7 step done step:charge"]);
}

#[test]
fn retry_keeps_what_was_undone_before_the_failure() {
    let mut journal = undone();
    journal.remove(2);
    let undo = &mut journal[2];
    undo.seq = 3;
    let failed_at = Some(Timestamp::from_millis(4));
    let failure = r#"{"ended":"error","failure":{"cause":"error","message":"no stock"}}"#;
    let shipped = Entry { op: "step:ship".into(), ..Entry::of_run(4, NOW, EntryKind::StepFailed) };
    journal.push(Entry { payload: Some(Payload::recorded(failure)), attempt: 1, ..shipped });
    journal.push(Entry { due: failed_at, ..Entry::of_run(5, NOW, EntryKind::Retried) });
    let machine = machine(&journal);
    assert_eq!(machine.undos().round("step:charge"), None, "the code undid it on purpose, on the way to the failure");
    let orphans: Vec<_> = machine.records().orphans().map(|(op, _)| op).collect();
    assert_eq!(orphans, ["step:charge", "undo:refund[step:charge]"]);
}

#[test]
fn reopened_run_tries_a_failed_undo_again() {
    let mut journal = undone();
    let failure = r#"{"ended":"error","failure":{"cause":"error","message":"the bank is gone"}}"#;
    journal[3].kind = EntryKind::StepFailed;
    journal[3].payload = Some(Payload::recorded(failure));
    let has_undo = |journal: &[Entry]| {
        let machine = machine(journal);
        machine.records().orphans().any(|(op, _)| op.starts_with("undo:"))
    };
    assert!(has_undo(&journal));
    journal.push(Entry::of_run(5, NOW, EntryKind::Reopened));
    assert!(!has_undo(&journal), "it has no outcome any more");
    assert!(machine(&journal).undos().has_unwound());
}

#[test]
fn damaged_plan_is_reported() {
    let plan =
        |payload| Entry { op: "undo:a[step:b]".into(), payload, ..Entry::of_run(1, NOW, EntryKind::UndoPlanned) };
    for (payload, expected) in [(Some(Payload::recorded("7")), "not the plan of an undo"), (None, "no payload")] {
        let problem = Machine::new(Mode::Live, 7, NOW, &[plan(payload)]).err().unwrap();
        assert!(problem.0.contains(expected), "{problem}");
    }
}
