//! Undos of steps and children: how they are declared, and the steps that run them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use outlive_core::duration::IntoDuration;
use outlive_core::payload::Payload;
use outlive_core::retry::Retry;
use outlive_core::workflow::{OpKind, StepSpec};

use super::{Attempt, NoArgument, Step, StepBody, WithAttempt};
use crate::ctx::Ctx;
use crate::ctx::operation::OpenOperation;
use crate::error::{BoxError, Error, Permanent};
use crate::instance::resident::ResidentRun;
use crate::instance::undos::{DeclaredUndo, ReadyUndo, RunningUndo, Succeeded};

/// How often an undo is retried by default.
const RETRIES: u32 = 10;

/// The future of one attempt of an undo.
///
/// ```
/// use outlive::ctx::UndoFuture;
/// fn refund(payment: u32) -> UndoFuture {
///     Box::pin(async move { Ok(println!("refund payment {payment}")) })
/// }
/// # let _ = refund(1);
/// ```
pub type UndoFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// The body of an undo: `|value| future` or `|value, attempt: Attempt| future`, where the future returns a `Result`. The
/// value is the one that was recorded for what it undoes.
///
/// It outlives the workflow function, so it owns what it needs: take values out of the context with a clone of it.
///
/// ```
/// use outlive::ctx::UndoBody;
/// # use outlive::prelude::*;
/// # async fn reserve(_: &str) -> Result<u32> { Ok(7) }
/// struct Stock;
/// impl Stock { async fn release(&self, reservation: u32) -> Result<()> { Ok(println!("release {reservation}")) } }
///
/// fn release(ctx: &Ctx) -> impl UndoBody<u32, outlive::ctx::NoArgument> + use<> {
///     let ctx = ctx.clone();
///     move |reservation: u32| {
///         let ctx = ctx.clone();
///         async move { ctx.get::<Stock>().release(reservation).await }
///     }
/// }
/// async fn order(ctx: Ctx, item: String) -> Result<u32> {
///     Ok(ctx.step("reserve", || reserve(&item)).undo("release", release(&ctx)).await?)
/// }
/// # fn main() { let _ = Engine::open("memory:").workflow("order", order); }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot undo a `{T}`",
    label = "an undo needs `|value| async move {{ .. }}` that returns a `Result` and owns what it uses",
    note = "the argument is the value of the step or child; a second one is the `Attempt`"
)]
pub trait UndoBody<T, M>: Send + 'static {
    /// Starts an attempt.
    fn call(&mut self, value: T, attempt: Attempt) -> UndoFuture;
}

impl<F, Fut, T, U, E> UndoBody<T, NoArgument> for F
where
    F: FnMut(T) -> Fut + Send + 'static,
    Fut: Future<Output = Result<U, E>> + Send + 'static,
    E: Into<BoxError>,
{
    fn call(&mut self, value: T, _: Attempt) -> UndoFuture {
        let work = self(value);
        Box::pin(async move { work.await.map(drop).map_err(Into::into) })
    }
}

impl<F, Fut, T, U, E> UndoBody<T, WithAttempt> for F
where
    F: FnMut(T, Attempt) -> Fut + Send + 'static,
    Fut: Future<Output = Result<U, E>> + Send + 'static,
    E: Into<BoxError>,
{
    fn call(&mut self, value: T, attempt: Attempt) -> UndoFuture {
        let work = self(value, attempt);
        Box::pin(async move { work.await.map(drop).map_err(Into::into) })
    }
}

impl<'a, B, M> Step<'a, B, M>
where
    B: StepBody<M>,
{
    /// Sets how to undo the step. If the run fails or is cancelled after the step has succeeded, its undo runs, as a step
    /// of its own that is retried and recorded. Undos run one after another, last first.
    ///
    /// A step may have several undos with different names; the last runs first. An undo is retried 10 times by default; if
    /// it finally fails, the run is stuck. An undo runs only for a step that is recorded as done: one that failed, timed
    /// out or was cancelled while its body ran may have had an effect, which its body has to deal with.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn charge(cents: u32) -> Result<String> { Ok(format!("payment of {cents}")) }
    /// async fn refund(payment: String) -> Result<()> { Ok(println!("refunded the {payment}")) }
    /// # async fn ship() -> Result<()> { Err("out of stock".into()) }
    ///
    /// async fn order(ctx: Ctx, cents: u32) -> Result<()> {
    ///     ctx.step("charge", || charge(cents)).undo("refund", |payment| refund(payment)).await?;
    ///     ctx.step("ship", ship).await?; // if this fails, the payment is refunded
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("order", order).start().await?;
    /// let run = engine.start(order, &4_200).await?;
    /// assert!(run.result().await.is_err());
    /// assert_eq!(run.completed_steps().await?, ["charge", "undo:refund[charge]"]);
    /// # Ok(()) }
    /// ```
    pub fn undo<U, N>(mut self, name: &str, undo: U) -> Self
    where
        U: UndoBody<B::Output, N>,
        B::Output: 'static,
    {
        let declared = declare(&self.plan.operation, name, self.plan.codec.decode, undo);
        self.plan.operation.add_undo(declared);
        self
    }

    /// Sets when to retry the undo before this.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(1) }
    /// # async fn refund(_: u32) -> Result<()> { Ok(()) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> {
    ///     // The bank may be closed for days. The run is not stuck meanwhile.
    ///     let patiently = Retry::forever().exponential("1 minute").max_delay("1 hour");
    ///     Ok(ctx.step("charge", charge).undo("refund", refund).undo_retry(patiently).await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("pay", pay); }
    /// ```
    pub fn undo_retry(mut self, retry: impl Into<Retry>) -> Self {
        set_retry(&mut self.plan.operation, retry.into());
        self
    }

    /// Sets how long an attempt of the undo before this may take.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(1) }
    /// # async fn refund(_: u32) -> Result<()> { Ok(()) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> {
    ///     Ok(ctx.step("charge", charge).undo("refund", refund).undo_timeout("30 seconds").await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("pay", pay); }
    /// ```
    pub fn undo_timeout(mut self, limit: impl IntoDuration) -> Self {
        set_timeout(&mut self.plan.operation, limit);
        self
    }
}

/// Sets the retries of the undo that was added last.
pub(in crate::ctx) fn set_retry(operation: &mut OpenOperation, retry: Retry) {
    operation.change_undo(|spec| {
        retry.check()?;
        spec.retry = Some(Arc::new(retry));
        Ok(())
    });
}

/// Sets the timeout of the undo that was added last.
pub(in crate::ctx) fn set_timeout(operation: &mut OpenOperation, limit: impl IntoDuration) {
    operation.change_undo(|spec| {
        let limit = limit.into_duration()?;
        if limit.is_zero() {
            let sentence = "the timeout of an undo must be greater than zero; leave out `.undo_timeout` for no limit";
            return Err(Error::Setup(sentence.into()));
        }
        spec.attempt_timeout = Some(limit);
        Ok(())
    });
}

/// Reads the value that an undo is given.
type ReadValue<T> = fn(&Payload) -> Result<T, serde_json::Error>;

/// Declares an undo of an operation.
pub(in crate::ctx) fn declare<T: 'static, U: UndoBody<T, N>, N>(
    operation: &OpenOperation,
    name: &str,
    read: ReadValue<T>,
    mut undo: U,
) -> DeclaredUndo {
    let resident = Arc::downgrade(&operation.resident);
    let call = move |value: &Payload, attempt: Attempt| -> UndoFuture {
        match read(value) {
            Ok(value) => undo.call(value, attempt),
            Err(error) => {
                let error = Error::decode("the value to undo".into(), value, &error);
                Box::pin(async move { Err(Permanent(error).into()) })
            }
        }
    };
    let make = |succeeded: Succeeded| -> Arc<dyn ReadyUndo> {
        Arc::new(StepToUndo { resident, succeeded, call: Arc::new(Mutex::new(call)) })
    };
    let spec = StepSpec { retry: Some(Arc::new(Retry::times(RETRIES))), ..StepSpec::default() };
    DeclaredUndo { name: name.into(), spec, make: Box::new(make) }
}

/// What to undo, and how.
struct StepToUndo<C> {
    resident: Weak<ResidentRun>,
    succeeded: Succeeded,
    call: Arc<Mutex<C>>,
}

/// The body of the step that undoes something.
type Undoing = Box<dyn FnMut(Attempt) -> UndoFuture + Send>;

/// The step that undoes something.
struct UndoStep(Pin<Box<Step<'static, Undoing, WithAttempt>>>);

impl<C> ReadyUndo for StepToUndo<C>
where
    C: FnMut(&Payload, Attempt) -> UndoFuture + Send + 'static,
{
    fn begin(self: Arc<Self>) -> Pin<Box<dyn RunningUndo>> {
        let Succeeded { name, spec, scope, of, location, value } = &self.succeeded;
        let resident = self.resident.upgrade().expect("a run outlives its undos");
        let ctx = Ctx { resident, scope: scope.clone(), problem: None };
        let mut operation = OpenOperation::open(&ctx, OpKind::Undo, name, location);
        operation.tell_apart(of);
        let (call, value) = (self.call.clone(), value.clone());
        let body: Undoing = Box::new(move |attempt| {
            // A body that panics leaves the lock poisoned, and is called again.
            let mut call = call.lock().unwrap_or_else(PoisonError::into_inner);
            call(&value, attempt)
        });
        let mut step = Step::of(operation, body);
        step.plan.spec = spec.clone();
        Box::pin(UndoStep(Box::pin(step)))
    }
}

impl Future for UndoStep {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl RunningUndo for UndoStep {
    fn is_done(&self) -> bool {
        self.0.plan.operation.has_succeeded()
    }
}
