//! Test kit of Outlive: a crate of its own, so that no test code is in what users ship.

mod clock;
pub mod conformance;
pub mod crashes;
mod engine;
mod faults;
mod hook;

pub use clock::TestClock;
pub use crashes::crash_everywhere;
pub use engine::{TestBuilder, TestEngine};
pub use faults::{Fault, Faults};
