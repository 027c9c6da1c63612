//! Values and streams that a run gives out, each recorded exactly once in the commit that stores it.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use outlive_core::id::Name;
use outlive_core::output::OutputContent;
use outlive_core::workflow::{EffectSpec, OpKind};

use crate::ctx::Ctx;
use crate::ctx::effect::OpenEffect;
use crate::error::Error;
use crate::output::Recordable;

/// The most items of a stream, unless it is given another limit.
pub(super) const MAX_ITEMS: u64 = 1_000_000;

/// The publication of a value, created by [`Ctx::publish`].
///
/// ```
/// # use outlive::prelude::*;
/// async fn deliver(ctx: Ctx, _: ()) -> Result<()> {
///     let on_its_way = ctx.publish("state", "on its way");
///     on_its_way.await?;
///     ctx.sleep("2 days").await?;
///     Ok(ctx.publish("state", "at the door").await?)
/// }
/// # fn main() { let _ = Engine::open("memory:").workflow("deliver", deliver); }
/// ```
#[must_use = "nothing is published until this is awaited"]
pub struct Publish<'a> {
    effect: OpenEffect,
    ctx: PhantomData<&'a Ctx>,
}

impl Publish<'_> {
    #[track_caller]
    pub(super) fn new<T: Recordable + ?Sized>(ctx: &Ctx, name: &str, value: &T) -> Self {
        let payload = value.record(&format!("the value {name:?}"), ctx.resident.env.max_payload);
        let content = payload.map(|payload| OutputContent::Value { name: Name::recorded(name), version: 0, payload });
        let effect = content.map(EffectSpec::Output);
        let effect = OpenEffect::open(ctx, (OpKind::Publish, name), None, effect, Location::caller());
        Self { effect, ctx: PhantomData }
    }

    /// Sets a key that distinguishes publications under one name that are outstanding at the same time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn race(ctx: Ctx, _: ()) -> Result<()> {
    ///     tokio::try_join!(
    ///         ctx.publish("winner", "ada").key("ada"),
    ///         ctx.publish("winner", "grace").key("grace"),
    ///     )?;
    ///     Ok(())
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("race", race); }
    /// ```
    pub fn key(mut self, key: impl ToString) -> Self {
        self.effect.set_key(&key.to_string());
        self
    }
}

impl Future for Publish<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.effect.poll(cx).map_ok(drop)
    }
}

/// An item for a stream, created by [`Ctx::append`].
///
/// ```
/// # use outlive::prelude::*;
/// async fn bid(ctx: Ctx, _: ()) -> Result<()> {
///     while let Ok(offer) = ctx.wait::<u32>("offer").timeout("10 minutes").await {
///         ctx.append("offers", &offer).await?;
///     }
///     Ok(())
/// }
/// # fn main() { let _ = Engine::open("memory:").workflow("bid", bid); }
/// ```
#[must_use = "nothing is appended until this is awaited"]
pub struct Append<'a> {
    effect: OpenEffect,
    ctx: PhantomData<&'a Ctx>,
}

impl Append<'_> {
    #[track_caller]
    pub(super) fn new<T: Recordable + ?Sized>(ctx: &Ctx, name: &str, value: &T) -> Self {
        let effect = item(name, value, ctx.resident.env.max_payload).map(EffectSpec::Output);
        let effect = OpenEffect::open(ctx, (OpKind::Append, name), None, effect, Location::caller());
        Self { effect, ctx: PhantomData }
    }

    /// Sets how many items the stream may have; one million by default. An append to a full stream returns
    /// [`Error::StreamFull`].
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn listen(ctx: Ctx, _: ()) -> Result<()> {
    ///     loop {
    ///         let line: String = ctx.wait("line").await?;
    ///         match ctx.append("lines", &line).max_items(10_000).await {
    ///             Err(Error::StreamFull { .. }) => return Ok(()), // that is enough
    ///             appended => appended?,
    ///         }
    ///     }
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("listen", listen); }
    /// ```
    pub fn max_items(mut self, limit: u64) -> Self {
        self.effect.change(|effect| {
            if let EffectSpec::Output(content) = effect {
                set_max_items(content, limit);
            }
            Ok(())
        });
        self
    }

    /// Sets a key that distinguishes appends to one stream that are outstanding at the same time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn two_lines(ctx: Ctx, _: ()) -> Result<()> {
    ///     tokio::try_join!(ctx.append("log", "one").key(1), ctx.append("log", "other").key(2))?;
    ///     Ok(())
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("two lines", two_lines); }
    /// ```
    pub fn key(mut self, key: impl ToString) -> Self {
        self.effect.set_key(&key.to_string());
        self
    }
}

impl Future for Append<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.effect.poll(cx).map_ok(drop)
    }
}

/// Returns an item that no attempt appends.
pub(super) fn item<T: Recordable + ?Sized>(name: &str, value: &T, max_bytes: usize) -> Result<OutputContent, Error> {
    let payload = value.record(&format!("the item for stream {name:?}"), max_bytes)?;
    Ok(OutputContent::Item { name: Name::recorded(name), payload, origin: None, max_items: MAX_ITEMS })
}

pub(super) fn set_max_items(content: &mut OutputContent, limit: u64) {
    if let OutputContent::Item { max_items, .. } = content {
        *max_items = limit;
    }
}
