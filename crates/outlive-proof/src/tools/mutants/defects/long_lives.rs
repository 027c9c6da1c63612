//! Defects of restarts and of the removal of ended runs.

use super::{Defect, Edit};

const SIGNALS: &str = "crates/outlive-core/src/workflow/signals.rs";
const RESTART: &str = "crates/outlive-core/src/workflow/operations/restart.rs";
const ROW: &str = "crates/outlive-core/src/store/memory/row.rs";
const MEMORY: &str = "crates/outlive-core/src/store/memory/expire.rs";
const SQLITE: &str = "crates/outlive-sqlite/src/write/expire.rs";
const PAST: &str = "crates/outlive-sqlite/src/write/past.rs";

pub(super) const DEFECTS: &[Defect] = &[
    Defect {
        name: "RestartLosesSignal",
        breaks: "A signal that a wait returned is not there after a restart. Breaks P4.",
        edits: &[Edit {
            file: SIGNALS,
            original: ".filter(|(pos, ..)| self.returned.contains(pos))",
            replacement: r#".filter(|(pos, ..)| self.returned.contains(pos) && !crate::defect::is_on("RestartLosesSignal"))"#,
        }],
    },
    Defect {
        name: "RestartForgetsChildren",
        breaks: "Children that were started before a restart do not end with their parent. Breaks P4.",
        edits: &[Edit {
            file: RESTART,
            original: "restart.children = ops.children.to_carry();",
            replacement: r#"restart.children = ops.children.to_carry();
    if crate::defect::is_on("RestartForgetsChildren") {
        restart.children.clear();
    }"#,
        }],
    },
    Defect {
        name: "JournalAfterRestartNotFresh",
        breaks: "The journal before a restart is replayed after it. Breaks P3.",
        edits: &[Edit {
            file: ROW,
            original: "if entry.kind == EntryKind::Restarted {",
            replacement: r#"if entry.kind == EntryKind::Restarted && !crate::defect::is_on("JournalAfterRestartNotFresh") {"#,
        }],
    },
    Defect {
        name: "PastJournalKept",
        breaks: "Entries from before a restart are never removed. Breaks P8.",
        edits: &[Edit {
            file: PAST,
            original: "Age::Old => past.forget(connection, max, &mut forgotten)?,",
            replacement: r#"Age::Old if outlive_core::defect::is_on("PastJournalKept") => {}
            Age::Old => past.forget(connection, max, &mut forgotten)?,"#,
        }],
    },
    Defect {
        name: "NeededChildExpired",
        breaks: "A child is removed while its parent may need its outcome. Breaks P4.",
        edits: &[Edit {
            file: MEMORY,
            original: "(!is_needed && dead_letters",
            replacement: r#"((!is_needed || crate::defect::is_on("NeededChildExpired")) && dead_letters"#,
        }],
    },
    Defect {
        name: "ExpiredWithDeadLetters",
        breaks: "A run is removed with its dead letters. Breaks P4.",
        edits: &[Edit {
            file: SQLITE,
            original: "if !run.has_restarted && !is_found(REFUSED)? {",
            replacement: r#"if outlive_core::defect::is_on("ExpiredWithDeadLetters") || !run.has_restarted && !is_found(REFUSED)? {"#,
        }],
    },
];
