//! Delays before each retry, without jitter.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::PolicyError;
use crate::duration::{IntoDuration, LONGEST, text};

/// The delay before retry 1, 2, 3 and so on. Values are validated by [`Backoff::check`], not by the builder methods, so
/// the calls can come in any order.
///
/// ```
/// use outlive_core::retry::Backoff;
///
/// let backoff = Backoff::exponential("1 second").max_delay("30 seconds");
/// let seconds: Vec<u64> = (1..=7).map(|k| backoff.delay(k).as_secs()).collect();
/// assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a backoff does nothing until it is passed to a `Retry`"]
pub struct Backoff {
    shape: Shape,
    factor: Option<f64>,
    delay_max: Option<Duration>,
    /// The first duration that could not be parsed.
    problem: Option<PolicyError>,
}

#[derive(Clone, Debug)]
enum Shape {
    Constant(Duration),
    Linear { initial: Duration, increment: Duration },
    Exponential(Duration),
    Custom(Custom),
}

#[derive(Clone)]
struct Custom(Arc<dyn Fn(u32) -> Duration + Send + Sync>);

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

/// The default growth factor of an exponential delay.
const FACTOR: f64 = 2.0;

/// Replaces a duration that could not be parsed, in case an invalid policy is used anyway.
const STAND_IN: Duration = Duration::from_secs(1);

impl Backoff {
    /// Uses the same delay every time.
    pub fn constant(delay: impl IntoDuration) -> Self {
        let (delay, problem) = read("constant delay", delay);
        Self::shaped(Shape::Constant(delay), problem)
    }

    /// Starts with `initial` and adds `increment` each time. An increment of zero is allowed and gives a constant
    /// delay.
    ///
    /// ```
    /// # use outlive_core::retry::Backoff;
    /// let backoff = Backoff::linear("1s", "2s").max_delay("10s");
    /// let seconds: Vec<u64> = (1..=6).map(|k| backoff.delay(k).as_secs()).collect();
    /// assert_eq!(seconds, [1, 3, 5, 7, 9, 10]);
    /// ```
    pub fn linear(initial: impl IntoDuration, increment: impl IntoDuration) -> Self {
        let (initial, first) = read("initial delay", initial);
        let (increment, second) = read("increment", increment);
        Self::shaped(Shape::Linear { initial, increment }, first.or(second))
    }

    /// Starts with `base` and multiplies by the [`factor`](Self::factor) each time.
    pub fn exponential(base: impl IntoDuration) -> Self {
        let (base, problem) = read("base delay", base);
        Self::shaped(Shape::Exponential(base), problem)
    }

    /// Calls a function with the number of the retry to get the delay, which may be zero.
    ///
    /// ```
    /// # use outlive_core::retry::Backoff;
    /// # use std::time::Duration;
    /// let backoff = Backoff::custom(|k| Duration::from_secs(if k < 3 { 1 } else { 60 }));
    /// assert_eq!(backoff.delay(3).as_secs(), 60);
    /// ```
    pub fn custom(delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Self::shaped(Shape::Custom(Custom(Arc::new(delay))), None)
    }

    /// Exponential from 1 s up to 30 s; the default of [`Retry`](super::Retry).
    pub fn standard() -> Self {
        Self::exponential(Duration::from_secs(1)).capped(Duration::from_secs(30))
    }

    /// Exponential from 100 ms up to 5 s, for services that recover quickly.
    pub fn aggressive() -> Self {
        Self::exponential(Duration::from_millis(100)).capped(Duration::from_secs(5))
    }

    /// Exponential from 5 s up to 2 min, for services that need time to recover.
    pub fn patient() -> Self {
        Self::exponential(Duration::from_secs(5)).capped(Duration::from_secs(120))
    }

    /// A constant delay of 1 s.
    pub fn simple() -> Self {
        Self::constant(Duration::from_secs(1))
    }

    /// Sets the growth factor of an exponential delay; the default is 2. [`check`](Self::check) rejects it for other
    /// backoffs.
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = Some(factor);
        self
    }

    /// Sets the longest delay before jitter. There is no limit by default.
    pub fn max_delay(mut self, delay: impl IntoDuration) -> Self {
        match delay.into_duration() {
            Ok(cap) => self.capped(cap),
            Err(error) => {
                self.problem.get_or_insert(PolicyError::unreadable("max_delay", error));
                self
            }
        }
    }

    /// Returns the delay before retry `k`, counted from 1. However large `k` is, the delay is at most the cap, or
    /// [`LONGEST`].
    #[must_use]
    pub fn delay(&self, k: u32) -> Duration {
        let before = k.saturating_sub(1);
        let delay = match &self.shape {
            Shape::Constant(delay) => *delay,
            Shape::Linear { initial, increment } => initial.saturating_add(increment.saturating_mul(before)),
            Shape::Exponential(base) => scale(*base, self.factor.unwrap_or(FACTOR).powf(f64::from(before))),
            Shape::Custom(custom) => custom.0(k.max(1)),
        };
        delay.min(self.cap())
    }

    /// Validates the values, individually and in combination.
    ///
    /// # Errors
    /// If a duration could not be parsed, a delay is zero, the cap is below the first delay, or the factor does not
    /// increase delays.
    pub fn check(&self) -> Result<(), PolicyError> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        self.check_first_delay()?;
        self.check_cap()?;
        self.check_factor()
    }

    /// Returns `"constant"`, `"linear"`, `"exponential"` or `"custom"`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.shape {
            Shape::Constant(_) => "constant",
            Shape::Linear { .. } => "linear",
            Shape::Exponential(_) => "exponential",
            Shape::Custom(_) => "custom",
        }
    }

    /// Returns the longest possible delay.
    pub(super) fn cap(&self) -> Duration {
        self.delay_max.unwrap_or(LONGEST).min(LONGEST)
    }

    pub(super) fn capped(mut self, cap: Duration) -> Self {
        self.delay_max = Some(cap);
        self
    }

    pub(super) fn problem(&self) -> Option<&PolicyError> {
        self.problem.as_ref()
    }

    fn shaped(shape: Shape, problem: Option<PolicyError>) -> Self {
        Self { shape, factor: None, delay_max: None, problem }
    }

    /// Returns the name and value of the first delay, unless a custom function decides it.
    fn first_delay(&self) -> Option<(&'static str, Duration)> {
        match self.shape {
            Shape::Constant(delay) => Some(("constant delay", delay)),
            Shape::Linear { initial, .. } => Some(("initial delay", initial)),
            Shape::Exponential(base) => Some(("base delay", base)),
            Shape::Custom(_) => None,
        }
    }

    fn check_first_delay(&self) -> Result<(), PolicyError> {
        match self.first_delay() {
            Some((what, delay)) => check_not_zero(what, delay),
            None => Ok(()),
        }
    }

    fn check_cap(&self) -> Result<(), PolicyError> {
        let Some(cap) = self.delay_max else { return Ok(()) };
        check_not_zero("max_delay", cap)?;
        match self.first_delay() {
            Some((what, first)) if cap < first => Err(PolicyError::new(format!(
                "max_delay {} is less than the {what} {first}; use at least {first}",
                text(cap),
                first = text(first)
            ))),
            _ => Ok(()),
        }
    }

    fn check_factor(&self) -> Result<(), PolicyError> {
        let Some(factor) = self.factor else { return Ok(()) };
        if !matches!(self.shape, Shape::Exponential(_)) {
            let kind = self.kind();
            return Err(PolicyError::new(format!(
                "factor {factor} has no effect on a {kind} backoff; remove it, or use `exponential`"
            )));
        }
        if factor.is_finite() && factor > 1.0 {
            return Ok(());
        }
        Err(PolicyError::new(format!("factor {factor} does not increase delays; use a number above 1, or `constant`")))
    }
}

/// Multiplies `delay` by `by`, clamped between zero and [`LONGEST`].
pub(super) fn scale(delay: Duration, by: f64) -> Duration {
    let seconds = delay.as_secs_f64() * by;
    if seconds > 0.0 {
        Duration::try_from_secs_f64(seconds).map_or(LONGEST, |d| d.min(LONGEST))
    } else {
        Duration::ZERO
    }
}

fn check_not_zero(what: &str, delay: Duration) -> Result<(), PolicyError> {
    if delay.is_zero() {
        return Err(PolicyError::new(format!("{what} 0s must be greater than zero")));
    }
    Ok(())
}

fn read(what: &str, delay: impl IntoDuration) -> (Duration, Option<PolicyError>) {
    match delay.into_duration() {
        Ok(delay) => (delay, None),
        Err(error) => (STAND_IN, Some(PolicyError::unreadable(what, error))),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use proptest::prelude::*;

    use super::*;

    fn delays_ms(backoff: &Backoff, count: u32) -> Vec<u128> {
        (1..=count).map(|k| backoff.delay(k).as_nanos()).map(|nanos| nanos / 1_000_000).collect()
    }

    fn refusal(backoff: &Backoff) -> String {
        backoff.check().expect_err("should be refused").to_string()
    }

    #[test]
    fn exponential_delay_doubles_up_to_its_cap() {
        let backoff = Backoff::exponential("1s").max_delay("30s");
        assert_eq!(delays_ms(&backoff, 7), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    }

    #[test]
    fn linear_delay_grows_by_its_increment_up_to_its_cap() {
        let backoff = Backoff::linear("1s", "2s").max_delay("10s");
        assert_eq!(delays_ms(&backoff, 7), [1_000, 3_000, 5_000, 7_000, 9_000, 10_000, 10_000]);
    }

    #[test]
    fn factor_other_than_two_is_exact_to_the_millisecond() {
        assert_eq!(delays_ms(&Backoff::exponential("100ms").factor(1.5), 5), [100, 150, 225, 337, 506]);
        assert_eq!(delays_ms(&Backoff::exponential("1ms").factor(10.0), 6), [1, 10, 100, 1_000, 10_000, 100_000]);
    }

    #[test]
    fn presets_match_the_documentation() {
        assert_eq!(delays_ms(&Backoff::standard(), 7), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(delays_ms(&Backoff::aggressive(), 8), [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(delays_ms(&Backoff::patient(), 7), [5_000, 10_000, 20_000, 40_000, 80_000, 120_000, 120_000]);
        assert_eq!(delays_ms(&Backoff::simple(), 3), [1_000, 1_000, 1_000]);
        for preset in [Backoff::standard(), Backoff::aggressive(), Backoff::patient(), Backoff::simple()] {
            assert_eq!(preset.check(), Ok(()));
        }
    }

    #[test]
    fn custom_backoff_follows_the_function_up_to_its_cap() {
        let backoff = Backoff::custom(|k| Duration::from_secs(u64::from(k * k))).max_delay("10s");
        assert_eq!(delays_ms(&backoff, 4), [1_000, 4_000, 9_000, 10_000]);
        assert_eq!(backoff.check(), Ok(()));
    }

    #[test]
    fn uncapped_delays_stop_at_the_longest_duration() {
        for backoff in [Backoff::exponential("1s"), Backoff::linear("1s", LONGEST), Backoff::custom(|_| Duration::MAX)]
        {
            assert_eq!(backoff.delay(u32::MAX), LONGEST, "{backoff:?}");
        }
    }

    #[test]
    fn retry_zero_counts_as_the_first() {
        assert_eq!(Backoff::exponential("3s").delay(0), Duration::from_secs(3));
    }

    #[test]
    fn zero_delay_is_refused() {
        assert_eq!(refusal(&Backoff::constant(0)), "constant delay 0s must be greater than zero");
        assert_eq!(refusal(&Backoff::linear("0s", "1s")), "initial delay 0s must be greater than zero");
        assert_eq!(refusal(&Backoff::exponential("0 ms")), "base delay 0s must be greater than zero");
        assert_eq!(refusal(&Backoff::simple().max_delay(0)), "max_delay 0s must be greater than zero");
    }

    #[test]
    fn zero_increment_is_a_constant_delay() {
        assert_eq!(Backoff::linear("1s", 0).check(), Ok(()));
    }

    #[test]
    fn negative_delay_is_refused() {
        assert!(refusal(&Backoff::constant(-5)).starts_with("constant delay: duration \"-5\" is negative; "));
        assert!(refusal(&Backoff::linear("1s", "-1s")).starts_with("increment: duration \"-1s\" is negative; "));
    }

    #[test]
    fn cap_below_the_first_delay_is_refused() {
        let of = |backoff: Backoff| refusal(&backoff.max_delay("1s"));
        assert_eq!(of(Backoff::constant("5s")), "max_delay 1s is less than the constant delay 5s; use at least 5s");
        assert_eq!(of(Backoff::linear("5s", "1s")), "max_delay 1s is less than the initial delay 5s; use at least 5s");
        assert_eq!(of(Backoff::exponential("5s")), "max_delay 1s is less than the base delay 5s; use at least 5s");
        assert_eq!(Backoff::exponential("5s").max_delay("5s").check(), Ok(()));
    }

    #[test]
    fn factor_that_does_not_grow_is_refused() {
        for factor in [1.0, 0.5, 0.0, -2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let message = refusal(&Backoff::exponential("1s").factor(factor));
            assert!(message.starts_with(&format!("factor {factor} does not increase delays; ")), "{message}");
        }
        assert_eq!(Backoff::exponential("1s").factor(1.1).check(), Ok(()));
    }

    #[test]
    fn factor_without_an_exponential_backoff_is_refused() {
        let message = refusal(&Backoff::linear("1s", "1s").factor(3.0));
        assert_eq!(message, "factor 3 has no effect on a linear backoff; remove it, or use `exponential`");
    }

    #[test]
    fn first_invalid_duration_is_reported() {
        let error = Backoff::exponential("soon").max_delay("never").check().expect_err("should be refused");
        assert!(error.to_string().starts_with("base delay: duration \"soon\" is not valid; "), "{error}");
        let source = error.source().expect("the duration error is the source");
        assert!(source.to_string().starts_with("duration \"soon\""));
    }

    proptest! {
        #[test]
        fn no_delay_overflows_or_exceeds_the_cap(
            (first, more, cap) in any::<(u64, u64, u64)>(), factor in any::<f64>(), k in any::<u32>(),
        ) {
            let shapes = [
                Backoff::constant(first),
                Backoff::linear(first, more),
                Backoff::exponential(first).factor(factor),
                Backoff::custom(move |_| Duration::from_millis(first)),
            ];
            for backoff in shapes {
                prop_assert!(backoff.delay(k) <= LONGEST);
                prop_assert!(backoff.clone().capped(Duration::from_millis(cap)).delay(k) <= Duration::from_millis(cap));
            }
        }

        #[test]
        fn valid_backoff_never_shrinks(base in 1..1_000_000_u64, factor in 1.001..100.0_f64, k in 1..10_000_u32) {
            let backoff = Backoff::exponential(base).factor(factor);
            prop_assert_eq!(backoff.check(), Ok(()));
            prop_assert!(backoff.delay(k) <= backoff.delay(k + 1));
        }
    }
}
