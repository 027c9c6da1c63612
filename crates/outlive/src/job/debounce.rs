//! A job that collects events, and handles them together.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::event::Event;
use outlive_core::failure::Failure;
use outlive_core::id::Name;
use outlive_core::job::{DebounceRules, Done, End, Exhausted, FlushReason, HandlerKind, Policy, Rules};
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::queue::Place;
use outlive_core::retry::Retry;
use outlive_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answer::{Added, DeadLetter, JobInfo};
use super::client::{JobClient, Patience};
use super::context::{Inner, check_event, common_methods, read, terminate_method};
use crate::client::{Client, Contract};
use crate::error::{BoxError, Error};
use crate::handling::{
    Calling, Definition, Ended, Erased, Executes, Given, Handlers, JobDefinition, JobHandler, OnExhausted, RetryIf,
    Setting, Unfinished, Work, check_policy, erase, run,
};
use crate::replies::Reply;

/// Names a debounce and the types of its events and its batch.
///
/// ```
/// use outlive::job::{Debounce, DebounceCtx};
/// use outlive::prelude::*;
///
/// const HOOKS: Debounce<u32, Vec<u32>> = Debounce::new("webhook-batcher");
///
/// async fn collect(ctx: DebounceCtx<u32, Vec<u32>>, hook: u32) -> Result<()> {
///     ctx.update_state(|batch| batch.push(hook));
///     Ok(())
/// }
/// async fn flush(ctx: DebounceCtx<u32, Vec<u32>>) -> Result<()> {
///     println!("{:?}, because of {:?}", ctx.state(), ctx.flush_reason());
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let hooks = HOOKS.flush_after("5 seconds").max_events(100).on_event(collect).execute(flush);
/// let engine = Engine::open("memory:").job(hooks).start().await?;
/// let added = engine.job(HOOKS).add("shop", &7).await?;
/// assert_eq!(added.event_count, 1);
/// # Ok(()) }
/// ```
pub struct Debounce<E, B> {
    name: &'static str,
    types: PhantomData<fn(E) -> B>,
}

impl<E, B> Clone for Debounce<E, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, B> Copy for Debounce<E, B> {}

impl<E, B> Debounce<E, B> {
    /// Names it. The name is what is on disk.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    pub(crate) fn job_name(self) -> Result<Name, Error> {
        Ok(JobKind::Debounce.job(self.name)?)
    }

    /// A batch is flushed so long after its first event.
    pub fn flush_after(self, window: impl IntoDuration) -> DebounceBuilder<E, B> {
        DebounceBuilder::new(self).set("flush_after", window, |rules| &mut rules.window)
    }

    /// A batch is flushed so long after its last event; see [`max_wait`](DebounceBuilder::max_wait).
    pub fn quiet(self, quiet: impl IntoDuration) -> DebounceBuilder<E, B> {
        DebounceBuilder::new(self).set("quiet", quiet, |rules| &mut rules.quiet)
    }
}

/// A debounce that is being defined.
#[must_use = "a job does nothing until it is registered with `.job(..)`"]
pub struct DebounceBuilder<E, B, X = Unfinished> {
    contract: Debounce<E, B>,
    rules: DebounceRules,
    own: Own<E, B>,
    on_exhausted: Option<OnExhausted>,
    problem: Option<Error>,
    marker: PhantomData<X>,
}

impl<E, B> DebounceBuilder<E, B> {
    fn new(contract: Debounce<E, B>) -> Self {
        let rules = DebounceRules { policy: Policy::default(), window: None, quiet: None, events_max: None };
        let own = Own { on_event: None, execute: None, on_error: None, retry_if: None };
        Self { contract, rules, own, on_exhausted: None, problem: None, marker: PhantomData }
    }
}

impl<E, B, X> DebounceBuilder<E, B, X> {
    fn set(
        mut self,
        what: &str,
        time: impl IntoDuration,
        place: impl FnOnce(&mut DebounceRules) -> &mut Option<Duration>,
    ) -> Self {
        match time.into_duration() {
            Ok(time) if time.is_zero() => {
                let problem =
                    format!("{what} 0s of debounce {:?} is zero; give the time to collect for", self.contract.name);
                self.problem.get_or_insert(Error::Setup(problem));
            }
            Ok(time) => *place(&mut self.rules) = Some(time),
            Err(error) => {
                self.problem.get_or_insert(error.into());
            }
        }
        self
    }

    /// A batch is flushed so long after its first event, however often others come.
    pub fn max_wait(self, wait: impl IntoDuration) -> Self {
        self.set("max_wait", wait, |rules| &mut rules.window)
    }

    /// A batch is flushed when it has so many events.
    pub fn max_events(mut self, events: u64) -> Self {
        if events == 0 {
            let problem =
                format!("max_events 0 of debounce {:?} lets no event in; give at least 1", self.contract.name);
            self.problem.get_or_insert(Error::Setup(problem));
        }
        self.rules.events_max = Some(events);
        self
    }

    /// When to try again after a failure. The batch is kept meanwhile, and new events wait for the next one.
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        self.rules.policy.retry = Some(retry.into());
        self
    }

    /// Which errors are worth another attempt.
    pub fn retry_if(mut self, test: impl Fn(&BoxError) -> bool + Send + Sync + 'static) -> Self {
        self.own.retry_if = Some(Arc::new(test));
        self
    }

    /// Told when retries have come to their end, after that is durable.
    pub fn on_exhausted(mut self, tell: impl Fn(&Exhausted) + Send + Sync + 'static) -> Self {
        self.on_exhausted = Some(Arc::new(tell));
        self
    }

    /// Called when a batch was given up; then it goes to the dead letters.
    pub fn on_error<M>(mut self, handler: impl JobHandler<(DebounceCtx<E, B>, Failure), M>) -> Self {
        self.rules.policy.has_error = true;
        self.own.on_error = Some(erase(handler));
        self
    }

    /// How an event is added to the batch. Without it, the batch is the latest event.
    pub fn on_event<M>(mut self, handler: impl JobHandler<(DebounceCtx<E, B>, E), M>) -> Self {
        self.own.on_event = Some(erase(handler));
        self
    }

    /// What is done with a batch.
    pub fn execute<M>(mut self, handler: impl JobHandler<(DebounceCtx<E, B>,), M>) -> DebounceBuilder<E, B, Executes> {
        self.own.execute = Some(erase(handler));
        let Self { contract, rules, own, on_exhausted, problem, .. } = self;
        DebounceBuilder { contract, rules, own, on_exhausted, problem, marker: PhantomData }
    }
}

impl<E, B> JobDefinition for DebounceBuilder<E, B, Executes>
where
    E: DeserializeOwned + Send + Sync + 'static,
    B: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn definition(self) -> Result<Definition, Error> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        check_policy(&self.rules.policy)?;
        Ok(Definition {
            job: self.contract.job_name()?,
            work: Work::Single(Rules::Debounce(self.rules)),
            handlers: Arc::new(self.own),
            on_exhausted: self.on_exhausted,
        })
    }
}

/// The handlers of a debounce.
struct Own<E, B> {
    on_event: Option<Erased<(DebounceCtx<E, B>, E)>>,
    execute: Option<Erased<(DebounceCtx<E, B>,)>>,
    on_error: Option<Erased<(DebounceCtx<E, B>, Failure)>>,
    retry_if: Option<RetryIf>,
}

impl<E, B> Handlers for Own<E, B>
where
    E: DeserializeOwned + Send + Sync + 'static,
    B: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn call(&self, given: Given) -> Calling {
        let ready = |ended: Ended| -> Calling { Box::pin(std::future::ready(ended)) };
        if let (HandlerKind::Event, None, Some(event)) = (given.call.handler, &self.on_event, given.event()) {
            // The batch is the latest event.
            return ready(match read::<E>("the event", &event.payload) {
                Ok(_) => {
                    let state = Some(event.payload.clone());
                    Ended { end: End::Done(Done { state, ..Done::default() }), writes: Vec::new() }
                }
                Err(problem) => Ended::unreadable(problem),
            });
        }
        let ctx: DebounceCtx<E, B> = match Inner::new(given.setting(), given.record.state.as_ref()) {
            Ok(inner) => DebounceCtx { inner, types: PhantomData },
            Err(problem) => return ready(Ended::unreadable(problem)),
        };
        let finish = ctx.inner.clone();
        let finish = move || (finish.changed(), std::mem::take(&mut *finish.setting.outbox.lock()));
        let retry_if = self.retry_if.clone();
        match (given.call.handler, given.event(), &self.on_event, &self.execute, &self.on_error) {
            (HandlerKind::Event, Some(event), Some(on_event), ..) => match read::<E>("the event", &event.payload) {
                Ok(event) => {
                    let on_event = on_event.clone();
                    Box::pin(async move { run(|| on_event((ctx, event)), retry_if.as_ref(), finish).await })
                }
                Err(problem) => ready(Ended::unreadable(problem)),
            },
            (HandlerKind::Error, .., Some(on_error)) => {
                let (on_error, failure) = (on_error.clone(), given.failure());
                Box::pin(async move { run(|| on_error((ctx, failure)), None, finish).await })
            }
            (_, _, _, Some(execute), _) => {
                let execute = execute.clone();
                Box::pin(async move { run(|| execute((ctx,)), retry_if.as_ref(), finish).await })
            }
            _ => ready(Ended::unreadable("the job has no such handler".into())),
        }
    }

    fn check(&self, event: &Payload) -> Result<(), Error> {
        check_event::<E>(event)
    }
}

/// What the handlers of a debounce are given.
pub struct DebounceCtx<E, B> {
    inner: Arc<Inner<B>>,
    types: PhantomData<fn(E)>,
}

impl<E, B> Clone for DebounceCtx<E, B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), types: PhantomData }
    }
}

impl<E, B: Serialize + DeserializeOwned> DebounceCtx<E, B> {
    fn setting(&self) -> &Setting {
        &self.inner.setting
    }

    /// The batch, if it has begun.
    #[must_use]
    pub fn state(&self) -> Option<B>
    where
        B: Clone,
    {
        self.inner.state()
    }

    /// Replaces the batch; kept if the handler succeeds.
    pub fn set_state(&self, state: B) {
        self.inner.set(state);
    }

    /// Changes the batch in place, beginning with the default if there is none; kept if the handler succeeds.
    pub fn update_state<R>(&self, change: impl FnOnce(&mut B) -> R) -> R
    where
        B: Default,
    {
        self.inner.update(B::default, change)
    }

    /// How many events the batch has.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.setting().event_count
    }

    /// The first event of the batch, if it reads as one.
    #[must_use]
    pub fn first_event(&self) -> Option<E>
    where
        E: DeserializeOwned,
    {
        self.setting().first_event.as_ref()?.decode().ok()
    }

    /// Why the batch is flushed, if it is.
    #[must_use]
    pub fn flush_reason(&self) -> Option<FlushReason> {
        self.setting().flush
    }

    common_methods!();
    terminate_method!();
}

/// The client of a debounce.
#[derive(Clone)]
pub struct DebounceClient<E, B> {
    client: JobClient,
    types: PhantomData<fn(E) -> B>,
}

impl<E, B> Contract for Debounce<E, B> {
    type Client = DebounceClient<E, B>;

    fn client(self, client: &Client) -> DebounceClient<E, B> {
        DebounceClient { client: JobClient::new(client, self.job_name()), types: PhantomData }
    }
}

impl<E: Serialize + DeserializeOwned, B: DeserializeOwned> DebounceClient<E, B> {
    /// Adds an event. It is durable when this returns, and is in this batch or in the next one.
    ///
    /// # Errors
    /// If the id or the event cannot be accepted.
    pub async fn add(&self, id: &str, event: &E) -> Result<Added, Error> {
        self.accept(id, event, None).await
    }

    /// As [`add`](Self::add), once for each key in a batch.
    ///
    /// # Errors
    /// If the id, the key or the event cannot be accepted.
    pub async fn add_once(&self, id: &str, event: &E, key: &str) -> Result<Added, Error> {
        self.accept(id, event, Some(key)).await
    }

    async fn accept(&self, id: &str, event: &E, key: Option<&str>) -> Result<Added, Error> {
        let payload = self.client.shared.encode("the event", event)?;
        let dedup = key.map(|key| Name::new("event key", key)).transpose()?;
        let accepted = self.client.push(id, vec![Event { dedup, ..Event::new(payload) }], Place::Inbox).await?;
        let (created, is_new) = (accepted.created, accepted.positions != [0]);
        if !is_new {
            let info = self.client.info(id).await?;
            return Ok(Added { created, is_new, event_count: info.event_count, flush_at: info.next_run });
        }
        Ok(match self.client.outcome(accepted, Patience::UntilHeard).await? {
            Reply::Taken { event_count, next, .. } => Added { created, is_new, event_count, flush_at: next },
            Reply::Held { event_count } => Added { created, is_new, event_count, flush_at: None },
        })
    }

    /// Flushes the batch now, with all that was added before this.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no batch.
    pub async fn flush(&self, id: &str) -> Result<(), Error> {
        self.client.tell(id, Message::Trigger).await
    }

    /// Forgets the batch with all that was added before this.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no batch.
    pub async fn clear(&self, id: &str) -> Result<(), Error> {
        self.client.tell(id, Message::Clear).await
    }

    /// Where the instance is.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn status(&self, id: &str) -> Result<JobInfo, Error> {
        self.client.info(id).await
    }

    /// The batch as it is, without waiting for events that are under way.
    ///
    /// # Errors
    /// If the store cannot be read, or the batch not decoded.
    pub async fn state(&self, id: &str) -> Result<Option<B>, Error> {
        self.client.state(id).await
    }

    /// Batches that were given up, oldest first, and single events that `on_event` could not add to one.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn dead(&self) -> Result<Vec<DeadLetter<serde_json::Value>>, Error> {
        self.client.dead().await
    }

    /// Flushes all batches again that were given up. Answers how many.
    ///
    /// # Errors
    /// If the store cannot take it.
    pub async fn retry_dead(&self) -> Result<u64, Error> {
        self.client.bury_all(true).await
    }

    /// Drops all batches that were given up. Answers how many.
    ///
    /// # Errors
    /// If the store cannot take it.
    pub async fn drop_dead(&self) -> Result<u64, Error> {
        self.client.bury_all(false).await
    }
}
