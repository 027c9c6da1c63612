//! Retry policies as pure functions of the time and a seed.

mod backoff;
mod breaker;
mod budget;
mod error;
mod jitter;

use std::time::Duration;

pub use self::backoff::Backoff;
pub use self::breaker::{
    Admission, AttemptEnd, Breaker, BreakerChange, BreakerDecision, BreakerLimits, BreakerState, BreakerTicket,
    SharedBreaker,
};
pub use self::budget::{BudgetDecision, BudgetLimits, BudgetState, RetryBudget, SharedBudget};
pub use self::error::PolicyError;
pub use self::jitter::Jitter;
use crate::duration::IntoDuration;
use crate::time::Timestamp;

/// How often to retry, and how long to wait before each retry. Values are validated by [`Retry::check`], not by the
/// builder methods, so the calls can come in any order.
///
/// ```
/// use outlive_core::retry::{Jitter, Retry};
///
/// let retry = Retry::times(5).max_delay("30 seconds").exponential("1 second").jitter(Jitter::none());
/// retry.check()?;
/// let seconds: Vec<u64> = (1..=7).map(|k| retry.delay(k, 42).as_secs()).collect();
/// assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
/// # Ok::<(), outlive_core::retry::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a policy does nothing until it is passed to a step or a job"]
pub struct Retry {
    max_retries: Option<u32>,
    backoff: Backoff,
    /// The factor set on the policy itself; it applies to any backoff chosen later.
    factor: Option<f64>,
    /// The cap set on the policy itself; it applies to any backoff chosen later.
    delay_max: Option<Duration>,
    jitter: Jitter,
    duration_max: Option<Duration>,
    /// The first duration that could not be parsed.
    problem: Option<PolicyError>,
}

impl Retry {
    /// Retries up to `retries` times after the first attempt, for `retries + 1` attempts in total. The default delays
    /// are those of [`Backoff::standard`] with 10% jitter.
    pub fn times(retries: u32) -> Self {
        Self::up_to(Some(retries))
    }

    /// Retries until an attempt succeeds or [`max_duration`](Self::max_duration) is over.
    pub fn forever() -> Self {
        Self::up_to(None)
    }

    /// Uses the same delay every time; see [`Backoff::constant`].
    pub fn constant(self, delay: impl IntoDuration) -> Self {
        self.backoff(Backoff::constant(delay))
    }

    /// Starts with `initial` and adds `increment` each time; see [`Backoff::linear`].
    pub fn linear(self, initial: impl IntoDuration, increment: impl IntoDuration) -> Self {
        self.backoff(Backoff::linear(initial, increment))
    }

    /// Starts with `base` and doubles each time, or multiplies by [`factor`](Self::factor); see
    /// [`Backoff::exponential`]. There is no cap unless [`max_delay`](Self::max_delay) sets one.
    pub fn exponential(self, base: impl IntoDuration) -> Self {
        self.backoff(Backoff::exponential(base))
    }

    /// Calls a function with the number of the retry to get the delay; see [`Backoff::custom`].
    pub fn custom(self, delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        self.backoff(Backoff::custom(delay))
    }

    /// Uses the delays of [`Backoff::standard`].
    pub fn standard(self) -> Self {
        self.backoff(Backoff::standard())
    }

    /// Uses the delays of [`Backoff::aggressive`].
    pub fn aggressive(self) -> Self {
        self.backoff(Backoff::aggressive())
    }

    /// Uses the delays of [`Backoff::patient`].
    pub fn patient(self) -> Self {
        self.backoff(Backoff::patient())
    }

    /// Uses the delays of [`Backoff::simple`].
    pub fn simple(self) -> Self {
        self.backoff(Backoff::simple())
    }

    /// Uses an existing backoff, with its own cap unless [`max_delay`](Self::max_delay) sets another.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        if let Some(problem) = backoff.problem() {
            self.problem.get_or_insert_with(|| problem.clone());
        }
        self.backoff = backoff;
        self.hold()
    }

    /// Sets the growth factor of an exponential delay; see [`Backoff::factor`].
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = Some(factor);
        self.hold()
    }

    /// Sets the longest delay before jitter; see [`Backoff::max_delay`].
    pub fn max_delay(mut self, delay: impl IntoDuration) -> Self {
        self.delay_max = self.read("max_delay", delay).or(self.delay_max);
        self.hold()
    }

    /// Sets the jitter; the default is 10% either way. [`factor`](Self::factor) belongs to the backoff; for the factor
    /// of the jitter, see [`Jitter::factor`].
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the total time for all attempts, counted from the start of the first one. A retry that would start later is
    /// not made.
    pub fn max_duration(mut self, duration: impl IntoDuration) -> Self {
        self.duration_max = self.read("max_duration", duration).or(self.duration_max);
        self
    }

    /// Validates the values, individually and in combination.
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// let error = Retry::times(3).exponential("1 minute").max_delay("30s").check().unwrap_err();
    /// assert_eq!(error.to_string(), "max_delay 30s is less than the base delay 1m; use at least 1m");
    /// ```
    ///
    /// # Errors
    /// If a duration could not be parsed (the first one is reported), a delay is zero, the cap is below the first
    /// delay, the factor does not increase delays, the proportion or factor of the jitter is out of range, or
    /// `max_duration` is zero.
    pub fn check(&self) -> Result<(), PolicyError> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        self.backoff.check()?;
        self.jitter.check()?;
        match self.duration_max {
            Some(duration) if duration.is_zero() => Err(PolicyError::new(
                "max_duration 0s must be greater than zero; set the total time for all attempts, or leave it out",
            )),
            _ => Ok(()),
        }
    }

    /// Decides what happens after `failed` failed attempts, the first of which started at `first_started`. The seed is
    /// the only source of randomness; a caller that stores the result does not need to store the seed.
    ///
    /// ```
    /// # use outlive_core::retry::{Jitter, RetryNext, Reason, Retry};
    /// # use outlive_core::time::Timestamp;
    /// let retry = Retry::times(1).constant("5s").jitter(Jitter::none());
    /// let (start, now) = (Timestamp::from_millis(0), Timestamp::from_millis(100));
    /// let RetryNext::RetryAt { due, .. } = retry.next(1, start, now, 42) else { panic!() };
    /// assert_eq!(due.as_millis(), 5100);
    /// assert_eq!(retry.next(2, start, due, 42), RetryNext::Exhausted(Reason::MaxAttempts));
    /// ```
    #[must_use]
    pub fn next(&self, failed: u32, first_started: Timestamp, now: Timestamp, seed: u64) -> RetryNext {
        debug_assert!(failed > 0, "a retry requires a failed attempt");
        if self.max_retries.is_some_and(|max| failed > max) {
            return RetryNext::Exhausted(Reason::MaxAttempts);
        }
        let delay = self.delay(failed, seed);
        let due = now.after(delay);
        if self.duration_max.is_some_and(|max| due > first_started.after(max)) {
            return RetryNext::Exhausted(Reason::MaxDuration);
        }
        RetryNext::RetryAt { due, delay }
    }

    /// Returns the delay before retry `k`, counted from 1, with jitter. The same seed always gives the same delay.
    #[must_use]
    pub fn delay(&self, k: u32, seed: u64) -> Duration {
        self.jitter.delay(&self.backoff, k, seed)
    }

    /// Returns the delay before retry `k`, counted from 1, without jitter.
    #[must_use]
    pub fn base_delay(&self, k: u32) -> Duration {
        self.backoff.delay(k)
    }

    /// Returns the maximum number of retries after the first attempt; `None` if there is no limit.
    #[must_use]
    pub fn max_retries(&self) -> Option<u32> {
        self.max_retries
    }

    /// Returns the total time for all attempts, if there is a limit.
    #[must_use]
    pub fn duration_max(&self) -> Option<Duration> {
        self.duration_max
    }

    /// Returns `true` if the total time is limited, in which case the start of the first attempt must be recorded.
    #[must_use]
    pub fn has_max_duration(&self) -> bool {
        self.duration_max.is_some()
    }

    /// Returns the kind of backoff; see [`Backoff::kind`].
    #[must_use]
    pub fn backoff_kind(&self) -> &'static str {
        self.backoff.kind()
    }

    /// Returns the kind of jitter; see [`Jitter::kind`].
    #[must_use]
    pub fn jitter_kind(&self) -> &'static str {
        self.jitter.kind()
    }

    fn up_to(max_retries: Option<u32>) -> Self {
        Self {
            max_retries,
            backoff: Backoff::standard(),
            factor: None,
            delay_max: None,
            jitter: Jitter::default(),
            duration_max: None,
            problem: None,
        }
    }

    /// Applies the factor and cap of the policy to the backoff, so that the order of calls does not matter.
    fn hold(mut self) -> Self {
        if let Some(factor) = self.factor {
            self.backoff = self.backoff.factor(factor);
        }
        if let Some(cap) = self.delay_max {
            self.backoff = self.backoff.capped(cap);
        }
        self
    }

    fn read(&mut self, what: &str, duration: impl IntoDuration) -> Option<Duration> {
        match duration.into_duration() {
            Ok(duration) => Some(duration),
            Err(error) => {
                self.problem.get_or_insert(PolicyError::unreadable(what, error));
                None
            }
        }
    }
}

/// Creates a policy with this many retries and the delays of [`Backoff::standard`].
impl From<u32> for Retry {
    fn from(retries: u32) -> Self {
        Self::times(retries)
    }
}

/// What to do after a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RetryNext {
    /// Retry.
    RetryAt {
        /// When the next attempt may start.
        due: Timestamp,
        /// The delay until then.
        delay: Duration,
    },
    /// Give up.
    Exhausted(Reason),
}

/// Why there are no more retries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// All retries have been made.
    MaxAttempts,
    /// The next attempt would start after the total time for all attempts.
    MaxDuration,
}

impl Reason {
    /// Returns the name used in the journal.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxAttempts => "max attempts",
            Self::MaxDuration => "max duration",
        }
    }

    /// Returns the reason with this name, if there is one.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        [Self::MaxAttempts, Self::MaxDuration].into_iter().find(|reason| reason.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use proptest::prelude::*;

    use super::*;
    use crate::duration::LONGEST;

    const START: Timestamp = Timestamp::from_millis(1_000_000);

    fn base_delays_ms(retry: &Retry, count: u32) -> Vec<u128> {
        (1..=count).map(|k| retry.base_delay(k).as_millis()).collect()
    }

    fn refusal(retry: &Retry) -> String {
        retry.check().expect_err("should be refused").to_string()
    }

    /// Fails every attempt immediately. Returns the number of retries, how long they took and why they ended.
    fn exhaust(retry: &Retry) -> (u32, Duration, Reason) {
        let mut now = START;
        for failed in 1.. {
            match retry.next(failed, START, now, 42) {
                RetryNext::RetryAt { due, delay } => {
                    assert_eq!(due, now.after(delay));
                    now = due;
                }
                RetryNext::Exhausted(reason) => return (failed - 1, now.since(START), reason),
            }
        }
        unreachable!("the range has no end")
    }

    #[test]
    fn three_times_means_three_retries_after_the_first_attempt() {
        let retry = Retry::times(3).jitter(Jitter::none());
        assert_eq!(exhaust(&retry), (3, Duration::from_secs(1 + 2 + 4), Reason::MaxAttempts));
    }

    #[test]
    fn zero_times_means_no_retry() {
        assert_eq!(exhaust(&Retry::times(0)), (0, Duration::ZERO, Reason::MaxAttempts));
    }

    #[test]
    fn forever_never_runs_out_of_attempts() {
        let next = Retry::forever().next(u32::MAX, START, START, 42);
        assert!(matches!(next, RetryNext::RetryAt { .. }), "{next:?}");
    }

    #[test]
    fn retry_that_would_start_after_max_duration_is_not_made() {
        let retry = Retry::forever().simple().jitter(Jitter::none());
        assert_eq!(exhaust(&retry.clone().max_duration("5s")).0, 5, "the fifth starts just in time");
        assert_eq!(exhaust(&retry.clone().max_duration("4999 ms")).0, 4);
        assert_eq!(exhaust(&retry.max_duration("1ms")), (0, Duration::ZERO, Reason::MaxDuration));
    }

    #[test]
    fn max_duration_counts_from_the_first_start_and_includes_the_work() {
        let retry = Retry::times(9).simple().jitter(Jitter::none()).max_duration("1 minute");
        let late = START.after(Duration::from_millis(59_001));
        assert_eq!(retry.next(1, START, late, 42), RetryNext::Exhausted(Reason::MaxDuration));
    }

    #[test]
    fn max_attempts_is_reported_before_max_duration() {
        let retry = Retry::times(1).max_duration("1ms");
        assert_eq!(retry.next(2, START, START, 42), RetryNext::Exhausted(Reason::MaxAttempts));
    }

    #[test]
    fn default_delays_are_standard_with_a_tenth_of_jitter() {
        let retry = Retry::times(3);
        assert_eq!(base_delays_ms(&retry, 7), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(retry.jitter, Jitter::proportional(0.1));
        assert_eq!(retry.check(), Ok(()));
    }

    #[test]
    fn integer_is_a_policy() {
        fn retries(policy: impl Into<Retry>) -> Option<u32> {
            policy.into().max_retries()
        }
        assert_eq!(retries(3), Some(3));
        assert_eq!(retries(Retry::forever()), None);
    }

    #[test]
    fn presets_replace_each_other() {
        assert_eq!(base_delays_ms(&Retry::times(1).aggressive(), 7), [100, 200, 400, 800, 1_600, 3_200, 5_000]);
        assert_eq!(base_delays_ms(&Retry::times(1).aggressive().patient(), 2), [5_000, 10_000]);
        assert_eq!(base_delays_ms(&Retry::times(1).patient().simple(), 2), [1_000, 1_000]);
        assert_eq!(base_delays_ms(&Retry::times(1).simple().standard(), 2), [1_000, 2_000]);
    }

    #[test]
    fn order_of_cap_factor_and_backoff_does_not_matter() {
        let expected = [1_000, 3_000, 9_000, 10_000];
        let after = Retry::times(1).exponential("1s").factor(3.0).max_delay("10s");
        let before = Retry::times(1).max_delay("10s").factor(3.0).exponential("1s");
        assert_eq!(base_delays_ms(&after, 4), expected);
        assert_eq!(base_delays_ms(&before, 4), expected);
    }

    #[test]
    fn explicit_backoff_has_no_cap_until_one_is_given() {
        let retry = Retry::times(3).exponential("1 hour");
        assert_eq!(retry.check(), Ok(()));
        assert_eq!(base_delays_ms(&retry, 3), [3_600_000, 7_200_000, 14_400_000]);
    }

    #[test]
    fn cap_alone_replaces_the_cap_of_the_preset() {
        assert_eq!(base_delays_ms(&Retry::times(9).max_delay("5s"), 5), [1_000, 2_000, 4_000, 5_000, 5_000]);
        assert_eq!(Retry::times(9).max_delay("1 minute").base_delay(9), Duration::from_secs(60));
    }

    #[test]
    fn cap_below_the_base_is_refused() {
        for retry in [
            Retry::times(3).exponential("5s").max_delay("1s"),
            Retry::times(3).max_delay("1s").exponential("5s"),
            Retry::times(3).backoff(Backoff::exponential("5s").max_delay("1s")),
        ] {
            assert_eq!(refusal(&retry), "max_delay 1s is less than the base delay 5s; use at least 5s");
        }
    }

    #[test]
    fn factor_that_is_not_above_one_is_refused() {
        for factor in [1.0, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(refusal(&Retry::times(3).factor(factor)).starts_with(&format!("factor {factor} ")));
        }
    }

    #[test]
    fn zero_delay_is_refused() {
        assert!(refusal(&Retry::times(3).constant(0)).contains("constant delay 0s"));
        assert!(refusal(&Retry::times(3).linear(0, "1s")).contains("initial delay 0s"));
        assert!(refusal(&Retry::times(3).exponential(Duration::ZERO)).contains("base delay 0s"));
        assert!(refusal(&Retry::times(3).max_delay(0)).contains("max_delay 0s"));
    }

    #[test]
    fn jitter_out_of_range_is_refused() {
        assert!(refusal(&Retry::times(3).jitter(Jitter::proportional(1.5))).contains("1.5"));
        assert!(refusal(&Retry::times(3).jitter(Jitter::proportional(f64::NAN))).contains("NaN"));
        assert!(refusal(&Retry::times(3).jitter(Jitter::full().factor(1.5))).contains("factor 1.5 of jitter `full`"));
    }

    #[test]
    fn zero_max_duration_is_refused() {
        assert_eq!(
            refusal(&Retry::times(3).max_duration("0s")),
            "max_duration 0s must be greater than zero; set the total time for all attempts, or leave it out"
        );
    }

    #[test]
    fn invalid_duration_is_refused_with_its_text_and_source() {
        let bad = "5 parsecs";
        let table = [
            ("constant delay", Retry::times(3).constant(bad)),
            ("initial delay", Retry::times(3).linear(bad, "1s")),
            ("increment", Retry::times(3).linear("1s", bad)),
            ("base delay", Retry::times(3).exponential(bad)),
            ("max_delay", Retry::times(3).max_delay(bad)),
            ("max_delay", Retry::times(3).backoff(Backoff::simple().max_delay(bad))),
            ("max_duration", Retry::times(3).max_duration(bad)),
        ];
        for (what, retry) in table {
            let error = retry.check().expect_err("should be refused");
            assert!(error.to_string().starts_with(&format!("{what}: duration \"5 parsecs\" is not valid")), "{error}");
            assert!(error.source().is_some());
            assert_eq!(error.duration().map(|error| error.text()), Some(bad));
        }
    }

    #[test]
    fn first_invalid_duration_is_reported_even_if_replaced_later() {
        let retry = Retry::times(3).max_delay("first").exponential("second").constant("1s").max_delay("2s");
        assert!(refusal(&retry).contains("\"first\""));
    }

    #[test]
    fn every_reason_parses_back() {
        for reason in [Reason::MaxAttempts, Reason::MaxDuration] {
            assert_eq!(Reason::from_text(reason.as_str()), Some(reason));
        }
        assert_eq!(Reason::from_text("boredom"), None);
    }

    proptest! {
        #[test]
        fn no_retry_overflows_or_comes_early(
            failed in 1..=u32::MAX, first: i64, now: i64, seed: u64, base in 1..=LONGEST.as_secs(),
        ) {
            let retry = Retry::forever().exponential(Duration::from_secs(base));
            let now = Timestamp::from_millis(now);
            match retry.next(failed, Timestamp::from_millis(first), now, seed) {
                RetryNext::RetryAt { due, delay } => {
                    prop_assert!(delay <= LONGEST);
                    prop_assert!(due == Timestamp::MAX || due.since(now) >= delay);
                }
                RetryNext::Exhausted(reason) => prop_assert!(false, "{reason:?}"),
            }
        }
    }
}
