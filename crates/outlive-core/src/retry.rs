//! When to try again after a failure: the policy alone, given the time and a seed.

mod backoff;
mod error;
mod jitter;

use std::time::Duration;

pub use self::backoff::Backoff;
pub use self::error::PolicyError;
pub use self::jitter::Jitter;
use crate::duration::IntoDuration;
use crate::time::Timestamp;

/// How often to try again, and how long to wait before. Values are checked by [`Retry::check`], not where they are
/// given; the calls can come in any order.
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
#[must_use = "a policy does nothing until it is given to a step or a job"]
pub struct Retry {
    retries_max: Option<u32>,
    backoff: Backoff,
    /// The factor given to the policy itself, which holds whatever backoff is chosen later.
    factor: Option<f64>,
    /// The cap given to the policy itself, which holds whatever backoff is chosen later.
    delay_max: Option<Duration>,
    jitter: Jitter,
    duration_max: Option<Duration>,
    /// The first duration that could not be read.
    problem: Option<PolicyError>,
}

impl Retry {
    /// Up to `retries` more times after the first attempt: `retries + 1` attempts in all. Delays are those of
    /// [`Backoff::standard`] with a tenth of jitter until something else is said.
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(3).retries_max(), Some(3));
    /// ```
    pub fn times(retries: u32) -> Self {
        Self::up_to(Some(retries))
    }

    /// Until it succeeds, or the time of [`max_duration`](Self::max_duration) is up.
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::forever().retries_max(), None);
    /// ```
    pub fn forever() -> Self {
        Self::up_to(None)
    }

    /// The same delay every time; see [`Backoff::constant`].
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(3).constant("5s").base_delay(3).as_secs(), 5);
    /// ```
    pub fn constant(self, delay: impl IntoDuration) -> Self {
        self.backoff(Backoff::constant(delay))
    }

    /// `initial`, then `increment` more each time; see [`Backoff::linear`].
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(3).linear("1s", "2s").base_delay(3).as_secs(), 5);
    /// ```
    pub fn linear(self, initial: impl IntoDuration, increment: impl IntoDuration) -> Self {
        self.backoff(Backoff::linear(initial, increment))
    }

    /// `base`, then twice as long each time, or by another [`factor`](Self::factor); see [`Backoff::exponential`].
    /// There is no cap unless [`max_delay`](Self::max_delay) gives one.
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(3).exponential("1 hour").base_delay(3).as_secs(), 4 * 3600);
    /// ```
    pub fn exponential(self, base: impl IntoDuration) -> Self {
        self.backoff(Backoff::exponential(base))
    }

    /// As the function says, which is given the number of the retry; see [`Backoff::custom`].
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// # use std::time::Duration;
    /// let retry = Retry::times(3).custom(|k| Duration::from_secs(u64::from(k) * 7));
    /// assert_eq!(retry.base_delay(3).as_secs(), 21);
    /// ```
    pub fn custom(self, delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        self.backoff(Backoff::custom(delay))
    }

    /// The delays of [`Backoff::standard`].
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(9).standard().base_delay(9).as_secs(), 30);
    /// ```
    pub fn standard(self) -> Self {
        self.backoff(Backoff::standard())
    }

    /// The delays of [`Backoff::aggressive`].
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(9).aggressive().base_delay(9).as_secs(), 5);
    /// ```
    pub fn aggressive(self) -> Self {
        self.backoff(Backoff::aggressive())
    }

    /// The delays of [`Backoff::patient`].
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(9).patient().base_delay(9).as_secs(), 120);
    /// ```
    pub fn patient(self) -> Self {
        self.backoff(Backoff::patient())
    }

    /// The delays of [`Backoff::simple`].
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(9).simple().base_delay(9).as_secs(), 1);
    /// ```
    pub fn simple(self) -> Self {
        self.backoff(Backoff::simple())
    }

    /// The delays of a backoff made elsewhere, with its own cap unless [`max_delay`](Self::max_delay) gives another.
    ///
    /// ```
    /// # use outlive_core::retry::{Backoff, Retry};
    /// let retry = Retry::times(9).backoff(Backoff::exponential("1s").max_delay("1 minute"));
    /// assert_eq!(retry.base_delay(9).as_secs(), 60);
    /// ```
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        if let Some(problem) = backoff.problem() {
            self.problem.get_or_insert_with(|| problem.clone());
        }
        self.backoff = backoff;
        self.hold()
    }

    /// By how much an exponential delay grows each time; see [`Backoff::factor`].
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(3).factor(10.0).exponential("1s").base_delay(3).as_secs(), 100);
    /// ```
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = Some(factor);
        self.hold()
    }

    /// The longest delay, before jitter; see [`Backoff::max_delay`].
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(9).max_delay("10s").exponential("1s").base_delay(9).as_secs(), 10);
    /// ```
    pub fn max_delay(mut self, delay: impl IntoDuration) -> Self {
        self.delay_max = self.read("max_delay", delay).or(self.delay_max);
        self.hold()
    }

    /// How far delays may differ by chance; a tenth either way if not given. [`factor`](Self::factor) is of the backoff;
    /// for the jitter's own see [`Jitter::factor`].
    ///
    /// ```
    /// # use outlive_core::retry::{Jitter, Retry};
    /// assert_eq!(Retry::times(3).jitter(Jitter::none()).delay(1, 42).as_secs(), 1);
    /// ```
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// The time for all attempts together, counted from the start of the first: a retry that would start later is not
    /// made.
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// let retry = Retry::forever().max_duration("1 hour");
    /// assert_eq!(retry.duration_max().unwrap().as_secs(), 3600);
    /// ```
    pub fn max_duration(mut self, duration: impl IntoDuration) -> Self {
        self.duration_max = self.read("max_duration", duration).or(self.duration_max);
        self
    }

    /// Whether the values make sense, alone and together.
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// let error = Retry::times(3).exponential("1 minute").max_delay("30s").check().unwrap_err();
    /// assert_eq!(error.to_string(), "max_delay 30s is below the base delay 1m; give at least 1m");
    /// ```
    ///
    /// # Errors
    /// If a duration could not be read (the first of them is reported), a delay is zero, the cap is below the first
    /// delay, the factor does not grow, the jitter's proportion or factor is out of range, or no time is left to retry.
    pub fn check(&self) -> Result<(), PolicyError> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        self.backoff.check()?;
        self.jitter.check()?;
        match self.duration_max {
            Some(duration) if duration.is_zero() => Err(PolicyError::new(
                "max_duration 0s is zero; give the time for all attempts together, or leave it out",
            )),
            _ => Ok(()),
        }
    }

    /// What follows when `failed` attempts have failed, the first of which began at `first_started`. The seed is all
    /// there is of chance; who keeps the answer need not keep the seed.
    ///
    /// ```
    /// # use outlive_core::retry::{Jitter, Next, Reason, Retry};
    /// # use outlive_core::time::Timestamp;
    /// let retry = Retry::times(1).constant("5s").jitter(Jitter::none());
    /// let (start, now) = (Timestamp::from_millis(0), Timestamp::from_millis(100));
    /// let Next::RetryAt { due, .. } = retry.next(1, start, now, 42) else { panic!() };
    /// assert_eq!(due.as_millis(), 5100);
    /// assert_eq!(retry.next(2, start, due, 42), Next::Exhausted(Reason::MaxAttempts));
    /// ```
    #[must_use]
    pub fn next(&self, failed: u32, first_started: Timestamp, now: Timestamp, seed: u64) -> Next {
        debug_assert!(failed > 0, "only a failed attempt is followed by a retry");
        if self.retries_max.is_some_and(|max| failed > max) {
            return Next::Exhausted(Reason::MaxAttempts);
        }
        let delay = self.delay(failed, seed);
        let due = now.after(delay);
        if self.duration_max.is_some_and(|max| due > first_started.after(max)) {
            return Next::Exhausted(Reason::MaxDuration);
        }
        Next::RetryAt { due, delay }
    }

    /// The delay before retry `k`, counted from 1, with jitter. The same seed always gives the same delay.
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// let retry = Retry::times(3);
    /// assert_eq!(retry.delay(2, 42), retry.delay(2, 42));
    /// assert!((1.8..=2.2).contains(&retry.delay(2, 42).as_secs_f64()));
    /// ```
    #[must_use]
    pub fn delay(&self, k: u32, seed: u64) -> Duration {
        self.jitter.delay(&self.backoff, k, seed)
    }

    /// The delay before retry `k`, counted from 1, without jitter.
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(3).base_delay(3).as_secs(), 4);
    /// ```
    #[must_use]
    pub fn base_delay(&self, k: u32) -> Duration {
        self.backoff.delay(k)
    }

    /// How many retries there may be after the first attempt; none if there is no limit.
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::from(3).retries_max(), Some(3));
    /// ```
    #[must_use]
    pub fn retries_max(&self) -> Option<u32> {
        self.retries_max
    }

    /// The time for all attempts together, if there is a limit.
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(3).duration_max(), None);
    /// ```
    #[must_use]
    pub fn duration_max(&self) -> Option<Duration> {
        self.duration_max
    }

    /// Whether there is a limit to the time for all attempts together, which makes the start of the first worth keeping.
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert!(Retry::forever().max_duration("1 hour").has_max_duration());
    /// ```
    #[must_use]
    pub fn has_max_duration(&self) -> bool {
        self.duration_max.is_some()
    }

    /// The kind of backoff, as in [`Backoff::kind`].
    ///
    /// ```
    /// # use outlive_core::retry::Retry;
    /// assert_eq!(Retry::times(3).simple().backoff_kind(), "constant");
    /// ```
    #[must_use]
    pub fn backoff_kind(&self) -> &'static str {
        self.backoff.kind()
    }

    /// The kind of jitter, as in [`Jitter::kind`].
    ///
    /// ```
    /// # use outlive_core::retry::{Jitter, Retry};
    /// assert_eq!(Retry::times(3).jitter(Jitter::full()).jitter_kind(), "full");
    /// ```
    #[must_use]
    pub fn jitter_kind(&self) -> &'static str {
        self.jitter.kind()
    }

    fn up_to(retries_max: Option<u32>) -> Self {
        Self {
            retries_max,
            backoff: Backoff::standard(),
            factor: None,
            delay_max: None,
            jitter: Jitter::default(),
            duration_max: None,
            problem: None,
        }
    }

    /// Puts the policy's own factor and cap on the backoff, so that it does not matter which was given first.
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

/// That many retries, with the delays of [`Backoff::standard`].
impl From<u32> for Retry {
    fn from(retries: u32) -> Self {
        Self::times(retries)
    }
}

/// What follows a failed attempt.
///
/// ```
/// # use outlive_core::retry::{Next, Reason, Retry};
/// # use outlive_core::time::Timestamp;
/// let now = Timestamp::from_millis(0);
/// assert_eq!(Retry::times(0).next(1, now, now, 42), Next::Exhausted(Reason::MaxAttempts));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Next {
    /// Another attempt.
    RetryAt {
        /// When it may start.
        due: Timestamp,
        /// How long that is from now.
        delay: Duration,
    },
    /// No other attempt.
    Exhausted(Reason),
}

/// Why there is no other attempt.
///
/// ```
/// # use outlive_core::retry::Reason;
/// assert_eq!(Reason::MaxAttempts.as_str(), "max attempts");
/// assert_eq!(Reason::from_text("max duration"), Some(Reason::MaxDuration));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// All retries have been made.
    MaxAttempts,
    /// The next one would start after the time for all attempts together.
    MaxDuration,
}

impl Reason {
    /// The name in the journal.
    ///
    /// ```
    /// assert_eq!(outlive_core::retry::Reason::MaxDuration.as_str(), "max duration");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxAttempts => "max attempts",
            Self::MaxDuration => "max duration",
        }
    }

    /// The reason of that name.
    ///
    /// ```
    /// # use outlive_core::retry::Reason;
    /// assert_eq!(Reason::from_text("max attempts"), Some(Reason::MaxAttempts));
    /// ```
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

    /// Fails every attempt at once and gives how many retries there were, how long they took and why they ended.
    fn exhaust(retry: &Retry) -> (u32, Duration, Reason) {
        let mut now = START;
        for failed in 1.. {
            match retry.next(failed, START, now, 42) {
                Next::RetryAt { due, delay } => {
                    assert_eq!(due, now.after(delay));
                    now = due;
                }
                Next::Exhausted(reason) => return (failed - 1, now.since(START), reason),
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
    fn no_times_means_no_retry() {
        assert_eq!(exhaust(&Retry::times(0)), (0, Duration::ZERO, Reason::MaxAttempts));
    }

    #[test]
    fn forever_never_runs_out_of_attempts() {
        let next = Retry::forever().next(u32::MAX, START, START, 42);
        assert!(matches!(next, Next::RetryAt { .. }), "{next:?}");
    }

    #[test]
    fn a_retry_that_would_start_after_the_time_for_all_is_not_made() {
        let retry = Retry::forever().simple().jitter(Jitter::none());
        assert_eq!(exhaust(&retry.clone().max_duration("5s")).0, 5, "the fifth starts just in time");
        assert_eq!(exhaust(&retry.clone().max_duration("4999 ms")).0, 4);
        assert_eq!(exhaust(&retry.max_duration("1ms")), (0, Duration::ZERO, Reason::MaxDuration));
    }

    #[test]
    fn the_time_for_all_counts_from_the_first_start_and_includes_the_work() {
        let retry = Retry::times(9).simple().jitter(Jitter::none()).max_duration("1 minute");
        let late = START.after(Duration::from_millis(59_001));
        assert_eq!(retry.next(1, START, late, 42), Next::Exhausted(Reason::MaxDuration));
    }

    #[test]
    fn out_of_attempts_goes_before_out_of_time() {
        let retry = Retry::times(1).max_duration("1ms");
        assert_eq!(retry.next(2, START, START, 42), Next::Exhausted(Reason::MaxAttempts));
    }

    #[test]
    fn without_more_words_delays_are_standard_with_a_tenth_of_jitter() {
        let retry = Retry::times(3);
        assert_eq!(base_delays_ms(&retry, 7), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(retry.jitter, Jitter::proportional(0.1));
        assert_eq!(retry.check(), Ok(()));
    }

    #[test]
    fn a_whole_number_is_a_policy() {
        fn retries(policy: impl Into<Retry>) -> Option<u32> {
            policy.into().retries_max()
        }
        assert_eq!(retries(3), Some(3));
        assert_eq!(retries(Retry::forever()), None);
    }

    #[test]
    fn presets_replace_one_another() {
        assert_eq!(base_delays_ms(&Retry::times(1).aggressive(), 7), [100, 200, 400, 800, 1_600, 3_200, 5_000]);
        assert_eq!(base_delays_ms(&Retry::times(1).aggressive().patient(), 2), [5_000, 10_000]);
        assert_eq!(base_delays_ms(&Retry::times(1).patient().simple(), 2), [1_000, 1_000]);
        assert_eq!(base_delays_ms(&Retry::times(1).simple().standard(), 2), [1_000, 2_000]);
    }

    #[test]
    fn the_order_of_cap_factor_and_backoff_does_not_matter() {
        let expected = [1_000, 3_000, 9_000, 10_000];
        let after = Retry::times(1).exponential("1s").factor(3.0).max_delay("10s");
        let before = Retry::times(1).max_delay("10s").factor(3.0).exponential("1s");
        assert_eq!(base_delays_ms(&after, 4), expected);
        assert_eq!(base_delays_ms(&before, 4), expected);
    }

    #[test]
    fn an_explicit_backoff_has_no_cap_until_one_is_given() {
        let retry = Retry::times(3).exponential("1 hour");
        assert_eq!(retry.check(), Ok(()));
        assert_eq!(base_delays_ms(&retry, 3), [3_600_000, 7_200_000, 14_400_000]);
    }

    #[test]
    fn a_cap_alone_replaces_that_of_the_preset() {
        assert_eq!(base_delays_ms(&Retry::times(9).max_delay("5s"), 5), [1_000, 2_000, 4_000, 5_000, 5_000]);
        assert_eq!(Retry::times(9).max_delay("1 minute").base_delay(9), Duration::from_secs(60));
    }

    #[test]
    fn a_cap_below_the_base_is_refused() {
        for retry in [
            Retry::times(3).exponential("5s").max_delay("1s"),
            Retry::times(3).max_delay("1s").exponential("5s"),
            Retry::times(3).backoff(Backoff::exponential("5s").max_delay("1s")),
        ] {
            assert_eq!(refusal(&retry), "max_delay 1s is below the base delay 5s; give at least 5s");
        }
    }

    #[test]
    fn a_factor_of_one_or_less_or_no_number_is_refused() {
        for factor in [1.0, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(refusal(&Retry::times(3).factor(factor)).starts_with(&format!("factor {factor} ")));
        }
    }

    #[test]
    fn a_zero_delay_is_refused() {
        assert!(refusal(&Retry::times(3).constant(0)).contains("constant delay 0s"));
        assert!(refusal(&Retry::times(3).linear(0, "1s")).contains("initial delay 0s"));
        assert!(refusal(&Retry::times(3).exponential(Duration::ZERO)).contains("base delay 0s"));
        assert!(refusal(&Retry::times(3).max_delay(0)).contains("max_delay 0s"));
    }

    #[test]
    fn a_jitter_that_is_no_proportion_is_refused() {
        assert!(refusal(&Retry::times(3).jitter(Jitter::proportional(1.5))).contains("1.5"));
        assert!(refusal(&Retry::times(3).jitter(Jitter::proportional(f64::NAN))).contains("NaN"));
        assert!(refusal(&Retry::times(3).jitter(Jitter::full().factor(1.5))).contains("factor 1.5 of jitter `full`"));
    }

    #[test]
    fn no_time_at_all_is_refused() {
        assert_eq!(
            refusal(&Retry::times(3).max_duration("0s")),
            "max_duration 0s is zero; give the time for all attempts together, or leave it out"
        );
    }

    #[test]
    fn an_unreadable_duration_is_refused_with_its_text_and_its_source() {
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
            assert!(error.to_string().starts_with(&format!("{what}: duration \"5 parsecs\" is not ")), "{error}");
            assert!(error.source().is_some());
            assert_eq!(error.duration().map(|error| error.text()), Some(bad));
        }
    }

    #[test]
    fn the_first_unreadable_duration_is_reported_even_if_replaced_later() {
        let retry = Retry::times(3).max_delay("first").exponential("second").constant("1s").max_delay("2s");
        assert!(refusal(&retry).contains("\"first\""));
    }

    #[test]
    fn every_reason_reads_back() {
        for reason in [Reason::MaxAttempts, Reason::MaxDuration] {
            assert_eq!(Reason::from_text(reason.as_str()), Some(reason));
        }
        assert_eq!(Reason::from_text("boredom"), None);
    }

    proptest! {
        #[test]
        fn nothing_overflows_or_comes_early(
            failed in 1..=u32::MAX, first: i64, now: i64, seed: u64, base in 1..=LONGEST.as_secs(),
        ) {
            let retry = Retry::forever().exponential(Duration::from_secs(base));
            let now = Timestamp::from_millis(now);
            match retry.next(failed, Timestamp::from_millis(first), now, seed) {
                Next::RetryAt { due, delay } => {
                    prop_assert!(delay <= LONGEST);
                    prop_assert!(due == Timestamp::MAX || due.since(now) >= delay);
                }
                Next::Exhausted(reason) => prop_assert!(false, "{reason:?}"),
            }
        }
    }
}
