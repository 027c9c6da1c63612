//! The rate limit of a pool: how many calls may start within a period.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Timestamp;

/// A limit on how many calls start within any period of a given length.
#[derive(Clone, Debug, Default)]
pub(super) struct RateLimit {
    /// The number of calls and the length of the period; unlimited if there is none.
    limit: Option<(usize, Duration)>,
    /// When the calls of the last period started, in order.
    starts: VecDeque<Timestamp>,
}

impl RateLimit {
    pub(super) fn new(limit: Option<(usize, Duration)>) -> Self {
        Self { limit, starts: VecDeque::new() }
    }

    /// Counts a call that starts now, if the limit allows it.
    ///
    /// # Errors
    /// Returns when the limit allows the next call.
    pub(super) fn start(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        let Some((calls, per)) = self.limit else { return Ok(()) };
        let starts = &mut self.starts;
        if starts.back().is_some_and(|last| *last > now) {
            // The clock was set back: calls with a later start count as started now.
            starts.iter_mut().for_each(|at| *at = now.min(*at));
        }
        while starts.front().is_some_and(|first| first.after(per) <= now) {
            starts.pop_front();
        }
        match starts.front() {
            Some(first) if starts.len() >= calls => Err(first.after(per)),
            _ => {
                starts.push_back(now);
                Ok(())
            }
        }
    }

    /// Returns when no recent call counts any more, if that is later than now.
    pub(super) fn cold_at(&self, now: Timestamp) -> Option<Timestamp> {
        let (_, per) = self.limit?;
        let last = self.starts.back()?;
        Some(now.min(*last).after(per)).filter(|cold| *cold > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn limit_holds_within_every_period() {
        let mut rate = RateLimit::new(Some((2, Duration::from_secs(10))));
        let table = [
            (0, Ok(())),
            (4, Ok(())),
            (4, Err(at(10))),
            (9, Err(at(10))),
            (10, Ok(())),
            (10, Err(at(14))),
            (14, Ok(())),
            (100, Ok(())),
            (100, Ok(())),
            (100, Err(at(110))),
        ];
        for (now, expected) in table {
            assert_eq!(rate.start(at(now)), expected, "at {now}");
        }
    }

    #[test]
    fn clock_set_back_delays_by_at_most_one_period() {
        let mut rate = RateLimit::new(Some((2, Duration::from_secs(60))));
        assert_eq!([rate.start(at(4_000)), rate.start(at(4_000))], [Ok(()), Ok(())]);
        assert_eq!(rate.start(at(400)), Err(at(460)), "the period is not over");
        assert_eq!(rate.cold_at(at(400)), Some(at(460)));
        assert_eq!([rate.start(at(460)), rate.start(at(460))], [Ok(()), Ok(())]);
    }

    #[test]
    fn only_recent_calls_keep_a_limit_warm() {
        let mut rate = RateLimit::new(Some((1, Duration::from_secs(60))));
        assert_eq!(rate.cold_at(at(0)), None);
        assert_eq!(rate.start(at(0)), Ok(()));
        assert_eq!([0, 59, 60].map(|now| rate.cold_at(at(now))), [Some(at(60)), Some(at(60)), None]);
        let mut unlimited = RateLimit::new(None);
        assert_eq!([unlimited.start(at(0)), unlimited.start(at(0))], [Ok(()), Ok(())]);
        assert_eq!(unlimited.cold_at(at(0)), None);
    }
}
