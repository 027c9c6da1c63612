//! What a worker does after the process died: brings back what may be the cause in groups, and absolves what survives.

use std::sync::atomic::Ordering;

use outlive_core::commit::{Absolve, Answer, Claim, Claimed, Write};
use outlive_core::id::InstanceNum;
use outlive_core::time::Timestamp;

use super::suspects::{SPARED, Suspects};
use super::{RETRY, Worker};
use crate::error::Error;

impl Worker {
    /// Asks the store what may have taken the process down. Nothing is claimed before that is known.
    pub(super) async fn load_suspects(&self) {
        let now = self.env.clock.now();
        let found = loop {
            match self.store.suspects(now).await {
                Ok(found) => break found,
                Err(error) => {
                    tracing::warn!("the store could not be asked what was driven when the process died: {error}")
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

    /// Whether an instance is not to be claimed yet, as it may take the process down.
    pub(super) fn has_to_wait(&self, num: InstanceNum) -> bool {
        self.is_recovering.load(Ordering::Relaxed) && self.suspects().is_waiting(num)
    }

    /// Admits the next group of suspects, and absolves what has survived.
    pub(super) async fn recover(&self, now: Timestamp) -> Result<(), Error> {
        let (admitted, spared) = self.suspects().admit(now);
        self.note_suspects();
        admitted.into_iter().for_each(|num| self.queue_claim(num));
        self.absolve(spared, SPARED, now).await?;
        let survivors = self.suspects().take_survivors(now);
        self.absolve(survivors, 0, now).await
    }

    /// Has the store hold no more than so many recoveries against these; if it cannot now, all are forgotten later.
    async fn absolve(&self, nums: Vec<InstanceNum>, recoveries_max: u32, now: Timestamp) -> Result<(), Error> {
        if nums.is_empty() {
            return Ok(());
        }
        let absolve = Absolve { nums: nums.clone(), epoch: self.epoch, recoveries_max };
        let answer = self.committer.write(Write::Absolve(absolve)).await;
        answer.map(drop).inspect_err(|_| self.suspects().drive(nums.into_iter().collect(), now))
    }

    /// The culprit is found, and set aside: all the others come back.
    pub(super) fn admit_all(&self) {
        let others = self.suspects().found();
        self.note_suspects();
        others.into_iter().for_each(|num| self.queue_claim(num));
    }

    /// These are brought back, some of them as they were driven at a death.
    pub(super) fn driven_again(&self, claim: &Claim, claimed: &[Claimed]) {
        let blamed = claimed.iter().filter(|one| one.instance.recoveries > 0).map(|one| one.instance.num).collect();
        let now = self.env.clock.now();
        let mut suspects = self.suspects();
        suspects.came(&claim.nums, now);
        suspects.drive(blamed, now);
        drop(suspects);
        self.note_suspects();
    }

    /// Something of an instance was written: what waits for it to survive may come in.
    pub(super) fn note_progress(&self, write: &Write, answer: &Answer) {
        if !self.is_recovering.load(Ordering::Relaxed) {
            return;
        }
        let (num, has_recorded) = match (write, answer) {
            (Write::Commit(commit), Answer::Done) => (commit.num, !commit.entries.is_empty()),
            (Write::Turn(turn), Answer::Turned(_)) if !turn.news.is_empty() => (turn.num, true),
            _ => return,
        };
        let mut suspects = self.suspects();
        if has_recorded {
            suspects.recorded(num);
        }
        if suspects.progressed(num) {
            self.news.notify_one();
        }
    }

    /// When something that waits may be brought back, should nothing else happen.
    pub(crate) fn next_admission(&self) -> Option<Timestamp> {
        let suspects = self.suspects().next();
        [suspects, self.claims().next()].into_iter().flatten().min()
    }
}
