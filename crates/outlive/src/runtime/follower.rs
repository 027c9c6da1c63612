//! Follows what other processes write, and notifies those in this process who wait for it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive_core::store::touched::Touch;
use outlive_core::store::{Error, Store};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::runtime::feed::Bell;
use crate::runtime::waiters::Waiters;

/// How often, at most, callers that wait for another process are notified.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a client keeps following after the last caller has stopped waiting, as another may begin to.
const LINGER: Duration = Duration::from_secs(1);

/// How often all waiting callers read the store, so that what the feed does not report is not missed forever.
const ASK_ALL_EVERY: Duration = Duration::from_secs(60);

/// Follows the writes of other processes.
pub(crate) struct Follower {
    store: Arc<dyn Store>,
    waiters: Arc<Waiters>,
    bell: Arc<Bell>,
    /// Changes by others that are not noticed in another way.
    touch: Touch,
    seen: Mutex<FeedProgress>,
    /// Notified when something written here must be treated as if others had written it.
    again: Notify,
}

/// How far the feed was read for waiting callers, and when all of them last read the store.
type FeedProgress = Option<(u64, Instant)>;

impl Follower {
    pub(crate) fn new(store: Arc<dyn Store>, waiters: Arc<Waiters>, bell: Arc<Bell>, touch: Touch) -> Arc<Self> {
        Arc::new(Self { store, waiters, bell, touch, seen: Mutex::default(), again: Notify::new() })
    }

    /// Runs the task of a process that does not execute. While nobody waits, the store is not polled.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            while !self.is_awaited() {
                tokio::select! {
                    () = self.waiters.begun.notified() => {}
                    () = self.bell.begun.notified() => {}
                }
            }
            let mut changed = self.store.changed();
            while self.is_awaited() {
                tokio::select! {
                    () = &mut changed => changed = self.store.changed(),
                    () = self.again.notified() => {}
                    () = tokio::time::sleep(LINGER) => continue,
                }
                self.look().await;
                tokio::time::sleep(LOOK_EVERY).await;
            }
            // The feed may be far ahead when a caller waits again.
            self.set(None);
        }
    }

    fn is_awaited(&self) -> bool {
        self.waiters.has_any() || self.bell.has_any()
    }

    /// Looks again, because something was written here that concerns other callers in this process.
    pub(crate) fn look_again(&self) {
        self.again.notify_one();
    }

    /// Looks at what others have written. This is one read of the store, however many callers wait.
    pub(crate) async fn look(&self) {
        self.bell.ring();
        if !self.waiters.has_any() {
            self.set(None);
        } else if self.notify().await.is_err() {
            // Waiting callers read the store and get its error.
            self.set(None);
            self.waiters.ask_all();
        }
    }

    async fn notify(&self) -> Result<(), Error> {
        let seen = *self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some((mut after, asked)) = seen.filter(|(_, asked)| asked.elapsed() < ASK_ALL_EVERY) else {
            return self.ask_all().await;
        };
        loop {
            let Some(touched) = self.store.touched(after, self.touch).await? else {
                return self.ask_all().await;
            };
            after = touched.last;
            self.set(Some((after, asked)));
            self.waiters.ask_these(&touched.nums);
            if touched.is_all {
                return Ok(());
            }
        }
    }

    /// Makes all waiting callers read the store, and follows the feed from here.
    async fn ask_all(&self) -> Result<(), Error> {
        let last = self.store.mark(None).await?;
        self.set(last.map(|last| (last, Instant::now())));
        self.waiters.ask_all();
        Ok(())
    }

    fn set(&self, seen: FeedProgress) {
        *self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = seen;
    }
}
