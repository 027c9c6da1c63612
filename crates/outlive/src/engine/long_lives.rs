//! Options for runs that live long: how long journals may get, and how long ended runs are kept.

use super::Builder;
use crate::instance::env::ENTRIES_MAX;

/// How long journals may get.
pub(super) struct LongLives {
    pub(super) max_entries: u64,
}

impl Default for LongLives {
    fn default() -> Self {
        Self { max_entries: ENTRIES_MAX }
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
}
