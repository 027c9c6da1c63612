//! Tests the test kit on the memory store.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod crashed_jobs;
mod crashes;
mod endless_jobs;
mod simulate;
mod simulated_jobs;
mod test_engine;
