//! Applies one turn of a job: all of its changes, or none.

use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, NewState, Turn};
use outlive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::batch::Batch;
use super::cache::InstanceFacts;
use super::{carried, feed, inbox, purge, queue, state};
use crate::schema::QUEUED;

pub(super) fn apply(batch: &mut Batch<'_>, turn: &Turn) -> rusqlite::Result<Answer> {
    if !batch.holds(turn.epoch) {
        return Ok(Answer::Fenced);
    }
    let num = turn.num.0;
    if let Some(state) = turn.state.as_ref().filter(|state| state.status == Status::Stuck)
        && batch.cache.damage(num).is_some()
    {
        // Its driver could not read its contents, so nothing about them is checked or returned.
        return Ok(match state::mark_stuck(batch, num, state)? {
            Answer::Done => Answer::DoneWith(Vec::new()),
            fenced => fenced,
        });
    }
    let after = turn.before + turn.lifecycle.iter().map(|record| record.kind.count()).sum::<u64>();
    let Some(facts) = batch.facts(num)? else {
        let is_done = turn.is_removed && reported_when_gone(batch.connection, num)? == Some(after);
        return if is_done { carried::again(batch, &turn.writes) } else { Ok(Answer::Fenced) };
    };
    if after > turn.before && facts.reported == after {
        return carried::again(batch, &turn.writes);
    }
    if !facts.is_open() || facts.reported != turn.before {
        return Ok(Answer::Fenced);
    }
    let unseen = inbox::unseen(batch.connection, num, turn.state.as_ref(), &turn.taken, &facts)?;
    if !unseen.is_empty() {
        return Ok(Answer::Unseen(unseen));
    }
    let answers = match send_out(batch, turn, &facts)? {
        Ok(answers) => answers,
        Err(against) => return Ok(against),
    };
    if turn.is_removed && !turn.writes.is_empty() {
        return Ok(Answer::DoneWith(answers));
    }
    let reaches_itself = answers.iter().any(|answer| answer.reaches(turn.num));
    let wake = reaches_itself.then_some(Timestamp::AT_ONCE);
    // It may have sent something to itself, which makes the facts read above stale.
    let facts = batch.facts(num)?.unwrap_or(facts);
    write(batch, turn, facts, wake)?;
    Ok(Answer::DoneWith(answers))
}

fn reported_when_gone(connection: &Connection, num: u64) -> rusqlite::Result<Option<u64>> {
    let mut statement = connection.prepare_cached("SELECT reported FROM gone WHERE num = ?1")?;
    let reported: Option<i64> = statement.query_row([num.cast_signed()], |row| row.get(0)).optional()?;
    Ok(reported.map(i64::cast_unsigned))
}

/// Applies a turn's writes to other instances, or returns why it cannot. A turn that removes its instance is applied
/// first, so that what it sends to its own id creates a fresh one.
fn send_out(
    batch: &mut Batch<'_>,
    turn: &Turn,
    facts: &InstanceFacts,
) -> rusqlite::Result<Result<Vec<Answer>, Answer>> {
    if turn.writes.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    let before = |batch: &mut Batch<'_>| if turn.is_removed { write(batch, turn, *facts, None) } else { Ok(()) };
    // A start may have replaced the instance.
    let is_there =
        |batch: &mut Batch<'_>| Ok(turn.is_removed || batch.facts(turn.num.0)?.is_some_and(|facts| facts.is_open()));
    carried::apply_all(batch, &turn.writes, before, is_there)
}

/// Applies a turn that has passed all checks. `wake` covers what it has not seen: what it sent to itself, and
/// events.
fn write(
    batch: &mut Batch<'_>,
    turn: &Turn,
    mut facts: InstanceFacts,
    wake: Option<Timestamp>,
) -> rusqlite::Result<()> {
    let num = turn.num.0;
    for record in &turn.lifecycle {
        facts.reported += record.kind.count();
        feed::report(batch, num, facts.seq + facts.reported, record)?;
    }
    inbox::take(batch.connection, num, &turn.taken)?;
    let job = batch.cache.workflow(batch.connection, num)?;
    let mut done = 0;
    for moved in &turn.queue {
        done += queue::shift(batch, num, moved)?;
    }
    batch.cache.add(&job, QUEUED, -done);
    for dead in &turn.dead {
        queue::give_up(batch, dead)?;
    }
    for (pos, outcome) in &turn.replies {
        queue::reply(batch.connection, *pos, outcome)?;
    }
    if turn.keys_until > 0 {
        let mut statement = batch.connection.prepare_cached("DELETE FROM dedup WHERE instance = ?1 AND pos <= ?2")?;
        statement.execute(params![num.cast_signed(), turn.keys_until.cast_signed()])?;
    }
    if !turn.lifecycle.is_empty() {
        (facts.recoveries, facts.blamed) = (0, 0);
    }
    finish(batch, turn, facts, wake)
}

/// Updates the row at the end of a turn: removes it, enters a new state, or stores only the counts.
fn finish(batch: &mut Batch<'_>, turn: &Turn, facts: InstanceFacts, wake: Option<Timestamp>) -> rusqlite::Result<()> {
    let num = turn.num.0;
    let job = batch.cache.workflow(batch.connection, num)?;
    match &turn.state {
        _ if turn.is_removed => {
            update_counts(batch.connection, num, &facts)?;
            purge::remove(batch, num, &job, facts.status)
        }
        Some(state) => {
            let wake = wake_of(batch.connection, num, state, wake)?;
            state::enter(batch, num, &NewState { wake, ..state.clone() }, facts, job)
        }
        None => {
            update_counts(batch.connection, num, &facts)?;
            if let Some(known) = batch.cache.known(num) {
                *known = facts;
            }
            Ok(())
        }
    }
}

/// Returns when an instance wakes. Queued events always count, whatever the owner has seen of them. `forced` is the wake
/// for what the turn itself sent to this instance.
fn wake_of(
    connection: &Connection,
    num: u64,
    state: &NewState,
    forced: Option<Timestamp>,
) -> rusqlite::Result<Option<Timestamp>> {
    if state.is_owned {
        return Ok(state.wake);
    }
    if forced.is_some() || state.status == Status::Paused {
        return Ok(forced.or(state.wake));
    }
    Ok([state.wake, queue::first_due(connection, num)?].into_iter().flatten().min())
}

fn update_counts(connection: &Connection, num: u64, facts: &InstanceFacts) -> rusqlite::Result<()> {
    let sql = "UPDATE instance SET reported = ?2, recoveries = ?3, blamed = ?4 WHERE num = ?1";
    let values = params![num.cast_signed(), facts.reported.cast_signed(), facts.recoveries, facts.blamed];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
