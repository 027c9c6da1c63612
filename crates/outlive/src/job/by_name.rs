//! Access to jobs by name alone, for tools that know neither their types nor their handlers.

use outlive_core::event::Event;
use outlive_core::id::Name;
use outlive_core::kind::{JobKind, Kinds};
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::queue::{PushTarget, QueueRead};
use outlive_core::store::page::whole_inbox;
use outlive_core::store::query::{Filter, Instance};
use outlive_core::time::Timestamp;

use super::client::{JobClient, record_of, state_of};
use super::order::ResolveDead;
use super::outcome::{DeadLetter, JobInfo, JobStatus, Pushed};
use super::pool::{WorkerPool, WorkerPoolStatus, pool_status};
use super::task::SendEvent;
use crate::client::Client;
use crate::error::Error;
use crate::run::PageMark;

/// Instances per page, and the number of queued events to show.
const PAGE: usize = 100;
/// The id of the instance that holds the queue of a pool.
const MAIN: &str = WorkerPool::<()>::MAIN;

/// Summary of one job, as returned by [`Client::jobs`].
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const BEAT: Continuous<u32> = Continuous::new("heartbeat");
/// # async fn beat(_: ContinuousCtx<u32>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(BEAT.every("1 minute").execute(beat)).start().await?;
/// # engine.job(BEAT).start("paris", &0).await?;
/// let jobs: Vec<JobSummary> = engine.jobs().await?;
/// assert_eq!((jobs[0].job.as_str(), jobs[0].instances), ("continuous:heartbeat", 1));
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct JobSummary {
    /// The job's name with its kind, such as `task:orders`.
    pub job: String,
    /// The kind of job.
    pub kind: JobKind,
    /// The number of instances.
    pub instances: u64,
    /// Instances with work to do, now or at a known time.
    pub running: u64,
    /// Instances of a task that wait for the time they scheduled.
    pub scheduled: u64,
    /// Instances that wait for an event.
    pub idle: u64,
    /// Instances that were stopped.
    pub stopped: u64,
    /// Instances that are stuck.
    pub stuck: u64,
    /// Events of a pool that are waiting, delayed or being handled.
    pub queued: u64,
    /// The number of dead letters.
    pub dead: u64,
    /// The next time one of the instances acts by itself.
    pub next_run: Option<Timestamp>,
}

/// An instance of a job in a [`JobPage`].
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const BEAT: Continuous<u32> = Continuous::new("heartbeat");
/// # async fn beat(_: ContinuousCtx<u32>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(BEAT.every("1 minute").execute(beat)).start().await?;
/// # engine.job(BEAT).start("paris", &0).await?;
/// let page: JobPage = engine.job_instances(Filter::runs(), None).await?;
/// let paris: &JobInstance = &page.instances[0];
/// assert_eq!(paris.instance, "continuous:heartbeat:paris");
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct JobInstance {
    /// The full name of the instance: kind, job and id.
    pub instance: String,
    /// Details of the instance.
    pub info: JobInfo,
}

/// A page of job instances.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::JobPage;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").start().await?;
/// let page: JobPage = engine.job_instances(Filter::runs().workflow("task:orders"), None).await?;
/// assert!(page.instances.is_empty() && page.next.is_none());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobPage {
    /// The instances, newest first.
    pub instances: Vec<JobInstance>,
    /// Where the next page starts, if there is one.
    pub next: Option<PageMark>,
}

impl Client {
    /// Returns the jobs that have instances or dead letters, by name. Reads every instance.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").start().await?;
    /// assert!(engine.jobs().await?.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn jobs(&self) -> Result<Vec<JobSummary>, Error> {
        let mut jobs = Vec::new();
        for name in self.shared.store.jobs().await? {
            let Some(kind) = JobKind::of(&name) else { continue };
            let depth = self.shared.store.depth(&name, self.shared.clock.now()).await?;
            let mut summary = JobSummary::new(&name, kind);
            (summary.queued, summary.dead) = (depth.queued, depth.dead);
            let mut next = None;
            loop {
                let page = self.job_instances(Filter::runs().workflow(name.as_str()), next).await?;
                page.instances.iter().for_each(|found| summary.add(&found.info));
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
            jobs.push(summary);
        }
        Ok(jobs)
    }

    /// Lists the job instances that match a filter, newest first, one page at a time. Pass the [`next`](JobPage::next)
    /// of the previous page to continue. A page may be short even if more follow, as with [`list`](Self::list).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").start().await?;
    /// let stuck = engine.job_instances(Filter::runs().status(StatusKind::Stuck), None).await?;
    /// assert!(stuck.instances.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn job_instances(&self, mut filter: Filter, next: Option<PageMark>) -> Result<JobPage, Error> {
        filter.kinds = Kinds::Jobs;
        let page = self.shared.list(&filter, next.map(|mark| mark.0), PAGE).await?;
        let of = |instance: &Instance| JobInstance {
            instance: instance.id.to_string(),
            info: JobInfo::of(instance, &record_of(instance)),
        };
        Ok(JobPage { instances: page.instances.iter().map(of).collect(), next: page.next.map(PageMark) })
    }

    /// Returns the client of a job, given the job's name with its kind.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive::job::*;
    /// # const ORDERS: Task<u32, u32> = Task::new("orders");
    /// # async fn handle(ctx: TaskCtx<u32, u32>, n: u32) -> Result<()> { ctx.set_state(n); Ok(()) }
    /// # async fn check(_: TaskCtx<u32, u32>) -> Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").job(ORDERS.on_event(handle).execute(check)).start().await?;
    /// let orders = engine.job_by_name("task:orders")?;
    /// orders.send_json("42", "7").await?;
    /// assert!(engine.job_by_name("orders").is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::JobName`] if this is not the name of a job.
    pub fn job_by_name(&self, name: &str) -> Result<AnyJob, Error> {
        let refuse = || Error::JobName { name: name.to_owned() };
        let (kind, own) = name.split_once(':').ok_or_else(refuse)?;
        let kind = JobKind::from_text(kind).ok_or_else(refuse)?;
        let job = kind.job(own)?;
        Ok(AnyJob { client: JobClient::new(self, Ok(job.clone())), job, kind })
    }
}

impl JobSummary {
    fn new(job: &Name, kind: JobKind) -> Self {
        let (instances, running, scheduled, idle, stopped, stuck, queued, dead) = (0, 0, 0, 0, 0, 0, 0, 0);
        let job = job.to_string();
        Self { job, kind, instances, running, scheduled, idle, stopped, stuck, queued, dead, next_run: None }
    }

    fn add(&mut self, info: &JobInfo) {
        let count = match info.status {
            JobStatus::NotFound => return,
            JobStatus::Running => &mut self.running,
            JobStatus::Scheduled => &mut self.scheduled,
            JobStatus::Idle => &mut self.idle,
            JobStatus::Stopped => &mut self.stopped,
            JobStatus::Stuck => &mut self.stuck,
        };
        *count += 1;
        self.instances += 1;
        self.next_run = self.next_run.into_iter().chain(info.next_run).min();
    }
}

/// A message waiting for an instance, or an event waiting in the queue of a pool.
///
/// ```
/// use outlive::job::Waiting;
/// fn line(waiting: &Waiting) -> String {
///     let event = waiting.event.as_ref().map(ToString::to_string);
///     format!("{}: {} {}", waiting.number, waiting.what, event.unwrap_or_default())
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// Its number.
    pub number: u64,
    /// The type of message: `event`, `trigger`, `pause` and so on.
    pub what: &'static str,
    /// When it was accepted.
    pub at: Timestamp,
    /// The event as JSON, if this is an event.
    pub event: Option<Payload>,
    /// How many times handling it has failed, if this is an event of a pool.
    pub failed: u32,
}

/// The client of a job known only by name.
///
/// A message is durable when the call that sends it returns. The process that executes the store acts on it, now or
/// later.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const MAIL: WorkerPool<String> = WorkerPool::new("mail");
/// # async fn send(_: WorkerPoolCtx<String>, _: String) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(MAIL.concurrency(8).execute(send)).start().await?;
/// let mail: AnyJob = engine.job_by_name("pool:mail")?;
/// mail.push_json(r#""ada""#).await?;
/// engine.job(MAIL).wait_idle().await?;
/// assert_eq!(mail.status().await?.ready, 0);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct AnyJob {
    client: JobClient,
    job: Name,
    kind: JobKind,
}

impl AnyJob {
    /// Returns the job's name with its kind.
    #[must_use]
    pub fn name(&self) -> &str {
        self.job.as_str()
    }

    /// Returns the kind of job.
    #[must_use]
    pub fn kind(&self) -> JobKind {
        self.kind
    }

    /// Returns details of an instance.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub async fn info(&self, id: &str) -> Result<JobInfo, Error> {
        Ok(self.look(id).await?.0)
    }

    /// Returns the state of an instance as JSON, or the batch of a debounce.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub async fn state_json(&self, id: &str) -> Result<Option<Payload>, Error> {
        Ok(self.look(id).await?.1)
    }

    /// Returns details of an instance, and its state at that moment.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub async fn look(&self, id: &str) -> Result<(JobInfo, Option<Payload>), Error> {
        let instance = self.instance(id).await?;
        Ok((JobInfo::of(&instance, &record_of(&instance)), state_of(instance)))
    }

    /// Returns the messages waiting for an instance, in order; for a pool, the next events in its queue.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub async fn inbox(&self, id: &str) -> Result<Vec<Waiting>, Error> {
        let (num, shared) = (self.instance(id).await?.num, &self.client.shared);
        if self.kind == JobKind::Pool {
            let read = QueueRead { now: shared.clock.now(), after: None, limit: PAGE };
            let queued = shared.store.queue(num, read).await?.events.into_iter();
            let event = |event: Result<Event, String>| event.map_or((None, 0), |it| (Some(it.payload), it.failed));
            let waiting = queued.map(|queued| {
                let (event, failed) = event(queued.event);
                Waiting { number: queued.pos, what: "event", at: queued.at, event, failed }
            });
            return Ok(waiting.collect());
        }
        let inbox = whole_inbox(&*shared.store, num).await?.into_iter();
        Ok(inbox.map(|inbound| Waiting::of(inbound.pos, inbound.at, inbound.message)).collect())
    }

    /// Calls `execute` now; for a debounce, flushes the batch.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance, [`Error::JobKind`] if it is a pool.
    pub async fn trigger(&self, id: &str) -> Result<(), Error> {
        let kinds = [JobKind::Continuous, JobKind::Debounce, JobKind::Task];
        self.must_be(&kinds, "is a pool, which executes by itself; push an event instead")?;
        self.client.leave(id, Message::Trigger, None).await.map(drop)
    }

    /// Flushes the batch of a debounce now.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance, [`Error::JobKind`] if the job is not a debounce.
    pub async fn flush(&self, id: &str) -> Result<(), Error> {
        self.must_be(&[JobKind::Debounce], "collects no batch to flush; use `trigger` to execute it")?;
        self.client.leave(id, Message::Trigger, None).await.map(drop)
    }

    /// Sends an event to an instance, creating the instance if there is none.
    ///
    /// # Errors
    /// If the event is not JSON or cannot be accepted; [`Error::JobKind`] if the job takes no events or is a pool.
    pub fn send_json(&self, id: &str, event: &str) -> SendEvent {
        let kinds = [JobKind::Debounce, JobKind::Task];
        let takes = "does not take events for an instance; push to a pool, trigger a continuous job";
        let event = self.must_be(&kinds, takes).and_then(|()| parse(event));
        SendEvent::new(&self.client, id, event)
    }

    /// Pushes an event to a pool.
    ///
    /// # Errors
    /// If the event is not JSON or cannot be accepted; [`Error::JobKind`] if the job is not a pool.
    pub async fn push_json(&self, event: &str) -> Result<Pushed, Error> {
        self.must_be_pool()?;
        let accepted = self.client.push(MAIN, vec![parse(event)?], PushTarget::Queue).await?;
        let event = accepted.positions.first().copied().unwrap_or(0);
        Ok(Pushed { is_new: event > 0, event })
    }

    /// Removes an instance with its state and its events.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub async fn terminate(&self, id: &str, reason: &str) -> Result<(), Error> {
        let kinds = [JobKind::Continuous, JobKind::Debounce, JobKind::Task];
        self.must_be(&kinds, "is a pool and has no instance to terminate; pause it, or drop its dead letters")?;
        self.client.leave(id, Message::Terminate { reason: reason.to_owned() }, None).await.map(drop)
    }

    /// Pauses a pool: it starts no more handlers until it is resumed.
    ///
    /// # Errors
    /// [`Error::JobKind`] if the job is not a pool.
    pub async fn pause(&self) -> Result<(), Error> {
        self.must_be_pool()?;
        self.client.leave(MAIN, Message::Pause, None).await.map(drop)
    }

    /// Resumes a paused pool.
    ///
    /// # Errors
    /// [`Error::JobKind`] if the job is not a pool.
    pub async fn resume(&self) -> Result<(), Error> {
        self.must_be_pool()?;
        self.client.leave(MAIN, Message::Resume, None).await.map(drop)
    }

    /// Returns how many events of a pool are in which state. A pause or resume counts from the moment it is accepted.
    ///
    /// # Errors
    /// [`Error::NotFound`] if nothing was ever pushed, [`Error::JobKind`] if the job is not a pool.
    pub async fn status(&self) -> Result<WorkerPoolStatus, Error> {
        self.must_be_pool()?;
        self.instance(MAIN).await?;
        pool_status(&self.client).await
    }

    /// Returns the dead letters, oldest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn dead(&self) -> Result<Vec<DeadLetter<serde_json::Value>>, Error> {
        self.client.dead().await
    }

    /// Retries all dead letters, or [only](ResolveDead::only) one. Returns how many were retried.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn retry_dead(&self) -> ResolveDead {
        ResolveDead::new(&self.client, true)
    }

    /// Discards all dead letters, or [only](ResolveDead::only) one. Returns how many were discarded.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn discard_dead(&self) -> ResolveDead {
        ResolveDead::new(&self.client, false)
    }

    async fn instance(&self, id: &str) -> Result<Instance, Error> {
        let found = self.client.instance(id).await?;
        found.ok_or_else(|| Error::NotFound { id: format!("{}:{id}", self.job) })
    }

    fn must_be_pool(&self) -> Result<(), Error> {
        self.must_be(&[JobKind::Pool], "is not a pool; only a pool has a queue")
    }

    fn must_be(&self, kinds: &[JobKind], problem: &'static str) -> Result<(), Error> {
        match kinds.contains(&self.kind) {
            true => Ok(()),
            false => Err(Error::JobKind { job: self.job.to_string(), problem }),
        }
    }
}

impl Waiting {
    fn of(number: u64, at: Timestamp, message: Message) -> Self {
        let what = match &message {
            Message::Event(_) => "event",
            Message::Trigger => "trigger",
            Message::Clear => "clear",
            Message::Pause => "pause",
            Message::Resume => "resume",
            Message::Cancel { .. } => "cancel",
            Message::Terminate { .. } => "terminate",
            Message::Signal { .. } => "signal",
            _ => "message",
        };
        let (event, failed) = match message {
            Message::Event(event) => (Some(event.payload), event.failed),
            _ => (None, 0),
        };
        Self { number, what, at, event, failed }
    }
}

fn parse(event: &str) -> Result<Event, Error> {
    let payload = Payload::parse(event).map_err(|error| Error::Payload {
        what: format!("the event {:?} is not JSON that can be stored", event.chars().take(60).collect::<String>()),
        problem: error.to_string(),
    })?;
    Ok(Event::new(payload))
}
