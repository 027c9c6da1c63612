//! Retries or discards dead letters.

use outlive_core::event::Event;
use outlive_core::id::InstanceNum;
use outlive_core::queue::{Dead, PushWrite, ResolveDeadLetters, WhichDeadLetters};
use outlive_core::store::commit::{Answer, Refusal};
use outlive_core::time::Timestamp;
use rusqlite::params;

use super::batch::{Batch, PriorAttempt};
use super::{inbox, push};
use crate::read::queue;
use crate::schema::DEAD;

/// The maximum number of dead letters handled in one write.
const RESOLVE_MAX: usize = 1_000;

const FREE_KEY: &str =
    "DELETE FROM dedup WHERE instance = (SELECT num FROM instance WHERE id = ?1) AND key = ?2 AND pos = ?3";

pub(super) fn apply(batch: &mut Batch<'_>, resolve: &ResolveDeadLetters) -> rusqlite::Result<Answer> {
    let meant = match resolve.which {
        WhichDeadLetters::All => queue::dead(batch.connection, &resolve.job, 0, RESOLVE_MAX)?,
        WhichDeadLetters::One(pos) => {
            let mut one = queue::dead(batch.connection, &resolve.job, pos.saturating_sub(1), 1)?;
            one.retain(|dead| dead.pos == pos);
            one
        }
    };
    if meant.is_empty() && resolve.which != WhichDeadLetters::All {
        let is_done = batch.prior == PriorAttempt::MaybeDurable;
        let done = Answer::DeadLettersResolved { count: 1, nums: Vec::new() };
        return Ok(if is_done { done } else { Answer::Refused(Refusal::NotFound) });
    }
    let mut nums = Vec::new();
    let mut count = 0;
    for dead in &meant {
        if resolve.is_retry {
            let Some(num) = retry(batch, dead, resolve.at)? else { continue };
            nums.push(num);
        }
        count += 1;
        batch.connection.prepare_cached("DELETE FROM dead WHERE pos = ?1")?.execute([dead.pos.cast_signed()])?;
    }
    batch.cache.add(&resolve.job, DEAD, -i64::try_from(count).unwrap_or(0));
    nums.sort_unstable();
    nums.dedup();
    Ok(Answer::DeadLettersResolved { count, nums })
}

/// Sends a dead letter to its instance again. Returns `None` if the instance has ended otherwise, or if another
/// event holds its dedup key.
fn retry(batch: &mut Batch<'_>, dead: &Dead, at: Timestamp) -> rusqlite::Result<Option<InstanceNum>> {
    if let Some(key) = &dead.event.dedup {
        // The dead letter may itself hold the key, which must not keep it out.
        let values = params![dead.id.as_str(), key.as_str(), dead.pos.cast_signed()];
        batch.connection.prepare_cached(FREE_KEY)?.execute(values)?;
    }
    let push = PushWrite {
        id: dead.id.clone(),
        job: dead.job.clone(),
        events: vec![Event::clone(&dead.event).anew()],
        place: dead.place,
        at,
        seed: dead.pos,
        // It is removed from the dead letters in the same write, so it cannot be retried twice and needs no token.
        token: dead.pos,
    };
    let found = inbox::receiver(batch.connection, &push.id)?;
    match push::deliver(batch, found, &push)? {
        Answer::Pushed { num, positions, .. } if positions != [0] => Ok(Some(num)),
        _ => Ok(None),
    }
}
