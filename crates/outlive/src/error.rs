//! The crate's error type, which durable operations also return to user code.

mod export;
mod permanent;

use std::time::Duration;

use outlive_core::duration::{self, DurationError};
use outlive_core::failure::Failure;
use outlive_core::id::NameError;
use outlive_core::kind::JobKind;
use outlive_core::payload::Payload;
use outlive_core::retry::{PolicyError, Reason};
use outlive_core::schedule::ScheduleError;
use outlive_core::status::Status;
use outlive_core::store;
use serde::de::DeserializeOwned;

pub use export::{ExportError, ExportProblem};
pub use permanent::Permanent;
pub(crate) use permanent::{find, is_permanent};

/// Any error from user code.
///
/// ```
/// use outlive::BoxError;
/// fn parse(text: &str) -> Result<u32, BoxError> {
///     if text.is_empty() {
///         return Err("there is no text".into());
///     }
///     Ok(text.parse()?)
/// }
/// assert_eq!(parse("").unwrap_err().to_string(), "there is no text");
/// ```
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error type of this crate. Match on it, or use [`kind`](Self::kind), [`code`](Self::code) or a predicate.
///
/// ```
/// use outlive::{Engine, Error};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> outlive::prelude::Result<()> {
/// let engine = Engine::open("memory:").start().await?;
/// let error = engine.get_run::<()>("no-such-run").await.unwrap_err();
/// assert!(matches!(error, Error::NotFound { .. }) && error.is_not_found());
/// assert_eq!(error.code(), "not_found");
/// # Ok(()) }
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A step failed with an error that is not retried.
    #[error("step {step:?} failed: {failure}")]
    Step {
        /// The step's name.
        step: String,
        /// The step's failure.
        failure: Failure,
    },
    /// A step failed and its retry policy allows no more attempts.
    #[error("step {step:?} gave up after {attempts} attempts ({}): {last}", reason.as_str())]
    RetryExhausted {
        /// The step's name.
        step: String,
        /// The number of attempts made.
        attempts: u32,
        /// Which limit of the policy was reached.
        reason: Reason,
        /// The failure of the last attempt.
        last: Failure,
    },
    /// A step took longer than its timeout.
    #[error("step {step:?} {failure}")]
    Timeout {
        /// The step's name.
        step: String,
        /// The step's timeout.
        timeout: Duration,
        /// The time that had passed when the step was stopped; more than the timeout if nothing ran when it expired.
        elapsed: Duration,
        /// The recorded failure.
        failure: Box<Failure>,
    },
    /// The process ended while a step that may run at most once was running.
    #[error("step {step:?} was interrupted: {failure}; find out whether it took effect, then decide in the workflow")]
    Interrupted {
        /// The step's name.
        step: String,
        /// The recorded failure.
        failure: Failure,
    },
    /// A child failed, or was cancelled: then the cause of its failure is [`Cause::Cancelled`](crate::Cause::Cancelled).
    #[error("child {id:?} failed: {failure}")]
    Child {
        /// The child's id.
        id: String,
        /// The failure of the child.
        failure: Box<Failure>,
    },
    /// The run is a child, and its parent waits for it.
    #[error("run {id:?} is a child of run {parent:?}, which waits for it; cancel it first")]
    ChildOf {
        /// The run's id.
        id: String,
        /// The parent's id.
        parent: String,
    },
    /// No signal arrived in time.
    #[error("no signal {name:?} arrived within {}", duration::text(*timeout))]
    WaitTimeout {
        /// The signal's name.
        name: String,
        /// How long the run waited.
        timeout: Duration,
    },
    /// The run was cancelled.
    #[error("cancelled: {reason}")]
    Cancelled {
        /// The reason that was given.
        reason: String,
    },
    /// A durable operation was polled where it cannot be recorded: inside a step, or outside its workflow.
    #[error("{operation} was polled {place}; durable operations belong in the workflow function itself")]
    Scope {
        /// The operation.
        operation: String,
        /// Where it was polled.
        place: &'static str,
    },
    /// The context of a job's handler was used after the handler had returned.
    #[error(
        "the handler of this context has returned, so nothing can be committed with it; send before it returns, or use a `Client`"
    )]
    HandlerReturned,
    /// A heartbeat or an append came from an attempt that has ended, timed out or was cancelled.
    #[error("attempt {attempt} of step {step:?} is over; stop what it has left running")]
    AttemptOver {
        /// The step.
        step: String,
        /// The number of the attempt.
        attempt: u32,
    },
    /// The run failed: its workflow returned an error.
    #[error("{} {id:?} failed: {failure}", noun(id))]
    Failed {
        /// The run's id.
        id: String,
        /// The failure the workflow returned.
        failure: Failure,
    },
    /// The run is stuck until its code or data is fixed.
    #[error("{} {id:?} is stuck: {reason}", noun(id))]
    Stuck {
        /// The run's id.
        id: String,
        /// What was recorded, what the code asked for, and what to do.
        reason: String,
    },
    /// There is no such run.
    #[error("there is no {} {id:?}; it was never started in this store, or it was removed", noun(id))]
    NotFound {
        /// The run's id.
        id: String,
    },
    /// The job has no such dead letter: it was retried or discarded, or never existed.
    #[error("job {job:?} has no dead letter {number}; `dead` lists those it has")]
    NoDeadLetter {
        /// The job.
        job: String,
        /// The number of the dead letter.
        number: u64,
    },
    /// The run's status does not allow this.
    #[error("{} {id:?} is {status}; {way_out}", noun(id))]
    Status {
        /// The run's id.
        id: String,
        /// The run's status.
        status: Status,
        /// What to do instead.
        way_out: &'static str,
    },
    /// The run cannot be rewound or forked there, because it has recorded no such operation or entry.
    #[error("run {id:?} has not recorded {point}; choose one of {}", listed(known))]
    NoRewindPoint {
        /// The run's id.
        id: String,
        /// The point that was asked for.
        point: String,
        /// What the run has recorded, or the last of it.
        known: Vec<String>,
    },
    /// The run cannot be rewound or forked there, because several operations match.
    #[error("{point} is ambiguous in run {id:?}; choose one of {}", listed(candidates))]
    AmbiguousPoint {
        /// The run's id.
        id: String,
        /// The point that was asked for.
        point: String,
        /// The operations that match.
        candidates: Vec<String>,
    },
    /// The run cannot be forked there, because a child that was started before has not ended.
    #[error(
        "run {id:?} cannot be forked there, because its child {child:?} has not ended; wait until it has, or fork before \
         its start"
    )]
    ForkChild {
        /// The run's id.
        id: String,
        /// The child's id.
        child: String,
    },
    /// The id is in use by another run.
    #[error(
        "run id {id:?} is taken by a run of {workflow:?} {how}; use another id, or `.on_conflict(OnConflict::Replace)`"
    )]
    Conflict {
        /// The id.
        id: String,
        /// The workflow of the run that has the id.
        workflow: String,
        /// How that run differs.
        how: &'static str,
    },
    /// No workflow with that name, or with that function, is registered.
    #[error(
        "{workflow} is not registered here (registered: {known}); add `.workflow(\"name\", function)` to the engine"
    )]
    UnknownWorkflow {
        /// The workflow that was asked for.
        workflow: String,
        /// The registered workflows.
        known: String,
    },
    /// The job is not registered with this engine.
    #[error("job {job:?} is not registered here (registered: {known}); add `.job(..)` to the engine")]
    UnknownJob {
        /// The job's name.
        job: String,
        /// The registered jobs.
        known: String,
    },
    /// The text is not the name of a job.
    #[error(
        "{name:?} is not the name of a job; write it as KIND:NAME, where KIND is one of continuous, debounce, task, pool"
    )]
    JobName {
        /// The text.
        name: String,
    },
    /// The job is of another kind.
    #[error("job {job:?} {problem}")]
    JobKind {
        /// The job.
        job: String,
        /// What it is or lacks, and what to do.
        problem: &'static str,
    },
    /// A schedule is invalid.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A value was not provided to the engine.
    #[error("no value of type {type_name} was provided (provided: {known}); add `.provide(value)` to the engine")]
    NotProvided {
        /// The type.
        type_name: &'static str,
        /// The types that were provided.
        known: String,
    },
    /// A value that [`provide_with`](crate::Builder::provide_with) should create could not be created.
    #[error("could not create the value of type {type_name}: {failure}; no run was started")]
    Provide {
        /// The type.
        type_name: &'static str,
        /// What went wrong.
        failure: Failure,
    },
    /// A text is not a duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// A retry policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A text is not a valid name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A message to a job was stored, but not handled while the caller waited.
    #[error(
        "the message to {id} is stored, but was not handled within {limit:?}; do not send it again, and check that \
         a process executes the store"
    )]
    NotHandled {
        /// The receiving instance.
        id: String,
        /// How long the caller waited.
        limit: Duration,
    },
    /// A value cannot be serialized as JSON, or JSON does not fit the type.
    #[error("{what}: {problem}")]
    Payload {
        /// The value.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A value is larger than the engine accepts.
    #[error(
        "{what} has {bytes} bytes of JSON, the limit is {max_bytes}; store it elsewhere and pass its key, or raise \
         `max_payload`"
    )]
    PayloadTooLarge {
        /// The value.
        what: String,
        /// The value's size.
        bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
    /// A stream has as many items as it may have.
    #[error(
        "stream {stream:?} has {max_items} items, which is its limit; raise `max_items`, or append to another stream"
    )]
    StreamFull {
        /// The stream's name.
        stream: String,
        /// The limit.
        max_items: u64,
    },
    /// The run ended without answering a question.
    #[error("run {id:?} ended as {} without answering question {question:?}; ask another run", status.as_str())]
    Unanswered {
        /// The run's id.
        id: String,
        /// The question's name.
        question: String,
        /// How the run ended.
        status: Status,
    },
    /// The run cannot read a question, which is now a dead letter of the run.
    #[error("run {id:?} cannot read question {question:?}: {problem}; ask with a value of the type it expects")]
    QuestionRefused {
        /// The run's id.
        id: String,
        /// The question's name.
        question: String,
        /// Why it does not read.
        problem: String,
    },
    /// A run has more tags than allowed.
    #[error("the run has {tags} tags, the limit is {tags_max}; put the rest into its input")]
    TooManyTags {
        /// The number of tags.
        tags: usize,
        /// The limit.
        tags_max: usize,
    },
    /// Another process executes the store.
    #[error("{message}")]
    Locked {
        /// The id of that process, if known.
        pid: Option<u32>,
        /// Who executes it, and what to do.
        message: String,
    },
    /// The store cannot be opened, read or written.
    #[error(transparent)]
    Store(store::Error),
    /// A file is not an export, or not a complete one.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The engine checked a store instead of executing one, because the environment asked for it.
    #[error("the store was checked instead of executed because OUTLIVE_CHECK is set: {summary}; unset it to execute")]
    Checked {
        /// A summary of the verdicts.
        summary: String,
    },
    /// A sink is misconfigured.
    #[error("the sink to {endpoint:?} {problem}")]
    Sink {
        /// Where the sink posts to.
        endpoint: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Another engine has taken over the store, so this one has stopped: its runs do not continue, and it accepts no
    /// calls.
    #[error(
        "another process has taken over {store}, so this engine has stopped; execute a store in one process, and \
         use `Client::open` in the others"
    )]
    Fenced {
        /// The store.
        store: String,
    },
    /// The engine is shutting down or has shut down.
    #[error("the engine has shut down; start a new one")]
    Shutdown,
    /// The engine is misconfigured.
    #[error("{0}")]
    Setup(String),
}

/// The category of an [`Error`], without its details.
///
/// ```
/// use outlive::{Error, ErrorKind};
/// fn http_status(error: &Error) -> u16 {
///     match error.kind() {
///         ErrorKind::NotFound => 404,
///         ErrorKind::Conflict => 409,
///         ErrorKind::Input => 422,
///         _ => 500,
///     }
/// }
/// assert_eq!(http_status(&Error::NotFound { id: "order-42".into() }), 404);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A step failed or was interrupted.
    Step,
    /// A step took longer than its timeout.
    Timeout,
    /// A wait timed out, in a run or in a caller.
    WaitTimeout,
    /// The run was cancelled.
    Cancelled,
    /// The run failed.
    Failed,
    /// The run is stuck.
    Stuck,
    /// A durable operation was used in the wrong place.
    Scope,
    /// What was asked for does not exist.
    NotFound,
    /// The request conflicts with the current state.
    Conflict,
    /// A value is invalid; the caller must fix it.
    Input,
    /// The store failed, or another process executes it.
    Store,
    /// The engine has shut down, lost its store to another one, or checked a store instead of executing it.
    Shutdown,
}

/// Lists the operations that a run can be rewound to.
fn listed(operations: &[String]) -> String {
    match operations {
        [] => "its start, as nothing else is recorded".to_owned(),
        _ => operations.join(", "),
    }
}

/// Returns what kind of thing an id names.
fn noun(id: &str) -> &'static str {
    match id.split_once(':').and_then(|(kind, _)| JobKind::from_text(kind)) {
        Some(_) => "job",
        None => "run",
    }
}

impl Error {
    /// Returns the category of the error.
    ///
    /// ```
    /// use outlive::{Error, ErrorKind};
    /// assert_eq!(Error::Shutdown.kind(), ErrorKind::Shutdown);
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Step { .. } | Self::RetryExhausted { .. } | Self::Interrupted { .. } => ErrorKind::Step,
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::NotHandled { .. } | Self::WaitTimeout { .. } => ErrorKind::WaitTimeout,
            Self::Cancelled { .. } => ErrorKind::Cancelled,
            Self::Failed { .. } | Self::Child { .. } => ErrorKind::Failed,
            Self::Stuck { .. } => ErrorKind::Stuck,
            Self::Scope { .. } | Self::HandlerReturned | Self::AttemptOver { .. } => ErrorKind::Scope,
            Self::NotFound { .. } | Self::NoDeadLetter { .. } => ErrorKind::NotFound,
            Self::Status { .. } | Self::Conflict { .. } | Self::ChildOf { .. } => ErrorKind::Conflict,
            Self::ForkChild { .. } => ErrorKind::Conflict,
            Self::NoRewindPoint { .. } | Self::AmbiguousPoint { .. } => ErrorKind::Input,
            Self::Unanswered { .. } | Self::StreamFull { .. } => ErrorKind::Conflict,
            Self::UnknownWorkflow { .. }
            | Self::UnknownJob { .. }
            | Self::JobName { .. }
            | Self::JobKind { .. }
            | Self::Schedule(_)
            | Self::NotProvided { .. }
            | Self::Provide { .. }
            | Self::Duration(_)
            | Self::Policy(_)
            | Self::Name(_)
            | Self::Payload { .. }
            | Self::PayloadTooLarge { .. }
            | Self::TooManyTags { .. }
            | Self::QuestionRefused { .. }
            | Self::Sink { .. }
            | Self::Setup(_) => ErrorKind::Input,
            Self::Locked { .. } | Self::Store(_) => ErrorKind::Store,
            Self::Export(_) => ErrorKind::Input,
            Self::Checked { .. } | Self::Fenced { .. } | Self::Shutdown => ErrorKind::Shutdown,
        }
    }

    /// Returns a short code for programs, which is the same in every version.
    ///
    /// ```
    /// use outlive::Error;
    /// assert_eq!(Error::Shutdown.code(), "shutdown");
    /// ```
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Step { .. } => "step",
            Self::RetryExhausted { .. } => "retry_exhausted",
            Self::Timeout { .. } => "timeout",
            Self::Interrupted { .. } => "interrupted",
            Self::Child { .. } => "child",
            Self::ChildOf { .. } => "child_of",
            Self::WaitTimeout { .. } => "wait_timeout",
            Self::Cancelled { .. } => "cancelled",
            Self::Scope { .. } => "scope",
            Self::HandlerReturned => "handler_returned",
            Self::AttemptOver { .. } => "attempt_over",
            Self::Failed { .. } => "failed",
            Self::Stuck { .. } => "stuck",
            Self::NotFound { .. } | Self::NoDeadLetter { .. } => "not_found",
            Self::Status { .. } => "status",
            Self::Conflict { .. } => "conflict",
            Self::NoRewindPoint { .. } => "no_rewind_point",
            Self::AmbiguousPoint { .. } => "ambiguous_point",
            Self::ForkChild { .. } => "fork_child",
            Self::UnknownWorkflow { .. } => "unknown_workflow",
            Self::UnknownJob { .. } => "unknown_job",
            Self::JobName { .. } => "job_name",
            Self::JobKind { .. } => "job_kind",
            Self::Schedule(_) => "schedule",
            Self::NotProvided { .. } => "not_provided",
            Self::Provide { .. } => "provide",
            Self::Duration(_) => "duration",
            Self::Policy(_) => "policy",
            Self::Name(_) => "name",
            Self::NotHandled { .. } => "not_handled",
            Self::Payload { .. } => "payload",
            Self::PayloadTooLarge { .. } => "payload_too_large",
            Self::TooManyTags { .. } => "too_many_tags",
            Self::StreamFull { .. } => "stream_full",
            Self::Unanswered { .. } => "unanswered",
            Self::QuestionRefused { .. } => "question_refused",
            Self::Locked { .. } => "locked",
            Self::Store(_) => "store",
            Self::Export(_) => "export",
            Self::Checked { .. } => "checked",
            Self::Sink { .. } => "sink",
            Self::Fenced { .. } => "fenced",
            Self::Shutdown => "shutdown",
            Self::Setup(_) => "setup",
        }
    }

    /// Returns `true` if the run was cancelled.
    ///
    /// ```
    /// assert!(outlive::Error::Cancelled { reason: "order withdrawn".into() }.is_cancelled());
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }

    /// Returns `true` if something took too long: a step, or a wait for a signal.
    ///
    /// ```
    /// use outlive::Error;
    /// let error = Error::WaitTimeout { name: "approval".into(), timeout: std::time::Duration::from_secs(60) };
    /// assert!(error.is_timeout());
    /// ```
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::WaitTimeout { .. })
    }

    /// Returns `true` if there is no such run or dead letter.
    ///
    /// ```
    /// assert!(outlive::Error::NotFound { id: "order-42".into() }.is_not_found());
    /// ```
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::NoDeadLetter { .. })
    }

    /// Returns `true` if the id is in use by another run.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// engine.start(double, &21).id("order-42").await?;
    /// assert!(engine.start(double, &7).id("order-42").await.unwrap_err().is_conflict());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// Returns `true` if the run is stuck.
    ///
    /// ```
    /// assert!(outlive::Error::Stuck { id: "order-42".into(), reason: "step \"charge\" is gone".into() }.is_stuck());
    /// ```
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        matches!(self, Self::Stuck { .. })
    }

    /// Returns `true` if another process executes the store.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("shop.db");
    /// let engine = Engine::open(&path).start().await?;
    /// assert!(Engine::open(&path).start().await.is_err_and(|error| error.is_locked()));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { .. })
    }

    /// Returns `true` if another engine has taken over this engine's store.
    ///
    /// ```
    /// use outlive::Error;
    /// fn exit_code(error: &Error) -> i32 {
    ///     if error.is_fenced() { 0 } else { 1 } // another process has taken over the work
    /// }
    /// assert_eq!(exit_code(&Error::Fenced { store: "shop.db".into() }), 0);
    /// ```
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }

    /// Returns the failure of user code behind this error, if there is one.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn pay(_: Ctx, _: ()) -> Result<()> { Err("no card".into()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("pay", pay).start().await?;
    /// let error = engine.start(pay, &()).await?.result().await.unwrap_err();
    /// assert_eq!(error.failure().unwrap().message, "no card");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Timeout { failure, .. } | Self::Child { failure, .. } => Some(failure),
            Self::Step { failure, .. }
            | Self::Interrupted { failure, .. }
            | Self::RetryExhausted { last: failure, .. }
            | Self::Failed { failure, .. } => Some(failure),
            _ => None,
        }
    }

    /// Returns the error of a step, if the step [keeps it](crate::ctx::Step::details) and it deserializes as an `E`.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
    /// #[error("declined with code {code}")]
    /// struct Declined { code: u32 }
    ///
    /// # async fn charge() -> Result<(), Declined> { Err(Declined { code: 51 }) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<Option<u32>> {
    ///     let Err(error) = ctx.step("charge", charge).details().await else { return Ok(None) };
    ///     Ok(error.details().map(|declined: Declined| declined.code))
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("pay", pay).start().await?;
    /// assert_eq!(engine.start(pay, &()).await?.result().await?, Some(51));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn details<E: DeserializeOwned>(&self) -> Option<E> {
        self.failure()?.details()
    }

    pub(crate) fn decode(what: String, payload: &Payload, error: &serde_json::Error) -> Self {
        let shown: String = payload.as_str().chars().take(120).collect();
        Self::Payload { what, problem: format!("{error} in {shown}") }
    }
}

/// Formats the error for people: this is what `main` prints when it returns an error.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self} ({})", self.code())
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error.kind {
            store::ErrorKind::Locked { pid } => Self::Locked { pid, message: error.message },
            _ => Self::Store(error),
        }
    }
}

/// Converts the error of a workflow to the failure that is recorded.
pub(crate) fn failure_of(error: &BoxError) -> Failure {
    let own = error.downcast_ref::<Error>().and_then(|error| error.failure());
    let mut failure = Failure::of(&**error);
    failure.details = own.and_then(|failure| failure.details.clone());
    failure
}
