//! The undos of an outstanding operation, from their declaration until it has succeeded.

use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use outlive_core::payload::Payload;
use outlive_core::workflow::{Outcome, Slot, StepSpec};

use crate::ctx::call::CallSite;
use crate::instance::resident::ResidentState;
use crate::instance::undos::{DeclaredUndo, Succeeded, UndoableChild};

/// The undos of an operation that has not succeeded yet.
#[derive(Default)]
pub(super) struct OpenUndos {
    /// The lock is never contended. It lets operations be shared between threads, though undos cannot.
    declared: Mutex<Vec<DeclaredUndo>>,
    /// The start of the child that the operation waits for.
    child: Option<ChildStart>,
}

/// The operation that started a child, and where it was called.
#[derive(Clone)]
struct ChildStart {
    op: Arc<str>,
    location: &'static Location<'static>,
}

/// An operation that has an outcome: its identity, and what it succeeded with, if it did.
pub(super) struct OpEnd {
    op: Arc<str>,
    value: Option<(u64, Payload)>,
}

impl OpEnd {
    pub(super) fn of(state: &ResidentState, slot: Slot) -> Option<Self> {
        let operations = state.machine.operations();
        Some(Self { op: operations.key(slot)?, value: operations.undoable(slot) })
    }
}

impl OpenUndos {
    /// Takes the undos of a child, whose outcome is awaited now.
    pub(super) fn of_child(state: &mut ResidentState, id: &str) -> Option<Self> {
        let UndoableChild { op, location, undos } = state.undos.as_mut()?.take_child(id)?;
        Some(Self { declared: Mutex::new(undos), child: Some(ChildStart { op, location }) })
    }

    /// Adds an undo, unless one has the same name.
    pub(super) fn add(&mut self, undo: DeclaredUndo) -> Result<(), DeclaredUndo> {
        let declared = self.declared();
        if declared.iter().any(|other| other.name == undo.name) {
            return Err(undo);
        }
        declared.push(undo);
        Ok(())
    }

    /// Returns the options of the undo that was added last.
    pub(super) fn last(&mut self) -> Option<&mut StepSpec> {
        self.declared().last_mut().map(|undo| &mut undo.spec)
    }

    /// Has the undos recorded when the operation succeeds.
    pub(super) fn declare(&mut self, state: &mut ResidentState, slot: Slot) {
        let Some(op) = state.machine.operations().key(slot) else { return };
        let of = self.child.iter().map(|child| child.op.clone()).chain([op]).collect();
        let declared = self.declared();
        if !declared.is_empty() {
            state.machine.undos_mut().declare(slot, of, declared.iter().map(|undo| &*undo.name));
        }
    }

    /// Keeps the undos of an operation that was consumed: with its value if it succeeded, or with its child if that has
    /// just been started.
    pub(super) fn consumed(
        &mut self,
        state: &mut ResidentState,
        place: (&Arc<str>, &CallSite),
        end: OpEnd,
        outcome: &Outcome,
    ) {
        let declared = std::mem::take(self.declared());
        match (end.value, outcome) {
            _ if declared.is_empty() => {}
            (_, Outcome::Sent(to)) => {
                let child = UndoableChild { op: end.op, location: place.1.location, undos: declared };
                state.undos.get_or_insert_default().add_child(to.id.clone(), child);
            }
            (Some(value), _) => self.keep(state, place, (end.op, value), declared),
            // It failed, so there is nothing to undo.
            (None, _) => {}
        }
    }

    /// Keeps the undos of an operation that is dropped. What it has done stays done, even if nobody waits for it any more;
    /// and a child that has not ended may still succeed.
    pub(super) fn dropped(&mut self, state: &mut ResidentState, slot: Slot, place: (&Arc<str>, &CallSite)) {
        let Some(OpEnd { op, value }) = OpEnd::of(state, slot) else { return };
        let declared = std::mem::take(self.declared());
        match (value, self.child.clone()) {
            _ if declared.is_empty() => {}
            (Some(value), _) => self.keep(state, place, (op, value), declared),
            (None, Some(ChildStart { op, location })) => {
                let child = UndoableChild { op, location, undos: declared };
                state.undos.get_or_insert_default().add_child(place.1.name.to_string(), child);
            }
            (None, None) => {}
        }
    }

    fn keep(
        &self,
        state: &mut ResidentState,
        (scope, call): (&Arc<str>, &CallSite),
        (op, (seq, value)): (Arc<str>, (u64, Payload)),
        declared: Vec<DeclaredUndo>,
    ) {
        let (op, location) = match &self.child {
            Some(child) => (&child.op, child.location),
            None => (&op, call.location),
        };
        let kept = state.undos.get_or_insert_default();
        for (index, DeclaredUndo { name, spec, make }) in declared.into_iter().enumerate() {
            let of = op.strip_prefix(&**scope).unwrap_or(op).into();
            let (scope, value) = (scope.clone(), value.clone());
            kept.add((seq, index), make(Succeeded { name, spec, scope, of, location, value }));
        }
    }

    fn declared(&mut self) -> &mut Vec<DeclaredUndo> {
        self.declared.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
