//! Reads the queue of a pool ahead of its handlers.
//!
//! The store keeps the queue in the order in which events are handled: by priority, with keys taking turns, then by
//! arrival. If each handler had to fetch its event, it would wait for the store every time. So the pool reads a page of
//! up to [`AHEAD`] events into a window in memory, gives handlers events from the front of the window, and reads the
//! next page when the window is half empty.
//!
//! Two things must not go wrong. An event stays in the queue until the commit that ends it is durable, so a page may
//! contain events that the pool already has (`held`), or that were finished while the page was being read (`passed`).
//! Both are skipped. And an event that is pushed later may be due before events that were read. A push therefore comes
//! with its rank: if an event in the window may follow it, the whole window goes back and is read again. If the push
//! comes while a page is being read, only as much of the page is used as keeps the handlers busy until the next one.

use std::sync::PoisonError;

use outlive_core::queue::{QueueRead, Queued};
use outlive_core::time::Timestamp;

use super::PoolDriver;
use crate::error::Error;

/// How many events are read ahead of the handlers.
const AHEAD: usize = 512;

impl PoolDriver {
    /// Makes way for pushed events of this rank: what was read ahead and may follow them goes back to the queue.
    pub(super) fn make_way(&mut self, rank: i64) {
        self.work.pushed = [self.work.pushed, Some(rank)].into_iter().flatten().min();
        if self.work.window.iter().any(|queued| may_follow(queued, rank)) {
            self.work.window.drain(..).for_each(|queued| {
                self.work.held.remove(&queued.pos);
            });
            self.work.is_unread = true;
        }
    }

    /// Takes over a page that was read.
    pub(super) fn take_page(&mut self, now: Timestamp) {
        let page = self.work.page.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(page) = page else { return };
        self.work.is_reading = false;
        let passed = std::mem::take(&mut self.work.passed);
        match page {
            Ok(page) => {
                let (mut room, count) = (AHEAD.saturating_sub(self.work.window.len()), page.events.len());
                let pushed = self.work.pushed.unwrap_or(i64::MAX);
                if page.events.iter().any(|queued| may_follow(queued, pushed)) {
                    // Enough to keep the handlers busy until the next page.
                    room = room.min(self.rules.concurrency.saturating_mul(self.rules.batch));
                    self.work.is_unread = true;
                }
                // A full page is rarely all there is. If it contains nothing new, it is read again once something is
                // done.
                let is_full = count >= AHEAD;
                let before = self.work.window.len();
                for queued in page.events {
                    if passed.contains(&queued.pos) {
                        self.work.is_unread = true;
                    } else if room > 0 && self.work.held.insert(queued.pos) {
                        room -= 1;
                        self.work.window.push_back(queued);
                    }
                }
                self.work.is_unread |= room == 0;
                match self.work.window.len() > before {
                    true => self.work.is_unread |= is_full,
                    false => self.work.is_crowded = is_full,
                }
                self.work.next_due = page.next_due;
                if let Some(due) = page.next_due.filter(|due| *due > now) {
                    self.worker.wakes.add(due, self.num);
                }
            }
            Err(error) => {
                tracing::warn!(job = self.id.as_str(), "could not read the queue, trying again: {error}");
                self.work.is_unread = true;
            }
        }
    }

    /// Reads the next page if there may be more and there is room for it.
    pub(super) fn read_on(&mut self, now: Timestamp) {
        let work = &mut self.work;
        if work.next_due.is_some_and(|due| due <= now) {
            work.is_unread = true;
        }
        let is_wanted = work.is_unread && work.window.len() < AHEAD / 2 && !self.record.is_stopped;
        if !is_wanted || work.is_reading || work.is_stopping {
            return;
        }
        (work.is_unread, work.is_reading, work.pushed) = (false, true, None);
        let read = QueueRead { now, after: work.lane.clone(), limit: AHEAD + work.held.len() };
        let (store, page, mailbox, num) =
            (self.worker.store.clone(), work.page.clone(), self.mailbox.clone(), self.num);
        tokio::spawn(async move {
            let found = store.queue(num, read).await;
            if found.is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            *page.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.map_err(Error::from));
            mailbox.post(|_| {});
        });
    }
}

/// Returns `true` if an event pushed with this rank may have its turn before `queued`.
fn may_follow(queued: &Queued, rank: i64) -> bool {
    let (own, lane) = queued.turn();
    own > rank || (own == rank && !lane.is_empty())
}
