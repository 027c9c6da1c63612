//! The engine's view of a job: its rules, and handlers with their types erased.

mod deadline;
mod define;
mod handler;
mod outbox;
mod setting;

pub use self::define::{Definition, Executes, JobDefinition, Unfinished};
pub(crate) use self::define::{PoolRules, Settings, Work};
pub(crate) use self::handler::{Calling, Care, Ended, Erased, Given, Handlers, PoolGiven, PoolHandlers, erase, run};
pub use self::handler::{HandlerFuture, JobHandler, RetryTest};
pub(crate) use self::outbox::{Names, Outbox, Surroundings, run_id};
pub(crate) use self::setting::Setting;
