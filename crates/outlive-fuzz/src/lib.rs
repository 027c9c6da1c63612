//! What arbitrary bytes are thrown at, one function per target. Each panics if a promise is broken, and so can be
//! driven by the fuzzer (`fuzz/`) as well as by a plain test over the bytes that the fuzzer has found.

mod bytes;
pub mod duration;
pub mod entry;
pub mod filter;
pub mod journal;
pub mod name;
pub mod payload;
pub mod program;
pub mod retry;
pub mod store;
// The command line is a program; what it reads is fuzzed from its source.
#[path = "../../outlive-cli/src/typed.rs"]
mod typed;

/// A target: what the fuzzer calls it, and what it does with bytes.
///
/// ```
/// let (name, run) = outlive_fuzz::TARGETS[0];
/// assert_eq!(name, "duration");
/// run(b"5 parsecs");
/// ```
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
///
/// ```
/// for (_, run) in outlive_fuzz::TARGETS {
///     run(b"");
/// }
/// ```
pub const TARGETS: [Target; 9] = [
    ("duration", duration::run),
    ("retry", retry::run),
    ("name", name::run),
    ("payload", payload::run),
    ("entry", entry::run),
    ("journal", journal::run),
    ("filter", filter::run),
    ("store", store::run),
    ("program", program::run),
];
