//! Restarts: a run continues as a new one under its id, with a fresh journal.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use outlive_core::payload::Payload;
use outlive_core::workflow::{OpKind, Outcome, Polled, Spec};
use serde::Serialize;

use crate::ctx::Ctx;
use crate::ctx::operation::{OpenOperation, Tie};
use crate::ctx::sleep::cancelled;
use crate::error::Error;
use crate::instance::codec;

/// A restart, created by [`Ctx::restart`].
///
/// It has whatever type is needed where it is awaited, because it never returns a value.
///
/// ```
/// # use outlive::prelude::*;
/// async fn count_up(ctx: Ctx, n: u32) -> Result<u32> {
///     let again: outlive::ctx::Restart<'_, u32> = ctx.restart(&(n + 1));
///     if n < 5 { Ok(again.await?) } else { Ok(n) }
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("count up", count_up).start().await?;
/// assert_eq!(engine.start(count_up, &1).await?.result().await?, 5);
/// # Ok(()) }
/// ```
#[must_use = "a restart does nothing until it is awaited"]
pub struct Restart<'a, T> {
    operation: OpenOperation,
    input: Option<Payload>,
    tie: Tie<'a, T>,
}

impl<T> Restart<'_, T> {
    #[track_caller]
    pub(super) fn new<I: Serialize + ?Sized>(ctx: &Ctx, input: &I) -> Self {
        let mut operation = OpenOperation::open(ctx, OpKind::Restart, "", Location::caller());
        let input = codec::encode("the input of the restart", input, ctx.resident.env.max_payload);
        let input = input.map_err(|error| operation.refuse(error)).ok();
        Self { operation, input, tie: PhantomData }
    }
}

impl<T> Future for Restart<'_, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { operation, input, .. } = &mut *self;
        // Without an input there is an error, which comes first.
        let spec = || Spec::Restart(input.take().unwrap_or_else(|| Payload::recorded("null")));
        match operation.poll(cx, spec, |_, _| Ok(()))? {
            Polled::Ready(Outcome::Cancelled) => Poll::Ready(Err(cancelled(operation))),
            // It has no other outcome.
            _ => Poll::Pending,
        }
    }
}
