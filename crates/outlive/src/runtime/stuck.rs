//! The reasons why an instance is stuck, as sentences with a way out: the same where it happens and where a check
//! predicts it.

use std::sync::Arc;

use outlive_core::failure::Failure;
use outlive_core::workflow::Machine;

use crate::error::Error;

/// Describes stored data that is not what was written.
#[cfg(feature = "tokio")]
pub(crate) fn damaged(problem: &str) -> String {
    format!("its stored data is damaged: {problem}; restore it from a backup, then retry")
}

/// Describes an instance that may be what crashes the process.
#[cfg(feature = "tokio")]
pub(crate) fn deadly(recoveries: u32) -> String {
    format!("it crashed the process {recoveries} times without making progress; fix the code, then retry")
}

/// Describes a job that is not registered.
#[cfg(feature = "tokio")]
pub(crate) fn unregistered_job(job: &str, known: &str) -> String {
    format!(
        "job {job:?} is not registered (registered: {known}); add `.job(..)` to the engine, and it resumes at the next \
         start"
    )
}

/// Describes a workflow that is not registered.
#[cfg(feature = "tokio")]
pub(crate) fn unregistered(workflow: &str, known: &str) -> String {
    format!(
        "workflow {workflow:?} is not registered in this program (registered: {known}); register it and restart the \
         program"
    )
}

/// Adds to a sentence that a cancel was accepted before the run became stuck, as that is how the run will end.
pub(crate) fn with_cancel(sentence: String, cancelled: Option<&str>) -> String {
    match cancelled {
        Some(reason) => format!("{sentence}; it was cancelled ({reason}) and ends as cancelled once it can continue"),
        None => sentence,
    }
}

/// Describes a panic of the workflow function.
pub(crate) fn panicked(panic: &Failure) -> String {
    format!("the workflow function {panic}; fix it and restart the program")
}

/// Describes a workflow that depends on a future that is not part of it; `how` says in which way.
pub(crate) fn foreign(machine: &Machine, how: &str) -> String {
    let last = machine.last_awaited();
    let last = last.map_or("none yet".to_owned(), |(op, site)| format!("{op} ({site})"));
    format!(
        "the workflow {how} a future that is not part of it (last operation awaited: {last}); \
         await timers, channels and tasks inside a step, and use `ctx.sleep` for time"
    )
}

/// Describes what is wrong with a result of this size, if anything.
pub(crate) fn too_long(bytes: usize, max_bytes: usize) -> Option<String> {
    (bytes > max_bytes).then(|| {
        format!(
            "the result has {bytes} bytes of JSON, the limit is {max_bytes}; return a reference to it, or raise `max_payload`"
        )
    })
}

/// Describes a restart with an input that the workflow cannot read.
pub(crate) fn bad_restart(problem: &Error) -> String {
    format!("it restarts with an input that is not the workflow's: {problem}; fix the call and restart the program")
}

/// Describes what is wrong with a strict run that has reached the end of its journal and asks for these operations.
pub(crate) fn strict(machine: &Machine, asked: &[Arc<str>]) -> Option<String> {
    if !machine.may_deliver() {
        return None;
    }
    let names = orphans(machine)?;
    let asked = if asked.is_empty() { "nothing".to_owned() } else { asked.join(", ") };
    Some(format!(
        "recorded but not asked for: {names}; the code asked for: {asked}; restore them, or use `.was(..)` for a new name",
    ))
}

/// Describes a run that began to undo what it has done with another version of the code, and continues with this one.
pub(crate) fn turned_back(machine: &Machine) -> Option<String> {
    let undos = machine.undos();
    (undos.has_unwound() && !undos.is_unwinding() && machine.may_deliver()).then(|| {
        "it is recorded that the run undoes what it has done, but this version of the code continues instead; restore the \
         code that failed, and restart the program"
            .to_owned()
    })
}

/// Lists what is recorded and was not asked for, if anything.
pub(crate) fn orphans(machine: &Machine) -> Option<String> {
    if !machine.records().has_orphans() {
        return None;
    }
    let names: Vec<_> = machine.records().orphans().map(|(op, site)| format!("{op} ({site})")).collect();
    Some(names.join(", "))
}
