//! Crash schedules: where the process dies, as a value and as the text that reproduces it.

use std::fmt;
use std::str::FromStr;

use crate::faults::Fault;

/// The side of a commit on which the process dies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Side {
    /// Nothing of the commit is written.
    Before,
    /// The commit is written, but the process dies before it learns of it.
    After,
}

/// One crash of the process. Commits are counted from 1, over all process lifetimes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Crash {
    pub(super) commit: u64,
    pub(super) side: Side,
}

/// All crashes of one trial in order, and which outside messages are left out.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Schedule {
    pub(super) crashes: Vec<Crash>,
    /// Signals and cancels that are not sent, by number from 1.
    pub(super) without: Vec<usize>,
}

impl Crash {
    pub(super) fn fault(self) -> Fault {
        match self.side {
            Side::Before => Fault::CrashBefore(self.commit),
            Side::After => Fault::CrashAfter(self.commit),
        }
    }
}

impl Schedule {
    /// Returns the same schedule without any crash.
    pub(super) fn uncrashed(&self) -> Self {
        Self { crashes: Vec::new(), without: self.without.clone() }
    }

    /// Returns all schedules with one more crash, after those of this one and no later than commit `commits`.
    pub(super) fn longer(&self, commits: u64) -> impl Iterator<Item = Self> + '_ {
        let first = self.crashes.last().map_or(1, |crash| crash.commit + 1);
        let crashes =
            (first..=commits).flat_map(|commit| [Side::Before, Side::After].map(|side| Crash { commit, side }));
        crashes.map(|crash| {
            let mut longer = self.clone();
            longer.crashes.push(crash);
            longer
        })
    }

    /// Returns all schedules that are smaller in one way: one crash fewer, or one crash at an earlier point.
    pub(super) fn smaller(&self) -> Vec<Self> {
        let fewer = (0..self.crashes.len()).map(|n| {
            let mut smaller = self.clone();
            smaller.crashes.remove(n);
            smaller
        });
        fewer.chain(self.earlier()).collect()
    }

    /// Returns all schedules that have no crash and leave out one more of the messages.
    pub(super) fn quieter(&self, messages: usize) -> Vec<Self> {
        let left_out = (1..=messages).filter(|n| !self.without.contains(n)).map(|n| {
            let mut quieter = self.uncrashed();
            quieter.without.push(n);
            quieter.without.sort_unstable();
            quieter
        });
        left_out.collect()
    }

    fn earlier(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for (n, crash) in self.crashes.iter().enumerate() {
            let shorter = Self { crashes: self.crashes[..n].to_vec(), without: self.without.clone() };
            for mut earlier in shorter.longer(crash.commit) {
                let is_earlier = earlier.crashes.last().is_some_and(|moved| moved < crash);
                earlier.crashes.extend(&self.crashes[n + 1..]);
                all.extend(is_earlier.then_some(earlier));
            }
        }
        all
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let crashes = self.crashes.iter().map(|crash| match crash.side {
            Side::Before => format!("before {}", crash.commit),
            Side::After => format!("after {}", crash.commit),
        });
        let all: Vec<_> = crashes.chain(self.without.iter().map(|n| format!("without message {n}"))).collect();
        f.write_str(&if all.is_empty() { "no crash".to_owned() } else { all.join(", ") })
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut schedule = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "no crash") {
            let problem =
                || format!("{part:?} in {text:?} is not a crash; write `before 5` or `after 5`, separated by commas");
            let (word, number) = part.rsplit_once(' ').ok_or_else(problem)?;
            let commit: u64 = number.parse().map_err(|_| problem())?;
            match word.trim() {
                "before" => schedule.crashes.push(Crash { commit, side: Side::Before }),
                "after" => schedule.crashes.push(Crash { commit, side: Side::After }),
                "without message" => schedule.without.push(usize::try_from(commit).map_err(|_| problem())?),
                _ => return Err(problem()),
            }
        }
        if !schedule.crashes.is_sorted_by(|one, next| one.commit < next.commit) {
            return Err(format!("{text:?} is out of order; list commits in ascending order, each once"));
        }
        Ok(schedule)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn schedule_round_trips_through_text() {
        for text in ["no crash", "before 5", "before 5, after 9", "after 1, before 2, without message 2"] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_schedule_is_reported_with_a_fix() {
        let problem = |text: &str| text.parse::<Schedule>().unwrap_err();
        assert_eq!(
            problem("before five"),
            "\"before five\" in \"before five\" is not a crash; write `before 5` or `after 5`, separated by commas"
        );
        assert!(problem("soon 5").contains("is not a crash"));
        assert!(problem("before 5, after 5").contains("is out of order"));
    }

    #[test]
    fn longer_schedules_add_a_crash_after_the_last() {
        let one: Schedule = "after 2".parse().unwrap();
        let longer: Vec<_> = one.longer(3).map(|longer| longer.to_string()).collect();
        assert_eq!(longer, ["after 2, before 3", "after 2, after 3"]);
    }

    #[test]
    fn smaller_schedules_drop_or_move_one_crash() {
        let pair: Schedule = "before 2, after 3".parse().unwrap();
        let smaller: Vec<_> = pair.smaller().iter().map(ToString::to_string).collect();
        assert_eq!(smaller, ["after 3", "before 2", "before 1, after 3", "after 1, after 3", "before 2, before 3"]);
    }

    #[test]
    fn quieter_schedules_drop_one_more_message() {
        let one: Schedule = "before 2, without message 2".parse().unwrap();
        let quieter: Vec<_> = one.quieter(3).iter().map(ToString::to_string).collect();
        assert_eq!(quieter, ["without message 1, without message 2", "without message 2, without message 3"]);
    }
}
