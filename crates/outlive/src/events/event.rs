//! One lifecycle event: for programs, as JSON, and as a line for people.

use std::fmt;
use std::str::FromStr;

use outlive_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::kind::{JobWork, LifecycleKind, RetryScheduled};
use crate::error::Error;

/// One thing that happened to a run or to an instance of a job, reported because it was committed; or an attempt of a
/// step that begins, reported live in the process that executes it.
///
/// As JSON it is flat: these fields, `type`, and the fields of its [`kind`](Self::kind). The schema is in
/// `docs/lifecycle-events.schema.json`. Times are milliseconds since 1970.
///
/// ```
/// use outlive::LifecycleKind;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
/// let mut events = engine.events().await?;
/// engine.start(double, &21).id("twice").await?;
/// let event = events.next().await?;
/// assert_eq!((event.number, &event.kind), (1, &LifecycleKind::RunQueued));
/// assert_eq!((event.instance.as_str(), event.name.as_str()), ("twice", "double"));
/// assert!(serde_json::to_string(&event)?.contains(r#""type":"run.queued""#));
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct LifecycleEvent {
    /// The event's own id: the same for every subscriber, whenever it is read.
    pub id: String,
    /// When it happened.
    pub at: Timestamp,
    /// The event's number within its instance, from 1, without a gap; 0 if it is not [committed](Self::is_committed).
    pub number: u64,
    /// The id of the run, or of the instance of a job.
    pub instance: String,
    /// The workflow, or the job with its kind, as `task:orders`.
    pub name: String,
    /// What happened.
    #[serde(flatten)]
    pub kind: LifecycleKind,
    /// The event's position in the feed.
    pub(super) cursor: Cursor,
}

impl LifecycleEvent {
    /// Returns `true` if the event is committed, as all are but [`StepStarted`](LifecycleKind::StepStarted) of most
    /// steps. An event that is not is reported live by the process in which it happens, and never later.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("pay", pay).start().await?;
    /// let mut events = engine.events().await?;
    /// engine.start(pay, &()).await?.result().await?;
    /// let told = events.read(100).await?;
    /// let told: Vec<_> = told.iter().map(|event| (event.kind.as_str(), event.is_committed())).collect();
    /// assert_eq!(told[1..4], [("run.started", true), ("step.started", false), ("step.completed", true)]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.number > 0
    }

    /// Returns the position just after this event: a subscription that resumes [there](crate::Subscribe::since) neither
    /// misses nor repeats anything.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// # engine.start(double, &21).await?.result().await?;
    /// let queued = engine.events().from_start().await?.next().await?;
    /// let started = engine.events().since(queued.cursor()).await?.next().await?;
    /// assert_eq!(started.number, 2);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }
}

/// A position in the feed of a store, to resume from. Later positions are greater.
///
/// ```
/// use outlive::Cursor;
/// let cursor: Cursor = "84".parse()?;
/// assert_eq!(cursor.to_string(), "84");
/// assert!(cursor > Cursor::START && "here".parse::<Cursor>().is_err());
/// # Ok::<(), outlive::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Cursor(u64);

impl Cursor {
    /// The position before the first event.
    ///
    /// ```
    /// assert_eq!(outlive::Cursor::START.to_string(), "0");
    /// ```
    pub const START: Self = Self(0);

    /// Returns the position after all events of the feed entry at `pos`.
    pub(crate) fn after(pos: u64) -> Self {
        Self(pos.saturating_mul(2))
    }

    /// Returns the position between the two events of the feed entry at `pos`.
    pub(crate) fn within(pos: u64) -> Self {
        Self(pos.saturating_mul(2).saturating_sub(1))
    }

    /// Returns the position of the last feed entry of which no event is left.
    pub(crate) fn pos(self) -> u64 {
        self.0 / 2
    }

    /// Returns the number that a store keeps.
    #[cfg(feature = "http")]
    pub(crate) fn to_mark(self) -> u64 {
        self.0
    }

    /// The inverse of [`to_mark`](Self::to_mark).
    #[cfg(feature = "http")]
    pub(crate) fn from_mark(mark: u64) -> Self {
        Self(mark)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let number = text.parse().map(Self);
        number.map_err(|_| Error::Setup(format!("{text:?} is not a cursor; use what `event.cursor()` returned")))
    }
}

/// Writes one line for people.
impl fmt::Display for LifecycleEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, name, instance, number, kind, .. } = self;
        write!(f, "{at} {name} {instance} #{number} {kind}")
    }
}

impl fmt::Display for LifecycleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            Self::RunPaused { why, until: Some(until) } => write!(f, " ({} until {until})", why.as_str()),
            Self::RunPaused { why, until: None } => write!(f, " ({})", why.as_str()),
            Self::RunFailed { failure } => write!(f, ": {failure}"),
            Self::RunUnwinding { reason }
            | Self::RunCancelling { reason }
            | Self::RunCancelled { reason }
            | Self::RunStuck { reason }
            | Self::JobStuck { reason } => write!(f, ": {reason}"),
            Self::StepStarted { operation, attempt, .. } | Self::StepCompleted { operation, attempt, .. } => {
                write!(f, " {operation} (attempt {attempt})")
            }
            Self::StepFailed { operation, attempt, failure, retry, exhausted, .. } => {
                write!(f, " {operation} (attempt {attempt}): {failure}")?;
                followed(f, retry.as_ref(), exhausted.map(|reason| reason.as_str()))
            }
            Self::SleepSet { operation, until } | Self::WaitSet { operation, until, .. } => {
                write!(f, " {operation} until {until}")
            }
            Self::SignalRefused { operation, problem, .. } => write!(f, " {operation}: {problem}"),
            Self::SignalDiscarded { entry } => write!(f, " entry {entry}"),
            Self::ChildEnded { operation, failure: Some(failure), .. } => write!(f, " {operation}: {failure}"),
            Self::EffectSent { operation, to } | Self::EffectRefused { operation, to } => {
                write!(f, " {operation} to {to}")
            }
            Self::ChildStarted { operation, child } => write!(f, " {operation} as {child}"),
            Self::SleepDone { operation }
            | Self::ChildEnded { operation, .. }
            | Self::RunPatched { operation, .. }
            | Self::StepHeartbeat { operation, .. }
            | Self::BreakerOpened { operation, .. }
            | Self::BreakerHalfOpened { operation, .. }
            | Self::BreakerClosed { operation, .. }
            | Self::UndoPlanned { operation, .. }
            | Self::ValuePublished { operation, .. }
            | Self::ItemAppended { operation, .. }
            | Self::AppendRefused { operation, .. }
            | Self::QuestionTaken { operation, .. }
            | Self::QuestionAnswered { operation, .. }
            | Self::SignalTaken { operation, .. }
            | Self::WaitTimedOut { operation, .. }
            | Self::OperationCancelled { operation } => write!(f, " {operation}"),
            other => of_job(f, other),
        }
    }
}

fn followed(f: &mut fmt::Formatter<'_>, retry: Option<&RetryScheduled>, exhausted: Option<&str>) -> fmt::Result {
    match (retry, exhausted) {
        (Some(retry), _) => write!(f, "; attempt {} at {}", retry.attempt, retry.due),
        (None, Some(reason)) => write!(f, "; no more ({reason})"),
        (None, None) => Ok(()),
    }
}

fn of_job(f: &mut fmt::Formatter<'_>, kind: &LifecycleKind) -> fmt::Result {
    match kind {
        LifecycleKind::JobFailed { work, attempt, error, retry, .. } => {
            write!(f, "{work} (attempt {attempt}): {error}")?;
            followed(f, retry.as_ref(), None)
        }
        LifecycleKind::JobExhausted { work, attempt, reason, .. } => {
            write!(f, "{work} (attempt {attempt})")?;
            followed(f, None, Some(reason))
        }
        LifecycleKind::JobStarted { work }
        | LifecycleKind::JobExecuted { work }
        | LifecycleKind::EventHandled { work, .. }
        | LifecycleKind::DebounceCleared { work } => write!(f, "{work}"),
        LifecycleKind::DebounceFlushed { work, reason } | LifecycleKind::JobTerminated { work, reason } => {
            write!(f, "{work}")?;
            reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
        }
        LifecycleKind::JobStopped { reason } => reason.iter().try_for_each(|reason| write!(f, ": {reason}")),
        LifecycleKind::DebounceStarted { work, until: due } | LifecycleKind::TaskScheduled { work, due } => {
            write!(f, "{work}")?;
            due.iter().try_for_each(|due| write!(f, " until {due}"))
        }
        _ => Ok(()),
    }
}

impl fmt::Display for JobWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handler.iter().try_for_each(|handler| write!(f, " {handler}"))?;
        self.run.iter().try_for_each(|run| write!(f, " run {run}"))?;
        self.event.iter().try_for_each(|event| write!(f, " event {event}"))?;
        self.events.iter().try_for_each(|events| write!(f, " {events} events"))?;
        self.duration_ms.iter().try_for_each(|millis| write!(f, " in {millis} ms"))
    }
}
