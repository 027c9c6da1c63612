//! Converts an entry of the store's feed to lifecycle events, all of them, from nothing but the entry.

use outlive_core::failure::{Cause, Failure};
use outlive_core::journal::{Entry, EntryKind, SentTo};
use outlive_core::lifecycle::{Detail, LifecycleRecord, LifecycleRecordKind};
use outlive_core::payload::Payload;
use outlive_core::retry::Reason;
use outlive_core::status::StatusKind;
use outlive_core::store::query::{FeedContent, FeedItem};
use outlive_core::time::Timestamp;
use serde::Deserialize;

use super::event::{Cursor, LifecycleEvent};
use super::kind::{JobWork, LifecycleKind, RetryScheduled};
use outlive_core::workflow::{ParsedIdentity, unescaped};

/// Returns the events of a feed entry, in order.
pub(super) fn events(item: &FeedItem) -> Vec<LifecycleEvent> {
    let event = |cursor, number, at, kind| LifecycleEvent {
        id: format!("{}-{number}", item.num.0),
        at,
        number,
        instance: item.id.as_str().to_owned(),
        name: item.workflow.as_str().to_owned(),
        kind,
        cursor,
    };
    let whole = Cursor::after(item.pos);
    match &item.content {
        FeedContent::Entry(entry) => {
            of_entry(entry).map(|kind| event(whole, item.number, entry.at, kind)).into_iter().collect()
        }
        FeedContent::Lifecycle(record) if record.kind == LifecycleRecordKind::RunBegun => vec![
            event(Cursor::within(item.pos), item.number.saturating_sub(1), record.at, LifecycleKind::RunQueued),
            event(whole, item.number, record.at, LifecycleKind::RunStarted),
        ],
        FeedContent::Lifecycle(record) => {
            of_lifecycle(record).map(|kind| event(whole, item.number, record.at, kind)).into_iter().collect()
        }
    }
}

/// Returns the event of a journal entry. `None` for a kind that a later release has added.
fn of_entry(entry: &Entry) -> Option<LifecycleKind> {
    let name = || unescaped(ParsedIdentity::of(&entry.op).name);
    let operation = || entry.op.to_string();
    let until = entry.due.unwrap_or(entry.at);
    let attempt = entry.attempt;
    Some(match entry.kind {
        EntryKind::StepStarted => LifecycleKind::StepStarted { step: name(), operation: operation(), attempt },
        EntryKind::Heartbeat => LifecycleKind::StepHeartbeat { step: name(), operation: operation(), attempt },
        EntryKind::StepDone => {
            let duration_ms = entry.started.map(|started| millis(started, entry.at));
            LifecycleKind::StepCompleted { step: name(), operation: operation(), attempt, duration_ms }
        }
        EntryKind::AttemptFailed | EntryKind::StepFailed | EntryKind::FallingBack => {
            let note = Note::of(entry);
            let retry = retry(entry, note.retry);
            LifecycleKind::StepFailed {
                step: name(),
                operation: operation(),
                attempt,
                failure: entry.failure().unwrap_or_else(|| unknown(entry.payload.as_ref())),
                will_retry: retry.is_some(),
                retry,
                exhausted: note.ended.as_deref().and_then(Reason::from_text),
                falls_back: entry.kind == EntryKind::FallingBack,
            }
        }
        EntryKind::SleepSet => LifecycleKind::SleepSet { operation: operation(), until },
        EntryKind::SleepDone => LifecycleKind::SleepDone { operation: operation() },
        EntryKind::WaitSet => LifecycleKind::WaitSet { signal: name(), operation: operation(), until },
        EntryKind::SignalTaken => LifecycleKind::SignalTaken { signal: name(), operation: operation() },
        EntryKind::SignalRefused => {
            let problem = entry.refused().map_or_else(String::new, |refused| refused.problem);
            LifecycleKind::SignalRefused { signal: name(), operation: operation(), problem }
        }
        EntryKind::SignalDiscarded => LifecycleKind::SignalDiscarded { entry: entry.discarded().unwrap_or(0) },
        EntryKind::WaitTimedOut => LifecycleKind::WaitTimedOut { signal: name(), operation: operation() },
        EntryKind::OpCancelled => LifecycleKind::OperationCancelled { operation: operation() },
        EntryKind::Sent => match entry.sent_to() {
            Some(SentTo { id: child, detached: Some(_) }) => {
                LifecycleKind::ChildStarted { child, operation: operation() }
            }
            to => LifecycleKind::EffectSent { to: to.map_or_else(String::new, |to| to.id), operation: operation() },
        },
        EntryKind::Patched => LifecycleKind::RunPatched { patch: name(), operation: operation() },
        EntryKind::UndoPlanned => LifecycleKind::UndoPlanned { undo: name(), operation: operation() },
        EntryKind::Unwinding => LifecycleKind::RunUnwinding { reason: sentence(entry.payload.as_ref()) },
        EntryKind::SendRefused => {
            let to = entry.sent_to().map_or_else(String::new, |to| to.id);
            LifecycleKind::EffectRefused { to, operation: operation() }
        }
        EntryKind::ChildEnded => {
            LifecycleKind::ChildEnded { child: name(), operation: operation(), failure: entry.failure() }
        }
        _ => return of_run_entry(entry),
    })
}

/// Returns the event of an entry about what the run gives out. `None` for a kind that a later release has added.
fn of_output(entry: &Entry) -> Option<LifecycleKind> {
    let (name, operation) = (unescaped(ParsedIdentity::of(&entry.op).name), entry.op.to_string());
    Some(match entry.kind {
        EntryKind::Published => LifecycleKind::ValuePublished { value: name, operation },
        EntryKind::Appended => LifecycleKind::ItemAppended { stream: name, operation },
        EntryKind::AppendRefused => LifecycleKind::AppendRefused { stream: name, operation },
        EntryKind::QuestionTaken => LifecycleKind::QuestionTaken { question: name, operation },
        EntryKind::Answered => LifecycleKind::QuestionAnswered { question: name, operation },
        _ => return None,
    })
}

/// Returns the event of a journal entry about the run as a whole.
fn of_run_entry(entry: &Entry) -> Option<LifecycleKind> {
    let kept_to = entry.rewound_to().unwrap_or(0);
    let operation = (!entry.op.is_empty()).then(|| entry.op.to_string());
    Some(match entry.kind {
        EntryKind::CancelTaken => LifecycleKind::RunCancelling { reason: sentence(entry.payload.as_ref()) },
        EntryKind::Retried => LifecycleKind::RunRetried,
        EntryKind::Reopened => LifecycleKind::RunReopened,
        EntryKind::Rewound => LifecycleKind::RunRewound { kept_to, operation },
        EntryKind::Forked => {
            let from = entry.forked_from().map_or_else(String::new, |from| from.run);
            LifecycleKind::RunForked { from, kept_to, operation }
        }
        EntryKind::Restarted => LifecycleKind::RunRestarted { run_number: entry.attempt },
        EntryKind::NearlyFull => LifecycleKind::JournalNearlyFull { max_entries: entry.max_entries().unwrap_or(0) },
        _ => return of_output(entry),
    })
}

/// What is recorded next to a failure.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Note {
    retry: Option<RetryPlan>,
    ended: Option<String>,
}

#[derive(Deserialize)]
struct RetryPlan {
    base_delay_ms: u64,
    backoff: String,
    jitter: String,
}

impl Note {
    fn of(entry: &Entry) -> Self {
        entry.payload.as_ref().and_then(|payload| payload.decode().ok()).unwrap_or_default()
    }
}

fn retry(entry: &Entry, plan: Option<RetryPlan>) -> Option<RetryScheduled> {
    let due = entry.due.filter(|_| entry.kind == EntryKind::AttemptFailed)?;
    let (base_delay_ms, backoff, jitter) = match plan {
        Some(plan) => (Some(plan.base_delay_ms), Some(plan.backoff), Some(plan.jitter)),
        None => (None, None, None),
    };
    let (attempt, delay_ms) = (entry.attempt.saturating_add(1), millis(entry.at, due));
    Some(RetryScheduled { attempt, due, delay_ms, base_delay_ms, backoff, jitter })
}

/// Returns the event of any other feed entry. `None` for a kind that a later release has added.
fn of_lifecycle(record: &LifecycleRecord) -> Option<LifecycleKind> {
    let reason = || sentence(record.detail.as_ref());
    Some(match record.kind {
        LifecycleRecordKind::RunQueued => LifecycleKind::RunQueued,
        LifecycleRecordKind::RunStarted => LifecycleKind::RunStarted,
        LifecycleRecordKind::RunPaused => {
            let (why, until) = paused(record.detail.as_ref());
            LifecycleKind::RunPaused { why, until }
        }
        LifecycleRecordKind::RunResumed => LifecycleKind::RunResumed,
        LifecycleRecordKind::RunCompleted => LifecycleKind::RunCompleted,
        LifecycleRecordKind::RunFailed => {
            let kept = record.detail.as_ref().and_then(|payload| Failure::from_payload(payload).ok());
            LifecycleKind::RunFailed { failure: kept.unwrap_or_else(|| unknown(record.detail.as_ref())) }
        }
        LifecycleRecordKind::RunCancelled => LifecycleKind::RunCancelled { reason: reason() },
        LifecycleRecordKind::RunStuck => LifecycleKind::RunStuck { reason: reason() },
        _ => return of_job(record),
    })
}

/// Returns the event of a job.
fn of_job(record: &LifecycleRecord) -> Option<LifecycleKind> {
    let detail = record.detail.as_ref().and_then(Detail::from_payload).unwrap_or_default();
    let (work, attempt) = (work(&detail), record.attempt);
    let retry = job_retry(record, &detail);
    let Detail { error, reason, at, .. } = detail;
    let reason = reason.map(String::from);
    Some(match record.kind {
        LifecycleRecordKind::JobStarted => LifecycleKind::JobStarted { work },
        LifecycleRecordKind::JobExecuted => LifecycleKind::JobExecuted { work },
        LifecycleRecordKind::JobFailed => {
            let (error, will_retry) = (error.unwrap_or_default(), retry.is_some());
            LifecycleKind::JobFailed { work, attempt, error, will_retry, retry }
        }
        LifecycleRecordKind::JobExhausted => {
            LifecycleKind::JobExhausted { work, attempt, error, reason: reason.unwrap_or_default() }
        }
        LifecycleRecordKind::JobTerminated => LifecycleKind::JobTerminated { work, reason },
        LifecycleRecordKind::JobStopped => LifecycleKind::JobStopped { reason },
        LifecycleRecordKind::JobResumed => LifecycleKind::JobResumed,
        LifecycleRecordKind::JobStuck => LifecycleKind::JobStuck { reason: reason.or(error).unwrap_or_default() },
        LifecycleRecordKind::EventHandled => LifecycleKind::EventHandled { work, attempt },
        LifecycleRecordKind::DebounceStarted => LifecycleKind::DebounceStarted { work, until: at },
        LifecycleRecordKind::DebounceFlushed => LifecycleKind::DebounceFlushed { work, reason },
        LifecycleRecordKind::DebounceCleared => LifecycleKind::DebounceCleared { work },
        LifecycleRecordKind::TaskScheduled => LifecycleKind::TaskScheduled { work, due: at },
        _ => return None,
    })
}

fn work(detail: &Detail) -> JobWork {
    JobWork {
        handler: detail.handler.as_deref().map(ToOwned::to_owned),
        run: detail.run,
        event: detail.event,
        events: detail.events,
        duration_ms: detail.duration_ms,
    }
}

fn job_retry(record: &LifecycleRecord, detail: &Detail) -> Option<RetryScheduled> {
    let due = detail.retry_at?;
    Some(RetryScheduled {
        attempt: record.attempt.saturating_add(1),
        due,
        delay_ms: detail.delay_ms.unwrap_or_else(|| millis(record.at, due)),
        base_delay_ms: detail.base_delay_ms,
        backoff: detail.backoff.as_deref().map(ToOwned::to_owned),
        jitter: detail.jitter.as_deref().map(ToOwned::to_owned),
    })
}

fn millis(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.since(from).as_millis()).unwrap_or(u64::MAX)
}

/// Reads a sentence that is stored as JSON text.
fn sentence(payload: Option<&Payload>) -> String {
    payload.map(|payload| payload.decode().unwrap_or_else(|_| payload.as_str().to_owned())).unwrap_or_default()
}

fn paused(detail: Option<&Payload>) -> (StatusKind, Option<Timestamp>) {
    let kept = detail.and_then(|detail| detail.decode::<(String, Option<Timestamp>)>().ok());
    let (why, until) = kept.unwrap_or_default();
    (StatusKind::from_text(&why).unwrap_or(StatusKind::Paused), until)
}

/// Returns a failure for a record that cannot be read.
fn unknown(payload: Option<&Payload>) -> Failure {
    Failure::new(Cause::Error, payload.map_or("what went wrong is not recorded", Payload::as_str))
}
