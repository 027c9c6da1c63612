//! A job that handles events one at a time and schedules its own execution.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use outlive_core::duration::IntoDuration;
use outlive_core::event::Event;
use outlive_core::failure::Failure;
use outlive_core::id::Name;
use outlive_core::job::{Exhausted, Planned, Rules, TaskRules};
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::queue::PushTarget;
use outlive_core::retry::Retry;
use outlive_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::client::{Accepted, JobClient, Patience, add_dedup_key};
use super::context::{StateCell, common_methods, terminate_method};
use super::macros::{contract, dead_methods, instance_methods, settings_methods};
use super::order::{Limit, Order};
use super::outcome::{DeadLetter, JobInfo, Sent, failure_of};
use super::stateful::{Context, TypedHandlers};
use crate::client::{Client, Contract};
use crate::error::Error;
use crate::instance::codec;
use crate::instance::target::EventTarget;
use crate::runtime::call::PendingCall;
use crate::runtime::handlers::{
    CallContext, Calling, Definition, Executes, HandlerCall, Handlers, JobDefinition, JobHandler, RetryTest, Settings,
    Unfinished, Work, erase,
};
use crate::runtime::replies::MessageOutcome;

contract! {
    /// Names a task and the types of its events and its state.
    ///
    /// ```
    /// use outlive::job::{Task, TaskCtx};
    /// use outlive::prelude::*;
    ///
    /// const ORDERS: Task<String, Vec<String>> = Task::new("order-processor");
    ///
    /// async fn handle(ctx: TaskCtx<String, Vec<String>>, event: String) -> Result<usize> {
    ///     ctx.schedule_in("1 hour")?;
    ///     Ok(ctx.update_state(|events| { events.push(event); events.len() }))
    /// }
    /// async fn remind(_: TaskCtx<String, Vec<String>>) -> Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").job(ORDERS.on_event(handle).execute(remind)).start().await?;
    /// let count: usize = engine.job(ORDERS).ask("42", &"paid".to_owned()).await?;
    /// assert_eq!(count, 1);
    /// # Ok(()) }
    /// ```
    Task<E, S>, JobKind::Task,
    /// The client of a task.
    TaskClient
}

impl<E: Serialize, S> EventTarget for Task<E, S> {
    type Event = E;

    fn job_name(self) -> Result<Name, Error> {
        Self::job_name(self)
    }
}

impl<E, S> Task<E, S> {
    /// Sets the handler of events, which runs for one event at a time. Its return value is what
    /// [`ask`](TaskClient::ask) returns.
    pub fn on_event<M>(self, handler: impl JobHandler<(TaskCtx<E, S>, E), M>) -> TaskBuilder<E, S> {
        let own = TypedHandlers { on_event: Some(erase(handler)), ..TypedHandlers::default() };
        TaskBuilder { contract: self, settings: Settings::default(), own, marker: PhantomData }
    }
}

/// Builder for a task.
#[must_use = "a job does nothing until it is registered with `.job(..)`"]
pub struct TaskBuilder<E, S, X = Unfinished> {
    contract: Task<E, S>,
    settings: Settings,
    own: TypedHandlers<TaskCtx<E, S>, E>,
    marker: PhantomData<X>,
}

impl<E, S, X> TaskBuilder<E, S, X> {
    settings_methods!("Sets when to retry after `on_event` or `execute` fails. Without it there are no retries.");

    /// Sets the handler to call when an event or an execution is given up. It may schedule what comes next.
    pub fn on_error<M>(mut self, handler: impl JobHandler<(TaskCtx<E, S>, Failure), M>) -> Self {
        self.settings.policy.has_error = true;
        self.own.on_error = Some(erase(handler));
        self
    }

    /// Sets the handler to call when there is nothing to do and nothing scheduled.
    pub fn on_idle<M>(mut self, handler: impl JobHandler<(TaskCtx<E, S>,), M>) -> Self {
        self.own.on_idle = Some(erase(handler));
        self
    }

    /// Sets the handler to call at the time that another handler scheduled.
    pub fn execute<M>(mut self, handler: impl JobHandler<(TaskCtx<E, S>,), M>) -> TaskBuilder<E, S, Executes> {
        self.own.execute = Some(erase(handler));
        TaskBuilder { contract: self.contract, settings: self.settings, own: self.own, marker: PhantomData }
    }
}

impl<E, S> JobDefinition for TaskBuilder<E, S, Executes>
where
    E: DeserializeOwned + Send + Sync + 'static,
    S: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn definition(self) -> Result<Definition, Error> {
        let has_idle = self.own.on_idle.is_some();
        let work = |policy| Work::Single(Rules::Task(TaskRules { policy, has_idle }));
        self.settings.finish(self.contract.job_name(), work, Arc::new(self.own))
    }
}

impl<E, S> Handlers for TypedHandlers<TaskCtx<E, S>, E>
where
    E: DeserializeOwned + Send + Sync + 'static,
    S: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn call(&self, input: HandlerCall) -> Calling {
        self.call_one(input)
    }

    fn check(&self, event: &Payload) -> Result<(), Error> {
        codec::check::<E>("the event", event)
    }
}

/// The context that handlers of a task receive.
pub struct TaskCtx<E, S> {
    inner: Arc<StateCell<S>>,
    types: PhantomData<fn(E)>,
}

impl<E, S> Clone for TaskCtx<E, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), types: PhantomData }
    }
}

impl<E: 'static, S: Serialize + DeserializeOwned + Send + Sync + 'static> Context for TaskCtx<E, S> {
    type State = S;

    fn of(inner: Arc<StateCell<S>>) -> Self {
        Self { inner, types: PhantomData }
    }
}

impl<E, S: Serialize + DeserializeOwned> TaskCtx<E, S> {
    fn context(&self) -> &CallContext {
        &self.inner.context
    }

    /// Returns the state, if there is one yet.
    #[must_use]
    pub fn state(&self) -> Option<S>
    where
        S: Clone,
    {
        self.inner.state()
    }

    /// Replaces the state. The change is kept if the handler succeeds.
    pub fn set_state(&self, state: S) {
        self.inner.set(state);
    }

    /// Changes the state in place, starting with the default if there is none. The change is kept if the handler
    /// succeeds.
    pub fn update_state<R>(&self, change: impl FnOnce(&mut S) -> R) -> R
    where
        S: Default,
    {
        self.inner.update(S::default, change)
    }

    /// Schedules `execute` after this delay, replacing any earlier schedule.
    ///
    /// # Errors
    /// [`Error::Duration`] if this is not a duration.
    pub fn schedule_in(&self, delay: impl IntoDuration) -> Result<(), Error> {
        let delay = delay.into_duration()?;
        self.schedule_at(self.context().outbox.now().after(delay));
        Ok(())
    }

    /// Schedules `execute` at this time, replacing any earlier schedule.
    pub fn schedule_at(&self, at: impl Into<Timestamp>) {
        self.context().outbox.lock().plan = Some(Planned::At(at.into()));
    }

    /// Cancels the schedule.
    pub fn cancel_schedule(&self) {
        self.context().outbox.lock().plan = Some(Planned::Never);
    }

    /// Returns the time for which `execute` is scheduled now.
    #[must_use]
    pub fn scheduled_at(&self) -> Option<Timestamp> {
        match self.context().outbox.lock().plan {
            Some(Planned::At(at)) => Some(at),
            Some(Planned::Never) => None,
            None => self.context().next,
        }
    }

    /// Returns how many times `execute` has finished.
    #[must_use]
    pub fn execute_count(&self) -> u64 {
        self.context().run_count
    }

    /// Returns how many events were handled before this call.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.context().event_count
    }

    common_methods!();
    terminate_method!();
}

/// A reply as it is stored.
#[derive(Deserialize)]
struct WireReply {
    ok: Option<Box<RawValue>>,
    failed: Option<Box<RawValue>>,
}

impl<E: Serialize + DeserializeOwned, S: DeserializeOwned> TaskClient<E, S> {
    /// Sends an event. It is durable when the future returns, and is handled after all that were sent before it.
    ///
    /// # Errors
    /// If the id or the event cannot be accepted.
    pub fn send(&self, id: &str, event: &E) -> SendEvent {
        SendEvent::new(&self.client, id, self.event(event, false))
    }

    /// Sends an event and waits for the value that `on_event` returns. If the event is given up, that is the error.
    ///
    /// Waits until a process executes the store, unless it is limited with [`wait`](Ask::wait).
    ///
    /// # Errors
    /// If the event cannot be accepted or is given up, or the reply does not decode as `A`.
    pub fn ask<A: DeserializeOwned>(&self, id: &str, event: &E) -> Ask<A> {
        let event = self.event(event, true);
        let call = AskCall { client: self.client.clone(), id: id.to_owned(), event, limit: Limit::default() };
        Ask { call: PendingCall::new(call) }
    }

    fn event(&self, event: &E, is_asking: bool) -> Result<Event, Error> {
        Ok(Event { is_asking, ..Event::new(self.client.encode("the event", event)?) })
    }

    /// Calls `execute` now. What is scheduled for later stays.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub fn trigger(&self, id: &str) -> Order {
        self.client.order(id, Message::Trigger)
    }

    instance_methods!(S);
    dead_methods!(E, "Events that were given up, oldest first.");
}

/// An event that is being sent to a task, created by [`TaskClient::send`]. Nothing is sent until it is awaited.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const SUMS: Task<u32, u32> = Task::new("sums");
/// # async fn add(ctx: TaskCtx<u32, u32>, n: u32) -> Result<()> { ctx.update_state(|sum| *sum += n); Ok(()) }
/// # async fn nothing(_: TaskCtx<u32, u32>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(SUMS.on_event(add).execute(nothing)).start().await?;
/// let sums = engine.job(SUMS);
/// let first = sums.send("tea", &3).dedup_key("order-42").await?;
/// let again = sums.send("tea", &3).dedup_key("order-42").await?; // a retry of the caller
/// assert!(first.is_new && !again.is_new);
/// # Ok(()) }
/// ```
#[must_use = "nothing is sent until it is awaited"]
pub struct SendEvent {
    call: PendingCall<EventCall, Result<Sent, Error>>,
}

/// An event for an instance.
struct EventCall {
    client: JobClient,
    id: String,
    event: Result<Event, Error>,
}

impl SendEvent {
    pub(super) fn new(client: &JobClient, id: &str, event: Result<Event, Error>) -> Self {
        Self { call: PendingCall::new(EventCall { client: client.clone(), id: id.to_owned(), event }) }
    }

    /// Sends the event only if none with this key was sent for as long as the instance exists.
    pub fn dedup_key(mut self, key: &str) -> Self {
        self.call.set(|call| add_dedup_key(&mut call.event, key));
        self
    }
}

impl Future for SendEvent {
    type Output = Result<Sent, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, async |EventCall { client, id, event }: EventCall| {
            let accepted = client.push(&id, vec![event?], PushTarget::Inbox).await?;
            Ok(sent(&accepted))
        })
    }
}

/// A request to a task, created by [`TaskClient::ask`]. Nothing is sent until it is awaited.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const SUMS: Task<u32, u32> = Task::new("sums");
/// # async fn add(ctx: TaskCtx<u32, u32>, n: u32) -> Result<u32> { Ok(ctx.update_state(|sum| { *sum += n; *sum })) }
/// # async fn nothing(_: TaskCtx<u32, u32>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(SUMS.on_event(add).execute(nothing)).start().await?;
/// let sum: u32 = engine.job(SUMS).ask("tea", &3).wait("10 seconds").await?;
/// assert_eq!(sum, 3);
/// # Ok(()) }
/// ```
#[must_use = "nothing is sent until it is awaited"]
pub struct Ask<A> {
    call: PendingCall<AskCall, Result<A, Error>>,
}

struct AskCall {
    client: JobClient,
    id: String,
    event: Result<Event, Error>,
    limit: Limit,
}

impl<A> Ask<A> {
    /// Limits how long to wait for the reply.
    ///
    /// After that, the future returns [`Error::NotHandled`]. The event stays durable and is handled once.
    pub fn wait(mut self, limit: impl IntoDuration) -> Self {
        self.call.set(|call| call.limit = Limit::new(limit));
        self
    }
}

impl<A: DeserializeOwned + 'static> Future for Ask<A> {
    type Output = Result<A, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, AskCall::reply)
    }
}

impl AskCall {
    async fn reply<A: DeserializeOwned>(self) -> Result<A, Error> {
        let limit = self.limit.get()?;
        let accepted = self.client.push(&self.id, vec![self.event?], PushTarget::Inbox).await?;
        let instance = accepted.id.to_string();
        let reply = match limit {
            Some(limit) => self.client.outcome_within(accepted, Patience::Handled, limit).await?,
            None => self.client.outcome(accepted, Patience::Handled).await?,
        };
        match reply {
            MessageOutcome::Taken { answer: Some(answer), .. } => read_answer(&instance, &answer),
            MessageOutcome::GivenUp { failure } => Err(Error::Failed { id: instance, failure: failure_of(&failure) }),
            // The instance was terminated, or the reply is so old that it was dropped.
            _ => Err(Error::NotFound { id: instance }),
        }
    }
}

fn sent(accepted: &Accepted) -> Sent {
    let event = accepted.positions.first().copied().unwrap_or(0);
    Sent { created: accepted.created, instance: accepted.id.to_string(), is_new: event > 0, event }
}

fn read_answer<A: DeserializeOwned>(instance: &str, answer: &Payload) -> Result<A, Error> {
    let wire: WireReply = answer.decode().map_err(|error| Error::decode("the answer".into(), answer, &error))?;
    if let Some(failed) = wire.failed {
        let failure = failure_of(&Payload::recorded(failed.get()));
        return Err(Error::Failed { id: instance.to_owned(), failure });
    }
    let value = Payload::recorded(wire.ok.as_deref().map_or("null", RawValue::get));
    codec::decode("the answer", &value)
}
