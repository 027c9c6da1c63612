//! Test kit of Outlive: a crate of its own, so that no test code is in what users ship.

mod check;
mod clock;
pub mod conformance;
mod engine;
mod faults;
mod hook;
mod program;
mod random;
mod simulate;
mod words;

pub use check::check;
pub use clock::TestClock;
pub use engine::{TestBuilder, TestEngine};
pub use faults::{Fault, Faults};
pub use program::programs;
pub use simulate::{Broken, Effect, End, EndedRun, Sim, SimReport, simulate, simulate_with, try_simulate};
