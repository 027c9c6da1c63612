//! Cuts the power under the SQLite store of Outlive, and has its I/O fail: a disk in memory behind a VFS of SQLite,
//! which keeps what was synced apart from what was only written. Never shipped; the one crate with unsafe code.

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
