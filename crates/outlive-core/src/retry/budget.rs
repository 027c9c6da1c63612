//! Retry budgets: limit retries to a fraction of the first attempts, so that retries do not multiply the load on a
//! service that is in trouble.
//!
//! Each first attempt adds a fraction of a retry to the budget, and each retry takes a whole one. What is not used is
//! forgotten after ten to twenty seconds. When nothing is left, a small reserve is: a number of retries every ten
//! seconds, first all at once and then evenly spaced. A retry that must wait for the reserve gets a place in it, unless
//! that is more than ten seconds away; then it asks again.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::PolicyError;
use crate::time::Timestamp;

/// How long what was added is at least kept, and the time over which the reserve is spread.
const WINDOW: Duration = Duration::from_secs(10);
/// The retries in ten seconds that need no first attempts.
const RESERVE: u32 = 10;
/// One retry. Fractions are counted as integers, so that they add up.
const RETRY: u64 = 1_000_000;

/// A limit for retries, shared by all steps that use it: they may be at most `ratio` of the recent first attempts, plus
/// a reserve of 10 every 10 seconds. What it refuses is delayed, not dropped. Its state is in memory, so a new process
/// starts with a new one.
///
/// ```
/// use outlive_core::retry::RetryBudget;
///
/// /// One retry for every five first attempts.
/// static SEARCH: RetryBudget = RetryBudget::new(0.2).named("search");
/// assert!(SEARCH.check().is_ok());
/// let error = RetryBudget::new(-1.0).check().unwrap_err();
/// assert_eq!(error.to_string(), "the ratio -1 of a retry budget must be a number above 0, such as 0.2");
/// ```
#[derive(Debug)]
pub struct RetryBudget {
    name: Option<&'static str>,
    limits: BudgetLimits,
    shared: OnceLock<Arc<SharedBudget>>,
}

/// How many retries a budget allows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BudgetLimits {
    /// The retries for each first attempt.
    pub ratio: f64,
    /// The retries every ten seconds that need no first attempts.
    pub reserve: u32,
}

impl RetryBudget {
    /// Creates a budget that allows `ratio` retries for each first attempt.
    #[must_use]
    pub const fn new(ratio: f64) -> Self {
        Self { name: None, limits: BudgetLimits { ratio, reserve: RESERVE }, shared: OnceLock::new() }
    }

    /// Sets the number of retries every 10 seconds that are allowed in any case; 10 by default.
    ///
    /// ```
    /// # use outlive_core::retry::RetryBudget;
    /// static REPORTS: RetryBudget = RetryBudget::new(0.1).reserve(1); // there are only a few reports an hour
    /// ```
    #[must_use]
    pub const fn reserve(mut self, retries: u32) -> Self {
        self.limits.reserve = retries;
        self
    }

    /// Sets the name that people see.
    ///
    /// ```
    /// # use outlive_core::retry::RetryBudget;
    /// static SEARCH: RetryBudget = RetryBudget::new(0.2).named("search");
    /// ```
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Validates the values.
    ///
    /// # Errors
    /// If the ratio is not a number above zero, or the reserve is zero.
    pub fn check(&self) -> Result<(), PolicyError> {
        let BudgetLimits { ratio, reserve } = self.limits;
        if !ratio.is_finite() || ratio <= 0.0 {
            let sentence = format!("the ratio {ratio} of a retry budget must be a number above 0, such as 0.2");
            return Err(PolicyError::new(sentence));
        }
        if reserve == 0 {
            return Err(PolicyError::new(
                "a retry budget with a reserve of 0 may hold back a retry forever; use at least 1",
            ));
        }
        Ok(())
    }

    /// Returns the state that all users of this budget share.
    #[must_use]
    pub fn share(&self) -> Arc<SharedBudget> {
        let make = || SharedBudget { name: self.name, limits: self.limits, state: Mutex::default() };
        self.shared.get_or_init(|| Arc::new(make())).clone()
    }
}

/// The shared part of a [`RetryBudget`].
#[derive(Debug)]
pub struct SharedBudget {
    name: Option<&'static str>,
    limits: BudgetLimits,
    state: Mutex<BudgetState>,
}

impl SharedBudget {
    /// Returns the name that people see.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name
    }

    /// Asks to start an attempt.
    pub fn admit(&self, attempt: u32, now: Timestamp) -> BudgetDecision {
        // Nothing panics behind this lock, so the state is consistent.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if attempt <= 1 {
            state.deposit(&self.limits, now);
            return BudgetDecision::Pass;
        }
        state.withdraw(&self.limits, now)
    }
}

/// What a budget says to an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BudgetDecision {
    /// It may start.
    Pass,
    /// It may start at this time.
    At(Timestamp),
    /// It must ask again at this time.
    AskAt(Timestamp),
}

/// The rules of a budget: time and attempts in, decisions out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BudgetState {
    /// The start of the current window of ten seconds.
    window: Option<Timestamp>,
    /// What was added in the current window and in the one before, and is not used.
    current: u64,
    previous: u64,
    /// When the reserve is full again, if nothing more is taken from it.
    full_at: Option<Timestamp>,
}

impl BudgetState {
    /// Adds what a first attempt adds.
    pub fn deposit(&mut self, limits: &BudgetLimits, now: Timestamp) {
        self.turn(now);
        // A cast of a float saturates.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and it saturates")]
        let share = (limits.ratio * RETRY as f64) as u64;
        self.current = self.current.saturating_add(share);
    }

    /// Takes a retry, or says when there is one.
    pub fn withdraw(&mut self, limits: &BudgetLimits, now: Timestamp) -> BudgetDecision {
        self.turn(now);
        if self.previous.saturating_add(self.current) >= RETRY {
            let old = self.previous.min(RETRY);
            self.previous -= old;
            self.current -= RETRY - old;
            return BudgetDecision::Pass;
        }
        let interval = WINDOW / limits.reserve.max(1);
        // If the clock was set back, the reserve is as full as it can be late.
        let full_at = self.full_at.unwrap_or(now).clamp(now, now.after(WINDOW + WINDOW));
        let due = Timestamp::from_millis(full_at.as_millis().saturating_sub(millis(WINDOW - interval))).max(now);
        if due > now.after(WINDOW) {
            return BudgetDecision::AskAt(now.after(WINDOW));
        }
        self.full_at = Some(full_at.after(interval));
        if due > now { BudgetDecision::At(due) } else { BudgetDecision::Pass }
    }

    /// Forgets what is too old.
    fn turn(&mut self, now: Timestamp) {
        let window = self.window.unwrap_or(now);
        let age = now.since(window);
        if age >= WINDOW || now < window {
            self.previous = if age < WINDOW + WINDOW { self.current } else { 0 };
            self.current = 0;
            self.window = Some(now);
        } else {
            self.window = Some(window);
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: BudgetLimits = BudgetLimits { ratio: 0.5, reserve: 2 };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn retries_are_a_fraction_of_first_attempts_plus_the_reserve() {
        let mut state = BudgetState::default();
        (0..4).for_each(|_| state.deposit(&LIMITS, at(0)));
        // Two for the first attempts, and two in reserve.
        (0..4).for_each(|_| assert_eq!(state.withdraw(&LIMITS, at(0)), BudgetDecision::Pass));
        assert_eq!(state.withdraw(&LIMITS, at(0)), BudgetDecision::At(at(5_000)));
        assert_eq!(state.withdraw(&LIMITS, at(0)), BudgetDecision::At(at(10_000)));
        assert_eq!(state.withdraw(&LIMITS, at(0)), BudgetDecision::AskAt(at(10_000)));
        (0..2).for_each(|_| state.deposit(&LIMITS, at(1)));
        assert_eq!(state.withdraw(&LIMITS, at(2)), BudgetDecision::Pass, "others have succeeded since");
    }

    #[test]
    fn unused_share_is_forgotten_and_the_reserve_fills_up() {
        let mut state = BudgetState::default();
        (0..100).for_each(|_| state.deposit(&LIMITS, at(0)));
        let taken = (0..100).take_while(|_| state.withdraw(&LIMITS, at(30_000)) == BudgetDecision::Pass).count();
        assert_eq!(taken, 2);
    }

    #[test]
    fn invalid_values_are_named() {
        for (ratio, text) in [(0.0, "0"), (-0.5, "-0.5"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
            let error = RetryBudget::new(ratio).check().expect_err("it is refused").to_string();
            assert!(error.contains(&format!("the ratio {text} of")), "{error}");
        }
        assert!(
            RetryBudget::new(0.2).reserve(0).check().expect_err("it is refused").to_string().contains("a reserve of 0")
        );
    }

    proptest! {
        /// Retries never exceed the share of the first attempts so far plus the reserve so far, each delayed one waits
        /// for at most ten seconds before it may start or ask again, and those that asked earlier come first.
        #[test]
        fn budget_is_never_exceeded(
            ratio in 0.01_f64..2.0,
            reserve in 1_u32..20,
            acts in prop::collection::vec((0_i64..3_000, any::<bool>()), 1..300),
        ) {
            let limits = BudgetLimits { ratio, reserve };
            let (mut state, mut now, mut first, mut started) = (BudgetState::default(), at(0), 0.0, Vec::new());
            let mut latest = at(0);
            for (wait, is_first) in acts {
                now = now.after(Duration::from_millis(wait.cast_unsigned()));
                if is_first {
                    state.deposit(&limits, now);
                    first += 1.0;
                    continue;
                }
                match state.withdraw(&limits, now) {
                    BudgetDecision::Pass => started.push(now),
                    BudgetDecision::At(due) => {
                        prop_assert!(due > now && due <= now.after(WINDOW) && due >= latest);
                        latest = due;
                        started.push(due);
                    }
                    BudgetDecision::AskAt(again) => prop_assert_eq!(again, now.after(WINDOW)),
                }
                let seconds = latest.max(now).as_millis() as f64 / 1_000.0;
                let most = first * ratio + f64::from(reserve) * (1.0 + seconds / 10.0);
                prop_assert!(started.len() as f64 <= most + 0.001, "{} of {most}", started.len());
            }
        }
    }
}
