//! Step attempts: starting, resuming, retrying, timing out and falling back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde::Serialize;

use crate::failure::{self, Cause, Failure};
use crate::journal::EntryKind;
use crate::payload::Payload;
use crate::retry::{Reason, Retry, RetryNext};
use crate::time::Timestamp;

use super::op::OpPhase;
use super::spec::{FailedStep, Outcome, StepEnding, StepSpec};
use super::{Machine, Slot, StepAttempt, record};

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

impl Machine {
    /// Returns the current attempt of a step whose body may run.
    pub(super) fn attempt(&self, slot: Slot) -> Option<StepAttempt> {
        let op = self.ops.get(slot)?;
        match &op.phase {
            OpPhase::Working { attempt, started } => {
                let deadline = op.step_spec().and_then(|spec| deadline(spec, *started, op.record.first_started));
                Some(StepAttempt { number: *attempt, deadline, fallback_for: None })
            }
            OpPhase::FallingBack { attempt, failure, .. } => {
                Some(StepAttempt { number: *attempt, deadline: None, fallback_for: Some(failure.clone()) })
            }
            _ => None,
        }
    }

    /// Reports the result of an attempt or of the fallback. A result that comes too late to count is ignored.
    pub fn finish(&mut self, slot: Slot, result: Result<Payload, Failure>, now: Timestamp) {
        let Some(op) = self.ops.get(slot) else { return };
        match (&op.phase, result) {
            (OpPhase::Working { .. } | OpPhase::FallingBack { .. }, Ok(value)) => {
                self.settle(slot, EntryKind::StepDone, Outcome::Value(value), now);
            }
            (OpPhase::Working { attempt, .. }, Err(failure)) => self.attempt_failed(slot, *attempt, failure, now),
            (OpPhase::FallingBack { attempt, .. }, Err(failure)) => {
                let failed = FailedStep { ended: StepEnding::Error, attempts: *attempt, failure };
                self.settle(slot, EntryKind::StepFailed, Outcome::Failed(failed.into()), now);
            }
            _ => {}
        }
    }

    /// Begins a step where its record left off.
    pub(super) fn begin_step(&mut self, slot: Slot, now: Timestamp) {
        let Some((op, spec)) = self.ops.get(slot).and_then(|op| Some((op, op.step_spec()?.clone()))) else { return };
        let record = &op.record;
        let next = record.failed.saturating_add(1);
        if let Some(failure) = record.falling_back.clone() {
            if !spec.has_fallback {
                // A deploy removed the fallback, so the step has failed.
                let failed = FailedStep { ended: StepEnding::Error, attempts: record.failed, failure: *failure };
                return self.settle(slot, EntryKind::StepFailed, Outcome::Failed(failed.into()), now);
            }
            let phase = OpPhase::FallingBack { attempt: record.failed, started: now, failure };
            return self.work(slot, phase);
        }
        match record.started {
            // The attempt was running when the process ended.
            Some((attempt, started)) if attempt == next => {
                self.ops.set_phase(slot, OpPhase::Working { attempt, started });
                self.resume_attempt(slot, &spec, now);
            }
            _ => match record.due {
                // Even if it is overdue: timers that are due earlier fire first.
                Some(due) => self.arm_retry(slot, due),
                None if self.total_deadline(slot).is_some_and(|end| end <= now) => self.time_is_up(slot, now),
                None => self.start_next(slot, now),
            },
        }
    }

    /// Starts the next attempt, unless the maximum duration of the retry policy has passed.
    fn start_next(&mut self, slot: Slot, now: Timestamp) {
        let Some(op) = self.ops.get(slot) else { return };
        let budget = op.step_spec().and_then(|spec| spec.retry.as_ref()?.duration_max());
        let end = budget.and_then(|budget| Some(op.record.first_started?.after(budget)));
        match (&op.record.last, end) {
            (Some(last), Some(end)) if end < now => {
                let (attempts, failure) = (op.record.failed, last.clone());
                self.give_up(
                    slot,
                    FailedStep { ended: StepEnding::Exhausted(Reason::MaxDuration), attempts, failure: *failure },
                    now,
                );
            }
            _ => self.start_attempt(slot, now),
        }
    }

    /// Resumes an attempt that an earlier process began. Its timeout keeps running, and an at-most-once step is not run
    /// again.
    fn resume_attempt(&mut self, slot: Slot, spec: &StepSpec, now: Timestamp) {
        let Some(attempt) = self.attempt(slot) else { return };
        if spec.is_at_most_once {
            let message = "the process ended while this step ran; it may or may not have taken effect";
            let failure = Failure::new(Cause::Interrupted, message).permanent();
            return self.attempt_failed(slot, attempt.number, failure, now);
        }
        attempt.deadline.into_iter().for_each(|deadline| self.ops.set_timer(slot, deadline));
        if attempt.deadline.is_none_or(|deadline| deadline > now) {
            return self.frontier.wakes.push(slot);
        }
        // It has already timed out. It ends after timers that were due earlier, and no body runs until then.
        if let Some(&OpPhase::Working { attempt, started }) = self.ops.phase(slot) {
            self.ops.set_phase(slot, OpPhase::Starting { seq: u64::MAX, attempt, started });
        }
    }

    fn start_attempt(&mut self, slot: Slot, now: Timestamp) {
        let Some(op) = self.ops.get_mut(slot) else { return };
        op.record.first_started.get_or_insert(now);
        op.record.due = None;
        let attempt = op.record.failed.saturating_add(1);
        let Some(spec) = op.step_spec() else { return };
        let (needs_start, is_at_most_once) = (spec.needs_start(), spec.is_at_most_once);
        self.ops.set_phase(slot, OpPhase::Working { attempt, started: now });
        if needs_start {
            self.push(slot, EntryKind::StepStarted, now, |_| {});
        }
        if let Some(deadline) = self.attempt(slot).and_then(|attempt| attempt.deadline) {
            self.ops.set_timer(slot, deadline);
        }
        if is_at_most_once {
            let seq = self.recorder.seq();
            self.ops.set_phase(slot, OpPhase::Starting { seq, attempt, started: now });
            self.frontier.starting.push(slot);
        } else {
            self.frontier.wakes.push(slot);
        }
    }

    fn work(&mut self, slot: Slot, phase: OpPhase) {
        self.ops.set_phase(slot, phase);
        self.frontier.wakes.push(slot);
    }

    /// Handles a step's timer: the next attempt is due, or the current one timed out.
    pub(super) fn step_due(&mut self, slot: Slot, now: Timestamp) {
        match self.ops.get(slot).map(|op| &op.phase) {
            Some(OpPhase::Armed) => match self.total_deadline(slot) {
                Some(end) if end <= now => self.time_is_up(slot, now),
                _ => self.start_next(slot, now),
            },
            Some(OpPhase::Working { .. } | OpPhase::Starting { .. }) => self.time_is_up(slot, now),
            _ => {}
        }
    }

    fn total_deadline(&self, slot: Slot) -> Option<Timestamp> {
        let op = self.ops.get(slot)?;
        Some(op.record.first_started?.after(op.step_spec()?.total_timeout?))
    }

    /// Ends the attempt, or the whole step, because a timeout has passed.
    fn time_is_up(&mut self, slot: Slot, now: Timestamp) {
        let Some(op) = self.ops.get(slot) else { return };
        let Some(spec) = op.step_spec() else { return };
        let (attempt, started) = match op.phase {
            OpPhase::Working { attempt, started, .. } | OpPhase::Starting { attempt, started, .. } => {
                (attempt, started)
            }
            _ => (op.record.failed, now),
        };
        let is_total = self.total_deadline(slot).is_some_and(|end| end <= now);
        let (limit, began) = match is_total {
            true => (spec.total_timeout, op.record.first_started.unwrap_or(started)),
            false => (spec.attempt_timeout, started),
        };
        let failure = Failure::timed_out(limit.unwrap_or(Duration::ZERO), now.since(began));
        self.drop_body(slot);
        if is_total {
            return self.give_up(slot, FailedStep { ended: StepEnding::Timeout, attempts: attempt, failure }, now);
        }
        self.attempt_failed(slot, attempt, failure, now);
    }

    /// Handles a failed attempt: schedules a retry or fails the step.
    fn attempt_failed(&mut self, slot: Slot, attempt: u32, failure: Failure, now: Timestamp) {
        let Some(op) = self.ops.get(slot) else { return };
        let Some(spec) = op.step_spec().cloned() else { return };
        let first = op.record.first_started.unwrap_or(now);
        let seed = self.seed ^ fold(&op.key);
        let ended = match (&failure.cause, &spec.retry) {
            (Cause::Interrupted, _) => StepEnding::Interrupted,
            (_, Some(retry)) if failure.retryable => match next_of(retry, attempt, first, now, seed) {
                Ok((RetryNext::RetryAt { due, .. }, base)) => {
                    let plan = AttemptPlan::new(retry, base);
                    return self.schedule_retry(slot, attempt, (&failure, &plan), due, now);
                }
                Ok((RetryNext::Exhausted(reason), _)) => StepEnding::Exhausted(reason),
                Err(panic) => {
                    let key = op.key.clone();
                    return self
                        .fail(format!("the backoff of {key} panicked: {panic}; fix it and restart the program"));
                }
            },
            (Cause::Timeout, _) => StepEnding::Timeout,
            _ => StepEnding::Error,
        };
        self.give_up(slot, FailedStep { ended, attempts: attempt, failure }, now);
    }

    fn schedule_retry(
        &mut self,
        slot: Slot,
        attempt: u32,
        (failure, plan): (&Failure, &AttemptPlan),
        due: Timestamp,
        now: Timestamp,
    ) {
        self.push(slot, EntryKind::AttemptFailed, now, |entry| {
            entry.attempt = attempt;
            entry.due = Some(due);
            entry.payload = Some(failure::with_note(failure, "retry", plan));
        });
        if let Some(op) = self.ops.get_mut(slot) {
            op.record.failed = attempt;
            op.record.last = Some(failure.clone().into());
            op.record.due = Some(due);
        }
        self.arm_retry(slot, due);
    }

    /// Sets the timer for the next attempt, or for the total timeout if that comes first.
    fn arm_retry(&mut self, slot: Slot, due: Timestamp) {
        let end = self.total_deadline(slot).unwrap_or(Timestamp::MAX);
        self.arm(slot, due.min(end));
    }

    /// Fails the step for good, or runs its fallback if it has one.
    fn give_up(&mut self, slot: Slot, failed: FailedStep, now: Timestamp) {
        let has_fallback = self.ops.get(slot).and_then(|op| op.step_spec()).is_some_and(|spec| spec.has_fallback);
        self.ops.clear_timer(slot);
        if !has_fallback {
            return self.settle(slot, EntryKind::StepFailed, Outcome::Failed(failed.into()), now);
        }
        let attempt = failed.attempts;
        self.push(slot, EntryKind::FallingBack, now, |entry| {
            entry.attempt = attempt;
            entry.payload = Some(failure::with_note(&failed.failure, "ended", record::ended_to(failed.ended)));
        });
        self.work(slot, OpPhase::FallingBack { attempt, started: now, failure: failed.failure.into() });
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

/// Returns when an attempt times out.
fn deadline(spec: &StepSpec, started: Timestamp, first: Option<Timestamp>) -> Option<Timestamp> {
    let one = spec.attempt_timeout.map(|limit| started.after(limit));
    let all = spec.total_timeout.and_then(|limit| Some(first?.after(limit)));
    match (one, all) {
        (Some(one), Some(all)) => Some(one.min(all)),
        (one, all) => one.or(all),
    }
}

/// Hashes a text (FNV-1a, 64 bit), so that each step has its own stream of jitter.
fn fold(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
