//! Applies the commits of runs: the hot path, one row per journal entry and nothing else.

use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, NewState};
use outlive_core::store::page::Room;
use rusqlite::Connection;

use super::batch::Batch;
use super::cache::InstanceFacts;
use super::{carried, inbox, state};
use crate::row;

pub(super) fn apply(batch: &mut Batch<'_>, commit: &Commit) -> rusqlite::Result<Answer> {
    if !batch.holds(commit.epoch) {
        return Ok(Answer::Fenced);
    }
    let num = commit.num.0;
    if let Some(state) = stuck_state(batch, commit) {
        return state::mark_stuck(batch, num, state);
    }
    let Some(facts) = batch.facts(num)? else {
        return Ok(Answer::Fenced);
    };
    if has_applied(batch.connection, commit, &facts)? {
        return if commit.writes.is_empty() { Ok(Answer::Done) } else { carried::again(batch, &commit.writes) };
    }
    if !facts.is_open() || facts.seq != commit.seq_before || !is_dense(commit) {
        return Ok(Answer::Fenced);
    }
    let unseen = inbox::unseen(batch.connection, num, commit.state.as_ref(), &commit.taken, &facts)?;
    if !unseen.is_empty() {
        return Ok(Answer::Unseen(unseen));
    }
    if commit.writes.is_empty() {
        write(batch, commit, facts)?;
        return Ok(Answer::Done);
    }
    // A start may have replaced the run.
    let is_there = |batch: &mut Batch<'_>| Ok(batch.facts(num)?.is_some_and(|facts| facts.is_open()));
    let answers = match carried::apply_all(batch, &commit.writes, |_| Ok(()), is_there)? {
        Ok(answers) => answers,
        Err(against) => return Ok(against),
    };
    // It may have sent something to itself, which makes the facts read above stale.
    let facts = batch.facts(num)?.unwrap_or(facts);
    write(batch, commit, facts)?;
    Ok(Answer::DoneWith(answers))
}

/// Returns the state if this commit marks an instance stuck whose claim found damage.
fn stuck_state<'a>(batch: &Batch<'_>, commit: &'a Commit) -> Option<&'a NewState> {
    let state = commit.state.as_ref().filter(|state| state.status == Status::Stuck)?;
    (commit.entries.is_empty() && batch.cache.damage(commit.num.0).is_some()).then_some(state)
}

/// Returns `true` if this very commit was applied before and its reply was lost. Nothing of it is applied again: a
/// message may have arrived since that its wake would miss.
fn has_applied(connection: &Connection, commit: &Commit, facts: &InstanceFacts) -> rusqlite::Result<bool> {
    if let Some(last) = commit.entries.last() {
        if last.seq > facts.seq || !is_dense(commit) {
            return Ok(false);
        }
        let stored = row::entries(connection, commit.num.0, last.seq - 1, Room::new(1))?;
        return Ok(stored.is_ok_and(|stored| stored.first() == Some(last)));
    }
    match &commit.state {
        Some(state) if !facts.is_open() && facts.seq == commit.seq_before => {
            state::has_entered(connection, commit.num.0, state)
        }
        _ => Ok(false),
    }
}

/// Applies a commit that has passed all checks.
fn write(batch: &mut Batch<'_>, commit: &Commit, mut facts: InstanceFacts) -> rusqlite::Result<()> {
    let num = commit.num.0;
    for entry in &commit.entries {
        batch.append(num, entry, facts.reported)?;
    }
    inbox::take(batch.connection, num, &commit.taken)?;
    facts.seq += commit.entries.len() as u64;
    let is_progress = facts.recoveries > 0 && commit.is_progress();
    if is_progress {
        (facts.recoveries, facts.blamed) = (0, 0);
    }
    match &commit.state {
        Some(state) => {
            let workflow = batch.cache.workflow(batch.connection, num)?;
            return state::enter(batch, num, state, facts, workflow);
        }
        None if is_progress => {
            let sql = "UPDATE instance SET recoveries = 0, blamed = 0 WHERE num = ?1";
            batch.connection.prepare_cached(sql)?.execute([num.cast_signed()])?;
        }
        None => {}
    }
    if let Some(known) = batch.cache.known(num) {
        *known = facts;
    }
    Ok(())
}

fn is_dense(commit: &Commit) -> bool {
    (1..).zip(&commit.entries).all(|(nth, entry)| commit.seq_before.checked_add(nth) == Some(entry.seq))
}
