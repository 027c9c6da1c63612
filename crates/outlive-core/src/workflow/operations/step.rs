//! Step attempts: starting, resuming, retrying, timing out and falling back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde::Serialize;

use crate::failure::{self, Cause, Failure};
use crate::journal::EntryKind;
use crate::payload::Payload;
use crate::retry::{AttemptEnd, Reason, Retry, RetryNext};
use crate::time::Timestamp;
use crate::workflow::op::{Op, OpPhase};
use crate::workflow::spec::{FailedStep, Outcome, StepEnding, StepSpec};
use crate::workflow::{StepAttempt, record};

use super::cursor::OpCursor;
use super::{gate, heartbeat};

/// How the delay until a retry came about. Recorded for lifecycle events only; replay does not need it.
#[derive(Serialize)]
struct AttemptPlan {
    base_delay_ms: u64,
    backoff: &'static str,
    jitter: &'static str,
}

impl AttemptPlan {
    fn new(retry: &Retry, base: Duration) -> Self {
        let base_delay_ms = u64::try_from(base.as_millis()).unwrap_or(u64::MAX);
        Self { base_delay_ms, backoff: retry.backoff_kind(), jitter: retry.jitter_kind() }
    }
}

/// The attempts of one step.
pub(super) struct StepAttempts<'a> {
    step: OpCursor<'a>,
}

/// Returns the current attempt of a step whose body may run.
#[inline]
pub(super) fn current(op: &Op) -> Option<StepAttempt> {
    match &op.phase {
        OpPhase::Working { attempt, .. } => {
            Some(StepAttempt { number: *attempt, deadline: op.deadline(), fallback_for: None })
        }
        OpPhase::FallingBack { attempt, failure, .. } => {
            Some(StepAttempt { number: *attempt, deadline: None, fallback_for: Some(failure.clone()) })
        }
        _ => None,
    }
}

impl<'a> StepAttempts<'a> {
    pub(super) fn of(step: OpCursor<'a>) -> Self {
        Self { step }
    }

    /// Reports the result of an attempt or of the fallback. A result that comes too late to count is ignored.
    #[inline]
    pub(super) fn finish(&mut self, result: Result<Payload, Failure>) {
        let Some(op) = self.step.get() else { return };
        match (&op.phase, result) {
            (&(OpPhase::Working { attempt, .. } | OpPhase::FallingBack { attempt, .. }), Ok(value)) => {
                if op.record.care.is_some() {
                    gate::ended(&mut self.step, attempt, AttemptEnd::Answered);
                }
                self.step.settle(EntryKind::StepDone, Outcome::Value(value));
            }
            (OpPhase::Working { attempt, .. }, Err(failure)) => self.failed(*attempt, failure),
            (OpPhase::FallingBack { attempt, .. }, Err(failure)) => {
                let failed = FailedStep { ended: StepEnding::Error, attempts: *attempt, failure };
                self.step.settle(EntryKind::StepFailed, Outcome::Failed(failed.into()));
            }
            _ => {}
        }
    }

    /// Begins a step where its record left off.
    #[inline]
    pub(super) fn begin(&mut self) {
        let now = self.step.now;
        let Some((op, spec)) = self.step.get().and_then(|op| Some((op, op.step_spec()?.clone()))) else { return };
        let record = &op.record;
        let next = record.failed.saturating_add(1);
        if let Some(failure) = record.falling_back.clone() {
            if !spec.has_fallback {
                // A deploy removed the fallback, so the step has failed.
                let failed = FailedStep { ended: StepEnding::Error, attempts: record.failed, failure: *failure };
                return self.step.settle(EntryKind::StepFailed, Outcome::Failed(failed.into()));
            }
            let phase = OpPhase::FallingBack { attempt: record.failed, started: now, failure };
            return self.work(phase);
        }
        match record.started {
            // The attempt was running when the process ended.
            Some((attempt, started)) if attempt == next => {
                self.step.set_phase(OpPhase::Working { attempt, started });
                self.resume(&spec);
            }
            _ => match record.due {
                // Even if it is overdue: timers that are due earlier fire first.
                Some(due) => self.arm_retry(due),
                None if self.total_deadline().is_some_and(|end| end <= now) => self.time_is_up(),
                None => self.start_next(),
            },
        }
    }

    /// Starts the next attempt, unless the maximum duration of the retry policy has passed.
    fn start_next(&mut self) {
        let Some(op) = self.step.get() else { return };
        let budget = op.step_spec().and_then(|spec| spec.retry.as_ref()?.duration_max());
        let end = budget.and_then(|budget| Some(op.record.first_started?.after(budget)));
        match (&op.record.last, end) {
            (Some(last), Some(end)) if end < self.step.now => {
                let (attempts, failure) = (op.record.failed, last.clone());
                let ended = StepEnding::Exhausted(Reason::MaxDuration);
                self.give_up(FailedStep { ended, attempts, failure: *failure });
            }
            _ => self.start(),
        }
    }

    /// Resumes an attempt that an earlier process began. Its timeout keeps running, and an at-most-once step is not run
    /// again.
    fn resume(&mut self, spec: &StepSpec) {
        let Some(attempt) = self.step.get().and_then(current) else { return };
        if spec.is_at_most_once {
            let message = "the process ended while this step ran; it may or may not have taken effect";
            let failure = Failure::new(Cause::Interrupted, message).permanent();
            return self.failed(attempt.number, failure);
        }
        heartbeat::begin(&mut self.step);
        heartbeat::set_timer(&mut self.step);
        if attempt.deadline.is_none_or(|deadline| deadline > self.step.now) {
            return self.step.wake();
        }
        // It has already timed out. It ends after timers that were due earlier, and no body runs until then.
        if let Some(&OpPhase::Working { attempt, started }) = self.step.get().map(|op| &op.phase) {
            self.step.set_phase(OpPhase::Starting { seq: u64::MAX, attempt, started });
        }
    }

    fn start(&mut self) {
        let now = self.step.now;
        let next = self.step.get().map_or(1, |op| op.record.failed.saturating_add(1));
        if let Err(until) = gate::admit(&mut self.step, next) {
            return self.arm_retry(until);
        }
        let Some(op) = self.step.get_mut() else { return };
        op.record.first_started.get_or_insert(now);
        op.record.due = None;
        let attempt = op.record.failed.saturating_add(1);
        let Some(spec) = op.step_spec() else { return };
        let (needs_start, is_at_most_once) = (spec.needs_start(), spec.is_at_most_once);
        self.step.set_phase(OpPhase::Working { attempt, started: now });
        if needs_start {
            self.step.push(EntryKind::StepStarted, |_| {});
        }
        heartbeat::begin(&mut self.step);
        heartbeat::set_timer(&mut self.step);
        if is_at_most_once {
            let seq = self.step.ops.recorder.seq();
            self.step.set_phase(OpPhase::Starting { seq, attempt, started: now });
            self.step.ops.starting.push(self.step.slot);
        } else {
            self.step.wake();
        }
    }

    fn work(&mut self, phase: OpPhase) {
        self.step.set_phase(phase);
        self.step.wake();
    }

    /// Handles the step's timer: the next attempt is due, or the current one timed out.
    pub(super) fn due(&mut self) {
        match self.step.get().map(|op| &op.phase) {
            Some(OpPhase::Armed) => match self.total_deadline() {
                Some(end) if end <= self.step.now => self.time_is_up(),
                _ => self.start_next(),
            },
            Some(OpPhase::Working { .. } | OpPhase::Starting { .. }) => self.attempt_due(),
            _ => {}
        }
    }

    /// Handles the timer of a running attempt: it timed out, was silent for too long, or has a heartbeat to record.
    fn attempt_due(&mut self) {
        let Some(op) = self.step.get() else { return };
        if op.deadline().is_some_and(|end| end <= self.step.now) {
            return self.time_is_up();
        }
        match op.phase {
            // It has no body yet that could be silent. A timer that is due at once again would be due for ever.
            OpPhase::Starting { .. } => {
                heartbeat::begin(&mut self.step);
                if self.step.get().and_then(heartbeat::due).is_none_or(|due| due <= self.step.now) {
                    return;
                }
            }
            OpPhase::Working { attempt, .. } => {
                if let Some(silence) = heartbeat::silence(&self.step) {
                    self.step.drop_body();
                    return self.failed(attempt, silence);
                }
                heartbeat::record_due(&mut self.step);
            }
            _ => return,
        }
        heartbeat::set_timer(&mut self.step);
    }

    fn total_deadline(&self) -> Option<Timestamp> {
        let op = self.step.get()?;
        Some(op.record.first_started?.after(op.step_spec()?.total_timeout?))
    }

    /// Ends the attempt, or the whole step, because a timeout has passed.
    fn time_is_up(&mut self) {
        let now = self.step.now;
        let Some(op) = self.step.get() else { return };
        let Some(spec) = op.step_spec() else { return };
        let (attempt, started) = match op.phase {
            OpPhase::Working { attempt, started, .. } | OpPhase::Starting { attempt, started, .. } => {
                (attempt, started)
            }
            _ => (op.record.failed, now),
        };
        let is_total = self.total_deadline().is_some_and(|end| end <= now);
        let (limit, began) = match is_total {
            true => (spec.total_timeout, op.record.first_started.unwrap_or(started)),
            false => (spec.attempt_timeout, started),
        };
        let failure = Failure::timed_out(limit.unwrap_or(Duration::ZERO), now.since(began));
        self.step.drop_body();
        if is_total {
            self.ended(attempt, AttemptEnd::Failed);
            return self.give_up(FailedStep { ended: StepEnding::Timeout, attempts: attempt, failure });
        }
        self.failed(attempt, failure);
    }

    /// Handles a failed attempt: schedules a retry or fails the step.
    fn failed(&mut self, attempt: u32, failure: Failure) {
        let now = self.step.now;
        // An error that another attempt would not change is an answer: what was called is well.
        self.ended(attempt, if failure.retryable { AttemptEnd::Failed } else { AttemptEnd::Answered });
        let Some(op) = self.step.get() else { return };
        let Some(spec) = op.step_spec().cloned() else { return };
        let first = op.record.first_started.unwrap_or(now);
        let seed = self.step.ops.seed ^ fold(&op.key);
        let ended = match (&failure.cause, &spec.retry) {
            (Cause::Interrupted, _) => StepEnding::Interrupted,
            (_, Some(retry)) if failure.retryable => match next_of(retry, attempt, first, now, seed) {
                Ok((RetryNext::RetryAt { due, .. }, base)) => {
                    let plan = AttemptPlan::new(retry, base);
                    return self.schedule_retry(attempt, (&failure, &plan), due);
                }
                Ok((RetryNext::Exhausted(reason), _)) => StepEnding::Exhausted(reason),
                Err(panic) => {
                    let key = &op.key;
                    let sentence = format!("the backoff of {key} panicked: {panic}; fix it and restart the program");
                    return self.step.ops.fail(sentence);
                }
            },
            (Cause::Timeout, _) => StepEnding::Timeout,
            _ => StepEnding::Error,
        };
        self.give_up(FailedStep { ended, attempts: attempt, failure });
    }

    /// Does what is left to do for an attempt that has failed: its last heartbeat, and its breaker.
    fn ended(&mut self, attempt: u32, end: AttemptEnd) {
        if self.step.get().is_some_and(|op| op.record.care.is_some()) {
            heartbeat::record(&mut self.step);
            gate::ended(&mut self.step, attempt, end);
        }
    }

    fn schedule_retry(&mut self, attempt: u32, (failure, plan): (&Failure, &AttemptPlan), due: Timestamp) {
        self.step.push(EntryKind::AttemptFailed, |entry| {
            entry.attempt = attempt;
            entry.due = Some(due);
            entry.payload = Some(failure::with_note(failure, "retry", plan));
        });
        if let Some(op) = self.step.get_mut() {
            op.record.failed = attempt;
            op.record.last = Some(failure.clone().into());
            op.record.due = Some(due);
        }
        self.arm_retry(due);
    }

    /// Sets the timer for the next attempt, or for the total timeout if that comes first.
    fn arm_retry(&mut self, due: Timestamp) {
        let end = self.total_deadline().unwrap_or(Timestamp::MAX);
        self.step.arm(due.min(end));
    }

    /// Fails the step for good, or runs its fallback if it has one.
    fn give_up(&mut self, failed: FailedStep) {
        let has_fallback = self.step.get().and_then(|op| op.step_spec()).is_some_and(|spec| spec.has_fallback);
        self.step.clear_timer();
        if !has_fallback {
            return self.step.settle(EntryKind::StepFailed, Outcome::Failed(failed.into()));
        }
        let attempt = failed.attempts;
        self.step.push(EntryKind::FallingBack, |entry| {
            entry.attempt = attempt;
            entry.payload = Some(failure::with_note(&failed.failure, "ended", record::ended_to(failed.ended)));
        });
        self.work(OpPhase::FallingBack { attempt, started: self.step.now, failure: failed.failure.into() });
    }
}

/// Asks the retry policy what is next. A custom backoff is user code and may panic.
fn next_of(
    retry: &Retry,
    failed: u32,
    first: Timestamp,
    now: Timestamp,
    seed: u64,
) -> Result<(RetryNext, Duration), String> {
    let both = || (retry.next(failed, first, now, seed), retry.base_delay(failed));
    let next = catch_unwind(AssertUnwindSafe(both));
    next.map_err(|panic| match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a message".to_owned(),
    })
}

/// Hashes a text (FNV-1a, 64 bit), so that each step has its own stream of jitter.
fn fold(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
