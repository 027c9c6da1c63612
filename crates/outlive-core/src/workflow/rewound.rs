//! What a run has forgotten: the entries that a rewind took back, and what still has to be known about them.
//!
//! Rewinding appends. The entry that rewinds a run says how much of the journal before it counts; nothing is removed, and
//! no number is used twice. All that follows from it is decided here, from the journal alone, so that every replay agrees.

use std::collections::BTreeSet;

use crate::journal::{Entry, EntryKind, SentTo};
use crate::time::Timestamp;

/// What rewinds, and the fork that created a run, have made it forget.
#[derive(Default, Debug)]
pub struct Rewinds {
    /// The number of the last entry that rewound the run, or with which it was forked.
    last: u64,
    /// Whether each entry of the journal counts.
    counted: Vec<bool>,
    /// The ids of the children whose starts are forgotten.
    children: BTreeSet<Box<str>>,
    /// When the run that this one was forked from began.
    started: Option<Timestamp>,
}

impl Rewinds {
    /// Returns the rewinds of a journal that has none.
    pub(super) fn none(journal: &[Entry]) -> Self {
        Self { counted: vec![true; journal.len()], ..Self::default() }
    }

    /// Reads what a journal has forgotten; `None` if that is nothing.
    pub(super) fn of(journal: &[Entry]) -> Option<Box<Self>> {
        let first = journal.iter().position(|entry| entry.rewound_to().is_some())?;
        let mut rewinds = Self::none(journal);
        for (place, entry) in journal.iter().enumerate().skip(first) {
            let from = entry.forked_from();
            if let Some(kept) = entry.rewound_to() {
                let undone = from.iter().flat_map(|from| from.undone.clone()).collect();
                rewinds.forget(&journal[..place], kept, &entry.op, undone);
                rewinds.last = entry.seq;
            }
            if let Some(from) = from {
                rewinds.started = rewinds.started.or(entry.started);
                rewinds.children.extend(from.children.into_iter().map(Into::into));
            }
        }
        let forgotten = journal.iter().zip(&rewinds.counted).filter(|(_, is_counted)| !**is_counted);
        let sent = forgotten.filter_map(|(entry, _)| entry.sent_to()).filter(SentTo::is_child);
        rewinds.children.extend(sent.map(|to| to.id.into()));
        Some(rewinds.into())
    }

    /// Forgets what follows entry `kept`, everything about operation `op` and about what was undone after that entry, and
    /// the attempts of steps that had not ended: a step that runs again is a new execution, and its attempts start at 1.
    /// `undone` is what was undone elsewhere. Returns all that was.
    pub(super) fn forget(
        &mut self,
        before: &[Entry],
        kept: u64,
        op: &str,
        mut undone: BTreeSet<Box<str>>,
    ) -> BTreeSet<Box<str>> {
        let lost = before.iter().zip(&self.counted).filter(|(entry, is_counted)| **is_counted && entry.seq > kept);
        undone.extend(undone_by(lost.map(|(entry, _)| entry), before));
        for (entry, is_counted) in before.iter().zip(&mut self.counted) {
            *is_counted &= entry.seq <= kept && (op.is_empty() || *entry.op != *op) && !undone.contains(&*entry.op);
        }
        let counted = || before.iter().zip(&self.counted).filter(|(_, is_counted)| **is_counted);
        let ended: BTreeSet<&str> =
            counted().filter(|(one, _)| one.kind.is_outcome()).map(|(one, _)| &*one.op).collect();
        for (entry, is_counted) in before.iter().zip(&mut self.counted) {
            *is_counted &= !is_attempt(entry.kind) || ended.contains(&*entry.op);
        }
        // Undos are planned right before the success of their operation, and only with it.
        let mut is_success_counted = false;
        for (entry, is_counted) in before.iter().zip(&mut self.counted).rev() {
            match entry.kind {
                EntryKind::UndoPlanned => *is_counted &= is_success_counted,
                _ => is_success_counted = *is_counted,
            }
        }
        undone
    }

    /// Returns `true` if the entry at this place of the journal counts.
    pub(super) fn counts(&self, place: usize) -> bool {
        self.counted.get(place).copied().unwrap_or(true)
    }

    /// Frees what is needed only while the journal is read.
    pub(super) fn forget_journal(&mut self) {
        self.counted = Vec::new();
    }

    /// Returns the number of the last entry that rewound the run. What is executed since is another execution, even if it
    /// has the same identity.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns when the run that this one was forked from began: the time that user code sees first.
    pub(super) fn started(&self) -> Option<Timestamp> {
        self.started
    }

    /// Returns `true` if the run has forgotten a child with this id, so that another one needs another id.
    pub(super) fn has_child(&self, id: &str) -> bool {
        self.children.contains(id)
    }
}

/// Returns what these entries of a journal have undone: the operations to repeat, and the undos themselves.
fn undone_by<'a>(entries: impl Iterator<Item = &'a Entry>, journal: &[Entry]) -> BTreeSet<Box<str>> {
    // An undo that was dropped and started again has a count.
    let base = |op: &'a str| op.rsplit_once('#').map_or(op, |(base, _)| base);
    let done: BTreeSet<&str> = entries.filter(|one| one.kind == EntryKind::StepDone).map(|one| base(&one.op)).collect();
    let plans =
        journal.iter().filter(|entry| done.contains(&*entry.op)).filter_map(|entry| Some((entry, entry.undo_plan()?)));
    plans.flat_map(|(entry, plan)| plan.of.into_iter().chain([(*entry.op).into()])).collect()
}

fn is_attempt(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::StepStarted | EntryKind::AttemptFailed | EntryKind::FallingBack)
}

/// Returns the entries that count: all of them, unless the run was rewound.
///
/// ```
/// # use outlive_core::{journal::{Entry, EntryKind}, time::Timestamp, workflow::counted};
/// # let at = Timestamp::from_millis(1);
/// let slept = Entry { op: "sleep".into(), ..Entry::of_run(1, at, EntryKind::SleepDone) };
/// let rewound = Entry::rewound(2, at, 0, "sleep".into());
/// assert_eq!(counted(vec![slept, rewound.clone()]), [rewound]);
/// ```
#[must_use]
pub fn counted(mut journal: Vec<Entry>) -> Vec<Entry> {
    if let Some(rewinds) = Rewinds::of(&journal) {
        let mut places = 0..;
        journal.retain(|_| places.next().is_none_or(|place| rewinds.counts(place)));
    }
    journal
}
