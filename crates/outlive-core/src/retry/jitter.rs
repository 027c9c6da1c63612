//! The part of a delay that is left to chance, so that those who failed together do not come back together.

use std::fmt;
use std::time::Duration;

use super::backoff::{Backoff, scale};
use super::error::PolicyError;

/// How far a delay may differ from what the backoff says. The same seed always gives the same delay.
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
#[must_use = "a jitter does nothing until it is given to a `Retry`"]
pub struct Jitter(Kind);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    None,
    Proportional(f64),
    Full,
    Equal,
    Decorrelated,
}

/// How many delays back a decorrelated one is worked out from. Up to that retry it is exact; later the start is so
/// far behind that it leaves no trace, and the work for retry four billion stays small.
const LOOK_BACK_MAX: u32 = 1_024;

impl Jitter {
    /// Just what the backoff says.
    ///
    /// ```
    /// # use outlive_core::retry::{Backoff, Jitter};
    /// assert_eq!(Jitter::none().delay(&Backoff::constant("10s"), 1, 42).as_secs(), 10);
    /// ```
    pub fn none() -> Self {
        Self(Kind::None)
    }

    /// Up to that part more or less: 0.1 makes 10 s anything from 9 s to 11 s. [`check`](Self::check) wants 0 to 1.
    ///
    /// ```
    /// # use outlive_core::retry::{Backoff, Jitter};
    /// let delay = Jitter::proportional(0.1).delay(&Backoff::constant("10s"), 1, 42);
    /// assert!((9.0..=11.0).contains(&delay.as_secs_f64()));
    /// ```
    pub fn proportional(part: f64) -> Self {
        Self(Kind::Proportional(part))
    }

    /// Anything from zero to the delay.
    ///
    /// ```
    /// # use outlive_core::retry::{Backoff, Jitter};
    /// let delay = Jitter::full().delay(&Backoff::constant("10s"), 1, 42);
    /// assert!(delay.as_secs() <= 10);
    /// ```
    pub fn full() -> Self {
        Self(Kind::Full)
    }

    /// Anything from half the delay to the whole.
    ///
    /// ```
    /// # use outlive_core::retry::{Backoff, Jitter};
    /// let delay = Jitter::equal().delay(&Backoff::constant("10s"), 1, 42);
    /// assert!((5.0..=10.0).contains(&delay.as_secs_f64()));
    /// ```
    pub fn equal() -> Self {
        Self(Kind::Equal)
    }

    /// Anything from the first delay to three times the delay before, within the cap. Of the backoff it takes only
    /// the first delay and the cap; without a cap it goes on growing.
    ///
    /// ```
    /// # use outlive_core::retry::{Backoff, Jitter};
    /// let delay = Jitter::decorrelated().delay(&Backoff::standard(), 1, 42);
    /// assert!((1.0..=3.0).contains(&delay.as_secs_f64()));
    /// ```
    pub fn decorrelated() -> Self {
        Self(Kind::Decorrelated)
    }

    /// The delay before retry `k`, counted from 1. Jitter comes after the backoff's cap.
    ///
    /// ```
    /// # use outlive_core::retry::{Backoff, Jitter};
    /// let backoff = Backoff::standard();
    /// assert_ne!(Jitter::full().delay(&backoff, 1, 42), Jitter::full().delay(&backoff, 1, 43));
    /// ```
    #[must_use]
    pub fn delay(self, backoff: &Backoff, k: u32, seed: u64) -> Duration {
        let exact = |k| backoff.delay(k);
        let chance = uniform(seed, k);
        match self.0 {
            Kind::None => exact(k),
            Kind::Proportional(part) => between(scale(exact(k), 1.0 - part), scale(exact(k), 1.0 + part), chance),
            Kind::Full => between(Duration::ZERO, exact(k), chance),
            Kind::Equal => between(exact(k) / 2, exact(k), chance),
            Kind::Decorrelated => decorrelated(exact(1), backoff.cap(), k.max(1), seed),
        }
    }

    /// Whether the value makes sense.
    ///
    /// ```
    /// # use outlive_core::retry::Jitter;
    /// let error = Jitter::proportional(1.5).check().unwrap_err();
    /// assert_eq!(error.to_string(), "jitter proportion 1.5 is not within 0 and 1; 0.1 is usual");
    /// ```
    ///
    /// # Errors
    /// If a proportion is not within 0 and 1.
    pub fn check(self) -> Result<(), PolicyError> {
        match self.0 {
            Kind::Proportional(part) if !(0.0..=1.0).contains(&part) => {
                Err(PolicyError::new(format!("jitter proportion {part} is not within 0 and 1; 0.1 is usual")))
            }
            _ => Ok(()),
        }
    }

    /// "none", "proportional", "full", "equal" or "decorrelated".
    ///
    /// ```
    /// # use outlive_core::retry::Jitter;
    /// assert_eq!(Jitter::default().kind(), "proportional");
    /// ```
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self.0 {
            Kind::None => "none",
            Kind::Proportional(_) => "proportional",
            Kind::Full => "full",
            Kind::Equal => "equal",
            Kind::Decorrelated => "decorrelated",
        }
    }
}

/// A tenth more or less.
impl Default for Jitter {
    fn default() -> Self {
        Self::proportional(0.1)
    }
}

impl fmt::Display for Jitter {
    /// The kind, and the proportion if it has one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Proportional(part) => write!(f, "proportional({part})"),
            _ => f.write_str(self.kind()),
        }
    }
}

fn decorrelated(base: Duration, cap: Duration, k: u32, seed: u64) -> Duration {
    let first = k.saturating_sub(LOOK_BACK_MAX - 1).max(1);
    (first..=k).fold(base, |previous, k| between(base, previous.saturating_mul(3), uniform(seed, k)).min(cap))
}

/// The point between `low` and `high` that lies at `chance`, a number from 0 to 1.
fn between(low: Duration, high: Duration, chance: f64) -> Duration {
    low.saturating_add(scale(high.saturating_sub(low), chance)).min(high)
}

/// A number from 0 up to 1, made of the top 53 bits, which an f64 holds exactly.
fn uniform(seed: u64, k: u32) -> f64 {
    const BITS: u32 = 53;
    (splitmix64(seed, k) >> (u64::BITS - BITS)) as f64 / (1_u64 << BITS) as f64
}

/// The `k`-th number of the splitmix64 sequence that starts at `seed`.
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

    /// Smallest, mean and largest delay before retry 1, in seconds, over ten thousand seeds.
    fn spread(jitter: Jitter, backoff: &Backoff) -> (f64, f64, f64) {
        let delays: Vec<f64> = (0..10_000).map(|seed| jitter.delay(backoff, 1, seed).as_secs_f64()).collect();
        let mean = delays.iter().sum::<f64>() / 10_000.0;
        (delays.iter().copied().fold(f64::MAX, f64::min), mean, delays.iter().copied().fold(0.0, f64::max))
    }

    /// The delays fill `low` to `high` evenly and never leave it.
    fn assert_fills(jitter: Jitter, backoff: &Backoff, low: f64, high: f64) {
        let (min, mean, max) = spread(jitter, backoff);
        let near = (high - low) * 0.01;
        assert!((low..low + near).contains(&min), "{jitter}: smallest {min}, not near {low}");
        assert!((high - near..=high).contains(&max), "{jitter}: largest {max}, not near {high}");
        let middle = f64::midpoint(low, high);
        assert!((mean - middle).abs() < (high - low) * 0.02, "{jitter}: mean {mean}, not near {middle}");
    }

    #[test]
    fn splitmix64_gives_the_published_numbers() {
        let numbers = [1, 2, 3].map(|k| splitmix64(1_234_567, k));
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn no_jitter_leaves_the_delay() {
        assert_eq!(spread(Jitter::none(), &Backoff::constant("10s")), (10.0, 10.0, 10.0));
    }

    #[test]
    fn proportional_jitter_fills_its_part_on_both_sides() {
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
    fn decorrelated_jitter_goes_from_the_base_to_three_times_the_delay_before() {
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
    fn decorrelated_jitter_beyond_its_look_back_goes_on_as_if_it_had_seen_all() {
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
    fn jitter_comes_after_the_cap() {
        let backoff = Backoff::exponential("1s").max_delay("10s");
        let longest = (0..1_000).map(|seed| Jitter::proportional(0.5).delay(&backoff, 20, seed)).max();
        assert!(longest > Some(Duration::from_secs(14)));
    }

    #[test]
    fn each_retry_draws_anew() {
        let backoff = Backoff::constant("10s");
        let mut delays: Vec<Duration> = (1..=100).map(|k| Jitter::full().delay(&backoff, k, 7)).collect();
        delays.sort();
        delays.dedup();
        assert_eq!(delays.len(), 100);
    }

    #[test]
    fn a_proportion_outside_zero_to_one_is_refused() {
        for part in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let message = Jitter::proportional(part).check().expect_err("should be refused").to_string();
            assert!(message.starts_with(&format!("jitter proportion {part} is not within 0 and 1")), "{message}");
        }
        for part in [0.0, 0.1, 1.0] {
            assert_eq!(Jitter::proportional(part).check(), Ok(()));
        }
    }

    proptest! {
        #[test]
        fn no_delay_overflows(part in any::<f64>(), first in any::<u64>(), k in any::<u32>(), seed in any::<u64>()) {
            let jitters =
                [Jitter::none(), Jitter::proportional(part), Jitter::full(), Jitter::equal(), Jitter::decorrelated()];
            for jitter in jitters {
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
    }
}
