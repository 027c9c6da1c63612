//! Defects of heartbeats, breakers and retry budgets.

use super::{Defect, Edit};

const GATE: &str = "crates/outlive-core/src/workflow/operations/gate.rs";
const RECORD: &str = "crates/outlive-core/src/workflow/record.rs";
const STEP: &str = "crates/outlive-core/src/workflow/operations/step.rs";
const COMMIT: &str = "crates/outlive-core/src/store/commit.rs";

pub(super) const DEFECTS: &[Defect] = &[
    Defect {
        name: "HeartbeatForgotten",
        breaks: "A recorded heartbeat is not handed to the next attempt after a crash. Breaks P1.",
        edits: &[Edit {
            file: RECORD,
            original: "EntryKind::Heartbeat => {\n",
            replacement: r#"EntryKind::Heartbeat if crate::defect::is_on("HeartbeatForgotten") => return Ok(()),
            EntryKind::Heartbeat => {
"#,
        }],
    },
    Defect {
        name: "LastHeartbeatLost",
        breaks: "The last heartbeat before a failure is not recorded. Breaks P1.",
        edits: &[Edit {
            file: STEP,
            original: "            heartbeat::record(&mut self.step);\n",
            replacement: r#"            if !crate::defect::is_on("LastHeartbeatLost") {
                heartbeat::record(&mut self.step);
            }
"#,
        }],
    },
    Defect {
        name: "HeartbeatIsProgress",
        breaks: "A heartbeat counts as progress, which hides a crash loop. Breaks P7.",
        edits: &[Edit {
            file: COMMIT,
            original: "any(|entry| entry.kind != EntryKind::Heartbeat)",
            replacement: r#"any(|entry| entry.kind != EntryKind::Heartbeat || crate::defect::is_on("HeartbeatIsProgress"))"#,
        }],
    },
    Defect {
        name: "HeldAttemptUsedUp",
        breaks: "An attempt that a breaker or a budget holds back is used up. Breaks P2.",
        edits: &[Edit {
            file: GATE,
            original: "    state.held = None;\n",
            replacement: r#"    if state.held.take().is_some() && crate::defect::is_on("HeldAttemptUsedUp") {
        op.record.failed += 1;
    }
    let state = op.record.care.get_or_insert_default();
"#,
        }],
    },
];
