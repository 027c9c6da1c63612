//! Runs the command line as real processes, on stores that another process executes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acts;
mod bench;
mod checking;
mod compact;
mod demo;
mod doctor;
mod errors;
mod events;
mod exporting;
mod family;
mod following;
mod hostile;
mod jobs;
mod listing;
mod outputs;
mod readonly;
mod shop;
mod unexecuted;
