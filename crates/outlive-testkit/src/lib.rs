//! Test kit of Outlive: a crate of its own, so that no test code is in what users ship.

mod check;
mod clock;
pub mod conformance;
mod engine;
mod faults;
mod hook;

pub use check::check;
pub use clock::TestClock;
pub use engine::{TestBuilder, TestEngine};
pub use faults::{Fault, Faults};
