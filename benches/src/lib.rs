//! The workloads behind every performance claim; see `benches/README.md`.
//!
//! Without the feature `workloads`, only the two that `outlive bench` needs are compiled.

#![expect(clippy::disallowed_methods, reason = "it measures real time")]
#![cfg_attr(not(feature = "workloads"), expect(dead_code, reason = "workloads that are not compiled use it"))]

#[cfg(feature = "workloads")]
mod command;
mod harness;
mod measure;
#[cfg(feature = "workloads")]
mod report;
mod workloads;

#[cfg(feature = "workloads")]
pub use command::main;
pub use harness::figures::Figures;
pub use measure::{measure_many_short_runs, measure_one_long_run};
