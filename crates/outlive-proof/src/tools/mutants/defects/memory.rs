//! Defects of the store in memory.

use super::{Defect, Edit};

const JOBS: &str = "crates/outlive-core/src/store/memory/jobs.rs";
const ROW: &str = "crates/outlive-core/src/store/memory/row.rs";
const ROWS: &str = "crates/outlive-core/src/store/memory/rows.rs";
const QUEUE: &str = "crates/outlive-core/src/queue.rs";

pub(super) const DEFECTS: &[Defect] = &[
    Defect {
        name: "CommitUnfenced",
        breaks: "A commit under a lost lease is accepted. Breaks P5.",
        edits: &[
            Edit {
                file: ROWS,
                original: "if self.lease != Some(commit.epoch) {",
                replacement: r#"if self.lease != Some(commit.epoch) && !crate::defect::is_on("CommitUnfenced") {"#,
            },
            Edit {
                file: JOBS,
                original: "if self.lease != Some(turn.epoch) {",
                replacement: r#"if self.lease != Some(turn.epoch) && !crate::defect::is_on("CommitUnfenced") {"#,
            },
        ],
    },
    Defect {
        name: "CommitUnnumbered",
        breaks: "A commit is accepted whatever its first sequence number is. Breaks P2.",
        edits: &[Edit {
            file: ROWS,
            original: "|| row.seq_last() != commit.seq_before ||",
            replacement: r#"|| (row.seq_last() != commit.seq_before && !crate::defect::is_on("CommitUnnumbered")) ||"#,
        }],
    },
    Defect {
        name: "CommitHalved",
        breaks: "The entries of a commit are stored but its state is not. Breaks P1.",
        edits: &[
            Edit {
                file: ROWS,
                original: r"Some(state) = &commit.state {
            row.enter(",
                replacement: r#"Some(state) = commit.state.as_ref().filter(|_| !crate::defect::is_on("CommitHalved")) {
            row.enter("#,
            },
            Edit {
                file: JOBS,
                original: "Some(state) = &turn.state {",
                replacement: r#"Some(state) = turn.state.as_ref().filter(|_| !crate::defect::is_on("CommitHalved")) {"#,
            },
        ],
    },
    Defect {
        name: "TakenMessageStays",
        breaks: "A message taken by a commit stays in the inbox. Breaks P4.",
        edits: &[
            Edit {
                file: ROW,
                original: "in &commit.taken {",
                replacement: r#"in commit.taken.iter().filter(|_| !crate::defect::is_on("TakenMessageStays")) {"#,
            },
            Edit {
                file: ROW,
                original: "in &turn.taken {",
                replacement: r#"in turn.taken.iter().filter(|_| !crate::defect::is_on("TakenMessageStays")) {"#,
            },
        ],
    },
    Defect {
        name: "MessageWakesNobody",
        breaks: "A message does not wake its receiver. Breaks P4.",
        edits: &[
            Edit {
                file: ROWS,
                original: "== Epoch(0) && !is_kept {",
                replacement: r#"== Epoch(0) && !is_kept && !crate::defect::is_on("MessageWakesNobody") {"#,
            },
            Edit {
                file: JOBS,
                original: "&& answer.reaches(num) {",
                replacement: r#"&& answer.reaches(num) && !crate::defect::is_on("MessageWakesNobody") {"#,
            },
        ],
    },
    Defect {
        name: "DedupIgnored",
        breaks: "Dedup keys are ignored. Breaks P4.",
        edits: &[
            Edit {
                file: ROWS,
                original: "if let Some(pos) = send.dedup.as_ref().and_then(|key| row.keys.get(key)) {",
                replacement: r#"let known = send.dedup.as_ref().and_then(|key| row.keys.get(key));
        if let Some(pos) = known.filter(|_| !crate::defect::is_on("DedupIgnored")) {"#,
            },
            Edit {
                file: ROW,
                original: "if self.keys.contains_key(key) {",
                replacement: r#"if self.keys.contains_key(key) && !crate::defect::is_on("DedupIgnored") {"#,
            },
        ],
    },
    Defect {
        name: "RepeatKeptTwice",
        breaks: "A message sent again after a lost reply is stored twice. Breaks P4.",
        edits: &[
            Edit {
                file: ROWS,
                original: "row.tokens.get(&send.token) {",
                replacement: r#"row.tokens.get(&send.token).filter(|_| !crate::defect::is_on("RepeatKeptTwice")) {"#,
            },
            Edit {
                file: JOBS,
                original: "self.pushed.get(&push.token) {",
                replacement: r#"self.pushed.get(&push.token).filter(|_| !crate::defect::is_on("RepeatKeptTwice")) {"#,
            },
        ],
    },
    Defect {
        name: "EndedTakesMessage",
        breaks: "A message to an ended run is accepted. Breaks P4.",
        edits: &[Edit {
            file: ROWS,
            original: "if status.is_ended() || (status",
            replacement: r#"if (status.is_ended() && !crate::defect::is_on("EndedTakesMessage")) || (status"#,
        }],
    },
    Defect {
        name: "PausePassesMessage",
        breaks: "A run pauses or ends despite a message it has not seen. Breaks P4.",
        edits: &[Edit {
            file: ROW,
            original: "!taken.contains(&inbound.pos));",
            replacement: r#"!taken.contains(&inbound.pos) && !crate::defect::is_on("PausePassesMessage"));"#,
        }],
    },
    Defect {
        name: "LeaseFreesNobody",
        breaks: "A new lease does not release the instances of the dead owner. Breaks P5.",
        edits: &[Edit {
            file: ROWS,
            original: "row.instance.owner != Epoch(0);",
            replacement: r#"row.instance.owner != Epoch(0) && !crate::defect::is_on("LeaseFreesNobody");"#,
        }],
    },
    Defect {
        name: "ClaimUnfenced",
        breaks: "A claim under a lost lease is accepted. Breaks P5.",
        edits: &[Edit {
            file: ROWS,
            original: "if self.lease != Some(claim.epoch) {",
            replacement: r#"if self.lease != Some(claim.epoch) && !crate::defect::is_on("ClaimUnfenced") {"#,
        }],
    },
    Defect {
        name: "ClaimOwnsNothing",
        breaks: "A claim does not record the new owner of the instance. Breaks P5.",
        edits: &[Edit {
            file: ROWS,
            original: "owner = claim.epoch;",
            replacement: r#"owner = if crate::defect::is_on("ClaimOwnsNothing") { Epoch(0) } else { claim.epoch };"#,
        }],
    },
    Defect {
        name: "ClaimBeforeDue",
        breaks: "An instance is claimed before its start is due. Breaks P6.",
        edits: &[Edit {
            file: ROWS,
            original: "|| row.instance.is_early(claim.at) {",
            replacement: r#"|| (row.instance.is_early(claim.at) && !crate::defect::is_on("ClaimBeforeDue")) {"#,
        }],
    },
    Defect {
        name: "ReopenForgets",
        breaks: "A retried run loses its journal. Breaks P2.",
        edits: &[Edit {
            file: ROWS,
            original: "let entry = Entry::reopened(row.seq_last() + 1,",
            replacement: r#"if crate::defect::is_on("ReopenForgets") {
            row.entries.clear();
        }
        let entry = Entry::reopened(row.seq_last() + 1,"#,
        }],
    },
    Defect {
        name: "ProgressUncounted",
        breaks: "A run that makes progress is still blamed for crashes. Breaks P7.",
        edits: &[
            Edit {
                file: ROW,
                original: "if commit.is_progress() {",
                replacement: r#"if commit.is_progress() && !crate::defect::is_on("ProgressUncounted") {"#,
            },
            Edit {
                file: ROW,
                original: "if !turn.lifecycle.is_empty() {",
                replacement: r#"if !turn.lifecycle.is_empty() && !crate::defect::is_on("ProgressUncounted") {"#,
            },
        ],
    },
    Defect {
        name: "TurnUnnumbered",
        breaks: "A turn of a job is accepted whatever the number of its last lifecycle event is. Breaks P2.",
        edits: &[Edit {
            file: JOBS,
            original: "|| reported != turn.before {",
            replacement: r#"|| (reported != turn.before && !crate::defect::is_on("TurnUnnumbered")) {"#,
        }],
    },
    Defect {
        name: "RefusedTurnSends",
        breaks: "The messages of a refused turn or commit are sent anyway. Breaks P1.",
        edits: &[Edit {
            file: ROWS,
            original: "(Some(against), whole) => {",
            replacement: r#"(Some(against), whole) => {
                let whole = whole.filter(|_| !crate::defect::is_on("RefusedTurnSends"));"#,
        }],
    },
    Defect {
        name: "DelayIgnored",
        breaks: "A delayed event is ready before its time. Breaks P6.",
        edits: &[Edit {
            file: JOBS,
            original: "let now = Spot::delayed_until(read.now);",
            replacement: r#"let now = if crate::defect::is_on("DelayIgnored") { Timestamp::MAX } else { read.now };
        let now = Spot::delayed_until(now);"#,
        }],
    },
    Defect {
        name: "LanesUnfair",
        breaks: "The lanes of a queue do not take turns: the first is emptied before the next. Breaks P4.",
        edits: &[Edit {
            file: QUEUE,
            original: "*nth += 1;",
            replacement: r#"*nth += u64::from(!crate::defect::is_on("LanesUnfair"));"#,
        }],
    },
];
