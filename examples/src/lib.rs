//! Programs that show what jobs do. Each is an example of this crate, in the folder above, and prints what happens.

/// Compiles the chapter of the guide that needs a web framework.
#[cfg(all(doctest, unix))]
#[doc = include_str!("../../docs/guide/in-a-service.md")]
mod in_a_service {}
