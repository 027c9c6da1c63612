//! The information a run has about itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlive_core::child::Parent;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::origin::{RunOrigin, TraceContext};
#[cfg(feature = "tokio")]
use outlive_core::store::beginning::Beginning;
#[cfg(feature = "tokio")]
use outlive_core::store::query::Instance;
use outlive_core::time::Timestamp;

/// Information a run has about itself.
///
/// ```
/// use outlive::ctx::Info;
/// # use outlive::prelude::*;
/// async fn who(ctx: Ctx, _: ()) -> Result<String> {
///     let info: &Info = ctx.info();
///     Ok(format!("{} {} for {}", info.workflow, info.id, info.tags["customer"]))
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("order", who).start().await?;
/// let run = engine.start(who, &()).id("42").tag("customer", "ada").await?;
/// assert_eq!(run.result().await?, "order 42 for ada");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Info {
    /// The run's id.
    pub id: String,
    /// The name its workflow is registered under.
    pub workflow: String,
    /// Which run it is under its id, from 1: one more after each [restart](crate::Ctx::restart).
    pub run_number: u32,
    /// When this run began.
    pub started_at: Timestamp,
    /// The run's tags.
    pub tags: BTreeMap<String, String>,
    /// When the run is cancelled if it has not ended.
    pub deadline: Option<Timestamp>,
    pub(crate) num: InstanceNum,
    pub(crate) seed: u64,
    pub(crate) parent: Option<Box<Parent>>,
    pub(crate) origin: Option<Arc<RunOrigin>>,
}

impl Info {
    /// Returns the id of the run that this one is a child of, if it is one.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn child(ctx: Ctx, _: ()) -> Result<Option<String>> { Ok(ctx.info().parent_id().map(str::to_owned)) }
    /// async fn parent(ctx: Ctx, _: ()) -> Result<Option<String>> { Ok(ctx.run(child, &()).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("parent", parent).workflow("child", child).start().await?;
    /// let run = engine.start(parent, &()).id("order-42").await?;
    /// assert_eq!(run.result().await?.as_deref(), Some("order-42"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn parent_id(&self) -> Option<&str> {
        self.parent.as_ref().map(|parent| parent.id.as_str())
    }

    /// Returns the version of the code that started the run, if the engine that started it
    /// [had one](crate::Builder::version). It stays the same, whichever version executes the run later.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn origin(ctx: Ctx, _: ()) -> Result<Option<String>> { Ok(ctx.info().version().map(str::to_owned)) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").workflow("origin", origin).version("2026-11-16").start().await?;
    /// let run = engine.start(origin, &()).await?;
    /// assert_eq!(run.result().await?.as_deref(), Some("2026-11-16"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.origin.as_ref()?.version.as_ref().map(Name::as_str)
    }

    /// Returns the trace that the start of the run belongs to, as a W3C `traceparent`. A run has one if it was started
    /// with the feature `opentelemetry` and a tracer provider. It stays the same through restarts, and children have
    /// that of their parent.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn post(_url: &str, _header: Option<&str>) -> Result<()> { Ok(()) }
    /// async fn notify(ctx: Ctx, url: String) -> Result<()> {
    ///     Ok(ctx.step("post", || post(&url, ctx.info().traceparent())).await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("notify", notify); }
    /// ```
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.origin.as_ref()?.trace.as_ref().map(TraceContext::parent)
    }
}

#[cfg(feature = "tokio")]
impl Info {
    /// Returns the information of a stored run, which began like this.
    pub(crate) fn of(instance: &Instance, beginning: &Beginning) -> Self {
        Self {
            id: instance.id.to_string(),
            workflow: instance.workflow.to_string(),
            run_number: beginning.run_number,
            started_at: beginning.started_at,
            tags: instance.tags.clone(),
            deadline: instance.deadline,
            num: instance.num,
            seed: beginning.seed,
            parent: instance.parent.clone().map(Box::new),
            origin: instance.origin.clone(),
        }
    }
}
