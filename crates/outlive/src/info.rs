//! What a run knows of itself.

use std::collections::BTreeMap;

use outlive_core::id::InstanceNum;
use outlive_core::time::Timestamp;

/// What a run knows of itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Info {
    /// The run's id.
    pub id: String,
    /// The name its workflow is registered under.
    pub workflow: String,
    /// When it began.
    pub started_at: Timestamp,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    pub(crate) num: InstanceNum,
    pub(crate) seed: u64,
}
