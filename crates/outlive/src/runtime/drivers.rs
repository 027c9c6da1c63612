//! Drivers: each advances one instance in memory, and commits what it does.

#[cfg(feature = "tokio")]
mod host;
#[cfg(feature = "tokio")]
pub(crate) mod job;
#[cfg(feature = "tokio")]
pub(crate) mod pool;
pub(crate) mod run;
#[cfg(feature = "tokio")]
pub(crate) mod turns;
