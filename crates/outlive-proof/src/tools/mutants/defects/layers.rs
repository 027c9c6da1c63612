//! Defects of layers and of what is known about the origin of a run.

use super::{Defect, Edit};

const LAYERS: &str = "crates/outlive/src/instance/layers.rs";
const START: &str = "crates/outlive-sqlite/src/write/start.rs";

pub(super) const DEFECTS: &[Defect] = &[
    Defect {
        name: "RefusalIgnored",
        breaks: "A layer that refuses an attempt after its body has run does not fail it. Breaks P2: what is recorded is not what was returned.",
        edits: &[Edit {
            file: LAYERS,
            original: "        (Ok(()), Some(outcome)) => outcome,\n",
            replacement: r#"        (Ok(()), Some(outcome)) => outcome,
        (Err(_), Some(Ok(payload))) if outlive_core::defect::is_on("RefusalIgnored") => Ok(payload),
"#,
        }],
    },
    Defect {
        name: "VersionNotKept",
        breaks: "The version and the trace of a run are not stored, though they are part of its checksum. Breaks P1.",
        edits: &[Edit {
            file: START,
            original: "    if let Some(origin) = &start.origin {\n",
            replacement: r#"    if let Some(origin) = start.origin.as_ref().filter(|_| !outlive_core::defect::is_on("VersionNotKept")) {
"#,
        }],
    },
];
