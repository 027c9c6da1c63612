//! What our API could not do, and what a durable operation tells user code.

mod export;

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

/// Any error of user code.
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

/// Why something could not be done. Match on it, or ask [`kind`](Self::kind), [`code`](Self::code) or a predicate.
///
/// ```
/// use outlive::{Engine, Error};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> outlive::prelude::Result<()> {
/// let engine = Engine::open("memory:").start().await?;
/// let error = engine.run::<()>("no-such-run").await.unwrap_err();
/// assert!(matches!(error, Error::NotFound { .. }) && error.is_not_found());
/// assert_eq!(error.code(), "not_found");
/// # Ok(()) }
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A step failed with an error that is not tried again.
    #[error("step {step:?} failed: {failure}")]
    Step {
        /// The step's name.
        step: String,
        /// What it failed with.
        failure: Failure,
    },
    /// A step failed and its retry policy allows no more attempts.
    #[error("step {step:?} gave up after {attempts} attempts ({}): {last}", reason.as_str())]
    RetryExhausted {
        /// The step's name.
        step: String,
        /// How many attempts were made.
        attempts: u32,
        /// What ran out.
        reason: Reason,
        /// What the last attempt failed with.
        last: Failure,
    },
    /// A step took longer than its timeout.
    #[error("step {step:?} {failure}")]
    Timeout {
        /// The step's name.
        step: String,
        /// The time it had.
        timeout: Duration,
        /// The time that had passed when it was ended; more than it had if nothing ran when that was over.
        elapsed: Duration,
        /// What is recorded of it.
        failure: Box<Failure>,
    },
    /// The process ended while a step ran that may run at most once.
    #[error("step {step:?} was interrupted: {failure}; find out whether it took effect, then decide in the workflow")]
    Interrupted {
        /// The step's name.
        step: String,
        /// What is recorded of it.
        failure: Failure,
    },
    /// No signal came in time.
    #[error("no signal {name:?} came within {}", duration::text(*timeout))]
    WaitTimeout {
        /// The signal's name.
        name: String,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// The run was cancelled.
    #[error("cancelled: {reason}")]
    Cancelled {
        /// Why.
        reason: String,
    },
    /// A durable operation was used where it cannot be recorded: inside a step, or outside its workflow.
    #[error("{operation} was polled {place}; durable operations belong in the workflow function itself")]
    Scope {
        /// The operation.
        operation: String,
        /// Where it was polled.
        place: &'static str,
    },
    /// The run failed: its workflow returned an error.
    #[error("{} {id:?} failed: {failure}", noun(id))]
    Failed {
        /// The run.
        id: String,
        /// What the workflow returned.
        failure: Failure,
    },
    /// The run is set aside until its code or data is mended.
    #[error("{} {id:?} is stuck: {reason}", noun(id))]
    Stuck {
        /// The run.
        id: String,
        /// What was recorded, what the code asked for, and what to do.
        reason: String,
    },
    /// There is no such run.
    #[error("there is no {} {id:?}; it was never started here, or nothing of it is kept", noun(id))]
    NotFound {
        /// The run.
        id: String,
    },
    /// The job has no such dead letter: it was retried or discarded, or never was one.
    #[error("job {job:?} has no dead letter {number}; list those it has with `dead`")]
    NoDeadLetter {
        /// The job.
        job: String,
        /// The number that was asked for.
        number: u64,
    },
    /// The run is not in a state for this.
    #[error("{} {id:?} is {status}; {way_out}", noun(id))]
    Status {
        /// The run.
        id: String,
        /// Its status.
        status: Status,
        /// What to do.
        way_out: &'static str,
    },
    /// The id belongs to another run.
    #[error(
        "run id {id:?} is taken by a run of {workflow:?} {how}; use another id, or `.on_conflict(OnConflict::Replace)`"
    )]
    Conflict {
        /// The id.
        id: String,
        /// The workflow of the run that has it.
        workflow: String,
        /// In what it differs.
        how: &'static str,
    },
    /// No workflow of that name, or that function, is registered.
    #[error(
        "{workflow} is not registered here (registered: {known}); add `.workflow(\"name\", function)` to the engine"
    )]
    UnknownWorkflow {
        /// What was asked for.
        workflow: String,
        /// What there is.
        known: String,
    },
    /// A job that this engine does not know.
    #[error("job {job:?} is not registered here (registered: {known}); add `.job(..)` to the engine")]
    UnknownJob {
        /// Its name.
        job: String,
        /// Those it knows.
        known: String,
    },
    /// It is not the name of a job.
    #[error(
        "{name:?} is not the name of a job; write it as KIND:NAME, where KIND is one of continuous, debounce, task, pool"
    )]
    JobName {
        /// What was given.
        name: String,
    },
    /// The job is of another kind.
    #[error("job {job:?} {problem}")]
    JobKind {
        /// The job.
        job: String,
        /// What it is or lacks, and the way out.
        problem: &'static str,
    },
    /// What is wrong with a schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A value was not provided to the engine.
    #[error("no value of type {type_name} was provided (provided: {known}); add `.provide(value)` to the engine")]
    NotProvided {
        /// The type.
        type_name: &'static str,
        /// The types that were.
        known: String,
    },
    /// A value that [`provide_with`](crate::Builder::provide_with) was to make could not be made.
    #[error("the value of type {type_name} could not be made: {failure}; no run has begun")]
    Provide {
        /// The type.
        type_name: &'static str,
        /// What went wrong.
        failure: Failure,
    },
    /// Text that is no duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// A retry policy that makes no sense.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Text that cannot be a name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A message to a job was stored, and was not acted on within the time that the caller waits.
    #[error(
        "the message to {id} is stored, but was not acted on within {limit:?}; it is not lost: do not send it again, \
         and check that a process executes the store"
    )]
    NotHandled {
        /// The instance.
        id: String,
        /// How long the caller waited.
        limit: Duration,
    },
    /// A value that cannot be written as JSON, or JSON that does not fit the type.
    #[error("{what}: {problem}")]
    Payload {
        /// What it was to be.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A value that is larger than the engine takes.
    #[error(
        "{what} has {bytes} bytes of JSON; the limit is {bytes_max}: keep a reference to it instead, or raise `payload_max`"
    )]
    PayloadTooLarge {
        /// What it was to be.
        what: String,
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A run with more tags than it may have.
    #[error("a run may have {tags_max} tags, and this one has {tags}; put the rest into its input")]
    TooManyTags {
        /// How many it was to have.
        tags: usize,
        /// The limit.
        tags_max: usize,
    },
    /// Another process executes the store.
    #[error("{message}")]
    Locked {
        /// That process, if it said so.
        pid: Option<u32>,
        /// What to do.
        message: String,
    },
    /// The store cannot be opened, read or written.
    #[error(transparent)]
    Store(store::Error),
    /// A file that is no export, or not a whole one.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The engine was to check a store and not to execute any, as the environment said; it has.
    #[error(
        "the store was checked instead of executed, as OUTLIVE_CHECK asks: {summary}; unset OUTLIVE_CHECK to execute"
    )]
    Checked {
        /// What came of it.
        summary: String,
    },
    /// A sink cannot work.
    #[error("the sink to {endpoint:?} {problem}")]
    Sink {
        /// Where it is to post.
        endpoint: String,
        /// What is wrong, and the way out.
        problem: String,
    },
    /// Another engine has taken over the store, so this one has stopped: none of its runs go on, and it takes no calls.
    #[error(
        "another process executes {store} now, so this engine has stopped; let one process execute a store, and reach \
         it from others with `Client::open`"
    )]
    Fenced {
        /// The store.
        store: String,
    },
    /// The engine is shutting down or gone.
    #[error("the engine is shut down; start another one")]
    Shutdown,
    /// The engine was set up in a way that cannot work.
    #[error("{0}")]
    Setup(String),
}

/// What an [`Error`] is about, without its details.
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
    /// A wait gave up, of a run or of a caller.
    WaitTimeout,
    /// The run was cancelled.
    Cancelled,
    /// The run failed.
    Failed,
    /// The run is stuck.
    Stuck,
    /// A durable operation in the wrong place.
    Scope,
    /// What was asked for is not there.
    NotFound,
    /// What was asked for does not fit what is there.
    Conflict,
    /// A value that the caller must mend.
    Input,
    /// The store.
    Store,
    /// The engine is gone, has lost its store to another one, or was not to execute.
    Shutdown,
}

/// What an id is of.
fn noun(id: &str) -> &'static str {
    match id.split_once(':').and_then(|(kind, _)| JobKind::from_text(kind)) {
        Some(_) => "job",
        None => "run",
    }
}

impl Error {
    /// What it is about.
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
            Self::Failed { .. } => ErrorKind::Failed,
            Self::Stuck { .. } => ErrorKind::Stuck,
            Self::Scope { .. } => ErrorKind::Scope,
            Self::NotFound { .. } | Self::NoDeadLetter { .. } => ErrorKind::NotFound,
            Self::Status { .. } | Self::Conflict { .. } => ErrorKind::Conflict,
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
            | Self::Sink { .. }
            | Self::Setup(_) => ErrorKind::Input,
            Self::Locked { .. } | Self::Store(_) => ErrorKind::Store,
            Self::Export(_) => ErrorKind::Input,
            Self::Checked { .. } | Self::Fenced { .. } | Self::Shutdown => ErrorKind::Shutdown,
        }
    }

    /// A short word for programs, the same in every version.
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
            Self::WaitTimeout { .. } => "wait_timeout",
            Self::Cancelled { .. } => "cancelled",
            Self::Scope { .. } => "scope",
            Self::Failed { .. } => "failed",
            Self::Stuck { .. } => "stuck",
            Self::NotFound { .. } | Self::NoDeadLetter { .. } => "not_found",
            Self::Status { .. } => "status",
            Self::Conflict { .. } => "conflict",
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

    /// Whether the run was cancelled.
    ///
    /// ```
    /// assert!(outlive::Error::Cancelled { reason: "order withdrawn".into() }.is_cancelled());
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }

    /// Whether something took too long: a step, or a wait for a signal.
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

    /// Whether there is no such run.
    ///
    /// ```
    /// assert!(outlive::Error::NotFound { id: "order-42".into() }.is_not_found());
    /// ```
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::NoDeadLetter { .. })
    }

    /// Whether the id belongs to another run.
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

    /// Whether the run is stuck.
    ///
    /// ```
    /// assert!(outlive::Error::Stuck { id: "order-42".into(), reason: "step \"charge\" is gone".into() }.is_stuck());
    /// ```
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        matches!(self, Self::Stuck { .. })
    }

    /// Whether another process executes the store.
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

    /// Whether another engine has taken over the store of this one.
    ///
    /// ```
    /// use outlive::Error;
    /// fn exit_code(error: &Error) -> i32 {
    ///     if error.is_fenced() { 0 } else { 1 } // another process goes on with the work
    /// }
    /// assert_eq!(exit_code(&Error::Fenced { store: "shop.db".into() }), 0);
    /// ```
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }

    /// What user code failed with, if that is what it is about.
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
            Self::Timeout { failure, .. } => Some(failure),
            Self::Step { failure, .. }
            | Self::Interrupted { failure, .. }
            | Self::RetryExhausted { last: failure, .. }
            | Self::Failed { failure, .. } => Some(failure),
            _ => None,
        }
    }

    /// The error that a step returned, if the step was told to [keep it](crate::ctx::Step::details) and it reads back as an `E`.
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

/// As for people: this is what `main` prints when it returns an error.
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

/// An error that is not to be tried again, whatever the retry policy says.
///
/// ```
/// use outlive::prelude::*;
/// async fn charge(card: &str) -> Result<u32> {
///     if card.is_empty() {
///         return Err(Permanent("no card").into());
///     }
///     Ok(42)
/// }
/// ```
#[expect(non_snake_case, reason = "it reads as the wrapper it is: `Permanent(error)`")]
pub fn Permanent(error: impl Into<BoxError>) -> PermanentError {
    PermanentError(Marked(error.into()))
}

/// What [`Permanent`] makes.
///
/// ```
/// use outlive::{Permanent, PermanentError};
/// fn check(card: &str) -> Result<(), PermanentError> {
///     if card.is_empty() { Err(Permanent("no card")) } else { Ok(()) }
/// }
/// assert_eq!(check("").unwrap_err().to_string(), "no card");
/// ```
#[derive(Debug)]
pub struct PermanentError(Marked);

/// Behind every permanent error in the chain of causes, so that it is found however the error was wrapped.
#[derive(Debug)]
struct Marked(BoxError);

impl std::fmt::Display for PermanentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.0.fmt(f)
    }
}

impl std::error::Error for PermanentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl std::fmt::Display for Marked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Marked {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Whether an error, or one behind it, is [`Permanent`].
pub(crate) fn is_permanent(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<Marked>() || error.is::<PermanentError>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// The first error of type `E` among an error and those behind it, also inside of a [`Permanent`] one.
pub(crate) fn find<'e, E: std::error::Error + 'static>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        // The source of a marked error is that of the one it holds.
        let held = error.downcast_ref::<Marked>().map_or(error, |marked| &*marked.0);
        if let Some(found) = held.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// What is kept of the error of a workflow.
pub(crate) fn failure_of(error: &BoxError) -> Failure {
    let own = error.downcast_ref::<Error>().and_then(|error| error.failure());
    let mut failure = Failure::of(&**error);
    failure.details = own.and_then(|failure| failure.details.clone());
    failure
}
