//! The removal of runs that ended long ago: which ones, and how far it has come.

use std::collections::BTreeMap;

use crate::id::{InstanceNum, Name};
use crate::status::StatusKind;
use crate::time::Timestamp;

/// Removes runs that ended long ago, a few at a time. A child stays as long as its parent may still need its outcome, and a
/// run with [dead letters](crate::restart::dead_letters) stays. Writing it again may remove further runs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Expire {
    /// What is removed of workflows that have no rule of their own.
    pub default: Cutoffs,
    /// What is removed of these workflows.
    pub by_workflow: BTreeMap<Name, Cutoffs>,
    /// Where to go on; `None` at the beginning.
    pub after: Option<ExpireMark>,
    /// The number of runs to look at.
    pub limit: u32,
}

/// Runs that ended before these times are removed; those without a time stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cutoffs {
    /// For completed runs.
    pub completed: Option<Timestamp>,
    /// For failed runs.
    pub failed: Option<Timestamp>,
    /// For cancelled runs.
    pub cancelled: Option<Timestamp>,
}

/// The last run that was looked at, in the order of workflow, status, end and number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ExpireMark {
    /// The workflow.
    pub workflow: Name,
    /// How it ended.
    pub status: StatusKind,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Its number.
    pub num: InstanceNum,
}

impl Expire {
    /// Returns the time before which a run of this workflow must have ended with this status to be removed.
    ///
    /// ```
    /// use outlive_core::store::expire::{Cutoffs, Expire};
    /// # use outlive_core::{id::Name, status::StatusKind, time::Timestamp};
    /// # let (audit, other) = (Name::recorded("audit"), Name::recorded("other"));
    /// let noon = Some(Timestamp::from_millis(43_200_000));
    /// let default = Cutoffs { completed: noon, ..Cutoffs::default() };
    /// let expire = Expire { default, by_workflow: [(audit.clone(), Cutoffs::default())].into(), ..Expire::default() };
    /// assert_eq!(expire.before(&other, StatusKind::Completed), noon);
    /// assert_eq!(expire.before(&other, StatusKind::Failed), None);
    /// assert_eq!(expire.before(&audit, StatusKind::Completed), None);
    /// ```
    #[must_use]
    pub fn before(&self, workflow: &Name, status: StatusKind) -> Option<Timestamp> {
        let cutoffs = self.by_workflow.get(workflow).unwrap_or(&self.default);
        match status {
            StatusKind::Completed => cutoffs.completed,
            StatusKind::Failed => cutoffs.failed,
            StatusKind::Cancelled => cutoffs.cancelled,
            _ => None,
        }
    }
}
