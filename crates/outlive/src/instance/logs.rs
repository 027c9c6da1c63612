//! Logging: spans around user code that show where its lines come from, silence during replays, and lines for failures.

use std::cell::RefCell;
use std::sync::OnceLock;

use outlive_core::failure::Failure;
use outlive_core::journal::{Entry, EntryKind};
#[cfg(feature = "tokio")]
use outlive_core::queue::Dead;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Span, Subscriber, dispatcher};

use crate::instance::info::Info;

thread_local! {
    /// The dispatcher outside the replay that this thread is in.
    static OUTSIDE: RefCell<Option<Dispatch>> = const { RefCell::new(None) };
}

// Spans have error level, so that they are present for every line that a filter lets through.

/// The span of a run while it is in memory.
pub(crate) fn run(info: &Info) -> Span {
    tracing::error_span!(target: "outlive", parent: None, "run", id = info.id, workflow = info.workflow)
}

/// The span of one attempt of a step.
pub(crate) fn step(name: &str, attempt: u32) -> Span {
    tracing::error_span!(target: "outlive", "step", name, attempt)
}

/// The span of one call of a job's handler.
#[cfg(feature = "tokio")]
pub(crate) fn job(id: &str, handler: &'static str, attempt: u32) -> Span {
    tracing::error_span!(target: "outlive", parent: None, "job", id, handler, attempt)
}

/// A dispatcher that drops lines which were logged before. Created when it is first needed.
#[derive(Default)]
pub(crate) struct Silence(OnceLock<Dispatch>);

impl Silence {
    /// Calls `f` without logging, because it repeats what was logged before.
    pub(crate) fn keep<R>(&self, f: impl FnOnce() -> R) -> R {
        if LevelFilter::current() == LevelFilter::OFF {
            return f();
        }
        let outside = dispatcher::get_default(Dispatch::clone);
        let silent = self.0.get_or_init(|| Dispatch::new(Silent(outside.clone())));
        within(Some(outside), || dispatcher::with_default(silent, f))
    }
}

/// Drops events and passes everything else on, because a span that a replay opens may surround what comes after it. It
/// has the interests of the real subscriber, as those are kept per call site for the whole process.
struct Silent(Dispatch);

impl Subscriber for Silent {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.0.register_callsite(metadata)
    }
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && self.0.enabled(metadata)
    }
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.new_span(span)
    }
    fn record(&self, span: &Id, values: &Record<'_>) {
        self.0.record(span, values);
    }
    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.0.record_follows_from(span, follows);
    }
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, span: &Id) {
        self.0.enter(span);
    }
    fn exit(&self, span: &Id) {
        self.0.exit(span);
    }
    fn clone_span(&self, span: &Id) -> Id {
        self.0.clone_span(span)
    }
    fn try_close(&self, span: Id) -> bool {
        self.0.try_close(span)
    }
}

/// Calls `f` with logging, because it runs for the first time, perhaps in the middle of a replay.
pub(crate) fn aloud<R>(f: impl FnOnce() -> R) -> R {
    if LevelFilter::current() == LevelFilter::OFF {
        return f();
    }
    match OUTSIDE.with_borrow(Option::clone) {
        Some(outside) => within(None, || dispatcher::with_default(&outside, f)),
        None => f(),
    }
}

fn within<R>(outside: Option<Dispatch>, f: impl FnOnce() -> R) -> R {
    struct RestoreSubscriber(Option<Dispatch>);
    impl Drop for RestoreSubscriber {
        fn drop(&mut self) {
            OUTSIDE.replace(self.0.take());
        }
    }
    let _restore = RestoreSubscriber(OUTSIDE.replace(outside));
    f()
}

/// Logs a new journal entry, if someone may have to act on it.
pub(crate) fn entry(info: &Info, entry: &Entry) {
    let (run, workflow, attempt) = (&*info.id, &*info.workflow, entry.attempt);
    let step = || entry.op.replacen("step:", "", 1);
    let failure = || entry.failure().map_or_else(String::new, |failure| failure.to_string());
    match entry.kind {
        EntryKind::AttemptFailed => {
            let due = entry.due.unwrap_or_default();
            tracing::warn!(run, workflow, step = step(), attempt, "attempt failed, next at {due}: {}", failure());
        }
        EntryKind::StepFailed => {
            tracing::warn!(run, workflow, step = step(), attempt, "step failed: {}", failure());
        }
        EntryKind::FallingBack => {
            tracing::warn!(run, workflow, step = step(), attempt, "step failed, running its fallback: {}", failure());
        }
        EntryKind::SignalRefused => {
            let problem = entry.refused().map_or_else(String::new, |refused| refused.problem);
            tracing::warn!(run, workflow, "signal could not be decoded and is a dead letter ({}): {problem}", entry.op);
        }
        EntryKind::NearlyFull => {
            let (max, advice) =
                (entry.max_entries().unwrap_or(0), "let long loops `ctx.restart`, or raise `max_entries`");
            tracing::warn!(run, workflow, "journal has reached 80 % of its limit of {max} entries; {advice}");
        }
        _ => {}
    }
}

/// Logs that a run ended with a failure.
pub(crate) fn run_failed(info: &Info, failure: &Failure) {
    tracing::warn!(run = info.id, workflow = info.workflow, "run failed: {failure}");
}

/// Logs that a call of a job's handler failed.
#[cfg(feature = "tokio")]
pub(crate) fn handler_failed(job: &str, handler: &'static str, attempt: u32, failure: &Failure) {
    tracing::warn!(job, handler, attempt, "{handler} failed: {failure}");
}

/// Logs that an event was given up.
#[cfg(feature = "tokio")]
pub(crate) fn dead(dead: &Dead) {
    let (job, event, attempts) = (dead.id.as_str(), dead.pos, dead.attempts);
    tracing::warn!(job, event, attempts, "event is a dead letter; retry or discard it");
}
