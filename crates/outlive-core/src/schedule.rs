//! Schedules of recurring jobs as pure functions of the time.

mod cron;
mod error;
mod moments;
mod pattern;

use std::fmt;
use std::time::Duration;

pub use self::cron::Cron;
pub use self::error::ScheduleError;
use crate::duration::{IntoDuration, text};
use crate::time::Timestamp;

/// When a job runs, one run after the other. Each run has a **tick**, its nominal time; the run itself may start later.
///
/// The next tick depends only on the previous one, on when that run ended and on the policy for [`Missed`] ticks. So a
/// long run and a process that was down are the same case.
///
/// ```
/// use outlive_core::schedule::{Missed, Schedule};
/// use outlive_core::time::Timestamp;
///
/// let at = Timestamp::from_millis;
/// let schedule = Schedule::every("1 minute")?;
/// assert_eq!(schedule.first(at(0), true), Some(at(0)));
/// assert_eq!(schedule.next(at(0), at(3_000), Missed::CatchUpOne), Some(at(60_000)));
/// // Down for five and a half minutes: one run immediately, for the tick of minute five; then back to normal.
/// assert_eq!(schedule.next(at(0), at(330_000), Missed::CatchUpOne), Some(at(300_000)));
/// assert_eq!(schedule.next(at(300_000), at(332_000), Missed::CatchUpOne), Some(at(360_000)));
/// # Ok::<(), outlive_core::schedule::ScheduleError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule(ScheduleKind);

#[derive(Clone, PartialEq, Eq, Debug)]
enum ScheduleKind {
    Every(Duration),
    PauseBetween(Duration),
    Cron(Cron),
}

impl Schedule {
    /// Runs at a fixed rate: ticks are this far apart, however long a run takes. A fraction of a millisecond rounds up.
    ///
    /// # Errors
    /// If the value is zero or not a duration.
    pub fn every(interval: impl IntoDuration) -> Result<Self, ScheduleError> {
        read("every", interval).map(|interval| Self(ScheduleKind::Every(interval)))
    }

    /// Runs with a fixed delay: the next run starts this long after the previous one ended. No tick is ever missed.
    ///
    /// ```
    /// # use outlive_core::{schedule::{Missed, Schedule}, time::Timestamp};
    /// let schedule = Schedule::pause_between("5s")?;
    /// let (tick, ended) = (Timestamp::from_millis(0), Timestamp::from_millis(60_000));
    /// assert_eq!(schedule.next(tick, ended, Missed::CatchUpOne), Some(Timestamp::from_millis(65_000)));
    /// # Ok::<(), outlive_core::schedule::ScheduleError>(())
    /// ```
    ///
    /// # Errors
    /// If the value is zero or not a duration.
    pub fn pause_between(pause: impl IntoDuration) -> Result<Self, ScheduleError> {
        read("pause_between", pause).map(|pause| Self(ScheduleKind::PauseBetween(pause)))
    }

    /// Returns the first tick of a job started at `started`: that time itself if `is_immediate`, otherwise the first
    /// tick after it. `None` if no such time is left in the calendar.
    #[must_use]
    pub fn first(&self, started: Timestamp, is_immediate: bool) -> Option<Timestamp> {
        match &self.0 {
            _ if is_immediate => Some(started),
            ScheduleKind::Every(time) | ScheduleKind::PauseBetween(time) => later(started, *time),
            ScheduleKind::Cron(cron) => cron.next_after(started),
        }
    }

    /// Returns the tick after a run: `tick` is the one that ran or was given up, `ended` is when that run was over. If
    /// the result is not after `ended`, it is a missed tick that should run immediately. `None` if no such time is left
    /// in the calendar.
    ///
    /// ```
    /// # use outlive_core::{schedule::{Cron, Missed, Schedule}, time::Timestamp};
    /// let schedule = Schedule::from(Cron::new("0 9 * * *")?.zone("Europe/Paris")?);
    /// let tick: Timestamp = Timestamp::from_millis(1_774_684_800_000);
    /// assert_eq!(tick.to_string(), "2026-03-28T08:00:00Z");
    /// // Clocks go forward that night, so 9 o'clock comes an hour earlier.
    /// assert_eq!(schedule.next(tick, tick, Missed::Skip).unwrap().to_string(), "2026-03-29T07:00:00Z");
    /// # Ok::<(), outlive_core::schedule::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn next(&self, tick: Timestamp, ended: Timestamp, missed: Missed) -> Option<Timestamp> {
        match &self.0 {
            ScheduleKind::Every(interval) => next_on_grid(tick, ended, *interval, missed.runs_max()),
            ScheduleKind::PauseBetween(pause) => later(ended, *pause),
            ScheduleKind::Cron(cron) => next_match(cron, tick, ended, missed.runs_max()),
        }
    }

    /// Returns the tick to run at `now` if `tick` was planned: `tick` itself, unless so much time has passed that later
    /// ticks were missed too. Then it is one of those or the next one, depending on the policy for missed ticks.
    ///
    /// ```
    /// # use outlive_core::{schedule::{Missed, Schedule}, time::Timestamp};
    /// let schedule = Schedule::every("1s")?;
    /// let overdue = |now, missed| {
    ///     schedule.overdue(Timestamp::from_millis(1_000), Timestamp::from_millis(now), missed).unwrap().as_millis()
    /// };
    /// assert_eq!([1_400, 5_500].map(|now| overdue(now, Missed::CatchUpOne)), [1_000, 5_000]);
    /// assert_eq!([1_400, 5_500].map(|now| overdue(now, Missed::Skip)), [1_000, 6_000]);
    /// assert_eq!([2, 4, 5, 9].map(|n| overdue(5_500, Missed::All(n))), [4_000, 2_000, 1_000, 1_000]);
    /// # Ok::<(), outlive_core::schedule::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn overdue(&self, tick: Timestamp, now: Timestamp, missed: Missed) -> Option<Timestamp> {
        let follower = self.next(tick, tick, Missed::Skip);
        let is_missed =
            follower.is_some_and(|follower| follower <= now) && !matches!(self.0, ScheduleKind::PauseBetween(_));
        match missed {
            _ if !is_missed => Some(tick),
            // `tick` itself is among the latest `runs` if fewer than `runs` came after it.
            Missed::All(runs) if runs > 1 && self.next(tick, now, Missed::All(runs - 1)) == follower => Some(tick),
            missed => self.next(tick, now, missed),
        }
    }
}

/// Creates a schedule that follows the calendar.
impl From<Cron> for Schedule {
    fn from(cron: Cron) -> Self {
        Self(ScheduleKind::Cron(cron))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ScheduleKind::Every(interval) => write!(f, "every {}", text(*interval)),
            ScheduleKind::PauseBetween(pause) => write!(f, "pause between {}", text(*pause)),
            ScheduleKind::Cron(cron) => write!(f, "cron {cron}"),
        }
    }
}

/// The policy for ticks that passed while the previous run was still going, or while no process was running.
///
/// ```
/// use outlive_core::schedule::{Missed, Schedule};
/// use outlive_core::time::Timestamp;
///
/// let schedule = Schedule::every("1s")?;
/// let next = |tick, missed| {
///     let (tick, ended) = (Timestamp::from_millis(tick), Timestamp::from_millis(5_500));
///     schedule.next(tick, ended, missed).unwrap().as_millis()
/// };
/// assert_eq!(next(0, Missed::CatchUpOne), 5_000);
/// assert_eq!(next(0, Missed::Skip), 6_000);
/// assert_eq!([0, 4_000, 5_000].map(|tick| next(tick, Missed::All(2))), [4_000, 5_000, 6_000]);
/// # Ok::<(), outlive_core::schedule::ScheduleError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum Missed {
    /// One run immediately, for the latest missed tick.
    #[default]
    CatchUpOne,
    /// No catching up: the next run is for the first tick after the previous run ended.
    Skip,
    /// One run after the other for the latest missed ticks, up to this many. With a cron pattern, finding the first one
    /// takes time proportional to this number, unless there cannot be that many.
    All(u32),
}

impl Missed {
    fn runs_max(self) -> u32 {
        match self {
            Self::CatchUpOne => 1,
            Self::Skip => 0,
            Self::All(runs) => runs,
        }
    }
}

fn read(what: &'static str, time: impl IntoDuration) -> Result<Duration, ScheduleError> {
    match time.into_duration() {
        Ok(Duration::ZERO) => Err(ScheduleError::Zero { what }),
        Ok(time) => Ok(time),
        Err(source) => Err(ScheduleError::Duration { what, source }),
    }
}

/// Returns `at` plus `time`, unless that is past the end of time.
fn later(at: Timestamp, time: Duration) -> Option<Timestamp> {
    Some(at.after(time)).filter(|due| due.since(at) >= time)
}

fn next_on_grid(tick: Timestamp, ended: Timestamp, interval: Duration, runs_max: u32) -> Option<Timestamp> {
    let [tick, ended] = [tick, ended].map(|at| i128::from(at.as_millis()));
    let interval = i128::try_from(interval.as_nanos().div_ceil(1_000_000)).ok()?;
    let missed = (ended - tick).max(0) / interval;
    let given_up = missed - missed.min(runs_max.into());
    i64::try_from(tick + (given_up + 1) * interval).ok().map(Timestamp::from_millis)
}

fn next_match(cron: &Cron, tick: Timestamp, ended: Timestamp, runs_max: u32) -> Option<Timestamp> {
    let next = cron.next_after(tick)?;
    if next > ended || cron.matches_max(ended.since(tick)) <= runs_max.into() {
        return Some(next);
    }
    if runs_max == 0 {
        return cron.next_after(ended);
    }
    let before = |at: Timestamp| cron.latest_until(Timestamp::from_millis(at.as_millis().saturating_sub(1)));
    let missed = std::iter::successors(cron.latest_until(ended), |at| before(*at)).take_while(|at| *at > tick);
    missed.take(usize::try_from(runs_max).unwrap_or(usize::MAX)).last()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::duration::LONGEST;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn seconds(time: Option<Timestamp>) -> Option<i64> {
        time.map(|time| time.as_millis() / 1_000)
    }

    /// Returns the ticks that run in sequence if each run takes no time, after a run of tick 0 that ended at `ended`.
    fn runs(schedule: &Schedule, ended: i64, missed: Missed, count: usize) -> Vec<i64> {
        let next = |tick: &Timestamp| schedule.next(*tick, at(ended).max(*tick), missed);
        std::iter::successors(next(&at(0)), next).take(count).map(|tick| tick.as_millis() / 1_000).collect()
    }

    #[test]
    fn missed_ticks_follow_the_policy() {
        let table = [
            // Not late: the next tick, whatever the policy.
            (0, Missed::CatchUpOne, [60, 120, 180]),
            (59, Missed::Skip, [60, 120, 180]),
            (59, Missed::All(9), [60, 120, 180]),
            // A tick exactly at the end of the previous run has been missed.
            (60, Missed::CatchUpOne, [60, 120, 180]),
            (60, Missed::Skip, [120, 180, 240]),
            // Several missed ticks.
            (200, Missed::CatchUpOne, [180, 240, 300]),
            (200, Missed::Skip, [240, 300, 360]),
            (200, Missed::All(0), [240, 300, 360]),
            (200, Missed::All(1), [180, 240, 300]),
            (200, Missed::All(2), [120, 180, 240]),
            (200, Missed::All(3), [60, 120, 180]),
            (200, Missed::All(u32::MAX), [60, 120, 180]),
        ];
        let schedules = [Schedule::every("1 minute").unwrap(), Cron::new("* * * * *").unwrap().into()];
        for (ended, missed, expected) in table {
            for schedule in &schedules {
                assert_eq!(runs(schedule, ended, missed, 3), expected, "{schedule} {missed:?} after {ended}s");
            }
        }
    }

    #[test]
    fn default_policy_catches_up_once() {
        assert_eq!(Missed::default(), Missed::CatchUpOne);
    }

    #[test]
    fn ticks_missed_while_catching_up_are_caught_up_too() {
        let schedule = Schedule::every("10s").unwrap();
        assert_eq!(seconds(schedule.next(at(0), at(35), Missed::All(2))), Some(20));
        assert_eq!(seconds(schedule.next(at(20), at(48), Missed::All(2))), Some(30));
        assert_eq!(seconds(schedule.next(at(30), at(52), Missed::All(2))), Some(40), "40 and 50 are left");
        assert_eq!(seconds(schedule.next(at(40), at(75), Missed::All(2))), Some(60), "50 is one too many");
    }

    #[test]
    fn clock_set_back_does_not_repeat_a_tick() {
        for schedule in [Schedule::every("1 minute").unwrap(), Cron::new("* * * * *").unwrap().into()] {
            assert_eq!(seconds(schedule.next(at(600), at(30), Missed::CatchUpOne)), Some(660), "{schedule}");
        }
    }

    #[test]
    fn pause_counts_from_the_end_with_any_missed_policy() {
        let schedule = Schedule::pause_between("5s").unwrap();
        for missed in [Missed::CatchUpOne, Missed::Skip, Missed::All(7)] {
            assert_eq!(seconds(schedule.next(at(0), at(1_000), missed)), Some(1_005));
        }
    }

    #[test]
    fn first_tick_is_the_start_or_one_later() {
        let table = [
            (Schedule::every("1 minute").unwrap(), 160),
            (Schedule::pause_between("1s").unwrap(), 101),
            (Cron::new("* * * * *").unwrap().into(), 120),
        ];
        for (schedule, later) in table {
            assert_eq!(seconds(schedule.first(at(100), true)), Some(100), "{schedule}");
            assert_eq!(seconds(schedule.first(at(100), false)), Some(later), "{schedule}");
        }
        let hourly = Schedule::from(Cron::new("@hourly").unwrap());
        assert_eq!(seconds(hourly.first(at(3_600), false)), Some(7_200), "not immediate means after the start");
    }

    #[test]
    fn cron_returns_to_the_calendar_after_an_immediate_start() {
        let hourly = Schedule::from(Cron::new("@hourly").unwrap());
        assert_eq!(seconds(hourly.next(at(100), at(101), Missed::CatchUpOne)), Some(3_600));
    }

    #[test]
    fn zero_interval_is_refused() {
        assert_eq!(Schedule::every(0), Err(ScheduleError::Zero { what: "every" }));
        let error = Schedule::pause_between("0 ms").unwrap_err().to_string();
        assert_eq!(
            error,
            "pause_between 0s must be greater than zero; set the time between two runs, such as \"30 minutes\""
        );
        let error = Schedule::every("5 parsecs").unwrap_err().to_string();
        assert!(error.starts_with("every: duration \"5 parsecs\" is not valid; "), "{error}");
    }

    #[test]
    fn less_than_a_millisecond_is_rounded_up_to_one() {
        let schedule = Schedule::every(Duration::from_nanos(1)).unwrap();
        assert_eq!(schedule.next(at(0), at(0), Missed::Skip), Some(Timestamp::from_millis(1)));
    }

    #[test]
    fn there_is_no_tick_after_the_end_of_time() {
        let schedules = [
            Schedule::every("1s").unwrap(),
            Schedule::pause_between("1s").unwrap(),
            Schedule::every(LONGEST).unwrap(),
            Cron::new("* * * * *").unwrap().zone("Europe/Paris").unwrap().into(),
        ];
        for schedule in schedules {
            for missed in [Missed::Skip, Missed::CatchUpOne, Missed::All(3)] {
                assert_eq!(schedule.next(Timestamp::MAX, Timestamp::MAX, missed), None, "{schedule} {missed:?}");
                assert!(schedule.next(Timestamp::MIN, Timestamp::MIN, missed).is_some(), "{schedule} {missed:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn interval_keeps_its_grid_and_catches_up_by_policy(
            tick in -1_000_000..1_000_000_i64, late in -5_000..50_000_i64, interval in 1..2_000_i64, runs in 0..60_u32,
        ) {
            let schedule = Schedule::every(interval).unwrap();
            let ended = tick + late;
            let missed: Vec<i64> = (1..).map(|k| tick + k * interval).take_while(|tick| *tick <= ended).collect();
            let after = tick + (missed.len() as i64 + 1) * interval;
            let made_up = |runs: usize| missed.iter().rev().take(runs).min().copied().unwrap_or(after);
            for (policy, expected) in [
                (Missed::Skip, after),
                (Missed::CatchUpOne, made_up(1)),
                (Missed::All(runs), made_up(runs as usize)),
            ] {
                let next = schedule.next(Timestamp::from_millis(tick), Timestamp::from_millis(ended), policy);
                prop_assert_eq!(next, Some(Timestamp::from_millis(expected)), "{:?}", policy);
            }
        }

        #[test]
        fn no_tick_overflows_or_goes_backward(tick: i64, ended: i64, interval in 1..=i64::MAX, runs: u32) {
            let [tick, ended] = [tick, ended].map(Timestamp::from_millis);
            for missed in [Missed::Skip, Missed::CatchUpOne, Missed::All(runs)] {
                let next = Schedule::every(interval).unwrap().next(tick, ended, missed);
                prop_assert!(next.is_none_or(|next| next > tick));
                let next = Schedule::pause_between(interval).unwrap().next(tick, ended, missed);
                prop_assert!(next.is_none_or(|next| next > ended));
            }
        }
    }
}
