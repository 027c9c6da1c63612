//! Runs undos: those that the code asks for with `undo_all`, and all of them when a run has failed or is cancelled.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use outlive_core::workflow::{Polled, Spec, UndoLeft};
use serde::de::IgnoredAny;

use crate::ctx::Ctx;
use crate::ctx::child::ChildResult;
use crate::ctx::operation::OpenOperation;
use crate::error::Error;
use crate::instance::resident::{CalledFrom, ResidentRun};
use crate::instance::undos::{ReadyUndo, RunningUndo, UndoPlace};

/// The undo of everything that the run has done so far, created by [`Ctx::undo_all`].
///
/// ```
/// # use outlive::prelude::*;
/// # async fn reserve() -> Result<u32> { Ok(7) }
/// # async fn release(_: u32) -> Result<()> { Ok(()) }
/// async fn order(ctx: Ctx, _: ()) -> Result<String> {
///     ctx.step("reserve", reserve).undo("release", release).await?;
///     let undoing = ctx.undo_all();
///     undoing.await?;
///     Ok("the reservation is released".into())
/// }
/// # fn main() { let _ = Engine::open("memory:").workflow("order", order); }
/// ```
#[must_use = "nothing is undone until this is awaited"]
pub struct UndoAll<'a> {
    resident: Arc<ResidentRun>,
    current: Option<CurrentUndo>,
    ctx: PhantomData<&'a Ctx>,
}

/// The undo that runs.
struct CurrentUndo {
    place: UndoPlace,
    undo: Arc<dyn ReadyUndo>,
    running: Pin<Box<dyn RunningUndo>>,
}

impl UndoAll<'_> {
    pub(super) fn new(resident: Arc<ResidentRun>) -> Self {
        Self { resident, current: None, ctx: PhantomData }
    }
}

impl Future for UndoAll<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { resident, current, .. } = &mut *self;
        let place = match resident.place() {
            CalledFrom::Workflow => "",
            CalledFrom::Step => "inside a step",
            CalledFrom::Elsewhere => "outside its workflow",
        };
        if !place.is_empty() {
            return Poll::Ready(Err(Error::Scope { operation: "undo_all".to_owned(), place }));
        }
        loop {
            if let Some(CurrentUndo { running, .. }) = current {
                match ready!(running.as_mut().poll(cx)) {
                    Ok(()) => *current = None,
                    Err(error) => {
                        let mut state = resident.lock();
                        let sentence = failed(&error, &state.machine.undos().left());
                        state.machine.fail(sentence);
                        return Poll::Pending;
                    }
                }
            }
            let next = resident.lock().undos.as_mut().and_then(|undos| undos.take_last());
            let Some((place, undo)) = next else { return Poll::Ready(Ok(())) };
            *current = Some(CurrentUndo { place, running: undo.clone().begin(), undo });
        }
    }
}

impl Drop for UndoAll<'_> {
    fn drop(&mut self) {
        if let Some(CurrentUndo { place, undo, running }) = self.current.take()
            && !running.is_done()
        {
            // It was given up in the middle, and is left to do.
            drop(running);
            self.resident.lock().undos.get_or_insert_default().add(place, undo);
        }
    }
}

/// Describes an undo that has finally failed.
fn failed(error: &Error, left: &[UndoLeft]) -> String {
    format!("an undo has failed: {error}; not undone yet: {}; fix what it needs, then retry", list(left))
}

/// Describes recorded undos that the code does not have.
fn lost(undos: &[UndoLeft]) -> String {
    format!(
        "recorded undos are not in this version of the code: {}; restore them under these names and restart the program",
        list(undos)
    )
}

fn list(undos: &[UndoLeft]) -> String {
    let names: Vec<_> = undos.iter().map(|undo| format!("{} ({})", undo.op, undo.site)).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// Undoes what a run has done, if its function returned an error or the run is cancelled, and there is anything to undo.
/// `failure` is the error.
pub(crate) fn unwinding(resident: &Arc<ResidentRun>, failure: Option<&str>) -> Option<Unwinding> {
    let mut state = resident.lock();
    let cancelled = state.machine.inbox().cancel_reason();
    let reason = cancelled.or(failure)?.to_owned();
    let undos = state.machine.undos();
    let has_undos = state.undos.as_ref().is_some_and(|undos| !undos.is_empty());
    if undos.is_unwinding() && !has_undos || !(has_undos || undos.has_unwound() || !undos.lost().is_empty()) {
        return None;
    }
    state.machine.undos_mut().unwind();
    drop(state);
    let ctx = Ctx::new(resident.clone());
    Some(Unwinding { ctx, reason, stage: UnwindStage::Begin(None) })
}

/// A run that undoes what it has done: records that it does, waits for its children, and runs all undos.
pub(crate) struct Unwinding {
    ctx: Ctx,
    reason: String,
    stage: UnwindStage,
}

enum UnwindStage {
    Begin(Option<OpenOperation>),
    Child(ChildResult<'static, IgnoredAny>),
    Undo(UndoAll<'static>),
}

impl Future for Unwinding {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { ctx, reason, stage } = &mut *self;
        loop {
            match stage {
                UnwindStage::Begin(begin) => {
                    let mut state = ctx.resident.lock();
                    let undos = state.machine.undos().lost();
                    if !undos.is_empty() {
                        state.machine.fail(lost(&undos));
                        return Poll::Pending;
                    }
                    drop(state);
                    let spec = || Spec::Unwind(reason.as_str().into());
                    let begin = begin.get_or_insert_with(|| OpenOperation::unwind(ctx));
                    let Ok(Polled::Ready(_)) = begin.poll(cx, spec, |_, _| Ok(())) else { return Poll::Pending };
                }
                // Only its success has something to undo.
                UnwindStage::Child(child) => drop(ready!(Pin::new(child).poll(cx))),
                UnwindStage::Undo(undo) => return Pin::new(undo).poll(cx).map(drop),
            }
            let state = ctx.resident.lock();
            let child = state.undos.as_ref().and_then(|undos| undos.first_child());
            let child = child.map(|(id, location)| (id.to_owned(), location));
            drop(state);
            *stage = match child {
                Some((id, location)) => UnwindStage::Child(ChildResult::new(ctx, &id, location)),
                None => UnwindStage::Undo(UndoAll::new(ctx.resident.clone())),
            };
        }
    }
}
