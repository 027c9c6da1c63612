//! Removes ended runs that need not be kept any longer, at a pace that leaves room for live work.
//!
//! Each write looks at a few runs, in the order in which they ended. Between two writes it pauses for several times as long
//! as the last one took: under load a write takes longer, and so does the pause. If that is too slow for what ends in the
//! meantime, the pauses get shorter from minute to minute.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::store::commit::{Answer, Write};
use tokio::time::Instant;

use crate::error::Error;
use crate::keep::KeepRules;
use crate::runtime::services::Services;

/// How often to look for runs that need not be kept any longer.
const EVERY: Duration = Duration::from_secs(60);
/// The number of runs that one write looks at.
const BATCH: u32 = 64;
/// How many times as long as a write the pause after it is, in the first minute.
const PAUSES: u32 = 4;
/// The shortest pause.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The task that removes ended runs.
pub(crate) struct Expiry {
    pub(crate) services: Arc<Services>,
    pub(crate) rules: KeepRules,
}

impl Expiry {
    /// Looks at once, as much may have expired while no process ran, and then every minute.
    pub(crate) async fn run(self) {
        if self.rules.is_forever() {
            return;
        }
        let clock = &self.services.env.clock;
        loop {
            match self.pass().await {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "removed ended runs that need not be kept any longer"),
                Err(_) if self.services.committer.is_closed() => return,
                Err(error) => tracing::warn!("could not remove ended runs, trying again in a minute: {error}"),
            }
            clock.sleep_until(clock.now().after(EVERY)).await;
            if self.services.committer.is_closed() {
                return;
            }
        }
    }

    /// Removes all runs that need not be kept any longer. Returns their number.
    async fn pass(&self) -> Result<u64, Error> {
        let mut expire = self.rules.expire(self.services.now(), BATCH);
        let (begun, mut total) = (Instant::now(), 0);
        loop {
            let written = Instant::now();
            let Answer::Expired { removed, next } =
                self.services.committer.write(Write::Expire(Box::new(expire.clone()))).await?
            else {
                return Ok(total);
            };
            total += removed;
            let Some(next) = next else { return Ok(total) };
            expire.after = Some(next);
            let minutes = u32::try_from(begun.elapsed().as_secs() / 60).unwrap_or(u32::MAX);
            let pause = written.elapsed() * PAUSES / minutes.saturating_add(1);
            tokio::time::sleep(pause.max(PAUSE_MIN)).await;
        }
    }
}
