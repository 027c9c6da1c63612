//! Generated workloads with a known outcome, for the proofs of Outlive itself. Not part of the API: anything here may
//! change in any release.

mod errands;
mod plays;
mod program;

pub use errands::jobs;
pub use plays::{PlayReport, plays};
pub use program::programs;
