//! Workloads with runs: throughput of steps, and latency of steps, starts, signals and wakes.

#[cfg(feature = "workloads")]
pub(crate) mod children;
#[cfg(feature = "workloads")]
pub(crate) mod concurrency_levels;
#[cfg(feature = "workloads")]
pub(crate) mod crowded_store;
#[cfg(feature = "workloads")]
pub(crate) mod journal_replay;
pub(crate) mod many_short_runs;
pub(crate) mod one_long_run;
#[cfg(feature = "workloads")]
pub(crate) mod purge;
pub(crate) mod rewind;
#[cfg(feature = "workloads")]
pub(crate) mod signal_latency;
#[cfg(feature = "workloads")]
pub(crate) mod simultaneous_wakes;
#[cfg(feature = "workloads")]
pub(crate) mod sink;
#[cfg(feature = "workloads")]
pub(crate) mod start_latency;
#[cfg(feature = "workloads")]
pub(crate) mod stream;
