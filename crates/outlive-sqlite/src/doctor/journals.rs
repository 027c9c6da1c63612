//! Checks journals one by one: entries are dense, in order, as written, and can be replayed.

use outlive_core::journal::{Entry, EntryKind};
use outlive_core::time::Timestamp;
use outlive_core::workflow::{Machine, Mode};
use rusqlite::Row;

use super::examiner::Examiner;
use super::report::FindingKind;
use super::rows::without_way_out;
use crate::row;

const HOLDS: &str = "entries count up from 1 without a gap, in the order they were written, and can be replayed";
const REMEDY: &str = "restore the file from a backup, or purge the instance";

/// The journal being read.
#[derive(Default)]
struct Journal {
    num: i64,
    entries: Vec<Entry>,
    /// The number that the journal begins with since the last restart. What comes before may have been trimmed.
    from: u64,
    /// The position of its last entry in the file.
    pos: i64,
    /// The first problem; entries after it are not checked.
    damage: Option<String>,
}

pub(super) fn examine(examiner: &mut Examiner<'_>) -> rusqlite::Result<()> {
    let mut statement = examiner.connection.prepare(row::ALL_ENTRIES)?;
    let mut rows = statement.query([])?;
    let mut journal = Journal::default();
    while let Some(row) = rows.next()? {
        examiner.diagnosis.entries += 1;
        examiner.count_row();
        let num = row::int(row, 10).unwrap_or(0);
        if num != journal.num {
            let from = examiner.journal_of(num)?;
            std::mem::replace(&mut journal, Journal { num, from, ..Journal::default() }).close(examiner);
        }
        journal.add(row);
    }
    journal.close(examiner);
    Ok(())
}

impl Journal {
    fn add(&mut self, row: &Row<'_>) {
        if self.damage.is_some() {
            return;
        }
        let pos = row::int(row, 11).unwrap_or(0);
        let seq = row::int(row, 0).unwrap_or(0).cast_unsigned();
        let expected = match self.entries.last() {
            Some(last) => last.seq + 1,
            None if self.from > 1 => seq.min(self.from),
            None => 1,
        };
        match row::entry(row, expected) {
            Ok(_) if pos <= self.pos => {
                self.damage = Some(format!("entry {expected} is stored before entry {} in the file", expected - 1));
            }
            Ok(entry) => {
                if entry.kind == EntryKind::Restarted {
                    // What comes before it is past, and was checked above.
                    self.entries.clear();
                }
                self.entries.push(entry);
            }
            Err(damage) => self.damage = Some(without_way_out(&damage)),
        }
        self.pos = pos;
    }

    fn close(self, examiner: &mut Examiner<'_>) {
        let opened = || Machine::new(Mode::Shadow, 0, Timestamp::AT_ONCE, &self.entries).err();
        if let Some(damage) = self.damage.or_else(|| opened().map(|trouble| without_way_out(&trouble.0))) {
            examiner.find(FindingKind::Journal, Some(self.num), damage, HOLDS, REMEDY);
        }
    }
}
