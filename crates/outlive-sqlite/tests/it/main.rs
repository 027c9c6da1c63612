//! Tests what the SQLite store promises beyond the store trait: its files, and what happens when they fail.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;
mod conformance;
mod damage;
mod doctor;
mod doctor_of_jobs;
#[cfg(unix)]
mod doorbell;
mod full;
mod hot_path;
mod jobs;
mod log;
mod lost_answer;
#[cfg(unix)]
mod names;
mod open;
mod outputs;
mod plans;
mod process;
mod reading;
mod sharing;
mod support;
