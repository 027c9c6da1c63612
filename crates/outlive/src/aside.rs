//! Why a run is set aside, in sentences with a way out: the same where it happens and where it is foreseen.

use std::sync::Arc;

use outlive_core::failure::Failure;
use outlive_core::workflow::Machine;

/// What is stored of it is not what was written.
#[cfg(feature = "tokio")]
pub(crate) fn damaged(problem: &str) -> String {
    format!("what is stored of it is damaged: {problem}; restore it from a backup, then retry the run")
}

/// It may be what takes the process down.
#[cfg(feature = "tokio")]
pub(crate) fn deadly(recoveries: u32) -> String {
    format!("it took the process down {recoveries} times without getting on; mend what it was at, then retry it")
}

/// An event of a pool takes the process down.
#[cfg(feature = "tokio")]
pub(crate) fn deadly_event(deaths: u32) -> String {
    format!(
        "the process died {deaths} times while this event was handled; mend the handler, then retry the dead letter"
    )
}

/// Nobody here can handle it.
#[cfg(feature = "tokio")]
pub(crate) fn unregistered_job(job: &str, known: &str) -> String {
    format!(
        "job {job:?} is not registered (registered: {known}); add `.job(..)` to the engine, and it goes on at the next \
         start"
    )
}

/// Nobody here can run it.
#[cfg(feature = "tokio")]
pub(crate) fn unregistered(workflow: &str, known: &str) -> String {
    format!(
        "workflow {workflow:?} is not registered in this program (registered: {known}); register it and start the \
         program again"
    )
}

/// The workflow function panicked.
pub(crate) fn panicked(panic: &Failure) -> String {
    format!("the workflow function {panic}; mend it and start the program again")
}

/// The workflow depends on a future that is no part of it: `how` says in which way.
pub(crate) fn foreign(machine: &Machine, how: &str) -> String {
    let last = machine.last_awaited();
    let last = last.map_or("none yet".to_owned(), |(op, site)| format!("{op} ({site})"));
    format!(
        "the workflow {how} a future that is no part of it (last operation awaited: {last}); \
         await timers, channels and tasks inside a step, and use `ctx.sleep` for time"
    )
}

/// What is wrong with a result of that many bytes, if anything is.
pub(crate) fn too_long(bytes: usize, bytes_max: usize) -> Option<String> {
    (bytes > bytes_max).then(|| {
        format!(
            "the result has {bytes} bytes of JSON, the limit is {bytes_max}; give back a reference to it, or raise `payload_max`"
        )
    })
}

/// What is wrong with a strict run that has come as far as its journal goes, where it asks for these operations.
pub(crate) fn strict(machine: &Machine, asked: &[Arc<str>]) -> Option<String> {
    if !machine.may_deliver() {
        return None;
    }
    let names = orphans(machine)?;
    let asked = if asked.is_empty() { "nothing".to_owned() } else { asked.join(", ") };
    Some(format!(
        "recorded but not asked for: {names}; the code asked for: {asked}; bring them back, or use `.was(..)` for a new name",
    ))
}

/// What is recorded and was not asked for, if anything.
pub(crate) fn orphans(machine: &Machine) -> Option<String> {
    if !machine.has_orphans() {
        return None;
    }
    let names: Vec<_> = machine.orphans().map(|(op, site)| format!("{op} ({site})")).collect();
    Some(names.join(", "))
}
