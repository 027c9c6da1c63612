//! Replays what the fuzzer has found, without the fuzzer.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod corpus;
