//! Begins and ends an epoch: what a lease changes in the file.

use outlive_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::batch::Batch;

/// Begins a new epoch, and makes instances due that were driven in an earlier one. Returns the epoch and how many there
/// were.
pub(super) fn take_over(batch: &mut Batch<'_>, now: Timestamp) -> rusqlite::Result<(u64, usize)> {
    let sql = "UPDATE instance SET wake = ?1, owner = 0, recoveries = recoveries + 1, blamed = blamed + (num IS ?2) \
         WHERE owner <> 0";
    let values = params![now.as_millis(), culprit(batch.connection)?];
    let driven = batch.connection.prepare_cached(sql)?.execute(values)?;
    batch.cache.marks.epoch += 1;
    batch.cache.drop_all_facts();
    Ok((batch.cache.marks.epoch, driven))
}

/// Returns the instance that alone can be blamed for a crash: the only driven one of the most suspicious sort.
fn culprit(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT num, min(recoveries, 2) AS sort FROM instance WHERE owner <> 0 ORDER BY sort DESC LIMIT 2";
    let mut statement = connection.prepare_cached(sql)?;
    let worst = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let worst: Vec<(i64, i64)> = worst.collect::<rusqlite::Result<_>>()?;
    Ok(match worst[..] {
        [(num, _)] => Some(num),
        [(num, first), (_, second)] if first > second => Some(num),
        _ => None,
    })
}

/// Makes instances due that are still driven, for the next holder. Does nothing if a later holder has taken over.
pub(super) fn release(batch: &mut Batch<'_>) -> rusqlite::Result<()> {
    if batch.epoch == 0 {
        return Ok(());
    }
    batch.connection.prepare_cached("UPDATE instance SET wake = 0, owner = 0 WHERE owner <> 0")?.execute([])?;
    batch.cache.drop_all_facts();
    Ok(())
}
