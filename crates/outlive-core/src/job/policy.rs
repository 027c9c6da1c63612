//! Policies for failures: whether a failed call is retried, and which lifecycle events report the failure.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::Failure;
use crate::lifecycle::{Detail, LifecycleRecord, LifecycleRecordKind};
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
