//! Testing support for Outlive, in its own crate so that no test code is part of what users ship.

mod check;
mod clock;
pub mod conformance;
pub mod crashes;
mod engine;
mod errands;
mod faults;
mod hook;
pub mod plays;
mod program;
mod random;
pub mod simulate;
mod watched;
mod words;

pub use check::check;
pub use clock::TestClock;
pub use crashes::{crash_everywhere, crash_jobs_everywhere};
pub use engine::{TestBuilder, TestEngine};
pub use errands::jobs;
pub use faults::{Fault, Faults};
pub use program::programs;
pub use simulate::{Sim, simulate};
