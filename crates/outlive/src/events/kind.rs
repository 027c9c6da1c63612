//! The kinds of lifecycle events, each with its own fields, as Rust and as JSON.

use outlive_core::failure::Failure;
use outlive_core::retry::Reason;
use outlive_core::status::StatusKind;
use outlive_core::time::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// What happened. In JSON it is the member `type` and the fields next to it.
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
    /// A run was accepted, or is to continue after its end, and waits to be driven.
    #[serde(rename = "run.queued")]
    RunQueued,
    /// A run is driven for the first time, or again after its end.
    #[serde(rename = "run.started")]
    RunStarted,
    /// A run waits for a time, a signal or a person.
    #[serde(rename = "run.paused")]
    RunPaused {
        /// Sleeping, waiting, retrying, or paused by an operator.
        #[serde(serialize_with = "status_text")]
        why: StatusKind,
        /// Until when, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// A run resumes after a pause.
    #[serde(rename = "run.resumed")]
    RunResumed,
    /// A run ended with a value.
    #[serde(rename = "run.completed")]
    RunCompleted,
    /// A run ended with a failure.
    #[serde(rename = "run.failed")]
    RunFailed {
        /// What the run failed with.
        #[serde(serialize_with = "failure_object")]
        failure: Failure,
    },
    /// A run was asked to end, and begins to do so.
    #[serde(rename = "run.cancelling")]
    RunCancelling {
        /// The reason given.
        reason: String,
    },
    /// A run ended because it was asked to.
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        /// The reason given.
        reason: String,
    },
    /// A run is stuck, and needs a person or a deploy to continue.
    #[serde(rename = "run.stuck")]
    RunStuck {
        /// Why, and what to do.
        reason: String,
    },
    /// A failed run was retried: its last failures are dropped.
    #[serde(rename = "run.retried")]
    RunRetried,
    /// A run was rewound: what it did after a point no longer counts, and it continues from there.
    #[serde(rename = "run.rewound")]
    RunRewound {
        /// The number of the last journal entry that counts; 0 if none does.
        kept_to: u64,
        /// The operation that runs again first, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        operation: Option<String>,
    },
    /// A run was forked from another one: the events before this are copies.
    #[serde(rename = "run.forked")]
    RunForked {
        /// The id of the other run.
        from: String,
        /// The number of the last journal entry that was copied; 0 if none was.
        kept_to: u64,
        /// The operation that runs again first, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        operation: Option<String>,
    },
    /// A stuck run resumes.
    #[serde(rename = "run.reopened")]
    RunReopened,
    /// A run restarted: it continues under its id with a fresh journal.
    #[serde(rename = "run.restarted")]
    RunRestarted {
        /// Which run begins, from 2.
        run_number: u32,
    },
    /// The journal of a run has reached 80 % of its limit. At the limit, the run becomes stuck.
    #[serde(rename = "journal.nearly_full")]
    JournalNearlyFull {
        /// How many entries the journal may have.
        max_entries: u64,
    },
    /// An attempt began.
    ///
    /// For a step that records its start, which is one with a timeout, a time budget or
    /// [`at_most_once`](crate::ctx::Step::at_most_once), this is reported like every other event. For any other step,
    /// it is reported only to [subscribers](crate::Client::events) in the process that executes it. It then has its
    /// place in the order: after all earlier events of its run, and before the end of its attempt. A slow subscriber
    /// may miss some.
    #[serde(rename = "step.started")]
    StepStarted {
        /// The step's name.
        step: String,
        /// The step's identity in the run: with its scope, key and count.
        operation: String,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// A running attempt reported its progress, and that was recorded: at most once a second.
    #[serde(rename = "step.heartbeat")]
    StepHeartbeat {
        /// The step's name.
        step: String,
        /// The step's identity in the run: with its scope, key and count.
        operation: String,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// A step ended with a value.
    #[serde(rename = "step.completed")]
    StepCompleted {
        /// The step's name.
        step: String,
        /// The step's identity in the run: with its scope, key and count.
        operation: String,
        /// The attempt that completed, from 1.
        attempt: u32,
        /// How long that attempt took.
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// An attempt of a step failed; each failed attempt has one.
    #[serde(rename = "step.failed")]
    StepFailed {
        /// The step's name.
        step: String,
        /// The step's identity in the run: with its scope, key and count.
        operation: String,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// What the attempt failed with.
        #[serde(serialize_with = "failure_object")]
        failure: Failure,
        /// `true` if another attempt follows.
        will_retry: bool,
        /// The next attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry: Option<RetryScheduled>,
        /// The limit of the retry policy that was reached, if that is why none follows.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "reason_text")]
        exhausted: Option<Reason>,
        /// `true` if a fallback is to provide the value now.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        falls_back: bool,
    },
    /// A breaker lets no attempt through until a time, because too many have failed in a row. Like the other events of
    /// breakers, it is reported only to [subscribers](crate::Client::events) in the process whose breaker it is: the
    /// state of a breaker is not stored. The event belongs to the run whose attempt failed.
    #[serde(rename = "breaker.opened")]
    BreakerOpened {
        /// The name of the breaker.
        breaker: String,
        /// When it lets one attempt through.
        until: Timestamp,
        /// The identity of the step whose attempt failed.
        operation: String,
    },
    /// A breaker has let one attempt through, to see if the service is back.
    #[serde(rename = "breaker.half_opened")]
    BreakerHalfOpened {
        /// The name of the breaker.
        breaker: String,
        /// The identity of the step whose attempt it is.
        operation: String,
    },
    /// A breaker lets every attempt through again.
    #[serde(rename = "breaker.closed")]
    BreakerClosed {
        /// The name of the breaker.
        breaker: String,
        /// The identity of the step whose attempt succeeded.
        operation: String,
    },
    /// A sleep began.
    #[serde(rename = "sleep.set")]
    SleepSet {
        /// The sleep's identity in the run.
        operation: String,
        /// When the sleep ends.
        until: Timestamp,
    },
    /// A sleep ended.
    #[serde(rename = "sleep.done")]
    SleepDone {
        /// The sleep's identity in the run.
        operation: String,
    },
    /// A wait with a timeout began. For one without a timeout there is only a [`RunPaused`](Self::RunPaused).
    #[serde(rename = "wait.set")]
    WaitSet {
        /// The name of the signal it waits for.
        signal: String,
        /// The wait's identity in the run.
        operation: String,
        /// When the wait times out.
        until: Timestamp,
    },
    /// A wait received its signal.
    #[serde(rename = "signal.taken")]
    SignalTaken {
        /// The signal's name.
        signal: String,
        /// The wait's identity in the run.
        operation: String,
    },
    /// A signal does not deserialize as what the wait is for: it becomes a dead letter of the run, and the wait
    /// continues.
    #[serde(rename = "signal.refused")]
    SignalRefused {
        /// The signal's name.
        signal: String,
        /// The wait's identity in the run.
        operation: String,
        /// What is wrong with the value.
        problem: String,
    },
    /// A dead letter of the run was discarded.
    #[serde(rename = "signal.discarded")]
    SignalDiscarded {
        /// The `seq` of the journal entry that refused the signal.
        entry: u64,
    },
    /// A wait timed out.
    #[serde(rename = "wait.timed_out")]
    WaitTimedOut {
        /// The name of the signal that did not arrive.
        signal: String,
        /// The wait's identity in the run.
        operation: String,
    },
    /// A step, sleep or wait ended because its run was cancelled.
    #[serde(rename = "operation.cancelled")]
    OperationCancelled {
        /// The operation's identity in the run.
        operation: String,
    },
    /// The run has reached a patch with the new code, and takes the new path from now on.
    #[serde(rename = "run.patched")]
    RunPatched {
        /// The name of the patch.
        patch: String,
        /// The operation's identity in the run.
        operation: String,
    },
    /// An operation has succeeded that has an undo: if the run fails or is cancelled, the undo runs.
    #[serde(rename = "undo.planned")]
    UndoPlanned {
        /// The name of the undo.
        undo: String,
        /// The identity in the run that the undo has.
        operation: String,
    },
    /// The run has failed or was cancelled, and undoes what it has done. The undos are steps, whose operations begin with
    /// `undo:` in their scope.
    #[serde(rename = "run.unwinding")]
    RunUnwinding {
        /// The failure, or the reason of the cancel.
        reason: String,
    },
    /// The run has started a child.
    #[serde(rename = "child.started")]
    ChildStarted {
        /// The id of the child.
        child: String,
        /// The operation's identity in the run.
        operation: String,
    },
    /// The run has learned that a child ended.
    #[serde(rename = "child.ended")]
    ChildEnded {
        /// The id of the child.
        child: String,
        /// The operation's identity in the run.
        operation: String,
        /// How the child failed, if it did.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_failure_object")]
        failure: Option<Failure>,
    },
    /// The run has started a run, signalled or cancelled one, or sent an event to a job.
    #[serde(rename = "effect.sent")]
    EffectSent {
        /// The id of the receiver.
        to: String,
        /// The operation's identity in the run.
        operation: String,
    },
    /// What the run sent was refused, so nothing was sent.
    #[serde(rename = "effect.refused")]
    EffectRefused {
        /// The id of the receiver.
        to: String,
        /// The operation's identity in the run.
        operation: String,
    },
    /// The run has published a value.
    #[serde(rename = "value.published")]
    ValuePublished {
        /// The name of the value.
        value: String,
        /// The operation's identity in the run.
        operation: String,
    },
    /// The run has appended an item to a stream.
    #[serde(rename = "item.appended")]
    ItemAppended {
        /// The name of the stream.
        stream: String,
        /// The operation's identity in the run.
        operation: String,
    },
    /// An item was not appended, because the stream is full.
    #[serde(rename = "append.refused")]
    AppendRefused {
        /// The name of the stream.
        stream: String,
        /// The operation's identity in the run.
        operation: String,
    },
    /// The run has taken a question.
    #[serde(rename = "question.taken")]
    QuestionTaken {
        /// The name of the question.
        question: String,
        /// The operation's identity in the run.
        operation: String,
    },
    /// The run has answered a question.
    #[serde(rename = "question.answered")]
    QuestionAnswered {
        /// The name of the question.
        question: String,
        /// The operation's identity in the run.
        operation: String,
    },
    /// An instance of a job was created.
    #[serde(rename = "job.started")]
    JobStarted {
        /// Details of the work.
        #[serde(flatten)]
        work: JobWork,
    },
    /// A handler of a job succeeded.
    #[serde(rename = "job.executed")]
    JobExecuted {
        /// Which handler, and how long it took.
        #[serde(flatten)]
        work: JobWork,
    },
    /// A handler of a job failed.
    #[serde(rename = "job.failed")]
    JobFailed {
        /// Which handler, and how long it took.
        #[serde(flatten)]
        work: JobWork,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// What the attempt failed with.
        error: String,
        /// `true` if another attempt follows.
        will_retry: bool,
        /// The next attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry: Option<RetryScheduled>,
    },
    /// A job has no attempts left for a piece of its work.
    #[serde(rename = "job.exhausted")]
    JobExhausted {
        /// Details of the work.
        #[serde(flatten)]
        work: JobWork,
        /// The last attempt.
        attempt: u32,
        /// What the last attempt failed with.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Why there are no more attempts.
        reason: String,
    },
    /// An instance of a job was removed, with everything it had.
    #[serde(rename = "job.terminated")]
    JobTerminated {
        /// Details of the work.
        #[serde(flatten)]
        work: JobWork,
        /// The reason given.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An instance of a job stopped until it is resumed.
    #[serde(rename = "job.stopped")]
    JobStopped {
        /// Why it stopped.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An instance of a job resumes.
    #[serde(rename = "job.resumed")]
    JobResumed,
    /// An instance of a job is stuck, and needs a person or a deploy to continue.
    #[serde(rename = "job.stuck")]
    JobStuck {
        /// Why, and what to do.
        reason: String,
    },
    /// A job handled an event.
    #[serde(rename = "event.handled")]
    EventHandled {
        /// Which event, and how long it took.
        #[serde(flatten)]
        work: JobWork,
        /// The attempt that handled it, from 1; 0 if attempts are not counted.
        attempt: u32,
    },
    /// A debounce began to collect events.
    #[serde(rename = "debounce.started")]
    DebounceStarted {
        /// Details of the work.
        #[serde(flatten)]
        work: JobWork,
        /// When it flushes, if no more events arrive.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// A debounce flushes what it has collected.
    #[serde(rename = "debounce.flushed")]
    DebounceFlushed {
        /// The number of events, and other details.
        #[serde(flatten)]
        work: JobWork,
        /// Why it flushes now.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A debounce dropped what it had collected, because it was asked to.
    #[serde(rename = "debounce.cleared")]
    DebounceCleared {
        /// The number of events, and other details.
        #[serde(flatten)]
        work: JobWork,
    },
    /// A task scheduled a wake for itself.
    #[serde(rename = "task.scheduled")]
    TaskScheduled {
        /// Details of the work.
        #[serde(flatten)]
        work: JobWork,
        /// When the wake is due.
        #[serde(skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
    },
}

impl LifecycleKind {
    /// Returns the name, as in the member `type` of the JSON.
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
            Self::RunRestarted { .. } => "run.restarted",
            Self::JournalNearlyFull { .. } => "journal.nearly_full",
            Self::RunRewound { .. } => "run.rewound",
            Self::RunForked { .. } => "run.forked",
            Self::StepStarted { .. } => "step.started",
            Self::StepCompleted { .. } => "step.completed",
            Self::StepFailed { .. } => "step.failed",
            Self::StepHeartbeat { .. } => "step.heartbeat",
            Self::BreakerOpened { .. } => "breaker.opened",
            Self::BreakerHalfOpened { .. } => "breaker.half_opened",
            Self::BreakerClosed { .. } => "breaker.closed",
            Self::SleepSet { .. } => "sleep.set",
            Self::SleepDone { .. } => "sleep.done",
            Self::WaitSet { .. } => "wait.set",
            Self::SignalTaken { .. } => "signal.taken",
            Self::SignalRefused { .. } => "signal.refused",
            Self::SignalDiscarded { .. } => "signal.discarded",
            Self::WaitTimedOut { .. } => "wait.timed_out",
            Self::OperationCancelled { .. } => "operation.cancelled",
            Self::RunPatched { .. } => "run.patched",
            Self::UndoPlanned { .. } => "undo.planned",
            Self::RunUnwinding { .. } => "run.unwinding",
            Self::ChildStarted { .. } => "child.started",
            Self::ChildEnded { .. } => "child.ended",
            Self::EffectSent { .. } => "effect.sent",
            Self::EffectRefused { .. } => "effect.refused",
            Self::ValuePublished { .. } => "value.published",
            Self::ItemAppended { .. } => "item.appended",
            Self::AppendRefused { .. } => "append.refused",
            Self::QuestionTaken { .. } => "question.taken",
            Self::QuestionAnswered { .. } => "question.answered",
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

/// The attempt that follows a failed one.
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
    /// The number of the attempt, from 2.
    pub attempt: u32,
    /// When the attempt is due.
    pub due: Timestamp,
    /// The delay until then, with jitter.
    pub delay_ms: u64,
    /// The delay of the backoff, without jitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_delay_ms: Option<u64>,
    /// The kind of backoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
    /// The kind of jitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
}

/// The piece of a job's work that an event is about. Each field is set where it applies.
///
/// ```
/// use outlive::JobWork;
/// assert_eq!(JobWork::default().handler, None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct JobWork {
    /// The handler: `execute`, `on_event`, `on_idle`, `on_error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// The number of the job's run, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// The position of the event it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// The number of events it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// How long it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

fn status_text<S: Serializer>(why: &StatusKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(why.as_str())
}

fn reason_text<S: Serializer>(reason: &Option<Reason>, serializer: S) -> Result<S::Ok, S::Error> {
    reason.map(Reason::as_str).serialize(serializer)
}

/// Serializes a failure as it is stored in the journal.
fn failure_object<S: Serializer>(failure: &Failure, serializer: S) -> Result<S::Ok, S::Error> {
    let kept = RawValue::from_string(failure.to_payload().as_str().to_owned());
    kept.map_err(serde::ser::Error::custom)?.serialize(serializer)
}

fn some_failure_object<S: Serializer>(failure: &Option<Failure>, serializer: S) -> Result<S::Ok, S::Error> {
    match failure {
        Some(failure) => failure_object(failure, serializer),
        None => serializer.serialize_none(),
    }
}
