//! The workloads, one file each, named for what they do.

#[cfg(feature = "workloads")]
pub(crate) mod curves;
#[cfg(feature = "workloads")]
pub(crate) mod jobs;
#[cfg(feature = "workloads")]
pub(crate) mod process;
pub(crate) mod runs;
