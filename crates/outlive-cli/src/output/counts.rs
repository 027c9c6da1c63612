//! Formats the number of runs by status.

use outlive::{Counts, StatusKind};

/// Returns the number of runs in each status that has any: `1 waiting, 2 failed`.
pub(crate) fn by_status(counts: &Counts) -> String {
    let each = StatusKind::ALL.into_iter().filter(|kind| counts.of(*kind) > 0);
    let each: Vec<String> = each.map(|kind| format!("{} {}", counts.of(kind), kind.as_str())).collect();
    each.join(", ")
}
