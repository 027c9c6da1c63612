//! Enforces the rules of `STYLE.md` by test instead of by advice; its own crate, so that it has no dependencies and
//! builds in a second.

pub mod imports;
pub mod limits;
pub mod machine;
pub mod manifest;
pub mod names;
pub mod purity;
pub mod sizes;
pub mod source;
pub mod supply;
pub mod syntax;
pub mod tree;
pub mod words;
