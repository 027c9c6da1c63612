//! Measures everything, compares it with the targets, and writes the results page.

pub(crate) mod all;
mod machine;
mod page;
mod plot;
mod targets;
