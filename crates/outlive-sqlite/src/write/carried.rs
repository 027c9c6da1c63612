//! The writes that a commit or a turn carries to other instances: all of them are applied with it, or nothing is.

use outlive_core::store::commit::{Answer, Write};

use super::batch::{Batch, PriorAttempt};
use super::{dead_letters, message, output, push, start};

const FOREIGN_WRITE: &str = "a commit or turn can only start instances, send messages, push events, give something out \
     and resolve dead letters; report this";

/// Applies the writes after `before`. If one is refused, or `is_fine` finds that they changed the sender in a way they
/// must not, nothing is changed, and the result says why.
pub(super) fn apply_all<'b>(
    batch: &mut Batch<'b>,
    writes: &[Write],
    before: impl FnOnce(&mut Batch<'b>) -> rusqlite::Result<()>,
    is_fine: impl FnOnce(&mut Batch<'b>) -> rusqlite::Result<bool>,
) -> rusqlite::Result<Result<Vec<Answer>, Answer>> {
    if writes.iter().all(Write::is_notice) {
        // None of these is refused, so there is nothing to roll back.
        before(batch)?;
        return send_all(batch, writes);
    }
    let saved = batch.cache.save();
    batch.connection.prepare_cached("SAVEPOINT carried")?.execute([])?;
    before(batch)?;
    let sent = match send_all(batch, writes)? {
        Ok(_) if !is_fine(batch)? => Err(Answer::Fenced),
        sent => sent,
    };
    if sent.is_err() {
        batch.connection.prepare_cached("ROLLBACK TO carried")?.execute([])?;
        batch.cache.restore(saved);
    }
    batch.connection.prepare_cached("RELEASE carried")?.execute([])?;
    Ok(sent)
}

fn send_all(batch: &mut Batch<'_>, writes: &[Write]) -> rusqlite::Result<Result<Vec<Answer>, Answer>> {
    let mut answers = Vec::with_capacity(writes.len());
    for (index, write) in writes.iter().enumerate() {
        match send(batch, write, PriorAttempt::None)? {
            Answer::Refused(refusal) if !write.is_notice() => return Ok(Err(Answer::WriteRefused { index, refusal })),
            answer => answers.push(answer),
        }
    }
    Ok(Ok(answers))
}

/// Returns the result of a commit or turn that was applied before: its writes are recognized by their tokens.
pub(super) fn again(batch: &mut Batch<'_>, writes: &[Write]) -> rusqlite::Result<Answer> {
    let answers: rusqlite::Result<_> =
        writes.iter().map(|write| send(batch, write, PriorAttempt::MaybeDurable)).collect();
    Ok(Answer::DoneWith(answers?))
}

fn send(batch: &mut Batch<'_>, write: &Write, prior: PriorAttempt) -> rusqlite::Result<Answer> {
    match write {
        Write::Start(start) => start::apply(batch, start),
        Write::Message(send) => message::apply(batch, send),
        Write::Push(push) => push::apply(batch, push),
        Write::ResolveDeadLetters(resolve) => dead_letters::apply(batch, resolve),
        Write::Output(output) => output::give(batch, output, prior),
        _ => Err(rusqlite::Error::ToSqlConversionFailure(FOREIGN_WRITE.into())),
    }
}
