//! Writes that come from outside: starts of new instances, and messages to existing ones.

use outlive_core::id::{InstanceNum, Name};
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::{LifecycleRecord, LifecycleRecordKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::Spot;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{self, Answer, OnConflict, Refusal, StartWrite};
use outlive_core::store::query::{Urgency, Wake};
use outlive_core::time::Timestamp;
use rusqlite::{OptionalExtension, params};

use crate::batch::Batch;
use crate::feed::Change;
use crate::ledger::Facts;
use crate::row;

const CREATE: &str = "INSERT INTO instance (num, status, owner, wake, recoveries, blamed, created_at, started_at, \
     seed, token, sum, id, workflow, tags, input, reported) VALUES (?1, ?2, ?3, ?4, 0, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) \
     ON CONFLICT (id) DO NOTHING";

const LABEL: &str = "INSERT INTO tag (key, value, num) VALUES (?1, ?2, ?3)";

const BEARER: &str = "SELECT num, token, workflow, input, status FROM instance WHERE id = ?1";

const RECEIVER: &str = "SELECT num, status, until, owner, wake, workflow, reported FROM instance WHERE id = ?1";

const KEEP: &str = "INSERT INTO inbox (instance, rank, lane, pos, at, kind, text, payload, sum) VALUES (?1, ?8, ?9, ?2, ?3, ?4, ?5, ?6, ?7)";

const CANCEL: &str = "UPDATE instance SET status = ?2, note = ?3, ended_at = ?4, reported = ?5 WHERE num = ?1";

/// The instance that has the id a start asks for.
struct Bearer {
    num: u64,
    token: u64,
    workflow: Name,
    input: Payload,
    status: StatusKind,
}

/// The receiving instance of a message.
pub(crate) struct Receiver {
    pub(crate) num: u64,
    pub(crate) status: Status,
    pub(crate) owner: u64,
    pub(crate) wake: Option<Timestamp>,
    pub(crate) workflow: Name,
    pub(crate) reported: u64,
}

impl Batch<'_> {
    pub(crate) fn start(&mut self, start: &StartWrite) -> rusqlite::Result<Answer> {
        // Nearly every start has a new id, so try to create it before reading anything.
        if let Some(num) = self.create(start)? {
            return Ok(Answer::Started { num, created: true, is_driven: self.holds(start.owner) });
        }
        let Some(bearer) = self.bearer(&start.id)? else {
            return Ok(Answer::Refused(Refusal::Taken));
        };
        let num = InstanceNum(bearer.num);
        if bearer.token == start.token {
            return Ok(Answer::Started { num, created: true, is_driven: self.holds(start.owner) });
        }
        match start.on_conflict {
            OnConflict::Join if bearer.workflow == start.workflow && bearer.input == start.input => {
                Ok(Answer::Started { num, created: false, is_driven: false })
            }
            OnConflict::Join => Ok(Answer::Refused(Refusal::Conflict { workflow: bearer.workflow })),
            OnConflict::Replace => self.replace(&bearer, start),
            _ => Ok(Answer::Refused(Refusal::Taken)),
        }
    }

    fn replace(&mut self, bearer: &Bearer, start: &StartWrite) -> rusqlite::Result<Answer> {
        self.remove(bearer.num, &bearer.workflow, bearer.status)?;
        match self.create(start)? {
            Some(num) => Ok(Answer::Started { num, created: true, is_driven: self.holds(start.owner) }),
            None => Ok(Answer::Refused(Refusal::Taken)),
        }
    }

    /// Creates the instance unless its id is taken.
    pub(crate) fn create(&mut self, start: &StartWrite) -> rusqlite::Result<Option<InstanceNum>> {
        let num = self.ledger.marks.num + 1;
        let is_driven = self.holds(start.owner);
        let status = if is_driven { StatusKind::Running } else { StatusKind::Pending };
        let tags = row::tags_text(&start.tags);
        let begun = if is_driven { LifecycleRecordKind::RunBegun } else { LifecycleRecordKind::RunQueued };
        let queued = JobKind::of(&start.workflow).is_none().then_some(begun);
        let created = self.connection.prepare_cached(CREATE)?.execute(params![
            num.cast_signed(),
            status.code(),
            if is_driven { self.epoch.cast_signed() } else { 0 },
            (!is_driven).then_some(start.due.as_millis()),
            start.at.as_millis(),
            is_driven.then_some(start.at.as_millis()),
            start.seed.cast_signed(),
            start.token.cast_signed(),
            row::start_sum(start, tags.as_deref()),
            start.id.as_str(),
            start.workflow.as_str(),
            tags,
            start.input.as_str(),
            queued.map_or(0, LifecycleRecordKind::count).cast_signed(),
        ])?;
        if created == 0 {
            return Ok(None);
        }
        self.ledger.marks.num = num;
        for (key, value) in &start.tags {
            self.connection.prepare_cached(LABEL)?.execute(params![key, value, num.cast_signed()])?;
        }
        self.ledger.count(&start.workflow, None, Some(status));
        if let Some(kind) = queued {
            self.report(num, kind.count(), &LifecycleRecord::new(kind, start.at))?;
        }
        if is_driven {
            let facts = Facts {
                seq: 0,
                status,
                recoveries: 0,
                blamed: 0,
                inbox_last: 0,
                reported: queued.map_or(0, LifecycleRecordKind::count),
            };
            self.ledger.know(num, facts, start.workflow.clone());
        }
        Ok(Some(InstanceNum(num)))
    }

    fn bearer(&self, id: &Name) -> rusqlite::Result<Option<Bearer>> {
        let mut statement = self.connection.prepare_cached(BEARER)?;
        let read = statement.query_row([id.as_str()], |row| {
            Ok(Bearer {
                num: row::int(row, 0).unwrap_or(0).cast_unsigned(),
                token: row::int(row, 1).unwrap_or(0).cast_unsigned(),
                workflow: Name::recorded(&row::text(row, 2)),
                input: Payload::recorded(&row::text(row, 3)),
                status: row::int(row, 4).and_then(row::status_kind).unwrap_or(StatusKind::Stuck),
            })
        });
        read.optional()
    }

    pub(crate) fn send(&mut self, send: &commit::SendWrite) -> rusqlite::Result<Answer> {
        let receiver = self.receiver(&send.id)?;
        let Some(receiver) = receiver.filter(|found| send.num.is_none_or(|asked| asked.0 == found.num)) else {
            return Ok(Answer::Refused(Refusal::NotFound));
        };
        let num = InstanceNum(receiver.num);
        if let Some(pos) = self.pos_of_token(receiver.num, send.token)? {
            // The driver that gets this reply may not know of an earlier message.
            let before = self.last_before(receiver.num, pos)?;
            return Ok(Answer::Sent { num, pos, before, is_new: true });
        }
        let is_for_the_open = matches!(send.message, Message::Pause | Message::Resume);
        if receiver.status.is_ended() || (receiver.status == Status::Stuck && is_for_the_open) {
            return Ok(Answer::Refused(Refusal::Status(receiver.status)));
        }
        if let Some(key) = &send.dedup
            && let Some(pos) = self.pos_of_key(receiver.num, key)?
        {
            return Ok(Answer::Sent { num, pos, before: 0, is_new: false });
        }
        let before = self.ledger.facts(self.connection, receiver.num)?.map_or(0, |facts| facts.inbox_last);
        let pos = self.accept(&receiver, send)?;
        Ok(Answer::Sent { num, pos, before, is_new: true })
    }

    pub(crate) fn receiver(&self, id: &Name) -> rusqlite::Result<Option<Receiver>> {
        let mut statement = self.connection.prepare_cached(RECEIVER)?;
        let read = statement.query_row([id.as_str()], |row| {
            let kind = row::int(row, 1).and_then(row::status_kind).unwrap_or(StatusKind::Stuck);
            let until = row::int(row, 2).map(Timestamp::from_millis);
            Ok(Receiver {
                num: row::int(row, 0).unwrap_or(0).cast_unsigned(),
                status: Status::from_parts(kind, until),
                owner: row::int(row, 3).unwrap_or(0).cast_unsigned(),
                wake: row::int(row, 4).map(Timestamp::from_millis),
                workflow: Name::recorded(&row::text(row, 5)),
                reported: row::int(row, 6).unwrap_or(0).cast_unsigned(),
            })
        });
        read.optional()
    }

    fn pos_of_token(&self, num: u64, token: u64) -> rusqlite::Result<Option<u64>> {
        let mut statement =
            self.connection.prepare_cached("SELECT pos FROM sent WHERE instance = ?1 AND token = ?2")?;
        let pos = statement.query_row(params![num.cast_signed(), token.cast_signed()], |row| row.get(0));
        Ok(pos.optional()?.map(i64::cast_unsigned))
    }

    /// Returns the position of the last message before `pos` that is not taken, or 0.
    pub(crate) fn last_before(&self, num: u64, pos: u64) -> rusqlite::Result<u64> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT MAX(pos) FROM inbox WHERE instance = ?1 AND rank = 0 AND lane = '' AND pos < ?2")?;
        let last: Option<i64> = statement.query_row(params![num.cast_signed(), pos.cast_signed()], |row| row.get(0))?;
        Ok(last.map_or(0, i64::cast_unsigned))
    }

    pub(crate) fn pos_of_key(&self, num: u64, key: &Name) -> rusqlite::Result<Option<u64>> {
        let mut statement = self.connection.prepare_cached("SELECT pos FROM dedup WHERE instance = ?1 AND key = ?2")?;
        let pos = statement.query_row(params![num.cast_signed(), key.as_str()], |row| row.get(0));
        Ok(pos.optional()?.map(i64::cast_unsigned))
    }

    /// Stores a message that has passed all checks, and wakes its receiver.
    fn accept(&mut self, receiver: &Receiver, send: &commit::SendWrite) -> rusqlite::Result<u64> {
        let pos = self.ledger.marks.pos + 1;
        self.ledger.marks.pos = pos;
        self.remember(receiver.num, pos, send)?;
        match &send.message {
            Message::Cancel { reason } | Message::Terminate { reason } if receiver.status == Status::Stuck => {
                self.cancel_stuck(receiver, reason, send.at)?;
            }
            message => {
                let inbound = Inbound { pos, at: send.at, message: message.clone() };
                self.keep(receiver.num, &inbound, None)?;
                let is_job = JobKind::of(&receiver.workflow).is_some();
                if receiver.status != Status::Pending || message.is_end() || is_job {
                    self.wake(receiver, pos, Urgency::of(message))?;
                }
            }
        }
        Ok(pos)
    }

    /// Records the token and the dedup key, so that the same message is recognized later.
    fn remember(&self, num: u64, pos: u64, send: &commit::SendWrite) -> rusqlite::Result<()> {
        let mut statement =
            self.connection.prepare_cached("INSERT INTO sent (instance, token, pos) VALUES (?1, ?2, ?3)")?;
        statement.execute(params![num.cast_signed(), send.token.cast_signed(), pos.cast_signed()])?;
        if let Some(key) = &send.dedup {
            let mut statement =
                self.connection.prepare_cached("INSERT INTO dedup (instance, key, pos) VALUES (?1, ?2, ?3)")?;
            statement.execute(params![num.cast_signed(), key.as_str(), pos.cast_signed()])?;
        }
        Ok(())
    }

    /// Adds a message to the inbox, or to a spot in the queue.
    pub(crate) fn keep(&mut self, num: u64, inbound: &Inbound, spot: Option<&Spot>) -> rusqlite::Result<()> {
        let (kind, text, payload) = inbound.message.to_parts();
        self.connection.prepare_cached(KEEP)?.execute(params![
            num.cast_signed(),
            inbound.pos.cast_signed(),
            inbound.at.as_millis(),
            kind as u8,
            text,
            payload.map(Payload::as_str),
            row::message_sum(inbound),
            spot.map_or(0, |spot| spot.rank),
            spot.map_or("", |spot| &spot.lane),
        ])?;
        if let Some(known) = self.ledger.known(num).filter(|_| spot.is_none()) {
            known.inbox_last = inbound.pos;
        }
        Ok(())
    }

    /// Makes the receiver of message `pos` due, unless it is stuck, or driven in this process, where its driver is
    /// notified directly. One driven by another process is made due as well: that is how its driver learns of the
    /// message.
    pub(crate) fn wake(&self, receiver: &Receiver, pos: u64, urgency: Urgency) -> rusqlite::Result<()> {
        let is_driven_here = receiver.owner != 0 && receiver.owner == self.epoch;
        let due = Wake::by_message(receiver.wake, pos, if receiver.owner != 0 { Urgency::High } else { urgency });
        let is_due = receiver.wake == Some(due);
        if is_driven_here || is_due || receiver.status == Status::Stuck {
            return Ok(());
        }
        let mut statement = self.connection.prepare_cached("UPDATE instance SET wake = ?2 WHERE num = ?1")?;
        statement.execute(params![receiver.num.cast_signed(), due.as_millis()])?;
        Ok(())
    }

    /// Ends a stuck instance of a job: everything is removed, and only a lifecycle event remains.
    fn end_stuck_job(&mut self, receiver: &Receiver, reason: &str, at: Timestamp, seq: u64) -> rusqlite::Result<()> {
        let reported = receiver.reported + 1;
        self.report(receiver.num, seq + reported, &LifecycleRecord::terminated(reason, at))?;
        let mut statement = self.connection.prepare_cached("UPDATE instance SET reported = ?2 WHERE num = ?1")?;
        statement.execute(params![receiver.num.cast_signed(), reported.cast_signed()])?;
        self.remove(receiver.num, &receiver.workflow, receiver.status.kind())
    }

    fn cancel_stuck(&mut self, receiver: &Receiver, reason: &str, at: Timestamp) -> rusqlite::Result<()> {
        let cancelled = StatusKind::Cancelled;
        let seq = self.ledger.facts(self.connection, receiver.num)?.map_or(0, |facts| facts.seq);
        if JobKind::of(&receiver.workflow).is_some() {
            return self.end_stuck_job(receiver, reason, at, seq);
        }
        let (num, workflow, before) = (receiver.num, &receiver.workflow, Some(receiver.status.kind()));
        let change = Change { num, workflow, before, seq, at, outcome: None };
        let reported = self.report_status(change, Status::Cancelled, Some(reason), receiver.reported)?;
        let mut statement = self.connection.prepare_cached(CANCEL)?;
        let values = params![num.cast_signed(), cancelled.code(), reason, at.as_millis(), reported.cast_signed()];
        statement.execute(values)?;
        self.empty_inbox(receiver.num, &receiver.workflow)?;
        self.ledger.count(&receiver.workflow, Some(receiver.status.kind()), Some(cancelled));
        self.ledger.drop_facts(receiver.num);
        Ok(())
    }
}
