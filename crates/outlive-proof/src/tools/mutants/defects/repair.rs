//! Defects of rewinds and forks.

use super::{Defect, Edit};

const REWIND: &str = "crates/outlive-sqlite/src/write/rewind.rs";
const FORK: &str = "crates/outlive-sqlite/src/write/fork.rs";
const MEMORY: &str = "crates/outlive-core/src/store/memory/repair.rs";

pub(super) const DEFECTS: &[Defect] = &[
    Defect {
        name: "RewindOfAnotherJournal",
        breaks: "The memory store applies a rewind that was planned before the journal grew. Breaks P4.",
        edits: &[Edit {
            file: MEMORY,
            original: "if row.seq_last() + 1 != rewind.entry.seq {",
            replacement: r#"if row.seq_last() + 1 != rewind.entry.seq && !crate::defect::is_on("RewindOfAnotherJournal") {"#,
        }],
    },
    Defect {
        name: "RewindOfDriven",
        breaks: "SQLite rewinds a run that is being driven. Breaks P2.",
        edits: &[Edit {
            file: REWIND,
            original: "if instance.owner != Epoch(0) || instance.started_at.is_none() {",
            replacement: r#"if !outlive_core::defect::is_on("RewindOfDriven")
        && (instance.owner != Epoch(0) || instance.started_at.is_none())
    {"#,
        }],
    },
    Defect {
        name: "RewindKeepsSignals",
        breaks: "SQLite does not give back the signals that a rewind forgets. Breaks P4.",
        edits: &[Edit {
            file: REWIND,
            original: "        inbox::insert(batch, num, inbound, None)?;",
            replacement: r#"        if !outlive_core::defect::is_on("RewindKeepsSignals") {
            inbox::insert(batch, num, inbound, None)?;
        }"#,
        }],
    },
    Defect {
        name: "RewoundParentForsaken",
        breaks: "The memory store does not repeat the ends of children to a parent that was rewound. Breaks P4.",
        edits: &[Edit {
            file: MEMORY,
            original: "        for child in &rewind.children {",
            replacement: r#"        for child in rewind.children.iter().filter(|_| !crate::defect::is_on("RewoundParentForsaken")) {"#,
        }],
    },
    Defect {
        name: "ForkWithoutInbox",
        breaks: "SQLite creates a fork without the messages that it begins with. Breaks P4.",
        edits: &[Edit {
            file: FORK,
            original: "    for inbound in &fork.inbox {",
            replacement: r#"    for inbound in fork.inbox.iter().filter(|_| !outlive_core::defect::is_on("ForkWithoutInbox")) {"#,
        }],
    },
];
