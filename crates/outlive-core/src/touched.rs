//! Which instances others have changed: for those who wait for some of them, so that one read is enough for all.

use crate::id::InstanceNum;

/// Which changes to look for.
///
/// ```
/// use outlive_core::touched::Touch;
/// // Whoever executes hears of all other changes by itself.
/// let by_others = |executes: bool| if executes { Touch::Removed } else { Touch::Reported };
/// assert_ne!(by_others(true), by_others(false));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Touch {
    /// Instances that a line of [news](crate::lifecycle::News) reports on, or that were removed.
    Reported,
    /// Instances that were removed.
    Removed,
}

/// Instances that were changed after a position of the feed.
///
/// ```
/// use outlive_core::id::InstanceNum;
/// use outlive_core::touched::Touched;
/// let page = Touched { nums: vec![InstanceNum(7)], last: 42, is_all: true };
/// assert!(page.is_all, "the next look begins past {}", page.last);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touched {
    /// Their numbers. Some may be in it more than once.
    pub nums: Vec<InstanceNum>,
    /// The position up to which this is complete.
    pub last: u64,
    /// `false` if there is more past `last`.
    pub is_all: bool,
}
