//! Options for runs that live long: how long journals may get, and how long ended runs are kept.

use super::Builder;
use crate::instance::env::ENTRIES_MAX;
use crate::keep::{IntoKeepRuns, KeepRules};

/// How long journals may get, and how long ended runs are kept.
pub(super) struct LongLives {
    pub(super) max_entries: u64,
    pub(super) keep: KeepRules,
}

impl Default for LongLives {
    fn default() -> Self {
        Self { max_entries: ENTRIES_MAX, keep: KeepRules::default() }
    }
}

impl Builder {
    /// Sets how many entries the journal of a run may have; 50,000 by default.
    ///
    /// A long journal takes long to replay. At 80 % of the limit there is a lifecycle event and a warning in the log; a
    /// run that exceeds the limit becomes stuck. A long loop should [restart](crate::Ctx::restart) in time. A run that is
    /// stuck already continues when the program is started with a higher limit.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn count(ctx: Ctx, to: u32) -> Result<u32> {
    ///     for n in 0..to {
    ///         ctx.step("count", || async move { outlive::Ok(n) }).await?;
    ///     }
    ///     Ok(to)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").workflow("count", count).max_entries(10).start().await?;
    /// assert_eq!(engine.start(count, &8).await?.result().await?, 8);
    /// assert!(engine.start(count, &20).await?.result().await.unwrap_err().to_string().contains("more than 10 entries"));
    /// # Ok(()) }
    /// ```
    pub fn max_entries(mut self, entries: u64) -> Self {
        self.long_lives.max_entries = entries.max(1);
        self
    }

    /// Sets how long runs are kept after their end; for ever by default. A [`KeepRuns`](crate::KeepRuns) says it for each way to
    /// end. Runs of workflows with a time [of their own](Self::keep_of) are not affected.
    ///
    /// Runs that need not be kept any longer are removed within a minute or so, a few at a time, so that live work does not
    /// notice. The file does not shrink, but its free pages are used again; `outlive compact` gives them back. Two kinds of
    /// ended runs stay longer: children whose parent may still need their outcome, and runs with
    /// [dead letters](crate::Run::dead_signals), which only [`purge`](crate::Run::purge) removes.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("double", double).keep("7 days")).await;
    /// // let engine = Engine::open("shop.db").workflow("double", double).keep("7 days").start().await?;
    /// let run = test.start(double, &21).id("d").await?;
    /// # test.result(&run).await?;
    /// test.advance("8 days").await;
    /// while test.get_run::<u32>("d").await.is_ok() {
    ///     tokio::task::yield_now().await; // it is gone soon
    /// }
    /// # Ok(()) }
    /// ```
    pub fn keep(mut self, keep: impl IntoKeepRuns) -> Self {
        if let Err(error) = self.long_lives.keep.set_default(keep.into_keep()) {
            self.refuse(error);
        }
        self
    }

    /// Sets how long the runs of one workflow are kept after their end, whatever [`keep`](Self::keep) says.
    ///
    /// ```
    /// # use outlive::{KeepRuns, prelude::*};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").keep("7 days").keep_of("audit", KeepRuns::forever()).start().await?;
    /// # Ok(()) }
    /// ```
    pub fn keep_of(mut self, workflow: &str, keep: impl IntoKeepRuns) -> Self {
        if let Err(error) = self.long_lives.keep.set(workflow, keep.into_keep()) {
            self.refuse(error);
        }
        self
    }
}
