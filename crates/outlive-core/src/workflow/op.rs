//! Outstanding operations of a run, from call to consumption.

use std::sync::Arc;

use crate::failure::Failure;
use crate::id::Name;
use crate::output::QuestionKey;
use crate::time::Timestamp;

use super::care::HeldBack;
use super::identity::Identity;
use super::record::OpRecord;
use super::spec::{OpKind, Outcome, Spec, StepSpec};

/// An outstanding operation that the code has asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Its identity, under its old name if that is where the record was found.
    pub op: Arc<str>,
    /// Its identity under its current name, without the occurrence.
    pub base: Arc<str>,
    /// Its call site.
    pub site: Arc<str>,
    /// Its kind.
    pub kind: OpKind,
    /// Whether the journal has an entry about it.
    pub is_recorded: bool,
    /// Whether it is a wait with a timeout.
    pub has_timeout: bool,
    /// The current or next attempt of a step; 0 if it is not a step.
    pub attempt: u32,
    /// The signal or question that a wait expects.
    pub signal: Option<Name>,
    /// The id of the child whose outcome it waits for.
    pub child: Option<Name>,
    /// What holds back its next attempt.
    pub held: Option<HeldBack>,
}

impl Asked {
    pub(super) fn of(op: &Op) -> Self {
        let is_over = matches!(op.phase, OpPhase::Settled { .. } | OpPhase::Delivered { .. });
        let record = &op.record;
        let care = record.care.as_deref();
        let has_begun = record.started.is_some() || record.failed > 0 || record.due.is_some();
        let has_begun = has_begun || care.is_some_and(|care| care.progress.is_some());
        Self {
            op: op.key.clone(),
            base: op.identity.base.clone(),
            site: op.site.clone(),
            kind: op.kind,
            is_recorded: is_over || has_begun || record.falling_back.is_some(),
            has_timeout: matches!(op.spec, Some(Spec::Wait { timeout: Some(_), .. })),
            attempt: if op.kind.has_attempts() { record.failed.saturating_add(1) } else { 0 },
            signal: match &op.spec {
                Some(Spec::Wait { name, .. }) => Some(match QuestionKey::name_in(name.as_str()) {
                    Some(question) => Name::recorded(question),
                    None => name.clone(),
                }),
                _ => None,
            },
            child: match &op.spec {
                Some(Spec::Result(child)) => Some(Name::recorded(child.id())),
                _ => None,
            },
            held: care.and_then(|care| care.held.clone()),
        }
    }
}

/// The phase of an operation.
#[derive(Debug)]
pub(super) enum OpPhase {
    /// Called but never polled; it takes no part in anything yet.
    Called,
    /// Polled, but not begun in this process.
    Idle,
    /// Waiting for its start entry to become durable: the body may run once `seq` is.
    Starting { seq: u64, attempt: u32, started: Timestamp },
    /// The body is running or may run.
    Working { attempt: u32, started: Timestamp },
    /// The fallback is running or may run.
    FallingBack { attempt: u32, started: Timestamp, failure: Box<Failure> },
    /// Waiting for a timer: the next attempt of a step, or the end of a sleep or wait.
    Armed,
    /// A wait without a timeout.
    Listening,
    /// Has an outcome with a delivery number.
    Settled { seq: u64, at: Timestamp, outcome: Outcome },
    /// Its outcome is delivered but not consumed by user code.
    Delivered { seq: u64, outcome: Outcome },
    /// A patch that the run has passed with the old code. It is ready at once, as if it were not there.
    Passed,
    /// Can never become ready, because it made the run stuck.
    Refused,
}

/// One operation.
pub(super) struct Op {
    pub(super) identity: Identity,
    /// The identity as text, under the alias if that is where the record was found.
    pub(super) key: Arc<str>,
    pub(super) kind: OpKind,
    /// Whether the current attempt has appended something.
    pub(super) has_appended: bool,
    pub(super) site: Arc<str>,
    /// Other bases under which it may be recorded, in the order in which they are tried.
    pub(super) aliases: Vec<Arc<str>>,
    pub(super) spec: Option<Spec>,
    /// What the journal says about it, and what happened since.
    pub(super) record: OpRecord,
    pub(super) phase: OpPhase,
    /// Its time among the timers of the run, if it has one.
    pub(super) timer: Option<Timestamp>,
}

impl Op {
    pub(super) fn step_spec(&self) -> Option<&StepSpec> {
        match &self.spec {
            Some(Spec::Step(spec)) => Some(spec),
            _ => None,
        }
    }

    /// Returns when its attempt times out, if it is a step with one that is running, or about to.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let (OpPhase::Working { started, .. } | OpPhase::Starting { started, .. }) = self.phase else { return None };
        let spec = self.step_spec()?;
        let one = spec.attempt_timeout.map(|limit| started.after(limit));
        let all = spec.total_timeout.and_then(|limit| Some(self.record.first_started?.after(limit)));
        match (one, all) {
            (Some(one), Some(all)) => Some(one.min(all)),
            (one, all) => one.or(all),
        }
    }

    /// Returns `true` if its body may be running.
    pub(super) fn is_working(&self) -> bool {
        matches!(self.phase, OpPhase::Working { .. } | OpPhase::FallingBack { .. } | OpPhase::Starting { .. })
    }
}
