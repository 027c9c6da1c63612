//! Workloads with jobs: events handled per second, and how late recurring ones run.

pub(crate) mod clients;
pub(crate) mod debounce_events;
pub(crate) mod pool_events;
pub(crate) mod recurring_jobs;
pub(crate) mod task_events;
