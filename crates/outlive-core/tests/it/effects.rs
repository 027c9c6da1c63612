//! Table tests of the run machine: effects on others, children and their outcomes.

use outlive_core::child::{ChildOutcome, Parent};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::store::commit::{Refusal, Write};
use outlive_core::time::Timestamp;
use outlive_core::workflow::{
    ChildKey, EffectSpec, Machine, Mode, OpKind, Outcome, Outgoing, Polled, Slot, Spec, StartEffect, StepSpec, base,
};

const NOW: Timestamp = Timestamp::from_millis(1_000);

fn machine(journal: &[Entry]) -> Machine {
    Machine::new(Mode::Live, 7, NOW, journal).unwrap()
}

fn parent(is_detached: bool) -> Parent {
    Parent { num: InstanceNum(5), id: Name::recorded("p"), is_detached }
}

fn child(id: Option<&str>, is_detached: bool) -> EffectSpec {
    EffectSpec::Start(StartEffect {
        workflow: Name::recorded("ship"),
        input: Payload::recorded("1"),
        id: id.map(Name::recorded),
        origin: None,
        tags: Default::default(),
        due: Timestamp::AT_ONCE,
        deadline: None,
        parent: Some(parent(is_detached)),
    })
}

fn message(id: &str, message: Message) -> EffectSpec {
    EffectSpec::Message { id: Name::recorded(id), message }
}

fn signal(id: &str) -> EffectSpec {
    message(id, Message::Signal { name: Name::recorded("go"), payload: Payload::recorded("1") })
}

fn cancel(reason: &str) -> Message {
    Message::Cancel { reason: reason.to_owned() }
}

/// Opens an operation and polls it, as user code does.
fn begin(machine: &mut Machine, kind: OpKind, name: &str, spec: Spec) -> Slot {
    let slot = machine.open(kind, base("", kind, name, None), "src/shop.rs:12".into());
    machine.begin(slot, spec);
    assert!(matches!(machine.poll(slot, NOW), Polled::Pending | Polled::Work(_)));
    slot
}

fn effect(machine: &mut Machine, name: &str, effect: EffectSpec) -> Slot {
    let kind = match &effect {
        EffectSpec::Start(StartEffect { parent: Some(_), .. }) => OpKind::Child,
        EffectSpec::Start(_) => OpKind::Start,
        EffectSpec::Message { message, .. } if message.is_end() => OpKind::Cancel,
        EffectSpec::Message { .. } => OpKind::Signal,
        EffectSpec::Push { .. } => OpKind::Send,
        EffectSpec::Output(_) => OpKind::Publish,
    };
    begin(machine, kind, name, Spec::Effect(effect.into()))
}

fn result(machine: &mut Machine, id: &str) -> Slot {
    begin(machine, OpKind::Result, id, Spec::Result(ChildKey::new(id)))
}

fn receive(machine: &mut Machine, pos: u64, message: Message) {
    machine.inbox_mut().receive(Inbound { pos, at: NOW, message });
}

fn ended(id: &str, value: &str) -> Message {
    let outcome = ChildOutcome::Completed(Payload::recorded(value)).to_payload();
    Message::ChildEnded { id: Name::recorded(id), outcome }
}

/// Makes everything durable that is handed out, and returns it.
fn commit(machine: &mut Machine) -> Outgoing {
    let outgoing = machine.take_outgoing().unwrap();
    machine.durable(outgoing.entries.last().unwrap().seq);
    outgoing
}

/// Delivers the next outcome, which must be the one of this operation.
fn deliver(machine: &mut Machine, slot: Slot) -> Outcome {
    assert_eq!(machine.deliver(), Some(slot));
    let Polled::Ready(outcome) = machine.poll(slot, NOW) else { panic!("the operation is not ready") };
    outcome
}

fn kinds(outgoing: &Outgoing) -> Vec<EntryKind> {
    outgoing.entries.iter().map(|entry| entry.kind).collect()
}

fn sent_id(outcome: &Outcome) -> &str {
    let Outcome::Sent(to) = outcome else { panic!("{outcome:?} was not sent") };
    &to.id
}

fn refused_id(outcome: &Outcome) -> &str {
    let Outcome::Refused(refused) = outcome else { panic!("{outcome:?} was not refused") };
    &refused.id
}

/// Each write as `what receiver`.
fn in_words(writes: &[Write]) -> Vec<String> {
    let one = |write: &Write| match write {
        Write::Start(start) => format!("start {}", start.id),
        Write::Message(send) => match &send.message {
            Message::Cancel { .. } => format!("cancel {}", send.id),
            Message::Terminate { .. } => format!("terminate {}", send.id),
            _ => format!("signal {}", send.id),
        },
        other => format!("{other:?}"),
    };
    writes.iter().map(one).collect()
}

/// What the attached children are sent when the run ends.
fn farewells(machine: &Machine) -> Vec<String> {
    in_words(&machine.end_children(&cancel("its parent has ended"), NOW))
}

#[test]
fn effect_is_recorded_as_sent_with_its_write() {
    let mut machine = machine(&[]);
    let slot = effect(&mut machine, "go", signal("b"));
    assert_eq!(machine.deliver(), None, "nothing is delivered before it is durable");
    let outgoing = commit(&mut machine);
    assert_eq!((kinds(&outgoing), in_words(&outgoing.writes)), (vec![EntryKind::Sent], vec!["signal b".to_owned()]));
    assert_eq!(sent_id(&deliver(&mut machine, slot)), "b");
}

#[test]
fn nothing_is_handed_out_while_effects_are_in_flight() {
    let mut machine = machine(&[]);
    let first = effect(&mut machine, "go", signal("b"));
    let outgoing = machine.take_outgoing().unwrap();
    let second = effect(&mut machine, "stop", signal("b"));
    let step = begin(&mut machine, OpKind::Step, "a", Spec::Step(StepSpec::default()));
    machine.finish(step, Ok(Payload::recorded("1")), NOW);
    assert!(machine.recorder().is_sending() && !machine.recorder().has_outgoing());
    assert!(machine.take_outgoing().is_none());
    machine.durable(outgoing.entries[0].seq);
    let rest = commit(&mut machine);
    assert_eq!((kinds(&rest), rest.seq_before), (vec![EntryKind::Sent, EntryKind::StepDone], 1));
    for slot in [first, second, step] {
        deliver(&mut machine, slot);
    }
}

#[test]
fn effects_of_one_quiet_point_are_one_commit_in_order() {
    let mut machine = machine(&[]);
    for name in ["a", "b", "c"] {
        effect(&mut machine, name, signal(name));
    }
    let outgoing = commit(&mut machine);
    assert_eq!(in_words(&outgoing.writes), ["signal a", "signal b", "signal c"]);
}

#[test]
fn refused_effect_is_recorded_as_refused_under_its_number() {
    let mut machine = machine(&[]);
    let slots = ["a", "b", "c"].map(|name| effect(&mut machine, name, signal(name)));
    machine.take_outgoing().unwrap();
    let again = machine.refused(1, Refusal::NotFound).unwrap();
    assert_eq!(kinds(&again), [EntryKind::Sent, EntryKind::SendRefused, EntryKind::Sent]);
    assert_eq!(again.entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(in_words(&again.writes), ["signal a", "signal c"]);
    let again = machine.refused(1, Refusal::NotFound).unwrap();
    assert_eq!(kinds(&again), [EntryKind::Sent, EntryKind::SendRefused, EntryKind::SendRefused]);
    machine.durable(3);
    let [a, b, c] = slots.map(|slot| deliver(&mut machine, slot));
    assert_eq!((sent_id(&a), refused_id(&b), refused_id(&c)), ("a", "b", "c"));
}

#[test]
fn effect_dropped_in_flight_is_recorded_as_refused_too() {
    let mut machine = machine(&[]);
    let slot = effect(&mut machine, "go", signal("b"));
    machine.take_outgoing().unwrap();
    machine.close(slot);
    let again = machine.refused(0, Refusal::NotFound).unwrap();
    assert_eq!((kinds(&again), again.writes.len()), (vec![EntryKind::SendRefused], 0));
    machine.durable(1);
    assert!(!machine.recorder().is_sending() && machine.recorder().is_durable());
}

#[test]
fn child_with_a_taken_derived_id_gets_another_one_once() {
    let mut machine = machine(&[]);
    let slot = effect(&mut machine, "ship", child(None, false));
    assert_eq!(in_words(&machine.take_outgoing().unwrap().writes), ["start p/ship"]);
    let again = machine.refused(0, Refusal::Taken).unwrap();
    assert_eq!((kinds(&again), in_words(&again.writes)), (vec![EntryKind::Sent], vec!["start p/ship~5".to_owned()]));
    let last = machine.refused(0, Refusal::Taken).unwrap();
    assert_eq!((kinds(&last), last.writes.len()), (vec![EntryKind::SendRefused], 0));
    machine.durable(1);
    assert_eq!(refused_id(&deliver(&mut machine, slot)), "p/ship~5");
    assert_eq!(farewells(&machine), [""; 0]);
}

#[test]
fn renamed_child_ends_with_its_parent() {
    let mut machine = machine(&[]);
    let slot = effect(&mut machine, "ship", child(None, false));
    machine.take_outgoing().unwrap();
    machine.refused(0, Refusal::Taken).unwrap();
    machine.durable(1);
    assert_eq!(sent_id(&deliver(&mut machine, slot)), "p/ship~5");
    assert_eq!(farewells(&machine), ["cancel p/ship~5"]);
}

#[test]
fn child_with_a_taken_chosen_id_is_refused() {
    let mut machine = machine(&[]);
    let slot = effect(&mut machine, "ship", child(Some("mine"), false));
    machine.take_outgoing().unwrap();
    assert_eq!(kinds(&machine.refused(0, Refusal::Taken).unwrap()), [EntryKind::SendRefused]);
    machine.durable(1);
    assert_eq!(refused_id(&deliver(&mut machine, slot)), "mine");
    assert_eq!(farewells(&machine), [""; 0]);
}

#[test]
fn cancel_and_end_reach_attached_children_only() {
    let mut machine = machine(&[]);
    for (id, is_detached) in [("one", false), ("two", true), ("three", false)] {
        let slot = effect(&mut machine, id, child(Some(id), is_detached));
        commit(&mut machine);
        deliver(&mut machine, slot);
    }
    let wait = result(&mut machine, "one");
    receive(&mut machine, 1, cancel("enough"));
    machine.act(NOW);
    let outgoing = commit(&mut machine);
    assert_eq!(kinds(&outgoing), [EntryKind::CancelTaken, EntryKind::OpCancelled]);
    assert_eq!(in_words(&outgoing.writes), ["cancel one", "cancel three"]);
    assert!(matches!(deliver(&mut machine, wait), Outcome::Cancelled));
    assert_eq!(farewells(&machine), ["cancel one", "cancel three"]);
}

#[test]
fn cancelled_run_sends_but_starts_no_children() {
    let mut machine = machine(&[]);
    receive(&mut machine, 1, cancel("enough"));
    machine.act(NOW);
    commit(&mut machine);
    let (started, sent) = (effect(&mut machine, "ship", child(None, false)), effect(&mut machine, "go", signal("b")));
    let outgoing = commit(&mut machine);
    assert_eq!(kinds(&outgoing), [EntryKind::OpCancelled, EntryKind::Sent]);
    assert_eq!(in_words(&outgoing.writes), ["signal b"]);
    assert!(matches!(deliver(&mut machine, started), Outcome::Cancelled));
    assert_eq!(sent_id(&deliver(&mut machine, sent)), "b");
}

#[test]
fn outcome_of_a_child_is_delivered_whether_it_comes_before_or_after_the_wait() {
    for is_before in [true, false] {
        let mut machine = machine(&[]);
        let started = effect(&mut machine, "ship", child(None, false));
        commit(&mut machine);
        deliver(&mut machine, started);
        let early = is_before.then(|| receive(&mut machine, 1, ended("p/ship", "42")));
        let wait = result(&mut machine, "p/ship");
        if early.is_none() {
            receive(&mut machine, 1, ended("p/ship", "42"));
        }
        machine.act(NOW);
        let outgoing = commit(&mut machine);
        assert_eq!((kinds(&outgoing), outgoing.taken), (vec![EntryKind::ChildEnded], vec![1]), "{is_before}");
        let Outcome::Signal { payload, .. } = deliver(&mut machine, wait) else { panic!("no outcome") };
        assert_eq!(payload.as_str(), r#"{"completed":42}"#);
        assert_eq!(farewells(&machine), [""; 0], "it has ended");
    }
}

#[test]
fn outcome_that_loses_a_race_is_given_to_the_next_wait() {
    let mut machine = machine(&[]);
    let started = effect(&mut machine, "ship", child(None, false));
    commit(&mut machine);
    deliver(&mut machine, started);
    let (step, wait) =
        (begin(&mut machine, OpKind::Step, "a", Spec::Step(StepSpec::default())), result(&mut machine, "p/ship"));
    machine.finish(step, Ok(Payload::recorded("1")), NOW);
    receive(&mut machine, 1, ended("p/ship", "42"));
    machine.act(NOW);
    assert_eq!(kinds(&commit(&mut machine)), [EntryKind::StepDone, EntryKind::ChildEnded]);
    deliver(&mut machine, step);
    machine.close(wait);
    let again = result(&mut machine, "p/ship");
    machine.act(NOW);
    let outgoing = commit(&mut machine);
    assert_eq!(&*outgoing.entries[0].op, "result:p%2Fship#2");
    assert!(matches!(deliver(&mut machine, again), Outcome::Signal { pos: 1, .. }));
}

/// Runs a parent that starts two children, is refused a signal and awaits the first child; returns its journal.
fn journal() -> Vec<Entry> {
    let mut machine = machine(&[]);
    let mut journal = Vec::new();
    for id in ["one", "two"] {
        let slot = effect(&mut machine, id, child(Some(id), false));
        journal.extend(commit(&mut machine).entries);
        deliver(&mut machine, slot);
    }
    let refused = effect(&mut machine, "go", signal("b"));
    machine.take_outgoing().unwrap();
    journal.extend(machine.refused(0, Refusal::NotFound).unwrap().entries);
    machine.durable(3);
    deliver(&mut machine, refused);
    result(&mut machine, "one");
    receive(&mut machine, 1, ended("one", "42"));
    machine.act(NOW);
    journal.extend(commit(&mut machine).entries);
    journal
}

#[test]
fn replay_sends_nothing_and_has_the_same_outcomes() {
    let mut machine = machine(&journal());
    assert_eq!(farewells(&machine), ["cancel two"]);
    let [one, two] = ["one", "two"].map(|id| {
        let slot = effect(&mut machine, id, child(Some(id), false));
        deliver(&mut machine, slot)
    });
    assert_eq!((sent_id(&one), sent_id(&two)), ("one", "two"));
    let refused = effect(&mut machine, "go", signal("b"));
    assert_eq!(refused_id(&deliver(&mut machine, refused)), "b");
    let wait = result(&mut machine, "one");
    assert!(matches!(deliver(&mut machine, wait), Outcome::Signal { pos: 1, .. }));
    assert!(machine.take_outgoing().is_none() && machine.recorder().is_durable());
}

#[test]
fn effect_that_was_not_durable_is_sent_with_the_same_token_after_a_crash() {
    let token = || {
        let mut machine = machine(&[]);
        effect(&mut machine, "go", signal("b"));
        let outgoing = machine.take_outgoing().unwrap();
        let [Write::Message(send)] = &outgoing.writes[..] else { panic!("{:?}", outgoing.writes) };
        send.token
    };
    assert_eq!(token(), token());
}

/// Regression: the cancel of a child is recorded as sent but cannot be refused, so it was not counted: the refusal went
/// to the cancel, and the signal was recorded as sent.
#[test]
fn refusal_goes_to_its_effect_although_a_child_is_cancelled_in_the_same_commit() {
    let mut machine = machine(&[]);
    let cancelled = effect(&mut machine, "child", message("one", cancel("enough")));
    let lost = effect(&mut machine, "go", signal("b"));
    machine.take_outgoing().unwrap();
    let again = machine.refused(1, Refusal::NotFound).unwrap();
    assert_eq!(kinds(&again), [EntryKind::Sent, EntryKind::SendRefused]);
    assert_eq!(in_words(&again.writes), ["cancel one"]);
    machine.durable(2);
    assert_eq!(sent_id(&deliver(&mut machine, cancelled)), "one");
    assert_eq!(refused_id(&deliver(&mut machine, lost)), "b");
}

/// Regression: the cancel was sent to the id of a child whose start was refused, because another run has that id. It
/// cancelled that run.
#[test]
fn cancel_never_reaches_a_run_that_could_not_be_started_as_a_child() {
    for (id, is_handed_out) in [(Some("taken"), true), (Some("taken"), false), (None, true), (None, false)] {
        let mut machine = machine(&[]);
        effect(&mut machine, "ship", child(id, false));
        let first = is_handed_out.then(|| machine.take_outgoing().unwrap());
        receive(&mut machine, 1, cancel("enough"));
        machine.act(NOW);
        first.or_else(|| machine.take_outgoing()).unwrap();
        let mut writes = machine.refused(0, Refusal::Taken).unwrap().writes;
        machine.durable(1);
        while machine.deliver().is_some() || machine.act(NOW) || machine.recorder().has_outgoing() {
            machine.take_outgoing().into_iter().for_each(|outgoing| writes.extend(outgoing.writes));
        }
        let expected = if id.is_some() { vec![] } else { vec!["start p/ship~5", "cancel p/ship~5"] };
        assert_eq!(in_words(&writes), expected, "{id:?}, handed out: {is_handed_out}");
    }
}

/// Regression: the child that was started first was forgotten when a second one with its id was refused, and did not end
/// with its parent.
#[test]
fn child_is_not_forgotten_when_a_second_one_with_its_id_is_refused() {
    let mut machine = machine(&[]);
    for is_refused in [false, true] {
        // The second one would be detached.
        let slot = effect(&mut machine, "ship", child(Some("mine"), is_refused));
        let seq = machine.take_outgoing().unwrap().entries[0].seq;
        if is_refused {
            machine.refused(0, Refusal::Taken).unwrap();
        }
        machine.durable(seq);
        deliver(&mut machine, slot);
    }
    assert_eq!(farewells(&machine), ["cancel mine"]);
}
