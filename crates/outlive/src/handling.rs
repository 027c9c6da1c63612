//! What the engine knows of jobs: their rules, and handlers whose types it does not know.

mod define;
mod handler;
mod outbox;
mod setting;

pub use self::define::{Definition, Executes, JobDefinition, Unfinished};
pub(crate) use self::define::{OnExhausted, PoolRules, Work, check_policy};
pub(crate) use self::handler::{
    Calling, Ended, Erased, Given, Handlers, PoolCalling, PoolGiven, PoolHandlers, RetryIf, erase, run,
};
pub use self::handler::{HandlerFuture, JobHandler};
pub(crate) use self::outbox::{Names, Surroundings, encode, run_id};
pub(crate) use self::setting::Setting;
