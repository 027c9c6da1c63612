//! Recovers after the process died: loads the instances that may be the cause in groups, and absolves those that
//! survive.

use std::sync::atomic::Ordering;

use outlive_core::id::InstanceNum;
use outlive_core::store::commit::{Absolve, Answer, Claim, Claimed, Write};
use outlive_core::time::Timestamp;

use super::suspects::{SPARED, Suspects};
use super::{RETRY, Worker};
use crate::error::Error;

impl Worker {
    /// Reads which instances may have crashed the process. Nothing is claimed before that is known.
    pub(super) async fn load_suspects(&self) {
        let now = self.env.clock.now();
        let found = loop {
            match self.store.suspects(now).await {
                Ok(found) => break found,
                Err(error) => {
                    tracing::warn!("could not read what was running when the process died, trying again: {error}")
                }
            }
            if self.committer.is_closed() {
                return;
            }
            tokio::time::sleep(RETRY).await;
        };
        *self.suspects() = Suspects::new(found);
        self.note_suspects();
        let suspects = self.suspects();
        self.claims().retain(|num| !suspects.is_waiting(num));
    }

    pub(super) fn suspects(&self) -> std::sync::MutexGuard<'_, Suspects> {
        self.suspects.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn note_suspects(&self) {
        self.is_recovering.store(!self.suspects().is_over(), Ordering::Relaxed);
    }

    /// Returns `true` if an instance must not be claimed yet because it may crash the process.
    pub(super) fn has_to_wait(&self, num: InstanceNum) -> bool {
        self.is_recovering.load(Ordering::Relaxed) && self.suspects().is_waiting(num)
    }

    /// Admits the next group of suspects, and absolves the survivors.
    pub(super) async fn recover(&self, now: Timestamp) -> Result<(), Error> {
        let (admitted, spared) = self.suspects().admit(now);
        self.note_suspects();
        admitted.into_iter().for_each(|num| self.queue_claim(num));
        self.absolve(spared, SPARED, now).await?;
        let survivors = self.suspects().take_survivors(now);
        self.absolve(survivors, 0, now).await
    }

    /// Lowers the recoveries counted against these instances to this many. If the store cannot do so now, all are
    /// cleared later.
    async fn absolve(&self, nums: Vec<InstanceNum>, max_recoveries: u32, now: Timestamp) -> Result<(), Error> {
        if nums.is_empty() {
            return Ok(());
        }
        let absolve = Absolve { nums: nums.clone(), epoch: self.epoch, max_recoveries };
        let answer = self.committer.write(Write::Absolve(absolve)).await;
        answer.map(drop).inspect_err(|_| self.suspects().drive(nums.into_iter().collect(), now))
    }

    /// Admits all other suspects, because the culprit was found and is stuck.
    pub(super) fn admit_all(&self) {
        let others = self.suspects().found();
        self.note_suspects();
        others.into_iter().for_each(|num| self.queue_claim(num));
    }

    /// Notes that these instances are loaded again, some of which were driven when a process died.
    pub(super) fn driven_again(&self, claim: &Claim, claimed: &[Claimed]) {
        let blamed = claimed.iter().filter(|one| one.instance.recoveries > 0).map(|one| one.instance.num).collect();
        let now = self.env.clock.now();
        let mut suspects = self.suspects();
        suspects.came(&claim.nums, now);
        suspects.drive(blamed, now);
        drop(suspects);
        self.note_suspects();
    }

    /// Notes that something of an instance was written, which may admit suspects that wait for it to survive.
    pub(super) fn note_progress(&self, write: &Write, answer: &Answer) {
        if !self.is_recovering.load(Ordering::Relaxed) {
            return;
        }
        let (num, has_recorded) = match (write, answer) {
            (Write::Commit(commit), Answer::Done) => (commit.num, !commit.entries.is_empty()),
            (Write::Turn(turn), Answer::Turned(_)) if !turn.lifecycle.is_empty() => (turn.num, true),
            _ => return,
        };
        let mut suspects = self.suspects();
        if has_recorded {
            suspects.recorded(num);
        }
        if suspects.progressed(num) {
            self.wakeup.notify_one();
        }
    }

    /// Returns when an instance that waits may be loaded, if nothing else happens.
    #[cfg(feature = "testing")]
    pub(crate) fn next_admission(&self) -> Option<Timestamp> {
        let suspects = self.suspects().next();
        [suspects, self.claims().next()].into_iter().flatten().min()
    }
}
