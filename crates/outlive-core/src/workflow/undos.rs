//! The undos of a run: which are recorded, which are done, and whether the run is unwinding.
//!
//! An undo belongs to an operation that may succeed: a step, or a child. The commit that records the success also has an
//! entry per undo, so the journal says what has to be undone, whatever the code looks like by then. An undo itself is a
//! step of its own kind, whose identity is made of its name and the operation it belongs to. When the workflow function
//! has returned an error or the run is cancelled, the run *unwinds*: a marker is recorded, then the undos run, last
//! first.
//!
//! A run that is retried after it was unwound does what was undone once more, in the next *round*.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::child::ChildOutcome;
use crate::journal::{Entry, EntryKind, UndoPlan};
use crate::payload::Payload;

use super::Slot;
use super::identity::base;
use super::parsed::ParsedIdentity;
use super::spec::{OpKind, Outcome};

/// The undos of a run.
#[derive(Default)]
pub struct Undos {
    /// Allocated with the first undo: most runs have none.
    kept: Option<Box<KeptUndos>>,
}

#[derive(Default)]
struct KeptUndos {
    /// The undos of outstanding operations.
    declared: BTreeMap<Slot, DeclaredUndos>,
    /// The undos of operations that have succeeded, by identity.
    planned: BTreeMap<Arc<str>, PlannedUndo>,
    /// How often an operation or an undo was repeated because it had been undone, by identity.
    rounds: BTreeMap<Arc<str>, u32>,
    /// The entry that says that the run unwinds.
    recorded: Option<u64>,
    /// Whether the code has got to the unwinding.
    is_unwinding: bool,
}

/// What an outstanding operation has declared.
struct DeclaredUndos {
    /// The identities of its undos, in the order in which they were declared.
    undos: Vec<Arc<str>>,
    /// The operations that have to be repeated if one of them was undone.
    of: Vec<Arc<str>>,
}

/// An undo of an operation that has succeeded.
struct PlannedUndo {
    of: Vec<Arc<str>>,
    site: Arc<str>,
    /// The entry that says that it is done.
    done: Option<u64>,
    /// Whether the code still has it.
    is_known: bool,
}

/// An undo that is left, and its call site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UndoLeft {
    /// Its identity.
    pub op: Arc<str>,
    /// Where its operation is called.
    pub site: Arc<str>,
}

/// Returns the identity of an undo of the operation `of`.
///
/// ```
/// use outlive_core::workflow::undo_identity;
/// assert_eq!(&*undo_identity("orders/step:charge[42]", "refund"), "orders/undo:refund[step:charge%5B42%5D]");
/// ```
#[must_use]
pub fn undo_identity(of: &str, name: &str) -> Arc<str> {
    let scope = ParsedIdentity::of(of).scope;
    base(scope, OpKind::Undo, name, Some(&of[scope.len()..]))
}

/// Returns the value that an undo is given, if this outcome is a success.
pub(super) fn value_of(kind: EntryKind, outcome: &Outcome) -> Option<Payload> {
    match (kind, outcome) {
        (EntryKind::StepDone, Outcome::Value(value)) => Some(value.clone()),
        (EntryKind::ChildEnded, Outcome::Signal { payload, .. }) => match ChildOutcome::from_payload(payload) {
            Ok(ChildOutcome::Completed(value)) => Some(value),
            _ => None,
        },
        _ => None,
    }
}

impl Undos {
    /// Notes that an outstanding operation has undos, to be recorded with its success. `of` are the operations to repeat
    /// once they are undone; the undos are named for the first.
    pub fn declare<'a>(&mut self, slot: Slot, of: Vec<Arc<str>>, names: impl Iterator<Item = &'a str>) {
        let Some(first) = of.first() else { return };
        let kept = self.kept.get_or_insert_default();
        let undos: Vec<_> = names.map(|name| undo_identity(first, name)).collect();
        for undo in &undos {
            kept.planned.get_mut(undo).into_iter().for_each(|planned| planned.is_known = true);
        }
        kept.declared.insert(slot, DeclaredUndos { undos, of });
    }

    /// Notes that the code has got to the point at which the run unwinds.
    pub fn unwind(&mut self) {
        self.kept.get_or_insert_default().is_unwinding = true;
    }

    /// Returns `true` if the code has got to the point at which the run unwinds.
    #[must_use]
    pub fn is_unwinding(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_unwinding)
    }

    /// Returns `true` if it is recorded that the run unwinds.
    #[must_use]
    pub fn has_unwound(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.recorded.is_some())
    }

    /// Returns the undos that are recorded, not done, and unknown to the code.
    #[must_use]
    pub fn lost(&self) -> Vec<UndoLeft> {
        self.filtered(|planned| planned.done.is_none() && !planned.is_known)
    }

    /// Returns the undos that are recorded and not done.
    #[must_use]
    pub fn left(&self) -> Vec<UndoLeft> {
        self.filtered(|planned| planned.done.is_none())
    }

    fn filtered(&self, is_one: impl Fn(&PlannedUndo) -> bool) -> Vec<UndoLeft> {
        let planned = self.kept.iter().flat_map(|kept| &kept.planned).filter(|(_, planned)| is_one(planned));
        planned.map(|(op, planned)| UndoLeft { op: op.clone(), site: planned.site.clone() }).collect()
    }

    /// Returns what sets the round of an operation apart from earlier ones; nothing in the first.
    #[must_use]
    pub fn round(&self, op: &str) -> Option<String> {
        let rounds = self.kept.as_ref()?.rounds.get(op)?;
        Some(format!("~r{}", rounds + 1))
    }

    // ---- called by the machine ----

    /// Returns `true` if the run has had an undo.
    pub(super) fn are_used(&self) -> bool {
        self.kept.is_some()
    }

    /// Forgets what a closed operation has declared.
    pub(super) fn close(&mut self, slot: Slot) {
        self.kept.iter_mut().for_each(|kept| drop(kept.declared.remove(&slot)));
    }

    /// Plans the undos of an operation that succeeds. Returns them with what is recorded about them.
    pub(super) fn plan(&mut self, slot: Slot, site: &Arc<str>) -> Vec<(Arc<str>, Payload)> {
        let Some(kept) = &mut self.kept else { return Vec::new() };
        let Some(DeclaredUndos { undos, of }) = kept.declared.get(&slot) else { return Vec::new() };
        let wire = UndoPlan { of: of.iter().map(|op| (**op).into()).collect() };
        let payload = Payload::encode(&wire).unwrap_or_else(|_| Payload::recorded("{}"));
        for undo in undos {
            let planned = PlannedUndo { of: of.clone(), site: site.clone(), done: None, is_known: true };
            kept.planned.insert(undo.clone(), planned);
        }
        undos.iter().map(|undo| (undo.clone(), payload.clone())).collect()
    }

    /// Notes that an undo is done, if this is the end of one.
    pub(super) fn ended(&mut self, op: &str, kind: EntryKind, seq: u64) {
        let Some(kept) = &mut self.kept else { return };
        match kind {
            EntryKind::StepDone => {
                // One that was dropped and started again has a count.
                let planned = kept.planned.get_mut(ParsedIdentity::of(op).base);
                planned.into_iter().for_each(|planned| planned.done = Some(seq));
            }
            EntryKind::Unwinding => kept.recorded = Some(seq),
            _ => {}
        }
    }

    /// Notes what an entry says about undos.
    pub(super) fn follow(&mut self, entry: &Entry) -> Result<(), String> {
        match entry.kind {
            EntryKind::UndoPlanned => {
                let payload = entry.payload.as_ref().ok_or("undo planned has no payload")?;
                let UndoPlan { of } = payload.decode().map_err(|error| format!("not the plan of an undo: {error}"))?;
                let of = of.into_iter().map(Arc::from).collect();
                let planned = PlannedUndo { of, site: entry.site.clone(), done: None, is_known: false };
                self.kept.get_or_insert_default().planned.insert(entry.op.clone(), planned);
            }
            EntryKind::Unwinding => self.kept.get_or_insert_default().recorded = Some(entry.seq),
            kind => self.ended(&entry.op, kind, entry.seq),
        }
        Ok(())
    }

    /// Forgets the undos that were done after entry `from`, or while the run unwound. Returns the operations to repeat:
    /// the undos, and what they have undone.
    pub(super) fn start_round(&mut self, from: Option<u64>) -> Vec<Arc<str>> {
        let Some(kept) = &mut self.kept else { return Vec::new() };
        let unwound = kept.recorded.take();
        let Some(from) = [from, unwound].into_iter().flatten().min() else { return Vec::new() };
        let mut repeated = Vec::new();
        kept.planned.retain(|undo, planned| {
            let is_undone = planned.done.is_some_and(|done| done > from);
            if is_undone {
                repeated.push(undo.clone());
                repeated.extend(planned.of.iter().filter(|op| !repeated.contains(op)).cloned().collect::<Vec<_>>());
            }
            !is_undone
        });
        repeated.iter().for_each(|op| *kept.rounds.entry(op.clone()).or_insert(0) += 1);
        repeated.extend(unwound.map(|_| Arc::from(OpKind::Unwind.prefix())));
        repeated
    }
}
