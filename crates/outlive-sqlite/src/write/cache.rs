//! The writer's cache of the file, so that the hot path reads nothing; valid as long as nobody else writes.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use outlive_core::id::Name;
use outlive_core::status::StatusKind;
use rusqlite::{Connection, OptionalExtension, params};

use crate::row;

/// The maximum number of cached facts. Beyond it, all are dropped and read again as needed.
const FACTS_MAX: usize = 262_144;

const LOAD: &str = "SELECT status, recoveries, workflow, (SELECT max(seq) FROM entry WHERE instance = num), \
     (SELECT max(pos) FROM inbox WHERE instance = num AND rank = 0 AND lane = ''), reported, blamed FROM instance \
     WHERE num = ?1";

const COUNT: &str = "INSERT INTO counter (workflow, status, n) VALUES (?1, ?2, ?3) \
     ON CONFLICT DO UPDATE SET n = n + excluded.n";

/// Feed positions are reserved in steps, so that few batches have to store the end of the feed. Positions of a step
/// that are unused when somebody else writes are never used.
const FEED_STEP: u64 = 1 << 16;

/// Like [`LOAD`], for an instance whose journal or inbox cannot be read.
const OUTLINE: &str = "SELECT status, recoveries, workflow, NULL, NULL, reported, blamed FROM instance WHERE num = ?1";

/// What a commit needs to know about an instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct InstanceFacts {
    /// The number of its last journal entry.
    pub(super) seq: u64,
    pub(super) status: StatusKind,
    /// How often a process died while driving it since it last made progress.
    pub(super) recoveries: u32,
    /// How many of those crashes are blamed on it alone.
    pub(super) blamed: u32,
    /// No message is past this position; 0 if there is none at all.
    pub(super) inbox_last: u64,
    /// How many feed numbers its lifecycle events have taken, besides those of its entries.
    pub(super) reported: u64,
}

/// The facts of an instance, and its workflow for the counters.
type Known = (InstanceFacts, Name);

/// Hashes instance numbers. They are assigned in order, so one multiplication spreads them well enough, and nobody can
/// choose them.
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

impl InstanceFacts {
    /// Returns `true` if the instance can be driven at all.
    pub(super) fn is_open(&self) -> bool {
        !self.status.is_ended() && self.status != StatusKind::Stuck
    }
}

/// File-wide numbers that only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Marks {
    /// The last epoch.
    pub(super) epoch: u64,
    /// The last instance number.
    pub(super) num: u64,
    /// The last inbox position, across all inboxes.
    pub(super) pos: u64,
    /// The last reserved feed position.
    pub(super) feed: u64,
    /// The inbox position at which push tokens were last discarded, shifted left by one; the last bit is the table that
    /// tokens have gone to since.
    pub(super) pushed: u64,
}

/// The writer's cache of the file. Between batches it agrees with the file.
#[derive(Debug, Default)]
pub(super) struct WriterCache {
    /// `PRAGMA data_version` at the last check: another value means that another connection has written.
    version: Option<i64>,
    pub(super) marks: Marks,
    /// The marks as stored in the file; they differ from `marks` only within a batch.
    marks_kept: Marks,
    facts: HashMap<u64, Known, BuildHasherDefault<Spread>>,
    /// How many reserved feed positions are left.
    feed_left: u64,
    /// The feed position of the last entry in the file; 0 if that is not known.
    pub(super) last_entry: u64,
    /// The counter changes of this batch.
    moves: BTreeMap<(Name, u8), i64>,
    /// What is wrong with instances whose claim found damage. SQLite commits nothing in a transaction that has hit a
    /// damaged page, so known damage is not read again until the instance is reopened.
    damage: HashMap<u64, Damage>,
}

/// The cache before a part of a batch, for restoring it.
pub(super) struct CacheState {
    marks: Marks,
    feed_left: u64,
    moves: BTreeMap<(Name, u8), i64>,
}

/// What is wrong with the journal and the inbox of an instance, if anything.
#[derive(Clone, Debug, Default)]
pub(super) struct Damage {
    pub(super) journal: Option<String>,
    pub(super) inbox: Option<String>,
}

/// Whether another connection has written since the cache last checked the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileContent {
    Unchanged,
    Changed,
}

impl WriterCache {
    /// Drops everything cached, after a batch that was not written.
    pub(super) fn forget(&mut self) {
        // The version is kept, as a foreign write that was not reported yet must still be. So is known damage.
        let (version, damage) = (self.version, std::mem::take(&mut self.damage));
        *self = Self { version, damage, ..Self::default() };
    }

    /// Checks whether another connection has written since the last check, and if so drops everything cached.
    pub(super) fn refresh(&mut self, connection: &Connection) -> rusqlite::Result<FileContent> {
        let now: i64 = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let before = self.version.replace(now);
        if before.is_none_or(|before| before == now) {
            return Ok(FileContent::Unchanged);
        }
        self.forget();
        Ok(FileContent::Changed)
    }

    /// Reads the marks if they are not known. All zeros mean either that, or a store that has not been used yet, where
    /// reading them again is cheap.
    pub(super) fn load_marks(&mut self, connection: &Connection) -> rusqlite::Result<()> {
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

    /// Returns the facts of an instance, reading them if they are not cached.
    pub(super) fn facts(&mut self, connection: &Connection, num: u64) -> rusqlite::Result<Option<InstanceFacts>> {
        if let Some((facts, _)) = self.facts.get(&num) {
            return Ok(Some(*facts));
        }
        let Some((facts, workflow)) = load(connection, num, LOAD)? else { return Ok(None) };
        self.know(num, facts, workflow);
        Ok(Some(facts))
    }

    /// Reads the facts of an instance except those from its journal and its inbox, which are not touched.
    pub(super) fn outline(&self, connection: &Connection, num: u64) -> rusqlite::Result<Option<Known>> {
        load(connection, num, OUTLINE)
    }

    /// Returns what is known to be wrong with an instance.
    pub(super) fn damage(&self, num: u64) -> Option<&Damage> {
        self.damage.get(&num)
    }

    /// Returns the number of instances that are known to be damaged.
    pub(super) fn damage_count(&self) -> usize {
        self.damage.len()
    }

    /// Records what is wrong with an instance.
    pub(super) fn know_damage(&mut self, num: u64, damage: Damage) {
        self.drop_facts(num);
        self.damage.insert(num, damage);
    }

    /// Forgets known damage, so that the instance is read again.
    pub(super) fn forget_damage(&mut self, num: u64) {
        self.damage.remove(&num);
    }

    /// Returns the facts of an instance if they are cached.
    pub(super) fn known(&mut self, num: u64) -> Option<&mut InstanceFacts> {
        self.facts.get_mut(&num).map(|(facts, _)| facts)
    }

    /// Returns the workflow of an instance, reading it if its facts are not cached.
    pub(super) fn workflow(&self, connection: &Connection, num: u64) -> rusqlite::Result<Name> {
        match self.facts.get(&num) {
            Some((_, workflow)) => Ok(workflow.clone()),
            None => {
                self.outline(connection, num)?.map(|(_, workflow)| workflow).ok_or(rusqlite::Error::QueryReturnedNoRows)
            }
        }
    }

    /// Caches the facts of an instance.
    pub(super) fn know(&mut self, num: u64, facts: InstanceFacts, workflow: Name) {
        if self.facts.len() >= FACTS_MAX {
            self.facts.clear();
        }
        self.facts.insert(num, (facts, workflow));
    }

    /// Drops the facts of an instance that is no longer driven.
    pub(super) fn drop_facts(&mut self, num: u64) {
        self.facts.remove(&num);
    }

    /// Drops the facts of all instances, after a change to all of their rows.
    pub(super) fn drop_all_facts(&mut self) {
        self.facts.clear();
    }

    /// Changes a counter of a job that is not about a status: queued events or dead letters.
    pub(super) fn add(&mut self, job: &Name, what: u8, by: i64) {
        if by != 0 {
            *self.moves.entry((job.clone(), what)).or_default() += by;
        }
    }

    /// Returns the next feed position, reserving more if none is left.
    pub(super) fn next_in_feed(&mut self) -> u64 {
        if self.feed_left == 0 {
            self.marks.feed += FEED_STEP;
            self.feed_left = FEED_STEP;
        }
        self.feed_left -= 1;
        self.marks.feed - self.feed_left
    }

    /// Saves the state to which a part of a batch can be rolled back.
    pub(super) fn save(&self) -> CacheState {
        CacheState { marks: self.marks, feed_left: self.feed_left, moves: self.moves.clone() }
    }

    /// Rolls back a part of a batch. Cached facts may be stale after that, so all are dropped.
    pub(super) fn restore(&mut self, saved: CacheState) {
        (self.marks, self.feed_left, self.moves) = (saved.marks, saved.feed_left, saved.moves);
        self.last_entry = 0;
        self.facts.clear();
    }

    /// Moves one instance from the counter of one status to another.
    pub(super) fn count(&mut self, workflow: &Name, from: Option<StatusKind>, to: Option<StatusKind>) {
        if from == to {
            return;
        }
        for (kind, by) in [(from, -1), (to, 1)] {
            if let Some(kind) = kind {
                *self.moves.entry((workflow.clone(), kind.code())).or_default() += by;
            }
        }
    }

    /// Writes the counters and marks that changed during the batch.
    pub(super) fn flush(&mut self, connection: &Connection) -> rusqlite::Result<()> {
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
            if new != kept {
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
        let facts = InstanceFacts {
            // An unknown status counts as stuck: nothing is written to such an instance.
            status: row::int(row, 0).and_then(row::status_kind).unwrap_or(StatusKind::Stuck),
            recoveries: row::count(row, 1),
            blamed: row::count(row, 6),
            seq: row::int(row, 3).unwrap_or(0).cast_unsigned(),
            inbox_last: row::int(row, 4).unwrap_or(0).cast_unsigned(),
            reported: row::int(row, 5).unwrap_or(0).cast_unsigned(),
        };
        Ok((facts, Name::recorded(&row::text(row, 2))))
    });
    read.optional()
}
