//! Sends messages to instances: signals and control messages.

use outlive_core::id::InstanceNum;
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::LifecycleRecord;
use outlive_core::message::{Inbound, Message};
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Answer, Refusal, SendWrite};
use outlive_core::store::query::Urgency;
use outlive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::batch::Batch;
use super::feed::{self, StatusChange};
use super::inbox::{self, Receiver};
use super::{family, purge, queue};

const CANCEL: &str = "UPDATE instance SET status = ?2, note = ?3, ended_at = ?4, reported = ?5 WHERE num = ?1";

pub(super) fn apply(batch: &mut Batch<'_>, send: &SendWrite) -> rusqlite::Result<Answer> {
    let receiver = inbox::receiver(batch.connection, &send.id)?;
    let Some(receiver) = receiver.filter(|found| send.num.is_none_or(|asked| asked.0 == found.num)) else {
        return Ok(Answer::Refused(Refusal::NotFound));
    };
    let num = InstanceNum(receiver.num);
    if let Some(pos) = pos_of_token(batch.connection, receiver.num, send.token)? {
        // The driver that gets this reply may not know of an earlier message.
        let before = inbox::last_before(batch.connection, receiver.num, pos)?;
        return Ok(Answer::Sent { num, pos, before, is_new: true, reached: Vec::new() });
    }
    let is_for_the_open = matches!(send.message, Message::Pause | Message::Resume);
    if receiver.status.is_ended() || (receiver.status == Status::Stuck && is_for_the_open) {
        return Ok(Answer::Refused(Refusal::Status(receiver.status)));
    }
    if let Some(key) = &send.dedup
        && let Some(pos) = inbox::pos_of_key(batch.connection, receiver.num, key)?
    {
        return Ok(Answer::Sent { num, pos, before: 0, is_new: false, reached: Vec::new() });
    }
    let before = batch.facts(receiver.num)?.map_or(0, |facts| facts.inbox_last);
    let (pos, reached) = accept(batch, &receiver, send)?;
    Ok(Answer::Sent { num, pos, before, is_new: true, reached })
}

fn pos_of_token(connection: &Connection, num: u64, token: u64) -> rusqlite::Result<Option<u64>> {
    let mut statement = connection.prepare_cached("SELECT pos FROM sent WHERE instance = ?1 AND token = ?2")?;
    let pos = statement.query_row(params![num.cast_signed(), token.cast_signed()], |row| row.get(0));
    Ok(pos.optional()?.map(i64::cast_unsigned))
}

/// Stores a message that has passed all checks, and wakes its receiver. Returns its position, and the other instances
/// that got a message because it ended a stuck run.
fn accept(batch: &mut Batch<'_>, receiver: &Receiver, send: &SendWrite) -> rusqlite::Result<(u64, Vec<InstanceNum>)> {
    let mut reached = Vec::new();
    let pos = batch.cache.marks.pos + 1;
    batch.cache.marks.pos = pos;
    remember(batch.connection, receiver.num, pos, send)?;
    match &send.message {
        Message::Cancel { reason } | Message::Terminate { reason } if receiver.status == Status::Stuck => {
            reached = end_stuck(batch, receiver, reason, send)?;
        }
        message => {
            let inbound = Inbound { pos, at: send.at, message: message.clone() };
            inbox::insert(batch, receiver.num, &inbound, None)?;
            let is_job = JobKind::of(&receiver.workflow).is_some();
            if receiver.status != Status::Pending || message.is_end() || is_job {
                inbox::wake(batch, receiver, pos, Urgency::of(message))?;
            }
        }
    }
    Ok((pos, reached))
}

/// Records the token and the dedup key, so that the same message is recognized later.
fn remember(connection: &Connection, num: u64, pos: u64, send: &SendWrite) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("INSERT INTO sent (instance, token, pos) VALUES (?1, ?2, ?3)")?;
    statement.execute(params![num.cast_signed(), send.token.cast_signed(), pos.cast_signed()])?;
    if let Some(key) = &send.dedup {
        let mut statement = connection.prepare_cached("INSERT INTO dedup (instance, key, pos) VALUES (?1, ?2, ?3)")?;
        statement.execute(params![num.cast_signed(), key.as_str(), pos.cast_signed()])?;
    }
    Ok(())
}

/// Ends a stuck instance, which no driver does. Returns the instances that got a message because of it.
fn end_stuck(
    batch: &mut Batch<'_>,
    receiver: &Receiver,
    reason: &str,
    send: &SendWrite,
) -> rusqlite::Result<Vec<InstanceNum>> {
    if JobKind::of(&receiver.workflow).is_some() {
        remove_stuck_job(batch, receiver, reason, send.at)?;
        return Ok(Vec::new());
    }
    cancel_stuck_run(batch, receiver, reason, send.at)?;
    let mut reached = Vec::new();
    for notice in family::notices(batch.connection, receiver.num, send, reason)? {
        if let Answer::Sent { num, reached: further, .. } = apply(batch, &notice)? {
            reached.push(num);
            reached.extend(further);
        }
    }
    Ok(reached)
}

fn cancel_stuck_run(batch: &mut Batch<'_>, receiver: &Receiver, reason: &str, at: Timestamp) -> rusqlite::Result<()> {
    let cancelled = StatusKind::Cancelled;
    let seq = batch.facts(receiver.num)?.map_or(0, |facts| facts.seq);
    let (num, workflow, before) = (receiver.num, &receiver.workflow, Some(receiver.status.kind()));
    let change = StatusChange { num, workflow, before, seq, at, outcome: None };
    let reported = feed::report_status(batch, change, Status::Cancelled, Some(reason), receiver.reported)?;
    let mut statement = batch.connection.prepare_cached(CANCEL)?;
    let values = params![num.cast_signed(), cancelled.code(), reason, at.as_millis(), reported.cast_signed()];
    statement.execute(values)?;
    queue::clear(batch, receiver.num, &receiver.workflow)?;
    batch.cache.count(&receiver.workflow, Some(receiver.status.kind()), Some(cancelled));
    batch.cache.drop_facts(receiver.num);
    Ok(())
}

/// Ends a stuck instance of a job: everything is removed, and only a lifecycle event remains.
fn remove_stuck_job(batch: &mut Batch<'_>, receiver: &Receiver, reason: &str, at: Timestamp) -> rusqlite::Result<()> {
    let seq = batch.facts(receiver.num)?.map_or(0, |facts| facts.seq);
    let reported = receiver.reported + 1;
    feed::report(batch, receiver.num, seq + reported, &LifecycleRecord::terminated(reason, at))?;
    let mut statement = batch.connection.prepare_cached("UPDATE instance SET reported = ?2 WHERE num = ?1")?;
    statement.execute(params![receiver.num.cast_signed(), reported.cast_signed()])?;
    purge::remove(batch, receiver.num, &receiver.workflow, receiver.status.kind())
}
