//! Steps: side effects whose results are recorded once.

mod attempt;
mod care;
pub(super) mod undo;

use std::fmt::Write as _;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use outlive_core::duration::IntoDuration;
use outlive_core::failure::Failure;
use outlive_core::payload::Payload;
use outlive_core::retry::Retry;
use outlive_core::workflow::{self, FailedStep, OpKind, Outcome, Polled, Spec, StepEnding, StepSpec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Span;

pub use attempt::Attempt;
pub(super) use attempt::AttemptSource;

use crate::ctx::Ctx;
use crate::ctx::codec::Codec;
use crate::ctx::layered::{self, Boxed, ErrorRules, LayeredAttempt, failure_of};
use crate::ctx::operation::{OpenOperation, Tie};
use crate::ctx::sleep::cancelled;
use crate::error::{BoxError, Error};
use crate::instance::attempts::Begun;
use crate::instance::env::{HookAction, StepCall};
use crate::instance::logs;
use crate::instance::panics;

/// Marks a [`StepBody`] without an argument.
///
/// ```
/// use outlive::ctx::{NoArgument, StepBody};
/// # use outlive::prelude::*;
/// fn body() -> impl StepBody<NoArgument, Output = u32, Error = BoxError> { || async { Ok(42) } }
/// async fn answer(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("answer", body()).await?) }
/// ```
pub struct NoArgument;
/// Marks a [`StepBody`] that takes the [`Attempt`].
///
/// ```
/// use outlive::ctx::{StepBody, WithAttempt};
/// # use outlive::prelude::*;
/// fn body() -> impl StepBody<WithAttempt, Output = u32, Error = BoxError> {
///     |attempt: Attempt| async move { Ok(attempt.number) }
/// }
/// async fn attempts(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("count", body()).await?) }
/// ```
pub struct WithAttempt;

/// The body of a step: `|| future` or `|attempt: Attempt| future`, where the future returns a `Result`.
///
/// ```
/// use outlive::ctx::StepBody;
/// # use outlive::prelude::*;
/// # use serde::{Serialize, de::DeserializeOwned};
/// # async fn charge() -> Result<u32> { Ok(42) }
/// /// Runs a step with the timeout and retries that all our steps have.
/// async fn sturdy<B: StepBody<M>, M>(ctx: &Ctx, name: &str, body: B) -> Result<B::Output, Error>
/// where
///     B::Output: Serialize + DeserializeOwned,
///     B::Error: Into<BoxError>,
/// {
///     ctx.step(name, body).timeout("10 seconds").retry(5).await
/// }
/// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(sturdy(&ctx, "charge", charge).await?) }
/// # fn main() { let _ = Engine::open("memory:").workflow("pay", pay); }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the body of a step",
    label = "a step needs `|| async {{ .. }}` or `|attempt: Attempt| async move {{ .. }}` that returns a `Result`",
    note = "the future must be `Send` and return `Result<T, E>`"
)]
pub trait StepBody<M>: Send {
    /// The value it returns.
    type Output;
    /// The error it returns.
    type Error;
    /// The future of one attempt.
    type Future: Future<Output = Result<Self::Output, Self::Error>> + Send;
    /// `true` if it takes the [`Attempt`].
    const TAKES_ATTEMPT: bool;

    /// Starts an attempt.
    fn call(&mut self, attempt: impl FnOnce() -> Attempt) -> Self::Future;
}

impl<F, Fut, T, E> StepBody<NoArgument> for F
where
    F: FnMut() -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
{
    type Output = T;
    type Error = E;
    type Future = Fut;
    const TAKES_ATTEMPT: bool = false;

    fn call(&mut self, _: impl FnOnce() -> Attempt) -> Fut {
        self()
    }
}

impl<F, Fut, T, E> StepBody<WithAttempt> for F
where
    F: FnMut(Attempt) -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
{
    type Output = T;
    type Error = E;
    type Future = Fut;
    const TAKES_ATTEMPT: bool = true;

    fn call(&mut self, attempt: impl FnOnce() -> Attempt) -> Fut {
        self(attempt())
    }
}

/// Puts layers around the body of an attempt.
type AddLayers<'a, F, T, E> = fn(LayeredAttempt<'a, F, T, E>) -> Boxed<'a, Result<Payload, Failure>>;
type Fallback<'a, T> = Box<dyn FnOnce(Failure) -> Boxed<'a, Result<T, BoxError>> + Send + 'a>;

pin_project_lite::pin_project! {
    /// A step, created by [`Ctx::step`].
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// async fn pay(ctx: Ctx, is_slow: bool) -> Result<u32> {
    ///     let charging = ctx.step("charge", charge).timeout("10 seconds").retry(3);
    ///     if is_slow {
    ///         ctx.sleep("1 hour").await?;
    ///     }
    ///     Ok(charging.await?) // the step starts here
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("pay", pay); }
    /// ```
    #[must_use = "a step does nothing until it is awaited"]
    pub struct Step<'a, B, M>
    where
        B: StepBody<M>,
    {
        plan: StepPlan<'a, B, M>,
        // The body of the current attempt, and the number of that attempt.
        #[pin]
        running: Option<B::Future>,
        attempt: u32,
        waker: Option<Waker>,
        // A body that is not the plain one of an attempt.
        rare: Option<Box<RareBody<'a, B::Output>>>,
        // The value, as read back from the record, until it is delivered.
        value: Option<B::Output>,
        // The span of the current attempt.
        span: Span,
    }
}

/// The body of a fallback, or of an attempt with layers around it.
enum RareBody<'a, T> {
    FallingBack(Boxed<'a, Result<T, BoxError>>),
    Layered(Boxed<'a, Result<Payload, Failure>>),
}

/// What a step does, and with which options.
struct StepPlan<'a, B, M>
where
    B: StepBody<M>,
{
    operation: OpenOperation,
    body: B,
    spec: StepSpec,
    fallback: Option<Fallback<'a, B::Output>>,
    errors: ErrorRules<'a, B::Error>,
    codec: Codec<B::Output>,
    add_layers: AddLayers<'a, B::Future, B::Output, B::Error>,
    marker: Tie<'a, M>,
}

impl<'a, B, M> Step<'a, B, M>
where
    B: StepBody<M>,
{
    #[track_caller]
    pub(super) fn new(ctx: &'a Ctx, name: &str, body: B) -> Self
    where
        B: 'a,
        M: 'a,
        B::Output: Serialize + DeserializeOwned,
        B::Error: Into<BoxError>,
    {
        Self::of(OpenOperation::open(ctx, OpKind::Step, name, Location::caller()), body)
    }

    fn of(operation: OpenOperation, body: B) -> Self
    where
        B: 'a,
        M: 'a,
        B::Output: Serialize + DeserializeOwned,
        B::Error: Into<BoxError>,
    {
        let codec = Codec { encode: Payload::encode, decode: Payload::decode };
        let plan = StepPlan {
            operation,
            body,
            spec: StepSpec::default(),
            fallback: None,
            errors: ErrorRules { retry_if: None, details: None, into_box: Into::into },
            codec,
            add_layers: layered::layered,
            marker: PhantomData,
        };
        Self { plan, running: None, attempt: 0, waker: None, rare: None, value: None, span: Span::none() }
    }

    /// Sets a timeout: for each attempt if called before [`retry`](Self::retry), for all attempts together if called
    /// after it. The time keeps running while the process is down.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn fetch() -> Result<u32> { Ok(1) }
    /// async fn crawl(ctx: Ctx, _: ()) -> Result<u32> {
    ///     match ctx.step("fetch", fetch).timeout("10 seconds").retry(3).timeout("1 minute").await {
    ///         Err(error) if error.is_timeout() => Ok(0),
    ///         other => Ok(other?),
    ///     }
    /// }
    /// ```
    pub fn timeout(mut self, duration: impl IntoDuration) -> Self {
        match duration.into_duration() {
            Ok(limit) if limit.is_zero() => self.plan.operation.refuse(Error::Setup(
                "the timeout of a step must be greater than zero; leave out `.timeout` for no limit".into(),
            )),
            Ok(limit) if self.plan.spec.retry.is_none() => self.plan.spec.attempt_timeout = Some(limit),
            Ok(limit) => self.plan.spec.total_timeout = Some(limit),
            Err(error) => self.plan.operation.refuse(error.into()),
        }
        self
    }

    /// Retries after a failure, according to the policy; a number means that many retries with the standard backoff.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn send() -> Result<()> { Ok(()) }
    /// async fn notify(ctx: Ctx, _: ()) -> Result<()> {
    ///     ctx.step("send", send).retry(3).await?;
    ///     ctx.step("send again", send).retry(Retry::times(5).exponential("200 ms").max_delay("1 minute")).await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        let retry = retry.into();
        match retry.check() {
            Ok(()) => self.plan.spec.retry = Some(Arc::new(retry)),
            Err(error) => self.plan.operation.refuse(error.into()),
        }
        self
    }

    /// Retries only errors for which `test` returns `true`.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use std::io;
    /// async fn fetch() -> io::Result<u32> { Err(io::ErrorKind::PermissionDenied.into()) }
    /// async fn crawl(ctx: Ctx, _: ()) -> Result<u32> {
    ///     let is_passing = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
    ///     Ok(ctx.step("fetch", fetch).retry(5).retry_if(is_passing).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("crawl", crawl)).await;
    /// let run = test.start(crawl, &()).await?;
    /// assert!(test.result(&run).await.is_err());
    /// assert_eq!(test.executions("fetch"), 1);
    /// # Ok(()) }
    /// ```
    pub fn retry_if(mut self, test: impl Fn(&B::Error) -> bool + Send + 'a) -> Self {
        self.plan.errors.retry_if = Some(Arc::new(Mutex::new(test)));
        self
    }

    /// Sets where to get the value once the step has finally failed. It is recorded as the step's own.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn live_price() -> Result<u32> { Ok(1) }
    /// async fn price(ctx: Ctx, _: ()) -> Result<u32> {
    ///     Ok(ctx.step("price", live_price).retry(2).fallback(|_failure| async { Ok(100) }).await?)
    /// }
    /// ```
    pub fn fallback<F, Fut>(mut self, fallback: F) -> Self
    where
        F: FnOnce(Failure) -> Fut + Send + 'a,
        Fut: Future<Output = Result<B::Output, BoxError>> + Send + 'a,
    {
        self.plan.spec.has_fallback = true;
        self.plan.fallback = Some(Box::new(|failure| Box::pin(fallback(failure))));
        self
    }

    /// Keeps the error itself with the failure, so that [`Error::details`] returns it, even after a restart.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
    /// #[error("declined with code {code}")]
    /// struct Declined { code: u32 }
    ///
    /// # async fn charge() -> Result<(), Declined> { Err(Declined { code: 51 }) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<bool> {
    ///     match ctx.step("charge", charge).details().await {
    ///         Err(error) if error.details().is_some_and(|declined: Declined| declined.code == 51) => Ok(false),
    ///         other => Ok(other.map(|()| true)?),
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("pay", pay).start().await?;
    /// # assert!(!engine.start(pay, &()).await?.result().await?);
    /// # Ok(()) }
    /// ```
    pub fn details(mut self) -> Self
    where
        B::Error: Serialize,
    {
        self.plan.errors.details = Some(|error| Payload::encode(error).ok());
        self
    }

    /// Sets a key that distinguishes steps of one name: by what they are for, not by the order in which they are
    /// called.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn ship(_: &u32) -> Result<()> { Ok(()) }
    /// async fn ship_all(ctx: Ctx, orders: Vec<u32>) -> Result<()> {
    ///     for order in &orders {
    ///         ctx.step("ship", || ship(order)).key(order).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn key(mut self, key: impl ToString) -> Self {
        self.plan.operation.set_key(&key.to_string());
        self
    }

    /// Declares a name this step had in an earlier version of the code, so that what is recorded under it counts. For a
    /// step that was renamed more than once, call this more than once; the first name with a record counts.
    ///
    /// The code must not have another step of that name: a run that reaches both becomes stuck.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> {
    ///     // A run that has recorded "charge card" or "charge" does not charge again.
    ///     Ok(ctx.step("charge the card", charge).was("charge card").was("charge").await?)
    /// }
    /// ```
    pub fn was(mut self, old_name: &str) -> Self {
        self.plan.operation.set_alias(old_name);
        self
    }

    /// Never runs an attempt a second time: its start is recorded first, and if the process crashes before it ends, the
    /// step returns [`Error::Interrupted`]. An attempt that ended with an error may still be [retried](Self::retry).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn pay_out() -> Result<String> { Ok("paid".into()) }
    /// async fn refund(ctx: Ctx, _: ()) -> Result<String> {
    ///     match ctx.step("pay out", pay_out).at_most_once().await {
    ///         Err(Error::Interrupted { .. }) => Ok("ask the bank whether it was paid".into()),
    ///         other => Ok(other?),
    ///     }
    /// }
    /// ```
    pub fn at_most_once(mut self) -> Self {
        self.plan.spec.is_at_most_once = true;
        self
    }
}

impl<'a, B, M> Future for Step<'a, B, M>
where
    B: StepBody<M>,
{
    type Output = Result<B::Output, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let StepPlan { operation, spec, codec, .. } = self.as_mut().project().plan;
        let read = |name: &str, payload: &Payload| codec.read(name, payload).map(drop);
        match operation.poll(cx, || Spec::Step(spec.clone()), read)? {
            Polled::Ready(outcome) => self.end(outcome),
            Polled::Work(attempt) => {
                let result = ready!(logs::aloud(|| self.as_mut().work(&attempt)));
                self.record(result);
                Poll::Pending
            }
            Polled::Pending => {
                self.as_mut().drop_body();
                Poll::Pending
            }
        }
    }
}

impl<'a, B, M> Step<'a, B, M>
where
    B: StepBody<M>,
{
    /// Polls the body of an attempt, or of the fallback; starts it first if necessary.
    fn work(mut self: Pin<&mut Self>, attempt: &workflow::StepAttempt) -> Poll<Result<(Payload, B::Output), Failure>> {
        let resident = self.plan.operation.resident.clone();
        let Some(slot) = self.plan.operation.slot() else { return Poll::Pending };
        let has_begun = match attempt.fallback_for {
            Some(_) => matches!(self.rare.as_deref(), Some(RareBody::FallingBack(_))),
            None => self.attempt == attempt.number,
        };
        // A wake-up of an earlier attempt is forgotten, or the first one of this attempt would count as known.
        let (waker, is_woken) = resident.take_body_waker(slot, self.as_mut().project().waker.take());
        let polled = match has_begun && !is_woken {
            true => Poll::Pending,
            false => self.as_mut().poll_body(attempt, &waker),
        };
        *self.project().waker = Some(waker);
        polled
    }

    fn poll_body(
        mut self: Pin<&mut Self>,
        attempt: &workflow::StepAttempt,
        waker: &Waker,
    ) -> Poll<Result<(Payload, B::Output), Failure>> {
        let resident = self.plan.operation.resident.clone();
        let cx = &mut Context::from_waker(waker);
        let polled = match &attempt.fallback_for {
            Some(failure) => {
                if self.plan.fallback.is_some() {
                    // The fallback may need what the last attempt held.
                    self.as_mut().drop_body();
                }
                let this = self.as_mut().project();
                if let Some(fallback) = this.plan.fallback.take() {
                    *this.span = logs::step(this.plan.operation.name(), attempt.number);
                    let call = || resident.in_step(|| panics::catch(|| fallback(Failure::clone(failure))));
                    *this.rare = Some(Box::new(RareBody::FallingBack(this.span.in_scope(call)?)));
                }
                let Some(RareBody::FallingBack(body)) = this.rare.as_deref_mut() else { return Poll::Pending };
                let polled = ready!(this.span.in_scope(|| resident.in_step(|| panics::poll(body.as_mut(), cx))));
                polled.and_then(|result| result.map_err(|error| panics::flatten(|| failure_of(&*error))))
            }
            None => {
                if let Some(instead) = self.as_mut().begin_attempt(attempt, waker)? {
                    return Poll::Ready(self.plan.codec.read_back(instead));
                }
                let this = self.as_mut().project();
                if let Some(RareBody::Layered(body)) = this.rare.as_deref_mut() {
                    let polled = ready!(this.span.in_scope(|| resident.in_step(|| panics::poll(body.as_mut(), cx))));
                    return Poll::Ready(polled.flatten().and_then(|payload| this.plan.codec.read_back(payload)));
                }
                let Some(body) = this.running.as_pin_mut() else { return Poll::Pending };
                let polled = ready!(this.span.in_scope(|| resident.in_step(|| panics::poll(body, cx))));
                let errors = &this.plan.errors;
                polled.and_then(|result| {
                    result.map_err(|error| panics::flatten(|| errors.judge(&resident, error).failure))
                })
            }
        };
        let max_bytes = resident.env.max_payload;
        let codec = &self.plan.codec;
        Poll::Ready(polled.and_then(|value| codec.keep(&value, max_bytes)))
    }

    /// Calls the body if this attempt has none yet. A test hook may return the result instead.
    fn begin_attempt(
        self: Pin<&mut Self>,
        attempt: &workflow::StepAttempt,
        waker: &Waker,
    ) -> Result<Option<Payload>, Failure> {
        let mut this = self.project();
        if (this.running.is_some() || this.rare.is_some()) && *this.attempt == attempt.number {
            return Ok(None);
        }
        let step = this.plan;
        // A test hook may have held the attempt up; then it is asked again.
        if std::mem::replace(this.attempt, attempt.number) != attempt.number {
            step.report_start(attempt.number);
        }
        let make = |operation: &OpenOperation| Attempt::new(operation, attempt, idempotency_key(operation));
        if let Some(hook) = &step.operation.resident.env.hook {
            let (op, key) = (identity(&step.operation), idempotency_key(&step.operation));
            match hook.before(&StepCall { waker, ..step.call(&op, attempt, &key) }) {
                HookAction::Run => {}
                HookAction::Wait => return Ok(None),
                HookAction::Value(payload) => return Ok(Some(payload)),
                HookAction::Fail(failure) => return Err(failure),
            }
        }
        let resident = step.operation.resident.clone();
        let (body, operation) = (&mut step.body, &step.operation);
        *this.span = logs::step(operation.name(), attempt.number);
        let begun = this.span.in_scope(|| resident.in_step(|| panics::catch(|| body.call(|| make(operation)))))?;
        match resident.env.layers.is_empty() {
            true => this.running.set(Some(begun)),
            false => *this.rare = Some(Box::new(step.layered(attempt.number, begun))),
        }
        Ok(None)
    }

    /// Reports to the machine how an attempt ended.
    fn record(mut self: Pin<&mut Self>, result: Result<(Payload, B::Output), Failure>) {
        self.as_mut().drop_body();
        let this = self.project();
        let operation = &this.plan.operation;
        let Some(slot) = operation.slot() else { return };
        let (result, value) = match result {
            Ok((payload, value)) => (Ok(payload), Some(value)),
            Err(failure) => (Err(failure), None),
        };
        *this.value = value;
        let now = operation.resident.now();
        operation.resident.lock().finish(slot, result, this.waker.take(), now);
    }

    /// Returns to user code what the machine has delivered.
    fn end(mut self: Pin<&mut Self>, outcome: Outcome) -> Poll<Result<B::Output, Error>> {
        self.as_mut().drop_body();
        let this = self.project();
        let operation = &this.plan.operation;
        let step = operation.name();
        match outcome {
            Outcome::Value(payload) => match this.value.take().map_or_else(|| this.plan.codec.read(step, &payload), Ok)
            {
                Ok(value) => Poll::Ready(Ok(value)),
                Err(sentence) => {
                    operation.get_stuck(sentence);
                    Poll::Pending
                }
            },
            Outcome::Failed(failed) => Poll::Ready(Err(error_of(step.to_owned(), *failed))),
            Outcome::Cancelled => Poll::Ready(Err(cancelled(operation))),
            _ => {
                operation
                    .get_stuck(format!("what is recorded for step {step:?} is not the end of a step; rename the step"));
                Poll::Pending
            }
        }
    }

    fn drop_body(self: Pin<&mut Self>) {
        let mut this = self.project();
        let resident = &this.plan.operation.resident;
        if this.running.is_some() || this.rare.is_some() {
            // A body's destructors are part of the step; how it ended is settled before they run.
            let dropped = std::mem::replace(this.span, Span::none()).in_scope(|| {
                resident.in_step(|| {
                    panics::catch(|| {
                        this.running.set(None);
                        *this.rare = None;
                    })
                })
            });
            if let Err(panic) = dropped {
                tracing::warn!(step = this.plan.operation.name(), "the body {panic} when it was dropped");
            }
        }
    }
}

impl<B, M> StepPlan<'_, B, M>
where
    B: StepBody<M>,
{
    /// Notifies subscribers in this process. A recorded start is reported when it is committed.
    fn report_start(&self, attempt: u32) {
        if self.spec.needs_start() {
            return;
        }
        let (operation, resident) = (&self.operation, &self.operation.resident);
        resident.env.attempts.report(|| {
            let (seq, is_durable) = {
                let state = resident.lock();
                (state.machine.recorder().seq(), state.machine.recorder().is_durable())
            };
            Begun {
                at: resident.now(),
                num: resident.info.num,
                instance: resident.info.id.clone(),
                workflow: resident.info.workflow.clone(),
                step: operation.name().to_owned(),
                operation: identity(operation),
                attempt,
                seq,
                is_durable,
                breaker: None,
            }
        });
    }

    /// Describes an attempt to a test hook.
    fn call<'s>(&'s self, op: &'s str, attempt: &workflow::StepAttempt, idempotency_key: &'s str) -> StepCall<'s> {
        StepCall {
            run: &self.operation.resident.info.id,
            run_number: self.operation.resident.info.run_number,
            step: self.operation.name(),
            op,
            location: self.operation.call.location,
            key: self.operation.key(),
            attempt: attempt.number,
            idempotency_key,
            takes_attempt: B::TAKES_ATTEMPT,
            is_at_most_once: self.spec.is_at_most_once,
            waker: Waker::noop(),
        }
    }
}

impl<'a, B, M> StepPlan<'a, B, M>
where
    B: StepBody<M>,
{
    /// Puts the layers around the body of an attempt.
    fn layered(&self, number: u32, body: B::Future) -> RareBody<'a, B::Output> {
        let operation = &self.operation;
        RareBody::Layered((self.add_layers)(LayeredAttempt {
            resident: operation.resident.clone(),
            name: operation.name().to_owned(),
            key: operation.key().map(ToOwned::to_owned),
            number,
            idempotency_key: idempotency_key(operation),
            body,
            errors: self.errors.clone(),
            codec: self.codec,
        }))
    }
}

fn error_of(step: String, failed: FailedStep) -> Error {
    let FailedStep { ended, attempts, failure } = failed;
    match ended {
        StepEnding::Error => Error::Step { step, failure },
        StepEnding::Timeout => {
            let (timeout, elapsed) = failure.times().unwrap_or_default();
            Error::Timeout { step, timeout, elapsed, failure: Box::new(failure) }
        }
        StepEnding::Interrupted => Error::Interrupted { step, failure },
        StepEnding::Exhausted(reason) => Error::RetryExhausted { step, attempts, reason, last: failure },
    }
}

fn idempotency_key(operation: &OpenOperation) -> String {
    let info = &operation.resident.info;
    let identity = operation.repeated_as(&identity(operation));
    let state = operation.resident.lock();
    let round = state.machine.undos().round(&identity).unwrap_or_default();
    let mut key = match info.run_number {
        1 => format!("{}/{}/{identity}{round}", info.id, info.num),
        number => format!("{}/{}#{number}/{identity}{round}", info.id, info.num),
    };
    // A step that runs again after a rewind is another execution, which a receiver must not take for the earlier one.
    if let Some(rewinds) = state.machine.operations().rewinds() {
        let _ = write!(key, "@{}", rewinds.last());
    }
    key
}

/// Returns the step's identity in the journal.
fn identity(operation: &OpenOperation) -> Arc<str> {
    let key = operation.slot().and_then(|slot| operation.resident.lock().machine.operations().key(slot));
    key.unwrap_or_else(|| Arc::from(""))
}
