//! Handlers of users, and how the engine calls them without knowing their types.

use std::pin::Pin;
use std::sync::Arc;

use outlive_core::commit::Write;
use outlive_core::event::Event;
use outlive_core::failure::{Cause, Failure};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::job::{Call, Done, End, HandlerKind, Record};
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::Dead;
use outlive_core::time::Timestamp;
use serde::Serialize;

use super::outbox::Surroundings;
use super::setting::{About, Setting};
use crate::error::{BoxError, Error, failure_of, is_permanent};
use crate::panics;

/// An async function that handles a call: of a context, and of an event if it is for one.
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
    note = "the answer must be `Serialize`, the error `Into<Box<dyn Error + Send + Sync>>`",
    note = "the future must be `Send`: hold nothing like `Rc` or a `MutexGuard` across an `.await`"
)]
pub trait JobHandler<Args, M>: Send + Sync + 'static {
    /// Calls it.
    fn call(&self, args: Args) -> HandlerFuture;
}

/// What a handler gives: its answer as JSON.
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
    fn call(&self, (ctx, given): (C, A)) -> HandlerFuture {
        let work = self(ctx, given);
        Box::pin(async move { Ok(Payload::encode(&work.await.map_err(Into::into)?)?) })
    }
}

/// A handler whose own type is of no interest any more.
pub(crate) type Erased<Args> = Arc<dyn Fn(Args) -> HandlerFuture + Send + Sync>;

pub(crate) fn erase<Args, M>(handler: impl JobHandler<Args, M>) -> Erased<Args> {
    Arc::new(move |args| handler.call(args))
}

/// Which errors are worth another attempt.
pub(crate) type RetryIf = Arc<dyn Fn(&BoxError) -> bool + Send + Sync>;

/// What a call is given.
pub(crate) struct Given {
    pub(crate) around: Arc<Surroundings>,
    pub(crate) num: InstanceNum,
    pub(crate) id: Name,
    pub(crate) call: Call,
    pub(crate) record: Record,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Timestamp,
}

impl Given {
    pub(crate) fn setting(&self) -> Setting {
        let about = About { key: self.key(), created: self.created_at, started: self.started_at };
        Setting::new(self.around.clone(), &self.id, &self.call, &self.record, about)
    }

    /// Of an event the key has its position, which no other event ever has. Runs are counted by the instance, and another
    /// one of the same id counts anew, so their key has the number of the instance too.
    fn key(&self) -> String {
        let (id, handler, record) = (&self.id, self.call.handler, &self.record);
        let given_up = record.trouble.as_ref().and_then(|trouble| trouble.event);
        let pos = match handler {
            HandlerKind::Error => given_up,
            _ => self.call.event.as_ref().map(|inbound| inbound.pos),
        };
        match pos {
            Some(pos) => format!("{id}/{}/{pos}", handler.as_str()),
            None => format!("{id}/{}/{}/{}", self.num.0, handler.as_str(), record.runs + 1),
        }
    }

    pub(crate) fn event(&self) -> Option<&Event> {
        match &self.call.event {
            Some(Inbound { message: Message::Event(event), .. }) => Some(event),
            _ => None,
        }
    }

    /// The failure that `on_error` is called for.
    pub(crate) fn failure(&self) -> Failure {
        let recorded = self.call.failure.as_ref().and_then(|payload| Failure::from_payload(payload).ok());
        recorded.unwrap_or_else(|| Failure::new(Cause::Error, "unknown"))
    }
}

/// How a call ended, and what it asks of others.
#[derive(Clone)]
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) writes: Vec<Write>,
}

impl Ended {
    pub(crate) fn unreadable(problem: String) -> Self {
        Self { end: End::Unreadable(problem), writes: Vec::new() }
    }
}

/// A call under way.
pub(crate) type Calling = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// The handlers of a definition.
pub(crate) trait Handlers: Send + Sync {
    /// Calls the one that is meant.
    fn call(&self, given: Given) -> Calling;
    /// Whether an event reads as what the job takes.
    fn check(&self, event: &Payload) -> Result<(), Error>;
}

/// What a call of a pool's handler is given.
pub(crate) struct PoolGiven {
    pub(crate) around: Arc<Surroundings>,
    pub(crate) id: Name,
    /// Each with its position.
    pub(crate) events: Vec<(u64, Event)>,
    /// When the first of them was pushed.
    pub(crate) pushed_at: Timestamp,
    pub(crate) started_at: Timestamp,
}

impl PoolGiven {
    /// The setting of the call: it is that of the first event.
    pub(crate) fn setting(&self) -> Setting {
        let (pos, failed) = self.events.first().map_or((0, 0), |(pos, event)| (*pos, event.failed));
        let call = Call {
            handler: HandlerKind::Execute,
            attempt: failed.saturating_add(1),
            event: None,
            tick: None,
            flush: None,
            failure: None,
        };
        let key = format!("{}/{}/{pos}", self.id, call.handler.as_str());
        let about = About { key, created: self.pushed_at, started: self.started_at };
        Setting::new(self.around.clone(), &self.id, &call, &Record::default(), about)
    }
}

/// A call of a pool's handler under way.
pub(crate) type PoolCalling = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// The handlers of a pool.
pub(crate) trait PoolHandlers: Send + Sync {
    /// Handles events.
    fn call(&self, given: PoolGiven) -> PoolCalling;
    /// Looks at an event that is given up, if somebody wants to.
    fn dead(&self, given: PoolGiven, dead: &Dead) -> Option<PoolCalling>;
}

/// Runs a handler to its end. A panic is a failure; having terminated the instance goes before both.
pub(crate) async fn run(
    begin: impl FnOnce() -> HandlerFuture,
    retry_if: Option<&RetryIf>,
    finish: impl FnOnce() -> (Result<Option<Payload>, Error>, super::outbox::Asked),
) -> Ended {
    let mut work = match panics::catch(begin) {
        Ok(work) => work,
        Err(panic) => return ended(Err(panic), finish()),
    };
    let result = std::future::poll_fn(|cx| panics::poll(work.as_mut(), cx)).await;
    // What it holds may panic when it goes, too.
    let dropped = panics::catch(|| drop(work));
    let result = match (result, dropped) {
        (Ok(Ok(answer)), Ok(())) => Ok(answer),
        (Ok(Err(error)), _) => Err(failure(&error, retry_if)),
        (Err(panic), _) | (_, Err(panic)) => Err(panic),
    };
    ended(result, finish())
}

fn failure(error: &BoxError, retry_if: Option<&RetryIf>) -> Failure {
    let is_refused = retry_if.is_some_and(|test| !panics::catch(|| test(error)).unwrap_or(false));
    let failure = panics::flatten(|| failure_of(error));
    if is_refused || is_permanent(&**error) { failure.permanent() } else { failure }
}

fn ended(
    result: Result<Payload, Failure>,
    (state, asked): (Result<Option<Payload>, Error>, super::outbox::Asked),
) -> Ended {
    let state = match state {
        Ok(state) => state,
        Err(error) if asked.terminate.is_none() && result.is_ok() => {
            let failure = Failure::new(Cause::Output, error.to_string()).permanent();
            return Ended { end: End::Failed(failure), writes: Vec::new() };
        }
        Err(_) => None,
    };
    match (result, asked.terminate) {
        (result, Some(reason)) => {
            // What it sent counts only if it succeeded.
            let writes = if result.is_ok() { asked.writes } else { Vec::new() };
            Ended { end: End::Done(Done { terminate: Some(reason), ..Done::default() }), writes }
        }
        (Ok(answer), None) => {
            let done = Done { state, plan: asked.plan, answer: Some(answer), terminate: None };
            Ended { end: End::Done(done), writes: asked.writes }
        }
        (Err(failure), None) => Ended { end: End::Failed(failure), writes: Vec::new() },
    }
}
