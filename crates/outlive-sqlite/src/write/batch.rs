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
    insert_entry: CachedStatement<'a>,
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
        Ok(Self { connection, cache, epoch, prior, insert_entry: row::prepare_entry(connection)? })
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
        row::insert_entry(&mut self.insert_entry, num, entry, place)?;
        if entry.kind == EntryKind::Restarted { past::begin(self.connection, num, entry, place.pos) } else { Ok(()) }
    }
}
