//! Fuzz targets, one function each. A target panics if a promise is broken, so it can be driven by the fuzzer (`fuzz/`)
//! as well as by a plain test over the inputs that the fuzzer has found.

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
// The CLI is a binary crate, so its parser is included from its source.
#[path = "../../outlive-cli/src/typed.rs"]
mod typed;

/// A target: its name, and the function that takes the bytes.
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
