//! Rules of the core on real calendars: more cases than fit beside the code.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod patterns;
mod zones;
