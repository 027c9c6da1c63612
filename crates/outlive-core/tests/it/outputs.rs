//! Table tests of the run machine: values, streams, questions and their answers.

use outlive_core::id::Name;
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::output::{AnswerRecord, AppendedBy, OutputContent, QuestionKey};
use outlive_core::payload::Payload;
use outlive_core::retry::Retry;
use outlive_core::store::commit::{Refusal, Write};
use outlive_core::time::Timestamp;
use outlive_core::workflow::{
    EffectSpec, Machine, Mode, OpKind, Outcome, Outgoing, Polled, Slot, Spec, StepSpec, base,
};

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

fn publish(machine: &mut Machine, name: &str, json: &str) -> Slot {
    let content = OutputContent::Value { name: Name::recorded(name), version: 0, payload: Payload::recorded(json) };
    begin(machine, OpKind::Publish, name, Spec::Effect(EffectSpec::Output(content).into()))
}

fn append(machine: &mut Machine, name: &str, json: &str) -> Slot {
    let (name, payload) = (Name::recorded(name), Payload::recorded(json));
    let content = OutputContent::Item { name: name.clone(), payload, origin: None, max_items: 2 };
    begin(machine, OpKind::Append, name.as_str(), Spec::Effect(EffectSpec::Output(content).into()))
}

fn step(machine: &mut Machine, retry: Option<Retry>) -> Slot {
    let spec = StepSpec { retry: retry.map(Into::into), ..StepSpec::default() };
    begin(machine, OpKind::Step, "ask", Spec::Step(spec))
}

fn origin(attempt: u32) -> AppendedBy {
    AppendedBy { op: "step:ask".into(), attempt }
}

/// Makes everything durable that is handed out, and returns it.
fn commit(machine: &mut Machine) -> Outgoing {
    let outgoing = machine.take_outgoing().unwrap();
    machine.durable(outgoing.entries.last().unwrap().seq);
    outgoing
}

fn deliver(machine: &mut Machine, slot: Slot) -> Outcome {
    assert_eq!(machine.deliver(), Some(slot));
    let Polled::Ready(outcome) = machine.poll(slot, NOW) else { panic!("the operation is not ready") };
    outcome
}

fn contents(outgoing: &Outgoing) -> Vec<OutputContent> {
    let content = |write: &Write| match write {
        Write::Output(output) => output.content.clone(),
        other => panic!("{other:?} is not an output"),
    };
    outgoing.writes.iter().map(content).collect()
}

fn ends(outgoing: &Outgoing) -> Vec<(u32, bool)> {
    let end = |content| match content {
        OutputContent::AttemptEnd { origin, is_kept } => (origin.attempt, is_kept),
        other => panic!("{other:?} is not the end of an attempt"),
    };
    contents(outgoing).into_iter().map(end).collect()
}

#[test]
fn published_value_is_recorded_and_stored_with_the_number_of_its_entry() {
    let mut machine = machine(&[]);
    let first = publish(&mut machine, "state", "1");
    let outgoing = commit(&mut machine);
    assert_eq!((outgoing.entries[0].kind, outgoing.entries[0].seq), (EntryKind::Published, 1));
    assert_eq!(outgoing.entries[0].payload, Some(Payload::recorded("1")));
    assert!(matches!(&contents(&outgoing)[..], [OutputContent::Value { version: 1, .. }]));
    deliver(&mut machine, first);
    publish(&mut machine, "state", "2");
    assert!(matches!(&contents(&commit(&mut machine))[..], [OutputContent::Value { version: 2, .. }]));
}

#[test]
fn replayed_outputs_are_not_given_out_again() {
    let mut live = machine(&[]);
    let first = publish(&mut live, "state", "1");
    let mut journal = commit(&mut live).entries;
    deliver(&mut live, first);
    append(&mut live, "log", "2");
    journal.extend(commit(&mut live).entries);
    let mut replay = machine(&journal);
    let first = publish(&mut replay, "state", "1");
    assert_eq!(deliver(&mut replay, first), Outcome::Given(None));
    let second = append(&mut replay, "log", "2");
    assert_eq!(deliver(&mut replay, second), Outcome::Given(None));
    assert!(!replay.recorder().has_outgoing());
}

#[test]
fn append_to_a_full_stream_is_recorded_as_refused() {
    let mut live = machine(&[]);
    let slot = append(&mut live, "log", "1");
    live.take_outgoing().unwrap();
    let instead = live.refused(0, Refusal::Full { max_items: 2 }).unwrap();
    assert_eq!((instead.entries[0].kind, instead.writes.len()), (EntryKind::AppendRefused, 0));
    live.durable(1);
    let refusal = |outcome| match outcome {
        Outcome::Refused(refused) => (refused.id, refused.refusal),
        other => panic!("{other:?} was not refused"),
    };
    let expected = ("log".to_owned(), Refusal::Full { max_items: 2 });
    assert_eq!(refusal(deliver(&mut live, slot)), expected);
    let mut replay = machine(&instead.entries);
    let slot = append(&mut replay, "log", "1");
    assert_eq!(refusal(deliver(&mut replay, slot)), expected);
}

#[test]
fn other_entries_are_handed_out_while_a_value_is_in_flight() {
    let mut machine = machine(&[]);
    publish(&mut machine, "state", "1");
    machine.take_outgoing().unwrap();
    publish(&mut machine, "other", "1");
    assert!(machine.take_outgoing().is_some(), "no store refuses a value, so nothing waits for it");
}

#[test]
fn end_of_an_attempt_that_appended_is_stored_with_its_entry() {
    let mut machine = machine(&[]);
    let slot = step(&mut machine, Some(Retry::times(1).constant("1 second")));
    assert!(machine.attempts().appends(slot, &origin(1)));
    machine.finish(slot, Err(outlive_core::failure::Failure::new(outlive_core::failure::Cause::Error, "no")), NOW);
    let failed = commit(&mut machine);
    assert_eq!((failed.entries[0].kind, ends(&failed)), (EntryKind::AttemptFailed, vec![(1, false)]));
    assert!(!machine.attempts().appends(slot, &origin(1)), "that attempt is over");
    machine.act(NOW.after(std::time::Duration::from_secs(2)));
    assert!(machine.attempts().appends(slot, &origin(2)));
    machine.finish(slot, Ok(Payload::recorded("1")), NOW);
    assert_eq!(ends(&commit(&mut machine)), [(2, true)]);
}

#[test]
fn attempt_that_appended_nothing_stores_no_end() {
    let mut machine = machine(&[]);
    let slot = step(&mut machine, None);
    machine.finish(slot, Ok(Payload::recorded("1")), NOW);
    assert!(commit(&mut machine).writes.is_empty());
}

#[test]
fn attempt_of_a_dropped_step_has_failed() {
    let mut machine = machine(&[]);
    let slot = step(&mut machine, None);
    assert!(machine.attempts().appends(slot, &origin(1)));
    machine.close(slot);
    publish(&mut machine, "state", "1");
    let outgoing = commit(&mut machine);
    assert!(matches!(
        &contents(&outgoing)[..],
        [OutputContent::AttemptEnd { is_kept: false, .. }, OutputContent::Value { .. }]
    ));
}

#[test]
fn slot_of_another_operation_takes_no_appends() {
    let mut machine = machine(&[]);
    let slot = step(&mut machine, None);
    assert!(!machine.attempts().appends(slot, &AppendedBy { op: "step:other".into(), attempt: 1 }));
    assert!(!machine.attempts().appends(slot, &origin(2)));
    assert!(!machine.attempts().appends(Slot(9), &origin(1)));
}

fn wait_ask(machine: &mut Machine, accepts: fn(&Payload) -> Result<(), String>) -> Slot {
    let name = QuestionKey::new("price").into_name();
    begin(machine, OpKind::Question, "price", Spec::Wait { name, timeout: None, accepts })
}

fn ask(machine: &mut Machine, pos: u64, json: &str) {
    let message = Message::Question { name: Name::recorded("price"), payload: Payload::recorded(json) };
    machine.inbox_mut().receive(Inbound { pos, at: NOW, message });
}

#[test]
fn question_goes_to_a_wait_for_it_and_not_to_a_signal_of_the_same_name() {
    let mut machine = machine(&[]);
    let name = Name::recorded("price");
    let signal = Spec::Wait { name, timeout: None, accepts: |_| Ok(()) };
    begin(&mut machine, OpKind::Wait, "price", signal);
    let slot = wait_ask(&mut machine, |_| Ok(()));
    ask(&mut machine, 4, "\"tea\"");
    machine.act(NOW);
    let outgoing = commit(&mut machine);
    let entry = &outgoing.entries[0];
    assert_eq!((entry.kind, &*entry.op, &outgoing.taken[..]), (EntryKind::QuestionTaken, "ask:price", &[4][..]));
    assert_eq!(deliver(&mut machine, slot), Outcome::Signal { pos: 4, payload: Payload::recorded("\"tea\"") });
    assert_eq!(machine.deliver(), None);
}

#[test]
fn unreadable_question_becomes_a_dead_letter_and_its_asker_learns_why() {
    let mut machine = machine(&[]);
    wait_ask(&mut machine, |_| Err("it is not a number".to_owned()));
    ask(&mut machine, 4, "\"tea\"");
    machine.act(NOW);
    let outgoing = commit(&mut machine);
    assert_eq!((outgoing.entries[0].kind, &outgoing.taken[..]), (EntryKind::SignalRefused, &[4][..]));
    let [OutputContent::Answer { question: 4, payload }] = &contents(&outgoing)[..] else { panic!("{outgoing:?}") };
    assert_eq!(AnswerRecord::from_payload(payload), Ok(AnswerRecord::Unreadable("it is not a number".to_owned())));
}

#[test]
fn question_of_a_wait_that_lost_a_race_goes_to_the_next_wait() {
    let mut machine = machine(&[]);
    ask(&mut machine, 4, "1");
    let first = wait_ask(&mut machine, |_| Ok(()));
    machine.act(NOW);
    commit(&mut machine);
    machine.close(first);
    let second =
        machine.open(OpKind::Question, base("", OpKind::Question, "price", Some("b")), "src/shop.rs:13".into());
    let name = QuestionKey::new("price").into_name();
    machine.begin(second, Spec::Wait { name, timeout: None, accepts: |_| Ok(()) });
    machine.act(NOW);
    commit(&mut machine);
    assert!(matches!(deliver(&mut machine, second), Outcome::Signal { pos: 4, .. }));
}

#[test]
fn answer_is_stored_for_its_question() {
    let mut machine = machine(&[]);
    let content = OutputContent::Answer { question: 4, payload: Payload::recorded("5") };
    let slot = begin(&mut machine, OpKind::Reply, "price", Spec::Effect(EffectSpec::Output(content).into()));
    let outgoing = commit(&mut machine);
    assert_eq!(outgoing.entries[0].kind, EntryKind::Answered);
    let [OutputContent::Answer { question: 4, payload }] = &contents(&outgoing)[..] else { panic!("{outgoing:?}") };
    assert_eq!(payload.as_str(), r#"{"answer":5}"#);
    assert!(matches!(deliver(&mut machine, slot), Outcome::Given(_)));
}
