//! When the log is moved into the file, and when it is begun anew: decisions, apart from doing it.
//!
//! A passive checkpoint costs little and waits for nobody, but a log that somebody reads at each moment is never begun
//! anew by it. A restart waits for readers, and no write is taken meanwhile. If a reader stays for long, waiting again
//! and again makes writes many times slower, so after a failed restart the next one is tried when the log has doubled.
//! Nothing is lost by that: once the reader is gone, a passive checkpoint moves all of the log, and SQLite begins it
//! anew with the next write.

/// A checkpoint is made when about this many pages wait in the log. A page that is written again and again is in the
/// log as often, and SQLite passes all of them by to add one more: a longer log makes small writes slower.
pub(crate) const CHECKPOINT_PAGES: i64 = 1_000;

/// Past so many times that, the log was moved into the file before and is not used again, because somebody read it just
/// then.
const RESTART_AT: i64 = 2;

/// Past this many pages people should know that a reader holds the log open.
const PAGES_LONG: i64 = 10_000;

/// What a checkpoint is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// Keeping the log short.
    Order,
    /// A write was refused, perhaps for want of room.
    Room,
}

/// What to do about the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Nothing,
    /// Move what nobody reads into the file.
    Passive,
    /// Wait for readers, so that the log is begun anew.
    Restart,
}

/// The log, as a checkpoint found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Log {
    /// Whether a reader was in the way.
    pub(crate) is_busy: bool,
    pub(crate) pages: i64,
    /// How many of them are in the file.
    pub(crate) moved: i64,
}

impl Log {
    /// Returns `true` if it is so long that people should know.
    pub(crate) fn is_long(&self) -> bool {
        self.pages >= PAGES_LONG
    }
}

/// Decides on checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    pages_max: i64,
    /// How long the log gets before readers are waited for.
    restart_at: i64,
}

impl Checkpoints {
    /// With about how many pages that may wait in the log.
    pub(crate) fn new(pages_max: i64) -> Self {
        Self { pages_max, restart_at: RESTART_AT * pages_max }
    }

    /// Returns `true` if so little was written that the log need not be looked at: to look costs as much as a small
    /// write, and a few writes more or less do not matter.
    pub(crate) fn can_wait(&self, pages_written: i64) -> bool {
        pages_written < self.pages_max / 16
    }

    pub(crate) fn next(&mut self, wanted: Wanted, log: Log) -> Act {
        if log.pages < RESTART_AT * self.pages_max {
            self.restart_at = RESTART_AT * self.pages_max;
        }
        match wanted {
            Wanted::Room if log.pages > 0 => Act::Restart,
            _ if log.pages - log.moved < self.pages_max => Act::Nothing,
            _ if log.pages < self.restart_at => Act::Passive,
            _ => Act::Restart,
        }
    }

    /// Remembers what came of a restart.
    pub(crate) fn restarted(&mut self, log: Log) {
        if log.is_busy {
            self.restart_at = log.pages.saturating_mul(2).max(self.restart_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What broke: while somebody read for long, every few dozen pages a restart was waited for in vain, 100 ms each.
    #[test]
    fn a_reader_that_stays_is_waited_for_a_few_times_only() {
        let mut checkpoints = Checkpoints::new(1_000);
        let mut restarts = 0;
        for pages in (0..64_000).step_by(62) {
            let log = Log { is_busy: true, pages, moved: 0 };
            if checkpoints.next(Wanted::Order, log) == Act::Restart {
                restarts += 1;
                checkpoints.restarted(log);
            }
        }
        assert_eq!(restarts, 5);
    }

    #[test]
    fn readers_are_waited_for_again_once_the_log_was_begun_anew() {
        let mut checkpoints = Checkpoints::new(1_000);
        let log = |pages| Log { is_busy: true, pages, moved: 0 };
        assert_eq!(checkpoints.next(Wanted::Order, log(2_000)), Act::Restart);
        checkpoints.restarted(log(2_000));
        assert_eq!(checkpoints.next(Wanted::Order, log(2_100)), Act::Passive);
        assert_eq!(checkpoints.next(Wanted::Order, log(10)), Act::Nothing);
        assert_eq!(checkpoints.next(Wanted::Order, log(2_100)), Act::Restart);
    }

    #[test]
    fn a_refused_write_has_the_log_begun_anew_whatever_its_length() {
        let mut checkpoints = Checkpoints::new(1_000);
        let log = |pages| Log { is_busy: false, pages, moved: 0 };
        assert_eq!(checkpoints.next(Wanted::Room, log(1)), Act::Restart);
        assert_eq!(checkpoints.next(Wanted::Room, log(0)), Act::Nothing);
    }
}
