//! Child workflows: starting them, waiting for their outcomes, and handles to them.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use outlive_core::child::{ChildOutcome, Parent};
use outlive_core::duration::IntoDuration;
use outlive_core::failure::{Cause, Failure};
use outlive_core::id::Name;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::retry::Retry;
use outlive_core::time::Timestamp;
use outlive_core::workflow::{ChildKey, OpKind, Outcome, Polled, Spec};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::ctx::effect::{Effect, StartOptions};
use crate::ctx::operation::{OpenOperation, Tie};
use crate::ctx::sleep::cancelled;
use crate::ctx::step::undo::{self, UndoBody};
use crate::error::Error;
use crate::instance::codec;
use crate::instance::target::Target;
use crate::signal::SignalNamed;

/// The start of a child, created by [`Ctx::spawn`]. Returns a [handle](Child) to it.
///
/// ```
/// # use outlive::prelude::*;
/// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(42) }
/// async fn checkout(ctx: Ctx, order: String) -> Result<u32> {
///     let parcel = ctx.spawn(ship, &order).id(&format!("parcel-{order}")).await?;
///     ctx.step("send mail", || async { outlive::Ok(()) }).await?; // while the child runs
///     Ok(parcel.result().await?)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("checkout", checkout).workflow("ship", ship).start().await?;
/// assert_eq!(engine.start(checkout, &"7".to_string()).await?.result().await?, 42);
/// # Ok(()) }
/// ```
#[must_use = "nothing is started until this is awaited"]
pub struct SpawnChild<'a, O> {
    start: StartOptions,
    ctx: Ctx,
    location: &'static Location<'static>,
    output: Tie<'a, O>,
}

/// A child whose result is awaited, created by [`Ctx::run`]. If it fails, so does this, with [`Error::Child`].
///
/// ```
/// # use outlive::prelude::*;
/// # async fn ship(_: Ctx, parcel: u32) -> Result<u32> { Ok(parcel) }
/// async fn ship_all(ctx: Ctx, parcels: Vec<u32>) -> Result<Vec<u32>> {
///     ctx.map(parcels, |parcel| *parcel, |ctx, parcel| async move { ctx.run(ship, &parcel).await })
///         .concurrency(100)
///         .await
///         .map_err(Into::into)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("all", ship_all).workflow("ship", ship).start().await?;
/// assert_eq!(engine.start(ship_all, &vec![1, 2]).await?.result().await?, [1, 2]);
/// # Ok(()) }
/// ```
#[must_use = "nothing is started until this is awaited"]
pub struct RunChild<'a, O> {
    spawn: SpawnChild<'a, O>,
    /// The wait for the outcome, once the child is started.
    result: Option<ChildResult<'a, O>>,
}

/// The options of both.
macro_rules! child_options {
    ($start:ident => $($path:ident).+) => {
        /// Sets the id of the child. By default, the child is named for its parent and the operation, for example
        /// `order-42/ship`. If a run has the id, this returns [`Error::Conflict`].
        ///
        /// ```
        /// # use outlive::prelude::*;
        /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
        /// async fn order(ctx: Ctx, item: String) -> Result<u32> {
        ///     Ok(ctx.run(ship, &item).id(&format!("parcel-{item}")).await?) // an id that others know
        /// }
        /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
        /// ```
        pub fn id(mut $start, id: &str) -> Self {
            $($path).+.set_id(id);
            $start
        }

        /// Adds a tag to find the child by.
        ///
        /// ```
        /// # use outlive::prelude::*;
        /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
        /// async fn order(ctx: Ctx, item: String) -> Result<u32> {
        ///     Ok(ctx.run(ship, &item).tag("item", &item).await?) // `outlive ps shop.db --tag item=tent`
        /// }
        /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
        /// ```
        pub fn tag(mut $start, key: &str, value: &str) -> Self {
            $($path).+.add_tag(key, value);
            $start
        }

        /// Delays the start by this time.
        ///
        /// ```
        /// # use outlive::prelude::*;
        /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
        /// async fn order(ctx: Ctx, item: String) -> Result<u32> {
        ///     Ok(ctx.run(ship, &item).delay("2 hours").await?) // the customer may still change the order
        /// }
        /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
        /// ```
        pub fn delay(mut $start, delay: impl IntoDuration) -> Self {
            $($path).+.set_delay(delay);
            $start
        }

        /// Starts the child at this time; a time in the past means now.
        ///
        /// ```
        /// # use outlive::prelude::*;
        /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
        /// async fn order(ctx: Ctx, (item, release): (String, Timestamp)) -> Result<u32> {
        ///     Ok(ctx.run(ship, &item).at(release).await?)
        /// }
        /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
        /// ```
        pub fn at(mut $start, moment: impl Into<Timestamp>) -> Self {
            $($path).+.change(|start| {
                start.due = moment.into();
                Ok(())
            });
            $start
        }

        /// Cancels the child if it has not ended after this time, which counts from its start.
        pub fn deadline(mut $start, limit: impl IntoDuration) -> Self {
            $($path).+.set_deadline(limit);
            $start
        }

        /// Lets the child continue when its parent ends. By default, it is then cancelled.
        ///
        /// ```
        /// # use outlive::prelude::*;
        /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
        /// async fn order(ctx: Ctx, item: String) -> Result<u32> {
        ///     ctx.spawn(ship, &item).detach().await?;
        ///     Ok(1) // the parcel is still on its way
        /// }
        /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
        /// ```
        pub fn detach(mut $start) -> Self {
            $($path).+.change(|start| {
                start.parent.iter_mut().for_each(|parent| parent.is_detached = true);
                Ok(())
            });
            $start
        }

        /// Sets a key that distinguishes children of one workflow that are outstanding at the same time; by default, the
        /// id.
        ///
        /// ```
        /// # use outlive::prelude::*;
        /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
        /// async fn order(ctx: Ctx, _: ()) -> Result<u32> {
        ///     let (tent, bag) = tokio::try_join!(
        ///         ctx.run(ship, &"tent".to_string()).key("tent"),
        ///         ctx.run(ship, &"bag".to_string()).key("bag"),
        ///     )?;
        ///     Ok(tent + bag)
        /// }
        /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
        /// ```
        pub fn key(mut $start, key: impl ToString) -> Self {
            $($path).+.set_key(&key.to_string());
            $start
        }

        /// Sets how to undo what the child has done. If this run fails or is cancelled after the child has completed, the
        /// undo runs, as the undo of a [step](crate::ctx::Step::undo) does. A child that is still running then is cancelled
        /// first, and the undo runs if it completes nevertheless. A [detached](Self::detach) child cannot have an undo.
        ///
        /// ```
        /// # use outlive::prelude::*;
        /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
        /// # async fn call_back(_: u32) -> Result<()> { Ok(()) }
        /// async fn order(ctx: Ctx, item: String) -> Result<u32> {
        ///     let parcel = ctx.run(ship, &item).undo("call parcel back", |parcel| call_back(parcel)).await?;
        ///     let _: bool = ctx.wait("accepted").timeout("14 days").await?; // if this times out, it is called back
        ///     Ok(parcel)
        /// }
        /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
        /// ```
        pub fn undo<U, N>(mut $start, name: &str, undo: U) -> Self
        where
            U: UndoBody<O, N>,
            O: DeserializeOwned + 'static,
        {
            let operation = $($path).+.operation_mut();
            operation.add_undo(undo::declare(operation, name, Payload::decode, undo));
            $start
        }

        /// Sets when to retry the undo before this.
        ///
        /// ```
        /// # use outlive::prelude::*;
        /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
        /// # async fn call_back(_: u32) -> Result<()> { Ok(()) }
        /// async fn order(ctx: Ctx, item: String) -> Result<u32> {
        ///     let hourly = Retry::forever().constant("1 hour"); // until the courier picks up the phone
        ///     Ok(ctx.run(ship, &item).undo("call parcel back", call_back).undo_retry(hourly).await?)
        /// }
        /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
        /// ```
        pub fn undo_retry(mut $start, retry: impl Into<Retry>) -> Self {
            undo::set_retry($($path).+.operation_mut(), retry.into());
            $start
        }

        /// Sets how long an attempt of the undo before this may take.
        ///
        /// ```
        /// # use outlive::prelude::*;
        /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
        /// # async fn call_back(_: u32) -> Result<()> { Ok(()) }
        /// async fn order(ctx: Ctx, item: String) -> Result<u32> {
        ///     Ok(ctx.run(ship, &item).undo("call parcel back", call_back).undo_timeout("1 minute").await?)
        /// }
        /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
        /// ```
        pub fn undo_timeout(mut $start, limit: impl IntoDuration) -> Self {
            undo::set_timeout($($path).+.operation_mut(), limit);
            $start
        }
    };
}

impl<'a, O> SpawnChild<'a, O> {
    #[track_caller]
    pub(super) fn new<T: Target<M>, M>(ctx: &'a Ctx, target: &T, input: &T::Input) -> Self {
        let mut start = StartOptions::new(ctx, OpKind::Child, target, input);
        let info = ctx.info();
        start.change(|start| {
            start.parent = Some(Parent { num: info.num, id: Name::recorded(&info.id), is_detached: false });
            Ok(())
        });
        Self { start, ctx: ctx.clone(), location: Location::caller(), output: PhantomData }
    }

    child_options!(self => self.start);
}

impl<'a, O> RunChild<'a, O> {
    #[track_caller]
    pub(super) fn new<T: Target<M>, M>(ctx: &'a Ctx, target: &T, input: &T::Input) -> Self {
        Self { spawn: SpawnChild::new(ctx, target, input), result: None }
    }

    child_options!(self => self.spawn.start);
}

impl<O> Future for SpawnChild<'_, O> {
    type Output = Result<Child<O>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ctx = self.ctx.clone();
        self.start.poll(cx).map_ok(|to| Child { ctx, id: to.id, output: PhantomData })
    }
}

impl<O: DeserializeOwned> Future for RunChild<'_, O> {
    type Output = Result<O, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { spawn, result } = &mut *self;
        let result = match result {
            Some(result) => result,
            None => {
                let Poll::Ready(to) = spawn.start.poll(cx)? else { return Poll::Pending };
                result.insert(ChildResult::new(&spawn.ctx, &to.id, spawn.location))
            }
        };
        Pin::new(result).poll(cx)
    }
}

/// A handle to a child.
///
/// ```
/// # use outlive::prelude::*;
/// # async fn ship(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.wait("address").await?) }
/// async fn checkout(ctx: Ctx, _: ()) -> Result<u32> {
///     let parcel = ctx.spawn(ship, &()).await?;
///     parcel.signal("address", &7).await?;
///     tokio::select! {
///         biased;
///         number = parcel.result() => Ok(number?),
///         _ = ctx.sleep("1 day") => {
///             parcel.cancel("it takes too long").await?;
///             Ok(0)
///         }
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("checkout", checkout).workflow("ship", ship).start().await?;
/// assert_eq!(engine.start(checkout, &()).await?.result().await?, 7);
/// # Ok(()) }
/// ```
pub struct Child<O> {
    ctx: Ctx,
    id: String,
    output: PhantomData<fn() -> O>,
}

impl<O> Child<O> {
    /// Returns the id of the child.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
    /// async fn order(ctx: Ctx, item: String) -> Result<u32> {
    ///     let parcel = ctx.spawn(ship, &item).await?;
    ///     ctx.signal("customer", "shipped", parcel.id()).await?; // who can then follow it
    ///     Ok(parcel.result().await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
    /// ```
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits until the child has ended, and returns its result. The outcome is handed out once: if it was consumed, a
    /// second wait never ends.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
    /// async fn order(ctx: Ctx, item: String) -> Result<u32> {
    ///     let parcel = ctx.spawn(ship, &item).await?;
    ///     ctx.sleep("1 hour").await?; // meanwhile, the child runs
    ///     match parcel.result().await {
    ///         Err(Error::Child { failure, .. }) => Err(format!("not shipped: {failure}").into()),
    ///         shipped => Ok(shipped?),
    ///     }
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
    /// ```
    ///
    /// # Errors
    /// [`Error::Child`] if the child failed or was cancelled.
    #[track_caller]
    pub fn result(&self) -> ChildResult<'_, O> {
        ChildResult::new(&self.ctx, &self.id, Location::caller())
    }

    /// Sends a signal to the child.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
    /// async fn order(ctx: Ctx, item: String) -> Result<u32> {
    ///     let parcel = ctx.spawn(ship, &item).await?;
    ///     let address: String = ctx.wait("address").await?;
    ///     parcel.signal("address", &address).await?; // pass it on
    ///     Ok(parcel.result().await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
    /// ```
    ///
    /// # Errors
    /// [`Error::Status`] if the child has ended.
    #[track_caller]
    pub fn signal<V: Serialize + ?Sized>(&self, name: impl SignalNamed<V>, value: &V) -> Effect<'_> {
        self.ctx.signal(&self.id, name, value)
    }

    /// Asks the child to cancel. It may clean up, and then ends; [`result`](Self::result) returns [`Error::Child`]. A child
    /// that has ended is not changed by this.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn ship(_: Ctx, _: String) -> Result<u32> { Ok(7) }
    /// async fn order(ctx: Ctx, item: String) -> Result<u32> {
    ///     let parcel = ctx.spawn(ship, &item).await?;
    ///     tokio::select! {
    ///         biased;
    ///         shipped = parcel.result() => Ok(shipped?),
    ///         _ = ctx.wait::<String>("changed my mind") => {
    ///             parcel.cancel("the customer has changed their mind").await?;
    ///             Ok(0)
    ///         }
    ///     }
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("order", order).workflow("ship", ship); }
    /// ```
    #[track_caller]
    pub fn cancel(&self, reason: &str) -> Effect<'_> {
        let message = Message::Cancel { reason: reason.to_owned() };
        Effect::message(&self.ctx, OpKind::Cancel, "child", &self.id, Ok(message))
    }
}

/// The wait for the outcome of a child, created by [`Child::result`].
///
/// ```
/// # use outlive::prelude::*;
/// # use futures_util::future::select_ok;
/// # async fn quote(_: Ctx, shop: String) -> Result<u32> { Ok(shop.len() as u32) }
/// async fn first_quote(ctx: Ctx, _: ()) -> Result<u32> {
///     let (one, other) = (ctx.spawn(quote, &"north".into()).id("n").await?, ctx.spawn(quote, &"east".into()).id("e").await?);
///     let (price, _) = select_ok([one.result(), other.result()]).await?;
///     Ok(price) // the other child is cancelled when this run ends
/// }
/// # fn main() { let _ = Engine::open("memory:").workflow("first", first_quote); }
/// ```
#[must_use = "a wait does nothing until it is awaited"]
pub struct ChildResult<'a, O> {
    operation: OpenOperation,
    output: Tie<'a, O>,
}

impl<O> ChildResult<'_, O> {
    pub(super) fn new(ctx: &Ctx, id: &str, location: &'static Location<'static>) -> Self {
        Self { operation: OpenOperation::open(ctx, OpKind::Result, id, location), output: PhantomData }
    }
}

impl<O: DeserializeOwned> Future for ChildResult<'_, O> {
    type Output = Result<O, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let operation = &mut self.operation;
        let key = ChildKey::new(operation.name());
        match operation.poll(cx, || Spec::Result(key), |id, payload| read::<O>(id, payload).map(drop))? {
            Polled::Ready(Outcome::Signal { payload, .. }) => match read(operation.name(), &payload) {
                Ok(result) => Poll::Ready(result),
                Err(sentence) => {
                    operation.get_stuck(sentence);
                    Poll::Pending
                }
            },
            Polled::Ready(Outcome::Cancelled) => Poll::Ready(Err(cancelled(operation))),
            _ => Poll::Pending,
        }
    }
}

/// Reads the outcome of a child, or returns why the run would be stuck with it.
fn read<O: DeserializeOwned>(id: &str, payload: &Payload) -> Result<Result<O, Error>, String> {
    match ChildOutcome::from_payload(payload)? {
        ChildOutcome::Completed(value) => codec::read(&value).map(Ok).map_err(|problem| {
            let name = std::any::type_name::<O>();
            format!(
                "the result of child {id:?} does not read as {name}: {problem}; fix the type and restart the program"
            )
        }),
        failed => {
            let failure = failed.into_failure().unwrap_or_else(|| Failure::new(Cause::Error, "it failed"));
            Ok(Err(Error::Child { id: id.to_owned(), failure: Box::new(failure) }))
        }
    }
}
