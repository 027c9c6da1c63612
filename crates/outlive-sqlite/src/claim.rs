//! Taking instances in order to drive them.

use outlive_core::commit::{Answer, Claim, Claimed, Epoch};
use outlive_core::status::{Pause, Status};
use outlive_core::time::Timestamp;
use rusqlite::{OptionalExtension, params};

use crate::batch::{Again, Batch};
use crate::ledger::Facts;
use crate::row::{self, Read};

const OWN: &str = "UPDATE instance SET owner = ?2, wake = NULL, status = ?3, pause = ?4, until = ?5, started_at = ?6 \
     WHERE num = ?1";

impl Batch<'_> {
    pub(crate) fn claim(&mut self, claim: &Claim) -> rusqlite::Result<Answer> {
        if !self.holds(claim.epoch) {
            return Ok(Answer::Fenced);
        }
        let mut claimed = Vec::with_capacity(claim.nums.len());
        for num in &claim.nums {
            if let Some(found) = self.claimable(num.0)? {
                claimed.push(self.own(found, claim)?);
            }
        }
        Ok(Answer::Claimed(claimed))
    }

    /// The instance, if nobody drives it and it can be driven.
    fn claimable(&self, num: u64) -> rusqlite::Result<Option<Read>> {
        let sql = format!("SELECT {} FROM instance WHERE num = ?1", row::INSTANCE);
        let mut statement = self.connection.prepare_cached(&sql)?;
        let found = statement.query_row([num.cast_signed()], |row| Ok(row::instance(row))).optional()?;
        Ok(found.filter(|found| {
            let instance = &found.instance;
            // One whose status is damaged is claimed too: its driver sets it aside, or its wake would come for ever.
            let is_stuck = instance.status == Status::Stuck && found.is_status_known;
            let is_open = !instance.status.is_ended() && !is_stuck;
            // A claim whose answer was lost has made this epoch the owner, and nobody has been told.
            let is_lost = self.again == Again::Perhaps && instance.owner.0 == self.epoch;
            is_open && (instance.owner == Epoch(0) || is_lost)
        }))
    }

    fn own(&mut self, found: Read, claim: &Claim) -> rusqlite::Result<Claimed> {
        let Read { mut instance, damage, .. } = found;
        let (num, before) = (instance.num.0, instance.status.kind());
        if !matches!(instance.status, Status::Paused { why: Pause::Hand, .. }) {
            instance.status = Status::Running;
        }
        instance.owner = claim.epoch;
        instance.wake = None;
        let is_lost = self.again == Again::Perhaps && instance.started_at == Some(claim.at);
        let is_first = instance.started_at.is_none() || is_lost;
        let started_at = *instance.started_at.get_or_insert(claim.at);
        let (pause, until) = instance.status.pause();
        self.connection.prepare_cached(OWN)?.execute(params![
            num.cast_signed(),
            claim.epoch.0.cast_signed(),
            instance.status.kind().code(),
            pause.map(Pause::as_str),
            until.map(Timestamp::as_millis),
            started_at.as_millis(),
        ])?;
        self.ledger.count(&instance.workflow, Some(before), Some(instance.status.kind()));
        let journal = row::entries(self.connection, num, 0, usize::MAX)?;
        let inbox = row::messages(self.connection, num, 0)?;
        // What was known is not so any more, and is read again where damage leaves it open what is so.
        self.ledger.drop_facts(num);
        if let (Ok(journal), Ok(inbox)) = (&journal, &inbox) {
            let facts = Facts {
                seq: journal.last().map_or(0, |last| last.seq),
                status: instance.status.kind(),
                recoveries: instance.recoveries,
                inbox_last: inbox.last().map_or(0, |last| last.pos),
                workflow: instance.workflow.clone(),
            };
            self.ledger.know(num, facts);
        }
        Ok(Claimed { is_first, instance, journal: damage.map_or(journal, Err), inbox })
    }
}
