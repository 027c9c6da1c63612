//! The test kit, tested on the store that it trusts.

mod conformance;
mod simulate;
