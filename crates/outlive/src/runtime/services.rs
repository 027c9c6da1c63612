//! What the worker and the drivers share: the store and its writer, the instances in memory, and what is due.

pub(crate) mod due;
mod pools;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use outlive_core::id::InstanceNum;
use outlive_core::store::commit::{Claim, Epoch, Write};
use outlive_core::store::page::whole_inbox;
use outlive_core::store::{ErrorKind, Store};
use outlive_core::time::Timestamp;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::instance::env::Env;
use crate::instance::mailbox::Mailbox;
use crate::runtime::committer::{Committer, WriteReply};
use crate::runtime::handlers::HandlerEnv;
use crate::runtime::replies::Replies;
use crate::runtime::residency::Residency;
use crate::runtime::waiters::Waiters;
use crate::runtime::wakes::Wakes;
use due::DueQueue;
use pools::ResidentPools;

/// How long to wait after the store could not be read.
pub(crate) const RETRY: Duration = Duration::from_millis(100);

/// The services of a process that executes.
pub(crate) struct Services {
    pub(crate) env: Arc<Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) replies: Arc<Replies>,
    /// The environment of job handlers.
    pub(crate) handler_env: Arc<HandlerEnv>,
    pub(crate) epoch: Epoch,
    pub(crate) residency: Residency,
    pub(crate) wakes: Wakes,
    pub(crate) due: DueQueue,
    pub(crate) pools: ResidentPools,
    is_stopping: AtomicBool,
    /// Whether another process has ever written.
    has_foreign: AtomicBool,
    /// Grows with everything that happens, so that tests can see when nothing does.
    activity: AtomicU64,
}

/// What the services are made of.
pub(crate) struct ServiceSetup {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) replies: Arc<Replies>,
    pub(crate) handler_env: HandlerEnv,
    pub(crate) epoch: Epoch,
    pub(crate) max_resident: usize,
}

impl Services {
    pub(crate) fn new(setup: ServiceSetup) -> Arc<Self> {
        Arc::new(Self {
            env: setup.handler_env.shared.clone(),
            store: setup.store,
            committer: setup.committer,
            waiters: setup.waiters,
            replies: setup.replies,
            handler_env: Arc::new(setup.handler_env),
            epoch: setup.epoch,
            residency: Residency::new(setup.max_resident),
            wakes: Wakes::new(),
            due: DueQueue::default(),
            pools: ResidentPools::default(),
            is_stopping: AtomicBool::new(false),
            has_foreign: AtomicBool::new(false),
            activity: AtomicU64::new(0),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.env.clock.now()
    }

    /// Notes that something happens.
    pub(crate) fn touch(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a number that grows with everything that happens here.
    #[cfg(feature = "testing")]
    pub(crate) fn activity(&self) -> u64 {
        self.activity.load(Ordering::Relaxed)
    }

    // ---- instances in memory ----

    /// Reads the inbox of an instance in memory and posts it to the instance.
    pub(crate) fn read_inbox(self: &Arc<Self>, num: InstanceNum, mailbox: &Arc<Mailbox>) {
        let (store, mailbox, this) = (self.store.clone(), mailbox.clone(), Arc::downgrade(self));
        tokio::spawn(async move {
            let is_posted = loop {
                match whole_inbox(&*store, num).await {
                    Ok(inbox) => {
                        break mailbox.post(|arrivals| {
                            arrivals.rare().inbox.extend(inbox);
                            arrivals.rare().rank_pushed = Some(i64::MIN);
                            arrivals.is_pushed = true;
                        });
                    }
                    Err(error) if error.kind == ErrorKind::Corrupt => {
                        let sentence = format!("its inbox is damaged: {error}; restore it from a backup");
                        break mailbox.post(|arrivals| arrivals.rare().damage = Some(sentence));
                    }
                    Err(error) => tracing::warn!("could not read an inbox, trying again: {error}"),
                }
                tokio::time::sleep(RETRY).await;
            };
            // It has left memory in the meantime.
            if let Some(services) = this.upgrade().filter(|_| !is_posted) {
                services.queue_due(num);
            }
        });
    }

    /// Returns `true` if the end of a run is reported here, whatever process ends it. Not so for a paused run, which
    /// has no owner, nor once another process has written, as that one may replace any run.
    pub(crate) fn hears_of(&self, num: InstanceNum) -> bool {
        self.residency.is_at_work(num) && !self.has_foreign()
    }

    /// Marks an instance as running after a pause, and forgets its wake.
    pub(crate) fn resume(&self, num: InstanceNum) {
        if let Some(due) = self.residency.resume(num) {
            self.wakes.remove_stored(due, num);
        }
    }

    /// Removes a job instance from memory.
    pub(crate) fn job_gone(&self, num: InstanceNum, mailbox: &Arc<Mailbox>) {
        self.touch();
        self.residency.leave(num, mailbox);
        self.due.wakeup.notify_one();
    }

    // ---- instances that are due ----

    /// Queues a claim for an instance that is due in the store.
    pub(crate) fn queue_due(&self, num: InstanceNum) {
        if !self.due.has_room(1) {
            // It will be found in the store when there is room.
            return self.wakes.forget_horizon();
        }
        self.due.add(num);
    }

    /// Gives back places that were not needed, and wakes the worker if a claim waits for one.
    pub(crate) fn unreserve(&self, count: usize) {
        self.residency.unreserve(count);
        if count > 0 && !self.due.is_empty() {
            self.due.wakeup.notify_one();
        }
    }

    // ---- other processes ----

    /// Notes that another process has written.
    pub(crate) fn note_foreign(&self) {
        self.has_foreign.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if another process has ever written.
    pub(crate) fn has_foreign(&self) -> bool {
        self.has_foreign.load(Ordering::Relaxed)
    }

    /// Checks that this engine still holds the lease: if not, an empty claim is fenced.
    pub(crate) fn check_lease(&self) {
        let claim = Claim { nums: Vec::new(), epoch: self.epoch, at: self.now() };
        self.committer.submit(Write::Claim(claim), WriteReply::Caller(oneshot::channel().0));
    }

    /// Stops because another engine has taken the lease. Nothing can be recorded here any more, so everything ends and
    /// waiting callers get an error.
    pub(crate) fn fenced(&self) {
        let error = Error::Fenced { store: self.store.name() };
        if !self.committer.close(error.clone()) {
            return;
        }
        tracing::error!("{error}");
        // Otherwise it would take the lock back when the other engine ends, and keep others out.
        let (store, epoch) = (self.store.clone(), self.epoch);
        tokio::spawn(async move { store.release(epoch).await });
        self.residency.abort();
        self.stopped();
        self.pools.rested.notify_waiters();
        self.due.wakeup.notify_one();
    }

    // ---- shutdown ----

    /// Starts nothing more. What is running may finish.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        for mailbox in self.residency.mailboxes() {
            mailbox.post(|arrivals| arrivals.is_stopping = true);
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Makes waiting callers look for themselves, because nothing is reported here any more.
    pub(crate) fn stopped(&self) {
        self.waiters.ask_all();
        self.replies.close();
    }
}
