//! Random variation of retry delays, so that callers that failed together do not retry together.

use std::fmt;
use std::time::Duration;

use super::backoff::{Backoff, scale};
use super::error::PolicyError;

/// How far a delay may differ from the backoff. The same seed always gives the same delay.
///
/// ```
/// use outlive_core::retry::{Backoff, Jitter};
///
/// let backoff = Backoff::constant("10 seconds");
/// let delay = Jitter::equal().delay(&backoff, 1, 42);
/// assert!((5.0..=10.0).contains(&delay.as_secs_f64()));
/// assert_eq!(delay, Jitter::equal().delay(&backoff, 1, 42));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[must_use = "a jitter does nothing until it is passed to a `Retry`"]
pub struct Jitter {
    kind: JitterKind,
    factor: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum JitterKind {
    None,
    Proportional(f64),
    Full,
    Equal,
    Decorrelated,
}

/// How many previous delays a decorrelated delay is computed from. Up to that retry it is exact. Later, the start is so
/// far back that it has no influence, and the cost of retry four billion stays small. (With a factor close to 2.7 some
/// influence can remain. The delay is still between the first one and the cap, and still depends on the seed alone.)
const LOOK_BACK_MAX: u32 = 1_024;

/// The maximum ratio of a decorrelated delay to the previous one.
const DECORRELATED_FACTOR: f64 = 3.0;

impl Jitter {
    /// Uses the delay of the backoff as it is.
    pub fn none() -> Self {
        Self::of(JitterKind::None)
    }

    /// Varies the delay by up to this proportion either way: 0.1 turns 10 s into 9 s to 11 s. [`check`](Self::check)
    /// requires 0 to 1.
    pub fn proportional(part: f64) -> Self {
        Self::of(JitterKind::Proportional(part))
    }

    /// Picks anything from zero to the delay.
    pub fn full() -> Self {
        Self::of(JitterKind::Full)
    }

    /// Picks anything from half the delay to the whole delay.
    pub fn equal() -> Self {
        Self::of(JitterKind::Equal)
    }

    /// Picks anything from the first delay to three times the previous delay, within the cap. It uses only the first
    /// delay and the cap of the backoff; without a cap it keeps growing.
    pub fn decorrelated() -> Self {
        Self::of(JitterKind::Decorrelated)
    }

    /// Sets the amount of randomness.
    ///
    /// For [`full`](Self::full) and [`equal`](Self::equal) it is the random share of the delay: above 0, up to 1. A
    /// factor of 0.3 turns 10 s into 7 s to 10 s. The default is 1 for full and 0.5 for equal.
    ///
    /// For [`decorrelated`](Self::decorrelated) it replaces the 3 in "three times the previous delay" and must be above
    /// 1.
    ///
    /// The others take no factor: [`proportional`](Self::proportional) has its own argument. [`check`](Self::check)
    /// rejects values that are out of range.
    ///
    /// ```
    /// # use outlive_core::retry::{Backoff, Jitter};
    /// // Spread the callers, but wait at least 7 of the 10 seconds.
    /// let delay = Jitter::full().factor(0.3).delay(&Backoff::constant("10s"), 1, 42);
    /// assert!((7.0..=10.0).contains(&delay.as_secs_f64()));
    ///
    /// let delay = Jitter::decorrelated().factor(1.5).delay(&Backoff::standard(), 1, 42);
    /// assert!((1.0..=1.5).contains(&delay.as_secs_f64()));
    /// ```
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = Some(factor);
        self
    }

    /// Returns the delay before retry `k`, counted from 1. Jitter is applied after the cap of the backoff.
    #[must_use]
    pub fn delay(self, backoff: &Backoff, k: u32, seed: u64) -> Duration {
        let exact = |k| backoff.delay(k);
        let chance = uniform(seed, k);
        match self.kind {
            JitterKind::None => exact(k),
            JitterKind::Proportional(part) => between(scale(exact(k), 1.0 - part), scale(exact(k), 1.0 + part), chance),
            JitterKind::Full => between(self.fixed(exact(k)).unwrap_or(Duration::ZERO), exact(k), chance),
            JitterKind::Equal => between(self.fixed(exact(k)).unwrap_or(exact(k) / 2), exact(k), chance),
            JitterKind::Decorrelated => {
                let factor = self.factor.unwrap_or(DECORRELATED_FACTOR);
                decorrelated(exact(1), backoff.cap(), factor, k.max(1), seed)
            }
        }
    }

    /// Validates the values.
    ///
    /// # Errors
    /// If a proportion is not between 0 and 1, or a [`factor`](Self::factor) is out of range or has no effect.
    pub fn check(self) -> Result<(), PolicyError> {
        if let JitterKind::Proportional(part) = self.kind
            && !(0.0..=1.0).contains(&part)
        {
            return Err(PolicyError::new(format!("jitter proportion {part} is not between 0 and 1; try 0.1")));
        }
        let Some(factor) = self.factor else { return Ok(()) };
        let kind = self.kind();
        let problem = match self.kind {
            JitterKind::Full | JitterKind::Equal if factor > 0.0 && factor <= 1.0 => return Ok(()),
            JitterKind::Decorrelated if factor.is_finite() && factor > 1.0 => return Ok(()),
            JitterKind::Full | JitterKind::Equal => {
                "must be above 0 and at most 1: it is the random share of the delay"
            }
            JitterKind::Decorrelated => "must be a number above 1: it multiplies the previous delay",
            JitterKind::Proportional(_) => "has no effect; pass the proportion to `Jitter::proportional`",
            JitterKind::None => "has no effect; remove it, or use `Jitter::full`",
        };
        Err(PolicyError::new(format!("factor {factor} of jitter `{kind}` {problem}")))
    }

    /// Returns `"none"`, `"proportional"`, `"full"`, `"equal"` or `"decorrelated"`.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self.kind {
            JitterKind::None => "none",
            JitterKind::Proportional(_) => "proportional",
            JitterKind::Full => "full",
            JitterKind::Equal => "equal",
            JitterKind::Decorrelated => "decorrelated",
        }
    }

    fn of(kind: JitterKind) -> Self {
        Self { kind, factor: None }
    }

    /// Returns the share of a delay that is not random, if a factor is set.
    fn fixed(self, delay: Duration) -> Option<Duration> {
        self.factor.map(|factor| scale(delay, 1.0 - factor))
    }
}

/// Varies the delay by up to 10% either way.
impl Default for Jitter {
    fn default() -> Self {
        Self::proportional(0.1)
    }
}

impl fmt::Display for Jitter {
    /// Writes the kind, with its proportion or factor if it has one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.factor) {
            (JitterKind::Proportional(number), _) | (_, Some(number)) => write!(f, "{}({number})", self.kind()),
            _ => f.write_str(self.kind()),
        }
    }
}

fn decorrelated(base: Duration, cap: Duration, factor: f64, k: u32, seed: u64) -> Duration {
    let first = k.saturating_sub(LOOK_BACK_MAX - 1).max(1);
    // Float rounding may make the product of a long delay smaller than the delay.
    let most = |previous| scale(previous, factor).max(base);
    (first..=k).fold(base, |previous, k| between(base, most(previous), uniform(seed, k)).min(cap))
}

/// Interpolates between `low` and `high`, with `chance` from 0 to 1.
fn between(low: Duration, high: Duration, chance: f64) -> Duration {
    low.saturating_add(scale(high.saturating_sub(low), chance)).min(high)
}

/// Returns a number from 0 up to 1, from the top 53 bits, which an f64 represents exactly.
fn uniform(seed: u64, k: u32) -> f64 {
    const BITS: u32 = 53;
    (splitmix64(seed, k) >> (u64::BITS - BITS)) as f64 / (1_u64 << BITS) as f64
}

/// Returns the `k`-th number of the splitmix64 sequence that starts at `seed`.
fn splitmix64(seed: u64, k: u32) -> u64 {
    let state = seed.wrapping_add(u64::from(k).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::duration::LONGEST;

    /// Returns the smallest, mean and largest delay before retry 1, in seconds, over ten thousand seeds.
    fn spread(jitter: Jitter, backoff: &Backoff) -> (f64, f64, f64) {
        let delays: Vec<f64> = (0..10_000).map(|seed| jitter.delay(backoff, 1, seed).as_secs_f64()).collect();
        let mean = delays.iter().sum::<f64>() / 10_000.0;
        (delays.iter().copied().fold(f64::MAX, f64::min), mean, delays.iter().copied().fold(0.0, f64::max))
    }

    /// Asserts that the delays fill `low` to `high` evenly and never leave that range.
    fn assert_fills(jitter: Jitter, backoff: &Backoff, low: f64, high: f64) {
        let (min, mean, max) = spread(jitter, backoff);
        let near = (high - low) * 0.01;
        assert!((low..low + near).contains(&min), "{jitter}: smallest {min}, not near {low}");
        assert!((high - near..=high).contains(&max), "{jitter}: largest {max}, not near {high}");
        let middle = f64::midpoint(low, high);
        assert!((mean - middle).abs() < (high - low) * 0.02, "{jitter}: mean {mean}, not near {middle}");
    }

    #[test]
    fn splitmix64_matches_the_published_numbers() {
        let numbers = [1, 2, 3].map(|k| splitmix64(1_234_567, k));
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn no_jitter_keeps_the_delay() {
        assert_eq!(spread(Jitter::none(), &Backoff::constant("10s")), (10.0, 10.0, 10.0));
    }

    #[test]
    fn proportional_jitter_fills_its_range_on_both_sides() {
        assert_fills(Jitter::default(), &Backoff::constant("10s"), 9.0, 11.0);
        assert_fills(Jitter::proportional(0.5), &Backoff::constant("10s"), 5.0, 15.0);
        assert_fills(Jitter::proportional(1.0), &Backoff::constant("10s"), 0.0, 20.0);
        assert_eq!(spread(Jitter::proportional(0.0), &Backoff::constant("10s")).0, 10.0);
    }

    #[test]
    fn full_jitter_fills_zero_to_the_delay() {
        assert_fills(Jitter::full(), &Backoff::constant("10s"), 0.0, 10.0);
    }

    #[test]
    fn equal_jitter_fills_the_upper_half() {
        assert_fills(Jitter::equal(), &Backoff::constant("10s"), 5.0, 10.0);
    }

    #[test]
    fn decorrelated_jitter_first_fills_one_to_three_times_the_base() {
        assert_fills(Jitter::decorrelated(), &Backoff::exponential("10s"), 10.0, 30.0);
    }

    #[test]
    fn decorrelated_jitter_stays_between_base_and_triple_the_last_delay() {
        let backoff = Backoff::exponential("1s").max_delay("30s");
        let (base, cap) = (Duration::from_secs(1), Duration::from_secs(30));
        let mut capped = 0;
        for seed in 0..1_000 {
            let mut previous = base;
            for k in 1..=20 {
                let delay = Jitter::decorrelated().delay(&backoff, k, seed);
                assert!(delay >= base && delay <= (previous * 3).min(cap), "seed {seed}, retry {k}: {delay:?}");
                capped += u32::from(delay == cap);
                previous = delay;
            }
        }
        assert!(capped > 1_000, "only {capped} of 20,000 delays reached the cap");
    }

    #[test]
    fn decorrelated_jitter_beyond_its_look_back_is_exact() {
        let backoff = Backoff::standard();
        for seed in 0..20 {
            let (base, cap) = (backoff.delay(1), backoff.cap());
            let mut exact = base;
            for k in 1..=1_300 {
                exact = between(base, exact * 3, uniform(seed, k)).min(cap);
                if k > LOOK_BACK_MAX {
                    assert_eq!(Jitter::decorrelated().delay(&backoff, k, seed), exact, "seed {seed}, retry {k}");
                }
            }
        }
    }

    #[test]
    fn jitter_is_applied_after_the_cap() {
        let backoff = Backoff::exponential("1s").max_delay("10s");
        let longest = (0..1_000).map(|seed| Jitter::proportional(0.5).delay(&backoff, 20, seed)).max();
        assert!(longest > Some(Duration::from_secs(14)));
    }

    #[test]
    fn each_retry_draws_a_new_number() {
        let backoff = Backoff::constant("10s");
        let mut delays: Vec<Duration> = (1..=100).map(|k| Jitter::full().delay(&backoff, k, 7)).collect();
        delays.sort();
        delays.dedup();
        assert_eq!(delays.len(), 100);
    }

    #[test]
    fn proportion_outside_zero_to_one_is_refused() {
        for part in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let message = Jitter::proportional(part).check().expect_err("should be refused").to_string();
            assert!(message.starts_with(&format!("jitter proportion {part} is not between 0 and 1")), "{message}");
        }
        for part in [0.0, 0.1, 1.0] {
            assert_eq!(Jitter::proportional(part).check(), Ok(()));
        }
    }

    #[test]
    fn factor_is_the_random_share_of_the_delay() {
        let backoff = Backoff::constant("10s");
        assert_fills(Jitter::full().factor(0.3), &backoff, 7.0, 10.0);
        assert_fills(Jitter::equal().factor(0.3), &backoff, 7.0, 10.0);
        assert_fills(Jitter::equal().factor(0.8), &backoff, 2.0, 10.0);
        assert_fills(Jitter::decorrelated().factor(1.5), &Backoff::exponential("10s"), 10.0, 15.0);
    }

    #[test]
    fn default_factors_are_1_one_half_and_3() {
        let backoff = Backoff::standard();
        for (seed, k) in (0..100).zip(1..) {
            let delay = |jitter: Jitter| jitter.delay(&backoff, k, seed);
            assert_eq!(delay(Jitter::full()), delay(Jitter::full().factor(1.0)));
            assert_eq!(delay(Jitter::equal()), delay(Jitter::full().factor(0.5)));
            assert_eq!(delay(Jitter::equal()), delay(Jitter::equal().factor(0.5)));
            assert_eq!(delay(Jitter::decorrelated()), delay(Jitter::decorrelated().factor(3.0)));
        }
    }

    #[test]
    fn factor_out_of_range_is_refused_and_named() {
        let refusal = |jitter: Jitter| jitter.check().expect_err("should be refused").to_string();
        for factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5, 0.0, 1.01] {
            for jitter in [Jitter::full(), Jitter::equal()] {
                let message = refusal(jitter.factor(factor));
                let start = format!("factor {factor} of jitter `{}` must be above 0 and at most 1", jitter.kind());
                assert!(message.starts_with(&start), "{message}");
            }
        }
        for factor in [f64::NAN, f64::INFINITY, -2.0, 0.0, 1.0] {
            let message = refusal(Jitter::decorrelated().factor(factor));
            let start = format!("factor {factor} of jitter `decorrelated` must be a number above 1");
            assert!(message.starts_with(&start), "{message}");
        }
        for jitter in [Jitter::full().factor(1.0), Jitter::equal().factor(0.01), Jitter::decorrelated().factor(9.0)] {
            assert_eq!(jitter.check(), Ok(()), "{jitter}");
        }
    }

    #[test]
    fn factor_is_refused_for_a_jitter_without_one() {
        for (jitter, way_out) in [(Jitter::none(), "remove it"), (Jitter::default(), "`Jitter::proportional`")] {
            let message = jitter.factor(0.5).check().expect_err("should be refused").to_string();
            assert!(message.contains("factor 0.5") && message.contains(way_out), "{message}");
        }
    }

    #[test]
    fn factor_is_shown() {
        assert_eq!(Jitter::full().factor(0.3).to_string(), "full(0.3)");
        assert_eq!(Jitter::decorrelated().factor(2.0).to_string(), "decorrelated(2)");
        assert_eq!(Jitter::equal().to_string(), "equal");
    }

    proptest! {
        #[test]
        fn no_delay_overflows(part in any::<f64>(), first in any::<u64>(), k in any::<u32>(), seed in any::<u64>()) {
            let plain = [Jitter::none(), Jitter::full(), Jitter::equal(), Jitter::decorrelated()];
            for jitter in plain.into_iter().chain(plain.map(|jitter| jitter.factor(part))).chain([Jitter::proportional(part)]) {
                for backoff in [Backoff::constant(first), Backoff::linear(first, first), Backoff::exponential(first)] {
                    prop_assert!(jitter.delay(&backoff, k, seed) <= LONGEST, "{}", jitter);
                }
            }
        }

        #[test]
        fn delays_stay_within_the_bounds_of_their_jitter(first in 1..1_000_000_000_u64, k in 1..50_u32, seed: u64) {
            let backoff = Backoff::exponential(first).max_delay("365 days");
            let exact = backoff.delay(k);
            prop_assert!(Jitter::full().delay(&backoff, k, seed) <= exact);
            let equal = Jitter::equal().delay(&backoff, k, seed);
            prop_assert!(exact / 2 <= equal && equal <= exact);
            let tenth = Jitter::default().delay(&backoff, k, seed);
            prop_assert!(exact.mul_f64(0.9) <= tenth && tenth <= exact.mul_f64(1.1));
        }

        #[test]
        fn factor_bounds_the_delay(
            first in 1..1_000_000_000_u64, share in 0.001..=1.0_f64, growth in 1.001..10.0_f64, k in 1..50_u32, seed: u64,
        ) {
            let backoff = Backoff::exponential(first).max_delay("365 days");
            let exact = backoff.delay(k);
            for jitter in [Jitter::full().factor(share), Jitter::equal().factor(share)] {
                prop_assert_eq!(jitter.check(), Ok(()));
                let delay = jitter.delay(&backoff, k, seed);
                prop_assert!(scale(exact, 1.0 - share) <= delay && delay <= exact, "{}: {:?}", jitter, delay);
            }
            let jitter = Jitter::decorrelated().factor(growth);
            prop_assert_eq!(jitter.check(), Ok(()));
            let (base, delay) = (backoff.delay(1), jitter.delay(&backoff, k, seed));
            let previous = if k == 1 { base } else { jitter.delay(&backoff, k - 1, seed) };
            let most = scale(previous, growth).min(backoff.cap());
            prop_assert!(base <= delay && delay <= most.max(base), "{}: {:?} after {:?}", jitter, delay, previous);
        }
    }
}
