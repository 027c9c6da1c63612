//! Cuts the power under Outlive's SQLite store, and makes its I/O fail: an in-memory disk behind a custom SQLite VFS
//! that separates what was synced from what was only written. Never shipped; the only crate with unsafe code.

mod author;
mod chance;
mod cut;
mod disk;
mod failing;
mod fault;
mod life;
mod locks;
mod log;
mod model;
mod stage;
mod vfs;
mod wait;
mod world;

pub use failing::{Outcome, fail_io};
pub use fault::{Lasting, Trouble};
pub use stage::Setting;
pub use world::{Tally, cut_power};
