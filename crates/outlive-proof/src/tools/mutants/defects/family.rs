//! Defects of effects and children: what a run sends to others, and what parents and children learn of each other.

use super::{Defect, Edit};

const CHILDREN: &str = "crates/outlive-core/src/workflow/children.rs";
const EFFECT: &str = "crates/outlive-core/src/workflow/operations/effect.rs";
const OPERATIONS: &str = "crates/outlive-core/src/workflow/operations.rs";
const RECORDER: &str = "crates/outlive-core/src/workflow/recorder.rs";
const ROWS: &str = "crates/outlive-core/src/store/memory/rows.rs";
const REOPEN: &str = "crates/outlive-sqlite/src/write/reopen.rs";
const FAMILY: &str = "crates/outlive/src/runtime/family.rs";
const DRIVER: &str = "crates/outlive/src/runtime/drivers/run.rs";

pub(super) const DEFECTS: &[Defect] = &[
    Defect {
        name: "ParentNotNotified",
        breaks: "The parent does not learn that its child has ended. Breaks P4.",
        edits: &[Edit {
            file: FAMILY,
            original: "writes.extend(to_parent(info, state, machine.recorder().seq()));",
            replacement: r#"if !outlive_core::defect::is_on("ParentNotNotified") {
        writes.extend(to_parent(info, state, machine.recorder().seq()));
    }"#,
        }],
    },
    Defect {
        name: "ChildrenLeftRunning",
        breaks: "Attached children continue when their parent ends. Breaks P4.",
        edits: &[Edit {
            file: FAMILY,
            original: "let mut writes = machine.end_children(&message, state.at);",
            replacement: r#"let mut writes = machine.end_children(&message, state.at);
    if outlive_core::defect::is_on("ChildrenLeftRunning") {
        writes.clear();
    }"#,
        }],
    },
    Defect {
        name: "DetachedEnded",
        breaks: "A detached child is cancelled when its parent ends. Breaks P4.",
        edits: &[Edit {
            file: CHILDREN,
            original: "filter(|(_, is_detached)| !**is_detached)",
            replacement: r#"filter(|(_, is_detached)| !**is_detached || crate::defect::is_on("DetachedEnded"))"#,
        }],
    },
    Defect {
        name: "EffectSentAgain",
        breaks: "A replay sends what is recorded as sent. Breaks P2.",
        edits: &[Edit {
            file: OPERATIONS,
            original: "        match recorded {\n",
            replacement: r#"        let is_again = |one: &Recorded| matches!(one.outcome, Outcome::Sent(_)) && crate::defect::is_on("EffectSentAgain");
        match recorded.filter(|one| !is_again(one)) {
"#,
        }],
    },
    Defect {
        name: "BarrierLifted",
        breaks: "Entries are committed while effects before them may be refused. Breaks P4.",
        edits: &[Edit {
            file: RECORDER,
            original: "!self.is_sending() && (!self.outgoing.entries",
            replacement: r#"(!self.is_sending() || crate::defect::is_on("BarrierLifted")) && (!self.outgoing.entries"#,
        }],
    },
    Defect {
        name: "RefusedAsSent",
        breaks: "An effect that was refused is recorded as sent. Breaks P2.",
        edits: &[Edit {
            file: EFFECT,
            original: "entry.kind = refused_as;",
            replacement: r#"if !crate::defect::is_on("RefusedAsSent") {
                    entry.kind = refused_as;
                }"#,
        }],
    },
    Defect {
        name: "RefusalMisplaced",
        breaks: "The refusal of an effect is recorded for another one of its commit. Breaks P2.",
        edits: &[Edit {
            file: EFFECT,
            original: "let seq = *outgoing.write_seqs.get(index)?;",
            replacement: r#"let place = if crate::defect::is_on("RefusalMisplaced") { 0 } else { index };
        let seq = *outgoing.write_seqs.get(place)?;"#,
        }],
    },
    Defect {
        name: "EndsWhileSending",
        breaks: "A run ends although what it has sent may be refused. Breaks P4.",
        edits: &[Edit {
            file: DRIVER,
            original: "if self.resident.lock().machine.recorder().is_sending() {",
            replacement: r#"if self.resident.lock().machine.recorder().is_sending()
            && !outlive_core::defect::is_on("EndsWhileSending")
        {"#,
        }],
    },
    Defect {
        name: "RetriedParentForsaken",
        breaks: "The memory store does not repeat the ends of children to a retried parent. Breaks P4.",
        edits: &[Edit {
            file: ROWS,
            original: "if entry.kind == EntryKind::Retried {",
            replacement: r#"if entry.kind == EntryKind::Retried && !crate::defect::is_on("RetriedParentForsaken") {"#,
        }],
    },
    Defect {
        name: "RetriedParentForsakenOnDisk",
        breaks: "SQLite does not repeat the ends of children to a retried parent. Breaks P4.",
        edits: &[Edit {
            file: REOPEN,
            original: "if instance.status == Status::Failed {",
            replacement: r#"if instance.status == Status::Failed
        && !outlive_core::defect::is_on("RetriedParentForsakenOnDisk")
    {"#,
        }],
    },
];
