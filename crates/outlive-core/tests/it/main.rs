//! Integration tests of the core: tables of cases and real calendars, too large to sit next to the code.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod care;
mod effects;
mod held;
mod jobs;
mod outputs;
mod patterns;
mod pool;
mod restarts;
mod undos;
mod zones;
