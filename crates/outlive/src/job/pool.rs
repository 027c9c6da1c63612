//! A queue of events that are handled many at a time.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::event::Event;
use outlive_core::id::Name;
use outlive_core::job::{Exhausted, Policy};
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Place};
use outlive_core::retry::Retry;
use outlive_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answer::{DeadLetter, Pushed};
use super::client::{JobClient, Standing};
use super::context::{common_methods, read};
use super::order::Order;
use super::parts::{contract, dead_methods, settings_methods};
use crate::client::{Client, Contract};
use crate::codec;
use crate::error::Error;
use crate::handling::{
    Calling, Definition, Ended, Erased, Executes, HandlerFuture, JobDefinition, JobHandler, PoolGiven, PoolHandlers,
    PoolRules, RetryTest, Setting, Settings, Unfinished, Work, erase, run,
};

contract! {
    /// Names a pool and the type of its events.
    ///
    /// ```
    /// use outlive::job::{PoolCtx, WorkerPool};
    /// use outlive::prelude::*;
    ///
    /// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
    ///
    /// async fn send(ctx: PoolCtx<String>, to: String) -> Result<()> {
    ///     println!("mail to {to}, attempt {}", ctx.attempt());
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").job(MAIL.concurrency(8).retry(5).execute(send)).start().await?;
    /// let mail = engine.job(MAIL);
    /// mail.push(&"ada".to_owned()).await?;
    /// mail.drain().await?;
    /// # Ok(()) }
    /// ```
    WorkerPool<E>, JobKind::Pool,
    /// The client of a pool.
    PoolClient
}

impl<E> WorkerPool<E> {
    /// The id of the instance that holds the queue.
    pub(crate) const MAIN: &'static str = "main";

    /// How many events are handled at a time, in all processes together.
    pub fn concurrency(self, handlers: usize) -> PoolBuilder<E> {
        let mut builder = PoolBuilder {
            contract: self,
            settings: Settings::default(),
            rules: PoolRules { policy: Policy::default(), concurrency: handlers, batch: 1, rate: None },
            own: Own { execute: None, execute_batch: None, on_dead: None },
            marker: PhantomData,
        };
        if handlers == 0 {
            builder.refuse("concurrency 0", "handles nothing; give at least 1");
        }
        builder
    }
}

/// A pool that is being defined.
#[must_use = "a job does nothing until it is registered with `.job(..)`"]
pub struct PoolBuilder<E, X = Unfinished> {
    contract: WorkerPool<E>,
    settings: Settings,
    rules: PoolRules,
    own: Own<E>,
    marker: PhantomData<X>,
}

impl<E, X> PoolBuilder<E, X> {
    fn refuse(&mut self, what: &str, problem: &str) {
        let problem = format!("{what} of pool {:?} {problem}", self.contract.name);
        self.settings.refuse(Error::Setup(problem));
    }

    /// How many events are handled at a time in this process, if that is less than in all together.
    pub fn concurrency_per_process(mut self, handlers: usize) -> Self {
        if handlers == 0 {
            self.refuse("concurrency_per_process 0", "handles nothing; give at least 1");
        }
        self.rules.concurrency = self.rules.concurrency.min(handlers);
        self
    }

    /// At most so many calls begin in any stretch of this length. What has begun is not remembered over a restart.
    pub fn rate(mut self, calls: usize, per: impl IntoDuration) -> Self {
        match per.into_duration() {
            Ok(per) if calls == 0 || per.is_zero() => {
                self.refuse(
                    &format!("rate {calls} per {per:?}"),
                    "lets nothing through; give at least 1 per some time",
                );
            }
            Ok(per) => self.rules.rate = Some((calls, per)),
            Err(error) => self.settings.refuse(error),
        }
        self
    }

    settings_methods!("When to try an event again after a failure. Without it, never.");

    /// Called when an event is given up, before it goes to the dead letters.
    pub fn on_dead<M>(mut self, handler: impl JobHandler<(PoolCtx<E>, DeadLetter<E>), M>) -> Self {
        self.own.on_dead = Some(erase(handler));
        self
    }

    /// What is done with an event.
    pub fn execute<M>(mut self, handler: impl JobHandler<(PoolCtx<E>, E), M>) -> PoolBuilder<E, Executes> {
        self.own.execute = Some(erase(handler));
        self.finish()
    }

    /// What is done with up to so many events together. If it fails, each of them is tried again.
    pub fn execute_batch<M>(
        mut self,
        events_max: usize,
        handler: impl JobHandler<(PoolCtx<E>, Vec<PoolEvent<E>>), M>,
    ) -> PoolBuilder<E, Executes> {
        if events_max == 0 {
            self.refuse("execute_batch of 0 events", "handles nothing; give at least 1");
        }
        self.rules.batch = events_max.max(1);
        self.own.execute_batch = Some(erase(handler));
        self.finish()
    }

    fn finish(self) -> PoolBuilder<E, Executes> {
        let Self { contract, settings, rules, own, .. } = self;
        PoolBuilder { contract, settings, rules, own, marker: PhantomData }
    }
}

impl<E: DeserializeOwned + Send + Sync + 'static> JobDefinition for PoolBuilder<E, Executes> {
    fn definition(self) -> Result<Definition, Error> {
        let own = Arc::new(self.own);
        let handlers = own.clone();
        let work = |policy| Work::Pool(PoolRules { policy, ..self.rules }, handlers);
        self.settings.finish(self.contract.job_name(), work, own)
    }
}

/// An event that is handled with others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolEvent<E> {
    /// Its number.
    pub number: u64,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The same for all attempts of this event.
    pub idempotency_key: String,
    /// The event.
    pub event: E,
}

/// What a handler of many events is given.
type Batch<E> = (PoolCtx<E>, Vec<PoolEvent<E>>);

/// The handlers of a pool.
struct Own<E> {
    execute: Option<Erased<(PoolCtx<E>, E)>>,
    execute_batch: Option<Erased<Batch<E>>>,
    on_dead: Option<Erased<(PoolCtx<E>, DeadLetter<E>)>>,
}

impl<E: DeserializeOwned + Send + Sync + 'static> PoolHandlers for Own<E> {
    fn call(&self, given: PoolGiven) -> Calling {
        let mut events = match given.read::<E>() {
            Ok(events) => events,
            Err(problem) => return Ended::unreadable(problem).at_once(),
        };
        match (self.execute_batch.clone(), self.execute.clone(), events.pop()) {
            (Some(execute), _, Some(last)) => {
                events.push(last);
                given.run(|ctx| move || execute((ctx, events)))
            }
            (None, Some(execute), Some(last)) if events.is_empty() => {
                given.run(|ctx| move || execute((ctx, last.event)))
            }
            _ => Ended::unreadable("the pool has no such handler".into()).at_once(),
        }
    }

    fn dead(&self, given: PoolGiven, dead: &Dead) -> Option<Calling> {
        let (on_dead, letter) = (self.on_dead.clone()?, DeadLetter::of(dead.clone()));
        Some(given.run(|ctx| move || on_dead((ctx, letter))))
    }
}

impl<E: DeserializeOwned + Send + Sync + 'static> crate::handling::Handlers for Own<E> {
    fn call(&self, _: crate::handling::Given) -> crate::handling::Calling {
        Ended::unreadable("a pool has no handler of this kind".into()).at_once()
    }

    fn check(&self, event: &Payload) -> Result<(), Error> {
        codec::check::<E>("the event", event)
    }
}

impl PoolGiven {
    /// Runs a handler with a context.
    fn run<E, F>(self, begin: impl FnOnce(PoolCtx<E>) -> F) -> Calling
    where
        F: FnOnce() -> HandlerFuture + Send + 'static,
    {
        let (care, setting) = (self.care.clone(), Arc::new(self.setting()));
        let begin = begin(PoolCtx { setting: setting.clone(), types: PhantomData });
        Calling::new(async move { run(begin, care, &setting, || Ok(None)).await })
    }

    fn read<E: DeserializeOwned>(&self) -> Result<Vec<PoolEvent<E>>, String> {
        let of = |(pos, event): &(u64, Event)| {
            Ok(PoolEvent {
                number: *pos,
                attempt: event.failed + 1,
                idempotency_key: format!("{}/execute/{pos}", self.id),
                event: read(&event.payload)?,
            })
        };
        self.events.iter().map(of).collect()
    }
}

/// What the handlers of a pool are given.
pub struct PoolCtx<E> {
    setting: Arc<Setting>,
    types: PhantomData<fn(E)>,
}

impl<E> Clone for PoolCtx<E> {
    fn clone(&self) -> Self {
        Self { setting: self.setting.clone(), types: PhantomData }
    }
}

impl<E> PoolCtx<E> {
    fn setting(&self) -> &Setting {
        &self.setting
    }

    common_methods!();
}

/// An event that is being pushed, with what is special about it.
///
/// ```
/// use outlive::job::Push;
/// let push = Push::new("ada").priority(5).key("customer-7").delay("1 minute").once("mail-42");
/// # let _ = push;
/// ```
#[must_use = "an event is pushed by `push_many`"]
#[derive(Clone, Debug)]
pub struct Push<E> {
    event: E,
    priority: i32,
    key: Option<String>,
    delay: Option<Duration>,
    at: Option<Timestamp>,
    once: Option<String>,
    problem: Option<Error>,
}

impl<E> Push<E> {
    /// An event with nothing special about it.
    pub fn new(event: E) -> Self {
        Self { event, priority: 0, key: None, delay: None, at: None, once: None, problem: None }
    }

    /// Larger ones are handled first; 0 without it.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Events of different keys take turns, so that many of one do not hold up another.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Not before so much time has passed.
    pub fn delay(mut self, delay: impl IntoDuration) -> Self {
        match delay.into_duration() {
            Ok(delay) => self.delay = Some(delay),
            Err(error) => self.problem = Some(error.into()),
        }
        self
    }

    /// Not before this time.
    pub fn at(mut self, at: impl Into<Timestamp>) -> Self {
        self.at = Some(at.into());
        self
    }

    /// Not if an event with this key waits or is being handled.
    pub fn once(mut self, key: impl Into<String>) -> Self {
        self.once = Some(key.into());
        self
    }
}

impl<E: Serialize> Push<E> {
    /// What is kept of it.
    pub(crate) fn into_event(self, now: Timestamp, bytes_max: usize) -> Result<Event, Error> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let name = |what, text: Option<String>| text.map(|text| Name::new(what, &text)).transpose();
        Ok(Event {
            priority: self.priority,
            key: name("event key", self.key)?,
            due: self.at.or(self.delay.map(|delay| now.after(delay))),
            dedup: name("dedup key", self.once)?,
            ..Event::new(codec::encode("the event", &self.event, bytes_max)?)
        })
    }
}

/// How much a pool has where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PoolStatus {
    /// Waiting for a handler.
    pub ready: u64,
    /// Being handled. Another process than the one that executes knows it as it was last written.
    pub running: u64,
    /// Waiting for a time: delayed, or to be tried again.
    pub delayed: u64,
    /// Given up.
    pub dead: u64,
    /// Whether somebody has paused it.
    pub is_paused: bool,
}

impl<E: Serialize + DeserializeOwned> PoolClient<E> {
    /// Pushes an event. It is durable when this returns.
    ///
    /// # Errors
    /// If the event cannot be accepted.
    pub async fn push(&self, event: &E) -> Result<Pushed, Error> {
        let payload = self.client.encode("the event", event)?;
        Ok(self.accept(vec![Event::new(payload)]).await?.remove(0))
    }

    /// Pushes an event with what is special about it.
    ///
    /// # Errors
    /// If the event cannot be accepted.
    pub async fn push_with(&self, push: Push<E>) -> Result<Pushed, Error> {
        Ok(self.push_many([push]).await?.remove(0))
    }

    /// Pushes many events in one commit: all of them, or none.
    ///
    /// # Errors
    /// If one of them cannot be accepted.
    pub async fn push_many(&self, events: impl IntoIterator<Item = Push<E>>) -> Result<Vec<Pushed>, Error> {
        let (now, bytes_max) = (self.client.shared.clock.now(), self.client.shared.payload_max);
        let events = events.into_iter().map(|push| push.into_event(now, bytes_max));
        let events: Vec<Event> = events.collect::<Result<_, _>>()?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        if self.client.shared.worker.is_none() {
            events.iter().try_for_each(|event| codec::check::<E>("the event", &event.payload))?;
        }
        self.accept(events).await
    }

    async fn accept(&self, events: Vec<Event>) -> Result<Vec<Pushed>, Error> {
        let accepted = self.client.push(WorkerPool::<E>::MAIN, events, Place::Queue).await?;
        let pushed = |event: u64| Pushed { is_new: event > 0, event };
        Ok(accepted.positions.into_iter().map(pushed).collect())
    }

    /// Begins nothing more until [`resume`](Self::resume). What is being handled goes on. A process that has not seen it
    /// yet may begin what is pushed right after; [`wait`](Order::wait) for it where that matters.
    ///
    /// # Errors
    /// If the store cannot take it.
    pub fn pause(&self) -> Order {
        self.client.order(WorkerPool::<E>::MAIN, Message::Pause)
    }

    /// Goes on after a [`pause`](Self::pause).
    ///
    /// # Errors
    /// If the store cannot take it.
    pub fn resume(&self) -> Order {
        self.client.order(WorkerPool::<E>::MAIN, Message::Resume)
    }

    /// How much there is where.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn status(&self) -> Result<PoolStatus, Error> {
        pool_status(&self.client).await
    }

    /// Waits until all that was pushed is handled or given up, the delayed too.
    ///
    /// # Errors
    /// If the store cannot be read; [`Error::Status`] if the pool is paused and there is something in it.
    pub async fn drain(&self) -> Result<(), Error> {
        loop {
            let news = self.client.drained();
            let status = self.status().await?;
            if status.ready + status.running + status.delayed == 0 {
                return Ok(());
            }
            if status.is_paused {
                let status = outlive_core::status::Status::Paused;
                let id = self.client.job()?.to_string();
                return Err(Error::Status { id, status, way_out: "`resume` it first" });
            }
            self.client.shared.committer.check()?;
            news.await;
        }
    }

    dead_methods!(E, "Events that were given up, oldest first.");
}

pub(super) async fn pool_status(client: &JobClient) -> Result<PoolStatus, Error> {
    let shared = &client.shared;
    let job = client.job()?;
    let depth = shared.store.depth(job, shared.clock.now()).await?;
    let is_paused = client.standing(WorkerPool::<()>::MAIN).await? == Some(Standing::Stopped);
    let record = match client.instance(WorkerPool::<()>::MAIN).await? {
        Some(instance) => super::client::record_of(&instance),
        None => Default::default(),
    };
    let here = shared.worker.as_ref().and_then(|worker| worker.pool_running(job));
    let running = here.unwrap_or(record.events).min(depth.queued);
    let ready = depth.queued.saturating_sub(depth.delayed).saturating_sub(running);
    Ok(PoolStatus { ready, running, delayed: depth.delayed, dead: depth.dead, is_paused })
}
