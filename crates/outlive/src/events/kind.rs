//! What can happen to an instance, each with its own fields, as Rust and as JSON.

use outlive_core::failure::Failure;
use outlive_core::retry::Reason;
use outlive_core::status::StatusKind;
use outlive_core::time::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// What happened. In JSON it is the member `type` and the fields beside it.
///
/// ```
/// use outlive::LifecycleKind;
///
/// fn is_alarming(kind: &LifecycleKind) -> bool {
///     match kind {
///         LifecycleKind::RunFailed { .. } | LifecycleKind::RunStuck { .. } => true,
///         LifecycleKind::StepFailed { will_retry, .. } => !will_retry,
///         _ => false,
///     }
/// }
/// assert!(!is_alarming(&LifecycleKind::RunCompleted));
/// ```
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum LifecycleKind {
    /// A run was accepted, or is to go on after its end, and waits to be driven.
    #[serde(rename = "run.queued")]
    RunQueued,
    /// A run is driven for the first time, or again after its end.
    #[serde(rename = "run.started")]
    RunStarted,
    /// A run waits for time, a signal or somebody.
    #[serde(rename = "run.paused")]
    RunPaused {
        /// Sleeping, waiting, retrying, or paused by an operator.
        #[serde(serialize_with = "status_text")]
        why: StatusKind,
        /// Until when, if that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// A run goes on after a pause.
    #[serde(rename = "run.resumed")]
    RunResumed,
    /// A run ended with a value.
    #[serde(rename = "run.completed")]
    RunCompleted,
    /// A run ended with a failure.
    #[serde(rename = "run.failed")]
    RunFailed {
        /// What it failed with.
        #[serde(serialize_with = "failure_object")]
        failure: Failure,
    },
    /// A run was asked to end, and begins to.
    #[serde(rename = "run.cancelling")]
    RunCancelling {
        /// Why.
        reason: String,
    },
    /// A run ended because it was asked to.
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        /// Why.
        reason: String,
    },
    /// A run cannot go on before somebody has seen to it.
    #[serde(rename = "run.stuck")]
    RunStuck {
        /// Why, and the way out.
        reason: String,
    },
    /// Somebody had a failed run go on: its last failures are forgotten.
    #[serde(rename = "run.retried")]
    RunRetried,
    /// A stuck run goes on.
    #[serde(rename = "run.reopened")]
    RunReopened,
    /// An attempt began. Of a step that records it, which is one with a timeout, a budget of time, or
    /// [`at_most_once`](crate::ctx::Step::at_most_once), it is told as everything else is; of any other, to those who
    /// [follow](crate::Client::events) in the process that executes it, and to nobody else. It then comes in its place:
    /// behind all of its run that was before it, and ahead of the end of its attempt. Who is slow may miss some.
    #[serde(rename = "step.started")]
    StepStarted {
        /// The step's name.
        step: String,
        /// Its identity in the run: with its scope, key and count.
        operation: String,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// A step ended with a value.
    #[serde(rename = "step.completed")]
    StepCompleted {
        /// The step's name.
        step: String,
        /// Its identity in the run: with its scope, key and count.
        operation: String,
        /// The attempt that did it, from 1.
        attempt: u32,
        /// How long that attempt took.
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// An attempt of a step failed; there is one for each attempt that did.
    #[serde(rename = "step.failed")]
    StepFailed {
        /// The step's name.
        step: String,
        /// Its identity in the run: with its scope, key and count.
        operation: String,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// What it failed with.
        #[serde(serialize_with = "failure_object")]
        failure: Failure,
        /// Whether another attempt follows.
        will_retry: bool,
        /// The attempt that follows.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry: Option<RetryScheduled>,
        /// Why none follows, if the policy would have had more.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "reason_text")]
        exhausted: Option<Reason>,
        /// Whether a fallback is to give the value now.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        falls_back: bool,
    },
    /// A sleep began.
    #[serde(rename = "sleep.set")]
    SleepSet {
        /// Its identity in the run.
        operation: String,
        /// When it ends.
        until: Timestamp,
    },
    /// A sleep ended.
    #[serde(rename = "sleep.done")]
    SleepDone {
        /// Its identity in the run.
        operation: String,
    },
    /// A wait began that gives up some time. One without a timeout is told of by [`RunPaused`](Self::RunPaused) alone.
    #[serde(rename = "wait.set")]
    WaitSet {
        /// The signal that is waited for.
        signal: String,
        /// Its identity in the run.
        operation: String,
        /// When it gives up.
        until: Timestamp,
    },
    /// A wait got its signal.
    #[serde(rename = "signal.taken")]
    SignalTaken {
        /// The signal.
        signal: String,
        /// The wait's identity in the run.
        operation: String,
    },
    /// A signal does not read as what the wait is for: it is a dead letter of the run, and the wait goes on.
    #[serde(rename = "signal.refused")]
    SignalRefused {
        /// The signal.
        signal: String,
        /// The wait's identity in the run.
        operation: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A dead letter of the run was discarded.
    #[serde(rename = "signal.discarded")]
    SignalDiscarded {
        /// The number of the entry that refused the signal.
        entry: u64,
    },
    /// A wait gave up.
    #[serde(rename = "wait.timed_out")]
    WaitTimedOut {
        /// The signal that did not come.
        signal: String,
        /// Its identity in the run.
        operation: String,
    },
    /// A step, sleep or wait ended because its run was cancelled.
    #[serde(rename = "operation.cancelled")]
    OperationCancelled {
        /// Its identity in the run.
        operation: String,
    },
    /// An instance of a job came into being.
    #[serde(rename = "job.started")]
    JobStarted {
        /// More of it.
        #[serde(flatten)]
        work: JobWork,
    },
    /// A handler of a job ended well.
    #[serde(rename = "job.executed")]
    JobExecuted {
        /// Which, and for how long.
        #[serde(flatten)]
        work: JobWork,
    },
    /// A handler of a job failed.
    #[serde(rename = "job.failed")]
    JobFailed {
        /// Which, and for how long.
        #[serde(flatten)]
        work: JobWork,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// What it failed with.
        error: String,
        /// Whether another attempt follows.
        will_retry: bool,
        /// The attempt that follows.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry: Option<RetryScheduled>,
    },
    /// No attempt is left for what a job was to do.
    #[serde(rename = "job.exhausted")]
    JobExhausted {
        /// Which.
        #[serde(flatten)]
        work: JobWork,
        /// The last attempt.
        attempt: u32,
        /// What that failed with.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Why there are no more.
        reason: String,
    },
    /// An instance of a job is gone with all that it had.
    #[serde(rename = "job.terminated")]
    JobTerminated {
        /// More of it.
        #[serde(flatten)]
        work: JobWork,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An instance of a job rests until it is resumed.
    #[serde(rename = "job.stopped")]
    JobStopped {
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An instance of a job goes on.
    #[serde(rename = "job.resumed")]
    JobResumed,
    /// An instance of a job cannot go on before somebody has seen to it.
    #[serde(rename = "job.stuck")]
    JobStuck {
        /// Why, and the way out.
        reason: String,
    },
    /// An event of a job was handled.
    #[serde(rename = "event.handled")]
    EventHandled {
        /// Which, and for how long.
        #[serde(flatten)]
        work: JobWork,
        /// The attempt that did it, from 1; 0 if that is not counted.
        attempt: u32,
    },
    /// A debounce began to collect.
    #[serde(rename = "debounce.started")]
    DebounceStarted {
        /// More of it.
        #[serde(flatten)]
        work: JobWork,
        /// When it flushes, if nothing more comes.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// A debounce hands over what it has collected.
    #[serde(rename = "debounce.flushed")]
    DebounceFlushed {
        /// How many events, and more of it.
        #[serde(flatten)]
        work: JobWork,
        /// Why now.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A debounce dropped what it had collected, because it was asked to.
    #[serde(rename = "debounce.cleared")]
    DebounceCleared {
        /// How many events, and more of it.
        #[serde(flatten)]
        work: JobWork,
    },
    /// A task is to wake itself.
    #[serde(rename = "task.scheduled")]
    TaskScheduled {
        /// More of it.
        #[serde(flatten)]
        work: JobWork,
        /// When.
        #[serde(skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
    },
}

impl LifecycleKind {
    /// Its name, as in the member `type` of the JSON.
    ///
    /// ```
    /// assert_eq!(outlive::LifecycleKind::RunQueued.as_str(), "run.queued");
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::RunQueued => "run.queued",
            Self::RunStarted => "run.started",
            Self::RunPaused { .. } => "run.paused",
            Self::RunResumed => "run.resumed",
            Self::RunCompleted => "run.completed",
            Self::RunFailed { .. } => "run.failed",
            Self::RunCancelling { .. } => "run.cancelling",
            Self::RunCancelled { .. } => "run.cancelled",
            Self::RunStuck { .. } => "run.stuck",
            Self::RunRetried => "run.retried",
            Self::RunReopened => "run.reopened",
            Self::StepStarted { .. } => "step.started",
            Self::StepCompleted { .. } => "step.completed",
            Self::StepFailed { .. } => "step.failed",
            Self::SleepSet { .. } => "sleep.set",
            Self::SleepDone { .. } => "sleep.done",
            Self::WaitSet { .. } => "wait.set",
            Self::SignalTaken { .. } => "signal.taken",
            Self::SignalRefused { .. } => "signal.refused",
            Self::SignalDiscarded { .. } => "signal.discarded",
            Self::WaitTimedOut { .. } => "wait.timed_out",
            Self::OperationCancelled { .. } => "operation.cancelled",
            Self::JobStarted { .. } => "job.started",
            Self::JobExecuted { .. } => "job.executed",
            Self::JobFailed { .. } => "job.failed",
            Self::JobExhausted { .. } => "job.exhausted",
            Self::JobTerminated { .. } => "job.terminated",
            Self::JobStopped { .. } => "job.stopped",
            Self::JobResumed => "job.resumed",
            Self::JobStuck { .. } => "job.stuck",
            Self::EventHandled { .. } => "event.handled",
            Self::DebounceStarted { .. } => "debounce.started",
            Self::DebounceFlushed { .. } => "debounce.flushed",
            Self::DebounceCleared { .. } => "debounce.cleared",
            Self::TaskScheduled { .. } => "task.scheduled",
        }
    }
}

/// The attempt that follows one that failed.
///
/// ```
/// use outlive::RetryScheduled;
/// fn says(retry: &RetryScheduled) -> String {
///     format!("attempt {} at {}, {} ms later", retry.attempt, retry.due, retry.delay_ms)
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct RetryScheduled {
    /// Which attempt it will be, from 2.
    pub attempt: u32,
    /// When.
    pub due: Timestamp,
    /// The delay until then, with chance in it.
    pub delay_ms: u64,
    /// The delay as the backoff gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_delay_ms: Option<u64>,
    /// The kind of backoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
    /// The kind of jitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
}

/// Which piece of a job's work is meant: each part of it where it applies.
///
/// ```
/// use outlive::JobWork;
/// assert_eq!(JobWork::default().handler, None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct JobWork {
    /// Which handler: `execute`, `on_event`, `on_idle`, `on_error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// Which run of the job, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// The position of the event that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// How many events it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// For how long it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

fn status_text<S: Serializer>(why: &StatusKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(why.as_str())
}

fn reason_text<S: Serializer>(reason: &Option<Reason>, serializer: S) -> Result<S::Ok, S::Error> {
    reason.map(Reason::as_str).serialize(serializer)
}

/// As it is kept in the journal.
fn failure_object<S: Serializer>(failure: &Failure, serializer: S) -> Result<S::Ok, S::Error> {
    let kept = RawValue::from_string(failure.to_payload().as_str().to_owned());
    kept.map_err(serde::ser::Error::custom)?.serialize(serializer)
}
