//! The handlers of a job with state, and the dispatch of a call to the right one.

use std::sync::Arc;

use outlive_core::failure::Failure;
use outlive_core::job::HandlerKind;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::{StateCell, read};
use crate::runtime::handlers::{CallEnded, Calling, Erased, HandlerCall};

/// A context built from a state.
pub(crate) trait Context: Send + 'static {
    type State: Serialize + DeserializeOwned + Send + Sync + 'static;

    fn of(inner: Arc<StateCell<Self::State>>) -> Self;
}

/// The handlers given to a job.
pub(crate) struct TypedHandlers<C, E> {
    pub(crate) on_event: Option<Erased<(C, E)>>,
    pub(crate) execute: Option<Erased<(C,)>>,
    pub(crate) on_idle: Option<Erased<(C,)>>,
    pub(crate) on_error: Option<Erased<(C, Failure)>>,
}

impl<C, E> Default for TypedHandlers<C, E> {
    fn default() -> Self {
        Self { on_event: None, execute: None, on_idle: None, on_error: None }
    }
}

impl<C: Context, E: DeserializeOwned + Send + 'static> TypedHandlers<C, E> {
    pub(crate) fn call_one(&self, input: HandlerCall) -> Calling {
        let inner = match StateCell::new(input.context(), input.record.state.as_ref()) {
            Ok(inner) => inner,
            Err(problem) => return CallEnded::unreadable(problem).at_once(),
        };
        let ctx = C::of(inner.clone());
        let missing = || CallEnded::unreadable("the job has no handler for this call".into()).at_once();
        let plain = match input.call.handler {
            HandlerKind::Event => {
                return match (self.on_event.clone(), input.event().map(|event| read(&event.payload))) {
                    (Some(on_event), Some(Ok(event))) => inner.run(input.call_policy, move || on_event((ctx, event))),
                    (_, Some(Err(problem))) => CallEnded::unreadable(problem).at_once(),
                    _ => missing(),
                };
            }
            HandlerKind::Error => {
                let (Some(on_error), failure) = (self.on_error.clone(), input.failure()) else { return missing() };
                return inner.run(input.call_policy, move || on_error((ctx, failure)));
            }
            HandlerKind::Execute => &self.execute,
            HandlerKind::Idle => &self.on_idle,
        };
        match plain.clone() {
            Some(handler) => inner.run(input.call_policy, move || handler((ctx,))),
            None => missing(),
        }
    }
}
