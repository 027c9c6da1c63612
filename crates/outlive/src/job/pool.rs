//! A queue of events that are handled concurrently.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::event::Event;
use outlive_core::id::Name;
use outlive_core::job::{Exhausted, Policy, PoolRules};
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, PushTarget};
use outlive_core::retry::Retry;
use outlive_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::client::{InstanceStanding, JobClient};
use super::context::{common_methods, read};
use super::macros::{contract, dead_methods, settings_methods};
use super::order::Order;
use super::outcome::{DeadLetter, Pushed};
use crate::client::{Client, Contract};
use crate::error::Error;
use crate::instance::codec;
use crate::instance::target::{POOL_INSTANCE, QueueTarget};
use crate::runtime::call::PendingCall;
use crate::runtime::handlers::{
    CallContext, CallEnded, Calling, Definition, Erased, Executes, HandlerFuture, JobDefinition, JobHandler, Outbox,
    PoolCall, PoolHandlers, RetryTest, Settings, Unfinished, Work, erase, run,
};

contract! {
    /// Names a pool and the type of its events.
    ///
    /// ```
    /// use outlive::job::{WorkerPoolCtx, WorkerPool};
    /// use outlive::prelude::*;
    ///
    /// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
    ///
    /// async fn send(ctx: WorkerPoolCtx<String>, to: String) -> Result<()> {
    ///     println!("mail to {to}, attempt {}", ctx.attempt());
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").job(MAIL.concurrency(8).retry(5).execute(send)).start().await?;
    /// let mail = engine.job(MAIL);
    /// mail.push(&"ada".to_owned()).await?;
    /// mail.wait_idle().await?;
    /// # Ok(()) }
    /// ```
    WorkerPool<E>, JobKind::Pool,
    /// The client of a pool.
    WorkerPoolClient
}

impl<E: Serialize> QueueTarget for WorkerPool<E> {
    type Event = E;

    fn job_name(self) -> Result<Name, Error> {
        Self::job_name(self)
    }
}

impl<E> WorkerPool<E> {
    /// The id of the instance that holds the queue.
    pub(crate) const MAIN: &'static str = POOL_INSTANCE;

    /// Sets how many events are handled at a time, across all processes.
    pub fn concurrency(self, handlers: usize) -> WorkerPoolBuilder<E> {
        let mut builder = WorkerPoolBuilder {
            contract: self,
            settings: Settings::default(),
            rules: PoolRules { policy: Policy::default(), concurrency: handlers, batch: 1, rate: None },
            own: TypedPoolHandlers { execute: None, execute_batch: None, on_dead: None },
            marker: PhantomData,
        };
        if handlers == 0 {
            builder.refuse("concurrency 0", "is too small; use at least 1");
        }
        builder
    }
}

/// Builder for a pool.
#[must_use = "a job does nothing until it is registered with `.job(..)`"]
pub struct WorkerPoolBuilder<E, X = Unfinished> {
    contract: WorkerPool<E>,
    settings: Settings,
    rules: PoolRules,
    own: TypedPoolHandlers<E>,
    marker: PhantomData<X>,
}

impl<E, X> WorkerPoolBuilder<E, X> {
    fn refuse(&mut self, what: &str, problem: &str) {
        let problem = format!("{what} of pool {:?} {problem}", self.contract.name);
        self.settings.refuse(Error::Setup(problem));
    }

    /// Limits how many events this process handles at a time, if that is fewer than across all processes.
    pub fn concurrency_per_process(mut self, handlers: usize) -> Self {
        if handlers == 0 {
            self.refuse("concurrency_per_process 0", "is too small; use at least 1");
        }
        self.rules.concurrency = self.rules.concurrency.min(handlers);
        self
    }

    /// Limits the rate: at most this many calls start within any period of this length. The count is lost on a restart.
    pub fn rate(mut self, calls: usize, per: impl IntoDuration) -> Self {
        match per.into_duration() {
            Ok(per) if calls == 0 || per.is_zero() => {
                self.refuse(
                    &format!("rate {calls} per {per:?}"),
                    "lets nothing through; allow at least 1 call in a period greater than zero",
                );
            }
            Ok(per) => self.rules.rate = Some((calls, per)),
            Err(error) => self.settings.refuse(error),
        }
        self
    }

    settings_methods!("Sets when to retry an event after a failure. Without it there are no retries.");

    /// Sets the handler to call when an event is given up, before it becomes a dead letter.
    pub fn on_dead<M>(mut self, handler: impl JobHandler<(WorkerPoolCtx<E>, DeadLetter<E>), M>) -> Self {
        self.own.on_dead = Some(erase(handler));
        self
    }

    /// Sets the handler of an event.
    pub fn execute<M>(mut self, handler: impl JobHandler<(WorkerPoolCtx<E>, E), M>) -> WorkerPoolBuilder<E, Executes> {
        self.own.execute = Some(erase(handler));
        self.finish()
    }

    /// Sets the handler of up to `max_events` events together. If it fails, each of them is retried.
    pub fn execute_batch<M>(
        mut self,
        max_events: usize,
        handler: impl JobHandler<(WorkerPoolCtx<E>, Vec<PoolEvent<E>>), M>,
    ) -> WorkerPoolBuilder<E, Executes> {
        if max_events == 0 {
            self.refuse("execute_batch of 0 events", "is too small; use at least 1");
        }
        self.rules.batch = max_events.max(1);
        self.own.execute_batch = Some(erase(handler));
        self.finish()
    }

    fn finish(self) -> WorkerPoolBuilder<E, Executes> {
        let Self { contract, settings, rules, own, .. } = self;
        WorkerPoolBuilder { contract, settings, rules, own, marker: PhantomData }
    }
}

impl<E: DeserializeOwned + Send + Sync + 'static> JobDefinition for WorkerPoolBuilder<E, Executes> {
    fn definition(self) -> Result<Definition, Error> {
        let own = Arc::new(self.own);
        let handlers = own.clone();
        let work = |policy| Work::Pool(PoolRules { policy, ..self.rules }, handlers);
        self.settings.finish(self.contract.job_name(), work, own)
    }
}

/// An event in a batch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolEvent<E> {
    /// The event's number.
    pub number: u64,
    /// The number of this attempt, starting at 1.
    pub attempt: u32,
    /// A key that all attempts of this event share.
    pub idempotency_key: String,
    /// The event.
    pub event: E,
}

/// The arguments of a batch handler.
type BatchArguments<E> = (WorkerPoolCtx<E>, Vec<PoolEvent<E>>);

/// The handlers of a pool.
struct TypedPoolHandlers<E> {
    execute: Option<Erased<(WorkerPoolCtx<E>, E)>>,
    execute_batch: Option<Erased<BatchArguments<E>>>,
    on_dead: Option<Erased<(WorkerPoolCtx<E>, DeadLetter<E>)>>,
}

impl<E: DeserializeOwned + Send + Sync + 'static> PoolHandlers for TypedPoolHandlers<E> {
    fn call(&self, input: PoolCall) -> Calling {
        let mut events = match input.read::<E>() {
            Ok(events) => events,
            Err(problem) => return CallEnded::unreadable(problem).at_once(),
        };
        match (self.execute_batch.clone(), self.execute.clone(), events.pop()) {
            (Some(execute), _, Some(last)) => {
                events.push(last);
                input.run(|ctx| move || execute((ctx, events)))
            }
            (None, Some(execute), Some(last)) if events.is_empty() => {
                input.run(|ctx| move || execute((ctx, last.event)))
            }
            _ => CallEnded::unreadable("the pool has no handler for this call".into()).at_once(),
        }
    }

    fn dead(&self, input: PoolCall, dead: &Dead) -> Option<Calling> {
        let (on_dead, dead_letter) = (self.on_dead.clone()?, DeadLetter::of(dead.clone()));
        Some(input.run(|ctx| move || on_dead((ctx, dead_letter))))
    }
}

impl<E: DeserializeOwned + Send + Sync + 'static> crate::runtime::handlers::Handlers for TypedPoolHandlers<E> {
    fn call(&self, _: crate::runtime::handlers::HandlerCall) -> crate::runtime::handlers::Calling {
        CallEnded::unreadable("a pool has no handler of this kind".into()).at_once()
    }

    fn check(&self, event: &Payload) -> Result<(), Error> {
        codec::check::<E>("the event", event)
    }
}

impl PoolCall {
    /// Runs a handler with a context.
    fn run<E, F>(self, begin: impl FnOnce(WorkerPoolCtx<E>) -> F) -> Calling
    where
        F: FnOnce() -> HandlerFuture + Send + 'static,
    {
        let (call_policy, context) = (self.call_policy.clone(), Arc::new(self.context()));
        let begin = begin(WorkerPoolCtx { context: context.clone(), types: PhantomData });
        Calling::new(async move { run(begin, call_policy, &context, || Ok(None)).await })
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

/// The context that handlers of a pool receive.
pub struct WorkerPoolCtx<E> {
    context: Arc<CallContext>,
    types: PhantomData<fn(E)>,
}

impl<E> Clone for WorkerPoolCtx<E> {
    fn clone(&self) -> Self {
        Self { context: self.context.clone(), types: PhantomData }
    }
}

impl<E> WorkerPoolCtx<E> {
    fn context(&self) -> &CallContext {
        &self.context
    }

    common_methods!();
}

/// The options of an event that is pushed.
#[derive(Clone, Debug, Default)]
struct PushOptions {
    priority: i32,
    lane: Option<String>,
    delay: Option<Duration>,
    at: Option<Timestamp>,
    dedup_key: Option<String>,
    problem: Option<Error>,
}

impl PushOptions {
    /// Builds the event to store.
    fn into_event(self, payload: Payload, now: Timestamp) -> Result<Event, Error> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let name = |what, text: Option<String>| text.map(|text| Name::new(what, &text)).transpose();
        Ok(Event {
            priority: self.priority,
            key: name("lane", self.lane)?,
            due: self.at.or(self.delay.map(|delay| now.after(delay))),
            dedup: name("dedup key", self.dedup_key)?,
            ..Event::new(payload)
        })
    }

    fn set_delay(&mut self, delay: impl IntoDuration) {
        match delay.into_duration() {
            Ok(delay) => self.delay = Some(delay),
            Err(error) => self.problem = Some(error.into()),
        }
    }
}

/// The option methods of a push, which has its options in a call that is not started, or of its own.
macro_rules! push_options {
    (call) => {
        push_options!(@methods |this, change| this.call.set(|call| change(&mut call.options)));
    };
    (own) => {
        push_options!(@methods |this, change| change(&mut this.options));
    };
    (@methods |$this:ident, $change:ident| $set:expr) => {
        /// Sets the priority. Events with a higher one are handled first; the default is 0.
        pub fn priority(self, priority: i32) -> Self {
            self.with(|options| options.priority = priority)
        }

        /// Puts the event in a lane. Lanes take turns, so many events in one lane do not hold up another.
        pub fn lane(self, lane: impl Into<String>) -> Self {
            self.with(|options| options.lane = Some(lane.into()))
        }

        /// Delays the event by this long.
        pub fn delay(self, delay: impl IntoDuration) -> Self {
            self.with(|options| options.set_delay(delay))
        }

        /// Delays the event until this time.
        pub fn at(self, at: impl Into<Timestamp>) -> Self {
            self.with(|options| options.at = Some(at.into()))
        }

        /// Skips the event if one with this key is waiting or being handled.
        pub fn dedup_key(self, key: impl Into<String>) -> Self {
            self.with(|options| options.dedup_key = Some(key.into()))
        }

        fn with(mut self, $change: impl FnOnce(&mut PushOptions)) -> Self {
            let $this = &mut self;
            $set;
            self
        }
    };
}

/// One of many events to push, with its options; see [`push_many`](WorkerPoolClient::push_many).
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const MAIL: WorkerPool<String> = WorkerPool::new("mail");
/// # async fn send(_: WorkerPoolCtx<String>, _: String) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(MAIL.concurrency(4).execute(send)).start().await?;
/// let mails = ["ada", "grace"].map(|to| Push::new(to.to_owned()).lane(to).dedup_key(to));
/// engine.job(MAIL).push_many(mails).await?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is pushed until it is passed to `push_many`"]
#[derive(Clone, Debug)]
pub struct Push<E> {
    event: E,
    options: PushOptions,
}

impl<E> Push<E> {
    /// Creates a push without options.
    pub fn new(event: E) -> Self {
        Self { event, options: PushOptions::default() }
    }

    push_options!(own);
}

impl<E> From<E> for Push<E> {
    fn from(event: E) -> Self {
        Self::new(event)
    }
}

/// An event that is being pushed, created by [`WorkerPoolClient::push`]. Nothing is pushed until it is awaited; it is durable
/// when the future returns.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const MAIL: WorkerPool<String> = WorkerPool::new("mail");
/// # async fn send(_: WorkerPoolCtx<String>, _: String) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(MAIL.concurrency(4).execute(send)).start().await?;
/// let mail = engine.job(MAIL);
/// mail.push(&"ada".to_owned()).priority(5).delay("1 minute").await?;
/// assert!(mail.push(&"grace".to_owned()).dedup_key("mail-42").await?.is_new);
/// # Ok(()) }
/// ```
#[must_use = "nothing is pushed until it is awaited"]
pub struct PushOne {
    call: PendingCall<PushCall, Result<Pushed, Error>>,
}

struct PushCall {
    client: JobClient,
    payload: Result<Payload, Error>,
    options: PushOptions,
}

impl PushOne {
    push_options!(call);
}

impl Future for PushOne {
    type Output = Result<Pushed, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, async |PushCall { client, payload, options }: PushCall| {
            let event = options.into_event(payload?, client.shared.clock.now())?;
            Ok(accept(&client, vec![event]).await?.remove(0))
        })
    }
}

async fn accept(client: &JobClient, events: Vec<Event>) -> Result<Vec<Pushed>, Error> {
    let accepted = client.push(WorkerPool::<()>::MAIN, events, PushTarget::Queue).await?;
    let pushed = |event: u64| Pushed { is_new: event > 0, event };
    Ok(accepted.positions.into_iter().map(pushed).collect())
}

/// An event that a handler pushes with its commit, for options; returned by `ctx.push(..)`.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const MAIL: WorkerPool<String> = WorkerPool::new("mail");
/// async fn send(ctx: WorkerPoolCtx<String>, mail: String) -> Result<()> {
///     ctx.push(MAIL, &format!("copy of {mail}"))?.priority(-1).delay("1 hour");
///     Ok(())
/// }
/// # let _ = Engine::open("memory:").job(MAIL.concurrency(4).execute(send));
/// ```
///
/// The call fails if an option cannot be accepted.
pub struct PushInCommit<'a> {
    pub(super) outbox: &'a Outbox,
    pub(super) index: usize,
}

impl PushInCommit<'_> {
    /// Sets the priority. Events with a higher one are handled first; the default is 0.
    pub fn priority(self, priority: i32) -> Self {
        self.change(|event| {
            event.priority = priority;
            Ok(())
        })
    }

    /// Puts the event in a lane. Lanes take turns, so many events in one lane do not hold up another.
    pub fn lane(self, lane: &str) -> Self {
        self.change(|event| {
            event.key = Some(Name::new("lane", lane)?);
            Ok(())
        })
    }

    /// Delays the event by this long.
    pub fn delay(self, delay: impl IntoDuration) -> Self {
        let now = self.outbox.now();
        self.change(|event| {
            event.due = Some(now.after(delay.into_duration()?));
            Ok(())
        })
    }

    /// Delays the event until this time.
    pub fn at(self, at: impl Into<Timestamp>) -> Self {
        self.change(|event| {
            event.due = Some(at.into());
            Ok(())
        })
    }

    /// Skips the event if one with this key is waiting or being handled.
    pub fn dedup_key(self, key: &str) -> Self {
        self.change(|event| {
            event.dedup = Some(Name::new("dedup key", key)?);
            Ok(())
        })
    }

    fn change(self, change: impl FnOnce(&mut Event) -> Result<(), Error>) -> Self {
        self.outbox.change_push(self.index, change);
        self
    }
}

/// The number of events of a pool in each state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WorkerPoolStatus {
    /// Waiting for a handler.
    pub ready: u64,
    /// Being handled. In a process that does not execute, this is the last stored number.
    pub running: u64,
    /// Waiting for a time: delayed, or to be retried.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
    /// `true` if the pool is paused.
    pub is_paused: bool,
}

impl<E: Serialize + DeserializeOwned> WorkerPoolClient<E> {
    /// Pushes an event. It is durable when the future returns; [`PushOne`] has the options.
    ///
    /// # Errors
    /// If the event cannot be accepted.
    pub fn push(&self, event: &E) -> PushOne {
        let payload = self.client.encode("the event", event);
        let options = PushOptions::default();
        PushOne { call: PendingCall::new(PushCall { client: self.client.clone(), payload, options }) }
    }

    /// Pushes many events in one commit: all of them or none.
    ///
    /// # Errors
    /// If one of them cannot be accepted.
    pub async fn push_many<P: Into<Push<E>>>(&self, events: impl IntoIterator<Item = P>) -> Result<Vec<Pushed>, Error> {
        let now = self.client.shared.clock.now();
        let event = |push: Push<E>| push.options.into_event(self.client.encode("the event", &push.event)?, now);
        let events: Vec<Event> = events.into_iter().map(|push| event(push.into())).collect::<Result<_, _>>()?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        accept(&self.client, events).await
    }

    /// Pauses the pool: nothing more starts until [`resume`](Self::resume), while running handlers continue. A process
    /// that has not seen the pause yet may start events pushed right after it; [`wait`](Order::wait) for the order
    /// where that matters.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn pause(&self) -> Order {
        self.client.order(WorkerPool::<E>::MAIN, Message::Pause)
    }

    /// Resumes the pool after a [`pause`](Self::pause).
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn resume(&self) -> Order {
        self.client.order(WorkerPool::<E>::MAIN, Message::Resume)
    }

    /// Returns the number of events in each state.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn status(&self) -> Result<WorkerPoolStatus, Error> {
        pool_status(&self.client).await
    }

    /// Waits until everything that was pushed is handled or given up, including delayed events.
    ///
    /// # Errors
    /// If the store cannot be read; [`Error::Status`] if the pool is paused and not empty.
    pub async fn wait_idle(&self) -> Result<(), Error> {
        loop {
            let wait = self.client.drained();
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
            wait.await;
        }
    }

    dead_methods!(E, "Returns the events that were given up, oldest first.");
}

pub(super) async fn pool_status(client: &JobClient) -> Result<WorkerPoolStatus, Error> {
    let shared = &client.shared;
    let job = client.job()?;
    let depth = shared.store.depth(job, shared.clock.now()).await?;
    let is_paused = client.standing(WorkerPool::<()>::MAIN).await? == Some(InstanceStanding::Stopped);
    let record = match client.instance(WorkerPool::<()>::MAIN).await? {
        Some(instance) => super::client::record_of(&instance),
        None => Default::default(),
    };
    let here = shared.services.as_ref().and_then(|services| services.pools.running(job));
    let running = here.unwrap_or(record.events).min(depth.queued);
    let ready = depth.queued.saturating_sub(depth.delayed).saturating_sub(running);
    Ok(WorkerPoolStatus { ready, running, delayed: depth.delayed, dead: depth.dead, is_paused })
}
