//! Converts rows to values and back. Reading never fails on the contents of a row: its checksum shows damage.

use std::borrow::Cow;
use std::collections::BTreeMap;

use outlive_core::checksum::Sum;
use outlive_core::child::Parent;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::origin::{RunOrigin, TraceContext};
use outlive_core::payload::Payload;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Epoch, StartWrite};
use outlive_core::store::page::Room;
use outlive_core::store::query::Instance;
use outlive_core::time::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use crate::error;

/// The columns that [`instance`] reads, in its order.
macro_rules! select_instance {
    () => {
        "SELECT num, status, owner, wake, until, recoveries, created_at, started_at, ended_at, seed, sum, id, \
         workflow, tags, note, input, outcome, reported, blamed, parent, is_detached, parent_id, deadline, \
         version, trace, restarts FROM instance \
         WHERE "
    };
}

macro_rules! insert_entry {
    () => {
        "INSERT INTO entry (instance, seq, at, kind, op, site, attempt, started, due, payload, sum, number"
    };
}

macro_rules! entry_values {
    () => {
        "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12"
    };
}

const BY_NUM: &str = concat!(select_instance!(), "num = ?1");

const BY_ID: &str = concat!(select_instance!(), "id = ?1");

/// Codes 4 to 6 are those of the statuses of an ended run.
const ENDED_CHILDREN: &str =
    concat!(select_instance!(), "parent = ?1 AND parent IS NOT NULL AND status IN (4, 5, 6) ORDER BY num");

/// With a position as the last parameter.
pub(crate) const INSERT_ENTRY: &str = concat!(insert_entry!(), ", pos) VALUES (", entry_values!(), ", ?13)");

/// Without a position: SQLite puts the row after all others, and need not search for its place.
pub(crate) const APPEND_ENTRY: &str = concat!(insert_entry!(), ") VALUES (", entry_values!(), ")");

const ENTRIES: &str = "SELECT seq, at, kind, op, site, attempt, started, due, payload, sum FROM entry \
     WHERE instance = ?1 AND seq > ?2 AND seq >= coalesce((SELECT journal FROM instance WHERE num = ?1), 1) ORDER BY seq";

/// The number that the current journal of an instance begins with.
const JOURNAL: &str = "SELECT journal FROM instance WHERE num = ?1";

const MESSAGES: &str = "SELECT pos, at, kind, text, payload, sum FROM inbox \
     WHERE instance = ?1 AND rank = 0 AND lane = '' AND pos > ?2 ORDER BY pos";

/// Selects what [`instance`] reads, for every instance.
pub(crate) const ALL_INSTANCES: &str = concat!(select_instance!(), "TRUE");

/// Selects what [`entry`] reads, then the instance and the feed position, for every journal in order.
pub(crate) const ALL_ENTRIES: &str = "SELECT seq, at, kind, op, site, attempt, started, due, payload, sum, instance, pos FROM entry \
     INDEXED BY entry_by_instance ORDER BY instance, seq";

/// Selects what [`message`] reads, then the instance and the spot, for every inbox and queue.
pub(crate) const ALL_MESSAGES: &str = "SELECT pos, at, kind, text, payload, sum, instance, rank, lane FROM inbox";

const WAY_OUT: &str = "restore the file from a backup, or purge the instance";

/// An instance, and what is wrong with its row, if anything.
pub(crate) struct InstanceRow {
    pub(crate) instance: Instance,
    pub(crate) damage: Option<String>,
    /// `false` if the status is unknown; it then reads as stuck.
    pub(crate) is_status_known: bool,
}

/// Reads the instance with this number.
pub(crate) fn by_num(connection: &Connection, num: u64) -> rusqlite::Result<Option<InstanceRow>> {
    connection.prepare_cached(BY_NUM)?.query_row([num.cast_signed()], |row| Ok(instance(row))).optional()
}

/// Reads the instance with this id.
pub(crate) fn by_id(connection: &Connection, id: &Name) -> rusqlite::Result<Option<InstanceRow>> {
    connection.prepare_cached(BY_ID)?.query_row([id.as_str()], |row| Ok(instance(row))).optional()
}

/// Reads the children of an instance that have ended.
pub(crate) fn ended_children(connection: &Connection, parent: u64) -> rusqlite::Result<Vec<Instance>> {
    let mut statement = connection.prepare_cached(ENDED_CHILDREN)?;
    let children = statement.query_map([parent.cast_signed()], |row| Ok(instance(row).instance))?;
    children.collect()
}

/// Reads the instance of a row.
pub(crate) fn instance(row: &Row<'_>) -> InstanceRow {
    let kind = int(row, 1).and_then(status_kind);
    let (id, workflow, input) = (text(row, 11), text(row, 12), text(row, 15));
    let tags = optional_text(row, 13);
    let seed = int(row, 9).unwrap_or(0).cast_unsigned();
    let created_at = time(row, 6).unwrap_or_default();
    let parent = int(row, 19).map(|num| Parent {
        num: InstanceNum(num.cast_unsigned()),
        id: Name::recorded(&text(row, 21)),
        is_detached: int(row, 20) == Some(1),
    });
    let deadline = time(row, 22);
    let fixed =
        FixedColumns { id: &id, workflow: &workflow, input: &input, tags: tags.as_deref(), seed, at: created_at };
    let version = optional_text(row, 23).map(|version| Name::recorded(&version));
    let origin = RunOrigin::new(version, optional_text(row, 24).map(|trace| TraceContext::recorded(&trace)));
    let sum = fixed.sum(parent.as_ref(), deadline, origin.as_deref());
    let damage = match kind {
        None => Some(format!("the status of instance {id:?} is unknown; {WAY_OUT}")),
        Some(_) if int(row, 10) != Some(i64::from(sum)) => {
            Some(format!("the row of instance {id:?} does not match its checksum; {WAY_OUT}"))
        }
        Some(_) => None,
    };
    let instance = Instance {
        num: InstanceNum(int(row, 0).unwrap_or(0).cast_unsigned()),
        status: Status::from_parts(kind.unwrap_or(StatusKind::Stuck), time(row, 4)),
        owner: Epoch(int(row, 2).unwrap_or(0).cast_unsigned()),
        wake: time(row, 3),
        recoveries: count(row, 5),
        blamed: count(row, 18),
        created_at,
        started_at: time(row, 7),
        ended_at: time(row, 8),
        seed,
        id: Name::recorded(&id),
        workflow: Name::recorded(&workflow),
        tags: tags.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        note: optional_text(row, 14).map(Cow::into_owned),
        input: Payload::recorded(&input),
        outcome: optional_text(row, 16).map(|json| Payload::recorded(&json)),
        reported: int(row, 17).unwrap_or(0).cast_unsigned(),
        parent,
        deadline,
        origin,
        restarts: count(row, 25),
    };
    InstanceRow { instance, damage, is_status_known: kind.is_some() }
}

impl InstanceRow {
    /// Returns the instance for display: if something is wrong with the row, that replaces its note.
    pub(crate) fn annotated(self) -> Instance {
        let mut instance = self.instance;
        instance.note = self.damage.or(instance.note);
        instance
    }
}

/// Returns the status kind for the code in a column.
pub(crate) fn status_kind(code: i64) -> Option<StatusKind> {
    u8::try_from(code).ok().and_then(StatusKind::from_code)
}

/// Returns tags as stored in their column: `None` if there are none.
pub(crate) fn tags_text(tags: &BTreeMap<String, String>) -> Option<String> {
    (!tags.is_empty()).then(|| serde_json::json!(tags).to_string())
}

/// Returns the checksum of the part of an instance's row that never changes.
pub(crate) fn start_sum(start: &StartWrite, tags: Option<&str>) -> u32 {
    let (id, workflow, input) = (start.id.as_str(), start.workflow.as_str(), start.input.as_str());
    let fixed = FixedColumns { id, workflow, input, tags, seed: start.seed, at: start.at };
    fixed.sum(start.parent.as_ref(), start.deadline, start.origin.as_deref())
}

/// Returns the checksum of an instance whose deadline is removed.
pub(crate) fn sum_without_deadline(instance: &Instance) -> u32 {
    let (id, workflow, input) = (instance.id.as_str(), instance.workflow.as_str(), instance.input.as_str());
    let tags = tags_text(&instance.tags);
    let fixed =
        FixedColumns { id, workflow, input, tags: tags.as_deref(), seed: instance.seed, at: instance.created_at };
    fixed.sum(instance.parent.as_ref(), None, instance.origin.as_deref())
}

/// The columns of an instance that every instance has and that never change.
struct FixedColumns<'a> {
    id: &'a str,
    workflow: &'a str,
    input: &'a str,
    tags: Option<&'a str>,
    seed: u64,
    at: Timestamp,
}

impl FixedColumns<'_> {
    fn sum(&self, parent: Option<&Parent>, deadline: Option<Timestamp>, origin: Option<&RunOrigin>) -> u32 {
        let sum = Sum::new().text(self.id).text(self.workflow).text(self.input).optional(self.tags);
        let mut sum = sum.number(self.seed).number(self.at.as_millis().cast_unsigned());
        if let Some(parent) = parent {
            sum = sum.number(parent.num.0).text(parent.id.as_str()).number(parent.is_detached.into());
        }
        if let Some(RunOrigin { version, trace }) = origin {
            let (version, trace) = (version.as_ref().map(Name::as_str), trace.as_ref().map(TraceContext::as_str));
            sum = sum.optional(version).optional(trace);
        }
        deadline.map_or(sum, |deadline| sum.number(deadline.as_millis().cast_unsigned())).end()
    }
}

/// The position of a journal entry in the feed, and its number in the feed of its instance.
#[derive(Clone, Copy)]
pub(crate) struct FeedPlace {
    pub(crate) pos: u64,
    pub(crate) number: u64,
}

/// Adds an entry to a journal by [`INSERT_ENTRY`] or [`APPEND_ENTRY`]. Returns the position it has.
pub(crate) fn insert_entry(
    statement: &mut CachedStatement<'_>,
    num: u64,
    entry: &Entry,
    place: FeedPlace,
) -> rusqlite::Result<u64> {
    let params = params![
        num.cast_signed(),
        entry.seq.cast_signed(),
        entry.at.as_millis(),
        entry.kind.code(),
        &*entry.op,
        &*entry.site,
        entry.attempt,
        entry.started.map(Timestamp::as_millis),
        entry.due.map(Timestamp::as_millis),
        entry.payload.as_ref().map(Payload::as_str),
        entry.checksum(),
        place.number.cast_signed(),
        place.pos.cast_signed(),
    ];
    let count = statement.parameter_count();
    statement.insert(&params[..count]).map(i64::cast_unsigned)
}

/// Reads the journal of an instance past `after`, since its last restart, as much as there is room for, or returns what
/// is wrong with it.
pub(crate) fn entries(
    connection: &Connection,
    num: u64,
    after: u64,
    mut room: Room,
) -> rusqlite::Result<Result<Vec<Entry>, String>> {
    let mut statement = connection.prepare_cached(ENTRIES)?;
    let mut rows = statement.query(params![num.cast_signed(), after.cast_signed()])?;
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        if room.is_full() {
            return Ok(Ok(entries));
        }
        let expected = entries.last().map_or(after, |last| last.seq).saturating_add(1);
        match rows.next() {
            Ok(None) if entries.is_empty() && after == 0 => return nothing(connection, num),
            Ok(None) => return Ok(Ok(entries)),
            Ok(Some(row)) => match entry(row, if entries.is_empty() { first(row, expected) } else { expected }) {
                Ok(entry) => {
                    room.take(&entry);
                    entries.push(entry);
                }
                Err(damage) => return Ok(Err(damage)),
            },
            Err(e) if error::is_damage(&e) => {
                return Ok(Err(format!("entry {expected} is on a damaged page; {WAY_OUT}")));
            }
            Err(e) => return Err(e),
        }
    }
}

/// Returns the number that the first row of a journal should have: a restart begins one, whatever its number.
fn first(row: &Row<'_>, expected: u64) -> u64 {
    let seq = int(row, 0).unwrap_or(0).cast_unsigned();
    let is_restart = int(row, 2) == Some(i64::from(EntryKind::Restarted.code()));
    if is_restart { seq.max(expected) } else { expected }
}

/// Returns the empty journal of an instance that has none, unless it should have one.
fn nothing(connection: &Connection, num: u64) -> rusqlite::Result<Result<Vec<Entry>, String>> {
    let mut statement = connection.prepare_cached(JOURNAL)?;
    let from = statement.query_row([num.cast_signed()], |row| Ok(int(row, 0).unwrap_or(0))).optional()?;
    Ok(match from {
        Some(1) | None => Ok(Vec::new()),
        Some(from) => Err(format!("entry {from} is missing; {WAY_OUT}")),
    })
}

/// Reads the entry of a row, which should be number `expected`, or returns what is wrong with it.
pub(crate) fn entry(row: &Row<'_>, expected: u64) -> Result<Entry, String> {
    let seq = int(row, 0).unwrap_or(0).cast_unsigned();
    if seq != expected {
        return Err(format!("entry {expected} is missing, {seq} comes next; {WAY_OUT}"));
    }
    let code = int(row, 2).unwrap_or(0);
    let Some(kind) = u8::try_from(code).ok().and_then(EntryKind::from_code) else {
        return Err(format!(
            "entry {seq} has kind {code}, which this release does not know; use a later release, or {WAY_OUT}"
        ));
    };
    let entry = Entry {
        seq,
        at: time(row, 1).unwrap_or_default(),
        kind,
        op: text(row, 3).into(),
        site: text(row, 4).into(),
        attempt: count(row, 5),
        started: time(row, 6),
        due: time(row, 7),
        payload: optional_text(row, 8).map(|json| Payload::recorded(&json)),
    };
    if int(row, 9) != Some(i64::from(entry.checksum())) {
        return Err(format!("entry {seq} does not match its checksum; {WAY_OUT}"));
    }
    Ok(entry)
}

/// Reads the messages of an instance past `after`, as many as there is room for, or returns what is wrong with them.
pub(crate) fn messages(
    connection: &Connection,
    num: u64,
    after: u64,
    mut room: Room,
) -> rusqlite::Result<Result<Vec<Inbound>, String>> {
    let mut statement = connection.prepare_cached(MESSAGES)?;
    let mut rows = statement.query(params![num.cast_signed(), after.cast_signed()])?;
    let mut messages = Vec::new();
    loop {
        if room.is_full() {
            return Ok(Ok(messages));
        }
        match rows.next() {
            Ok(None) => return Ok(Ok(messages)),
            Ok(Some(row)) => match message(row) {
                Ok(message) => {
                    room.take(&message);
                    messages.push(message);
                }
                Err(damage) => return Ok(Err(damage)),
            },
            Err(e) if error::is_damage(&e) => return Ok(Err(format!("its inbox is on a damaged page; {WAY_OUT}"))),
            Err(e) => return Err(e),
        }
    }
}

/// Reads the message of a row, or returns what is wrong with it.
pub(crate) fn message(row: &Row<'_>) -> Result<Inbound, String> {
    let pos = int(row, 0).unwrap_or(0).cast_unsigned();
    let code = int(row, 2).and_then(|code| u8::try_from(code).ok()).unwrap_or(0);
    let payload = optional_text(row, 4).map(|json| Payload::recorded(&json));
    let message = Message::from_parts(code, optional_text(row, 3).as_deref(), payload)
        .map_err(|unknown| format!("message {pos} is {unknown}; {WAY_OUT}"))?;
    let inbound = Inbound { pos, at: time(row, 1).unwrap_or_default(), message };
    if int(row, 5) != Some(i64::from(message_sum(&inbound))) {
        return Err(format!("message {pos} does not match its checksum; {WAY_OUT}"));
    }
    Ok(inbound)
}

/// Returns the checksum of a message in an inbox.
pub(crate) fn message_sum(inbound: &Inbound) -> u32 {
    let (kind, text, payload) = inbound.message.to_parts();
    Sum::new()
        .number(inbound.pos)
        .number(inbound.at.as_millis().cast_unsigned())
        .number(kind as u64)
        .optional(text.as_deref())
        .optional(payload.map(Payload::as_str))
        .end()
}

/// Returns the integer in a column, if it holds one.
pub(crate) fn int(row: &Row<'_>, column: usize) -> Option<i64> {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(value)) => Some(value),
        _ => None,
    }
}

/// Returns the count in a column. An invalid one reads as the maximum: no attempts and no crashes is what it certainly
/// does not stand for.
pub(crate) fn count(row: &Row<'_>, column: usize) -> u32 {
    int(row, column).and_then(|count| u32::try_from(count).ok()).unwrap_or(u32::MAX)
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> Option<Timestamp> {
    int(row, column).map(Timestamp::from_millis)
}

/// Returns the text of a column, with replacement characters where it is not UTF-8.
pub(crate) fn text<'a>(row: &'a Row<'_>, column: usize) -> Cow<'a, str> {
    optional_text(row, column).unwrap_or_default()
}

pub(crate) fn optional_text<'a>(row: &'a Row<'_>, column: usize) -> Option<Cow<'a, str>> {
    match row.get_ref(column) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => {
            Some(str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed))
        }
        _ => None,
    }
}
