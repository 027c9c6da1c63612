//! Forgets what was told long ago: lines of the feed that are older than the engine keeps them.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::commit::{Answer, Write};
use outlive_core::query::Line;
use outlive_core::time::Timestamp;

use crate::error::Error;
use crate::worker::Worker;

/// How often it looks for something that is too old.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// What is needed to forget.
pub(crate) struct Retention {
    pub(crate) worker: Arc<Worker>,
    pub(crate) keep: Duration,
}

impl Retention {
    /// Its task.
    pub(crate) async fn run(self) {
        let clock = &self.worker.env.clock;
        loop {
            let next = clock.now().after(EVERY);
            while clock.now() < next {
                clock.sleep_until(next).await;
            }
            if self.worker.committer.is_closed() {
                return;
            }
            if let Err(error) = self.forget().await {
                tracing::warn!("what was told long ago is not forgotten yet: {error}");
            }
        }
    }

    /// Forgets all that is too old, a little at a time: others write in between.
    async fn forget(&self) -> Result<(), Error> {
        let now = self.worker.env.clock.now().as_millis();
        let keep = i64::try_from(self.keep.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(now.saturating_sub(keep));
        while self.has_older(before).await? {
            match self.worker.committer.write(Write::Trim(before)).await? {
                Answer::Trimmed(0) => break,
                _ => tokio::task::yield_now().await,
            }
        }
        Ok(())
    }

    /// Whether anything may be too old: a store that is at rest is not written to.
    async fn has_older(&self, before: Timestamp) -> Result<bool, Error> {
        let first = self.worker.store.feed(0, 1).await?;
        Ok(first.first().is_some_and(|told| match &told.line {
            Line::Entry(entry) => entry.at < before,
            Line::News(news) => news.at < before,
        }))
    }
}
