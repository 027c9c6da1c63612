//! The family of a run: its children, and the run that it is a child of.

use std::pin::Pin;
use std::task::{Context, Poll};

use outlive_core::store::query::{Counts, Filter};
use serde::de::DeserializeOwned;

use super::Run;
use super::page::{PageMark, RunPage};
use crate::error::Error;
use crate::runtime::call::PendingCall;

impl<O> Run<O> {
    /// Lists the children of the run, newest first, one page at a time. A child keeps its place in the list when it has
    /// ended, until it is purged.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn ship(_: Ctx, parcel: u32) -> Result<u32> { Ok(parcel) }
    /// async fn order(ctx: Ctx, parcels: u32) -> Result<Vec<u32>> {
    ///     Ok(ctx.map(1..=parcels, |n| *n, |ctx, n| async move { ctx.run(ship, &n).await }).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("order", order).workflow("ship", ship).start().await?;
    /// let run = engine.start(order, &3).id("order-42").await?;
    /// run.result().await?;
    /// for child in run.children().await?.runs {
    ///     println!("{} is {}", child.id, child.status); // order-42/3/ship is completed
    /// #   assert_eq!(child.parent.as_deref(), Some("order-42"));
    /// }
    /// # Ok(()) }
    /// ```
    pub fn children(&self) -> Children {
        let run = Run::new(self.shared.clone(), self.id.clone(), self.num);
        Children { list: ListChildren { run, filter: Filter::runs(), from: None }, call: PendingCall::new(()) }
    }

    /// Returns the run that this one is a child of. `None` if it is not a child, or if its parent was purged.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn ship(_: Ctx, _: ()) -> Result<()> { Ok(()) }
    /// async fn order(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.run(ship, &()).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("order", order).workflow("ship", ship).start().await?;
    /// # engine.start(order, &()).id("order-42").await?.result().await?;
    /// let parcel: Run<()> = engine.get_run("order-42/ship").await?;
    /// let order: Run<()> = parcel.parent().await?.expect("a parcel belongs to an order");
    /// assert_eq!(order.id(), "order-42");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if this run was purged.
    pub async fn parent<P: DeserializeOwned>(&self) -> Result<Option<Run<P>>, Error> {
        let Some(parent) = self.instance().await?.parent else { return Ok(None) };
        // The id may belong to another run by now.
        let found = self.shared.store.instance(&parent.id).await?.filter(|found| found.num == parent.num);
        Ok(found.map(|found| Run::new(self.shared.clone(), found.id, found.num)))
    }
}

/// A list of the children of a run, created by [`Run::children`]. Await it for a [page](RunPage), or
/// [count](Self::count) them.
///
/// ```
/// # use outlive::prelude::*;
/// # async fn ship(_: Ctx, parcel: u32) -> Result<u32> { Ok(parcel) }
/// # async fn order(ctx: Ctx, parcels: u32) -> Result<Vec<u32>> {
/// #     Ok(ctx.map(1..=parcels, |n| *n, |ctx, n| async move { ctx.run(ship, &n).await }).await?)
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("order", order).workflow("ship", ship).start().await?;
/// # let run = engine.start(order, &130).await?;
/// # run.result().await?;
/// let mut page = run.children().await?;
/// let mut ids: Vec<String> = page.runs.into_iter().map(|child| child.id).collect();
/// while let Some(next) = page.next {
///     page = run.children().after(next).await?;
///     ids.extend(page.runs.into_iter().map(|child| child.id));
/// }
/// assert_eq!(ids.len(), 130);
/// # Ok(()) }
/// ```
#[must_use = "nothing is read until this is awaited"]
pub struct Children {
    list: ListChildren,
    call: PendingCall<(), Result<RunPage, Error>>,
}

#[derive(Clone)]
struct ListChildren {
    run: Run<()>,
    filter: Filter,
    from: Option<PageMark>,
}

impl Children {
    /// Selects the children that match a filter as well.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn ship(_: Ctx, n: u32) -> Result<u32> { if n == 2 { Err("no stock".into()) } else { Ok(n) } }
    /// # async fn order(ctx: Ctx, _: ()) -> Result<()> {
    /// #     for n in 1..=3 { let _ = ctx.run(ship, &n).await; }
    /// #     Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("order", order).workflow("ship", ship).start().await?;
    /// # let run = engine.start(order, &()).id("order-42").await?;
    /// # run.result().await?;
    /// let failed = run.children().filter(Filter::runs().status(StatusKind::Failed)).await?;
    /// assert_eq!(failed.runs[0].id, "order-42/ship#2");
    /// # Ok(()) }
    /// ```
    pub fn filter(mut self, filter: Filter) -> Self {
        self.list.filter = filter;
        self
    }

    /// Lists the children that follow a page; pass its [`next`](RunPage::next).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// /// Prints all failed children of a run, however many there are.
    /// async fn print_failed(run: &Run<()>) -> Result<(), Error> {
    ///     let failed = Filter::runs().status(StatusKind::Failed);
    ///     let mut page = run.children().filter(failed.clone()).await?;
    ///     loop {
    ///         page.runs.iter().for_each(|child| println!("{}: {:?}", child.id, child.failure));
    ///         match page.next {
    ///             Some(next) => page = run.children().filter(failed.clone()).after(next).await?,
    ///             None => return Ok(()),
    ///         }
    ///     }
    /// }
    /// ```
    pub fn after(mut self, mark: impl Into<Option<PageMark>>) -> Self {
        self.list.from = mark.into();
        self
    }

    /// Counts the children by status, on all pages.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn ship(_: Ctx, parcel: u32) -> Result<u32> { Ok(parcel) }
    /// # async fn order(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.run(ship, &1).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("order", order).workflow("ship", ship).start().await?;
    /// # let run = engine.start(order, &()).await?;
    /// # run.result().await?;
    /// let counts = run.children().count().await?;
    /// println!("{} of {} parcels shipped", counts.of(StatusKind::Completed), counts.total());
    /// # assert_eq!(counts.total(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if the run was purged.
    pub async fn count(self) -> Result<Counts, Error> {
        let ListChildren { run, filter, .. } = self.list;
        run.instance().await?;
        Ok(run.shared.store.count(&filter.children_of(run.num)).await?)
    }
}

impl Future for Children {
    type Output = Result<RunPage, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { list, call } = &mut *self;
        call.poll(cx, |()| {
            let ListChildren { run, filter, from } = list.clone();
            async move {
                run.instance().await?;
                RunPage::read(&run.shared, &filter.children_of(run.num), from).await
            }
        })
    }
}
