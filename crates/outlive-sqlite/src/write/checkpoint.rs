//! Decides when to checkpoint the WAL and when to restart it; the writer carries it out.
//!
//! A passive checkpoint is cheap and waits for nobody, but it never restarts a WAL that always has a reader. A restart
//! waits for readers, and no write is accepted meanwhile. If a reader stays long, waiting for it repeatedly makes
//! writes many times slower, so after a failed restart the next one is tried when the WAL has doubled. Nothing is lost
//! by that: once the reader is gone, a passive checkpoint moves all of the WAL into the file, and SQLite restarts it
//! with the next write.

use std::time::{Duration, Instant};

use outlive_core::payload::Payload;
use outlive_core::store::commit::Write;
use outlive_core::throttle::Throttle;

use crate::watch;

/// How many pages wait in the WAL, approximately, before a checkpoint. A page that is written repeatedly is in the WAL
/// as often, and SQLite steps over all its copies to add another: a longer WAL makes small writes slower.
pub(super) const CHECKPOINT_PAGES: i64 = 1_000;

/// The multiple of that length at which to restart the WAL. One that long was checkpointed before but not reused,
/// because somebody was reading it at that moment.
const RESTART_AT: i64 = 2;

/// The WAL length in pages from which to warn that a reader holds it open.
const PAGES_LONG: i64 = 10_000;

/// The minimum interval between warnings about the WAL.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The approximate size of a small row without its text.
const ROW_BYTES: usize = 64;

/// Why a checkpoint is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CheckpointReason {
    /// To keep the WAL short.
    Length,
    /// To make room: a write was refused, perhaps because the disk is full.
    Room,
}

/// What to do about the WAL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CheckpointAction {
    Nothing,
    /// Move the pages that nobody reads into the file.
    Passive,
    /// Wait for readers, so that the WAL is restarted.
    Restart,
}

/// The state of the WAL, as a checkpoint found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WalState {
    /// `true` if a reader was in the way.
    pub(super) is_busy: bool,
    pub(super) pages: i64,
    /// How many of the pages are in the file.
    pub(super) moved: i64,
}

impl WalState {
    /// Returns `true` if the WAL is long enough to warn about.
    pub(super) fn is_long(&self) -> bool {
        self.pages >= PAGES_LONG
    }
}

/// The checkpoint policy.
#[derive(Debug)]
pub(super) struct Checkpoints {
    max_pages: i64,
    /// The WAL length from which a checkpoint waits for readers.
    restart_at: i64,
    /// The approximate number of pages written since the WAL was last inspected.
    pages_written: i64,
    begun: Instant,
    /// Limits how often warnings about the WAL are logged.
    warnings: Throttle,
}

impl Checkpoints {
    /// Creates a policy under which about `max_pages` pages may wait in the WAL.
    pub(super) fn new(max_pages: i64) -> Self {
        Self {
            max_pages,
            restart_at: RESTART_AT * max_pages,
            pages_written: 0,
            begun: watch::now(),
            warnings: Throttle::new(WARN_EVERY),
        }
    }

    /// Returns `true` if too little was written to inspect the WAL: inspecting it costs as much as a small write, and a
    /// few writes more or less do not matter.
    pub(super) fn can_wait(&self) -> bool {
        self.pages_written < self.max_pages / 16
    }

    /// Counts the pages that a batch takes.
    pub(super) fn count(&mut self, batch: &[Write]) {
        self.pages_written += batch.iter().map(pages).sum::<i64>();
    }

    /// Counts from zero again, as the WAL is about to be inspected.
    pub(super) fn begin_count(&mut self) {
        self.pages_written = 0;
    }

    pub(super) fn next(&mut self, reason: CheckpointReason, wal: WalState) -> CheckpointAction {
        if wal.pages < RESTART_AT * self.max_pages {
            self.restart_at = RESTART_AT * self.max_pages;
        }
        match reason {
            CheckpointReason::Room if wal.pages > 0 => CheckpointAction::Restart,
            _ if wal.pages - wal.moved < self.max_pages => CheckpointAction::Nothing,
            _ if wal.pages < self.restart_at => CheckpointAction::Passive,
            _ => CheckpointAction::Restart,
        }
    }

    /// Returns `true` if a warning about the WAL may be logged now.
    pub(super) fn may_warn(&mut self) -> bool {
        self.warnings.pass(self.begun.elapsed()).is_some()
    }

    /// Records the result of a restart.
    pub(super) fn restarted(&mut self, wal: WalState) {
        if wal.is_busy {
            self.restart_at = wal.pages.saturating_mul(2).max(self.restart_at);
        }
    }
}

/// Estimates how many WAL pages a write takes.
fn pages(write: &Write) -> i64 {
    let bytes = match write {
        Write::Start(start) => start.input.len(),
        Write::Message(send) => send.message.to_parts().2.map_or(0, Payload::len),
        Write::Commit(commit) => {
            commit.entries.iter().filter_map(|entry| entry.payload.as_ref()).map(Payload::len).sum()
        }
        Write::Push(push) => push.events.iter().map(|event| event.payload.len() + ROW_BYTES).sum(),
        Write::Turn(turn) => {
            let record = turn.state.as_ref().and_then(|state| state.outcome.as_ref()).map_or(0, Payload::len);
            let moved = turn.queue.iter().filter_map(|moved| moved.to.as_ref());
            let events = moved.chain(turn.dead.iter().map(|dead| &dead.event));
            let kept: usize = events.map(|event| event.payload.len() + ROW_BYTES).sum();
            return turn.writes.iter().map(pages).sum::<i64>() + 1 + ((record + kept) / 4096) as i64;
        }
        _ => 0,
    };
    1 + (bytes / 4096) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What broke: during a long read, a restart was attempted in vain every few dozen pages, 100 ms each time.
    #[test]
    fn long_reader_is_waited_for_only_a_few_times() {
        let mut checkpoints = Checkpoints::new(1_000);
        let mut restarts = 0;
        for pages in (0..64_000).step_by(62) {
            let wal = WalState { is_busy: true, pages, moved: 0 };
            if checkpoints.next(CheckpointReason::Length, wal) == CheckpointAction::Restart {
                restarts += 1;
                checkpoints.restarted(wal);
            }
        }
        assert_eq!(restarts, 5);
    }

    #[test]
    fn readers_are_waited_for_again_after_the_wal_restarts() {
        let mut checkpoints = Checkpoints::new(1_000);
        let wal = |pages| WalState { is_busy: true, pages, moved: 0 };
        assert_eq!(checkpoints.next(CheckpointReason::Length, wal(2_000)), CheckpointAction::Restart);
        checkpoints.restarted(wal(2_000));
        assert_eq!(checkpoints.next(CheckpointReason::Length, wal(2_100)), CheckpointAction::Passive);
        assert_eq!(checkpoints.next(CheckpointReason::Length, wal(10)), CheckpointAction::Nothing);
        assert_eq!(checkpoints.next(CheckpointReason::Length, wal(2_100)), CheckpointAction::Restart);
    }

    #[test]
    fn refused_write_restarts_the_wal_at_any_length() {
        let mut checkpoints = Checkpoints::new(1_000);
        let wal = |pages| WalState { is_busy: false, pages, moved: 0 };
        assert_eq!(checkpoints.next(CheckpointReason::Room, wal(1)), CheckpointAction::Restart);
        assert_eq!(checkpoints.next(CheckpointReason::Room, wal(0)), CheckpointAction::Nothing);
    }
}
