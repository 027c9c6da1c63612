//! Claims instances for a driver, and clears the suspicion against those that survived.

use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Absolve, Answer, Claim, Claimed};
use outlive_core::store::page::Room;
use outlive_core::time::Timestamp;
use rusqlite::params;

use super::batch::Batch;
use super::cache::{Damage, InstanceFacts};
use super::feed::{self, StatusChange};
use crate::row::{self, InstanceRow};

const OWN: &str = "UPDATE instance SET owner = ?2, wake = NULL, note = NULL, status = ?3, until = ?4, started_at = ?5, reported = ?6 \
     WHERE num = ?1";

/// The journal and the inbox of an instance, or what is wrong with each.
type Contents = (Result<Vec<Entry>, String>, Result<Vec<Inbound>, String>);

pub(super) fn apply(batch: &mut Batch<'_>, claim: &Claim) -> rusqlite::Result<Answer> {
    if !batch.holds(claim.epoch) {
        return Ok(Answer::Fenced);
    }
    let mut claimed: Vec<Claimed> = Vec::with_capacity(claim.nums.len());
    for num in &claim.nums {
        if claimed.iter().any(|one| one.instance.num == *num) {
            continue;
        }
        if let Some(found) = claimable(batch, num.0, claim.at)? {
            claimed.push(own(batch, found, claim)?);
        }
    }
    Ok(Answer::Claimed(claimed))
}

/// Returns the instance if it can be driven and no other process drives it.
fn claimable(batch: &Batch<'_>, num: u64, now: Timestamp) -> rusqlite::Result<Option<InstanceRow>> {
    Ok(row::by_num(batch.connection, num)?.filter(|found| {
        let instance = &found.instance;
        // An instance with a damaged status is claimed too: its driver marks it stuck, or it would stay due
        // forever.
        let is_stuck = instance.status == Status::Stuck && found.is_status_known;
        let is_open = !instance.status.is_ended() && !is_stuck;
        // A claim whose reply was lost made this epoch the owner, and no driver knows.
        let is_free = [0, batch.epoch].contains(&instance.owner.0);
        is_open && !instance.is_early(now) && is_free
    }))
}

fn own(batch: &mut Batch<'_>, found: InstanceRow, claim: &Claim) -> rusqlite::Result<Claimed> {
    let InstanceRow { mut instance, damage, is_status_known } = found;
    let (num, before) = (instance.num.0, is_status_known.then_some(instance.status.kind()));
    let is_held = instance.status == Status::Paused;
    let had_paused = before.is_some_and(StatusKind::is_idle) && !is_held;
    if !is_held {
        instance.status = Status::Running;
    }
    let is_again = instance.owner == claim.epoch && instance.started_at == Some(claim.at);
    instance.owner = claim.epoch;
    (instance.wake, instance.note) = (None, None);
    let is_first = instance.started_at.is_none() || is_again;
    let started_at = *instance.started_at.get_or_insert(claim.at);
    let (journal, inbox) = contents(batch, num, damage)?;
    if journal.is_err() || inbox.is_err() {
        // Before anything is written: a transaction that has hit a damaged page accepts no more writes.
        let damage = Damage { journal: journal.as_ref().err().cloned(), inbox: inbox.as_ref().err().cloned() };
        batch.cache.know_damage(num, damage);
    }
    if let Ok(journal) = &journal {
        let seq = journal.last().map_or(0, |last| last.seq);
        let change = StatusChange { num, workflow: &instance.workflow, before, seq, at: claim.at, outcome: None };
        instance.reported = feed::report_status(batch, change, instance.status, None, instance.reported)?;
    }
    batch.connection.prepare_cached(OWN)?.execute(params![
        num.cast_signed(),
        claim.epoch.0.cast_signed(),
        instance.status.kind().code(),
        instance.status.until().map(Timestamp::as_millis),
        started_at.as_millis(),
        instance.reported.cast_signed(),
    ])?;
    batch.cache.count(&instance.workflow, before, Some(instance.status.kind()));
    if let (Ok(journal), Ok(inbox)) = (&journal, &inbox) {
        let facts = InstanceFacts {
            seq: journal.last().map_or(0, |last| last.seq),
            status: instance.status.kind(),
            recoveries: instance.recoveries,
            blamed: instance.blamed,
            inbox_last: inbox.last().map_or(0, |last| last.pos),
            reported: instance.reported,
        };
        batch.cache.know(num, facts, instance.workflow.clone());
    }
    Ok(Claimed { is_first, had_paused, instance, journal, inbox })
}

/// Reads the journal and the inbox of an instance, each as its contents or as what is wrong with it. `damage` is
/// what is wrong with the row.
fn contents(batch: &Batch<'_>, num: u64, damage: Option<String>) -> rusqlite::Result<Contents> {
    let known = batch.cache.damage(num).cloned().unwrap_or_default();
    let journal = match known.journal.or(damage) {
        Some(damage) => Err(damage),
        None => row::entries(batch.connection, num, 0, Room::unbounded())?,
    };
    let inbox = match known.inbox {
        Some(damage) => Err(damage),
        None => row::messages(batch.connection, num, 0, Room::unbounded())?,
    };
    Ok((journal, inbox))
}

/// Lowers the recovery counts of instances.
pub(super) fn absolve(batch: &mut Batch<'_>, absolve: &Absolve) -> rusqlite::Result<Answer> {
    if !batch.holds(absolve.epoch) {
        return Ok(Answer::Fenced);
    }
    let sql = "UPDATE instance SET recoveries = ?2, blamed = 0 \
         WHERE num = ?1 AND recoveries > ?2 AND status IN (0, 1, 2, 7, 8, 9)";
    let mut statement = batch.connection.prepare_cached(sql)?;
    for num in &absolve.nums {
        statement.execute(params![num.0.cast_signed(), absolve.max_recoveries])?;
        let is_suspect = |known: &&mut InstanceFacts| known.is_open() && known.recoveries > absolve.max_recoveries;
        if let Some(known) = batch.cache.known(num.0).filter(is_suspect) {
            (known.recoveries, known.blamed) = (absolve.max_recoveries, 0);
        }
    }
    Ok(Answer::Done)
}
