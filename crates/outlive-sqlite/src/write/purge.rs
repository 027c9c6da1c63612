//! Removes everything stored about an instance.

use outlive_core::id::{InstanceNum, Name};
use outlive_core::kind::JobKind;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Answer, Refusal};
use rusqlite::params;

use super::batch::{Batch, PriorAttempt};
use super::{family, queue};
use crate::row::{self, InstanceRow};
use crate::schema::QUEUED;

const ALL_OF_IT: [&str; 8] = [
    "DELETE FROM tag WHERE (key, value, num) IN (SELECT label.key, label.atom, num \
         FROM instance JOIN json_each(iif(json_valid(tags), tags, '{}')) AS label WHERE num = ?1)",
    "DELETE FROM entry WHERE instance = ?1",
    "DELETE FROM past WHERE instance = ?1",
    "DELETE FROM inbox WHERE instance = ?1",
    "DELETE FROM sent WHERE instance = ?1",
    "DELETE FROM dedup WHERE instance = ?1",
    "DELETE FROM output WHERE instance = ?1",
    "DELETE FROM instance WHERE num = ?1",
];

/// Keeps the names of the instance for its lifecycle events.
const LEAVE: &str = "INSERT OR REPLACE INTO gone (num, pos, reported, id, workflow) \
     SELECT num, ?2, reported, id, workflow FROM instance WHERE num = ?1";

pub(super) fn apply(batch: &mut Batch<'_>, id: &Name, num: Option<InstanceNum>) -> rusqlite::Result<Answer> {
    let is_meant = |read: &InstanceRow| num.is_none_or(|num| read.instance.num == num);
    let Some(InstanceRow { instance, .. }) = row::by_id(batch.connection, id)?.filter(is_meant) else {
        let is_done = batch.prior == PriorAttempt::MaybeDurable;
        return Ok(if is_done { Answer::Done } else { Answer::Refused(Refusal::NotFound) });
    };
    if !instance.status.is_ended() && instance.status != Status::Stuck {
        return Ok(Answer::Refused(Refusal::Status(instance.status)));
    }
    if let Some(parent) = family::waiting_parent(batch.connection, instance.num.0)? {
        return Ok(Answer::Refused(Refusal::Child { parent }));
    }
    remove(batch, instance.num.0, &instance.workflow, instance.status.kind())?;
    Ok(Answer::Done)
}

/// Removes an instance in any state.
pub(super) fn remove(batch: &mut Batch<'_>, num: u64, workflow: &Name, status: StatusKind) -> rusqlite::Result<()> {
    batch
        .connection
        .prepare_cached(LEAVE)?
        .execute(params![num.cast_signed(), batch.cache.next_in_feed().cast_signed()])?;
    if JobKind::of(workflow).is_some() {
        batch.cache.add(workflow, QUEUED, -queue::len(batch.connection, num)?);
    }
    for sql in ALL_OF_IT {
        batch.connection.prepare_cached(sql)?.execute([num.cast_signed()])?;
    }
    batch.cache.count(workflow, Some(status), None);
    batch.cache.drop_facts(num);
    batch.cache.forget_damage(num);
    Ok(())
}
