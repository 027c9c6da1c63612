//! Trims the feed: removes lifecycle events that are older than the engine keeps them.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::store::commit::{Age, Answer, Trim, Write};
use outlive_core::store::query::FeedContent;
use outlive_core::time::Timestamp;

use crate::error::Error;
use crate::runtime::services::Services;

/// How often to look for lifecycle events that are too old.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// How many lifecycle events are read to see whether any is too old. Nearly always the first one shows it.
const PAGE: usize = 8;

/// The task that trims the feed.
pub(crate) struct Retention {
    pub(crate) services: Arc<Services>,
    pub(crate) keep: Duration,
}

impl Retention {
    /// Trims at once, so that programs that live for less than an hour do it too, and then every hour.
    pub(crate) async fn run(self) {
        let clock = &self.services.env.clock;
        loop {
            if let Err(error) = self.forget().await
                && !self.services.committer.is_closed()
            {
                tracing::warn!("could not trim old lifecycle events, trying again in an hour: {error}");
            }
            clock.sleep_until(clock.now().after(EVERY)).await;
            if self.services.committer.is_closed() {
                return;
            }
        }
    }

    /// Removes everything that is too old, a little at a time, so that others can write in between.
    async fn forget(&self) -> Result<(), Error> {
        let now = self.services.now();
        let keep = i64::try_from(self.keep.as_millis()).unwrap_or(i64::MAX);
        let trim = Trim { before: Timestamp::from_millis(now.as_millis().saturating_sub(keep)), now };
        while self.has_older(trim).await? {
            match self.services.committer.write(Write::Trim(trim)).await? {
                Answer::Trimmed(0) => break,
                _ => tokio::task::yield_now().await,
            }
        }
        Ok(())
    }

    /// Returns `true` if anything may be too old, so that an idle store is not written to.
    async fn has_older(&self, trim: Trim) -> Result<bool, Error> {
        let mut after = 0;
        loop {
            let page = self.services.store.feed(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(false) };
            let ages = page.iter().map(|item| match &item.content {
                FeedContent::Entry(entry) => trim.age(entry.at),
                FeedContent::Lifecycle(record) => trim.age(record.at),
            });
            if let Some(age) = ages.into_iter().find(|age| *age != Age::Ahead) {
                return Ok(age == Age::Old);
            }
            after = last.pos;
        }
    }
}
