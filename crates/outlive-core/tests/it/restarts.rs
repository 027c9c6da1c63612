//! Table tests of the run machine: restarts, and limits on journals.

use outlive_core::id::Name;
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::restart::{CarriedSignal, RestartRecord, dead_letters};
use outlive_core::time::Timestamp;
use outlive_core::workflow::{Machine, Mode, OpKind, Outcome, Polled, Slot, Spec, StepSpec, base};
use proptest::prelude::*;

const NOW: Timestamp = Timestamp::from_millis(1_000);

fn machine(journal: &[Entry]) -> Machine {
    Machine::new(Mode::Live, 7, NOW, journal).unwrap()
}

/// Opens an operation and polls it, as user code does.
fn begin(machine: &mut Machine, kind: OpKind, name: &str, spec: Spec) -> Slot {
    let slot = machine.open(kind, base("", kind, name, None), "src/shop.rs:12".into());
    machine.begin(slot, spec);
    assert!(matches!(machine.poll(slot, NOW), Polled::Pending | Polled::Work(_)));
    slot
}

fn restart(machine: &mut Machine) -> Slot {
    begin(machine, OpKind::Restart, "", Spec::Restart(Payload::recorded("2")))
}

fn wait(machine: &mut Machine, accepts: fn(&Payload) -> Result<(), String>) -> Slot {
    let spec = Spec::Wait { name: Name::recorded("n"), timeout: None, accepts };
    begin(machine, OpKind::Wait, "n", spec)
}

fn receive(machine: &mut Machine, pos: u64, value: &str) {
    let message = Message::Signal { name: Name::recorded("n"), payload: Payload::recorded(value) };
    machine.inbox_mut().receive(Inbound { pos, at: NOW, message });
}

fn step(machine: &mut Machine, name: &str) -> u64 {
    let slot = begin(machine, OpKind::Step, name, Spec::Step(StepSpec::default()));
    machine.finish(slot, Ok(Payload::recorded("1")), NOW);
    flush(machine);
    assert_eq!(machine.deliver(), Some(slot));
    assert!(matches!(machine.poll(slot, NOW), Polled::Ready(_)));
    machine.recorder().seq()
}

/// Makes everything durable that is handed out, and returns its entries and the messages it takes.
fn flush(machine: &mut Machine) -> (Vec<Entry>, Vec<u64>) {
    let Some(outgoing) = machine.take_outgoing() else { return Default::default() };
    machine.durable(machine.recorder().seq());
    (outgoing.entries, outgoing.taken)
}

/// Restarts the run and returns the journal of the next one.
fn restarted(machine: &mut Machine) -> Vec<Entry> {
    machine.restart().record(Payload::recorded("2"), NOW);
    let (entries, _) = flush(machine);
    assert_eq!(entries.last().map(|last| last.kind), Some(EntryKind::Restarted));
    entries[entries.len() - 1..].to_vec()
}

#[test]
fn restart_is_asked_for_once_it_has_begun_and_until_it_is_dropped() {
    let mut machine = machine(&[]);
    assert_eq!(machine.restart().input(), None);
    let slot = restart(&mut machine);
    assert_eq!(machine.restart().input(), Some(&Payload::recorded("2")));
    machine.close(slot);
    assert_eq!(machine.restart().input(), None);
    assert!(machine.take_outgoing().is_none(), "nothing is recorded before the run ends");
}

#[test]
fn restart_does_not_begin_during_a_replay() {
    let done = Entry {
        op: "step:a".into(),
        payload: Some(Payload::recorded("1")),
        ..Entry::of_run(1, NOW, EntryKind::StepDone)
    };
    let mut machine = machine(&[done]);
    restart(&mut machine);
    assert_eq!(machine.restart().input(), None, "a recorded outcome may still drop it");
}

#[test]
fn cancelled_run_does_not_restart() {
    let mut machine = machine(&[]);
    machine.inbox_mut().receive(Inbound { pos: 1, at: NOW, message: Message::Cancel { reason: "enough".into() } });
    machine.act(NOW);
    let slot = restart(&mut machine);
    assert_eq!(machine.restart().input(), None);
    flush(&mut machine);
    assert_eq!(machine.deliver(), Some(slot));
    assert!(matches!(machine.poll(slot, NOW), Polled::Ready(Outcome::Cancelled)));
}

#[test]
fn next_journal_continues_the_numbers_and_replays_nothing() {
    let mut first = machine(&[]);
    step(&mut first, "a");
    step(&mut first, "b");
    let journal = restarted(&mut first);
    assert_eq!((journal[0].seq, journal[0].attempt), (3, 2));
    let mut second = machine(&journal);
    assert_eq!(second.recorder().seq(), 3);
    assert!(!second.records().has_orphans());
    assert_eq!(step(&mut second, "a"), 4, "the step runs again in the next run");
    assert_eq!(restarted(&mut second)[0].attempt, 3);
}

#[test]
fn restart_in_the_middle_of_a_journal_is_damage() {
    let restart = RestartRecord::new(Payload::recorded("1"));
    let journal = [Entry::of_run(1, NOW, EntryKind::Reopened), restart.to_entry(2, NOW, 2)];
    assert!(Machine::new(Mode::Live, 7, NOW, &journal).is_err());
    let damaged = Entry { payload: Some(Payload::recorded("[]")), ..restart.to_entry(9, NOW, 2) };
    assert!(Machine::new(Mode::Live, 7, NOW, &[damaged]).is_err());
}

#[test]
fn signal_that_was_returned_goes_along_and_one_in_the_inbox_stays_there() {
    let mut first = machine(&[]);
    let slot = wait(&mut first, |_| Ok(()));
    receive(&mut first, 3, "1");
    first.act(NOW);
    receive(&mut first, 5, "2");
    flush(&mut first);
    first.close(slot);
    let journal = restarted(&mut first);
    let carried = RestartRecord::of_entry(&journal[0]).unwrap().unwrap().signals;
    assert_eq!(carried, [CarriedSignal { pos: 3, name: "n".into(), value: Payload::recorded("1") }]);
    // The next run receives the other one from its inbox again, and takes both in order.
    let mut second = machine(&journal);
    receive(&mut second, 5, "2");
    for expected in ["1", "2"] {
        let slot = wait(&mut second, |_| Ok(()));
        second.act(NOW);
        flush(&mut second);
        assert_eq!(second.deliver(), Some(slot));
        let polled = second.poll(slot, NOW);
        assert!(matches!(&polled, Polled::Ready(Outcome::Signal { payload, .. }) if payload.as_str() == expected));
    }
    let journal = restarted(&mut second);
    assert!(RestartRecord::of_entry(&journal[0]).unwrap().unwrap().signals.is_empty(), "they are consumed");
}

#[test]
fn dead_letters_go_along_until_they_are_discarded() {
    let mut first = machine(&[]);
    wait(&mut first, |value| if value.as_str() == "1" { Err("no".to_owned()) } else { Ok(()) });
    receive(&mut first, 3, "1");
    first.act(NOW);
    flush(&mut first);
    let journal = restarted(&mut first);
    let dead = dead_letters(&journal);
    assert_eq!((dead.len(), dead[0].seq, &*dead[0].op), (1, 1, "wait:n"));
    let mut second = machine(&journal);
    let mut whole = journal;
    second.inbox_mut().receive(Inbound { pos: 9, at: NOW, message: Message::Discard { seq: 1 } });
    second.act(NOW);
    whole.extend(flush(&mut second).0);
    assert!(dead_letters(&whole).is_empty());
    assert!(dead_letters(&restarted(&mut second)).is_empty());
}

proptest! {
    /// Whatever the limit, a journal of up to as many entries is fine, and a longer one makes the run stuck. That it is
    /// nearly full is recorded once.
    #[test]
    fn journal_is_limited(max in 5_u64..40, steps in 1_u64..60) {
        let mut machine = machine(&[]).with_limits(None, max);
        let mut kinds = Vec::new();
        for n in 0..steps {
            if machine.trouble().is_some() {
                break;
            }
            let slot = begin(&mut machine, OpKind::Step, &format!("s{n}"), Spec::Step(StepSpec::default()));
            machine.finish(slot, Ok(Payload::recorded("1")), NOW);
            kinds.extend(flush(&mut machine).0.into_iter().map(|entry| entry.kind));
            machine.deliver();
            let _ = machine.poll(slot, NOW);
        }
        let warnings = kinds.iter().filter(|kind| **kind == EntryKind::NearlyFull).count();
        prop_assert_eq!(warnings, usize::from(steps >= max * 4 / 5));
        prop_assert_eq!(machine.trouble().is_some(), kinds.len() as u64 > max);
        prop_assert!(kinds.len() as u64 <= max + 2);
    }
}
