//! Replays a copy of a run without side effects, to see whether the code asks for the same operations again.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use outlive_core::failure::Failure;
use outlive_core::journal::Entry;
use outlive_core::payload::Payload;
#[cfg(feature = "tokio")]
#[cfg(feature = "testing")]
use outlive_core::status::Status;
#[cfg(feature = "tokio")]
#[cfg(feature = "testing")]
use outlive_core::store::beginning::Beginning;
#[cfg(feature = "tokio")]
#[cfg(feature = "testing")]
use outlive_core::store::query::Instance;
use outlive_core::workflow::{Asked, Machine, Mode, OpKind};

use crate::ctx::unwinding;
use crate::error::{BoxError, failure_of};
use crate::instance::env::Env;
use crate::instance::info::Info;
use crate::instance::mailbox::Mailbox;
use crate::instance::panics;
use crate::instance::polls::ROUND;
use crate::instance::resident::{ResidentRun, RunWaker};
use crate::runtime::begin::{NotBegun, begin};
use crate::workflow::{Handler, WorkflowFuture};

/// How many copies are compared with a run whose branches share something. An unbiased `select!` over such branches
/// picks one at random, and a single copy may pick the same.
const COPIES: usize = 4;
/// How many times a copy may wake itself before it counts as making no progress.
const POLLS_MAX: u32 = 100_000;
/// How many times a copy is taken beyond its frontier, as a loop of sleeps has no end.
const FORESEEN_MAX: u32 = 200;

/// A copy that was replayed to the end of its journal.
pub(crate) struct Copy {
    /// The resident, whose machine knows what was not asked for.
    pub(crate) resident: Arc<ResidentRun>,
    /// What the copy waits for at the end of the journal.
    pub(crate) asked: Vec<Asked>,
    /// What the copy waits for where it has stopped.
    pub(crate) last: Vec<Asked>,
    /// In a check: an operation that has begun and whose record does not decode, with a sentence.
    pub(crate) unread: Option<(String, String)>,
    /// How the copy ended, if it did.
    pub(crate) end: Option<CopyEnd>,
    /// What its function returned, if the copy still undoes what it has done.
    pub(crate) returned: Option<CopyEnd>,
    /// Whether one delivery may have made several of its branches ready.
    is_shared: bool,
    /// Whether the copy went beyond the journal, by what is known to happen then.
    pub(crate) is_ahead: bool,
}

/// How a copy ended.
pub(crate) enum CopyEnd {
    Completed(Payload),
    Failed(Failure),
    Panicked(Failure),
    /// It kept waking itself and made no progress.
    Restless,
}

impl std::fmt::Display for CopyEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Completed(output) => write!(f, "{output}"),
            Self::Failed(failure) => write!(f, "the error {:?}", failure.to_string()),
            Self::Panicked(panic) => write!(f, "a panic: {panic}"),
            Self::Restless => write!(f, "no quiet point: it woke itself {POLLS_MAX} times without making progress"),
        }
    }
}

/// Compares what a quiet run asks for with what a copy of it asks for.
pub(crate) fn compare(
    handler: &dyn Handler,
    live: &Arc<ResidentRun>,
    input: &Payload,
    journal: &[Entry],
) -> Result<(), String> {
    let asked = live.lock().machine.operations().outstanding();
    copies_of(handler, live, input, journal, |copy| {
        if let Some(end) = &copy.end {
            return Err(differs(&format!("{asked:?}"), &format!("nothing: it ended with {end}")));
        }
        let again = names(&copy.asked);
        if asked == again { Ok(()) } else { Err(differs(&format!("{asked:?}"), &format!("{again:?}"))) }
    })
}

/// Compares the result of a run with the result of a copy.
pub(crate) fn compare_result(
    handler: &dyn Handler,
    live: &Arc<ResidentRun>,
    input: &Payload,
    journal: &[Entry],
    output: &Payload,
) -> Result<(), String> {
    copies_of(handler, live, input, journal, |copy| match &copy.end {
        Some(CopyEnd::Completed(again)) if again == output => Ok(()),
        Some(again) => Err(differs(&format!("the end with {output}"), &format!("the end with {again}"))),
        None => Err(differs(&format!("the end with {output}"), &format!("{:?}", names(&copy.asked)))),
    })
}

/// Checks that a copy of a run restarts where the run does.
pub(crate) fn compare_restart(
    handler: &dyn Handler,
    live: &Arc<ResidentRun>,
    input: &Payload,
    journal: &[Entry],
) -> Result<(), String> {
    copies_of(handler, live, input, journal, |copy| match &copy.end {
        Some(again) => Err(differs("a restart", &format!("the end with {again}"))),
        None if copy.asked.iter().any(|asked| asked.kind == OpKind::Restart) => Ok(()),
        None => Err(differs("a restart", &format!("{:?}", names(&copy.asked)))),
    })
}

/// Returns the identities of operations.
pub(crate) fn names(asked: &[Asked]) -> Vec<Arc<str>> {
    asked.iter().map(|asked| asked.op.clone()).collect()
}

/// Compares how a run ended with how a copy of it ends.
#[cfg(feature = "tokio")]
#[cfg(feature = "testing")]
pub(crate) fn compare_end(
    handler: &dyn Handler,
    ended: &Instance,
    env: &Arc<Env>,
    journal: &[Entry],
) -> Result<(), String> {
    let beginning = Beginning::of(ended, journal);
    let resident = cell_of(Info::of(ended, &beginning), env.clone(), journal)?;
    let copy = replay(handler, &Arc::new(resident), &beginning.input, |_| false).map_err(NotBegun::into_sentence)?;
    let is_same = match (ended.status, &copy.end) {
        (Status::Completed, Some(CopyEnd::Completed(output))) => ended.outcome.as_ref() == Some(output),
        (Status::Failed, Some(CopyEnd::Failed(failure))) => {
            let stored = ended.outcome.as_ref().and_then(|outcome| Failure::from_payload(outcome).ok());
            stored.as_ref() == Some(failure)
        }
        // The result of a cancelled run does not count, and it may have been cancelled before it did anything.
        (Status::Cancelled, end) => end.is_some() || journal.is_empty(),
        _ => false,
    };
    let end = |end: &CopyEnd| format!("the end with {end}");
    let again = copy.end.as_ref().map_or_else(|| format!("{:?}", names(&copy.asked)), end);
    let outcome = ended.outcome.as_ref().map_or("nothing", Payload::as_str);
    if is_same { Ok(()) } else { Err(differs(&format!("the end with {outcome}"), &again)) }
}

/// Returns what a copy of an unfinished run waits for, each with its call site.
#[cfg(feature = "tokio")]
#[cfg(feature = "testing")]
pub(crate) fn asked(
    handler: &dyn Handler,
    unfinished: &Instance,
    env: &Arc<Env>,
    journal: &[Entry],
) -> Result<Vec<(String, String)>, String> {
    let beginning = Beginning::of(unfinished, journal);
    let resident = cell_of(Info::of(unfinished, &beginning), env.clone(), journal)?;
    let copy = replay(handler, &Arc::new(resident), &beginning.input, |_| false).map_err(NotBegun::into_sentence)?;
    Ok(copy.asked.iter().map(|asked| (asked.op.to_string(), asked.site.to_string())).collect())
}

fn differs(live: &str, again: &str) -> String {
    format!(
        "a replay of this run differs: it asked for {live}, the replay for {again}; \
         get time, randomness and all other outside data through `ctx` or a step, and write `biased;` in a `select!` \
         where one result makes several branches ready"
    )
}

/// Compares a run with as many copies as it takes.
fn copies_of(
    handler: &dyn Handler,
    live: &Arc<ResidentRun>,
    input: &Payload,
    journal: &[Entry],
    is_same: impl Fn(&Copy) -> Result<(), String>,
) -> Result<(), String> {
    for _ in 0..COPIES {
        let resident = cell_of(live.info.clone(), live.env.clone(), journal)?;
        let copy = replay_at(Pace::Shaken, handler, &Arc::new(resident), input, |_| false);
        let copy = copy.map_err(NotBegun::into_sentence)?;
        is_same(&copy)?;
        if !copy.is_shared {
            break;
        }
    }
    Ok(())
}

/// Returns the resident that a copy of a run starts with.
///
/// # Errors
/// A sentence, if the journal cannot be what was written.
pub(crate) fn cell_of(info: Info, env: Arc<Env>, journal: &[Entry]) -> Result<ResidentRun, String> {
    let machine = Machine::new(Mode::Shadow, info.seed, info.started_at, journal).map_err(|trouble| trouble.0)?;
    Ok(ResidentRun::new(info, env, Arc::new(Mailbox::default()), machine))
}

/// How often a copy is polled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// As often as in a replay.
    Plain,
    /// More often, as a live run may be, so that code that depends on it is found.
    Shaken,
}

/// Replays a copy to the end of its journal, and beyond where `may_look_ahead` allows it and the rest is known. Nothing
/// starts in it: no body runs and no timer is set.
pub(crate) fn replay(
    handler: &dyn Handler,
    resident: &Arc<ResidentRun>,
    input: &Payload,
    may_look_ahead: impl Fn(&Machine) -> bool,
) -> Result<Copy, NotBegun> {
    replay_at(Pace::Plain, handler, resident, input, may_look_ahead)
}

fn replay_at(
    pace: Pace,
    handler: &dyn Handler,
    resident: &Arc<ResidentRun>,
    input: &Payload,
    may_look_ahead: impl Fn(&Machine) -> bool,
) -> Result<Copy, NotBegun> {
    resident.env.silence.keep(|| replay_aloud(pace, handler, resident, input, may_look_ahead))
}

fn replay_aloud(
    pace: Pace,
    handler: &dyn Handler,
    resident: &Arc<ResidentRun>,
    input: &Payload,
    may_look_ahead: impl Fn(&Machine) -> bool,
) -> Result<Copy, NotBegun> {
    let run_waker = RunWaker::new(resident);
    let future = begin(handler, resident, input)?;
    let mut polled = PolledCopy { future, returned: None, waker: Waker::from(run_waker.clone()), run_waker };
    let (mut foreseen, mut asked, mut is_shared) = (0, None, false);
    let mut end = polled.poll(resident);
    while end.is_none() {
        if pace == Pace::Shaken
            && let Some(shared) = polled.next_shared(resident)
        {
            is_shared = true;
            end = (0..ROUND).find_map(|_| polled.wake(resident, &shared));
        }
        let now = resident.now();
        let mut state = resident.lock();
        let mut next = state.machine.deliver();
        if next.is_none() {
            asked.get_or_insert_with(|| state.machine.operations().asked());
            let may_go_on = foreseen < FORESEEN_MAX && may_look_ahead(&state.machine);
            if !may_go_on || !state.machine.foresee(now) {
                break;
            }
            foreseen += 1;
            next = state.machine.deliver();
        }
        let waker = next.and_then(|slot| state.waker(slot).cloned());
        drop(state);
        end = end.or_else(|| waker.and_then(|waker| polled.wake(resident, &waker)));
    }
    let (last, unread) = {
        let state = resident.lock();
        (
            state.machine.operations().asked(),
            state.findings().and_then(|findings| findings.unread.values().next().cloned()),
        )
    };
    let asked = asked.unwrap_or_else(|| last.clone());
    // A panic while a copy is dropped is reported by the run itself.
    let returned = polled.returned.take();
    let _ = resident.polling(|| panics::catch(|| drop(polled)));
    let undos = resident.lock().undos.take();
    let _ = panics::catch(|| drop(undos));
    Ok(Copy { resident: resident.clone(), asked, last, unread, end, returned, is_ahead: foreseen > 0, is_shared })
}

/// The future of a copy, and the wakers it is polled with.
struct PolledCopy {
    future: WorkflowFuture,
    /// What the workflow function returned, while the copy undoes what it has done.
    returned: Option<CopyEnd>,
    run_waker: Arc<RunWaker>,
    waker: Waker,
}

impl PolledCopy {
    /// Polls the copy until it is quiet. Returns how it ended, if it did.
    fn poll(&mut self, resident: &Arc<ResidentRun>) -> Option<CopyEnd> {
        for _ in 0..POLLS_MAX {
            match resident.polling(|| panics::poll(self.future.as_mut(), &mut Context::from_waker(&self.waker))) {
                Poll::Ready(ended) => match self.returned.take() {
                    Some(returned) => return Some(returned),
                    None => {
                        if let Some(end) = self.unwind(resident, end_of(ended)) {
                            return Some(end);
                        }
                    }
                },
                Poll::Pending if self.run_waker.take() => {}
                Poll::Pending => return None,
            }
        }
        Some(CopyEnd::Restless)
    }

    /// Undoes what the copy has done, if the run would. Otherwise returns how it ended.
    fn unwind(&mut self, resident: &Arc<ResidentRun>, end: CopyEnd) -> Option<CopyEnd> {
        // What the function holds may have undos as well. A panic while it is dropped is reported by the run itself.
        let done = std::mem::replace(&mut self.future, Box::pin(std::future::pending()));
        let _ = resident.polling(|| panics::catch(|| drop(done)));
        let failure = match &end {
            CopyEnd::Completed(_) => None,
            CopyEnd::Failed(failure) => Some(failure.to_string()),
            CopyEnd::Panicked(_) | CopyEnd::Restless => return Some(end),
        };
        let Some(unwinding) = unwinding(resident, failure.as_deref()) else { return Some(end) };
        self.future = Box::pin(async move {
            unwinding.await;
            Ok(Payload::recorded("null"))
        });
        self.returned = Some(end);
        None
    }

    fn wake(&mut self, resident: &Arc<ResidentRun>, waker: &Waker) -> Option<CopyEnd> {
        resident.polling(|| waker.wake_by_ref());
        if self.run_waker.take() { self.poll(resident) } else { None }
    }

    /// Returns the waker of the operation to deliver next, if it is not the run's own or anything but operations holds
    /// the run's waker.
    fn next_shared(&self, resident: &ResidentRun) -> Option<Waker> {
        let state = resident.lock();
        let next = state.waker(state.machine.next_delivery()?)?;
        (!next.will_wake(&self.waker) || !state.holds_all(&self.run_waker, &self.waker)).then(|| next.clone())
    }
}

fn end_of(ended: Result<Result<Payload, BoxError>, Failure>) -> CopyEnd {
    match ended {
        Ok(Ok(output)) => CopyEnd::Completed(output),
        // Formatting the error is user code too.
        Ok(Err(error)) => match panics::catch(|| failure_of(&error)) {
            Ok(failure) => CopyEnd::Failed(failure),
            Err(panic) => CopyEnd::Panicked(panic),
        },
        Err(panic) => CopyEnd::Panicked(panic),
    }
}
