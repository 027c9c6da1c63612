//! Defects of the machine: what a run is given, in which order, and what is on record.

use super::{Defect, Edit};

const MACHINE: &str = "crates/outlive-core/src/workflow.rs";
const DELIVERIES: &str = "crates/outlive-core/src/workflow/deliveries.rs";
const IDENTITY: &str = "crates/outlive-core/src/workflow/identity.rs";
const INBOX: &str = "crates/outlive-core/src/workflow/inbox.rs";
const OPERATIONS: &str = "crates/outlive-core/src/workflow/operations.rs";
const OP_SLEEP: &str = "crates/outlive-core/src/workflow/operations/sleep.rs";
const OP_STEP: &str = "crates/outlive-core/src/workflow/operations/step.rs";
const OP_TABLE: &str = "crates/outlive-core/src/workflow/operations/table.rs";
const OP_WAIT: &str = "crates/outlive-core/src/workflow/operations/wait.rs";
const RECORD: &str = "crates/outlive-core/src/workflow/record.rs";
const SIGNALS: &str = "crates/outlive-core/src/workflow/signals.rs";
const STEP: &str = "crates/outlive/src/ctx/step.rs";
const USER: &str = "crates/outlive/src/runtime/drivers/run/user.rs";

pub(super) const DEFECTS: &[Defect] = &[
    Defect {
        name: "DeliverTwo",
        breaks: "All available outcomes are delivered in one poll. Breaks P3.",
        edits: &[
            Edit {
                file: OPERATIONS,
                original: "op.phase = OpPhase::Delivered { seq, outcome };",
                replacement: r#"op.phase = OpPhase::Delivered { seq, outcome };
        if crate::defect::is_on("DeliverTwo") {
            let more = self.deliver();
            self.wakes.extend(more.map(|(slot, _)| slot));
        }"#,
            },
            Edit {
                file: DELIVERIES,
                original: "let is_turn = self.current == Some(slot)",
                replacement: r#"let is_turn = self.current == Some(slot) || crate::defect::is_on("DeliverTwo")"#,
            },
        ],
    },
    Defect {
        name: "ReadyBesides",
        breaks: "An operation is ready although another one is current. Breaks P3.",
        edits: &[Edit {
            file: DELIVERIES,
            original: "let is_turn = self.current == Some(slot)",
            replacement: r#"let is_turn = self.current == Some(slot) || crate::defect::is_on("ReadyBesides")"#,
        }],
    },
    Defect {
        name: "NumberAtArrival",
        breaks: "Outcomes are numbered on arrival but delivered in another order. Breaks P3.",
        edits: &[Edit {
            file: DELIVERIES,
            original: "_ => self.queue.len(),",
            replacement: r#"_ if crate::defect::is_on("NumberAtArrival") => 0,
            _ => self.queue.len(),"#,
        }],
    },
    Defect {
        name: "ReplayAsAsked",
        breaks: "A replay delivers in call order instead of journal order. Breaks P3.",
        edits: &[Edit {
            file: DELIVERIES,
            original: "if *last > seq =>",
            replacement: r#"if *last > seq && !crate::defect::is_on("ReplayAsAsked") =>"#,
        }],
    },
    Defect {
        name: "PollsUncounted",
        breaks: "Polls that a replay does not make are not made up for, \
                 so that a join begins with another branch. Breaks P3.",
        edits: &[Edit {
            file: USER,
            original: "if state.is_sequential(&self.run_waker, &self.waker) {",
            replacement: r#"if state.is_sequential(&self.run_waker, &self.waker)
                || outlive_core::defect::is_on("PollsUncounted")
            {"#,
        }],
    },
    Defect {
        name: "BodyBeforeFrontier",
        breaks: "A step body starts in the middle of a replay. Breaks P3.",
        edits: &[Edit {
            file: MACHINE,
            original: "self.ops.deliveries.are_consumed()",
            replacement: r#"crate::defect::is_on("BodyBeforeFrontier") || self.ops.deliveries.are_consumed()"#,
        }],
    },
    Defect {
        name: "DeliverUndurable",
        breaks: "An outcome is delivered before it is durable. Breaks P1.",
        edits: &[Edit {
            file: DELIVERIES,
            original: ".filter(|(seq, _)| *seq <= durable)?",
            replacement: r#".filter(|(seq, _)| *seq <= durable || crate::defect::is_on("DeliverUndurable"))?"#,
        }],
    },
    Defect {
        name: "RecordIgnored",
        breaks: "The recorded outcome of a step is ignored. Breaks P2.",
        edits: &[Edit {
            file: MACHINE,
            original: "= record.unwrap_or_default();",
            replacement: r#"= record.filter(|_| !crate::defect::is_on("RecordIgnored")).unwrap_or_default();"#,
        }],
    },
    Defect {
        name: "FailureForgotten",
        breaks: "A replay forgets the failure of a step. Breaks P2.",
        edits: &[Edit {
            file: RECORD,
            original: "EntryKind::StepFailed => Outcome",
            replacement: r#"EntryKind::StepFailed if crate::defect::is_on("FailureForgotten") => return Ok(()),
            EntryKind::StepFailed => Outcome"#,
        }],
    },
    Defect {
        name: "FallbackForgotten",
        breaks: "A replay forgets that the fallback was taken. Breaks P2.",
        edits: &[Edit {
            file: RECORD,
            original: "EntryKind::FallingBack => {",
            replacement: r#"EntryKind::FallingBack if crate::defect::is_on("FallbackForgotten") => return Ok(()),
            EntryKind::FallingBack => {"#,
        }],
    },
    Defect {
        name: "AttemptsUncounted",
        breaks: "Failed attempts are not counted: every attempt is the first. Breaks P2.",
        edits: &[Edit {
            file: OP_STEP,
            original: "op.record.failed = attempt;",
            replacement: r#"op.record.failed = if crate::defect::is_on("AttemptsUncounted") { 0 } else { attempt };"#,
        }],
    },
    Defect {
        name: "OccurrencesShared",
        breaks: "All calls with the same name share one record and one key. Breaks P2.",
        edits: &[Edit {
            file: IDENTITY,
            original: "n => scratch::text(",
            replacement: r#"_ if crate::defect::is_on("OccurrencesShared") => base.clone(),
        n => scratch::text("#,
        }],
    },
    Defect {
        name: "KeyShared",
        breaks: "The idempotency key of an attempt is the key of the run. Breaks P2.",
        edits: &[Edit {
            file: STEP,
            original: "let key = operation.slot().and_then(|slot| operation",
            replacement: r#"let slot = operation.slot().filter(|_| !outlive_core::defect::is_on("KeyShared"));
    let key = slot.and_then(|slot| operation"#,
        }],
    },
    Defect {
        name: "OnceUnrecorded",
        breaks: "An at-most-once step starts before its start is durable. Breaks P2.",
        edits: &[Edit {
            file: OP_STEP,
            original: "if is_at_most_once {",
            replacement: r#"if is_at_most_once && !crate::defect::is_on("OnceUnrecorded") {"#,
        }],
    },
    Defect {
        name: "OnceResumed",
        breaks: "An at-most-once step is resumed like any other step. Breaks P2.",
        edits: &[Edit {
            file: OP_STEP,
            original: "if spec.is_at_most_once {",
            replacement: r#"if spec.is_at_most_once && !crate::defect::is_on("OnceResumed") {"#,
        }],
    },
    Defect {
        name: "SleepRearmed",
        breaks: "A sleep starts over after a restart. Breaks P6.",
        edits: &[Edit {
            file: OP_SLEEP,
            original: "let recorded = sleep.get().and_then(|op| op.record.due);",
            replacement: r#"let recorded = sleep.get().and_then(|op| op.record.due);
    let recorded = recorded.filter(|_| !crate::defect::is_on("SleepRearmed"));"#,
        }],
    },
    Defect {
        name: "WaitRearmed",
        breaks: "The timeout of a wait starts over after a restart. Breaks P6.",
        edits: &[Edit {
            file: OP_WAIT,
            original: "let recorded = wait.get().and_then(|op| op.record.due);",
            replacement: r#"let recorded = wait.get().and_then(|op| op.record.due);
    let recorded = recorded.filter(|_| !crate::defect::is_on("WaitRearmed"));"#,
        }],
    },
    Defect {
        name: "TimeoutRearmed",
        breaks: "The timeout of an attempt starts over after a restart. Breaks P6.",
        edits: &[Edit {
            file: OP_STEP,
            original: "Some((attempt, started)) if attempt == next => {",
            replacement: r#"Some((attempt, started)) if attempt == next => {
                let started = if crate::defect::is_on("TimeoutRearmed") { now } else { started };"#,
        }],
    },
    Defect {
        name: "RetryEarly",
        breaks: "A retry runs immediately after a restart, whenever it was due. Breaks P6.",
        edits: &[Edit {
            file: OP_STEP,
            original: "_ => match record.due {",
            replacement: r#"_ => match record.due.filter(|_| !crate::defect::is_on("RetryEarly")) {"#,
        }],
    },
    Defect {
        name: "TimerEarly",
        breaks: "Timers fire a second early. Breaks P6.",
        edits: &[Edit {
            file: OP_TABLE,
            original: "let &(due, slot) = self.timers",
            replacement: r#"let now = match crate::defect::is_on("TimerEarly") {
            true => now.after(std::time::Duration::from_secs(1)),
            false => now,
        };
        let &(due, slot) = self.timers"#,
        }],
    },
    Defect {
        name: "SignalNotGivenBack",
        breaks: "A signal taken by a wait that lost its race is lost. Breaks P4.",
        edits: &[Edit {
            file: OPERATIONS,
            original: "signals.give_back(name, *pos, *seq, payload.clone());",
            replacement: r#"if !crate::defect::is_on("SignalNotGivenBack") {
                    signals.give_back(name, *pos, *seq, payload.clone());
                }"#,
        }],
    },
    Defect {
        name: "SignalsLastFirst",
        breaks: "The newest signal of a name is consumed first. Breaks P4.",
        edits: &[
            Edit {
                file: SIGNALS,
                original: "self.free.get(name)?.front().map(",
                replacement: r#"let queue = self.free.get(name)?;
        let first = if crate::defect::is_on("SignalsLastFirst") { queue.back() } else { queue.front() };
        first.map("#,
            },
            Edit {
                file: SIGNALS,
                original: "let taken = queue.pop_front();",
                replacement: r#"let taken =
            if crate::defect::is_on("SignalsLastFirst") { queue.pop_back() } else { queue.pop_front() };"#,
            },
        ],
    },
    Defect {
        name: "MessageTwice",
        breaks: "A message received twice counts twice. Breaks P4.",
        edits: &[Edit {
            file: INBOX,
            original: "if inbound.pos <= self.seen || !self.received.insert(inbound.pos) {",
            replacement: r#"if (inbound.pos <= self.seen || !self.received.insert(inbound.pos))
            && !crate::defect::is_on("MessageTwice")
        {"#,
        }],
    },
    Defect {
        name: "CancelForgotten",
        breaks: "A replay forgets an accepted cancel. Breaks P3.",
        edits: &[Edit {
            file: MACHINE,
            original: "if let Some(reason) = records.cancel.take() {",
            replacement: r#"let cancel = records.cancel.take();
        if let Some(reason) = cancel.filter(|_| !crate::defect::is_on("CancelForgotten")) {"#,
        }],
    },
];
