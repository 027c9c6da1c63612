//! Attempts of steps: what their errors mean, and attempts with layers around them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use outlive_core::failure::Failure;
use outlive_core::payload::Payload;

use crate::ctx::codec::Codec;
use crate::error::{BoxError, is_permanent};
use crate::instance::layers::{self, FailedBody, Observed, ObservedStep};
use crate::instance::panics;
use crate::instance::resident::ResidentRun;

/// A future of a step without its type.
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Decides which errors are retried. Shared with the attempt that runs, if there are layers around it.
pub(super) type StepRetryIf<'a, E> = Arc<Mutex<dyn Fn(&E) -> bool + Send + 'a>>;

/// Decides what an error of a step's body means.
pub(super) struct ErrorRules<'a, E> {
    pub(super) retry_if: Option<StepRetryIf<'a, E>>,
    pub(super) details: Option<fn(&E) -> Option<Payload>>,
    pub(super) into_box: fn(E) -> BoxError,
}

impl<E> Clone for ErrorRules<'_, E> {
    fn clone(&self) -> Self {
        Self { retry_if: self.retry_if.clone(), details: self.details, into_box: self.into_box }
    }
}

impl<E> ErrorRules<'_, E> {
    /// Converts an error to the failure that is recorded, and decides whether it may be retried.
    pub(super) fn judge(&self, resident: &ResidentRun, error: E) -> FailedBody {
        let is_retryable = self.retry_if.as_ref().is_none_or(|test| {
            let test = test.lock().unwrap_or_else(PoisonError::into_inner);
            test(&error)
        });
        let details = self.details.and_then(|encode| encode(&error));
        let error = (self.into_box)(error);
        let mut failure = failure_of(&*error);
        failure.details = details;
        // A durable operation inside a step fails on every attempt, however the error was wrapped.
        let is_misplaced = std::mem::take(&mut resident.lock().is_misplaced);
        failure.retryable &= is_retryable && !is_misplaced;
        FailedBody { failure, error }
    }
}

pub(super) fn failure_of(error: &(dyn std::error::Error + 'static)) -> Failure {
    let failure = Failure::of(error);
    if is_permanent(error) { failure.permanent() } else { failure }
}

/// An attempt with layers around its body.
pub(super) struct LayeredAttempt<'a, F, T, E> {
    pub(super) resident: Arc<ResidentRun>,
    pub(super) name: String,
    pub(super) key: Option<String>,
    pub(super) number: u32,
    pub(super) idempotency_key: String,
    pub(super) body: F,
    pub(super) errors: ErrorRules<'a, E>,
    pub(super) codec: Codec<T>,
}

/// Returns the future of an attempt with layers.
pub(super) fn layered<'a, F, T, E>(attempt: LayeredAttempt<'a, F, T, E>) -> Boxed<'a, Result<Payload, Failure>>
where
    F: Future<Output = Result<T, E>> + Send + 'a,
    T: 'a,
    E: 'a,
{
    Box::pin(async move {
        let LayeredAttempt { resident, name, key, number, idempotency_key, body, errors, codec } = attempt;
        let step = ObservedStep {
            run: &resident.info,
            name: &name,
            key: key.as_deref(),
            attempt: number,
            idempotency_key: &idempotency_key,
        };
        let work = LayeredWork { body: Some(body), resident: &resident, errors, codec };
        layers::around(&resident.env.layers, Observed::Step(&step), work).await
    })
}

pin_project_lite::pin_project! {
    /// The body of an attempt, up to the record of its value.
    struct LayeredWork<'r, 'a, F, T, E> {
        #[pin]
        body: Option<F>,
        resident: &'r ResidentRun,
        errors: ErrorRules<'a, E>,
        codec: Codec<T>,
    }
}

impl<F, T, E> Future for LayeredWork<'_, '_, F, T, E>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<Payload, FailedBody>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(body) = this.body.as_mut().as_pin_mut() else { return Poll::Pending };
        let result = ready!(panics::poll(body, cx));
        // How it ended is settled before its destructors run.
        if let Err(panic) = panics::catch(|| this.body.set(None)) {
            tracing::warn!("the body of a step {panic} when it was dropped");
        }
        Poll::Ready(match result {
            Ok(Ok(value)) => {
                let kept = this.codec.keep(&value, this.resident.env.max_payload);
                kept.map(|(payload, _)| payload).map_err(Into::into)
            }
            Ok(Err(error)) => Err(panics::catch(|| this.errors.judge(this.resident, error)).unwrap_or_else(Into::into)),
            Err(panic) => Err(panic.into()),
        })
    }
}
