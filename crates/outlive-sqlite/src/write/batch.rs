//! What the writes of one transaction share: the connection, the cache and the lease.

use outlive_core::journal::{Entry, EntryKind};
use outlive_core::store::commit::Epoch;
use rusqlite::{CachedStatement, Connection};

use super::cache::{InstanceFacts, WriterCache};
use super::past;
use crate::row::{self, FeedPlace};

/// An open transaction. A write that is refused has changed nothing, so it needs no savepoint. An `Err` is a problem
/// with the file and rolls back the whole batch.
pub(super) struct Batch<'a> {
    pub(super) connection: &'a Connection,
    pub(super) cache: &'a mut WriterCache,
    /// The epoch under which this handle executes, 0 if it does not.
    pub(super) epoch: u64,
    pub(super) prior: PriorAttempt,
    /// The statements that add entries, once they are needed.
    append_entry: Option<CachedStatement<'a>>,
    insert_entry: Option<CachedStatement<'a>>,
}

/// Whether an earlier attempt to write this very batch may have made it durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PriorAttempt {
    None,
    MaybeDurable,
}

impl<'a> Batch<'a> {
    /// Starts a batch in an open transaction. `epoch` is the last one this handle was given.
    pub(super) fn new(
        connection: &'a Connection,
        cache: &'a mut WriterCache,
        epoch: u64,
        prior: PriorAttempt,
    ) -> rusqlite::Result<Self> {
        cache.load_marks(connection)?;
        let epoch = if cache.marks.epoch == epoch { epoch } else { 0 };
        Ok(Self { connection, cache, epoch, prior, append_entry: None, insert_entry: None })
    }

    /// Returns `true` if `epoch` is the one of the lease held here.
    pub(super) fn holds(&self, epoch: Epoch) -> bool {
        epoch.0 != 0 && epoch.0 == self.epoch
    }

    /// Returns what is known about an instance, or `None` if it does not exist.
    pub(super) fn facts(&mut self, num: u64) -> rusqlite::Result<Option<InstanceFacts>> {
        self.cache.facts(self.connection, num)
    }

    /// Appends an entry to the journal of an instance whose lifecycle events have taken `reported` numbers so far.
    pub(super) fn append(&mut self, num: u64, entry: &Entry, reported: u64) -> rusqlite::Result<()> {
        let place = FeedPlace { pos: self.cache.next_in_feed(), number: entry.seq + reported };
        let last = std::mem::replace(&mut self.cache.last_entry, place.pos);
        // Entries are appended, unless something else has the position after the last one.
        let is_next = place.pos == last + 1;
        let (statement, sql) = match is_next {
            true => (&mut self.append_entry, row::APPEND_ENTRY),
            false => (&mut self.insert_entry, row::INSERT_ENTRY),
        };
        let statement = match statement {
            Some(statement) => statement,
            none => none.insert(self.connection.prepare_cached(sql)?),
        };
        let pos = row::insert_entry(statement, num, entry, place)?;
        debug_assert_eq!(pos, place.pos, "the last entry was removed unnoticed");
        if pos != place.pos {
            let mut statement = self.connection.prepare_cached("UPDATE entry SET pos = ?2 WHERE pos = ?1")?;
            statement.execute([pos.cast_signed(), place.pos.cast_signed()])?;
        }
        if entry.kind == EntryKind::Restarted { past::begin(self.connection, num, entry, place.pos) } else { Ok(()) }
    }
}
