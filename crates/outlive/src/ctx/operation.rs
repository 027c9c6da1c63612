//! The common part of steps, sleeps and waits: a slot in the machine from the call to the end.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::task::Context;

use outlive_core::payload::Payload;
use outlive_core::workflow::{self, OpKind, Polled, Slot, Spec, StepSpec};

use crate::ctx::call::CallSite;
use crate::ctx::undos::{OpEnd, OpenUndos};
use crate::ctx::{Ctx, check};
use crate::error::Error;
use crate::instance::resident::{CalledFrom, ResidentRun};
use crate::instance::undos::DeclaredUndo;

/// Ties a builder to its context, and to a type that it only names.
pub(crate) type Tie<'a, T> = PhantomData<(&'a Ctx, fn() -> T)>;

/// An operation, outstanding until it is consumed or dropped.
pub(crate) struct OpenOperation {
    pub(crate) resident: Arc<ResidentRun>,
    scope: Arc<str>,
    pub(crate) call: Arc<CallSite>,
    key: Option<Box<str>>,
    rare: Option<Box<RareOptions>>,
    slot: Option<Slot>,
    /// An error in how it was called, returned when it is first polled.
    problem: Option<Box<Error>>,
}

/// What few operations have.
#[derive(Default)]
struct RareOptions {
    /// The names it had in earlier versions of the code.
    was: Vec<Box<str>>,
    undos: OpenUndos,
}

impl OpenOperation {
    /// Opens an operation when it is called, which gives it its identity.
    pub(crate) fn open(ctx: &Ctx, kind: OpKind, name: &str, location: &'static Location<'static>) -> Self {
        Self::open_at(ctx, kind, CallSite::at(location, kind, name))
    }

    /// Opens the point from which on a run only undoes. No line of the code calls it.
    pub(super) fn unwind(ctx: &Ctx) -> Self {
        Self::open_at(ctx, OpKind::Unwind, Arc::new(CallSite::nowhere(OpKind::Unwind)))
    }

    fn open_at(ctx: &Ctx, kind: OpKind, call: Arc<CallSite>) -> Self {
        let mut operation = Self {
            resident: ctx.resident.clone(),
            scope: ctx.scope.clone(),
            call,
            key: None,
            rare: None,
            slot: None,
            problem: None,
        };
        let place = ctx.place();
        if place != CalledFrom::Workflow {
            operation.refuse(operation.out_of_scope(place));
        } else if let Some(problem) = ctx.problem.as_deref().or(operation.call.problem.as_ref()) {
            operation.problem = Some(Box::new(problem.clone()));
        } else {
            let base = operation.identity();
            operation.slot = Some(ctx.resident.lock().machine.open(kind, base, operation.call.site.clone()));
        }
        operation
    }

    /// Sets the key. An operation that has begun keeps the identity it has.
    pub(crate) fn set_key(&mut self, key: &str) {
        match check("key", key) {
            Ok(()) => self.tell_apart(key),
            Err(error) => self.refuse(error),
        }
    }

    /// Sets the key, which need not be fit for users.
    pub(super) fn tell_apart(&mut self, key: &str) {
        if self.slot.is_some_and(|slot| self.resident.lock().machine.operations().has_begun(slot)) {
            return;
        }
        self.key = Some(key.into());
        if let Some(slot) = self.slot {
            let base = self.identity();
            self.resident.lock().machine.rename(slot, base);
        }
    }

    /// Adds a name that it had in an earlier version of the code.
    pub(crate) fn set_alias(&mut self, old: &str) {
        if let Err(error) = check("old step name", old) {
            return self.refuse(error);
        }
        self.rare.get_or_insert_default().was.push(old.into());
    }

    /// Adds an undo, which gets the value that the operation succeeds with.
    pub(super) fn add_undo(&mut self, undo: DeclaredUndo) {
        if let Err(error) = check("undo name", &undo.name) {
            return self.refuse(error);
        }
        if let Err(undo) = self.rare.get_or_insert_default().undos.add(undo) {
            let sentence = format!("two undos of {} are named {:?}; give each its own name", self.words(), undo.name);
            self.refuse(Error::Setup(sentence));
        }
    }

    /// Changes the undo that was added last.
    pub(super) fn change_undo(&mut self, change: impl FnOnce(&mut StepSpec) -> Result<(), Error>) {
        let last = self.rare.as_mut().and_then(|rare| rare.undos.last());
        let none = || Error::Setup("there is no undo to set this for; call `.undo(..)` first".into());
        if let Err(error) = last.ok_or_else(none).and_then(change) {
            self.refuse(error);
        }
    }

    /// Returns `true` if it has undos.
    pub(super) fn has_undos(&mut self) -> bool {
        self.rare.as_mut().is_some_and(|rare| rare.undos.last().is_some())
    }

    /// Returns `true` if it has succeeded, as far as the journal says.
    pub(super) fn has_succeeded(&self) -> bool {
        self.slot.is_none_or(|slot| self.resident.lock().machine.operations().undoable(slot).is_some())
    }

    /// Records an error in how it was called.
    pub(crate) fn refuse(&mut self, error: Error) {
        self.problem.get_or_insert_with(|| Box::new(error));
    }

    pub(crate) fn name(&self) -> &str {
        &self.call.name
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// Returns `true` if it has begun, or will find its record when it does.
    pub(crate) fn is_recorded(&self) -> bool {
        let state = self.resident.lock();
        let is_recorded = |slot| state.machine.operations().has_begun(slot) || state.machine.has_record(slot);
        self.slot.is_some_and(is_recorded)
    }

    /// Polls it. `spec` returns what it is to do; `read` checks the value recorded under its name.
    pub(crate) fn poll(
        &mut self,
        cx: &Context<'_>,
        spec: impl FnOnce() -> Spec,
        read: impl FnOnce(&str, &Payload) -> Result<(), String>,
    ) -> Result<Polled, Error> {
        if let Some(error) = self.problem.take() {
            self.close();
            return Err(*error);
        }
        let place = self.resident.place();
        if place != CalledFrom::Workflow {
            return Err(self.out_of_scope(place));
        }
        let Some(slot) = self.slot else { return Ok(Polled::Pending) };
        let now = self.resident.now();
        let mut state = self.resident.lock();
        if !state.machine.operations().has_begun(slot) {
            let was = self.rare.iter().flat_map(|rare| &rare.was).map(|was| self.base(was));
            was.chain(self.guess()).for_each(|old| state.machine.alias(slot, old));
            state.machine.begin(slot, spec());
            if self.call.kind == OpKind::Result
                && let Some(undos) = OpenUndos::of_child(&mut state, &self.call.name)
            {
                self.rare.get_or_insert_default().undos = undos;
            }
            self.rare.iter_mut().for_each(|rare| rare.undos.declare(&mut state, slot));
            let recorded =
                self.resident.trial.as_ref().and_then(|_| state.machine.operations().recorded(slot).cloned());
            if let Some(payload) = recorded {
                drop(state);
                let read = read(self.name(), &payload);
                state = self.resident.lock();
                read.err().map(|sentence| state.findings_mut().unread.insert(slot, (self.words(), sentence)));
            }
        }
        let end = self.rare.as_ref().and_then(|_| OpEnd::of(&state, slot));
        let polled = state.poll(slot, now);
        match &polled {
            Polled::Ready(outcome) => {
                self.slot = None;
                if let (Some(rare), Some(end)) = (&mut self.rare, end) {
                    rare.undos.consumed(&mut state, (&self.scope, &self.call), end, outcome);
                }
                state.consumed(slot);
            }
            _ => state.polled(slot, cx.waker()),
        }
        Ok(polled)
    }

    /// Returns the name it may have had before, if the check that replays this run has a guess.
    fn guess(&self) -> Option<Arc<str>> {
        self.resident.trial.as_ref()?.get(&self.identity()).cloned()
    }

    /// Makes the run stuck, because what is recorded for this operation does not deserialize as its type.
    pub(crate) fn get_stuck(&self, sentence: String) {
        let mut state = self.resident.lock();
        state.findings_mut().mistyped.get_or_insert_with(|| self.words());
        state.machine.fail(sentence);
    }

    /// Describes the operation for people.
    fn words(&self) -> String {
        match self.call.kind {
            OpKind::Step => format!("step {:?}", self.name()),
            OpKind::Sleep => "a durable sleep".to_owned(),
            OpKind::Wait => format!("the wait for {:?}", self.name()),
            OpKind::Child => format!("the child {:?}", self.name()),
            OpKind::Result => format!("the wait for child {:?}", self.name()),
            OpKind::Start => format!("the start of {:?}", self.name()),
            OpKind::Signal => format!("the signal {:?}", self.name()),
            OpKind::Patch => format!("the patch {:?}", self.name()),
            OpKind::Undo => format!("the undo {:?}", self.name()),
            OpKind::Unwind => "the end of the run".to_owned(),
            OpKind::Publish => format!("the value {:?}", self.name()),
            OpKind::Append => format!("the item for stream {:?}", self.name()),
            OpKind::Question => format!("the wait for question {:?}", self.name()),
            OpKind::Reply => format!("the reply to question {:?}", self.name()),
            OpKind::Cancel => "the cancel of a child".to_owned(),
            OpKind::Restart => "the restart".to_owned(),
            OpKind::Send | OpKind::Push => format!("the event for {:?}", self.name()),
        }
    }

    fn close(&mut self) {
        if let Some(slot) = self.slot.take() {
            let mut state = self.resident.lock();
            if let Some(rare) = &mut self.rare {
                rare.undos.dropped(&mut state, slot, (&self.scope, &self.call));
            }
            state.close(slot);
        }
    }

    /// Returns the identity without the count.
    fn identity(&self) -> Arc<str> {
        if self.scope.is_empty() && self.key.is_none() { self.call.base.clone() } else { self.base(self.name()) }
    }

    /// Returns the identity that all attempts to do this share. An undo that was dropped and begins again has a count,
    /// and is still the same undo.
    pub(super) fn repeated_as(&self, identity: &Arc<str>) -> Arc<str> {
        if self.call.kind == OpKind::Undo { self.identity() } else { identity.clone() }
    }

    fn base(&self, name: &str) -> Arc<str> {
        workflow::base(&self.scope, self.call.kind, name, self.key.as_deref())
    }

    fn out_of_scope(&self, place: CalledFrom) -> Error {
        let operation = self.words();
        if place == CalledFrom::Step {
            self.resident.lock().is_misplaced = true;
        }
        let place = if place == CalledFrom::Step { "inside a step" } else { "outside its workflow" };
        Error::Scope { operation, place }
    }
}

impl Drop for OpenOperation {
    fn drop(&mut self) {
        self.close();
    }
}
