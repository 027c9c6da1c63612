//! Layers: code around executions of runs, attempts of steps and calls of handlers.
//!
//! The body of a step has a type of its own, and a layer is for all of them. So a layer does not see the value: the
//! innermost future puts it aside and returns `()` or the error, the layers pass that on, and at the end it is joined
//! with what was put aside.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use outlive_core::failure::{Cause, Failure};
#[cfg(feature = "tokio")]
use outlive_core::kind::JobKind;
use outlive_core::payload::Payload;

use crate::error::{BoxError, failure_of, is_permanent};
use crate::instance::info::Info;
use crate::instance::panics;

/// Code around executions of runs, attempts of steps and calls of job handlers: to time and count them, to refuse
/// them, and to say more about their errors. Added with [`Builder::layer`](crate::Builder::layer).
///
/// Every method has a default that does nothing, so a layer implements what it is about. The first layer that was added
/// is the outermost one: it is called first, and sees the result last.
///
/// - A layer is never called for what a replay repeats: not for a recorded step, nor for a value that a test kit
///   returns in place of a body.
/// - A layer has no context and no durable operations. What it returns for an attempt or a call is recorded, and a
///   replay reads that, so nothing a layer does can change a replay.
/// - A panic in a layer is a failed attempt or call, as a panic in the body is. Around a run it is logged.
///
/// ```
/// use outlive::layer::{Inner, Layer, LayerFuture, ObservedStep};
/// # use outlive::prelude::*;
/// # use std::time::Instant;
/// /// Logs how long each attempt takes, and refuses to charge at night.
/// struct Office { is_open: bool }
///
/// impl Layer for Office {
///     fn step<'a>(&'a self, step: &'a ObservedStep<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
///         Box::pin(async move {
///             if step.name == "charge" && !self.is_open {
///                 return Err("the office is closed".into()); // an error like any other: the step may retry
///             }
///             let begun = Instant::now();
///             let result = inner.run().await;
///             println!("{} of {}, attempt {}: {:?}", step.name, step.run.id, step.attempt, begun.elapsed());
///             result.map_err(|error| format!("{error}, in attempt {}", step.attempt).into())
///         })
///     }
/// }
/// # async fn charge() -> Result<u32> { Ok(42) }
/// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let engine = Engine::open("memory:").workflow("pay", pay).layer(Office { is_open: false }).start().await?;
/// let error = engine.start(pay, &()).await?.result().await.unwrap_err();
/// assert!(error.to_string().contains("the office is closed"), "{error}");
/// # Ok(()) }
/// ```
pub trait Layer: Send + Sync + 'static {
    /// Called when a run begins to execute in this process, right before its workflow function: when it is new, and each
    /// time it is loaded again. What it returns is called when that execution has ended, once its end is durable.
    ///
    /// It is not asked whether the run may execute, and cannot delay it: both would make a replay differ. If the process
    /// dies, or the engine is dropped, the end of the execution is not reported.
    ///
    /// ```
    /// use outlive::layer::{Layer, ObservedRun, OnExit};
    /// struct Log;
    /// impl Layer for Log {
    ///     fn run(&self, run: &ObservedRun<'_>) -> Option<OnExit> {
    ///         let (id, how) = (run.info.id.clone(), if run.is_replay { "resumes" } else { "starts" });
    ///         println!("{id} {how}");
    ///         Some(Box::new(move |exit| println!("{id}: {exit:?}")))
    ///     }
    /// }
    /// # let _ = outlive::Engine::open("memory:").layer(Log);
    /// ```
    fn run(&self, run: &ObservedRun<'_>) -> Option<OnExit> {
        let _ = run;
        None
    }

    /// Called for each attempt of a step. `inner` is the body with the layers further in; [running](Inner::run) it runs
    /// the attempt. The closure that returns the body's future has been called before.
    ///
    /// An error that is returned without running `inner` refuses the attempt, which then has failed with it: the step
    /// retries as it would after an error of its body, unless the error is [`Permanent`](struct@crate::Permanent). An error of
    /// the body can be replaced, for example to say more; whether it is retried, and its
    /// [details](crate::ctx::Step::details), stay, unless the new one is `Permanent`. A failure cannot be turned into a
    /// success, as there is no value to continue with. The fallback of a step is not part of an attempt.
    ///
    /// The attempt's timeout includes the layers.
    fn step<'a>(&'a self, step: &'a ObservedStep<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
        let _ = step;
        inner.run()
    }

    /// Called for each call of a job's handler, with the same rules.
    ///
    /// ```
    /// use outlive::Permanent;
    /// use outlive::layer::{Inner, Layer, LayerFuture, ObservedHandler};
    /// /// Gives up what has been tried too often, whatever the policy of the job.
    /// struct Patience(u32);
    /// impl Layer for Patience {
    ///     fn handler<'a>(&'a self, call: &'a ObservedHandler<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
    ///         match call.attempt > self.0 {
    ///             true => Box::pin(async { Err(Permanent("tried too often").into()) }),
    ///             false => inner.run(),
    ///         }
    ///     }
    /// }
    /// # let _ = outlive::Engine::open("memory:").layer(Patience(100));
    /// ```
    #[cfg(feature = "tokio")]
    fn handler<'a>(&'a self, call: &'a ObservedHandler<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
        let _ = call;
        inner.run()
    }
}

/// The future of a layer: how the attempt or call ended.
pub type LayerFuture<'a> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>;

/// Called when an execution has ended.
pub type OnExit = Box<dyn FnOnce(&RunExit<'_>) + Send>;

/// A run that begins to execute in this process.
///
/// ```
/// use outlive::layer::ObservedRun;
/// fn line(run: &ObservedRun<'_>) -> String {
///     format!("{} {} (version {:?})", run.info.workflow, run.info.id, run.info.version())
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct ObservedRun<'a> {
    /// The run.
    pub info: &'a Info,
    /// The number of the run in its store. A later run with the same id has a larger one.
    pub number: u64,
    /// `true` if its journal is replayed first, because it has executed before.
    pub is_replay: bool,
}

/// How an execution ended.
///
/// ```
/// use outlive::layer::RunExit;
/// fn is_over(exit: &RunExit<'_>) -> bool { !matches!(exit, RunExit::Left | RunExit::Stuck(_)) }
/// assert!(is_over(&RunExit::Completed));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RunExit<'a> {
    /// The run has completed.
    Completed,
    /// The run has failed.
    Failed(&'a Failure),
    /// The run was cancelled or terminated.
    Cancelled,
    /// The run is stuck, for this reason.
    Stuck(&'a str),
    /// The run continues at once with a fresh journal.
    Restarted,
    /// The run has left memory and continues later: it waits, or the engine stops.
    Left,
}

/// An attempt of a step that is about to run.
///
/// ```
/// use outlive::layer::ObservedStep;
/// fn line(step: &ObservedStep<'_>) -> String {
///     format!("{} of {} {}: attempt {}", step.name, step.run.workflow, step.run.id, step.attempt)
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct ObservedStep<'a> {
    /// The run.
    pub run: &'a Info,
    /// The step's name.
    pub name: &'a str,
    /// The step's key, if it has one.
    pub key: Option<&'a str>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The key that all attempts of this step share.
    pub idempotency_key: &'a str,
}

/// A call of a job's handler that is about to run.
///
/// ```
/// use outlive::layer::ObservedHandler;
/// fn line(call: &ObservedHandler<'_>) -> String {
///     format!("{} of {}:{} {}: attempt {}", call.handler, call.kind, call.job, call.instance, call.attempt)
/// }
/// ```
#[cfg(feature = "tokio")]
#[derive(Debug)]
#[non_exhaustive]
pub struct ObservedHandler<'a> {
    /// The kind of the job.
    pub kind: JobKind,
    /// The job's name.
    pub job: &'a str,
    /// The id of the instance.
    pub instance: &'a str,
    /// Which handler: `execute`, `on_event`, `on_idle`, `on_error` or `on_dead`.
    pub handler: &'static str,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The key that all attempts of this call share.
    pub idempotency_key: &'a str,
}

/// What is observed by a layer that gets an [`Inner`].
#[derive(Clone, Copy)]
pub(crate) enum Observed<'a> {
    Step(&'a ObservedStep<'a>),
    #[cfg(feature = "tokio")]
    Handler(&'a ObservedHandler<'a>),
}

/// What a layer is around: the layers further in, and the body of the step or the handler.
///
/// ```
/// use outlive::layer::{Inner, Layer, LayerFuture, ObservedStep};
/// struct Nothing;
/// impl Layer for Nothing {
///     fn step<'a>(&'a self, _: &'a ObservedStep<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
///         inner.run()
///     }
/// }
/// # let _ = outlive::Engine::open("memory:").layer(Nothing);
/// ```
#[must_use = "the attempt does not run unless this does"]
pub struct Inner<'a> {
    layers: &'a [Box<dyn Layer>],
    observed: Observed<'a>,
    body: &'a mut (dyn LayeredBody + 'a),
}

impl<'a> Inner<'a> {
    /// Returns the future that runs it. It returns the error that the attempt or call fails with, if it does.
    #[must_use = "futures do nothing unless polled"]
    pub fn run(self) -> LayerFuture<'a> {
        let Self { layers, observed, body } = self;
        let Some((layer, layers)) = layers.split_first() else {
            return Box::pin(std::future::poll_fn(|cx| body.poll(cx)));
        };
        let inner = Self { layers, observed, body };
        let begun = panics::catch(|| match observed {
            Observed::Step(step) => layer.step(step, inner),
            #[cfg(feature = "tokio")]
            Observed::Handler(call) => layer.handler(call, inner),
        });
        // Caught around each layer, so that those further out see an error.
        Box::pin(async move {
            let mut running = begun?;
            std::future::poll_fn(|cx| panics::poll(running.as_mut(), cx)).await?
        })
    }
}

impl fmt::Debug for Inner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inner({} layers)", self.layers.len())
    }
}

/// A failure, and the error that layers see.
pub(crate) struct FailedBody {
    pub(crate) failure: Failure,
    pub(crate) error: BoxError,
}

/// A failure that comes from no error: a panic, or a value that cannot be stored.
impl From<Failure> for FailedBody {
    fn from(failure: Failure) -> Self {
        Self { error: Box::new(failure.clone()), failure }
    }
}

/// The body of an attempt or a call, without its type.
trait LayeredBody: Send {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>>;
}

struct PinnedBody<'p, W> {
    work: Pin<&'p mut W>,
    outcome: Option<Result<Payload, Failure>>,
}

impl<W: Future<Output = Result<Payload, FailedBody>> + Send> LayeredBody for PinnedBody<'_, W> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.outcome.is_some() {
            return Poll::Pending;
        }
        self.work.as_mut().poll(cx).map(|ended| {
            let (outcome, returned) = match ended {
                Ok(payload) => (Ok(payload), Ok(())),
                Err(FailedBody { failure, error }) => (Err(failure), Err(error)),
            };
            self.outcome = Some(outcome);
            returned
        })
    }
}

/// Runs a body with layers around it. `work` must not panic; layers may.
pub(crate) async fn around<W>(layers: &[Box<dyn Layer>], observed: Observed<'_>, work: W) -> Result<Payload, Failure>
where
    W: Future<Output = Result<Payload, FailedBody>> + Send,
{
    let mut body = PinnedBody { work: std::pin::pin!(work), outcome: None };
    let returned = Inner { layers, observed, body: &mut body }.run().await;
    match (returned, body.outcome) {
        (Ok(()), Some(outcome)) => outcome,
        (Ok(()), None) => Err(Failure::new(Cause::Error, SKIPPED).permanent()),
        (Err(error), Some(Err(failure))) => Err(replaced(failure, &error)),
        (Err(error), _) => Err(replacing(&error)),
    }
}

const SKIPPED: &str = "a layer returned Ok without running what it is around; call `inner.run()`, or return an error";

/// Returns the failure of a body with the error that layers made of it.
fn replaced(failure: Failure, error: &BoxError) -> Failure {
    let mut new = replacing(error);
    new.retryable &= failure.retryable;
    new.details = failure.details;
    new
}

/// Returns the failure of a layer.
fn replacing(error: &BoxError) -> Failure {
    match error.downcast_ref::<Failure>() {
        // A panic, or a body that failed without an error.
        Some(failure) => failure.clone(),
        None => panics::flatten(|| {
            let failure = failure_of(error);
            if is_permanent(&**error) { failure.permanent() } else { failure }
        }),
    }
}

/// Tells all layers that a run begins, and returns what they want to be called with at its end, innermost first.
#[cfg(feature = "tokio")]
pub(crate) fn begin(layers: &[Box<dyn Layer>], run: &ObservedRun<'_>) -> Vec<OnExit> {
    let begin = |layer: &dyn Layer| match panics::catch(|| layer.run(run)) {
        Ok(on_exit) => on_exit,
        Err(panic) => {
            tracing::warn!(run = run.info.id, "a layer {panic} when the run began");
            None
        }
    };
    let mut exits: Vec<OnExit> = layers.iter().filter_map(|layer| begin(&**layer)).collect();
    exits.reverse();
    exits
}

/// Tells the layers how the execution of a run ended.
#[cfg(feature = "tokio")]
pub(crate) fn end(exits: Vec<OnExit>, run: &Info, exit: &RunExit<'_>) {
    for on_exit in exits {
        if let Err(panic) = panics::catch(|| on_exit(exit)) {
            tracing::warn!(run = run.id, "a layer {panic} when the run ended");
        }
    }
}
