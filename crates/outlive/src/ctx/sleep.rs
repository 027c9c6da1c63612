//! Durable sleeps, which survive restarts.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use outlive_core::workflow::{OpKind, Outcome, Polled, Spec};

use crate::ctx::Ctx;
use crate::ctx::operation::OpenOperation;
use crate::error::Error;

/// A durable sleep, created by [`Ctx::sleep`] and [`Ctx::sleep_until`].
///
/// ```
/// # use outlive::prelude::*;
/// async fn reminder(ctx: Ctx, days: u64) -> Result<()> {
///     let nap = ctx.sleep(format!("{days} days"));
///     Ok(nap.await?) // the sleep starts here
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("reminder", reminder)).await;
/// let run = test.start(reminder, &30).await?;
/// test.advance("30 days").await;
/// assert_eq!(run.status().await?, Status::Completed);
/// # Ok(()) }
/// ```
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep<'a> {
    operation: OpenOperation,
    spec: Spec,
    ctx: PhantomData<&'a Ctx>,
}

impl Sleep<'_> {
    #[track_caller]
    pub(super) fn new(ctx: &Ctx, spec: Result<Spec, Error>) -> Self {
        let mut operation = OpenOperation::open(ctx, OpKind::Sleep, "", Location::caller());
        let spec = spec.unwrap_or_else(|error| {
            operation.refuse(error);
            Spec::SleepFor(std::time::Duration::ZERO)
        });
        Self { operation, spec, ctx: PhantomData }
    }

    /// Sets a key that distinguishes sleeps outstanding at the same time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn shorter(ctx: Ctx, _: ()) -> Result<()> {
    ///     tokio::select! {
    ///         done = ctx.sleep("1 hour").key("long") => Ok(done?),
    ///         done = ctx.sleep("1 minute").key("short") => Ok(done?),
    ///     }
    /// }
    /// ```
    pub fn key(mut self, key: impl ToString) -> Self {
        self.operation.set_key(&key.to_string());
        self
    }
}

impl Future for Sleep<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { operation, spec, .. } = &mut *self;
        match operation.poll(cx, || spec.clone(), |_, _| Ok(()))? {
            Polled::Ready(Outcome::Cancelled) => Poll::Ready(Err(cancelled(operation))),
            Polled::Ready(_) => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }
}

/// Returns the error of an operation in a cancelled run.
pub(super) fn cancelled(operation: &OpenOperation) -> Error {
    let state = operation.resident.lock();
    Error::Cancelled { reason: state.machine.inbox().cancel_reason().unwrap_or_default().to_owned() }
}
