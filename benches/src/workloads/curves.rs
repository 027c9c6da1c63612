//! Workloads behind the plots: the same load repeated while one thing grows.

mod curve;
pub(crate) mod in_flight;
pub(crate) mod journal_length;
pub(crate) mod sleepers;
