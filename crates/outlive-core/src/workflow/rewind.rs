//! Plans a rewind or a fork from a journal: what is kept, what runs again, and which signals and children that concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::id::Name;
use crate::journal::{Entry, EntryKind, ForkedFrom, SentTo};
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::restart::RestartRecord;
use crate::store::commit::KeptChild;
use crate::time::Timestamp;

use super::parsed::{ParsedIdentity, unescaped};
use super::rewound::Rewinds;
use super::spec::OpKind;

/// How many names a problem lists.
const LISTED_MAX: usize = 20;

/// Where a run is rewound to: before an operation, before an entry of its journal, or to its start.
///
/// An operation is given by its identity as the journal has it, such as `step:charge[42]#2`, or by its name or its key if
/// no other operation of the run has the same.
///
/// ```
/// # use outlive_core::workflow::RewindPoint;
/// assert_eq!(RewindPoint::from("charge"), RewindPoint::Operation("charge".to_owned()));
/// assert_eq!(RewindPoint::from(7_u64), RewindPoint::Entry(7));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RewindPoint {
    /// Nothing is kept but the input.
    Start,
    /// What was recorded before the entry with this number is kept.
    Entry(u64),
    /// What was recorded before the outcome of this operation is kept.
    Operation(String),
}

impl From<&str> for RewindPoint {
    fn from(operation: &str) -> Self {
        Self::Operation(operation.to_owned())
    }
}

impl From<String> for RewindPoint {
    fn from(operation: String) -> Self {
        Self::Operation(operation)
    }
}

impl From<u64> for RewindPoint {
    fn from(seq: u64) -> Self {
        Self::Entry(seq)
    }
}

impl fmt::Display for RewindPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("the start"),
            Self::Entry(seq) => write!(f, "entry {seq}"),
            Self::Operation(name) => write!(f, "{name:?}"),
        }
    }
}

/// Why a journal has no such point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PointProblem {
    /// There is nothing like it. These operations are recorded, or the last of them.
    Missing(Vec<String>),
    /// Several operations match.
    Ambiguous(Vec<String>),
}

/// A journal, cut at a point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RewindCut {
    /// The last entry that is kept; 0 if there is none.
    pub kept_to: u64,
    /// The operation that runs again first, if there is one; all of its entries are forgotten.
    pub op: Arc<str>,
    /// The operations whose outcomes are kept, in order.
    pub kept: Vec<Arc<str>>,
    /// The operations that are forgotten, in order.
    pub forgotten: Vec<Arc<str>>,
    /// The signals that go back to the inbox, in order of arrival.
    pub returned: Vec<Inbound>,
    /// The children that are kept and whose ends are not.
    pub kept_children: Vec<KeptChild>,
    /// The children whose starts are forgotten.
    pub forgotten_children: Vec<SentTo>,
    /// The operations that were undone after the point and are forgotten wherever they are, and their undos.
    pub undone: Vec<Box<str>>,
}

impl RewindCut {
    /// Cuts a journal.
    ///
    /// # Errors
    /// If the journal has no such point, or several.
    pub fn of(journal: &[Entry], point: &RewindPoint) -> Result<Self, PointProblem> {
        let before = Rewinds::of(journal);
        let is_counted = |place: usize| before.as_ref().is_none_or(|rewinds| rewinds.counts(place));
        let counted: Vec<&Entry> =
            journal.iter().enumerate().filter(|(place, _)| is_counted(*place)).map(|(_, entry)| entry).collect();
        let (kept_to, op) = find(&counted, point)?;
        let mut after = Rewinds::of(journal).unwrap_or_else(|| Rewinds::none(journal).into());
        let undone = after.forget(journal, kept_to, &op, BTreeSet::new());
        let (kept, lost): (Vec<_>, Vec<_>) = journal.iter().enumerate().partition(|(place, _)| after.counts(*place));
        let kept: Vec<&Entry> = kept.into_iter().map(|(_, entry)| entry).collect();
        let now_lost = || lost.iter().filter(|(place, _)| is_counted(*place)).map(|(_, entry)| *entry);
        let children = now_lost().filter_map(Entry::sent_to).filter(SentTo::is_child);
        Ok(Self {
            kept_to,
            op,
            kept: names(kept.iter().copied().filter(|entry| entry.kind.is_outcome())),
            forgotten: names(now_lost().filter(|entry| entry.kind != EntryKind::SignalRefused)),
            returned: returned(journal, &kept, lost.iter().map(|(_, entry)| *entry)),
            kept_children: kept_children(journal, &kept),
            forgotten_children: children.collect(),
            undone: undone.into_iter().collect(),
        })
    }

    /// Returns the entry that rewinds the run, which becomes entry `seq` of its journal.
    #[must_use]
    pub fn rewound(&self, seq: u64, at: Timestamp) -> Entry {
        Entry::rewound(seq, at, self.kept_to, self.op.clone())
    }

    /// Returns the names of the signals that go back to the inbox, in order of arrival.
    pub fn signals(&self) -> impl Iterator<Item = &str> {
        self.returned.iter().filter_map(|inbound| match &inbound.message {
            Message::Signal { name, .. } | Message::Question { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns the journal of a fork of run `from`, which began at `started`: what is kept, and the entry that says so. If
    /// the other run has restarted, its journal begins with an input, which becomes `input`.
    /// Its children are those of the other run, so it does not end them.
    #[must_use]
    pub fn fork(
        &self,
        journal: &[Entry],
        input: &Payload,
        from: &Name,
        started: Option<Timestamp>,
        at: Timestamp,
    ) -> Vec<Entry> {
        let mut entries: Vec<_> = journal.iter().take_while(|entry| entry.seq <= self.kept_to).cloned().collect();
        if let Some(first) = entries.first_mut()
            && let Some(Ok(restart)) = RestartRecord::of_entry(first)
        {
            *first = RestartRecord { input: input.clone(), ..restart }.to_entry(first.seq, first.at, first.attempt);
        }
        for entry in entries.iter_mut().filter(|entry| entry.kind == EntryKind::Sent) {
            if let Some(to) = entry.sent_to().filter(SentTo::is_child) {
                entry.payload = Some(SentTo { detached: Some(true), ..to }.to_payload());
            }
        }
        let children = journal.iter().filter(|entry| entry.seq > self.kept_to).filter_map(Entry::sent_to);
        let children = children.filter(SentTo::is_child).map(|to| to.id).collect();
        let from = ForkedFrom { run: from.to_string(), children, undone: self.undone.clone() };
        entries.push(Entry {
            kind: EntryKind::Forked,
            started,
            payload: Some(from.to_payload()),
            ..self.rewound(self.kept_to + 1, at)
        });
        entries
    }
}

/// Finds the last entry that is kept, and the operation that runs again.
fn find(counted: &[&Entry], point: &RewindPoint) -> Result<(u64, Arc<str>), PointProblem> {
    let outcome_of = |op: &str| counted.iter().rposition(|entry| *entry.op == *op && entry.kind.is_outcome());
    let place = match point {
        RewindPoint::Start => return Ok((0, "".into())),
        RewindPoint::Entry(seq) => {
            let place = counted.iter().position(|entry| entry.seq == *seq && !is_unwinding(entry));
            let place = place.ok_or_else(|| PointProblem::Missing(listed(counted)))?;
            // The plan of an undo belongs to the success that follows it.
            place + counted[place..].iter().take_while(|entry| entry.kind == EntryKind::UndoPlanned).count()
        }
        RewindPoint::Operation(text) => {
            let op = operation(counted, text)?;
            // A retried operation has several outcomes, of which the last one counts.
            let Some(place) = outcome_of(&op) else { return Ok((counted.last().map_or(0, |last| last.seq), op)) };
            place
        }
    };
    let Some(entry) = counted.get(place) else { return Ok((0, "".into())) };
    if entry.kind == EntryKind::Restarted {
        return Ok((0, "".into()));
    }
    let plans = counted[..place].iter().rev().take_while(|entry| entry.kind == EntryKind::UndoPlanned);
    let first = plans.last().unwrap_or(entry);
    // What ended because the run was cancelled would do so again, unless that is forgotten too.
    let is_cancel = |one: &&&Entry| one.kind == EntryKind::CancelTaken && entry.kind == EntryKind::OpCancelled;
    let cause = counted.iter().find(is_cancel).unwrap_or(first);
    Ok((cause.seq.min(first.seq) - 1, entry.op.clone()))
}

/// Returns `true` if the operation of an entry can be run again.
fn is_point(entry: &Entry) -> bool {
    entry.kind != EntryKind::UndoPlanned && !is_unwinding(entry)
}

/// Returns `true` if an entry is about undoing what was done, which is not a point to continue from.
fn is_unwinding(entry: &Entry) -> bool {
    let kind = ParsedIdentity::of(&entry.op).kind;
    entry.kind != EntryKind::UndoPlanned && (kind == OpKind::Undo.prefix() || kind == OpKind::Unwind.prefix())
}

/// Finds the operation that a text stands for: its identity, or else its name, or else its key.
fn operation(counted: &[&Entry], text: &str) -> Result<Arc<str>, PointProblem> {
    let ops = names(counted.iter().copied().filter(|entry| is_point(entry)));
    let is_name = |op: &str| {
        let parsed = ParsedIdentity::of(op);
        !parsed.name.is_empty() && unescaped(parsed.name) == text
    };
    let is_key = |op: &str| ParsedIdentity::of(op).key.map(unescaped).as_deref() == Some(text);
    let ways: [&dyn Fn(&str) -> bool; 3] = [&|op| op == text, &is_name, &is_key];
    for is_meant in ways {
        let found: Vec<_> = ops.iter().filter(|op| is_meant(op)).collect();
        match found[..] {
            [] => {}
            [op] => return Ok(op.clone()),
            _ => return Err(PointProblem::Ambiguous(found.iter().map(ToString::to_string).collect())),
        }
    }
    Err(PointProblem::Missing(listed(counted)))
}

/// Returns the operations of these entries, each once, in order.
fn names<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<Arc<str>> {
    let mut seen = BTreeSet::new();
    let ops = entries.map(|entry| &entry.op).filter(|op| !op.is_empty());
    ops.filter(|op| seen.insert((*op).clone())).cloned().collect()
}

fn listed(counted: &[&Entry]) -> Vec<String> {
    let ops = names(counted.iter().copied().filter(|entry| is_point(entry)));
    ops[ops.len().saturating_sub(LISTED_MAX)..].iter().map(ToString::to_string).collect()
}

/// Returns the signals and questions that were taken and are not any more. A signal that became a dead letter stays one,
/// and a question that was answered stays answered.
fn returned<'a>(journal: &[Entry], kept: &[&Entry], lost: impl Iterator<Item = &'a Entry>) -> Vec<Inbound> {
    let refused = journal.iter().filter(|entry| entry.kind == EntryKind::SignalRefused);
    let is_taken = |entry: &&Entry| matches!(entry.kind, EntryKind::SignalTaken | EntryKind::QuestionTaken);
    let taken = kept.iter().copied().filter(is_taken);
    let answered = journal.iter().filter(|entry| entry.kind == EntryKind::Answered);
    // The key of a reply is the position of its question.
    let answered = answered.filter_map(|entry| ParsedIdentity::of(&entry.op).key?.parse().ok());
    let gone: BTreeSet<u64> = refused.chain(taken).filter_map(Entry::signal_pos).chain(answered).collect();
    let mut returned = BTreeMap::new();
    for entry in lost.filter(is_taken) {
        if let (Some(pos), Some(payload)) = (entry.signal_pos().filter(|pos| !gone.contains(pos)), &entry.payload) {
            let name = Name::recorded(&unescaped(ParsedIdentity::of(&entry.op).name));
            let payload = payload.clone();
            let message = match entry.kind {
                EntryKind::QuestionTaken => Message::Question { name, payload },
                _ => Message::Signal { name, payload },
            };
            returned.entry(pos).or_insert(Inbound { pos, at: entry.at, message });
        }
    }
    returned.into_values().collect()
}

/// Returns the children that are kept and whose ends are not, each with the last end that is recorded.
fn kept_children(journal: &[Entry], kept: &[&Entry]) -> Vec<KeptChild> {
    let ended = |entry: &Entry| unescaped(ParsedIdentity::of(&entry.op).name);
    let is_end = |entry: &&Entry| entry.kind == EntryKind::ChildEnded;
    let known: BTreeSet<_> = kept.iter().copied().filter(is_end).map(ended).collect();
    let outcomes: BTreeMap<String, &Option<Payload>> =
        journal.iter().filter(is_end).map(|entry| (ended(entry), &entry.payload)).collect();
    let sent = kept.iter().filter_map(|entry| entry.sent_to().filter(|_| entry.kind == EntryKind::Sent));
    let children = sent.filter(|to| to.is_child() && !known.contains(&to.id));
    let kept_child = |to: SentTo| {
        let outcome = outcomes.get(&to.id).and_then(|outcome| (*outcome).clone());
        KeptChild { id: Name::recorded(&to.id), outcome }
    };
    children.map(kept_child).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::{Machine, Mode, OpKind, Outcome, Polled, Spec, StepSpec, base, counted};

    const AT: Timestamp = Timestamp::from_millis(1_000);

    fn entry(seq: u64, kind: EntryKind, op: &str) -> Entry {
        Entry { op: op.into(), payload: Some(Payload::recorded("1")), ..Entry::of_run(seq, AT, kind) }
    }

    fn taken(seq: u64, op: &str, pos: i64) -> Entry {
        Entry { due: Some(Timestamp::from_millis(pos)), ..entry(seq, EntryKind::SignalTaken, op) }
    }

    fn sent(seq: u64, op: &str, child: &str) -> Entry {
        let to = SentTo { id: child.to_owned(), detached: Some(false) };
        Entry { payload: Some(to.to_payload()), ..entry(seq, EntryKind::Sent, op) }
    }

    fn numbers(entries: &[Entry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.seq).collect()
    }

    /// Cuts a journal, and returns the numbers of what counts after the rewind.
    fn left(journal: &[Entry], point: impl Into<RewindPoint>) -> Vec<u64> {
        let cut = RewindCut::of(journal, &point.into()).expect("there is such a point");
        let rewound = cut.rewound(journal.len() as u64 + 1, AT);
        numbers(&counted([journal, &[rewound]].concat()))
    }

    #[test]
    fn what_was_recorded_before_the_outcome_is_kept() {
        use EntryKind::{SleepDone, SleepSet, StepDone, StepStarted};
        let journal = [
            entry(1, SleepSet, "sleep"),
            entry(2, StepStarted, "step:slow"),
            entry(3, StepDone, "step:a"),
            entry(4, SleepDone, "sleep"),
            entry(5, StepDone, "step:slow"),
            entry(6, StepDone, "step:b"),
        ];
        let table: [(RewindPoint, &[u64]); 7] = [
            (RewindPoint::Start, &[7]),
            ("b".into(), &[1, 2, 3, 4, 5, 7]),
            ("slow".into(), &[1, 3, 4, 7]),
            // The attempt of `slow` is no longer over, so it starts over. The sleep sleeps its whole time again.
            ("sleep".into(), &[3, 7]),
            // The sleep ends when it was to end.
            ("a".into(), &[1, 7]),
            (RewindPoint::Entry(2), &[1, 7]),
            (RewindPoint::Entry(6), &[1, 2, 3, 4, 5, 7]),
        ];
        for (point, expected) in table {
            assert_eq!(left(&journal, point.clone()), expected, "{point}");
        }
    }

    #[test]
    fn later_rewind_sees_only_what_counts() {
        let done = |seq, op| entry(seq, EntryKind::StepDone, op);
        let mut journal = vec![done(1, "step:a"), done(2, "step:b"), Entry::rewound(3, AT, 1, "step:b".into())];
        journal.extend([done(4, "step:b"), done(5, "step:c")]);
        assert_eq!(left(&journal, "b"), [1, 6]);
        assert_eq!(left(&journal, "c"), [1, 3, 4, 6]);
        assert_eq!(left(&journal, "a"), [6]);
        let gone = RewindCut::of(&journal, &RewindPoint::Entry(2));
        assert_eq!(gone, Err(PointProblem::Missing(["step:a", "step:b", "step:c"].map(str::to_owned).to_vec())));
    }

    #[test]
    fn cancel_that_ended_an_operation_is_forgotten_with_it() {
        let reason = Entry { op: "".into(), ..entry(2, EntryKind::CancelTaken, "") };
        let journal = [
            entry(1, EntryKind::StepDone, "step:a"),
            reason,
            entry(3, EntryKind::OpCancelled, "wait:go"),
            entry(4, EntryKind::StepDone, "step:undo"),
        ];
        assert_eq!(left(&journal, "go"), [1, 5]);
        assert_eq!(left(&journal, "undo"), [1, 2, 3, 5], "a clean-up is repeated by a run that is still cancelled");
    }

    #[test]
    fn signals_are_given_back_unless_they_are_kept_or_dead() {
        let mut refused = taken(4, "wait:go", 12);
        refused.kind = EntryKind::SignalRefused;
        let journal = [
            taken(1, "wait:go", 10),
            entry(2, EntryKind::StepDone, "step:a"),
            // A wait that lost a race gave it back.
            taken(3, "wait:go#2", 10),
            refused,
            taken(5, "wait:go#3", 11),
        ];
        let positions = |point: &str| {
            let cut = RewindCut::of(&journal, &point.into()).expect("there is such a point");
            cut.returned.iter().map(|inbound| inbound.pos).collect::<Vec<_>>()
        };
        assert_eq!(positions("a"), [11], "the other one is bound by the first wait");
        assert_eq!(positions("wait:go"), [10, 11]);
        assert_eq!(positions("wait:go#3"), [11]);
    }

    #[test]
    fn children_are_kept_or_forgotten_with_their_starts() {
        let ended = entry(3, EntryKind::ChildEnded, "result:one");
        let journal = [sent(1, "child:w[1]", "one"), sent(2, "child:w[2]", "two"), ended];
        let cut = |point: u64| RewindCut::of(&journal, &point.into()).expect("there is such a point");
        let kept = |id: &str, outcome: Option<&str>| KeptChild {
            id: Name::recorded(id),
            outcome: outcome.map(Payload::recorded),
        };
        assert_eq!(cut(3).kept_children, [kept("one", Some("1")), kept("two", None)]);
        assert_eq!(cut(2).kept_children, [kept("one", Some("1"))]);
        assert_eq!(cut(2).forgotten_children.iter().map(|to| &*to.id).collect::<Vec<_>>(), ["two"]);
        let fork = cut(2).fork(&journal, &Payload::recorded("null"), &Name::recorded("p"), Some(AT), AT);
        assert_eq!(fork[0].sent_to().and_then(|to| to.detached), Some(true), "a fork does not end it");
        assert_eq!(fork[1].forked_from().expect("it says so").children, ["two"]);
    }

    #[test]
    fn rewind_that_does_not_say_what_counts_is_damage() {
        let fine = Entry::rewound(1, AT, 0, "".into());
        assert!(Machine::new(Mode::Live, 7, AT, std::slice::from_ref(&fine)).is_ok());
        for damaged in [Entry { due: None, ..fine }, Entry::rewound(1, AT, 1, "".into())] {
            let trouble = Machine::new(Mode::Live, 7, AT, &[damaged]).err().expect("it is damaged");
            assert!(trouble.0.contains("it does not say which entries count"), "{trouble}");
        }
    }

    #[test]
    fn rewound_machine_runs_the_step_again_and_delivers_the_rest() {
        let journal = [
            entry(1, EntryKind::StepDone, "step:a"),
            entry(2, EntryKind::StepDone, "step:b"),
            Entry::rewound(3, AT, 1, "step:b".into()),
        ];
        let mut machine = Machine::new(Mode::Live, 7, AT, &journal).expect("the journal is valid");
        assert_eq!(machine.operations().rewinds().map(super::super::Rewinds::last), Some(3));
        let [a, b] = ["a", "b"].map(|name| {
            let slot = machine.open(OpKind::Step, base("", OpKind::Step, name, None), "src/shop.rs:1".into());
            machine.begin(slot, Spec::Step(StepSpec::default()));
            slot
        });
        assert_eq!(machine.deliver(), Some(a));
        assert!(matches!(machine.poll(a, AT), Polled::Ready(Outcome::Value(_))));
        assert_eq!(machine.deliver(), None);
        assert!(matches!(machine.poll(b, AT), Polled::Work(attempt) if attempt.number == 1));
        machine.finish(b, Ok(Payload::recorded("2")), AT);
        let seqs: Vec<_> = machine.take_outgoing().expect("there is one").entries.iter().map(|one| one.seq).collect();
        assert_eq!(seqs, [4], "no number is used twice");
    }
}
