//! Results that job clients return.

use std::marker::PhantomData;

use outlive_core::failure::{Cause, Failure};
use outlive_core::kind::JobKind;
use outlive_core::payload::Payload;
use outlive_core::queue::Dead;
use outlive_core::status::Status;
use outlive_core::store::query::Instance;
use outlive_core::time::Timestamp;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::instance::codec;

/// The outcome of starting an instance that may already exist.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const BEAT: Continuous<u32> = Continuous::new("heartbeat");
/// # async fn beat(_: ContinuousCtx<u32>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(BEAT.every("1 minute").execute(beat)).start().await?;
/// let started: Started = engine.job(BEAT).start("paris", &0).await?;
/// assert!(started.created && started.instance == "continuous:heartbeat:paris");
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Started {
    /// `true` if this call created the instance.
    pub created: bool,
    /// The full name of the instance: kind, job and id.
    pub instance: String,
    /// The status of the instance.
    pub status: Status,
}

/// The outcome of sending an event to a task.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const ORDERS: Task<u32, u32> = Task::new("orders");
/// # async fn handle(_: TaskCtx<u32, u32>, _: u32) -> Result<()> { Ok(()) }
/// # async fn check(_: TaskCtx<u32, u32>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(ORDERS.on_event(handle).execute(check)).start().await?;
/// let sent: Sent = engine.job(ORDERS).send("42", &1).await?;
/// assert!(sent.created && sent.is_new);
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// `true` if this call created the instance.
    pub created: bool,
    /// The full name of the instance.
    pub instance: String,
    /// `true` if the event is new, `false` if the instance has already received one with its key.
    pub is_new: bool,
    /// The event's number; 0 if it is not new.
    pub event: u64,
}

/// The outcome of adding an event to a debounce.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const HOOKS: Debounce<u32, u32> = Debounce::new("hooks");
/// # async fn flush(_: DebounceCtx<u32, u32>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(HOOKS.flush_after("5 seconds").execute(flush)).start().await?;
/// let added: Added = engine.job(HOOKS).add("shop", &1).await?;
/// assert!(added.created && added.event_count == 1 && added.flush_at.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Added {
    /// `true` if this call created the instance.
    pub created: bool,
    /// `true` if the event is new, `false` if the batch already has one with its key.
    pub is_new: bool,
    /// The number of events in the batch so far; a lower bound if hundreds are pending and the call did not wait.
    pub event_count: u64,
    /// The latest time at which the batch is flushed, if known. The batch after one that is being flushed has no time
    /// yet.
    pub flush_at: Option<Timestamp>,
}

/// The outcome of pushing an event to a pool.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const MAIL: WorkerPool<u32> = WorkerPool::new("mail");
/// # async fn send(_: WorkerPoolCtx<u32>, _: u32) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(MAIL.concurrency(8).execute(send)).start().await?;
/// let pushed: Pushed = engine.job(MAIL).push(&1).await?;
/// assert!(pushed.is_new);
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Pushed {
    /// `true` if the event is new, `false` if the queue already has one with its key.
    pub is_new: bool,
    /// The event's number; 0 if it is not new.
    pub event: u64,
}

/// The status of a job instance, whatever its kind.
///
/// ```
/// use outlive::job::JobStatus;
/// assert_ne!(JobStatus::Running, JobStatus::Stopped);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JobStatus {
    /// The instance does not exist.
    NotFound,
    /// The instance has work to do, now or at a known time. For a task: now, or a pending retry.
    Running,
    /// A task waiting for the time it scheduled, [`JobInfo::next_run`].
    Scheduled,
    /// Waiting for an event.
    Idle,
    /// Stopped by a caller.
    Stopped,
    /// Stuck; [`JobInfo::note`] says why.
    Stuck,
}

impl JobStatus {
    /// Returns the status as text.
    ///
    /// ```
    /// assert_eq!(outlive::job::JobStatus::NotFound.as_str(), "not found");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not found",
            Self::Running => "running",
            Self::Scheduled => "scheduled",
            Self::Idle => "idle",
            Self::Stopped => "stopped",
            Self::Stuck => "stuck",
        }
    }
}

/// Details of a job instance.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const BEAT: Continuous<u32> = Continuous::new("heartbeat");
/// # async fn beat(_: ContinuousCtx<u32>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(BEAT.every("1 minute").execute(beat)).start().await?;
/// let info: JobInfo = engine.job(BEAT).status("paris").await?;
/// assert_eq!((info.status, info.run_count), (JobStatus::NotFound, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct JobInfo {
    /// The status.
    pub status: JobStatus,
    /// How many times `execute` has finished.
    pub run_count: u64,
    /// The number of events handled so far; for a debounce, the number in the batch.
    pub event_count: u64,
    /// The next time the instance acts by itself: the next run, flush, wake or retry.
    pub next_run: Option<Timestamp>,
    /// Failed attempts of the call that is being retried; 0 if none is.
    pub failed: u32,
    /// When the instance was created.
    pub created_at: Option<Timestamp>,
    /// The last failure, as text.
    pub last_error: Option<String>,
    /// Why the instance is stuck.
    pub note: Option<String>,
}

impl JobInfo {
    pub(crate) fn not_found() -> Self {
        Self {
            status: JobStatus::NotFound,
            run_count: 0,
            event_count: 0,
            next_run: None,
            failed: 0,
            created_at: None,
            last_error: None,
            note: None,
        }
    }

    /// Builds the details from the stored instance.
    pub(crate) fn of(instance: &Instance, record: &outlive_core::job::Record) -> Self {
        let is_task = JobKind::of(&instance.workflow) == Some(JobKind::Task);
        let status = match instance.status {
            Status::Stuck => JobStatus::Stuck,
            Status::Paused => JobStatus::Stopped,
            Status::Waiting { until: None } if instance.wake.is_none() => JobStatus::Idle,
            Status::Sleeping { .. } if is_task => JobStatus::Scheduled,
            status if status.is_ended() => JobStatus::NotFound,
            _ => JobStatus::Running,
        };
        Self {
            status,
            run_count: record.runs,
            event_count: record.events,
            next_run: instance.status.until().or(instance.wake.filter(|wake| *wake > Timestamp::AT_ONCE)),
            failed: record.retry.as_ref().map_or(0, |retry| retry.failed),
            created_at: Some(instance.created_at),
            last_error: record.error.clone(),
            note: instance.note.clone(),
        }
    }
}

/// An event or a batch that was given up, kept for people to look at.
///
/// ```
/// use outlive::job::DeadLetter;
/// fn line(dead: &DeadLetter<String>) -> String {
///     format!("{}: {:?} failed {} times: {}", dead.number, dead.event(), dead.attempts, dead.failure)
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter<E> {
    /// Its number, for [`ResolveDead::only`](crate::job::ResolveDead::only).
    pub number: u64,
    /// The id of the instance it was for.
    pub instance: String,
    /// The event or the batch, as JSON.
    pub json: Payload,
    /// The number of events it stands for: more than one if it is a batch.
    pub events: u64,
    /// How many attempts were made.
    pub attempts: u32,
    /// The last failure.
    pub failure: Failure,
    /// When it was given up.
    pub at: Timestamp,
    types: PhantomData<fn() -> E>,
}

impl<E> DeadLetter<E> {
    pub(crate) fn of(dead: Dead) -> Self {
        Self {
            number: dead.pos,
            instance: JobKind::own_id(&dead.id).to_owned(),
            json: dead.event.payload,
            events: dead.event.batch.max(1),
            attempts: dead.attempts,
            failure: failure_of(&dead.failure),
            at: dead.at,
            types: PhantomData,
        }
    }

    /// Decodes the event or the batch.
    ///
    /// # Errors
    /// [`Error::Payload`] if it does not decode as `E`, which may be why it was given up.
    pub fn event(&self) -> Result<E, Error>
    where
        E: DeserializeOwned,
    {
        codec::decode(&format!("dead letter {}", self.number), &self.json)
    }
}

pub(crate) fn failure_of(payload: &Payload) -> Failure {
    Failure::from_payload(payload).unwrap_or_else(|_| Failure::new(Cause::Error, payload.as_str()))
}
