//! What the writer remembers of the file, so that the hot path reads nothing: valid as long as nobody else writes.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use outlive_core::id::Name;
use outlive_core::mutant::{Mutant, is_on};
use outlive_core::status::StatusKind;
use rusqlite::{Connection, OptionalExtension, params};

use crate::row;

/// Past this many, the facts are forgotten and read again as they are needed.
const FACTS_MAX: usize = 262_144;

const LOAD: &str = "SELECT status, recoveries, workflow, (SELECT max(seq) FROM entry WHERE instance = num), \
     (SELECT max(pos) FROM inbox WHERE instance = num AND rank = 0 AND lane = ''), news FROM instance WHERE num = ?1";

const COUNT: &str = "INSERT INTO counter (workflow, status, n) VALUES (?1, ?2, ?3) \
     ON CONFLICT DO UPDATE SET n = n + excluded.n";

/// Positions of the feed are set aside in steps, so that few batches have to write how far it is. Those of a step that
/// nobody used when somebody else writes are never used.
const FEED_STEP: u64 = 1 << 16;

/// As [`LOAD`], for an instance whose journal or inbox cannot be read.
const OUTLINE: &str = "SELECT status, recoveries, workflow, NULL, NULL, news FROM instance WHERE num = ?1";

/// What a commit has to know of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// The number of its last entry.
    pub(crate) seq: u64,
    pub(crate) status: StatusKind,
    /// As the column has it: 0 if nothing speaks against it.
    pub(crate) recoveries: i64,
    /// No message lies past this position; 0 if there is none at all.
    pub(crate) inbox_last: u64,
    /// How often the world was told of it, beside its entries.
    pub(crate) news: u64,
}

/// The facts of an instance, and for the counters its workflow.
type Known = (Facts, Name);

/// Numbers are given in order: one multiplication spreads them well enough, and nobody chooses them.
#[derive(Clone, Copy, Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Facts {
    /// Whether it can be driven at all.
    pub(crate) fn is_open(&self) -> bool {
        !self.status.is_ended() && self.status != StatusKind::Stuck
    }
}

/// The numbers of the file that only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marks {
    /// The epoch given last.
    pub(crate) epoch: u64,
    /// The instance number given last.
    pub(crate) num: u64,
    /// The inbox position given last, of all inboxes together.
    pub(crate) pos: u64,
    /// The last position of the feed that is set aside.
    pub(crate) feed: u64,
    /// The inbox position at which tokens of pushes were last forgotten, with the table they go to since in its last bit.
    pub(crate) pushed: u64,
}

/// The writer's memory of the file. Between batches it says what the file says.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// `PRAGMA data_version` when this was read: another value means that another connection has written.
    version: Option<i64>,
    pub(crate) marks: Marks,
    /// The marks as the file has them; they differ from `marks` within a batch only.
    marks_kept: Marks,
    facts: HashMap<u64, Known, BuildHasherDefault<Spread>>,
    /// How many positions of the feed are left of those set aside.
    feed_left: u64,
    /// By how much the counters change in this batch.
    moves: BTreeMap<(Name, u8), i64>,
    /// What is wrong with instances whose claim met damage. SQLite commits nothing more in a transaction that has
    /// met a damaged page, so what is known here is not read again until the instance is reopened.
    damage: HashMap<u64, Damage>,
}

/// What the ledger was before a part of a batch.
pub(crate) struct Saved {
    marks: Marks,
    feed_left: u64,
    moves: BTreeMap<(Name, u8), i64>,
}

/// In the counters, beside the codes of statuses: events in the queues of a job, and its dead letters.
pub(crate) const QUEUED: u8 = 20;
pub(crate) const DEAD: u8 = 21;

/// What is wrong with the journal and the inbox of an instance, each if anything is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Damage {
    pub(crate) journal: Option<String>,
    pub(crate) inbox: Option<String>,
}

/// Whether somebody else has written since the ledger was last held against the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Foreign {
    Unchanged,
    Changed,
}

impl Ledger {
    /// Forgets all, after a batch that was not written.
    pub(crate) fn forget(&mut self) {
        // The version stays known: a change by others that was not told yet must still be told. So does damage.
        let (version, damage) = (self.version, std::mem::take(&mut self.damage));
        *self = Self { version, damage, ..Self::default() };
    }

    /// Asks whether somebody else has written, and remembers having asked.
    pub(crate) fn look(&mut self, connection: &Connection) -> rusqlite::Result<Foreign> {
        let now: i64 = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let before = self.version.replace(now);
        if before.is_none_or(|before| before == now) || is_on(Mutant::SqliteStaleMemory) {
            return Ok(Foreign::Unchanged);
        }
        self.forget();
        Ok(Foreign::Changed)
    }

    /// Reads the marks if they are not known. An epoch of 0 says either that, or that there has been no lease yet,
    /// when reading them again costs nothing that matters.
    pub(crate) fn load_marks(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.marks != Marks::default() {
            return Ok(());
        }
        let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
        let mut read = |key: &str| statement.query_row([key], |row| row.get(0)).map(i64::cast_unsigned);
        self.marks = Marks {
            epoch: read("epoch")?,
            num: read("num")?,
            pos: read("pos")?,
            feed: read("feed")?,
            pushed: read("pushed")?,
        };
        self.marks_kept = self.marks;
        Ok(())
    }

    /// The facts of an instance, read if they are not known.
    pub(crate) fn facts(&mut self, connection: &Connection, num: u64) -> rusqlite::Result<Option<Facts>> {
        if let Some((facts, _)) = self.facts.get(&num) {
            return Ok(Some(*facts));
        }
        let Some((facts, workflow)) = load(connection, num, LOAD)? else { return Ok(None) };
        self.know(num, facts, workflow);
        Ok(Some(facts))
    }

    /// The facts of an instance but for its journal and its inbox, which are not looked at.
    pub(crate) fn outline(&self, connection: &Connection, num: u64) -> rusqlite::Result<Option<Known>> {
        load(connection, num, OUTLINE)
    }

    /// What is known to be wrong with an instance.
    pub(crate) fn damage(&self, num: u64) -> Option<&Damage> {
        self.damage.get(&num)
    }

    /// With how many instances something is known to be wrong.
    pub(crate) fn damage_count(&self) -> usize {
        self.damage.len()
    }

    /// Remembers what is wrong with an instance.
    pub(crate) fn know_damage(&mut self, num: u64, damage: Damage) {
        self.drop_facts(num);
        self.damage.insert(num, damage);
    }

    /// Has an instance be looked at once more.
    pub(crate) fn forget_damage(&mut self, num: u64) {
        self.damage.remove(&num);
    }

    /// The facts of an instance if they are known.
    pub(crate) fn known(&mut self, num: u64) -> Option<&mut Facts> {
        self.facts.get_mut(&num).map(|(facts, _)| facts)
    }

    /// The workflow of an instance, read if its facts are not known.
    pub(crate) fn workflow(&self, connection: &Connection, num: u64) -> rusqlite::Result<Name> {
        match self.facts.get(&num) {
            Some((_, workflow)) => Ok(workflow.clone()),
            None => {
                self.outline(connection, num)?.map(|(_, workflow)| workflow).ok_or(rusqlite::Error::QueryReturnedNoRows)
            }
        }
    }

    /// Remembers the facts of an instance.
    pub(crate) fn know(&mut self, num: u64, facts: Facts, workflow: Name) {
        if self.facts.len() >= FACTS_MAX {
            self.facts.clear();
        }
        self.facts.insert(num, (facts, workflow));
    }

    /// Forgets the facts of an instance that nobody drives any more.
    pub(crate) fn drop_facts(&mut self, num: u64) {
        self.facts.remove(&num);
    }

    /// Forgets the facts of all instances, as their rows were changed together.
    pub(crate) fn drop_all_facts(&mut self) {
        self.facts.clear();
    }

    /// Counts what is no status: by how much a number of a job changes.
    pub(crate) fn add(&mut self, job: &Name, what: u8, by: i64) {
        if by != 0 {
            *self.moves.entry((job.clone(), what)).or_default() += by;
        }
    }

    /// The next position of the feed.
    pub(crate) fn next_in_feed(&mut self) -> u64 {
        if self.feed_left == 0 {
            self.marks.feed += FEED_STEP;
            self.feed_left = FEED_STEP;
        }
        self.feed_left -= 1;
        self.marks.feed - self.feed_left
    }

    /// What a part of a batch can be taken back to.
    pub(crate) fn save(&self) -> Saved {
        Saved { marks: self.marks, feed_left: self.feed_left, moves: self.moves.clone() }
    }

    /// Takes a part of a batch back. What was remembered of instances may not be so any more.
    pub(crate) fn restore(&mut self, saved: Saved) {
        (self.marks, self.feed_left, self.moves) = (saved.marks, saved.feed_left, saved.moves);
        self.facts.clear();
    }

    /// Counts one instance out of a status and into another.
    pub(crate) fn count(&mut self, workflow: &Name, from: Option<StatusKind>, to: Option<StatusKind>) {
        if from == to {
            return;
        }
        for (kind, by) in [(from, -1), (to, 1)] {
            if let Some(kind) = kind {
                *self.moves.entry((workflow.clone(), kind.code())).or_default() += by;
            }
        }
    }

    /// Writes what has gathered during the batch: counters and marks.
    pub(crate) fn flush(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for ((workflow, status), by) in std::mem::take(&mut self.moves) {
            if by != 0 {
                connection.prepare_cached(COUNT)?.execute(params![workflow.as_str(), status, by])?;
            }
        }
        let (new, kept) = (self.marks, self.marks_kept);
        for (key, new, kept) in [
            ("epoch", new.epoch, kept.epoch),
            ("num", new.num, kept.num),
            ("pos", new.pos, kept.pos),
            ("feed", new.feed, kept.feed),
            ("pushed", new.pushed, kept.pushed),
        ] {
            debug_assert!(new >= kept, "marks only grow");
            if new != kept && !is_on(Mutant::SqliteMarksUnkept) {
                let mut statement = connection.prepare_cached("UPDATE meta SET value = ?2 WHERE key = ?1")?;
                statement.execute(params![key, new.cast_signed()])?;
            }
        }
        self.marks_kept = new;
        Ok(())
    }
}

fn load(connection: &Connection, num: u64, sql: &str) -> rusqlite::Result<Option<Known>> {
    let mut statement = connection.prepare_cached(sql)?;
    let read = statement.query_row([num.cast_signed()], |row| {
        let facts = Facts {
            // A status that does not exist counts as stuck: nothing is written to such an instance.
            status: row::int(row, 0).and_then(row::status_kind).unwrap_or(StatusKind::Stuck),
            recoveries: row::int(row, 1).unwrap_or(i64::MAX),
            seq: row::int(row, 3).unwrap_or(0).cast_unsigned(),
            inbox_last: row::int(row, 4).unwrap_or(0).cast_unsigned(),
            news: row::int(row, 5).unwrap_or(0).cast_unsigned(),
        };
        Ok((facts, Name::recorded(&row::text(row, 2))))
    });
    read.optional()
}
