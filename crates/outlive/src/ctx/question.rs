//! Waits for questions, and the replies to them.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::output::{OutputContent, QuestionKey};
use outlive_core::workflow::{EffectSpec, OpKind, Outcome, Polled, Spec};
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::ctx::effect::OpenEffect;
use crate::ctx::operation::{OpenOperation, Tie};
use crate::ctx::sleep::cancelled;
use crate::ctx::wait::{accepts, read};
use crate::error::Error;
use crate::output::Recordable;

/// A wait for a question, created by [`Ctx::wait_ask`].
///
/// ```
/// # use outlive::prelude::*;
/// async fn shop(ctx: Ctx, stock: u32) -> Result<u32> {
///     let (wanted, reply) = ctx.wait_ask::<u32, bool>("in stock").timeout("1 hour").await?;
///     reply.send(&(wanted <= stock)).await?;
///     Ok(stock)
/// }
/// # fn main() { let _ = Engine::open("memory:").workflow("shop", shop); }
/// ```
#[must_use = "a wait does nothing until it is awaited"]
pub struct WaitAsk<'a, Q, A> {
    ctx: &'a Ctx,
    operation: OpenOperation,
    timeout: Option<Duration>,
    types: Tie<'a, (Q, A)>,
}

impl<'a, Q, A> WaitAsk<'a, Q, A> {
    #[track_caller]
    pub(super) fn new(ctx: &'a Ctx, name: &str) -> Self {
        let operation = OpenOperation::open(ctx, OpKind::Question, name, Location::caller());
        Self { ctx, operation, timeout: None, types: PhantomData }
    }

    /// Sets a timeout, after which the wait returns [`Error::WaitTimeout`]. The time counts from the first wait,
    /// through restarts.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn quiz(ctx: Ctx, _: ()) -> Result<bool> {
    ///     match ctx.wait_ask::<String, u32>("score").timeout("1 minute").await {
    ///         Err(error) if error.is_timeout() => Ok(false), // nobody wants to know
    ///         asked => Ok(asked?.1.send(&42).await.is_ok()),
    ///     }
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("quiz", quiz); }
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
    /// async fn two_desks(ctx: Ctx, _: ()) -> Result<()> {
    ///     let (one, other) = tokio::try_join!(
    ///         ctx.wait_ask::<String, u32>("price").key("one"),
    ///         ctx.wait_ask::<String, u32>("price").key("other"),
    ///     )?;
    ///     one.1.send(&5).await?;
    ///     Ok(other.1.send(&7).await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("two desks", two_desks); }
    /// ```
    pub fn key(mut self, key: impl ToString) -> Self {
        self.operation.set_key(&key.to_string());
        self
    }
}

impl<Q: DeserializeOwned, A> Future for WaitAsk<'_, Q, A> {
    type Output = Result<(Q, Reply<A>), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { ctx, operation, timeout, .. } = &mut *self;
        let name = QuestionKey::new(operation.name()).into_name();
        let spec = || Spec::Wait { name, timeout: *timeout, accepts: accepts::<Q> };
        match operation.poll(cx, spec, |name, payload| read::<Q>(name, payload).map(drop))? {
            Polled::Ready(Outcome::Signal { pos, payload }) => match read::<Q>(operation.name(), &payload) {
                Ok(question) => {
                    let (ctx, name) = (ctx.clone(), operation.name().into());
                    Poll::Ready(Ok((question, Reply { ctx, name, question: pos, answer: PhantomData })))
                }
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

/// The way to answer a question, from [`Ctx::wait_ask`]. If it is dropped, the question stays open, and the caller that
/// asked learns that it was not answered when the run ends.
///
/// ```
/// # use outlive::{Reply, prelude::*};
/// async fn answer(reply: Reply<String>, is_late: bool) -> Result<(), Error> {
///     reply.send(if is_late { "tomorrow" } else { "today" }).await
/// }
/// # async fn shop(ctx: Ctx, _: ()) -> Result<()> {
/// #     let (is_late, reply) = ctx.wait_ask("when").await?;
/// #     Ok(answer(reply, is_late).await?)
/// # }
/// # fn main() { let _ = Engine::open("memory:").workflow("shop", shop); }
/// ```
#[must_use = "the caller waits for the answer; call `send`"]
pub struct Reply<A> {
    ctx: Ctx,
    name: Box<str>,
    /// The inbox position of the question.
    question: u64,
    answer: PhantomData<fn(A)>,
}

impl<A> Reply<A> {
    /// Answers the question. The answer is recorded once, in the commit that stores it for the caller that asked.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn shop(ctx: Ctx, price: u32) -> Result<()> {
    ///     let (discount, reply) = ctx.wait_ask::<u32, u32>("price").await?;
    ///     Ok(reply.send(&(price - discount)).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("shop", shop).start().await?;
    /// let run = engine.start(shop, &100).await?;
    /// assert_eq!(run.ask::<u32, u32>("price", &5).await?, 95);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn send<T: Recordable + ?Sized>(self, answer: &T) -> SendReply
    where
        A: std::borrow::Borrow<T>,
    {
        let Self { ctx, name, question, .. } = self;
        let payload = answer.record(&format!("the answer to {name:?}"), ctx.resident.env.max_payload);
        let effect = payload.map(|payload| EffectSpec::Output(OutputContent::Answer { question, payload }));
        let key = question.to_string();
        SendReply { effect: OpenEffect::open(&ctx, (OpKind::Reply, &name), Some(&key), effect, Location::caller()) }
    }
}

/// An answer that is being sent, created by [`Reply::send`].
///
/// ```
/// # use outlive::prelude::*;
/// async fn shop(ctx: Ctx, _: ()) -> Result<()> {
///     let (_, reply) = ctx.wait_ask::<String, u32>("price").await?;
///     let answer = reply.send(&5);
///     Ok(answer.await?) // it is sent here
/// }
/// # fn main() { let _ = Engine::open("memory:").workflow("shop", shop); }
/// ```
#[must_use = "an answer is not sent until this is awaited"]
pub struct SendReply {
    effect: OpenEffect,
}

impl Future for SendReply {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.effect.poll(cx).map_ok(drop)
    }
}
