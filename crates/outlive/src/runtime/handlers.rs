//! The engine's view of a job: its rules, and handlers with their types erased.

mod context;
mod deadline;
mod define;
mod handler;
mod outbox;

pub(crate) use self::context::CallContext;
pub use self::define::{Definition, Executes, JobDefinition, Unfinished};
pub(crate) use self::define::{Settings, Work};
pub(crate) use self::handler::{
    CallEnded, CallPolicy, Calling, Erased, HandlerCall, Handlers, PoolCall, PoolHandlers, erase, run,
};
pub use self::handler::{HandlerFuture, JobHandler, RetryTest};
pub(crate) use self::outbox::{HandlerEnv, Outbox};
