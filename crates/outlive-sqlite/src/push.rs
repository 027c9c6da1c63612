//! Pushes events to jobs, and retries or discards dead letters.

use outlive_core::event::Event;
use outlive_core::id::InstanceNum;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Push, PushTarget, ResolveDeadLetters, Spot, WhichLetters};
use outlive_core::store::commit::{Answer, Refusal, StartWrite};
use outlive_core::store::query::Urgency;
use outlive_core::time::Timestamp;
use rusqlite::{OptionalExtension, params};

use crate::batch::{Again, Batch};
use crate::deliver::Receiver;
use crate::ledger::{DEAD, QUEUED};
use crate::queue;

/// The maximum number of dead letters handled in one write.
const BURY_MAX: usize = 1_000;

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
const FREE_KEY: &str =
    "DELETE FROM dedup WHERE instance = (SELECT num FROM instance WHERE id = ?1) AND key = ?2 AND pos = ?3";
const KNOWN: &str = "SELECT instance, created, first, positions FROM pushed_a WHERE token = ?1 \
     UNION ALL SELECT instance, created, first, positions FROM pushed_b WHERE token = ?1 LIMIT 1";

impl Batch<'_> {
    pub(crate) fn push(&mut self, push: &Push) -> rusqlite::Result<Answer> {
        // Nearly every push is new. A push to an existing instance, without dedup keys, needs no lookup first:
        // inserting its token shows whether it is new.
        let found = self.receiver(&push.id)?;
        let is_plain = push.events.iter().all(|event| event.dedup.is_none()) && !push.events.is_empty();
        let is_open = found.as_ref().is_some_and(|found| found.workflow == push.job && !found.status.is_ended());
        if is_plain && is_open && !self.has_forgotten_lately() {
            let num = found.as_ref().map_or(0, |found| found.num);
            let first = self.ledger.marks.pos + 1;
            let positions: Vec<u64> = (first..).take(push.events.len()).collect();
            if self.remember_push(num, false, &positions, push.token)? {
                return self.push_to(found, push);
            }
        }
        if let Some(answer) = self.pushed_before(push)? {
            return Ok(answer);
        }
        let answer = self.push_to(found, push)?;
        if let Answer::Pushed { num, created, positions, .. } = &answer {
            self.remember_push(num.0, *created, positions, push.token)?;
        }
        Ok(answer)
    }

    /// Returns `true` if the tables were switched so recently that the older one may hold the token of a repeated push.
    fn has_forgotten_lately(&self) -> bool {
        let marks = self.ledger.marks;
        marks.pushed > 1 && marks.pos - (marks.pushed >> 1) < TOKENS_LATE
    }

    /// Stores events without checking their token, creating the instance if none was found.
    fn push_to(&mut self, found: Option<Receiver>, push: &Push) -> rusqlite::Result<Answer> {
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
                self.create(&StartWrite::of_push(push))?;
                self.receiver(&push.id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?
            }
        };
        let before = match push.place {
            PushTarget::Inbox => self.ledger.facts(self.connection, receiver.num)?.map_or(0, |facts| facts.inbox_last),
            PushTarget::Queue => 0,
        };
        let positions = self.keep_all(&receiver, push)?;
        let answer = Answer::Pushed { num: InstanceNum(receiver.num), created, positions, before };
        if answer.reaches(InstanceNum(receiver.num)) {
            self.wake(&receiver, self.ledger.marks.pos, Urgency::Low)?;
        }
        Ok(answer)
    }

    /// Stores the events whose dedup key is new. Returns their positions, and 0 for the others.
    fn keep_all(&mut self, receiver: &Receiver, push: &Push) -> rusqlite::Result<Vec<u64>> {
        let mut positions = Vec::with_capacity(push.events.len());
        let mut queued = 0;
        for event in &push.events {
            if let Some(key) = &event.dedup
                && self.pos_of_key(receiver.num, key)?.is_some()
            {
                positions.push(0);
                continue;
            }
            let pos = self.ledger.marks.pos + 1;
            self.ledger.marks.pos = pos;
            if let Some(key) = &event.dedup {
                let sql = "INSERT OR REPLACE INTO dedup (instance, key, pos) VALUES (?1, ?2, ?3)";
                let values = params![receiver.num.cast_signed(), key.as_str(), pos.cast_signed()];
                self.connection.prepare_cached(sql)?.execute(values)?;
            }
            let inbound = Inbound { pos, at: push.at, message: Message::Event(event.clone()) };
            let spot = (push.place == PushTarget::Queue).then(|| Spot::of(event));
            self.keep(receiver.num, &inbound, spot.as_ref())?;
            queued += i64::from(spot.is_some());
            positions.push(pos);
        }
        self.ledger.add(&push.job, QUEUED, queued);
        Ok(positions)
    }

    /// Records a token. Returns `true` if it is new.
    fn remember_push(&mut self, num: u64, created: bool, positions: &[u64], token: u64) -> rusqlite::Result<bool> {
        let marks = &mut self.ledger.marks;
        // A push that stored nothing takes a position too, or the tokens of such pushes would never be discarded.
        marks.pos += u64::from(positions.iter().all(|pos| *pos == 0));
        if marks.pos - (marks.pushed >> 1) > TOKENS_KEPT {
            marks.pushed = marks.pos << 1 | (!marks.pushed & 1);
            let side = usize::from(marks.pushed & 1 == 1);
            self.connection.prepare_cached(FORGET[side])?.execute([])?;
        }
        let side = usize::from(self.ledger.marks.pushed & 1 == 1);
        let first = positions.first().copied().unwrap_or(0);
        let is_dense = first > 0 && (first..).zip(positions).all(|(wanted, pos)| *pos == wanted);
        let text = (!is_dense).then(|| Payload::encode(positions).map(|text| text.to_string()).unwrap_or_default());
        let values = params![token.cast_signed(), num.cast_signed(), created, first.cast_signed(), text];
        let written = self.connection.prepare_cached(REMEMBER[side])?.execute(values)?;
        Ok(written > 0)
    }

    /// Returns the outcome of this very push if it was written before and the reply was lost.
    fn pushed_before(&self, push: &Push) -> rusqlite::Result<Option<Answer>> {
        let mut statement = self.connection.prepare_cached(KNOWN)?;
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
            Some(kept) if push.place == PushTarget::Inbox => self.last_before(num, *kept)?,
            _ => 0,
        };
        Ok(Some(Answer::Pushed { num: InstanceNum(num), created, positions, before }))
    }

    pub(crate) fn bury(&mut self, bury: &ResolveDeadLetters) -> rusqlite::Result<Answer> {
        let meant = match bury.letters {
            WhichLetters::All => queue::dead(self.connection, &bury.job, 0, BURY_MAX)?,
            WhichLetters::One(pos) => {
                let mut one = queue::dead(self.connection, &bury.job, pos.saturating_sub(1), 1)?;
                one.retain(|dead| dead.pos == pos);
                one
            }
        };
        if meant.is_empty() && bury.letters != WhichLetters::All {
            let is_done = self.again == Again::Perhaps;
            let done = Answer::Buried { count: 1, nums: Vec::new() };
            return Ok(if is_done { done } else { Answer::Refused(Refusal::NotFound) });
        }
        let mut nums = Vec::new();
        let mut count = 0;
        for dead in &meant {
            if bury.is_retry {
                let Some(num) = self.revive(dead, bury.at)? else { continue };
                nums.push(num);
            }
            count += 1;
            self.connection.prepare_cached("DELETE FROM dead WHERE pos = ?1")?.execute([dead.pos.cast_signed()])?;
        }
        self.ledger.add(&bury.job, DEAD, -i64::try_from(count).unwrap_or(0));
        nums.sort_unstable();
        nums.dedup();
        Ok(Answer::Buried { count, nums })
    }

    /// Sends a dead letter to its instance again. Returns `None` if the instance has ended otherwise, or if another
    /// event holds its dedup key.
    fn revive(&mut self, dead: &Dead, at: Timestamp) -> rusqlite::Result<Option<InstanceNum>> {
        if let Some(key) = &dead.event.dedup {
            // The dead letter may itself hold the key, which must not keep it out.
            let values = params![dead.id.as_str(), key.as_str(), dead.pos.cast_signed()];
            self.connection.prepare_cached(FREE_KEY)?.execute(values)?;
        }
        let push = Push {
            id: dead.id.clone(),
            job: dead.job.clone(),
            events: vec![Event::clone(&dead.event).anew()],
            place: dead.place,
            at,
            seed: dead.pos,
            // It is removed from the dead letters in the same write, so it cannot be retried twice and needs no token.
            token: dead.pos,
        };
        let found = self.receiver(&push.id)?;
        match self.push_to(found, &push)? {
            Answer::Pushed { num, positions, .. } if positions != [0] => Ok(Some(num)),
            _ => Ok(None),
        }
    }
}
