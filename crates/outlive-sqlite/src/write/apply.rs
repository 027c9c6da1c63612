//! Applies a batch: dispatches each write to the file for its kind.

use outlive_core::id::InstanceNum;
use outlive_core::store::commit::{Answer, Write};

use super::batch::Batch;
use super::{
    claim, commit, dead_letters, expire, feed, fork, message, output, purge, push, reopen, rewind, start, turn,
};

const UNKNOWN_WRITE: &str =
    "outlive-sqlite does not know this kind of write; use the same release of outlive-core and outlive-sqlite";

/// Applies the writes of a batch and returns their outcomes in the order given.
pub(super) fn apply_all(batch: &mut Batch<'_>, writes: &[Write], order: &ApplyOrder) -> rusqlite::Result<Vec<Answer>> {
    let mut answers = vec![Answer::Done; writes.len()];
    for &(_, place) in &order.0 {
        answers[place] = apply(batch, &writes[place])?;
    }
    Ok(answers)
}

fn apply(batch: &mut Batch<'_>, write: &Write) -> rusqlite::Result<Answer> {
    match write {
        Write::Commit(commit) => commit::apply(batch, commit),
        Write::Start(start) => start::apply(batch, start),
        Write::Message(send) => message::apply(batch, send),
        Write::Claim(claim) => claim::apply(batch, claim),
        Write::Reopen(reopen) => reopen::apply(batch, reopen),
        Write::Rewind(rewind) => rewind::apply(batch, rewind),
        Write::Fork(fork) => fork::apply(batch, fork),
        Write::Purge(id, num) => purge::apply(batch, id, *num),
        Write::Push(push) => push::apply(batch, push),
        Write::Turn(turn) => turn::apply(batch, turn),
        Write::ResolveDeadLetters(resolve) => dead_letters::apply(batch, resolve),
        Write::Mark(name, value) => feed::set_mark(batch, name, *value),
        Write::Trim(trim) => feed::trim(batch, trim),
        Write::Absolve(absolve) => claim::absolve(batch, absolve),
        Write::Output(output) => output::apply(batch, output),
        Write::Expire(expire) => expire::apply(batch, expire),
        _ => Err(rusqlite::Error::ToSqlConversionFailure(UNKNOWN_WRITE.into())),
    }
}

/// The order in which a batch is applied: as given, except that consecutive commits without writes are sorted by
/// instance, so that neighbours in the index are written together. Commits of one instance keep their order, and no
/// commit moves past anything else.
pub(super) struct ApplyOrder(Vec<(InstanceNum, usize)>);

impl ApplyOrder {
    pub(super) fn of(writes: &[Write]) -> Self {
        // No instance has number 0.
        let num = |write: &Write| match write {
            Write::Commit(commit) if commit.writes.is_empty() => commit.num,
            _ => InstanceNum(0),
        };
        let mut order: Vec<_> = writes.iter().map(num).zip(0..).collect();
        for same in order.chunk_by_mut(|(one, _), (next, _)| (one.0 == 0) == (next.0 == 0)) {
            same.sort_unstable();
        }
        Self(order)
    }
}
