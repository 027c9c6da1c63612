//! What a failed handler leads to: another attempt, or the end of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::call::{Call, Exhausted, HandlerKind};
use super::record::{Retrying, Troubled};
use super::{Job, Rules};
use crate::event::Event;
use crate::failure::{Cause, Failure};
use crate::id::Name;
use crate::kind::JobKind;
use crate::lifecycle::{Detail, News, NewsKind};
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::queue::{Dead, Place};
use crate::retry::{self, Reason, Retry};
use crate::time::Timestamp;

/// What a definition says of failures.
///
/// ```
/// use outlive_core::job::Policy;
/// use outlive_core::retry::Retry;
/// let policy = Policy { retry: Some(Retry::times(3)), has_error: true };
/// assert!(policy.retry.is_some());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// When to try again; never without it.
    pub retry: Option<Retry>,
    /// Whether there is an `on_error` to call for what is given up.
    pub has_error: bool,
}

impl Policy {
    /// What the `failed`th failure leads to, and what the world is told of it.
    ///
    /// ```
    /// use outlive_core::failure::{Cause, Failure};
    /// use outlive_core::job::{Policy, Verdict};
    /// use outlive_core::retry::Retry;
    /// # use outlive_core::time::Timestamp;
    /// let policy = Policy { retry: Some(Retry::times(1)), has_error: false };
    /// let (failure, at) = (Failure::new(Cause::Error, "no route"), Timestamp::from_millis(0));
    /// assert!(matches!(policy.judge(&failure, 1, at, at, 7), Verdict::Again { .. }));
    /// assert!(matches!(policy.judge(&failure, 2, at, at, 7), Verdict::GiveUp(Some(_))));
    /// ```
    #[must_use]
    pub fn judge(&self, failure: &Failure, failed: u32, since: Timestamp, now: Timestamp, seed: u64) -> Verdict {
        let Some(policy) = &self.retry else { return Verdict::GiveUp(None) };
        // The seed differs from attempt to attempt and from instance to instance.
        let seed = seed.wrapping_add(u64::from(failed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if !failure.retryable {
            return Verdict::GiveUp(None);
        }
        // A backoff of the user's own may panic, and then there is no time to try again at.
        let decide = || (policy.next(failed, since, now, seed), policy.base_delay(failed));
        let Ok((next, base_delay)) = catch_unwind(AssertUnwindSafe(decide)) else { return Verdict::GiveUp(None) };
        match next {
            retry::Next::RetryAt { due, delay } => Verdict::Again {
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
            retry::Next::Exhausted(reason) => Verdict::GiveUp(Some(reason)),
        }
    }
}

/// What a failure leads to.
///
/// ```
/// use outlive_core::job::Verdict;
/// assert_ne!(Verdict::GiveUp(None), Verdict::GiveUp(Some(outlive_core::retry::Reason::MaxAttempts)));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// Another attempt.
    Again {
        /// When.
        due: Timestamp,
        /// What the world is told of that.
        detail: Box<Detail>,
    },
    /// None; with the reason if there were retries to be had.
    GiveUp(Option<Reason>),
}

/// The news of a failure, and of the end of retries if that is what it leads to.
///
/// ```
/// use outlive_core::failure::{Cause, Failure};
/// use outlive_core::job::{Verdict, failed_news};
/// use outlive_core::lifecycle::Detail;
/// # use outlive_core::time::Timestamp;
/// let failure = Failure::new(Cause::Error, "no route");
/// let (failed, exhausted) =
///     failed_news(&Verdict::GiveUp(None), &failure, 3, Detail::default(), Timestamp::from_millis(0));
/// assert_eq!((failed.attempt, exhausted), (3, None));
/// ```
#[must_use]
pub fn failed_news(
    verdict: &Verdict,
    failure: &Failure,
    failed: u32,
    about: Detail,
    now: Timestamp,
) -> (News, Option<News>) {
    let error = Some(failure.to_string());
    let failed_detail = match verdict {
        Verdict::Again { detail, .. } => {
            Detail { error, event: about.event, handler: about.handler.clone(), ..(**detail).clone() }
        }
        Verdict::GiveUp(_) => Detail { error, ..about.clone() },
    };
    let line = |kind, detail: Detail| News { at: now, kind, attempt: failed, detail: Some(detail.to_payload()) };
    let exhausted = match verdict {
        Verdict::GiveUp(Some(reason)) => {
            let (reason, error) = (Some(reason.as_str().into()), Some(failure.to_string()));
            Some(line(NewsKind::JobExhausted, Detail { reason, error, ..about }))
        }
        _ => None,
    };
    (line(NewsKind::JobFailed, failed_detail), exhausted)
}

impl Job {
    /// A handler has failed: what it did does not count.
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
        let (news, exhausted) = failed_news(&verdict, &failure, failed, about, now);
        self.change.news.push(news);
        self.change.news.extend(exhausted);
        match verdict {
            Verdict::Again { due, .. } => {
                let handler = call.handler;
                self.record.retry = Some(Retrying { handler, event, failed, since, due, is_trigger });
            }
            Verdict::GiveUp(reason) => {
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

    /// `on_error` or `on_idle` itself has failed. It is not tried again, or there would be no end.
    fn hook_failed(&mut self, call: &Call, failure: &Failure, now: Timestamp) {
        let handler = Some(call.handler.as_str().into());
        let detail = Detail { error: Some(failure.to_string()), handler, ..Detail::default() };
        self.tell_of(NewsKind::JobFailed, call.attempt, now, detail);
        match call.handler {
            HandlerKind::Error => self.recovered(now),
            _ => self.record.is_restless = false,
        }
    }

    /// `on_error` has dealt with what was given up.
    pub(super) fn recovered(&mut self, now: Timestamp) {
        if let Some(trouble) = self.record.trouble.take() {
            self.given_up(trouble, now);
        }
    }

    /// Goes on without what failed: an event or a batch is kept among the dead, a schedule goes on.
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

    /// Keeps what was given up for people to look at.
    pub(super) fn bury(&mut self, pos: u64, event: Event, trouble: &Troubled, now: Timestamp) {
        let dead = bury(&self.id, pos, event, trouble, now);
        self.change.dead.push(dead);
    }

    /// What a handler was to be given cannot be read. Of an instance of which nothing was made yet, the event goes to
    /// the dead letters; any other one is set aside, with all it has, until the code or the data is mended.
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

/// A dead letter of an instance.
pub(super) fn bury(id: &Name, pos: u64, event: Event, trouble: &Troubled, now: Timestamp) -> Dead {
    let (attempts, failure) = (trouble.attempts, trouble.failure.clone());
    Dead { pos, job: JobKind::job_of(id), id: id.clone(), at: now, attempts, failure, event, place: Place::Inbox }
}
