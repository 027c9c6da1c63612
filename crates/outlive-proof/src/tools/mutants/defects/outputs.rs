//! Defects of what runs give out: values, streams, and answers to questions.

use super::{Defect, Edit};

const OUTPUT: &str = "crates/outlive-core/src/workflow/operations/output.rs";
const MEMORY: &str = "crates/outlive-core/src/store/memory/outputs.rs";
const SQLITE: &str = "crates/outlive-sqlite/src/write/output.rs";

pub(super) const DEFECTS: &[Defect] = &[
    Defect {
        name: "FailedAttemptCounts",
        breaks: "What a failed attempt appended is taken for the items of one that succeeded. Breaks P2.",
        edits: &[Edit {
            file: OUTPUT,
            original: "EntryKind::FallingBack | EntryKind::OpCancelled => false,",
            replacement: r#"EntryKind::FallingBack | EntryKind::OpCancelled => {
            crate::defect::is_on("FailedAttemptCounts")
        }"#,
        }],
    },
    Defect {
        name: "ItemStoredAgain",
        breaks: "An item whose reply was lost is stored twice. Breaks P2.",
        edits: &[
            Edit {
                file: MEMORY,
                original: "if let Some(item) = row.items_by_token.get(&output.token).copied() {",
                replacement: r#"if let Some(item) = row.items_by_token.get(&output.token).copied()
                    && !crate::defect::is_on("ItemStoredAgain")
                {"#,
            },
            Edit {
                file: SQLITE,
                original: "if prior == PriorAttempt::MaybeDurable\n",
                replacement: r#"if prior == PriorAttempt::MaybeDurable
                && !outlive_core::defect::is_on("ItemStoredAgain")
"#,
            },
        ],
    },
    Defect {
        name: "OldValueKept",
        breaks: "A published value does not replace the last one. Breaks P1.",
        edits: &[Edit {
            file: MEMORY,
            original: "if last.item > *version {",
            replacement: r#"if last.item > *version || crate::defect::is_on("OldValueKept") {"#,
        }],
    },
];
