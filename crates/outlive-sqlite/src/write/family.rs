//! Parents and children: who waits for an instance, and who has to know when a stuck one ends.

use outlive_core::child::{ChildOutcome, Parent};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::status::Status;
use outlive_core::store::commit::SendWrite;
use outlive_core::store::query::Instance;
use outlive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::row;

/// Codes 4 to 6 are those of the statuses of an ended run.
const WAITING_PARENT: &str = "SELECT child.parent_id FROM instance AS child JOIN instance AS parent ON parent.num = child.parent \
     WHERE child.num = ?1 AND child.status NOT IN (4, 5, 6) AND parent.status NOT IN (4, 5, 6)";

const PARENT: &str = "SELECT parent, is_detached, parent_id FROM instance WHERE num = ?1 AND parent IS NOT NULL";

const ATTACHED: &str = "SELECT num, id FROM instance WHERE parent = ?1 AND parent IS NOT NULL AND is_detached = 0 \
     AND status NOT IN (4, 5, 6) ORDER BY num";

/// Returns the id of the parent that waits for this instance, if there is one.
pub(super) fn waiting_parent(connection: &Connection, num: u64) -> rusqlite::Result<Option<Name>> {
    let mut statement = connection.prepare_cached(WAITING_PARENT)?;
    statement.query_row([num.cast_signed()], |row| Ok(Name::recorded(&row::text(row, 0)))).optional()
}

/// Returns the outcomes of all children that have ended, for a run that had failed: its inbox was cleared, and it accepted
/// none since. `seq` is the number of the entry that reopens it.
pub(super) fn repeated_ends(
    connection: &Connection,
    parent: u64,
    seq: u64,
    at: Timestamp,
) -> rusqlite::Result<Vec<SendWrite>> {
    let end = |child: Instance| {
        let outcome = ChildOutcome::of(child.status, child.outcome.as_ref(), child.note.as_deref())?;
        Some(SendWrite::child_ended(child.parent.as_ref()?, &child.id, &outcome, seq, at))
    };
    Ok(row::ended_children(connection, parent)?.into_iter().filter_map(end).collect())
}

/// Returns what to send when a message has ended a stuck run, which no driver does: its parent learns of it, and its
/// attached children get the same message.
pub(super) fn notices(
    connection: &Connection,
    num: u64,
    ended: &SendWrite,
    reason: &str,
) -> rusqlite::Result<Vec<SendWrite>> {
    let mut statement = connection.prepare_cached(PARENT)?;
    let parent = statement.query_row([num.cast_signed()], |row| {
        Ok(Parent {
            num: InstanceNum(row::int(row, 0).unwrap_or(0).cast_unsigned()),
            is_detached: row::int(row, 1) == Some(1),
            id: Name::recorded(&row::text(row, 2)),
        })
    });
    let outcome = ChildOutcome::of(Status::Cancelled, None, Some(reason));
    let to_parent = parent.optional()?.zip(outcome);
    let mut notices: Vec<_> = to_parent
        .map(|(parent, outcome)| SendWrite::child_ended(&parent, &ended.id, &outcome, ended.token, ended.at))
        .into_iter()
        .collect();
    let mut statement = connection.prepare_cached(ATTACHED)?;
    let mut rows = statement.query(params![num.cast_signed()])?;
    while let Some(row) = rows.next()? {
        let num = InstanceNum(row::int(row, 0).unwrap_or(0).cast_unsigned());
        let id = Name::recorded(&row::text(row, 1));
        notices.push(SendWrite { id, num: Some(num), dedup: None, ..ended.clone() });
    }
    Ok(notices)
}
