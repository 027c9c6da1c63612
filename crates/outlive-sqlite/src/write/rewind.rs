//! Rewinds a run: it forgets what it did after a point, and continues from there.

use outlive_core::child::ChildOutcome;
use outlive_core::message::{Message, MessageKind};
use outlive_core::payload::Payload;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Answer, Epoch, KeptChild, Refusal, RewindWrite, SendWrite};
use outlive_core::store::page::Room;
use outlive_core::store::query::Instance;
use rusqlite::{OptionalExtension, params};

use super::batch::Batch;
use super::feed::{self, StatusChange};
use super::{carried, inbox, message};
use crate::row::{self, InstanceRow};

const RESTART: &str = "UPDATE instance SET status = ?2, wake = ?3, until = NULL, outcome = NULL, note = NULL, \
     ended_at = NULL, recoveries = 0, blamed = 0, reported = ?4 WHERE num = ?1";

const END_IN_INBOX: &str =
    "SELECT 1 FROM inbox WHERE instance = ?1 AND rank = 0 AND lane = '' AND kind = ?2 AND text = ?3";

pub(super) fn apply(batch: &mut Batch<'_>, rewind: &RewindWrite) -> rusqlite::Result<Answer> {
    let is_meant = |read: &InstanceRow| read.instance.num == rewind.num;
    let Some(read) = row::by_id(batch.connection, &rewind.id)?.filter(is_meant) else {
        return Ok(Answer::Refused(Refusal::NotFound));
    };
    let (instance, num) = (&read.instance, rewind.num.0);
    batch.cache.forget_damage(num);
    let seq = batch.facts(num)?.map_or(0, |facts| facts.seq);
    if rewind.entry.seq <= seq && has_rewound(batch, num, rewind)? {
        return carried::again(batch, &rewind.writes);
    }
    if instance.owner != Epoch(0) || instance.started_at.is_none() {
        return Ok(Answer::Refused(Refusal::Status(instance.status)));
    }
    if seq + 1 != rewind.entry.seq {
        return Ok(Answer::Refused(Refusal::Changed));
    }
    restart(batch, &read, rewind)?;
    for child in &rewind.children {
        repeat_end(batch, rewind, child)?;
    }
    match carried::apply_all(batch, &rewind.writes, |_| Ok(()), |_| Ok(true))? {
        Ok(answers) => Ok(Answer::DoneWith(answers)),
        Err(against) => Ok(against),
    }
}

/// Returns `true` if this rewind was applied before and its reply was lost.
fn has_rewound(batch: &Batch<'_>, num: u64, rewind: &RewindWrite) -> rusqlite::Result<bool> {
    let stored = row::entries(batch.connection, num, rewind.entry.seq - 1, Room::new(1))?;
    Ok(stored.is_ok_and(|stored| stored.first() == Some(&rewind.entry)))
}

fn restart(batch: &mut Batch<'_>, read: &InstanceRow, rewind: &RewindWrite) -> rusqlite::Result<()> {
    let instance = &read.instance;
    let (num, at) = (instance.num.0, rewind.entry.at);
    batch.append(num, &rewind.entry, instance.reported)?;
    let before = Some(instance.status.kind());
    let seq = rewind.entry.seq;
    let change = StatusChange { num, workflow: &instance.workflow, before, seq, at, outcome: None };
    let reported = feed::report_status(batch, change, Status::Pending, None, instance.reported)?.cast_signed();
    let pending = StatusKind::Pending;
    let mut statement = batch.connection.prepare_cached(RESTART)?;
    statement.execute(params![num.cast_signed(), pending.code(), at.as_millis(), reported])?;
    // A new checksum would hide that a row is damaged.
    if read.damage.is_none() && instance.deadline.is_some_and(|deadline| deadline <= at) {
        let sql = "UPDATE instance SET deadline = NULL, sum = ?2 WHERE num = ?1";
        let sum = row::sum_without_deadline(instance);
        batch.connection.prepare_cached(sql)?.execute(params![num.cast_signed(), sum])?;
    }
    batch.cache.count(&instance.workflow, before, Some(pending));
    let there = match rewind.returned.is_empty() {
        true => Vec::new(),
        false => row::messages(batch.connection, num, 0, Room::unbounded())?.unwrap_or_default(),
    };
    for inbound in rewind.returned.iter().filter(|one| there.iter().all(|other| other.pos != one.pos)) {
        inbox::insert(batch, num, inbound, None)?;
    }
    batch.cache.drop_facts(num);
    Ok(())
}

/// Sends the end of a child that is kept, if it has ended and the inbox does not have it.
fn repeat_end(batch: &mut Batch<'_>, rewind: &RewindWrite, kept: &KeptChild) -> rusqlite::Result<()> {
    let mut statement = batch.connection.prepare_cached(END_IN_INBOX)?;
    let key = params![rewind.num.0.cast_signed(), MessageKind::ChildEnded as u8, kept.id.as_str()];
    if statement.query_row(key, |_| Ok(())).optional()?.is_some() {
        return Ok(());
    }
    if let Some(outcome) = outcome_for(batch, rewind, kept)? {
        let ended = Message::ChildEnded { id: kept.id.clone(), outcome };
        message::apply(batch, &SendWrite::repeated_end(rewind, &kept.id, ended))?;
    }
    Ok(())
}

/// Returns the end of a child that is kept; `None` if it has not ended.
fn outcome_for(batch: &Batch<'_>, rewind: &RewindWrite, kept: &KeptChild) -> rusqlite::Result<Option<Payload>> {
    let child = row::by_id(batch.connection, &kept.id)?.map(|read| read.instance);
    let is_its = |child: &Instance| child.parent.as_ref().is_some_and(|parent| parent.num == rewind.num);
    Ok(match child.filter(is_its) {
        Some(child) => ChildOutcome::of(child.status, child.outcome.as_ref(), child.note.as_deref())
            .map(|outcome| outcome.to_payload()),
        None => Some(kept.outcome.clone().unwrap_or_else(KeptChild::gone)),
    })
}
