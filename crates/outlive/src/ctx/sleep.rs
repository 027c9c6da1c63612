//! A pause that survives restarts.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use outlive_core::workflow::{OpKind, Outcome, Polled, Spec};

use crate::ctx::Ctx;
use crate::ctx::operation::Operation;
use crate::error::Error;

/// A durable sleep, made by [`Ctx::sleep`] and [`Ctx::sleep_until`].
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep<'a> {
    operation: Operation,
    spec: Spec,
    ctx: PhantomData<&'a Ctx>,
}

impl Sleep<'_> {
    #[track_caller]
    pub(super) fn new(ctx: &Ctx, spec: Result<Spec, Error>) -> Self {
        let mut operation = Operation::open(ctx, OpKind::Sleep, "", Location::caller());
        let spec = spec.unwrap_or_else(|error| {
            operation.refuse(error);
            Spec::SleepFor(std::time::Duration::ZERO)
        });
        Self { operation, spec, ctx: PhantomData }
    }

    /// Tells sleeps apart that are outstanding at the same time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn shorter(ctx: Ctx, _: ()) -> Result<()> {
    ///     tokio::select! {
    ///         done = ctx.sleep("1 hour").key("long").into_future() => Ok(done?),
    ///         done = ctx.sleep("1 minute").key("short").into_future() => Ok(done?),
    ///     }
    /// }
    /// ```
    pub fn key(mut self, key: impl ToString) -> Self {
        self.operation.set_key(&key.to_string());
        self
    }
}

impl<'a> IntoFuture for Sleep<'a> {
    type Output = Result<(), Error>;
    type IntoFuture = SleepFuture<'a>;

    fn into_future(self) -> SleepFuture<'a> {
        SleepFuture(self)
    }
}

/// A sleep that is awaited.
#[must_use = "a sleep does nothing until it is awaited"]
pub struct SleepFuture<'a>(Sleep<'a>);

impl Future for SleepFuture<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Sleep { operation, spec, .. } = &mut self.0;
        match operation.poll(cx, || spec.clone())? {
            Polled::Ready(Outcome::Cancelled) => Poll::Ready(Err(cancelled(operation))),
            Polled::Ready(_) => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }
}

/// What an operation tells when the run is cancelled.
pub(super) fn cancelled(operation: &Operation) -> Error {
    let state = operation.cell.lock();
    Error::Cancelled { reason: state.machine.cancel_reason().unwrap_or_default().to_owned() }
}
