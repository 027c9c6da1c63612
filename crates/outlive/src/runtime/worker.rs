//! Executes instances: claims what is due, loads it into memory, and passes messages on to it.
//!
//! The store knows when each instance is due: at a time, or because a message arrived. A *claim* is one write that
//! makes this engine's epoch the owner of due instances and returns everything stored for them. The worker keeps the
//! wakes of the near future in memory ([`Wakes`](crate::runtime::wakes::Wakes)), queues instances as they fall due
//! ([`DueQueue`](crate::runtime::services::due::DueQueue)), claims as many as there are places for in memory
//! ([`Residency`](crate::runtime::residency::Residency)), and spawns a driver for each. A wake or a message for an
//! instance that is already in memory goes to its mailbox instead. An instance that pauses is released in the store. It
//! may stay in memory, but once it has left, its next wake or message leads to another claim.
//!
//! All writes pass through the committer, which reports each durable write here before it replies to the caller
//! ([`WriteListener`](crate::runtime::committer::WriteListener)). So a claimed instance is in memory before any later
//! message for it is passed on.

pub(crate) mod loader;
mod recovery;
mod written;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use outlive_core::store::commit::{Claim, Write};
use outlive_core::store::query::Wake;
use outlive_core::store::touched::Touch;
use outlive_core::time::Timestamp;

use crate::error::Error;
use crate::instance::meters;
use crate::runtime::follower::Follower;
use crate::runtime::services::{RETRY, Services};
use crate::runtime::wakes::HORIZON;
use loader::Loader;

/// How many wakes are read from the store at a time.
const WAKES_MAX: usize = 4096;

/// The executing part of an engine.
pub(crate) struct Worker {
    services: Arc<Services>,
    loader: Loader,
    /// Notifies waiting callers of what other processes write.
    follower: Arc<Follower>,
    /// When the clock was last read, in milliseconds.
    looked_at: AtomicI64,
    /// The last message from outside that was passed on.
    heard: Mutex<Wake>,
}

impl Worker {
    pub(crate) fn new(services: Arc<Services>, loader: Loader) -> Arc<Self> {
        let (bell, waiters) = (services.committer.bell.clone(), services.waiters.clone());
        Arc::new(Self {
            // Except for the removal of an instance, every change is reported here as it is made.
            follower: Follower::new(services.store.clone(), waiters, bell, Touch::Removed),
            looked_at: AtomicI64::new(i64::MIN),
            heard: Mutex::new(Wake::FIRST),
            services,
            loader,
        })
    }

    /// Runs the worker's loop: claims whatever is due, in order, as room allows.
    pub(crate) async fn run(self: Arc<Self>) {
        self.load_suspects().await;
        while !self.services.committer.is_closed() {
            self.services.touch();
            if let Err(error) = self.look().await {
                if self.services.committer.is_closed() {
                    return;
                }
                tracing::warn!("could not read what is due, trying again: {error}");
                tokio::time::sleep(RETRY).await;
                continue;
            }
            let next = self.next_look();
            tokio::select! {
                biased;
                // The sleep may end early, as the clock may have been set back; then the loop looks again.
                () = self.services.env.clock.sleep_toward(next) => {}
                () = self.services.wakes.wakeup.notified() => {}
                () = self.services.due.wakeup.notified() => {}
                () = self.services.store.changed() => {
                    self.services.note_foreign();
                    if let Err(error) = self.look_outside().await {
                        self.services.wakes.forget_horizon();
                        tracing::warn!("could not read what other processes wrote, trying again: {error}");
                    }
                }
            }
        }
    }

    /// Returns when to look again if nothing happens before.
    fn next_look(&self) -> Timestamp {
        if self.services.is_stopping() {
            return Timestamp::MAX;
        }
        let next = if self.may_read() {
            self.services.wakes.next()
        } else {
            self.services.wakes.first().unwrap_or(Timestamp::MAX)
        };
        [self.services.residency.next_cold(), self.services.due.next_look()]
            .into_iter()
            .flatten()
            .fold(next, Timestamp::min)
    }

    async fn look(&self) -> Result<(), Error> {
        if self.services.is_stopping() {
            return Ok(());
        }
        let now = self.services.now();
        if self.looked_at.swap(now.as_millis(), Ordering::Relaxed) > now.as_millis() {
            self.services.pools.clock_set_back();
        }
        if self.may_read() && self.services.wakes.is_short(now) {
            self.load_wakes(now).await?;
        }
        for wake in self.services.wakes.take_due(now) {
            if !wake.is_of_message() {
                meters::wake(|| now.since(wake.due));
            }
            self.wake(wake);
        }
        self.services.residency.evict_cold(now);
        self.recover(now).await?;
        self.claim().await?;
        let has_grown = self.services.due.grow(&self.services.residency, now);
        if has_grown {
            self.claim().await?;
        }
        meters::due(|| self.services.due.len());
        Ok(())
    }

    /// Returns `true` if there is room for another page of wakes.
    fn may_read(&self) -> bool {
        self.services.due.has_room(WAKES_MAX)
    }

    /// Reads the next page of wakes.
    async fn load_wakes(&self, now: Timestamp) -> Result<(), Error> {
        let until = now.after(HORIZON);
        let before = self.services.wakes.raise(until);
        let page = self.services.store.wakes_after(before, until, WAKES_MAX).await;
        let page = page.inspect_err(|_| self.services.wakes.lower(before))?;
        let is_last = page.len() < WAKES_MAX;
        self.services.wakes.load(page, is_last, now);
        Ok(())
    }

    /// Passes on what another process has sent to runs in memory, and rereads what is due.
    async fn look_outside(&self) -> Result<(), Error> {
        self.services.wakes.start_over(self.services.now());
        let (handed_on, ()) = tokio::join!(biased; self.hand_on(), self.follower.look());
        if !matches!(handed_on, Ok(true)) {
            // Only if no message was passed on: what follows from a message notices a lost lease by itself, and should
            // not wait for this write.
            self.services.check_lease();
        }
        handed_on.map(drop)
    }

    /// Passes on the messages sent from outside since the last call. Returns `true` if there were any.
    async fn hand_on(&self) -> Result<bool, Error> {
        let mut has_any = false;
        loop {
            let heard = *self.heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let page = self.services.store.wakes_after(heard, Wake::PAST_MESSAGES.due, WAKES_MAX).await?;
            let Some(last) = page.last().copied() else { return Ok(has_any) };
            has_any = true;
            *self.heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = last;
            page.into_iter().for_each(|wake| self.wake(wake));
        }
    }

    /// Wakes a due instance if it is in memory, otherwise queues a claim.
    fn wake(&self, wake: Wake) {
        let is_posted = match self.services.residency.mailbox(wake.num) {
            // Another process may have sent it a message.
            Some(mailbox) if wake.is_of_message() => {
                self.services.read_inbox(wake.num, &mailbox);
                true
            }
            // Another process has rewound it, so what is in memory is out of date. The claim shows it.
            Some(_) if self.services.residency.is_unexpected(wake.num, wake.due) => false,
            Some(mailbox) => mailbox.post(|_| {}),
            None => false,
        };
        if !is_posted {
            self.services.queue_due(wake.num);
            if wake < Wake::PAST_MESSAGES {
                // It was asked to end.
                self.services.due.hurry(wake.num);
            }
        }
    }

    /// Claims what is due while there is room.
    async fn claim(&self) -> Result<(), Error> {
        loop {
            let nums = self.services.due.take(&self.services.residency, self.services.now());
            if nums.is_empty() {
                return Ok(());
            }
            let claim = Claim { nums: nums.clone(), epoch: self.services.epoch, at: self.services.now() };
            let answer = self.services.committer.write(Write::Claim(claim)).await;
            // What was claimed is in memory by now: the committer reported it before any message that came later.
            if let Err(error) = answer {
                nums.into_iter().for_each(|num| self.services.due.add(num));
                return Err(error);
            }
        }
    }
}
