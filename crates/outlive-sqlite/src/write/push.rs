//! Pushes events to jobs.

use outlive_core::id::InstanceNum;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::{PushTarget, PushWrite, Spot};
use outlive_core::store::commit::{Answer, Refusal, StartWrite};
use outlive_core::store::query::Urgency;
use rusqlite::{Connection, OptionalExtension, params};

use super::batch::Batch;
use super::cache::Marks;
use super::inbox::{self, Receiver};
use super::start;
use crate::schema::QUEUED;

/// For how many positions after a switch of token tables a push from before it may still be repeated.
const TOKENS_LATE: u64 = 1 << 17;
/// The number of positions between two switches, each of which discards the older half of the tokens.
const TOKENS_KEPT: u64 = 1 << 20;

/// The two token tables, which take turns: one holds the recent tokens, the other the older ones.
const REMEMBER: [&str; 2] = [
    "INSERT INTO pushed_a (token, instance, created, first, positions) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT DO NOTHING",
    "INSERT INTO pushed_b (token, instance, created, first, positions) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT DO NOTHING",
];
const FORGET: [&str; 2] = ["DELETE FROM pushed_a", "DELETE FROM pushed_b"];
const KNOWN: &str = "SELECT instance, created, first, positions FROM pushed_a WHERE token = ?1 \
     UNION ALL SELECT instance, created, first, positions FROM pushed_b WHERE token = ?1 LIMIT 1";

pub(super) fn apply(batch: &mut Batch<'_>, push: &PushWrite) -> rusqlite::Result<Answer> {
    // Nearly every push is new. A push to an existing instance, without dedup keys, needs no lookup first:
    // inserting its token shows whether it is new.
    let found = inbox::receiver(batch.connection, &push.id)?;
    let is_plain = push.events.iter().all(|event| event.dedup.is_none()) && !push.events.is_empty();
    let is_open = found.as_ref().is_some_and(|found| found.workflow == push.job && !found.status.is_ended());
    if is_plain && is_open && !has_switched_lately(batch.cache.marks) {
        let num = found.as_ref().map_or(0, |found| found.num);
        let first = batch.cache.marks.pos + 1;
        let positions: Vec<u64> = (first..).take(push.events.len()).collect();
        if remember(batch, num, false, &positions, push.token)? {
            return deliver(batch, found, push);
        }
    }
    if let Some(answer) = prior_outcome(batch.connection, push)? {
        return Ok(answer);
    }
    let answer = deliver(batch, found, push)?;
    if let Answer::Pushed { num, created, positions, .. } = &answer {
        remember(batch, num.0, *created, positions, push.token)?;
    }
    Ok(answer)
}

/// Returns `true` if the tables were switched so recently that the older one may hold the token of a repeated push.
fn has_switched_lately(marks: Marks) -> bool {
    marks.pushed > 1 && marks.pos - (marks.pushed >> 1) < TOKENS_LATE
}

/// Stores events without checking their token, creating the instance if none was found.
pub(super) fn deliver(batch: &mut Batch<'_>, found: Option<Receiver>, push: &PushWrite) -> rusqlite::Result<Answer> {
    if let Some(receiver) = found.as_ref().filter(|receiver| receiver.workflow != push.job) {
        return Ok(Answer::Refused(Refusal::Conflict { workflow: receiver.workflow.clone() }));
    }
    if let Some(receiver) = found.as_ref().filter(|receiver| receiver.status.is_ended()) {
        return Ok(Answer::Refused(Refusal::Status(receiver.status)));
    }
    let created = found.is_none();
    let receiver = match found {
        Some(receiver) => receiver,
        None => {
            start::create(batch, &StartWrite::of_push(push))?;
            inbox::receiver(batch.connection, &push.id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?
        }
    };
    let before = match push.place {
        PushTarget::Inbox => batch.facts(receiver.num)?.map_or(0, |facts| facts.inbox_last),
        PushTarget::Queue => 0,
    };
    let positions = insert_all(batch, &receiver, push)?;
    let answer = Answer::Pushed { num: InstanceNum(receiver.num), created, positions, before };
    if answer.reaches(InstanceNum(receiver.num)) {
        inbox::wake(batch, &receiver, batch.cache.marks.pos, Urgency::Low)?;
    }
    Ok(answer)
}

/// Stores the events whose dedup key is new. Returns their positions, and 0 for the others.
fn insert_all(batch: &mut Batch<'_>, receiver: &Receiver, push: &PushWrite) -> rusqlite::Result<Vec<u64>> {
    let mut positions = Vec::with_capacity(push.events.len());
    let mut queued = 0;
    for event in &push.events {
        if let Some(key) = &event.dedup
            && inbox::pos_of_key(batch.connection, receiver.num, key)?.is_some()
        {
            positions.push(0);
            continue;
        }
        let pos = batch.cache.marks.pos + 1;
        batch.cache.marks.pos = pos;
        if let Some(key) = &event.dedup {
            let sql = "INSERT OR REPLACE INTO dedup (instance, key, pos) VALUES (?1, ?2, ?3)";
            let values = params![receiver.num.cast_signed(), key.as_str(), pos.cast_signed()];
            batch.connection.prepare_cached(sql)?.execute(values)?;
        }
        let inbound = Inbound { pos, at: push.at, message: Message::Event(event.clone()) };
        let spot = (push.place == PushTarget::Queue).then(|| Spot::of(event));
        inbox::insert(batch, receiver.num, &inbound, spot.as_ref())?;
        queued += i64::from(spot.is_some());
        positions.push(pos);
    }
    batch.cache.add(&push.job, QUEUED, queued);
    Ok(positions)
}

/// Records a token. Returns `true` if it is new.
fn remember(batch: &mut Batch<'_>, num: u64, created: bool, positions: &[u64], token: u64) -> rusqlite::Result<bool> {
    let marks = &mut batch.cache.marks;
    // A push that stored nothing takes a position too, or the tokens of such pushes would never be discarded.
    marks.pos += u64::from(positions.iter().all(|pos| *pos == 0));
    if marks.pos - (marks.pushed >> 1) > TOKENS_KEPT {
        marks.pushed = marks.pos << 1 | (!marks.pushed & 1);
        let side = usize::from(marks.pushed & 1 == 1);
        batch.connection.prepare_cached(FORGET[side])?.execute([])?;
    }
    let side = usize::from(batch.cache.marks.pushed & 1 == 1);
    let first = positions.first().copied().unwrap_or(0);
    let is_dense = first > 0 && (first..).zip(positions).all(|(wanted, pos)| *pos == wanted);
    let text = (!is_dense).then(|| Payload::encode(positions).map(|text| text.to_string()).unwrap_or_default());
    let values = params![token.cast_signed(), num.cast_signed(), created, first.cast_signed(), text];
    let written = batch.connection.prepare_cached(REMEMBER[side])?.execute(values)?;
    Ok(written > 0)
}

/// Returns the outcome of this very push if it was written before and the reply was lost.
fn prior_outcome(connection: &Connection, push: &PushWrite) -> rusqlite::Result<Option<Answer>> {
    let mut statement = connection.prepare_cached(KNOWN)?;
    let known: Option<(i64, bool, i64, Option<String>)> = statement
        .query_row([push.token.cast_signed()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((num, created, first, positions)) = known else { return Ok(None) };
    let (num, first) = (num.cast_unsigned(), first.cast_unsigned());
    let positions: Vec<u64> = match positions {
        Some(text) => Payload::recorded(&text).decode().unwrap_or_default(),
        None => (first..).take(push.events.len()).collect(),
    };
    // The driver that gets this reply may not know of an earlier message. In a queue, positions show no gaps.
    let before = match positions.iter().find(|pos| **pos > 0) {
        Some(kept) if push.place == PushTarget::Inbox => inbox::last_before(connection, num, *kept)?,
        _ => 0,
    };
    Ok(Some(Answer::Pushed { num: InstanceNum(num), created, positions, before }))
}
