//! Instances in memory: what the contexts that user code sees share with the drivers behind them.

pub(crate) mod attempts;
pub(crate) mod codec;
pub(crate) mod env;
pub(crate) mod info;
pub(crate) mod layers;
pub(crate) mod logs;
pub(crate) mod mailbox;
pub(crate) mod meters;
pub(crate) mod outlet;
pub(crate) mod panics;
pub(crate) mod polls;
#[cfg(feature = "tokio")]
pub(crate) mod random;
pub(crate) mod resident;
pub(crate) mod tags;
pub(crate) mod target;
#[cfg(feature = "tokio")]
pub(crate) mod traces;
pub(crate) mod undos;
