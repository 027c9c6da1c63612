//! Recovers after the process died: loads the instances that may be the cause in groups, and absolves those that
//! survive.

use outlive_core::id::InstanceNum;
use outlive_core::store::commit::{Absolve, Write};
use outlive_core::time::Timestamp;

use super::Worker;
use crate::error::Error;
use crate::runtime::services::RETRY;
use crate::runtime::services::due::SPARED;

impl Worker {
    /// Reads which instances may have crashed the process. Nothing is claimed before that is known.
    pub(super) async fn load_suspects(&self) {
        let now = self.services.now();
        let found = loop {
            match self.services.store.suspects(now).await {
                Ok(found) => break found,
                Err(error) => {
                    tracing::warn!("could not read what was running when the process died, trying again: {error}")
                }
            }
            if self.services.committer.is_closed() {
                return;
            }
            tokio::time::sleep(RETRY).await;
        };
        self.services.due.suspect(found);
    }

    /// Admits the next group of suspects, and absolves the survivors.
    pub(super) async fn recover(&self, now: Timestamp) -> Result<(), Error> {
        let spared = self.services.due.admit(now);
        self.absolve(spared, SPARED, now).await?;
        let survivors = self.services.due.take_survivors(now);
        self.absolve(survivors, 0, now).await
    }

    /// Lowers the recoveries counted against these instances to this many. If the store cannot do so now, all are
    /// cleared later.
    async fn absolve(&self, nums: Vec<InstanceNum>, max_recoveries: u32, now: Timestamp) -> Result<(), Error> {
        if nums.is_empty() {
            return Ok(());
        }
        let absolve = Absolve { nums: nums.clone(), epoch: self.services.epoch, max_recoveries };
        let answer = self.services.committer.write(Write::Absolve(absolve)).await;
        answer.map(drop).inspect_err(|_| self.services.due.absolve_later(nums.into_iter().collect(), now))
    }
}
