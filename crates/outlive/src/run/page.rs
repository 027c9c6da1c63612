//! Pages of a list of runs.

use outlive_core::id::InstanceNum;
use outlive_core::store::query::Filter;

use super::RunInfo;
use crate::error::Error;
use crate::runtime::shared::Shared;

/// The maximum number of runs on a page.
const PAGE: usize = 100;

/// One page of a list of runs.
///
/// ```
/// use outlive::RunPage;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
/// # engine.start(double, &1).id("one").await?;
/// # engine.start(double, &2).id("two").await?;
/// let page: RunPage = engine.list(Filter::runs()).await?;
/// let ids: Vec<&str> = page.runs.iter().map(|run| run.id.as_str()).collect();
/// assert_eq!((ids, page.next), (vec!["two", "one"], None));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunPage {
    /// The runs, newest first.
    pub runs: Vec<RunInfo>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<PageMark>,
}

impl RunPage {
    pub(crate) async fn read(shared: &Shared, filter: &Filter, from: Option<PageMark>) -> Result<Self, Error> {
        let page = shared.list(filter, from.map(|mark| mark.0), PAGE).await?;
        Ok(Self { runs: page.instances.into_iter().map(RunInfo::of).collect(), next: page.next.map(PageMark) })
    }
}

/// The position where a page of a list begins. It stays valid while runs are added and removed.
///
/// ```
/// use outlive::PageMark;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
/// # for n in 0..120 { engine.start(double, &n).await?; }
/// let mark: Option<PageMark> = engine.list(Filter::runs()).await?.next;
/// engine.start(double, &21).await?; // does not move what follows the mark
/// assert_eq!(engine.list_after(Filter::runs(), mark).await?.runs.len(), 20);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageMark(pub(crate) InstanceNum);
