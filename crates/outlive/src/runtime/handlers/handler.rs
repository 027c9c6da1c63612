//! User handlers, and how the engine calls them without knowing their types.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::{Either, select};
use outlive_core::duration;
use outlive_core::event::Event;
use outlive_core::failure::{Cause, Failure};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::job::{Call, Done, End, HandlerKind, Record};
use outlive_core::kind::JobKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::Dead;
use outlive_core::store::commit::Write;
use outlive_core::time::Timestamp;
use serde::Serialize;

use super::context::{CallContext, CallTimes};
use super::outbox::{HandlerEnv, HandlerRequests};
use crate::error::{BoxError, Error, failure_of, find, is_permanent};
use crate::instance::layers::{self, FailedBody, Observed, ObservedHandler};
use crate::instance::panics;

/// An async function that handles a call. It takes a context, and an event if the call is for one.
///
/// ```
/// use outlive::job::{JobHandler, TaskCtx};
/// use outlive::prelude::*;
/// async fn check(_: TaskCtx<u32, u32>) -> Result<()> { Ok(()) }
/// fn is_handler<M>(_: impl JobHandler<(TaskCtx<u32, u32>,), M>) {}
/// is_handler(check);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler for this job",
    label = "expected an async function of `{Args}` that returns `Result<_, _>`",
    note = "the return value must be `Serialize`, the error `Into<Box<dyn Error + Send + Sync>>`",
    note = "the future must be `Send`: hold nothing like `Rc` or a `MutexGuard` across an `.await`"
)]
pub trait JobHandler<Args, M>: Send + Sync + 'static {
    /// Calls the handler.
    fn call(&self, args: Args) -> HandlerFuture;
}

/// The future of a handler. It resolves to the return value as JSON.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Payload, BoxError>> + Send>>;

impl<F, Fut, C, T, E> JobHandler<(C,), (T, E)> for F
where
    F: Fn(C) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize,
    E: Into<BoxError>,
{
    fn call(&self, (ctx,): (C,)) -> HandlerFuture {
        let work = self(ctx);
        Box::pin(async move { Ok(Payload::encode(&work.await.map_err(Into::into)?)?) })
    }
}

impl<F, Fut, C, A, T, E> JobHandler<(C, A), (A, T, E)> for F
where
    F: Fn(C, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize,
    E: Into<BoxError>,
{
    fn call(&self, (ctx, arg): (C, A)) -> HandlerFuture {
        let work = self(ctx, arg);
        Box::pin(async move { Ok(Payload::encode(&work.await.map_err(Into::into)?)?) })
    }
}

/// A handler with its type erased.
pub(crate) type Erased<Args> = Arc<dyn Fn(Args) -> HandlerFuture + Send + Sync>;

pub(crate) fn erase<Args, M>(handler: impl JobHandler<Args, M>) -> Erased<Args> {
    Arc::new(move |args| handler.call(args))
}

/// A function that decides which errors of a job's handlers are retried. It takes one error type, or any error as
/// `&BoxError`.
///
/// A function of one error type decides about errors of that type, including those found through
/// [`source`](std::error::Error::source). All other errors are retried.
///
/// ```
/// use outlive::{BoxError, job::RetryTest};
/// use std::io;
/// fn is_test<M>(_: impl RetryTest<M>) {}
/// is_test(|error: &io::Error| error.kind() == io::ErrorKind::TimedOut);
/// is_test(|error: &BoxError| error.to_string() != "no such card");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot decide which errors to retry",
    label = "expected a function of `&E` or `&BoxError` that returns `bool`",
    note = "`E` must implement `std::error::Error`; write the type out: `|error: &MyError| ..`"
)]
pub trait RetryTest<M>: Send + Sync + 'static {
    /// Returns `true` if the error should be retried.
    fn is_worth_it(&self, error: &BoxError) -> bool;
}

impl<F> RetryTest<BoxError> for F
where
    F: Fn(&BoxError) -> bool + Send + Sync + 'static,
{
    fn is_worth_it(&self, error: &BoxError) -> bool {
        self(error)
    }
}

impl<F, E> RetryTest<(E,)> for F
where
    F: Fn(&E) -> bool + Send + Sync + 'static,
    E: std::error::Error + 'static,
{
    fn is_worth_it(&self, error: &BoxError) -> bool {
        find::<E>(&**error).is_none_or(self)
    }
}

/// Decides which errors are retried.
type HandlerRetryIf = Arc<dyn Fn(&BoxError) -> bool + Send + Sync>;

/// Encodes an error, if it is of a type to keep.
type Keep = Arc<dyn Fn(&BoxError) -> Option<Payload> + Send + Sync>;

/// The settings for calls of handlers.
#[derive(Clone, Default)]
pub(crate) struct CallPolicy {
    /// Which errors are retried.
    pub(crate) retry_if: Option<HandlerRetryIf>,
    /// Which errors are kept with their failures.
    pub(crate) keep: Option<Keep>,
    /// How long an attempt may take.
    pub(crate) timeout: Option<Duration>,
}

impl CallPolicy {
    /// Also keeps errors of this type.
    pub(crate) fn keep_details<E: std::error::Error + Serialize + 'static>(&mut self) {
        let before = self.keep.take();
        self.keep = Some(Arc::new(move |error| match find::<E>(&**error) {
            Some(found) => Payload::encode(found).ok(),
            None => before.as_ref().and_then(|keep| keep(error)),
        }));
    }
}

/// The input of a call.
pub(crate) struct HandlerCall {
    pub(crate) env: Arc<HandlerEnv>,
    pub(crate) call_policy: CallPolicy,
    pub(crate) num: InstanceNum,
    pub(crate) id: Name,
    pub(crate) call: Call,
    pub(crate) record: Record,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Timestamp,
}

impl HandlerCall {
    pub(crate) fn context(&self) -> CallContext {
        let at = CallTimes { created: self.created_at, started: self.started_at };
        CallContext::new(self.env.clone(), &self.id, self.key(), (&self.call, &self.record), at)
    }

    /// Returns a key that all attempts of this call share and no other call has, not even one of a later instance with
    /// the same id.
    fn key(&self) -> String {
        let (record, call) = (&self.record, &self.call);
        let call_of = |what: String| format!("{}/{}/{}/{what}", self.id, self.num, call.handler.as_str());
        match &call.event {
            Some(inbound) => call_of(inbound.pos.to_string()),
            // A batch is identified by its first event, a run by its trigger or its tick.
            None if record.batch.0 > 0 => call_of(record.batch.0.to_string()),
            None if call.handler == HandlerKind::Execute => match (call.trigger, call.tick) {
                (Some(trigger), _) => call_of(format!("trigger-{trigger}")),
                // The ticks of a schedule differ, but a task may plan the same time twice.
                (_, Some(tick)) if JobKind::of(&self.id) == Some(JobKind::Task) => {
                    call_of(format!("{}@{}", record.calls, tick.as_millis()))
                }
                (_, tick) => call_of(tick.map_or(0, Timestamp::as_millis).to_string()),
            },
            None => call_of(record.calls.to_string()),
        }
    }

    pub(crate) fn event(&self) -> Option<&Event> {
        match &self.call.event {
            Some(Inbound { message: Message::Event(event), .. }) => Some(event),
            _ => None,
        }
    }

    /// Returns the failure that `on_error` is called for.
    pub(crate) fn failure(&self) -> Failure {
        let recorded = self.call.failure.as_ref().and_then(|payload| Failure::from_payload(payload).ok());
        recorded.unwrap_or_else(|| Failure::new(Cause::Error, "unknown"))
    }
}

/// How a call ended, and the writes it asked for.
#[derive(Clone)]
pub(crate) struct CallEnded {
    pub(crate) end: End,
    pub(crate) writes: Vec<Write>,
}

impl CallEnded {
    pub(crate) fn unreadable(problem: String) -> Self {
        Self { end: End::Unreadable(problem), writes: Vec::new() }
    }

    /// Returns a call that has already ended.
    pub(crate) fn at_once(self) -> Calling {
        Calling::new(std::future::ready(self))
    }
}

/// A call in progress. It catches every panic of user code, so a panic ends the call and never its driver.
pub(crate) struct Calling(Option<Pin<Box<dyn Future<Output = CallEnded> + Send>>>);

impl Calling {
    pub(crate) fn new(work: impl Future<Output = CallEnded> + Send + 'static) -> Self {
        Self(Some(Box::pin(work)))
    }

    /// Starts a call. Decoding its input is user code too.
    pub(crate) fn begin(call: impl FnOnce() -> Self) -> Self {
        panics::catch(call).unwrap_or_else(|panic| CallEnded::unreadable(panic.to_string()).at_once())
    }

    /// Drops what the call holds, which may run user code too.
    fn drop_work(&mut self) -> Result<(), Failure> {
        let work = self.0.take();
        panics::catch(|| drop(work))
    }
}

impl Future for Calling {
    type Output = CallEnded;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallEnded> {
        let Some(work) = self.0.as_mut() else { return Poll::Pending };
        let ended = ready!(panics::poll(work.as_mut(), cx));
        let ended = match (ended, self.drop_work()) {
            (Ok(ended), Ok(())) => ended,
            (Err(panic), _) | (_, Err(panic)) => CallEnded { end: End::Failed(panic), writes: Vec::new() },
        };
        Poll::Ready(ended)
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        if let Err(panic) = self.drop_work() {
            tracing::warn!("a dropped handler {panic}");
        }
    }
}

/// The handlers of a definition.
pub(crate) trait Handlers: Send + Sync {
    /// Calls the handler that the input names.
    fn call(&self, input: HandlerCall) -> Calling;
    /// Returns an error if an event does not decode as the job's event type.
    fn check(&self, event: &Payload) -> Result<(), Error>;
}

/// The input of a call to a pool's handler.
pub(crate) struct PoolCall {
    pub(crate) env: Arc<HandlerEnv>,
    pub(crate) call_policy: CallPolicy,
    pub(crate) id: Name,
    /// The name of the handler, for the idempotency key.
    pub(crate) handler: &'static str,
    /// The events with their positions.
    pub(crate) events: Vec<(u64, Event)>,
    /// When the first event was pushed.
    pub(crate) pushed_at: Timestamp,
    pub(crate) started_at: Timestamp,
}

impl PoolCall {
    /// Returns the context of the call, which is taken from the first event.
    pub(crate) fn context(&self) -> CallContext {
        let (pos, failed) = self.events.first().map_or((0, 0), |(pos, event)| (*pos, event.failed));
        let call = Call {
            handler: HandlerKind::Execute,
            attempt: failed.saturating_add(1),
            event: None,
            tick: None,
            trigger: None,
            flush: None,
            failure: None,
        };
        let at = CallTimes { created: self.pushed_at, started: self.started_at };
        let key = format!("{}/{}/{pos}", self.id, self.handler);
        let context = CallContext::new(self.env.clone(), &self.id, key, (&call, &Record::default()), at);
        CallContext { handler: self.handler, ..context }
    }
}

/// The handlers of a pool.
pub(crate) trait PoolHandlers: Send + Sync {
    /// Handles events.
    fn call(&self, input: PoolCall) -> Calling;
    /// Shows an event that is input up to `on_dead`, if there is one.
    fn dead(&self, input: PoolCall, dead: &Dead) -> Option<Calling>;
}

/// Runs a handler to its end. A panic is a failure, and terminating the instance overrides any result. `changed`
/// returns the state to store.
pub(crate) async fn run(
    begin: impl FnOnce() -> HandlerFuture,
    call_policy: CallPolicy,
    context: &CallContext,
    changed: impl FnOnce() -> Result<Option<Payload>, Error>,
) -> CallEnded {
    let result = match panics::catch(begin) {
        Ok(work) => attempt(work, &call_policy, context).await,
        Err(panic) => Err(panic),
    };
    // Encoding the state is user code too.
    let state = panics::catch(changed).unwrap_or_else(|panic| {
        let what = "the state cannot be written as JSON".to_owned();
        Err(Error::Payload { what, problem: panic.to_string() })
    });
    let mut asked = context.outbox.close();
    let result = match asked.problem.take() {
        Some(problem) => result.and(Err(Failure::new(Cause::Error, problem.to_string()).permanent())),
        None => result,
    };
    ended(result, state, asked)
}

async fn attempt(mut work: HandlerFuture, call_policy: &CallPolicy, context: &CallContext) -> Result<Payload, Failure> {
    let result = match context.outbox.env().layers.is_empty() {
        true => in_time(handle(&mut work, call_policy), call_policy, context).await.map_err(|failed| failed.failure),
        false => in_time(layered(&mut work, call_policy, context), call_policy, context).await,
    };
    // Dropping what it holds may panic too.
    let dropped = panics::catch(|| drop(work));
    let answer = result.and_then(|answer| dropped.map(|()| answer))?;
    let (bytes, max_bytes) = (answer.len(), context.outbox.env().max_payload);
    if context.is_asked && bytes > max_bytes {
        let problem = Error::PayloadTooLarge { what: "the answer".to_owned(), bytes, max_bytes };
        return Err(Failure::new(Cause::Output, problem.to_string()).permanent());
    }
    Ok(answer)
}

/// Runs a handler, and decides what its error means.
async fn handle(work: &mut HandlerFuture, call_policy: &CallPolicy) -> Result<Payload, FailedBody> {
    match std::future::poll_fn(|cx| panics::poll(work.as_mut(), cx)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(FailedBody { failure: failure(&error, call_policy), error }),
        Err(panic) => Err(panic.into()),
    }
}

/// Runs a handler with the layers around it.
async fn layered(
    work: &mut HandlerFuture,
    call_policy: &CallPolicy,
    context: &CallContext,
) -> Result<Payload, Failure> {
    let call = ObservedHandler {
        kind: JobKind::of(&context.id).unwrap_or(JobKind::Task),
        job: context.job_name(),
        instance: context.own_id(),
        handler: context.handler,
        attempt: context.attempt,
        idempotency_key: &context.key,
    };
    let handling = handle(work, call_policy);
    let mut around = std::pin::pin!(layers::around(&context.outbox.env().layers, Observed::Handler(&call), handling));
    std::future::poll_fn(|cx| panics::poll(around.as_mut(), cx)).await.flatten()
}

/// Waits for an attempt, at most as long as it may take.
async fn in_time<E: From<Failure>>(
    working: impl Future<Output = Result<Payload, E>>,
    call_policy: &CallPolicy,
    context: &CallContext,
) -> Result<Payload, E> {
    let Some(limit) = call_policy.timeout else { return working.await };
    let too_long = std::pin::pin!(context.outbox.deadline(context.started_at.after(limit)));
    match select(std::pin::pin!(working), too_long).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => {
            Err(Failure::new(Cause::Timeout, format!("timed out after {}", duration::text(limit))).into())
        }
    }
}

fn failure(error: &BoxError, call_policy: &CallPolicy) -> Failure {
    let is_refused = call_policy.retry_if.as_ref().is_some_and(|test| !panics::catch(|| test(error)).unwrap_or(false));
    let mut failure = panics::flatten(|| failure_of(error));
    let details = call_policy.keep.as_ref().and_then(|keep| panics::catch(|| keep(error)).unwrap_or(None));
    failure.details = details.or(failure.details);
    if is_refused || is_permanent(&**error) { failure.permanent() } else { failure }
}

fn ended(result: Result<Payload, Failure>, state: Result<Option<Payload>, Error>, asked: HandlerRequests) -> CallEnded {
    let state = match state {
        Ok(state) => state,
        Err(error) if asked.terminate.is_none() && result.is_ok() => {
            let failure = Failure::new(Cause::Output, error.to_string()).permanent();
            return CallEnded { end: End::Failed(failure), writes: Vec::new() };
        }
        Err(_) => None,
    };
    match (result, asked.terminate) {
        (result, Some(reason)) => {
            // Its writes count only if it succeeded.
            let writes = if result.is_ok() { asked.writes } else { Vec::new() };
            CallEnded { end: End::Done(Done { terminate: Some(reason), ..Done::default() }), writes }
        }
        (Ok(answer), None) => {
            let done = Done { state, plan: asked.plan, answer: Some(answer), terminate: None };
            CallEnded { end: End::Done(done), writes: asked.writes }
        }
        (Err(failure), None) => CallEnded { end: End::Failed(failure), writes: Vec::new() },
    }
}
