//! Durable waits for a signal.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::id::Name;
use outlive_core::payload::Payload;
use outlive_core::workflow::{OpKind, Outcome, Polled, Spec};
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::ctx::operation::{OpenOperation, Tie};
use crate::ctx::sleep::cancelled;
use crate::error::Error;
use crate::instance::panics;

/// A wait for a signal, created by [`Ctx::wait`].
///
/// ```
/// # use outlive::prelude::*;
/// async fn approve(ctx: Ctx, _: ()) -> Result<String> {
///     let approval = ctx.wait::<String>("approval").timeout("3 days");
///     Ok(approval.await?)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("approve", approve).start().await?;
/// let run = engine.start(approve, &()).await?;
/// run.signal("approval", "ada").await?;
/// assert_eq!(run.result().await?, "ada");
/// # Ok(()) }
/// ```
#[must_use = "a wait does nothing until it is awaited"]
pub struct Wait<'a, T> {
    operation: OpenOperation,
    timeout: Option<Duration>,
    value: Tie<'a, T>,
}

impl<T> Wait<'_, T> {
    #[track_caller]
    pub(super) fn new(ctx: &Ctx, name: &str) -> Self {
        let operation = OpenOperation::open(ctx, OpKind::Wait, name, Location::caller());
        Self { operation, timeout: None, value: PhantomData }
    }

    /// Sets a timeout, after which the wait returns [`Error::WaitTimeout`]. The time counts from the first wait,
    /// through restarts.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn approve(ctx: Ctx, _: ()) -> Result<bool> {
    ///     match ctx.wait("approval").timeout("3 days").await {
    ///         Err(error) if error.is_timeout() => Ok(false),
    ///         other => Ok(other?),
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("approve", approve)).await;
    /// let run = test.start(approve, &()).await?;
    /// test.advance("3 days").await;
    /// assert!(!run.result().await?);
    /// # Ok(()) }
    /// ```
    pub fn timeout(mut self, duration: impl IntoDuration) -> Self {
        match duration.into_duration() {
            Ok(duration) => self.timeout = Some(duration),
            Err(error) => self.operation.refuse(error.into()),
        }
        self
    }

    /// Sets a key that distinguishes waits for one name that are outstanding at the same time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn two_votes(ctx: Ctx, _: ()) -> Result<u32> {
    ///     let (one, other) = tokio::try_join!(
    ///         ctx.wait::<u32>("vote").key("one"),
    ///         ctx.wait::<u32>("vote").key("other"),
    ///     )?;
    ///     Ok(one + other)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("two votes", two_votes).start().await?;
    /// let run = engine.start(two_votes, &()).await?;
    /// run.signal("vote", &40).await?;
    /// run.signal("vote", &2).await?;
    /// assert_eq!(run.result().await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn key(mut self, key: impl ToString) -> Self {
        self.operation.set_key(&key.to_string());
        self
    }
}

impl<T: DeserializeOwned> Future for Wait<'_, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { operation, timeout, .. } = &mut *self;
        let name = Name::recorded(operation.name());
        let spec = || Spec::Wait { name, timeout: *timeout, accepts: accepts::<T> };
        match operation.poll(cx, spec, |name, payload| read::<T>(name, payload).map(drop))? {
            Polled::Ready(Outcome::Signal { payload, .. }) => match read::<T>(operation.name(), &payload) {
                Ok(value) => Poll::Ready(Ok(value)),
                Err(sentence) => {
                    operation.get_stuck(sentence);
                    Poll::Pending
                }
            },
            Polled::Ready(Outcome::TimedOut) => Poll::Ready(Err(Error::WaitTimeout {
                name: operation.name().to_owned(),
                timeout: timeout.unwrap_or_default(),
            })),
            Polled::Ready(Outcome::Cancelled) => Poll::Ready(Err(cancelled(operation))),
            _ => Poll::Pending,
        }
    }
}

/// Checks that a value deserializes as a `T`, and returns what is wrong otherwise.
pub(super) fn accepts<T: DeserializeOwned>(payload: &Payload) -> Result<(), String> {
    let name = std::any::type_name::<T>();
    match panics::catch(|| payload.decode::<T>().map(drop)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("it does not read as {name}: {error}")),
        Err(panic) => Err(format!("reading it as {name} {panic}")),
    }
}

/// Reads the value of a signal, or returns why the run would be stuck with it.
pub(super) fn read<T: DeserializeOwned>(name: &str, payload: &Payload) -> Result<T, String> {
    payload.decode().map_err(|error| {
        format!(
            "signal {name:?} does not read as {}: {}; fix the type and restart the program; \
             a signal that no wait has taken yet becomes a dead letter",
            std::any::type_name::<T>(),
            Error::decode(String::from("it"), payload, &error),
        )
    })
}
