//! Uses any numbers as a retry policy: no panic, no overflow, and delays within the bounds it states.

use std::time::Duration;

use outlive_core::duration::LONGEST;
use outlive_core::retry::{Backoff, Jitter, Reason, Retry, RetryNext};

use crate::bytes::Bytes;

/// Creates a policy, and asks it for a delay.
///
/// ```
/// outlive_fuzz::retry::run(&[7; 64]);
/// ```
///
/// # Panics
/// If a valid policy returns a delay that it must not.
pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let policy = Policy::any(&mut bytes);
    let retry = policy.retry();
    let (k, seed) = (bytes.any::<u32>() >> bytes.below(32), bytes.any::<u64>());
    let (base, delay) = (retry.base_delay(k), retry.delay(k, seed));
    if retry.check().is_ok() {
        policy.check_base(&retry, k.max(1), base);
        policy.check_delay(&retry, base, delay);
    }
    check_next(&policy, &retry, k.max(1), seed, &mut bytes);
}

fn check_next(policy: &Policy, retry: &Retry, failed: u32, seed: u64, bytes: &mut Bytes<'_>) {
    let (first, now) = (bytes.moment(), bytes.moment());
    let is_last = policy.retries.is_some_and(|retries| failed > retries);
    let end = policy.budget.filter(|budget| *budget <= LONGEST).map(|budget| first.after(budget));
    match retry.next(failed, first, now, seed) {
        RetryNext::RetryAt { due, delay } => {
            assert!(!is_last && due == now.after(delay) && end.is_none_or(|end| due <= end), "{policy:?}");
            assert_eq!(delay, retry.delay(failed, seed));
        }
        RetryNext::Exhausted(Reason::MaxAttempts) => assert!(is_last, "{policy:?}"),
        RetryNext::Exhausted(reason) => {
            assert!(!is_last && reason == Reason::MaxDuration && end.is_some(), "{policy:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Constant(Duration),
    Linear(Duration, Duration),
    Exponential(Duration),
}

#[derive(Clone, Copy, Debug)]
enum Chance {
    None,
    Proportional(f64),
    Full(Option<f64>),
    Equal(Option<f64>),
    Decorrelated(Option<f64>),
}

#[derive(Clone, Copy, Debug)]
struct Policy {
    retries: Option<u32>,
    shape: Shape,
    factor: Option<f64>,
    cap: Option<Duration>,
    chance: Chance,
    budget: Option<Duration>,
}

impl Policy {
    fn any(bytes: &mut Bytes<'_>) -> Self {
        let shape = match bytes.below(3) {
            0 => Shape::Constant(bytes.duration()),
            1 => Shape::Linear(bytes.duration(), bytes.duration()),
            _ => Shape::Exponential(bytes.duration()),
        };
        let chance = match bytes.below(5) {
            0 => Chance::None,
            1 => Chance::Proportional(number(bytes)),
            2 => Chance::Full(bytes.maybe(number)),
            3 => Chance::Equal(bytes.maybe(number)),
            _ => Chance::Decorrelated(bytes.maybe(number)),
        };
        Self {
            retries: bytes.maybe(Bytes::any),
            shape,
            factor: bytes.maybe(number),
            cap: bytes.maybe(Bytes::duration),
            chance,
            budget: bytes.maybe(Bytes::duration),
        }
    }

    fn retry(&self) -> Retry {
        let retry = self.retries.map_or_else(Retry::forever, Retry::times);
        let retry = match self.shape {
            Shape::Constant(delay) => retry.constant(delay),
            Shape::Linear(initial, increment) => retry.backoff(Backoff::linear(initial, increment)),
            Shape::Exponential(base) => retry.exponential(base),
        };
        let retry = retry.jitter(match self.chance {
            Chance::None => Jitter::none(),
            Chance::Proportional(part) => Jitter::proportional(part),
            Chance::Full(factor) => factor.into_iter().fold(Jitter::full(), Jitter::factor),
            Chance::Equal(factor) => factor.into_iter().fold(Jitter::equal(), Jitter::factor),
            Chance::Decorrelated(factor) => factor.into_iter().fold(Jitter::decorrelated(), Jitter::factor),
        });
        let retry = self.factor.into_iter().fold(retry, Retry::factor);
        let retry = self.cap.into_iter().fold(retry, Retry::max_delay);
        self.budget.into_iter().fold(retry, Retry::max_duration)
    }

    /// Checks the delay before jitter.
    fn check_base(&self, retry: &Retry, k: u32, base: Duration) {
        let cap = self.cap.unwrap_or(LONGEST);
        match self.shape {
            Shape::Constant(delay) => assert_eq!(base, delay.min(cap), "{self:?}, {k}"),
            Shape::Linear(initial, increment) => {
                let exact = initial.as_nanos() + increment.as_nanos() * u128::from(k - 1);
                assert_eq!(base.as_nanos(), exact.min(cap.as_nanos()), "{self:?}, {k}");
            }
            Shape::Exponential(first) => {
                assert!(is_near(retry.base_delay(1), first.min(cap)), "{self:?}");
                assert!(base <= cap && base <= retry.base_delay(k.saturating_add(1)), "{self:?}, {k}: {base:?}");
                let exact = first.as_secs_f64() * self.factor.unwrap_or(2.0).powf(f64::from(k - 1));
                let exact = Duration::try_from_secs_f64(exact).unwrap_or(LONGEST).min(cap);
                assert!(is_near(base, exact), "{self:?}, {k}: {base:?} for {exact:?}");
            }
        }
    }

    /// Checks the delay with jitter.
    fn check_delay(&self, retry: &Retry, base: Duration, delay: Duration) {
        let within = |low: Duration, high: Duration| assert!(low <= delay && delay <= high, "{self:?}: {delay:?}");
        match self.chance {
            Chance::None => within(base, base),
            Chance::Full(None) => within(Duration::ZERO, base),
            Chance::Equal(None) => within(base / 2, base),
            Chance::Full(Some(share)) | Chance::Equal(Some(share)) => {
                within(Duration::ZERO, base);
                let least = base.as_secs_f64() * (1.0 - share);
                assert!(delay.as_secs_f64() >= least * (1.0 - 1e-12) - 2e-9, "{self:?}: {delay:?} for {base:?}");
            }
            Chance::Decorrelated(_) => within(retry.base_delay(1), self.cap.unwrap_or(LONGEST)),
            Chance::Proportional(part) => {
                let most = base.as_secs_f64() * part;
                let off = delay.abs_diff(base).as_secs_f64();
                assert!(
                    off <= most * 1.000_000_1 + base.as_secs_f64() * 1e-12 + 2e-9,
                    "{self:?}: {delay:?} for {base:?}"
                );
            }
        }
    }
}

/// Equal except for floating-point error.
fn is_near(a: Duration, b: Duration) -> bool {
    a.abs_diff(b).as_secs_f64() <= b.as_secs_f64() * 1e-9 + 1e-9
}

/// Returns a usual number, or any.
fn number(bytes: &mut Bytes<'_>) -> f64 {
    let usual = [0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 10.0, -1.0];
    if bytes.is(3) { bytes.any() } else { bytes.pick(&usual) }
}
