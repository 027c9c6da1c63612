//! Defects of the engine: what is written when, which runs are in memory, and when they wake.

use super::{Defect, Edit};

const COMMITTER: &str = "crates/outlive/src/runtime/committer.rs";
const CTX: &str = "crates/outlive/src/ctx.rs";
const DRIVE: &str = "crates/outlive/src/runtime/drivers/run.rs";
const HOST: &str = "crates/outlive/src/runtime/drivers/host.rs";
const OPERATIONS: &str = "crates/outlive-core/src/workflow/operations.rs";
const RESIDENCY: &str = "crates/outlive/src/runtime/residency.rs";
const TURNS: &str = "crates/outlive/src/runtime/drivers/turns.rs";
const WRITTEN: &str = "crates/outlive/src/runtime/worker/written.rs";

pub(super) const DEFECTS: &[Defect] = &[
    Defect {
        name: "AckBeforeWrite",
        breaks: "Entries are acknowledged as durable before they are written. Breaks P1.",
        edits: &[Edit {
            file: COMMITTER,
            original: "let (mut wait, mut is_again) = (RETRY_MIN, false);",
            replacement: r#"let (mut wait, mut is_again) = (RETRY_MIN, false);
        if outlive_core::defect::is_on("AckBeforeWrite") {
            for reply in &replies {
                if let WriteReply::Run { mailbox, seq, .. } = reply {
                    mailbox.post(|arrivals| arrivals.durable = arrivals.durable.max(*seq));
                }
            }
        }"#,
        }],
    },
    Defect {
        name: "UnknownIsDone",
        breaks: "A write with an unknown outcome counts as done. Breaks P1.",
        edits: &[Edit {
            file: COMMITTER,
            original: "Ok(answers) => answers,",
            replacement: r#"Ok(answers) => answers,
                Err(error) if error.kind == ErrorKind::Unknown && outlive_core::defect::is_on("UnknownIsDone") => {
                    vec![Answer::Done; writes.len()]
                }"#,
        }],
    },
    Defect {
        name: "UnknownIsRefused",
        breaks: "A write with an unknown outcome counts as not done. Breaks P5.",
        edits: &[Edit {
            file: COMMITTER,
            original: "Err(error) if error.kind == ErrorKind::Unknown || is_again => {",
            replacement: r#"Err(error)
                    if (error.kind == ErrorKind::Unknown && !outlive_core::defect::is_on("UnknownIsRefused"))
                        || is_again =>
                {"#,
        }],
    },
    Defect {
        name: "RefusedIsDropped",
        breaks: "A write the store could not accept is not retried. Breaks P1.",
        edits: &[Edit {
            file: COMMITTER,
            original: "kept_for @ (WriteReply::Run",
            replacement: r#"WriteReply::Run { .. } if outlive_core::defect::is_on("RefusedIsDropped") => {}
            kept_for @ (WriteReply::Run"#,
        }],
    },
    Defect {
        name: "RefusedIsReordered",
        breaks: "A write the store could not accept is retried after later writes. Breaks P1.",
        edits: &[Edit {
            file: COMMITTER,
            original: "let callers = self.lock().take_callers();",
            replacement: r#"let callers = {
            let mut queue = self.lock();
            if outlive_core::defect::is_on("RefusedIsReordered") {
                queue.batches.make_contiguous().reverse();
            }
            queue.take_callers()
        };"#,
        }],
    },
    Defect {
        name: "FencedIsDone",
        breaks: "A run treats a fenced commit as done. Breaks P5.",
        edits: &[Edit {
            file: COMMITTER,
            original: "_ => arrivals.is_fenced = true,",
            replacement: r#"_ if outlive_core::defect::is_on("FencedIsDone") => {
                        arrivals.durable = arrivals.durable.max(seq);
                        arrivals.rare().answers.extend(has_state.then_some(Answer::Done));
                    }
                    _ => arrivals.is_fenced = true,"#,
        }],
    },
    Defect {
        name: "EndPassesMessage",
        breaks: "A run ends despite a message it has not seen. Breaks P4.",
        edits: &[Edit {
            file: DRIVE,
            original: "seen: Some(self.resident.lock().machine.inbox().seen()),",
            replacement: r#"seen: Some(self.resident.lock().machine.inbox().seen())
                .filter(|_| !outlive_core::defect::is_on("EndPassesMessage")),"#,
        }],
    },
    Defect {
        name: "LastCancelDropped",
        breaks: "A cancel that is pending when the code ends is not taken. Breaks P4.",
        edits: &[Edit {
            file: DRIVE,
            original: "            state.machine.take_controls(self.resident.now());",
            replacement: r#"            if !outlive_core::defect::is_on("LastCancelDropped") {
                state.machine.take_controls(self.resident.now());
            }"#,
        }],
    },
    Defect {
        name: "GapIgnored",
        breaks: "A message is taken although an earlier one is missing. Breaks P4.",
        edits: &[
            Edit {
                file: DRIVE,
                original: "state.machine.inbox().has_received(before);",
                replacement: r#"state.machine.inbox().has_received(before)
                    && !outlive_core::defect::is_on("GapIgnored");"#,
            },
            Edit {
                file: TURNS,
                original: "!self.has_received(before);",
                replacement: r#"!self.has_received(before) && !outlive_core::defect::is_on("GapIgnored");"#,
            },
        ],
    },
    Defect {
        name: "WakeForgotten",
        breaks: "The wake of a paused run is forgotten. Breaks P6.",
        edits: &[Edit {
            file: HOST,
            original: "self.wakes.add_stored(wake, resident.info.num);",
            replacement: r#"if !outlive_core::defect::is_on("WakeForgotten") {
            self.wakes.add_stored(wake, resident.info.num);
        }"#,
        }],
    },
    Defect {
        name: "TimerUnset",
        breaks: "The timer of a run with a running step body is not set. Breaks P6.",
        edits: &[Edit {
            file: HOST,
            original: "self.wakes.add(due, resident.info.num);",
            replacement: r#"if !outlive_core::defect::is_on("TimerUnset") {
            self.wakes.add(due, resident.info.num);
        }"#,
        }],
    },
    Defect {
        name: "BroughtInTwice",
        breaks: "A claimed run that is already resident is loaded a second time. Breaks P5.",
        edits: &[Edit {
            file: WRITTEN,
            original: "if let Some(mailbox) = self.services.residency.mailbox(num) {",
            replacement: r#"let resident = self.services.residency.mailbox(num);
            if let Some(mailbox) = resident.filter(|_| !outlive_core::defect::is_on("BroughtInTwice")) {"#,
        }],
    },
    Defect {
        name: "DrivenUnleased",
        breaks: "An engine drives a run that it started after losing its lease. Breaks P5.",
        edits: &[Edit {
            file: WRITTEN,
            original: "if !is_driven {",
            replacement: r#"if !is_driven && !outlive_core::defect::is_on("DrivenUnleased") {"#,
        }],
    },
    Defect {
        name: "EvictedAtWork",
        breaks: "A run leaves memory while one of its step bodies is running. Breaks P2.",
        edits: &[
            Edit {
                file: DRIVE,
                original: "RunPhase::Running => self.go_on(),",
                replacement: r#"RunPhase::Running if self.is_leaving && outlive_core::defect::is_on("EvictedAtWork") => {
                return self.leave();
            }
            RunPhase::Running => self.go_on(),"#,
            },
            Edit {
                file: RESIDENCY,
                original: "let Some(num) = inner.paused.values().next().copied()",
                replacement: r#"let is_on = outlive_core::defect::is_on("EvictedAtWork");
            let working = || inner.residents.keys().min().filter(|_| is_on);
            let Some(num) = inner.paused.values().next().or_else(working).copied()"#,
            },
        ],
    },
    Defect {
        name: "PausedAtWork",
        breaks: "A run pauses while one of its step bodies is running. Breaks P2.",
        edits: &[Edit {
            file: OPERATIONS,
            original: "self.table.working() == 0 && self",
            replacement: r#"(self.table.working() == 0 || crate::defect::is_on("PausedAtWork")) && self"#,
        }],
    },
    Defect {
        name: "RandomUnseeded",
        breaks: "The random numbers of a run do not come from its seed. Breaks P3.",
        edits: &[Edit {
            file: CTX,
            original: "let stream = text.fold(self.resident.info.seed, |sum",
            replacement: r#"let seed = match outlive_core::defect::is_on("RandomUnseeded") {
            true => self.resident.address() as u64,
            false => self.resident.info.seed,
        };
        let stream = text.fold(seed, |sum"#,
        }],
    },
    Defect {
        name: "TimeUnrecorded",
        breaks: "A run sees the clock of the machine instead of the time of its last delivery. Breaks P3.",
        edits: &[Edit {
            file: CTX,
            original: "self.resident.lock().machine.now()",
            replacement: r#"match outlive_core::defect::is_on("TimeUnrecorded") {
            true => self.resident.now(),
            false => self.resident.lock().machine.now(),
        }"#,
        }],
    },
];
