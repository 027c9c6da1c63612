//! Reads the queue of a pool ahead of its handlers.
//!
//! The store keeps the queue in the order in which events are handled: by priority, with lanes taking turns, then by
//! arrival. If each handler had to fetch its event, it would wait for the store every time. So the pool reads a page of
//! up to [`AHEAD`] events into a window in memory, gives handlers events from the front of the window, and reads the
//! next page when the window is half empty.
//!
//! Two things must not go wrong. An event stays in the queue until the commit that ends it is durable, so a page may
//! contain events that the pool already has (`held`), or that were finished while the page was being read (`passed`).
//! Both are skipped. And an event that is pushed later may be due before events that were read. A push therefore comes
//! with its rank: if an event in the window may follow it, the whole window goes back and is read again. If the push
//! comes while a page is being read, only as much of the page is used as keeps the handlers busy until the next one.

use std::collections::{BTreeSet, VecDeque};

use crate::queue::{QueuePage, QueueRead, Queued};
use crate::time::Timestamp;

/// How many events are read ahead of the handlers.
const AHEAD: usize = 512;
/// The most events held at a time. While that many are read, being handled, or done and not durable yet, no more are
/// started.
pub(super) const HELD_MAX: usize = 8_192;

/// The events that were read, and what is known about the rest of the queue.
#[derive(Clone, Debug)]
pub(super) struct ReadAhead {
    /// Events that were read and wait for a handler.
    window: VecDeque<Queued>,
    /// Events that are in the window, being handled, or done and not durable yet.
    held: BTreeSet<u64>,
    /// Events that were finished while a page was being read. The page may have them as they were before.
    passed: BTreeSet<u64>,
    /// The smallest rank of what was pushed since a page was requested.
    pushed: Option<i64>,
    /// The lane that had its turn last.
    lane: Option<String>,
    /// When the next delayed event becomes ready.
    next_due: Option<Timestamp>,
    is_reading: bool,
    /// Whether a full page held nothing but events that are held already.
    is_crowded: bool,
    /// Whether the queue may have more than was read.
    is_unread: bool,
}

impl ReadAhead {
    pub(super) fn new() -> Self {
        Self {
            window: VecDeque::new(),
            held: BTreeSet::new(),
            passed: BTreeSet::new(),
            pushed: None,
            lane: None,
            next_due: None,
            is_reading: false,
            is_crowded: false,
            is_unread: true,
        }
    }

    // ---- the queue ----

    /// Notes that the queue may have more than was read.
    pub(super) fn grown(&mut self) {
        self.is_unread = true;
    }

    /// Makes way for pushed events of this rank: what was read ahead and may follow them goes back to the queue.
    pub(super) fn make_way(&mut self, rank: i64) {
        self.pushed = earlier(self.pushed, Some(rank));
        if self.window.iter().any(|queued| may_follow(queued, rank)) {
            for queued in self.window.drain(..) {
                self.held.remove(&queued.pos);
            }
            self.is_unread = true;
        }
    }

    /// Returns the next page to read, if there may be more and there is room for it.
    pub(super) fn next_page(&mut self, now: Timestamp) -> Option<QueueRead> {
        self.is_unread |= self.next_due.is_some_and(|due| due <= now);
        if !self.is_unread || self.is_reading || self.window.len() >= AHEAD / 2 {
            return None;
        }
        (self.is_unread, self.is_reading, self.pushed) = (false, true, None);
        Some(QueueRead { now, after: self.lane.clone(), limit: AHEAD + self.held.len() })
    }

    /// Takes over a page that was read. `needed` is how many events keep the handlers busy until the next one.
    pub(super) fn take_page(&mut self, page: QueuePage, needed: usize) {
        debug_assert!(self.is_reading, "a page is taken over only if it was requested");
        self.is_reading = false;
        let passed = std::mem::take(&mut self.passed);
        let (mut room, count) = (AHEAD.saturating_sub(self.window.len()), page.events.len());
        let pushed = self.pushed.unwrap_or(i64::MAX);
        if page.events.iter().any(|queued| may_follow(queued, pushed)) {
            room = room.min(needed);
            self.is_unread = true;
        }
        let before = self.window.len();
        for queued in page.events {
            if passed.contains(&queued.pos) {
                self.is_unread = true;
            } else if room > 0 && self.held.insert(queued.pos) {
                room -= 1;
                self.window.push_back(queued);
            }
        }
        self.is_unread |= room == 0;
        // A full page is rarely all there is. If it contains nothing new, it is read again once something is done.
        let is_full = count >= AHEAD;
        match self.window.len() > before {
            true => self.is_unread |= is_full,
            false => self.is_crowded = is_full,
        }
        self.next_due = page.next_due;
    }

    /// Notes that the page could not be read, so that it is requested again.
    pub(super) fn read_failed(&mut self) {
        (self.is_reading, self.is_unread) = (false, true);
        self.passed.clear();
    }

    // ---- the window ----

    /// Returns the events that wait for a handler, in order.
    pub(super) fn window(&self) -> &VecDeque<Queued> {
        &self.window
    }

    /// Takes events from the front of the window. They stay held.
    pub(super) fn take(&mut self, count: usize) -> Vec<Queued> {
        let events: Vec<Queued> = self.window.drain(..count).collect();
        self.lane = events.last().map(|queued| queued.turn().1);
        events
    }

    /// Puts an event back to the front of the window.
    pub(super) fn put_back(&mut self, queued: Queued) {
        debug_assert!(self.held.contains(&queued.pos), "what was taken from the window is held");
        self.window.push_front(queued);
    }

    /// Releases events whose outcome is durable.
    pub(super) fn release(&mut self, events: &[u64]) {
        for pos in events {
            self.held.remove(pos);
            self.passed.extend(self.is_reading.then_some(*pos));
        }
        // A new read finds what is behind a crowded page.
        self.is_unread |= std::mem::take(&mut self.is_crowded);
    }

    /// Returns `true` if so many events are held that no more may start.
    pub(super) fn is_full(&self) -> bool {
        self.held.len() >= HELD_MAX
    }

    /// Returns `true` if no event waits for a handler, as far as is known.
    pub(super) fn is_empty(&self) -> bool {
        self.window.is_empty() && !self.is_unread && !self.is_reading
    }

    // ---- delayed events ----

    /// Notes that an event waits until `due`.
    pub(super) fn delay(&mut self, due: Timestamp) {
        self.next_due = earlier(self.next_due, Some(due));
    }

    /// Returns when the next delayed event becomes ready.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.next_due
    }
}

/// Returns the smaller of two values that may be missing.
pub(super) fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    [one, other].into_iter().flatten().min()
}

/// Returns `true` if an event pushed with this rank may have its turn before `queued`.
fn may_follow(queued: &Queued, rank: i64) -> bool {
    let (own, lane) = queued.turn();
    own > rank || (own == rank && !lane.is_empty())
}
