//! Patches: the choice between old and new code for runs that are in flight when a deploy changes it.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use outlive_core::workflow::{OpKind, Outcome, Polled, Spec};

use crate::ctx::Ctx;
use crate::ctx::operation::OpenOperation;
use crate::error::Error;

/// The question whether a run takes the new path, created by [`Ctx::patched`].
///
/// ```
/// # use outlive::prelude::*;
/// async fn checkout(ctx: Ctx, _: ()) -> Result<String> {
///     let is_new = ctx.patched("insure parcels");
///     Ok(if is_new.await? { "insured".into() } else { "as it was".into() })
/// }
/// # fn main() { let _ = Engine::open("memory:").workflow("checkout", checkout); }
/// ```
#[must_use = "a patch does nothing until it is awaited"]
pub struct Patched<'a> {
    operation: OpenOperation,
    ctx: PhantomData<&'a Ctx>,
}

impl Patched<'_> {
    #[track_caller]
    pub(super) fn new(ctx: &Ctx, name: &str) -> Self {
        Self { operation: OpenOperation::open(ctx, OpKind::Patch, name, Location::caller()), ctx: PhantomData }
    }
}

impl Future for Patched<'_> {
    type Output = Result<bool, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.operation.poll(cx, || Spec::Patch, |_, _| Ok(()))? {
            Polled::Ready(outcome) => Poll::Ready(Ok(outcome == Outcome::Patched(true))),
            _ => Poll::Pending,
        }
    }
}
