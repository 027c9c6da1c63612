//! Decides when to checkpoint the WAL and when to restart it; the writer carries it out.
//!
//! A passive checkpoint is cheap and waits for nobody, but it never restarts a WAL that always has a reader. A restart
//! waits for readers, and no write is accepted meanwhile. If a reader stays long, waiting for it repeatedly makes
//! writes many times slower, so after a failed restart the next one is tried when the WAL has doubled. Nothing is lost
//! by that: once the reader is gone, a passive checkpoint moves all of the WAL into the file, and SQLite restarts it
//! with the next write.

/// How many pages wait in the WAL, approximately, before a checkpoint. A page that is written repeatedly is in the WAL
/// as often, and SQLite steps over all its copies to add another: a longer WAL makes small writes slower.
pub(crate) const CHECKPOINT_PAGES: i64 = 1_000;

/// The multiple of that length at which to restart the WAL. One that long was checkpointed before but not reused,
/// because somebody was reading it at that moment.
const RESTART_AT: i64 = 2;

/// The WAL length in pages from which to warn that a reader holds it open.
const PAGES_LONG: i64 = 10_000;

/// Why a checkpoint is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// To keep the WAL short.
    Order,
    /// To make room: a write was refused, perhaps because the disk is full.
    Room,
}

/// What to do about the WAL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Nothing,
    /// Move the pages that nobody reads into the file.
    Passive,
    /// Wait for readers, so that the WAL is restarted.
    Restart,
}

/// The state of the WAL, as a checkpoint found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Log {
    /// `true` if a reader was in the way.
    pub(crate) is_busy: bool,
    pub(crate) pages: i64,
    /// How many of the pages are in the file.
    pub(crate) moved: i64,
}

impl Log {
    /// Returns `true` if the WAL is long enough to warn about.
    pub(crate) fn is_long(&self) -> bool {
        self.pages >= PAGES_LONG
    }
}

/// The checkpoint policy.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    max_pages: i64,
    /// The WAL length from which a checkpoint waits for readers.
    restart_at: i64,
}

impl Checkpoints {
    /// Creates a policy under which about `max_pages` pages may wait in the WAL.
    pub(crate) fn new(max_pages: i64) -> Self {
        Self { max_pages, restart_at: RESTART_AT * max_pages }
    }

    /// Returns `true` if too little was written to inspect the WAL: inspecting it costs as much as a small write, and a
    /// few writes more or less do not matter.
    pub(crate) fn can_wait(&self, pages_written: i64) -> bool {
        pages_written < self.max_pages / 16
    }

    pub(crate) fn next(&mut self, wanted: Wanted, log: Log) -> Act {
        if log.pages < RESTART_AT * self.max_pages {
            self.restart_at = RESTART_AT * self.max_pages;
        }
        match wanted {
            Wanted::Room if log.pages > 0 => Act::Restart,
            _ if log.pages - log.moved < self.max_pages => Act::Nothing,
            _ if log.pages < self.restart_at => Act::Passive,
            _ => Act::Restart,
        }
    }

    /// Records the result of a restart.
    pub(crate) fn restarted(&mut self, log: Log) {
        if log.is_busy {
            self.restart_at = log.pages.saturating_mul(2).max(self.restart_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What broke: during a long read, a restart was attempted in vain every few dozen pages, 100 ms each time.
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
