//! Rules of the core by tables and on real calendars: more cases than fit beside the code.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod jobs;
mod patterns;
mod zones;
