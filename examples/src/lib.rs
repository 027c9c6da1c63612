//! Programs that show what jobs do: each is an example of this crate, beside this folder, and says what it has seen.

/// The chapter of the guide that needs a web framework, compiled.
#[cfg(all(doctest, unix))]
#[doc = include_str!("../../docs/guide/in-a-service.md")]
mod in_a_service {}
