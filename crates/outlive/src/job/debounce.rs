//! A job that collects events and handles them as a batch.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::event::Event;
use outlive_core::failure::{Cause, Failure};
use outlive_core::id::Name;
use outlive_core::job::{DebounceRules, Done, End, Exhausted, FlushReason, HandlerKind, Policy, Rules};
use outlive_core::kind::JobKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::PushTarget;
use outlive_core::retry::Retry;
use outlive_core::store::page::is_full;
use outlive_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::client::{JobClient, Patience, add_dedup_key, record_of};
use super::context::{StateCell, common_methods, read, terminate_method};
use super::macros::{contract, dead_methods, instance_methods, settings_methods};
use super::order::{Limit, Order};
use super::outcome::{Added, DeadLetter, JobInfo, failure_of};
use super::stateful::{Context, TypedHandlers};
use crate::client::{Client, Contract};
use crate::error::Error;
use crate::instance::codec;
use crate::instance::target::EventTarget;
use crate::runtime::call::PendingCall;
use crate::runtime::handlers::{
    CallContext, CallEnded, Calling, Definition, Executes, HandlerCall, Handlers, JobDefinition, JobHandler, RetryTest,
    Settings, Unfinished, Work, erase,
};
use crate::runtime::replies::MessageOutcome;

contract! {
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
    Debounce<E, B>, JobKind::Debounce,
    /// The client of a debounce.
    DebounceClient
}

impl<E: Serialize, B> EventTarget for Debounce<E, B> {
    type Event = E;

    fn job_name(self) -> Result<Name, Error> {
        Self::job_name(self)
    }
}

impl<E, B> Debounce<E, B> {
    /// Flushes a batch this long after its first event.
    pub fn flush_after(self, window: impl IntoDuration) -> DebounceBuilder<E, B> {
        DebounceBuilder::new(self).set("flush_after", window, |rules| &mut rules.window)
    }

    /// Flushes a batch this long after its last event; see [`max_wait`](DebounceBuilder::max_wait).
    pub fn quiet(self, quiet: impl IntoDuration) -> DebounceBuilder<E, B> {
        DebounceBuilder::new(self).set("quiet", quiet, |rules| &mut rules.quiet)
    }
}

/// Builder for a debounce.
#[must_use = "a job does nothing until it is registered with `.job(..)`"]
pub struct DebounceBuilder<E, B, X = Unfinished> {
    contract: Debounce<E, B>,
    settings: Settings,
    rules: DebounceRules,
    own: TypedHandlers<DebounceCtx<E, B>, E>,
    marker: PhantomData<X>,
}

impl<E, B> DebounceBuilder<E, B> {
    fn new(contract: Debounce<E, B>) -> Self {
        let rules = DebounceRules { policy: Policy::default(), window: None, quiet: None, max_events: None };
        Self { contract, settings: Settings::default(), rules, own: TypedHandlers::default(), marker: PhantomData }
    }
}

impl<E, B, X> DebounceBuilder<E, B, X> {
    fn set(
        mut self,
        what: &str,
        time: impl IntoDuration,
        place: impl FnOnce(&mut DebounceRules) -> &mut Option<Duration>,
    ) -> Self {
        let name = self.contract.name;
        let zero = || format!("{what} of debounce {name:?} must be greater than zero");
        if let Some(time) = self.settings.time(time, zero) {
            *place(&mut self.rules) = Some(time);
        }
        self
    }

    /// Flushes a batch at most this long after its first event, however many more arrive.
    pub fn max_wait(self, wait: impl IntoDuration) -> Self {
        self.set("max_wait", wait, |rules| &mut rules.window)
    }

    /// Flushes a batch once it has this many events.
    pub fn max_events(mut self, events: u64) -> Self {
        if events == 0 {
            let problem = format!("max_events 0 of debounce {:?} is too small; use at least 1", self.contract.name);
            self.settings.refuse(Error::Setup(problem));
        }
        self.rules.max_events = Some(events);
        self
    }

    settings_methods!(
        "Sets when to retry after a failure. Without it there are no retries. The batch is kept meanwhile, and new \
         events wait for the next one."
    );

    /// Sets the handler to call when a batch is given up. The batch then becomes a dead letter.
    pub fn on_error<M>(mut self, handler: impl JobHandler<(DebounceCtx<E, B>, Failure), M>) -> Self {
        self.settings.policy.has_error = true;
        self.own.on_error = Some(erase(handler));
        self
    }

    /// Sets how an event is added to the batch. By default, the batch is the latest event.
    pub fn on_event<M>(mut self, handler: impl JobHandler<(DebounceCtx<E, B>, E), M>) -> Self {
        self.own.on_event = Some(erase(handler));
        self
    }

    /// Sets the handler that processes a batch.
    pub fn execute<M>(mut self, handler: impl JobHandler<(DebounceCtx<E, B>,), M>) -> DebounceBuilder<E, B, Executes> {
        self.own.execute = Some(erase(handler));
        let Self { contract, settings, rules, own, .. } = self;
        DebounceBuilder { contract, settings, rules, own, marker: PhantomData }
    }
}

impl<E, B> JobDefinition for DebounceBuilder<E, B, Executes>
where
    E: DeserializeOwned + Send + Sync + 'static,
    B: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn definition(self) -> Result<Definition, Error> {
        let work = |policy| Work::Single(Rules::Debounce(DebounceRules { policy, ..self.rules }));
        self.settings.finish(self.contract.job_name(), work, Arc::new(self.own))
    }
}

impl<E, B> Handlers for TypedHandlers<DebounceCtx<E, B>, E>
where
    E: DeserializeOwned + Send + Sync + 'static,
    B: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn call(&self, input: HandlerCall) -> Calling {
        if let (HandlerKind::Event, None, Some(event)) = (input.call.handler, &self.on_event, input.event()) {
            // Without `on_event`, the batch is the latest event.
            let ended = match (read::<E>(&event.payload), codec::check::<B>("the event as a batch", &event.payload)) {
                (Err(problem), _) => End::Unreadable(problem),
                (_, Err(error)) => End::Failed(Failure::new(Cause::Output, error.to_string()).permanent()),
                _ => End::Done(Done { state: Some(event.payload.clone()), ..Done::default() }),
            };
            return CallEnded { end: ended, writes: Vec::new() }.at_once();
        }
        self.call_one(input)
    }

    fn check(&self, event: &Payload) -> Result<(), Error> {
        codec::check::<E>("the event", event)
    }
}

/// The context that handlers of a debounce receive.
pub struct DebounceCtx<E, B> {
    inner: Arc<StateCell<B>>,
    types: PhantomData<fn(E)>,
}

impl<E, B> Clone for DebounceCtx<E, B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), types: PhantomData }
    }
}

impl<E: 'static, B: Serialize + DeserializeOwned + Send + Sync + 'static> Context for DebounceCtx<E, B> {
    type State = B;

    fn of(inner: Arc<StateCell<B>>) -> Self {
        Self { inner, types: PhantomData }
    }
}

impl<E, B: Serialize + DeserializeOwned> DebounceCtx<E, B> {
    fn context(&self) -> &CallContext {
        &self.inner.context
    }

    /// Returns the batch, if it has begun.
    #[must_use]
    pub fn state(&self) -> Option<B>
    where
        B: Clone,
    {
        self.inner.state()
    }

    /// Replaces the batch. The change is kept if the handler succeeds.
    pub fn set_state(&self, state: B) {
        self.inner.set(state);
    }

    /// Changes the batch in place, starting with the default if there is none. The change is kept if the handler
    /// succeeds.
    pub fn update_state<R>(&self, change: impl FnOnce(&mut B) -> R) -> R
    where
        B: Default,
    {
        self.inner.update(B::default, change)
    }

    /// Returns the number of events in the batch.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.context().event_count
    }

    /// Returns the first event of the batch, if it decodes.
    #[must_use]
    pub fn first_event(&self) -> Option<E>
    where
        E: DeserializeOwned,
    {
        codec::read(self.context().first_event.as_ref()?).ok()
    }

    /// Returns why the batch is being flushed, if it is.
    #[must_use]
    pub fn flush_reason(&self) -> Option<FlushReason> {
        self.context().flush
    }

    common_methods!();
    terminate_method!();
}

impl<E: Serialize + DeserializeOwned, B: DeserializeOwned> DebounceClient<E, B> {
    /// Adds an event. It is durable when the future returns, and goes into this batch or the next one.
    ///
    /// # Errors
    /// If the id or the event cannot be accepted.
    pub fn add(&self, id: &str, event: &E) -> Add {
        let event = self.client.encode("the event", event).map(Event::new);
        let call = AddCall { client: self.client.clone(), id: id.to_owned(), event, limit: Limit::default() };
        Add { call: PendingCall::new(call) }
    }

    /// Flushes the batch now, with everything added before this call.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no batch.
    pub fn flush(&self, id: &str) -> Order {
        self.client.order(id, Message::Trigger)
    }

    /// Drops the batch, with everything added before this call.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no batch.
    pub fn clear(&self, id: &str) -> Order {
        self.client.order(id, Message::Clear)
    }

    instance_methods!(B);
    dead_methods!(
        serde_json::Value,
        "Returns the batches that were given up, oldest first, and single events that `on_event` could not add to one."
    );
}

/// An event being added to a batch, created by [`DebounceClient::add`]. Nothing is sent until it is awaited.
///
/// The event is durable when the future returns. The result describes its batch as far as it is known before the
/// executing process has taken the event. For an exact result, use [`wait`](Self::wait).
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const HOOKS: Debounce<u32, u32> = Debounce::new("hooks");
/// # async fn flush(_: DebounceCtx<u32, u32>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(HOOKS.flush_after("5 seconds").execute(flush)).start().await?;
/// let added = engine.job(HOOKS).add("shop", &1).wait("10 seconds").await?;
/// assert_eq!(added.event_count, 1);
/// # Ok(()) }
/// ```
#[must_use = "nothing is sent until it is awaited"]
pub struct Add {
    call: PendingCall<AddCall, Result<Added, Error>>,
}

struct AddCall {
    client: JobClient,
    id: String,
    event: Result<Event, Error>,
    limit: Limit,
}

impl Add {
    /// Adds the event only if the batch has none with this key.
    pub fn dedup_key(mut self, key: &str) -> Self {
        self.call.set(|call| add_dedup_key(&mut call.event, key));
        self
    }

    /// Waits until the event is in its batch, or is known to go into the next one because a flush is in progress.
    ///
    /// If that takes longer than the limit, the future returns [`Error::NotHandled`]. The event stays durable, so
    /// adding it again would add it twice.
    pub fn wait(mut self, limit: impl IntoDuration) -> Self {
        self.call.set(|call| call.limit = Limit::new(limit));
        self
    }
}

impl Future for Add {
    type Output = Result<Added, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, AddCall::send)
    }
}

impl AddCall {
    async fn send(self) -> Result<Added, Error> {
        let limit = self.limit.get()?;
        let accepted = self.client.push(&self.id, vec![self.event?], PushTarget::Inbox).await?;
        let (created, is_new, instance) = (accepted.created, accepted.positions != [0], accepted.id.to_string());
        let pos = accepted.positions.first().copied().unwrap_or(0);
        let (event_count, flush_at) = match limit {
            Some(limit) if is_new => match self.client.outcome_within(accepted, Patience::Heard, limit).await? {
                MessageOutcome::Taken { event_count, next, .. } => (event_count, next),
                MessageOutcome::Held { event_count } => (event_count, None),
                MessageOutcome::GivenUp { failure } => {
                    return Err(Error::Failed { id: instance, failure: failure_of(&failure) });
                }
            },
            // The event is accepted, whatever is known about its batch.
            _ => self.client.batch_of(&self.id, pos).await.unwrap_or((u64::from(is_new), None)),
        };
        Ok(Added { created, is_new, event_count, flush_at })
    }
}

/// How often a batch is read again because something was taken from it in between.
const BATCH_READS: usize = 3;

/// The longest inbox that is looked through to say how many events a batch has: a longer one would make each event cost
/// more than the one before.
const BATCH_READ_MAX: usize = 256;

impl JobClient {
    /// Returns how many events the batch has, up to the one at a position, and when it is flushed, as far as is known.
    async fn batch_of(&self, id: &str, pos: u64) -> Result<(u64, Option<Timestamp>), Error> {
        let rules = self.shared.registry.job(self.job()?).and_then(|definition| match &definition.work {
            Work::Single(Rules::Debounce(rules)) => Some(rules),
            _ => None,
        });
        let mut found = self.instance(id).await?;
        for _ in 0..BATCH_READS {
            let Some(instance) = found else { break };
            let waiting = self.shared.store.inbox(instance.num, 0, BATCH_READ_MAX).await?;
            if is_full(&waiting, BATCH_READ_MAX) {
                return Ok((waiting.len() as u64, None));
            }
            let again = self.instance(id).await?;
            if again
                .as_ref()
                .is_some_and(|again| again.reported != instance.reported || again.outcome != instance.outcome)
            {
                // Something was taken between the two reads and is in neither.
                found = again;
                continue;
            }
            let record = record_of(&instance);
            let is_event = |inbound: &&Inbound| matches!(inbound.message, Message::Event(_));
            let waiting: Vec<_> = waiting.iter().filter(|inbound| inbound.pos <= pos).collect();
            // Events after an order to flush or clear belong to the next batch.
            let order = waiting.iter().rposition(|inbound| !is_event(inbound));
            let waiting = &waiting[order.map_or(0, |order| order + 1)..];
            let is_full = rules.and_then(|rules| rules.max_events).is_some_and(|max| record.events >= max);
            let is_due = waiting.last().is_some_and(|inbound| record.next.is_some_and(|next| next <= inbound.at));
            let is_held = record.retry.is_some() || record.flush.is_some() || record.trouble.is_some();
            if (is_held || is_full || is_due || order.is_some()) && !waiting.is_empty() {
                return Ok((waiting.len() as u64, None));
            }
            let opened_at = record.opened_at.or(waiting.first().map(|inbound| inbound.at));
            let last_at = waiting.last().map(|inbound| inbound.at);
            let ends = rules.map(|rules| {
                let window = rules.window.and_then(|window| opened_at.map(|at| at.after(window)));
                window.into_iter().chain(rules.quiet.and_then(|quiet| last_at.map(|at| at.after(quiet)))).min()
            });
            let flush_at = if waiting.is_empty() { record.next } else { ends.unwrap_or(record.next) };
            return Ok((record.events + waiting.len() as u64, flush_at));
        }
        Ok((u64::from(pos > 0), None))
    }
}
