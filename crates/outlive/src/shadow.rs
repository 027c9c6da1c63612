//! Replays a second copy of a run, with no side effects, to see whether the code asks for the same again.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use outlive_core::failure::Failure;
use outlive_core::journal::Entry;
use outlive_core::payload::Payload;
#[cfg(feature = "tokio")]
use outlive_core::query::Instance;
#[cfg(feature = "tokio")]
use outlive_core::status::Status;
use outlive_core::workflow::{Machine, Mode};

use crate::cell::{Cell, RunWaker};
use crate::ctx::Ctx;
use crate::env::Env;
use crate::error::{Error, failure_of};
use crate::info::Info;
use crate::mailbox::Mailbox;
use crate::panics;
use crate::workflow::{Handler, WorkflowFuture};

/// Calls the workflow function.
pub(crate) fn begin(handler: &dyn Handler, cell: &Arc<Cell>, input: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = Ctx::new(cell.clone());
    let begun = cell.polling(|| panics::catch(|| handler.begin(ctx, input)));
    match begun {
        Ok(Ok(future)) => Ok(future),
        Ok(Err(error)) => Err(format!(
            "the recorded input does not read as the workflow's type: {}; mend the type and start the program again",
            Error::decode("it".into(), input, &error)
        )),
        Err(panic) => Err(format!("the workflow function {panic}; mend it and start the program again")),
    }
}

/// How far a copy got.
struct Copy {
    asked: Vec<Arc<str>>,
    result: Option<Result<Payload, Failure>>,
}

/// Compares what a quiet run asks for with what a copy of it asks for.
pub(crate) fn compare(
    handler: &dyn Handler,
    live: &Arc<Cell>,
    input: &Payload,
    journal: &[Entry],
) -> Result<(), String> {
    let copy = replay(handler, live.info.clone(), &live.env, input, journal)?;
    let asked = live.lock().machine.outstanding();
    let again = copy.asked;
    if let Some(result) = copy.result {
        return Err(differs(&format!("{asked:?}"), &format!("nothing: it ended with {}", told(&result))));
    }
    if asked != again {
        return Err(differs(&format!("{asked:?}"), &format!("{again:?}")));
    }
    Ok(())
}

/// Compares the result of a run with that of a copy.
pub(crate) fn compare_result(
    handler: &dyn Handler,
    live: &Arc<Cell>,
    input: &Payload,
    journal: &[Entry],
    output: &Payload,
) -> Result<(), String> {
    let copy = replay(handler, live.info.clone(), &live.env, input, journal)?;
    match copy.result {
        Some(Ok(again)) if again == *output => Ok(()),
        Some(again) => Err(differs(&format!("the end with {output}"), &format!("the end with {}", told(&again)))),
        None => Err(differs(&format!("the end with {output}"), &format!("{:?}", copy.asked))),
    }
}

/// Compares how a run ended with how a copy of it ends.
#[cfg(feature = "tokio")]
pub(crate) fn compare_end(
    handler: &dyn Handler,
    ended: &Instance,
    env: &Arc<Env>,
    journal: &[Entry],
) -> Result<(), String> {
    let copy = replay(handler, Info::of(ended), env, &ended.input, journal)?;
    let is_same = match (ended.status, &copy.result) {
        (Status::Completed, Some(Ok(output))) => ended.outcome.as_ref() == Some(output),
        (Status::Failed, Some(Err(failure))) => ended.outcome == Some(failure.to_payload()),
        // What it gave does not count; and it may have been cancelled before it did anything.
        (Status::Cancelled, result) => result.is_some() || journal.is_empty(),
        _ => false,
    };
    let end = |result: &Result<Payload, Failure>| format!("the end with {}", told(result));
    let again = copy.result.as_ref().map_or_else(|| format!("{:?}", copy.asked), end);
    let outcome = ended.outcome.as_ref().map_or("nothing", Payload::as_str);
    if is_same { Ok(()) } else { Err(differs(&format!("the end with {outcome}"), &again)) }
}

/// A result for people.
fn told(result: &Result<Payload, Failure>) -> String {
    format!("{:?}", result.as_ref().map_err(ToString::to_string))
}

fn differs(live: &str, again: &str) -> String {
    format!(
        "a replay of this run differs: it asked for {live}, the replay for {again}; \
         take time, randomness and everything else from outside through `ctx` or a step"
    )
}

fn replay(
    handler: &dyn Handler,
    info: Info,
    env: &Arc<Env>,
    input: &Payload,
    journal: &[Entry],
) -> Result<Copy, String> {
    let machine = Machine::new(Mode::Shadow, info.seed, info.started_at, journal).map_err(|trouble| trouble.0)?;
    let cell = Arc::new(Cell::new(info, env.clone(), Arc::new(Mailbox::default()), machine));
    let mut future = begin(handler, &cell, input)?;
    let run_waker = RunWaker::new(&cell);
    let waker = Waker::from(run_waker.clone());
    let mut result = None;
    loop {
        match cell.polling(|| panics::poll(future.as_mut(), &mut Context::from_waker(&waker))) {
            Poll::Ready(ended) => {
                result = Some(match ended {
                    Ok(Ok(output)) => Ok(output),
                    Ok(Err(error)) => panics::catch(|| failure_of(&error)).and_then(Err),
                    Err(panic) => Err(panic),
                });
                break;
            }
            Poll::Pending if run_waker.take() => continue,
            Poll::Pending => {}
        }
        let waker = {
            let mut state = cell.lock();
            let Some(slot) = state.machine.deliver() else { break };
            state.waker(slot)
        };
        cell.polling(|| waker.into_iter().for_each(Waker::wake));
        run_waker.take();
    }
    let asked = cell.lock().machine.outstanding();
    // What panics when a copy is dropped is told by the run itself.
    let _ = cell.polling(|| panics::catch(|| drop(future)));
    Ok(Copy { asked, result })
}
