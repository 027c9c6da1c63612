//! What all workloads share: load, clocks, statistics, child processes and figures.

#[cfg(feature = "workloads")]
pub(crate) mod child;
#[cfg(feature = "workloads")]
pub(crate) mod crowd;
pub(crate) mod figures;
pub(crate) mod floor;
pub(crate) mod load;
pub(crate) mod notes;
pub(crate) mod numbers;
pub(crate) mod progress;
pub(crate) mod setup;
pub(crate) mod steps;
pub(crate) mod usage;
