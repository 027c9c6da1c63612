//! Jobs by their names alone: for tools, which know neither their types nor their handlers.

use outlive_core::event::Event;
use outlive_core::id::Name;
use outlive_core::kind::{JobKind, Kinds};
use outlive_core::message::Message;
use outlive_core::page::whole_inbox;
use outlive_core::payload::Payload;
use outlive_core::query::{Filter, Instance};
use outlive_core::queue::{Place, QueueRead};
use outlive_core::time::Timestamp;

use super::answer::{DeadLetter, JobInfo, JobStatus, Pushed, Sent};
use super::client::{JobClient, record_of, state_of};
use super::pool::{PoolStatus, WorkerPool, pool_status};
use crate::client::{Client, PageMark};
use crate::error::Error;

/// How many instances are on a page, and how many events of a queue are shown.
const PAGE: usize = 100;
/// The id of the instance that holds the queue of a pool.
const MAIN: &str = WorkerPool::<()>::MAIN;

/// What there is of a job: one line of [`Client::jobs`].
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
    /// Its name with its kind, as `task:orders`.
    pub job: String,
    /// Its kind.
    pub kind: JobKind,
    /// How many instances it has.
    pub instances: u64,
    /// Of them, those that have something to do, now or at a time.
    pub running: u64,
    /// Of a task: those that wait for the time they set.
    pub scheduled: u64,
    /// Of them, those that wait for an event.
    pub idle: u64,
    /// Of them, those that somebody stopped.
    pub stopped: u64,
    /// Of them, those that were set aside.
    pub stuck: u64,
    /// How many events of a pool wait or are handled, the delayed among them.
    pub queued: u64,
    /// How many dead letters there are.
    pub dead: u64,
    /// When the next of its instances goes on by itself.
    pub next_run: Option<Timestamp>,
}

/// An instance of a job, as a list has it.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const BEAT: Continuous<u32> = Continuous::new("heartbeat");
/// # async fn beat(_: ContinuousCtx<u32>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(BEAT.every("1 minute").execute(beat)).start().await?;
/// # engine.job(BEAT).start("paris", &0).await?;
/// let page: JobPage = engine.job_instances(Filter::new(), None).await?;
/// let paris: &JobInstance = &page.instances[0];
/// assert_eq!(paris.instance, "continuous:heartbeat:paris");
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct JobInstance {
    /// Its whole name: kind, job and id.
    pub instance: String,
    /// What is known of it.
    pub info: JobInfo,
}

/// A part of a list of instances.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::JobPage;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").start().await?;
/// let page: JobPage = engine.job_instances(Filter::new().workflow("task:orders"), None).await?;
/// assert!(page.instances.is_empty() && page.next.is_none());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobPage {
    /// The instances, newest first.
    pub instances: Vec<JobInstance>,
    /// Where the next page begins, if there is one.
    pub next: Option<PageMark>,
}

impl Client {
    /// The jobs that have instances or dead letters, by name. It looks at each instance.
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
                let page = self.job_instances(Filter::new().workflow(name.as_str()), next).await?;
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

    /// Lists instances of jobs that a filter means, newest first, a page at a time; give the [`next`](JobPage::next) of
    /// the page before. A page may be short though more follow, as with [`list`](Self::list).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").start().await?;
    /// let stuck = engine.job_instances(Filter::new().status(StatusKind::Stuck), None).await?;
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

    /// The client of a job by its name with its kind.
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
    /// [`Error::JobName`] if it is not the name of a job.
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

/// Something that waits for an instance.
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
    /// What it is: `event`, `trigger`, `pause` and so on.
    pub what: &'static str,
    /// When it was accepted.
    pub at: Timestamp,
    /// The event as JSON, if it is one.
    pub event: Option<Payload>,
    /// How often its handling has failed, if it is an event of a pool.
    pub failed: u32,
}

/// The client of a job that is known by its name alone.
///
/// What is told to an instance is durable when the call returns; whoever executes the store acts on it, now or later.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const MAIL: WorkerPool<String> = WorkerPool::new("mail");
/// # async fn send(_: PoolCtx<String>, _: String) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(MAIL.concurrency(8).execute(send)).start().await?;
/// let mail: AnyJob = engine.job_by_name("pool:mail")?;
/// mail.push_json(r#""ada""#).await?;
/// engine.job(MAIL).drain().await?;
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
    /// Its name with its kind.
    #[must_use]
    pub fn name(&self) -> &str {
        self.job.as_str()
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> JobKind {
        self.kind
    }

    /// Where an instance is.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub async fn info(&self, id: &str) -> Result<JobInfo, Error> {
        Ok(self.look(id).await?.0)
    }

    /// The state of an instance as JSON, or the batch of a debounce.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub async fn state_json(&self, id: &str) -> Result<Option<Payload>, Error> {
        Ok(self.look(id).await?.1)
    }

    /// Where an instance is, and its state at that moment.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub async fn look(&self, id: &str) -> Result<(JobInfo, Option<Payload>), Error> {
        let instance = self.instance(id).await?;
        Ok((JobInfo::of(&instance, &record_of(&instance)), state_of(instance)))
    }

    /// What waits for an instance, in order; of a pool, the next events of its queue.
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

    /// Has `execute` called now; of a debounce, has the batch flushed.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance, [`Error::JobKind`] if it is a pool.
    pub async fn trigger(&self, id: &str) -> Result<(), Error> {
        let kinds = [JobKind::Continuous, JobKind::Debounce, JobKind::Task];
        self.must_be(&kinds, "is a pool, which executes by itself; push an event to it")?;
        self.client.leave(id, Message::Trigger, None).await.map(drop)
    }

    /// Has the batch of a debounce flushed now.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance, [`Error::JobKind`] if it is no debounce.
    pub async fn flush(&self, id: &str) -> Result<(), Error> {
        self.must_be(&[JobKind::Debounce], "collects no batch to flush; trigger it, if it is to be executed")?;
        self.client.leave(id, Message::Trigger, None).await.map(drop)
    }

    /// Sends an event to an instance, which comes into being by that if there is none.
    ///
    /// # Errors
    /// If it is not JSON or cannot be accepted; [`Error::JobKind`] if the job takes no events, or is a pool.
    pub async fn send_json(&self, id: &str, event: &str) -> Result<Sent, Error> {
        self.must_be(&[JobKind::Debounce, JobKind::Task], "takes no event by the name of an instance; a pool takes one by its own name, and a continuous job can be triggered")?;
        self.accept(id, parse(event)?).await
    }

    /// As [`send_json`](Self::send_json), once for each key.
    ///
    /// # Errors
    /// As there, or if the key cannot be accepted.
    pub async fn send_json_once(&self, id: &str, event: &str, key: &str) -> Result<Sent, Error> {
        self.must_be(&[JobKind::Debounce, JobKind::Task], "takes no event by the name of an instance")?;
        self.accept(id, Event { dedup: Some(Name::new("event key", key)?), ..parse(event)? }).await
    }

    async fn accept(&self, id: &str, event: Event) -> Result<Sent, Error> {
        let accepted = self.client.push(id, vec![event], Place::Inbox).await?;
        let event = accepted.positions.first().copied().unwrap_or(0);
        Ok(Sent { created: accepted.created, instance: accepted.id.to_string(), is_new: event > 0, event })
    }

    /// Pushes an event to a pool.
    ///
    /// # Errors
    /// If it is not JSON or cannot be accepted; [`Error::JobKind`] if it is no pool.
    pub async fn push_json(&self, event: &str) -> Result<Pushed, Error> {
        self.must_be_pool()?;
        let accepted = self.client.push(MAIN, vec![parse(event)?], Place::Queue).await?;
        let event = accepted.positions.first().copied().unwrap_or(0);
        Ok(Pushed { is_new: event > 0, event })
    }

    /// Removes an instance with all that is kept of it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub async fn terminate(&self, id: &str, reason: &str) -> Result<(), Error> {
        let kinds = [JobKind::Continuous, JobKind::Debounce, JobKind::Task];
        self.must_be(&kinds, "is a pool, which has no instance to end; pause it, or drop its dead letters")?;
        self.client.leave(id, Message::Terminate { reason: reason.to_owned() }, None).await.map(drop)
    }

    /// Has a pool begin nothing more.
    ///
    /// # Errors
    /// [`Error::NotFound`] if nothing was ever pushed, [`Error::JobKind`] if it is no pool.
    pub async fn pause(&self) -> Result<(), Error> {
        self.must_be_pool()?;
        self.client.leave(MAIN, Message::Pause, None).await.map(drop)
    }

    /// Has a pool go on.
    ///
    /// # Errors
    /// [`Error::NotFound`] if nothing was ever pushed, [`Error::JobKind`] if it is no pool.
    pub async fn resume(&self) -> Result<(), Error> {
        self.must_be_pool()?;
        self.client.leave(MAIN, Message::Resume, None).await.map(drop)
    }

    /// How much a pool has where. It counts as paused or not from the moment that was accepted.
    ///
    /// # Errors
    /// [`Error::NotFound`] if nothing was ever pushed, [`Error::JobKind`] if it is no pool.
    pub async fn status(&self) -> Result<PoolStatus, Error> {
        self.must_be_pool()?;
        self.instance(MAIN).await?;
        pool_status(&self.client).await
    }

    /// What was given up, oldest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn dead(&self) -> Result<Vec<DeadLetter<serde_json::Value>>, Error> {
        self.client.dead().await
    }

    /// Has a dead letter tried again, or all of them. Answers how many.
    ///
    /// # Errors
    /// [`Error::NoDeadLetter`] if there is no such dead letter.
    pub async fn retry_dead(&self, number: Option<u64>) -> Result<u64, Error> {
        self.bury(number, true).await
    }

    /// Drops a dead letter, or all of them. Answers how many.
    ///
    /// # Errors
    /// [`Error::NoDeadLetter`] if there is no such dead letter.
    pub async fn drop_dead(&self, number: Option<u64>) -> Result<u64, Error> {
        self.bury(number, false).await
    }

    async fn bury(&self, number: Option<u64>, is_retry: bool) -> Result<u64, Error> {
        match number {
            Some(number) => self.client.bury(number, is_retry).await.map(u64::from),
            None => self.client.bury_all(is_retry).await,
        }
    }

    async fn instance(&self, id: &str) -> Result<Instance, Error> {
        let found = self.client.instance(id).await?;
        found.ok_or_else(|| Error::NotFound { id: format!("{}:{id}", self.job) })
    }

    fn must_be_pool(&self) -> Result<(), Error> {
        self.must_be(&[JobKind::Pool], "is no pool; only a pool has a queue")
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
        what: format!("the event {:?} is not JSON that can be kept", event.chars().take(60).collect::<String>()),
        problem: error.to_string(),
    })?;
    Ok(Event::new(payload))
}
