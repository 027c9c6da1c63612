//! One transaction's worth of writes: dispatches each write to its function and holds the state they share.

use outlive_core::journal::Entry;
use outlive_core::store::commit::{Answer, Epoch, Write};
use rusqlite::{CachedStatement, Connection};

use crate::ledger::Ledger;
use crate::row::{self, FeedPlace};

const UNKNOWN_WRITE: &str =
    "outlive-sqlite does not know this kind of write; use the same release of outlive-core and outlive-sqlite";

/// The writes of one transaction. Each function makes all its checks before its first statement, so that a refused
/// write leaves nothing behind without a savepoint. An `Err` is a problem with the file and rolls back the whole batch.
pub(crate) struct Batch<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) ledger: &'a mut Ledger,
    /// The epoch under which this handle executes, 0 if it does not.
    pub(crate) epoch: u64,
    /// Whether this very batch may already be durable from an earlier attempt.
    pub(crate) again: Again,
    insert_entry: CachedStatement<'a>,
}

/// Whether a batch may have been applied before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Again {
    First,
    Perhaps,
}

impl<'a> Batch<'a> {
    /// Starts a batch in an open transaction. `epoch` is the last one this handle was given.
    pub(crate) fn new(
        connection: &'a Connection,
        ledger: &'a mut Ledger,
        epoch: u64,
        again: Again,
    ) -> rusqlite::Result<Self> {
        ledger.load_marks(connection)?;
        let epoch = if ledger.marks.epoch == epoch { epoch } else { 0 };
        Ok(Self { connection, ledger, epoch, again, insert_entry: row::prepare_entry(connection)? })
    }

    /// Applies one write and returns its outcome.
    pub(crate) fn apply(&mut self, write: &Write) -> rusqlite::Result<Answer> {
        match write {
            Write::Commit(commit) => self.commit(commit),
            Write::Start(start) => self.start(start),
            Write::Message(send) => self.send(send),
            Write::Claim(claim) => self.claim(claim),
            Write::Reopen(reopen) => self.reopen(reopen),
            Write::Purge(id, num) => self.purge(id, *num),
            Write::Push(push) => self.push(push),
            Write::Turn(turn) => self.turn(turn),
            Write::ResolveDeadLetters(bury) => self.bury(bury),
            Write::Mark(name, value) => self.set_mark(name, *value),
            Write::Trim(trim) => self.trim(trim),
            Write::Absolve(absolve) => self.absolve(absolve),
            _ => Err(rusqlite::Error::ToSqlConversionFailure(UNKNOWN_WRITE.into())),
        }
    }

    /// Returns `true` if `epoch` is the one of the lease held here.
    pub(crate) fn holds(&self, epoch: Epoch) -> bool {
        epoch.0 != 0 && epoch.0 == self.epoch
    }

    /// Appends an entry to the journal of an instance whose lifecycle events have taken `reported` numbers so far.
    pub(crate) fn insert(&mut self, num: u64, entry: &Entry, reported: u64) -> rusqlite::Result<()> {
        let place = FeedPlace { pos: self.ledger.next_in_feed(), number: entry.seq + reported };
        row::insert_entry(&mut self.insert_entry, num, entry, place)
    }
}
