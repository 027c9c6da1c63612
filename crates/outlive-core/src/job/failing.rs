//! Failed calls of a job: retried, handled by `on_error`, or given up.

use super::Job;
use super::call::{Call, Exhausted, HandlerKind};
use super::policy::{FailureVerdict, failure_records};
use super::record::{Retrying, Troubled};
use crate::failure::{Cause, Failure};
use crate::lifecycle::{Detail, LifecycleRecordKind};
use crate::message::Inbound;
use crate::time::Timestamp;

impl Job {
    /// Handles a failed call. Nothing the handler did counts.
    pub(super) fn failed(&mut self, call: &Call, failure: Failure, began: Timestamp, now: Timestamp) {
        let state = &mut self.state;
        state.record.error = Some(failure.to_string());
        if matches!(call.handler, HandlerKind::Error | HandlerKind::Idle) {
            return self.hook_failed(call, &failure, now);
        }
        let (handler, failed, is_trigger) = (call.handler, call.attempt, call.trigger.is_some());
        let event = call.event.as_ref().map(|inbound| inbound.pos);
        let since = state.record.retry.take().map_or(began, |retry| retry.since);
        let policy = self.rules.policy();
        let verdict = policy.judge(&failure, failed, since, now, self.seed);
        let about = Detail { event, handler: Some(handler.as_str().into()), ..Detail::default() };
        let (failed_record, exhausted) = failure_records(&verdict, &failure, failed, about, now);
        state.change.lifecycle.push(failed_record);
        state.change.lifecycle.extend(exhausted);
        match verdict {
            FailureVerdict::Again { due, .. } => {
                state.record.retry = Some(Retrying { handler, event, failed, since, due, is_trigger });
            }
            FailureVerdict::GiveUp(reason) => {
                let trouble = Troubled { handler, event, attempts: failed, is_trigger, failure: failure.to_payload() };
                if let Some(reason) = reason {
                    let exhausted = Exhausted::new(&state.id, handler, failed, reason, failure, now.since(since));
                    state.change.exhausted.push(exhausted);
                }
                match policy.has_error {
                    true => state.record.trouble = Some(trouble),
                    false => self.give_up(&trouble, now),
                }
            }
        }
    }

    /// Handles a failure of `on_error` or `on_idle` itself. These are not retried, or there would be no end to it.
    fn hook_failed(&mut self, call: &Call, failure: &Failure, now: Timestamp) {
        let handler = Some(call.handler.as_str().into());
        let detail = Detail { error: Some(failure.to_string()), handler, ..Detail::default() };
        self.state.change.report_attempt(LifecycleRecordKind::JobFailed, call.attempt, now, detail);
        match call.handler {
            HandlerKind::Error => self.recovered(now),
            _ => self.state.record.is_restless = false,
        }
    }

    /// Gives up the failed call, after `on_error` has run.
    pub(super) fn recovered(&mut self, now: Timestamp) {
        if let Some(trouble) = self.state.record.trouble.take() {
            self.give_up(&trouble, now);
        }
    }

    /// Continues without the failed call: an event or a batch becomes a dead letter, a schedule moves on.
    fn give_up(&mut self, trouble: &Troubled, now: Timestamp) {
        match (trouble.handler, trouble.event) {
            (HandlerKind::Event, Some(pos)) => self.state.give_up_event(pos, trouble, now),
            _ => {
                self.state.record.runs += 1;
                self.rules.give_up_execution(&mut self.state, trouble, now);
            }
        }
    }

    /// Handles an event or state that cannot be read. If the instance holds nothing yet, the event becomes a dead
    /// letter. Otherwise the instance is stuck, with everything it holds, until the code or the data is fixed.
    pub(super) fn unreadable(&mut self, call: &Call, problem: String, now: Timestamp) {
        match call.event.as_ref() {
            Some(Inbound { pos, .. }) if self.state.is_void() => {
                let failure = Failure::new(Cause::Error, problem).permanent().to_payload();
                let (handler, event) = (call.handler, Some(*pos));
                let trouble = Troubled { handler, event, attempts: call.attempt, is_trigger: false, failure };
                self.state.give_up_event(*pos, &trouble, now);
            }
            _ => self.mark_stuck(problem, now),
        }
    }
}
