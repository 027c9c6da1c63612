//! Applies the commits of runs: the hot path, one row per journal entry and nothing else.

use outlive_core::id::Name;
use outlive_core::kind::JobKind;
use outlive_core::message::Inbound;
use outlive_core::payload::Payload;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Answer, Commit, NewState};
use outlive_core::store::page::Room;
use outlive_core::time::Timestamp;
use rusqlite::{OptionalExtension, params};

use crate::batch::Batch;
use crate::feed::Change;
use crate::ledger::{Facts, QUEUED};
use crate::row;

const ENTER: &str = "UPDATE instance SET status = ?2, until = ?3, owner = ?4, wake = ?5, outcome = ?6, note = ?7, \
     ended_at = ?8, started_at = coalesce(started_at, ?9), recoveries = ?10, blamed = ?11, reported = ?12 \
     WHERE num = ?1";

impl Batch<'_> {
    pub(crate) fn commit(&mut self, commit: &Commit) -> rusqlite::Result<Answer> {
        if !self.holds(commit.epoch) {
            return Ok(Answer::Fenced);
        }
        let num = commit.num.0;
        if let Some(state) = self.sets_aside(commit) {
            return self.set_aside(num, state);
        }
        let Some(facts) = self.ledger.facts(self.connection, num)? else {
            return Ok(Answer::Fenced);
        };
        if self.has_applied(commit, &facts)? {
            return Ok(Answer::Done);
        }
        if !facts.is_open() || facts.seq != commit.seq_before || !is_dense(commit) {
            return Ok(Answer::Fenced);
        }
        let unseen = self.unseen_by(num, commit.state.as_ref(), &commit.taken, &facts)?;
        if !unseen.is_empty() {
            return Ok(Answer::Unseen(unseen));
        }
        self.take(commit, facts)?;
        Ok(Answer::Done)
    }

    /// Returns the state if this commit marks an instance stuck whose claim found damage.
    fn sets_aside<'a>(&self, commit: &'a Commit) -> Option<&'a NewState> {
        let state = commit.state.as_ref().filter(|state| state.status == Status::Stuck)?;
        (commit.entries.is_empty() && self.ledger.damage(commit.num.0).is_some()).then_some(state)
    }

    /// Marks a damaged instance stuck. Its driver could not read where its journal ends, so that is not checked.
    pub(crate) fn set_aside(&mut self, num: u64, state: &NewState) -> rusqlite::Result<Answer> {
        match self.ledger.outline(self.connection, num)? {
            Some((facts, workflow)) if facts.is_open() => {
                self.enter(num, state, facts, workflow).map(|()| Answer::Done)
            }
            Some(_) if self.has_entered(num, state)? => Ok(Answer::Done),
            _ => Ok(Answer::Fenced),
        }
    }

    /// Returns `true` if this very commit was applied before and its reply was lost. Nothing of it is applied again: a
    /// message may have arrived since that its wake would miss.
    fn has_applied(&self, commit: &Commit, facts: &Facts) -> rusqlite::Result<bool> {
        if let Some(last) = commit.entries.last() {
            if last.seq > facts.seq || !is_dense(commit) {
                return Ok(false);
            }
            let stored = row::entries(self.connection, commit.num.0, last.seq - 1, Room::new(1))?;
            return Ok(stored.is_ok_and(|stored| stored.first() == Some(last)));
        }
        match &commit.state {
            Some(state) if !facts.is_open() && facts.seq == commit.seq_before => self.has_entered(commit.num.0, state),
            _ => Ok(false),
        }
    }

    /// Returns `true` if an ended or stuck instance is in exactly this state.
    fn has_entered(&self, num: u64, state: &NewState) -> rusqlite::Result<bool> {
        let sql =
            "SELECT 1 FROM instance WHERE num = ?1 AND status = ?2 AND outcome IS ?3 AND note IS ?4 AND ended_at IS ?5";
        let ended_at = state.status.is_ended().then_some(state.at.as_millis());
        let outcome = state.outcome.as_ref().map(Payload::as_str);
        let mut statement = self.connection.prepare_cached(sql)?;
        let key = params![num.cast_signed(), state.status.kind().code(), outcome, state.note, ended_at];
        Ok(statement.query_row(key, |_| Ok(())).optional()?.is_some())
    }

    /// Returns the messages that the owner had not seen when it chose `state`, without those in `taken`.
    pub(crate) fn unseen_by(
        &self,
        num: u64,
        state: Option<&NewState>,
        taken: &[u64],
        facts: &Facts,
    ) -> rusqlite::Result<Vec<Inbound>> {
        let Some(seen) = state.and_then(|state| state.seen) else {
            return Ok(Vec::new());
        };
        if facts.inbox_last <= seen {
            return Ok(Vec::new());
        }
        // A damaged message cannot be handed out; the claim that found it has already reported it.
        let mut later = row::messages(self.connection, num, seen, Room::unbounded())?.unwrap_or_default();
        later.retain(|inbound| !taken.contains(&inbound.pos));
        Ok(later)
    }

    /// Applies a commit that has passed all checks.
    fn take(&mut self, commit: &Commit, mut facts: Facts) -> rusqlite::Result<()> {
        let num = commit.num.0;
        for entry in &commit.entries {
            self.insert(num, entry, facts.reported)?;
        }
        self.take_messages(num, &commit.taken)?;
        facts.seq += commit.entries.len() as u64;
        let is_progress = !commit.entries.is_empty() && facts.recoveries > 0;
        if is_progress {
            (facts.recoveries, facts.blamed) = (0, 0);
        }
        match &commit.state {
            Some(state) => {
                let workflow = self.ledger.workflow(self.connection, num)?;
                return self.enter(num, state, facts, workflow);
            }
            None if is_progress => {
                let sql = "UPDATE instance SET recoveries = 0, blamed = 0 WHERE num = ?1";
                self.connection.prepare_cached(sql)?.execute([num.cast_signed()])?;
            }
            None => {}
        }
        if let Some(known) = self.ledger.known(num) {
            *known = facts;
        }
        Ok(())
    }

    /// Removes messages from the inbox of an instance.
    pub(crate) fn take_messages(&self, num: u64, taken: &[u64]) -> rusqlite::Result<()> {
        for pos in taken {
            let sql = "DELETE FROM inbox WHERE instance = ?1 AND rank = 0 AND lane = '' AND pos = ?2";
            self.connection.prepare_cached(sql)?.execute(params![num.cast_signed(), pos.cast_signed()])?;
        }
        Ok(())
    }

    /// Puts an instance into a state, and drops its cached facts unless it is driven further.
    pub(crate) fn enter(
        &mut self,
        num: u64,
        state: &NewState,
        mut facts: Facts,
        workflow: Name,
    ) -> rusqlite::Result<()> {
        let kind = state.status.kind();
        let is_open = !state.status.is_ended() && kind != StatusKind::Stuck;
        let owner = if is_open && state.is_owned { self.epoch } else { 0 };
        let (before, outcome) = (Some(facts.status), state.outcome.as_ref());
        let change = Change { num, workflow: &workflow, before, seq: facts.seq, at: state.at, outcome };
        facts.reported = self.report_status(change, state.status, state.note.as_deref(), facts.reported)?;
        let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
        self.connection.prepare_cached(ENTER)?.execute(params![
            num.cast_signed(),
            kind.code(),
            millis(state.status.until()),
            owner.cast_signed(),
            millis(state.wake.filter(|_| is_open)),
            state.outcome.as_ref().map(Payload::as_str),
            state.note,
            millis(state.status.is_ended().then_some(state.at)),
            millis((state.status == Status::Running).then_some(state.at)),
            facts.recoveries,
            facts.blamed,
            facts.reported.cast_signed(),
        ])?;
        if state.status.is_ended() && (facts.inbox_last > 0 || JobKind::of(&workflow).is_some()) {
            self.empty_inbox(num, &workflow)?;
        }
        self.ledger.count(&workflow, Some(facts.status), Some(kind));
        facts.status = kind;
        if owner == 0 {
            self.ledger.drop_facts(num);
        } else {
            self.ledger.know(num, facts, workflow);
        }
        Ok(())
    }

    /// Removes all messages of an instance, and all queued events if it belongs to a job.
    pub(crate) fn empty_inbox(&mut self, num: u64, workflow: &Name) -> rusqlite::Result<()> {
        if JobKind::of(workflow).is_some() {
            self.ledger.add(workflow, QUEUED, -self.queue_len(num)?);
        }
        self.connection.prepare_cached("DELETE FROM inbox WHERE instance = ?1")?.execute([num.cast_signed()])?;
        Ok(())
    }
}

fn is_dense(commit: &Commit) -> bool {
    (1..).zip(&commit.entries).all(|(nth, entry)| commit.seq_before.checked_add(nth) == Some(entry.seq))
}
