//! Handler failures: retry, `on_error` or dead letter.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::call::{Call, Exhausted, HandlerKind};
use super::record::{Retrying, Troubled};
use super::{Job, Rules};
use crate::event::Event;
use crate::failure::{Cause, Failure};
use crate::id::Name;
use crate::kind::JobKind;
use crate::lifecycle::{Detail, LifecycleRecord, LifecycleRecordKind};
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::queue::{Dead, PushTarget};
use crate::retry::{self, Reason, Retry};
use crate::time::Timestamp;

/// How a definition handles failures.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// When to retry; never without a policy.
    pub retry: Option<Retry>,
    /// Whether there is an `on_error` to call when a call is given up.
    pub has_error: bool,
}

impl Policy {
    /// Decides what follows failure number `failed`, with the details to report.
    #[must_use]
    pub fn judge(&self, failure: &Failure, failed: u32, since: Timestamp, now: Timestamp, seed: u64) -> FailureVerdict {
        let Some(policy) = &self.retry else { return FailureVerdict::GiveUp(None) };
        // Different for each attempt of each instance.
        let seed = seed.wrapping_add(u64::from(failed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if !failure.retryable {
            return FailureVerdict::GiveUp(None);
        }
        // A custom backoff is user code and may panic; then there is no time for the next attempt.
        let decide = || (policy.next(failed, since, now, seed), policy.base_delay(failed));
        let Ok((next, base_delay)) = catch_unwind(AssertUnwindSafe(decide)) else {
            return FailureVerdict::GiveUp(None);
        };
        match next {
            retry::RetryNext::RetryAt { due, delay } => FailureVerdict::Again {
                due,
                detail: Box::new(Detail {
                    retry_at: Some(due),
                    delay_ms: u64::try_from(delay.as_millis()).ok(),
                    base_delay_ms: u64::try_from(base_delay.as_millis()).ok(),
                    backoff: Some(policy.backoff_kind().into()),
                    jitter: Some(policy.jitter_kind().into()),
                    ..Detail::default()
                }),
            },
            retry::RetryNext::Exhausted(reason) => FailureVerdict::GiveUp(Some(reason)),
        }
    }
}

/// The decision about a failure.
#[derive(Clone, PartialEq, Debug)]
pub enum FailureVerdict {
    /// Retry.
    Again {
        /// When to retry.
        due: Timestamp,
        /// Details of the retry for the lifecycle event.
        detail: Box<Detail>,
    },
    /// Give up; with the reason if retries ran out.
    GiveUp(Option<Reason>),
}

/// Returns the lifecycle event of a failure, and a second one if it exhausts the retries.
#[must_use]
pub fn failure_records(
    verdict: &FailureVerdict,
    failure: &Failure,
    failed: u32,
    about: Detail,
    now: Timestamp,
) -> (LifecycleRecord, Option<LifecycleRecord>) {
    let error = Some(failure.to_string());
    let failed_detail = match verdict {
        FailureVerdict::Again { detail, .. } => {
            Detail { error, event: about.event, handler: about.handler.clone(), ..(**detail).clone() }
        }
        FailureVerdict::GiveUp(_) => Detail { error, ..about.clone() },
    };
    let record =
        |kind, detail: Detail| LifecycleRecord { at: now, kind, attempt: failed, detail: Some(detail.to_payload()) };
    let exhausted = match verdict {
        FailureVerdict::GiveUp(Some(reason)) => {
            let (reason, error) = (Some(reason.as_str().into()), Some(failure.to_string()));
            Some(record(LifecycleRecordKind::JobExhausted, Detail { reason, error, ..about }))
        }
        _ => None,
    };
    (record(LifecycleRecordKind::JobFailed, failed_detail), exhausted)
}

impl Job {
    /// Handles a failed call. Nothing the handler did counts.
    pub(super) fn failed(&mut self, call: &Call, failure: Failure, began: Timestamp, now: Timestamp) {
        self.record.error = Some(failure.to_string());
        if matches!(call.handler, HandlerKind::Error | HandlerKind::Idle) {
            return self.hook_failed(call, &failure, now);
        }
        let before = self.record.retry.take();
        let failed = call.attempt;
        let since = before.as_ref().map_or(began, |retry| retry.since);
        let is_trigger = call.trigger.is_some();
        let event = call.event.as_ref().map(|inbound| inbound.pos);
        let verdict = self.rules.policy().judge(&failure, failed, since, now, self.seed);
        let about = Detail { event, handler: Some(call.handler.as_str().into()), ..Detail::default() };
        let (failed_record, exhausted) = failure_records(&verdict, &failure, failed, about, now);
        self.change.lifecycle.push(failed_record);
        self.change.lifecycle.extend(exhausted);
        match verdict {
            FailureVerdict::Again { due, .. } => {
                let handler = call.handler;
                self.record.retry = Some(Retrying { handler, event, failed, since, due, is_trigger });
            }
            FailureVerdict::GiveUp(reason) => {
                if let Some(reason) = reason {
                    let (id, last, total) = (&self.id, failure.clone(), now.since(since));
                    self.change.exhausted.push(Exhausted::new(id, call.handler, failed, reason, last, total));
                }
                let failure = failure.to_payload();
                let trouble = Troubled { handler: call.handler, event, attempts: failed, is_trigger, failure };
                if self.rules.policy().has_error {
                    self.record.trouble = Some(trouble);
                } else {
                    self.given_up(trouble, now);
                }
            }
        }
    }

    /// Handles a failure of `on_error` or `on_idle` itself. These are not retried, or there would be no end to it.
    fn hook_failed(&mut self, call: &Call, failure: &Failure, now: Timestamp) {
        let handler = Some(call.handler.as_str().into());
        let detail = Detail { error: Some(failure.to_string()), handler, ..Detail::default() };
        self.report_attempt(LifecycleRecordKind::JobFailed, call.attempt, now, detail);
        match call.handler {
            HandlerKind::Error => self.recovered(now),
            _ => self.record.is_restless = false,
        }
    }

    /// Gives up the failed call, after `on_error` has run.
    pub(super) fn recovered(&mut self, now: Timestamp) {
        if let Some(trouble) = self.record.trouble.take() {
            self.given_up(trouble, now);
        }
    }

    /// Continues without the failed call: an event or a batch becomes a dead letter, a schedule moves on.
    fn given_up(&mut self, trouble: Troubled, now: Timestamp) {
        match (trouble.handler, trouble.event) {
            (HandlerKind::Event, Some(pos)) => self.event_given_up(pos, &trouble, now),
            _ => {
                self.record.runs += 1;
                match &self.rules {
                    Rules::Continuous(_) => self.tick_over(self.record.next, trouble.is_trigger, now),
                    Rules::Debounce(_) => self.batch_given_up(&trouble, now),
                    Rules::Task(_) => self.task_executed(trouble.is_trigger),
                }
            }
        }
    }

    fn event_given_up(&mut self, pos: u64, trouble: &Troubled, now: Timestamp) {
        let found = self.inbox.iter().find(|inbound| inbound.pos == pos);
        let Some(Message::Event(event)) = found.map(|inbound| inbound.message.clone()) else { return };
        if event.is_asking {
            let failed = format!(r#"{{"failed":{}}}"#, trouble.failure);
            self.change.replies.push((pos, Payload::recorded(&failed)));
        }
        self.bury(pos, event, trouble, now);
        self.take(pos);
        self.record.is_restless = true;
    }

    /// Keeps an event that was given up as a dead letter.
    pub(super) fn bury(&mut self, pos: u64, event: Event, trouble: &Troubled, now: Timestamp) {
        let dead = bury(&self.id, pos, event, trouble, now);
        self.change.dead.push(dead);
    }

    /// Handles an event or state that cannot be read. If the instance holds nothing yet, the event becomes a dead
    /// letter. Otherwise the instance is stuck, with everything it holds, until the code or the data is fixed.
    pub(super) fn unreadable(&mut self, call: &Call, problem: String, now: Timestamp) {
        match call.event.as_ref() {
            Some(Inbound { pos, .. }) if self.is_void() => {
                let failure = Failure::new(Cause::Error, problem).permanent().to_payload();
                let (handler, event) = (call.handler, Some(*pos));
                let trouble = Troubled { handler, event, attempts: call.attempt, is_trigger: false, failure };
                self.event_given_up(*pos, &trouble, now);
            }
            _ => self.set_aside(problem, now),
        }
    }
}

/// Builds a dead letter of an instance.
pub(super) fn bury(id: &Name, pos: u64, event: Event, trouble: &Troubled, now: Timestamp) -> Dead {
    let (attempts, failure) = (trouble.attempts, trouble.failure.clone());
    Dead { pos, job: JobKind::job_of(id), id: id.clone(), at: now, attempts, failure, event, place: PushTarget::Inbox }
}
