//! Applies one turn of a job: all of its changes, or none.

use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Moved, PushTarget, Spot};
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, NewState, Turn};
use outlive_core::time::Timestamp;
use rusqlite::{OptionalExtension, params};

use crate::batch::Batch;
use crate::ledger::{DEAD, Facts, QUEUED};

/// How many positions back replies are kept. A caller that waits for one polls many times a second.
const REPLIES_KEPT: u64 = 100_000;

const TAKE: &str = "DELETE FROM inbox WHERE instance = ?1 AND rank = ?2 AND lane = ?3 AND pos = ?4";

impl Batch<'_> {
    pub(crate) fn turn(&mut self, turn: &Turn) -> rusqlite::Result<Answer> {
        if !self.holds(turn.epoch) {
            return Ok(Answer::Fenced);
        }
        let num = turn.num.0;
        if let Some(state) = turn.state.as_ref().filter(|state| state.status == Status::Stuck)
            && self.ledger.damage(num).is_some()
        {
            // Its driver could not read its contents, so nothing about them is checked or returned.
            return Ok(match self.set_aside(num, state)? {
                Answer::Done => Answer::Turned(Vec::new()),
                fenced => fenced,
            });
        }
        let after = turn.before + turn.lifecycle.iter().map(|record| record.kind.count()).sum::<u64>();
        let Some(facts) = self.ledger.facts(self.connection, num)? else {
            let is_done = turn.is_removed && self.reported_when_gone(num)? == Some(after);
            return if is_done { self.answer_again(turn) } else { Ok(Answer::Fenced) };
        };
        if after > turn.before && facts.reported == after {
            return self.answer_again(turn);
        }
        if !facts.is_open() || facts.reported != turn.before {
            return Ok(Answer::Fenced);
        }
        let unseen = self.unseen_by(num, turn.state.as_ref(), &turn.taken, &facts)?;
        if !unseen.is_empty() {
            return Ok(Answer::Unseen(unseen));
        }
        let answers = match self.send_out(turn, &facts)? {
            Ok(answers) => answers,
            Err(against) => return Ok(against),
        };
        if turn.is_removed && !turn.writes.is_empty() {
            return Ok(Answer::Turned(answers));
        }
        let reaches_itself = answers.iter().any(|answer| answer.reaches(turn.num));
        let wake = reaches_itself.then_some(Timestamp::AT_ONCE);
        // It may have sent something to itself, which makes the facts read above stale.
        let facts = self.ledger.facts(self.connection, num)?.unwrap_or(facts);
        self.take_turn(turn, facts, wake)?;
        Ok(Answer::Turned(answers))
    }

    /// Returns the outcome of a turn that was applied before: its writes are recognized by their tokens.
    fn answer_again(&mut self, turn: &Turn) -> rusqlite::Result<Answer> {
        let answers: rusqlite::Result<_> = turn.writes.iter().map(|write| self.apply(write)).collect();
        Ok(Answer::Turned(answers?))
    }

    fn reported_when_gone(&self, num: u64) -> rusqlite::Result<Option<u64>> {
        let mut statement = self.connection.prepare_cached("SELECT reported FROM gone WHERE num = ?1")?;
        let reported: Option<i64> = statement.query_row([num.cast_signed()], |row| row.get(0)).optional()?;
        Ok(reported.map(i64::cast_unsigned))
    }

    /// Applies a turn's writes to other instances, or returns why it cannot: if one is refused, none is applied. A turn
    /// that removes its instance is applied first, so that what it sends to its own id creates a fresh one.
    fn send_out(&mut self, turn: &Turn, facts: &Facts) -> rusqlite::Result<Result<Vec<Answer>, Answer>> {
        if turn.writes.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let saved = self.ledger.save();
        self.connection.prepare_cached("SAVEPOINT turn")?.execute([])?;
        if turn.is_removed {
            self.take_turn(turn, *facts, None)?;
        }
        let sent = self.send_all(turn)?;
        if sent.is_err() {
            self.connection.prepare_cached("ROLLBACK TO turn")?.execute([])?;
            self.ledger.restore(saved);
        }
        self.connection.prepare_cached("RELEASE turn")?.execute([])?;
        Ok(sent)
    }

    fn send_all(&mut self, turn: &Turn) -> rusqlite::Result<Result<Vec<Answer>, Answer>> {
        let mut answers = Vec::with_capacity(turn.writes.len());
        for write in &turn.writes {
            match self.apply(write)? {
                refused @ Answer::Refused(_) => return Ok(Err(refused)),
                answer => answers.push(answer),
            }
        }
        // A start may have replaced the instance.
        let is_there =
            turn.is_removed || self.ledger.facts(self.connection, turn.num.0)?.is_some_and(|facts| facts.is_open());
        Ok(if is_there { Ok(answers) } else { Err(Answer::Fenced) })
    }

    /// Applies a turn that has passed all checks. `wake` covers what it has not seen: what it sent to itself, and
    /// events.
    fn take_turn(&mut self, turn: &Turn, mut facts: Facts, wake: Option<Timestamp>) -> rusqlite::Result<()> {
        let num = turn.num.0;
        for record in &turn.lifecycle {
            facts.reported += record.kind.count();
            self.report(num, facts.seq + facts.reported, record)?;
        }
        self.take_messages(num, &turn.taken)?;
        let job = self.ledger.workflow(self.connection, num)?;
        let mut done = 0;
        for moved in &turn.queue {
            done += self.shift(num, moved)?;
        }
        self.ledger.add(&job, QUEUED, -done);
        for dead in &turn.dead {
            self.give_up(dead)?;
        }
        for (pos, outcome) in &turn.replies {
            self.reply(*pos, outcome)?;
        }
        if turn.keys_until > 0 {
            let mut statement =
                self.connection.prepare_cached("DELETE FROM dedup WHERE instance = ?1 AND pos <= ?2")?;
            statement.execute(params![num.cast_signed(), turn.keys_until.cast_signed()])?;
        }
        if !turn.lifecycle.is_empty() {
            (facts.recoveries, facts.blamed) = (0, 0);
        }
        self.end_turn(turn, facts, wake)
    }

    /// Updates the row at the end of a turn: removes it, enters a new state, or stores only the counts.
    fn end_turn(&mut self, turn: &Turn, facts: Facts, wake: Option<Timestamp>) -> rusqlite::Result<()> {
        let num = turn.num.0;
        let job = self.ledger.workflow(self.connection, num)?;
        match &turn.state {
            _ if turn.is_removed => {
                self.keep_count(num, &facts)?;
                self.remove(num, &job, facts.status)
            }
            Some(state) => {
                let wake = self.wake_of(num, state, wake)?;
                self.enter(num, &NewState { wake, ..state.clone() }, facts, job)
            }
            None => {
                self.keep_count(num, &facts)?;
                if let Some(known) = self.ledger.known(num) {
                    *known = facts;
                }
                Ok(())
            }
        }
    }

    /// Returns when an instance wakes. Queued events always count, whatever the owner has seen of them. `told` is the
    /// wake for what the turn itself sent to this instance.
    fn wake_of(&self, num: u64, state: &NewState, forced: Option<Timestamp>) -> rusqlite::Result<Option<Timestamp>> {
        if state.is_owned {
            return Ok(state.wake);
        }
        if forced.is_some() || state.status == Status::Paused {
            return Ok(forced.or(state.wake));
        }
        let sql = "SELECT rank, lane FROM inbox WHERE instance = ?1 AND rank > 0 ORDER BY rank, lane LIMIT 1";
        let first = self
            .connection
            .prepare_cached(sql)?
            .query_row([num.cast_signed()], |row| Ok(Spot { rank: row.get(0)?, lane: row.get(1)? }.wake()));
        Ok([state.wake, first.optional()?].into_iter().flatten().min())
    }

    fn keep_count(&self, num: u64, facts: &Facts) -> rusqlite::Result<()> {
        let sql = "UPDATE instance SET reported = ?2, recoveries = ?3, blamed = ?4 WHERE num = ?1";
        let values = params![num.cast_signed(), facts.reported.cast_signed(), facts.recoveries, facts.blamed];
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    /// Removes an event from the queue, or moves it to where it belongs now. Returns how many were removed.
    fn shift(&mut self, num: u64, moved: &Moved) -> rusqlite::Result<i64> {
        let (pos, from) = (moved.pos, &moved.from);
        let key = params![num.cast_signed(), from.rank, from.lane, pos.cast_signed()];
        let Some(event) = &moved.to else {
            let gone = self.connection.prepare_cached(TAKE)?.execute(key)?;
            if let Some(key) = &moved.key {
                let sql = "DELETE FROM dedup WHERE instance = ?1 AND key = ?2 AND pos = ?3";
                let values = params![num.cast_signed(), key.as_str(), pos.cast_signed()];
                self.connection.prepare_cached(sql)?.execute(values)?;
            }
            return Ok(i64::try_from(gone).unwrap_or(0));
        };
        let sql = "DELETE FROM inbox WHERE instance = ?1 AND rank = ?2 AND lane = ?3 AND pos = ?4 RETURNING at";
        let at: Option<i64> = self.connection.prepare_cached(sql)?.query_row(key, |row| row.get(0)).optional()?;
        if let Some(at) = at {
            let inbound = Inbound { pos, at: Timestamp::from_millis(at), message: Message::Event(event.clone()) };
            self.keep(num, &inbound, Some(&Spot::of(event)))?;
        }
        Ok(0)
    }

    fn give_up(&mut self, dead: &Dead) -> rusqlite::Result<()> {
        let mut forget = self.connection.prepare_cached("DELETE FROM dead WHERE pos = ?1")?;
        let known = forget.execute([dead.pos.cast_signed()])?;
        let sql = "INSERT INTO dead (pos, job, id, at, attempts, queued, text, failure, payload) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        self.connection.prepare_cached(sql)?.execute(params![
            dead.pos.cast_signed(),
            dead.job.as_str(),
            dead.id.as_str(),
            dead.at.as_millis(),
            dead.attempts,
            dead.place == PushTarget::Queue,
            dead.event.to_text(),
            dead.failure.as_str(),
            dead.event.payload.as_str(),
        ])?;
        self.ledger.add(&dead.job, DEAD, 1 - i64::try_from(known).unwrap_or(0));
        Ok(())
    }

    fn reply(&self, pos: u64, outcome: &Payload) -> rusqlite::Result<()> {
        let mut statement =
            self.connection.prepare_cached("INSERT OR REPLACE INTO reply (pos, outcome) VALUES (?1, ?2)")?;
        statement.execute(params![pos.cast_signed(), outcome.as_str()])?;
        let old = pos.saturating_sub(REPLIES_KEPT);
        self.connection.prepare_cached("DELETE FROM reply WHERE pos < ?1")?.execute([old.cast_signed()])?;
        Ok(())
    }
}
