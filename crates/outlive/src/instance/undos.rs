//! The undos of a resident run: the code to undo what has succeeded, in the order in which it did.

use std::collections::BTreeMap;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;

use outlive_core::payload::Payload;
use outlive_core::workflow::StepSpec;

use crate::error::Error;

/// An undo as declared for an operation that has not succeeded yet.
pub(crate) struct DeclaredUndo {
    pub(crate) name: Box<str>,
    pub(crate) spec: StepSpec,
    pub(crate) make: MakeUndo,
}

/// Adds to the code of an undo what it undoes.
pub(crate) type MakeUndo = Box<dyn FnOnce(Succeeded) -> Arc<dyn ReadyUndo> + Send>;

/// The success of an operation that has an undo.
pub(crate) struct Succeeded {
    /// The name of the undo.
    pub(crate) name: Box<str>,
    pub(crate) spec: StepSpec,
    /// The scope of the operation.
    pub(crate) scope: Arc<str>,
    /// The operation without its scope.
    pub(crate) of: Box<str>,
    pub(crate) location: &'static Location<'static>,
    pub(crate) value: Payload,
}

/// An undo of an operation that has succeeded.
pub(crate) trait ReadyUndo: Send + Sync {
    /// Begins the step that undoes it.
    fn begin(self: Arc<Self>) -> Pin<Box<dyn RunningUndo>>;
}

/// The step of an undo. Returns an error if it has finally failed.
pub(crate) trait RunningUndo: Future<Output = Result<(), Error>> + Send {
    /// Returns `true` if it is recorded as done.
    fn is_done(&self) -> bool;
}

/// The number of the outcome that an undo belongs to, and its place among the undos of that.
pub(crate) type UndoPlace = (u64, usize);

/// The undos of a resident run.
#[derive(Default)]
pub(crate) struct ReadyUndos {
    ready: BTreeMap<UndoPlace, Arc<dyn ReadyUndo>>,
    /// Children that were started and whose outcome the code has not received, by id.
    children: BTreeMap<String, UndoableChild>,
}

/// The undos of a child that was started.
pub(crate) struct UndoableChild {
    /// The operation that started it.
    pub(crate) op: Arc<str>,
    pub(crate) location: &'static Location<'static>,
    pub(crate) undos: Vec<DeclaredUndo>,
}

impl ReadyUndos {
    pub(crate) fn add(&mut self, place: UndoPlace, undo: Arc<dyn ReadyUndo>) {
        self.ready.insert(place, undo);
    }

    /// Takes the undo of what has succeeded last.
    pub(crate) fn take_last(&mut self) -> Option<(UndoPlace, Arc<dyn ReadyUndo>)> {
        self.ready.pop_last()
    }

    pub(crate) fn add_child(&mut self, id: String, child: UndoableChild) {
        self.children.insert(id, child);
    }

    pub(crate) fn take_child(&mut self, id: &str) -> Option<UndoableChild> {
        self.children.remove(id)
    }

    /// Returns a child whose outcome the code has not received.
    pub(crate) fn first_child(&self) -> Option<(&str, &'static Location<'static>)> {
        self.children.iter().next().map(|(id, child)| (id.as_str(), child.location))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.children.is_empty()
    }
}
