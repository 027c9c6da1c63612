//! Defects of undos: what a run undoes, in which order, and what may stop it.

use super::{Defect, Edit};

const CURSOR: &str = "crates/outlive-core/src/workflow/operations/cursor.rs";
const CONTROL: &str = "crates/outlive-core/src/workflow/operations/control.rs";
const OPEN: &str = "crates/outlive/src/ctx/undos.rs";
const READY: &str = "crates/outlive/src/instance/undos.rs";
const DRIVER: &str = "crates/outlive/src/runtime/drivers/run.rs";

pub(super) const DEFECTS: &[Defect] = &[
    Defect {
        name: "UndoneFirstFirst",
        breaks: "What was done first is undone first. Breaks P2.",
        edits: &[Edit {
            file: READY,
            original: "self.ready.pop_last()",
            replacement: r#"if outlive_core::defect::is_on("UndoneFirstFirst") {
            return self.ready.pop_first();
        }
        self.ready.pop_last()"#,
        }],
    },
    Defect {
        name: "UndoCancelled",
        breaks: "A cancel ends an undo that runs. Breaks P2.",
        edits: &[Edit {
            file: CONTROL,
            original: "is_unwinding || matches!(op.kind, OpKind::Undo | OpKind::Unwind);",
            replacement: r#"(is_unwinding || matches!(op.kind, OpKind::Undo | OpKind::Unwind)) && !crate::defect::is_on("UndoCancelled");"#,
        }],
    },
    Defect {
        name: "CancelledNotUndone",
        breaks: "A run that is cancelled is not undone. Breaks P2.",
        edits: &[Edit {
            file: DRIVER,
            original: "            RunEnd::Completed(_) => None,\n            RunEnd::Failed(failure)",
            replacement: r#"            _ if outlive_core::defect::is_on("CancelledNotUndone")
                && self.resident.lock().machine.inbox().cancel_reason().is_some() =>
            {
                return false;
            }
            RunEnd::Completed(_) => None,
            RunEnd::Failed(failure)"#,
        }],
    },
    Defect {
        name: "LostRaceNotUndone",
        breaks: "A step that was done and then lost a race is not undone. Breaks P2.",
        edits: &[Edit {
            file: OPEN,
            original: "let Some(OpEnd { op, value }) = OpEnd::of(state, slot) else { return };",
            replacement: r#"let Some(OpEnd { op, value }) = OpEnd::of(state, slot) else { return };
        let value = value.filter(|_| !outlive_core::defect::is_on("LostRaceNotUndone"));"#,
        }],
    },
    Defect {
        name: "UndoNotPlanned",
        breaks: "The commit of a success does not say that there is an undo. Breaks P7.",
        edits: &[Edit {
            file: CURSOR,
            original: "if undos::value_of(kind, outcome).is_some() {",
            replacement: r#"if undos::value_of(kind, outcome).is_some() && !crate::defect::is_on("UndoNotPlanned") {"#,
        }],
    },
];
