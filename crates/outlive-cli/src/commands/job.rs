//! Commands about jobs, their queues and dead letters.

pub(super) mod dead;
pub(super) mod flush;
pub(super) mod list;
pub(super) mod queue;
mod request;
pub(super) mod send;
pub(super) mod show;
pub(super) mod trigger;
