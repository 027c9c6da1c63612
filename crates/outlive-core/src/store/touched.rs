//! Instances changed by other processes, read once on behalf of everyone who waits for some of them.

use crate::id::InstanceNum;

/// The changes to look for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Touch {
    /// Instances with a new [lifecycle event](crate::lifecycle::LifecycleRecord), and instances that were removed.
    Reported,
    /// Only instances that were removed.
    Removed,
}

/// Instances changed after a position of the feed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touched {
    /// Their numbers, possibly with duplicates.
    pub nums: Vec<InstanceNum>,
    /// The position up to which this is complete.
    pub last: u64,
    /// `false` if there is more past `last`.
    pub is_all: bool,
}
