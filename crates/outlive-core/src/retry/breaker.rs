//! Circuit breakers: hold back attempts while the service they call keeps failing.
//!
//! A breaker is closed, open, or half-open. Closed, it lets every attempt through and counts failures in a row. Open, it
//! lets none through until the reset time has passed. Then it is half-open: it lets one attempt through, the probe, and
//! holds back all others until the probe has ended. If the probe succeeds the breaker closes, if not it opens again. A
//! probe that takes longer than the reset time no longer holds back the others: one of them becomes the next probe.
//!
//! An attempt counts only in the state that let it through. What was let through before the breaker opened may end
//! later, and says nothing about the service now.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::PolicyError;
use crate::time::Timestamp;

/// The most waiters to wake when a probe ends. All others ask again when the reset time has passed.
const WAITERS_MAX: usize = 4096;

/// A circuit breaker, shared by all steps that use it: opens after a number of failures in a row, and lets one attempt
/// through after the reset time to see if the service is back. Its state is in memory, so a new process starts with a
/// closed one.
///
/// ```
/// use outlive_core::retry::Breaker;
/// use std::time::Duration;
///
/// static STRIPE: Breaker = Breaker::new(5, Duration::from_secs(30)).named("stripe");
/// assert!(STRIPE.check().is_ok());
/// let error = Breaker::new(0, Duration::from_secs(30)).check().unwrap_err();
/// assert_eq!(error.to_string(), "a breaker that opens after 0 failures is always open; use at least 1");
/// ```
#[derive(Debug)]
pub struct Breaker {
    name: Option<&'static str>,
    place: &'static Location<'static>,
    limits: BreakerLimits,
    shared: OnceLock<Arc<SharedBreaker>>,
}

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BreakerLimits {
    /// The number of failures in a row after which it opens.
    pub failures: u32,
    /// How long it lets nothing through.
    pub reset: Duration,
}

impl Breaker {
    /// Creates a breaker that opens after `failures` failures in a row, and lets one attempt through after `reset`.
    #[must_use]
    #[track_caller]
    pub const fn new(failures: u32, reset: Duration) -> Self {
        let limits = BreakerLimits { failures, reset };
        Self { name: None, place: Location::caller(), limits, shared: OnceLock::new() }
    }

    /// Sets the name that people see. Without one, they see where the breaker is created.
    ///
    /// ```
    /// # use outlive_core::retry::Breaker;
    /// # use std::time::Duration;
    /// static STRIPE: Breaker = Breaker::new(5, Duration::from_secs(30)).named("stripe");
    /// ```
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Validates the values.
    ///
    /// # Errors
    /// If the number of failures or the reset time is zero.
    pub fn check(&self) -> Result<(), PolicyError> {
        if self.limits.failures == 0 {
            return Err(PolicyError::new("a breaker that opens after 0 failures is always open; use at least 1"));
        }
        if self.limits.reset.as_millis() == 0 {
            return Err(PolicyError::new(format!(
                "the reset time {:?} of a breaker must be at least one millisecond",
                self.limits.reset
            )));
        }
        Ok(())
    }

    /// Returns the state that all users of this breaker share.
    #[must_use]
    pub fn share(&self) -> Arc<SharedBreaker> {
        let name =
            || self.name.map_or_else(|| format!("at {}:{}", self.place.file(), self.place.line()), str::to_owned);
        let make = || Arc::new(SharedBreaker { name: name(), limits: self.limits, state: Mutex::default() });
        self.shared.get_or_init(make).clone()
    }
}

/// The shared part of a [`Breaker`].
pub struct SharedBreaker {
    name: String,
    limits: BreakerLimits,
    state: Mutex<WatchedBreaker>,
}

/// The state of a breaker, and who wants to know when its probe has ended.
#[derive(Default)]
struct WatchedBreaker {
    state: BreakerState,
    waiters: Vec<Waker>,
}

impl SharedBreaker {
    /// Returns the name that people see.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks to start an attempt. If it has to wait for a probe, `waker` is woken when that has ended.
    pub fn admit(self: &Arc<Self>, now: Timestamp, waker: &Waker) -> BreakerDecision {
        let mut locked = self.lock();
        match locked.state.admit(&self.limits, now) {
            Admission::Pass { generation, change } => {
                let ticket = BreakerTicket { breaker: self.clone(), generation: Some(generation) };
                BreakerDecision::Pass(ticket, change)
            }
            Admission::Wait { until, is_probing } => {
                if is_probing && locked.waiters.len() < WAITERS_MAX {
                    locked.waiters.push(waker.clone());
                }
                BreakerDecision::Wait { until }
            }
        }
    }

    fn ended(&self, generation: u64, end: AttemptEnd, now: Timestamp) -> Option<BreakerChange> {
        let mut locked = self.lock();
        let (was_probe, change) = locked.state.ended(&self.limits, generation, end, now);
        let waiters = if was_probe { std::mem::take(&mut locked.waiters) } else { Vec::new() };
        drop(locked);
        waiters.into_iter().for_each(Waker::wake);
        change
    }

    /// Nothing panics behind this lock, so the state is consistent.
    fn lock(&self) -> MutexGuard<'_, WatchedBreaker> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SharedBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBreaker").field("name", &self.name).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// What a breaker says to an attempt.
#[derive(Debug)]
pub enum BreakerDecision {
    /// It may start. Its end is reported with the ticket.
    Pass(BreakerTicket, Option<BreakerChange>),
    /// It must wait, and ask again.
    Wait {
        /// When to ask again.
        until: Timestamp,
    },
}

/// The permission to make one attempt. An attempt that is dropped does not count.
#[derive(Debug)]
pub struct BreakerTicket {
    breaker: Arc<SharedBreaker>,
    /// `None` once the end is reported.
    generation: Option<u64>,
}

impl BreakerTicket {
    /// Returns the name of the breaker.
    #[must_use]
    pub fn breaker_name(&self) -> String {
        self.breaker.name.clone()
    }

    /// Reports how the attempt ended.
    pub fn end(mut self, end: AttemptEnd, now: Timestamp) -> Option<BreakerChange> {
        self.breaker.ended(self.generation.take()?, end, now)
    }
}

impl Drop for BreakerTicket {
    fn drop(&mut self) {
        if let Some(generation) = self.generation.take() {
            self.breaker.ended(generation, AttemptEnd::Dropped, Timestamp::MIN);
        }
    }
}

/// How an attempt ended, as far as a breaker is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptEnd {
    /// The service has answered: with a value, or with an error that another attempt would not change.
    Answered,
    /// The service has failed, or took too long.
    Failed,
    /// Nobody knows, because the attempt was dropped.
    Dropped,
}

/// A change in the state of a breaker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerChange {
    /// It lets nothing through until a time.
    Opened {
        /// That time.
        until: Timestamp,
    },
    /// It has let one attempt through as a probe.
    HalfOpened,
    /// It lets everything through.
    Closed,
}

/// The rules of a breaker: time and outcomes in, decisions out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BreakerState {
    phase: BreakerPhase,
    /// Counts the changes. An attempt of an earlier generation does not count.
    generation: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum BreakerPhase {
    Closed { failures: u32 },
    Open { since: Timestamp },
    Probing { since: Timestamp, opened: Timestamp },
}

impl Default for BreakerPhase {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

/// Whether an attempt may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It may.
    Pass {
        /// The generation in which it counts.
        generation: u64,
        /// The change that this has made.
        change: Option<BreakerChange>,
    },
    /// It must wait until a time, or until the probe has ended.
    Wait {
        /// When to ask again.
        until: Timestamp,
        /// Whether there is a probe.
        is_probing: bool,
    },
}

impl BreakerState {
    /// Asks to start an attempt.
    pub fn admit(&mut self, limits: &BreakerLimits, now: Timestamp) -> Admission {
        let (since, opened) = match &mut self.phase {
            BreakerPhase::Closed { .. } => return Admission::Pass { generation: self.generation, change: None },
            // If the clock was set back, the time starts again: nobody waits for longer than the reset time.
            BreakerPhase::Open { since } | BreakerPhase::Probing { since, .. } if *since > now => {
                *since = now;
                (now, now)
            }
            BreakerPhase::Open { since } => (*since, *since),
            BreakerPhase::Probing { since, opened } => (*since, *opened),
        };
        let until = since.after(limits.reset);
        if now < until {
            return Admission::Wait { until, is_probing: matches!(self.phase, BreakerPhase::Probing { .. }) };
        }
        self.change(BreakerPhase::Probing { since: now, opened });
        Admission::Pass { generation: self.generation, change: Some(BreakerChange::HalfOpened) }
    }

    /// Reports the end of an attempt that was let through in `generation`. Returns whether it was the probe, and what
    /// has changed.
    pub fn ended(
        &mut self,
        limits: &BreakerLimits,
        generation: u64,
        end: AttemptEnd,
        now: Timestamp,
    ) -> (bool, Option<BreakerChange>) {
        if generation != self.generation {
            return (false, None);
        }
        match (&mut self.phase, end) {
            (BreakerPhase::Closed { failures }, AttemptEnd::Answered) => *failures = 0,
            (BreakerPhase::Closed { failures }, AttemptEnd::Failed) => {
                *failures = failures.saturating_add(1);
                if *failures >= limits.failures {
                    return (false, Some(self.open(limits, now)));
                }
            }
            (BreakerPhase::Probing { .. }, AttemptEnd::Answered) => {
                self.change(BreakerPhase::default());
                return (true, Some(BreakerChange::Closed));
            }
            (BreakerPhase::Probing { .. }, AttemptEnd::Failed) => return (true, Some(self.open(limits, now))),
            (BreakerPhase::Probing { opened, .. }, AttemptEnd::Dropped) => {
                let since = *opened;
                self.change(BreakerPhase::Open { since });
                return (true, None);
            }
            (BreakerPhase::Closed { .. }, AttemptEnd::Dropped) | (BreakerPhase::Open { .. }, _) => {}
        }
        (false, None)
    }

    fn open(&mut self, limits: &BreakerLimits, now: Timestamp) -> BreakerChange {
        self.change(BreakerPhase::Open { since: now });
        BreakerChange::Opened { until: now.after(limits.reset) }
    }

    fn change(&mut self, phase: BreakerPhase) {
        self.phase = phase;
        self.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: BreakerLimits = BreakerLimits { failures: 3, reset: Duration::from_secs(30) };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn pass(state: &mut BreakerState, now: Timestamp) -> u64 {
        match state.admit(&LIMITS, now) {
            Admission::Pass { generation, .. } => generation,
            other => panic!("{other:?}"),
        }
    }

    fn opened() -> BreakerState {
        let mut state = BreakerState::default();
        for _ in 0..3 {
            let generation = pass(&mut state, at(0));
            state.ended(&LIMITS, generation, AttemptEnd::Failed, at(0));
        }
        state
    }

    #[test]
    fn breaker_opens_after_failures_in_a_row() {
        let mut state = BreakerState::default();
        for end in [AttemptEnd::Failed, AttemptEnd::Failed, AttemptEnd::Answered, AttemptEnd::Failed] {
            let generation = pass(&mut state, at(0));
            assert_eq!(state.ended(&LIMITS, generation, end, at(0)), (false, None));
        }
        assert!(matches!(state.admit(&LIMITS, at(0)), Admission::Pass { .. }), "an answer ended the row");
        let open = Admission::Wait { until: at(30), is_probing: false };
        assert_eq!(opened().admit(&LIMITS, at(1)), open);
        assert_eq!(opened().admit(&LIMITS, Timestamp::from_millis(29_999)), open);
    }

    #[test]
    fn half_open_breaker_lets_one_attempt_through() {
        let mut state = opened();
        let probe = pass(&mut state, at(30));
        assert_eq!(state.admit(&LIMITS, at(31)), Admission::Wait { until: at(60), is_probing: true });
        let mut reopened = state.clone();
        let change = reopened.ended(&LIMITS, probe, AttemptEnd::Failed, at(32));
        assert_eq!(change, (true, Some(BreakerChange::Opened { until: at(62) })));
        assert_eq!(reopened.admit(&LIMITS, at(33)), Admission::Wait { until: at(62), is_probing: false });
        assert_eq!(state.ended(&LIMITS, probe, AttemptEnd::Answered, at(32)), (true, Some(BreakerChange::Closed)));
        assert!(matches!(state.admit(&LIMITS, at(32)), Admission::Pass { change: None, .. }));
    }

    #[test]
    fn dropped_or_endless_probe_is_replaced() {
        let mut state = opened();
        let probe = pass(&mut state, at(30));
        assert_eq!(state.ended(&LIMITS, probe, AttemptEnd::Dropped, Timestamp::MIN), (true, None));
        let second = pass(&mut state, at(31));
        let third = pass(&mut state, at(61));
        assert_eq!(state.ended(&LIMITS, second, AttemptEnd::Answered, at(62)), (false, None), "it took too long");
        assert_eq!(state.ended(&LIMITS, third, AttemptEnd::Answered, at(62)), (true, Some(BreakerChange::Closed)));
    }

    #[test]
    fn attempt_of_an_earlier_state_does_not_count() {
        let mut state = BreakerState::default();
        let early = pass(&mut state, at(0));
        for _ in 0..3 {
            let generation = pass(&mut state, at(0));
            state.ended(&LIMITS, generation, AttemptEnd::Failed, at(0));
        }
        assert_eq!(state.ended(&LIMITS, early, AttemptEnd::Answered, at(1)), (false, None));
        assert!(matches!(state.admit(&LIMITS, at(2)), Admission::Wait { .. }), "it is still open");
    }

    #[test]
    fn ticket_that_is_dropped_wakes_those_that_wait_for_the_probe() {
        #[derive(Default)]
        struct Count(std::sync::atomic::AtomicU32);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        }
        let breaker = Breaker::new(1, Duration::from_secs(30)).share();
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let BreakerDecision::Pass(ticket, _) = breaker.admit(at(0), &waker) else { panic!("it is closed") };
        assert!(ticket.end(AttemptEnd::Failed, at(0)).is_some());
        let BreakerDecision::Pass(probe, _) = breaker.admit(at(30), &waker) else { panic!("the probe may pass") };
        assert!(matches!(breaker.admit(at(30), &waker), BreakerDecision::Wait { .. }));
        drop(probe);
        assert_eq!(count.0.load(std::sync::atomic::Ordering::SeqCst), 1);
        assert!(matches!(breaker.admit(at(30), &waker), BreakerDecision::Pass(..)));
    }

    /// One thing that happens to a breaker.
    #[derive(Clone, Debug)]
    enum Act {
        Advance(i64),
        Admit,
        End(usize, AttemptEnd),
    }

    fn act() -> impl Strategy<Value = Act> {
        let end = prop_oneof![Just(AttemptEnd::Answered), Just(AttemptEnd::Failed), Just(AttemptEnd::Dropped)];
        prop_oneof![
            (-5_000_i64..40_000).prop_map(Act::Advance),
            Just(Act::Admit),
            (0_usize..8, end).prop_map(|(which, end)| Act::End(which, end)),
        ]
    }

    proptest! {
        /// Whatever happens: nobody waits for longer than the reset time, only failures open it, only an answer closes
        /// it, and while it is not closed at most one attempt per reset time passes.
        #[test]
        fn breaker_keeps_its_promises(acts in prop::collection::vec(act(), 1..200)) {
            let (mut state, mut now) = (BreakerState::default(), at(1_000));
            let (mut running, mut is_closed, mut probes) = (Vec::new(), true, 0_u32);
            for act in acts {
                match act {
                    Act::Advance(millis) => now = Timestamp::from_millis(now.as_millis() + millis),
                    Act::Admit => match state.admit(&LIMITS, now) {
                        Admission::Pass { generation, change } => {
                            prop_assert_eq!(change.is_none(), is_closed);
                            probes += u32::from(!is_closed);
                            running.push((generation, probes));
                        }
                        Admission::Wait { until, .. } => {
                            prop_assert!(!is_closed);
                            prop_assert!(until > now && until <= now.after(LIMITS.reset));
                            let then = state.clone().admit(&LIMITS, until);
                            prop_assert!(matches!(then, Admission::Pass { .. }), "{then:?}");
                        }
                    },
                    Act::End(which, end) if !running.is_empty() => {
                        let (generation, probe) = running.swap_remove(which % running.len());
                        let (was_probe, change) = state.ended(&LIMITS, generation, end, now);
                        prop_assert!(!was_probe || probe == probes, "only the last probe counts");
                        match change {
                            Some(BreakerChange::Closed) => {
                                prop_assert!(end == AttemptEnd::Answered && was_probe);
                                is_closed = true;
                            }
                            Some(BreakerChange::Opened { until }) => {
                                prop_assert_eq!((end, until), (AttemptEnd::Failed, now.after(LIMITS.reset)));
                                is_closed = false;
                            }
                            other => prop_assert_eq!(other, None),
                        }
                    }
                    Act::End(..) => {}
                }
            }
        }
    }
}
