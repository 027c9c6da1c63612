//! Loads job instances into memory and passes pushed events on to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outlive_core::event::Event;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::job::{Job, Pool, PoolRules, PoolSetup, Record, Rules};
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::{Detail, LifecycleRecord, LifecycleRecordKind};
use outlive_core::message::{Inbound, Message};
use outlive_core::queue::{PushTarget, PushWrite, Spot};
use outlive_core::status::Status;
use outlive_core::store::commit::{Claimed, NewState, Turn, Write};
use outlive_core::store::query::Instance;

use super::Worker;
use super::job_driver::JobDriver;
use super::pool_driver::{PoolCaller, PoolDriver};
use super::turns::TurnLog;
use crate::instance::mailbox::Mailbox;
use crate::runtime::committer::WriteReply;
use crate::runtime::handlers::{Definition, Work};
use crate::runtime::stuck;

/// A pool in memory: the number of events being handled, and its mailbox.
pub(super) type ResidentPool = (Arc<AtomicUsize>, Arc<Mailbox>);

/// How many more deaths a pool is allowed: the first, for which nothing was blamed, the last, and one in `on_dead`.
const POOL_PATIENCE: u32 = 3;

impl Worker {
    /// Loads a claimed job instance into memory, or marks it stuck if that is not possible.
    pub(super) fn bring_back_job(&self, claimed: Claimed) {
        let Claimed { instance, inbox, .. } = claimed;
        let record = instance.outcome.as_ref().map(Record::from_payload).transpose();
        let problem = match (&inbox, &record, self.registry.job(&instance.workflow)) {
            (Err(problem), ..) => stuck::damaged(problem),
            (_, Err(problem), _) => stuck::damaged(&format!("its record does not decode: {problem}")),
            _ if instance.blamed > self.recoveries_max_of(&instance) => {
                self.admit_all();
                stuck::deadly(instance.blamed)
            }
            (_, _, None) => stuck::unregistered_job(instance.workflow.as_str(), &self.registry.known_jobs()),
            (Ok(inbox), Ok(record), Some(definition)) => {
                return self.spawn_job(definition.clone(), &instance, inbox.clone(), record.clone());
            }
        };
        self.set_job_aside(&instance, problem);
    }

    /// Returns how many recoveries are allowed. A pool finds the event that crashes the process, which takes a few more
    /// crashes.
    fn recoveries_max_of(&self, instance: &Instance) -> u32 {
        let is_pool = JobKind::of(&instance.id) == Some(JobKind::Pool);
        self.max_recoveries.saturating_add(if is_pool { POOL_PATIENCE } else { 0 })
    }

    fn spawn_job(&self, definition: Arc<Definition>, instance: &Instance, inbox: Vec<Inbound>, record: Option<Record>) {
        let Some(worker) = self.this.upgrade() else { return };
        let (num, id, mailbox) = (instance.num, instance.id.clone(), Arc::new(Mailbox::default()));
        self.residency.enter(num, id.to_string(), mailbox.clone());
        mailbox.post(|arrivals| {
            arrivals.rare().inbox = inbox;
            arrivals.is_stopping = self.is_stopping();
        });
        let task = match &definition.work {
            Work::Single(rules) => {
                let job = self.job_of(rules, instance, record);
                let turns = JobDriver {
                    worker,
                    mailbox,
                    num,
                    id,
                    created_at: instance.created_at,
                    job,
                    turns: TurnLog::new(num, instance.reported),
                    is_owned: true,
                    arrivals: Default::default(),
                    replies: Vec::new(),
                    definition,
                };
                tokio::spawn(turns.drive())
            }
            Work::Pool(rules, handlers) => {
                let running: Arc<AtomicUsize> = Arc::default();
                self.pools().insert(definition.job.clone(), (running.clone(), mailbox.clone()));
                let pool = self.pool_of(rules, instance, record);
                let caller = PoolCaller {
                    handlers: handlers.clone(),
                    care: definition.care.clone(),
                    around: self.around.clone(),
                    id,
                    judge: pool.judge(),
                };
                let pooling = PoolDriver {
                    worker,
                    mailbox,
                    num,
                    pool,
                    caller: Arc::new(caller),
                    turns: TurnLog::new(num, instance.reported),
                    running,
                    tasks: Default::default(),
                    is_evicted: false,
                    definition,
                };
                tokio::spawn(pooling.drive())
            }
        };
        self.residency.set_abort(num, task.abort_handle());
    }

    /// Restores the machine of an instance.
    fn job_of(&self, rules: &Rules, instance: &Instance, record: Option<Record>) -> Job {
        let is_new = record.is_none();
        let mut job = Job::new(rules.clone(), instance.id.clone(), record.unwrap_or_default(), instance.seed);
        if is_new {
            let state = (rules.kind() == JobKind::Continuous).then(|| instance.input.clone());
            job.begin(state, instance.created_at);
        }
        if let Some(before) = job.adopt_schedule(self.env.clock.now()) {
            let next = job.record().next.map_or_else(|| "never".to_owned(), |next| next.to_string());
            tracing::info!(job = instance.id.as_str(), "schedule changed from {before:?}; next run: {next}");
        }
        job
    }

    /// Restores the machine of a pool.
    fn pool_of(&self, rules: &PoolRules, instance: &Instance, record: Option<Record>) -> Pool {
        Pool::new(PoolSetup {
            rules: rules.clone(),
            id: instance.id.clone(),
            record: record.unwrap_or_default(),
            seed: instance.seed,
            recoveries: instance.recoveries,
            max_recoveries: self.max_recoveries,
        })
    }

    fn pools(&self) -> std::sync::MutexGuard<'_, BTreeMap<Name, ResidentPool>> {
        self.pools.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns how many events of a pool are being handled, if the pool is in memory.
    pub(crate) fn pool_running(&self, job: &Name) -> Option<u64> {
        self.pools().get(job).map(|(running, _)| running.load(Ordering::Relaxed) as u64)
    }

    /// Wakes the pools after the clock was set back: only memory knows when their rate allows the next call, so they
    /// work it out again.
    pub(super) fn clock_set_back(&self) {
        for (_, mailbox) in self.pools().values() {
            mailbox.post(|_| {});
        }
    }

    pub(crate) fn pool_gone(&self, job: &Name) {
        self.pools().remove(job);
        self.rested.notify_waiters();
    }

    /// Removes a job instance from memory.
    pub(crate) fn job_gone(&self, num: InstanceNum, mailbox: &Arc<Mailbox>) {
        self.touch();
        self.residency.leave(num, mailbox);
        self.wakeup.notify_one();
    }

    /// Marks a job instance stuck, with all it has.
    fn set_job_aside(&self, instance: &Instance, note: String) {
        self.unreserve(1);
        tracing::warn!(job = instance.id.as_str(), "job is stuck: {note}");
        let reason = Some(note.clone().into());
        let at = self.env.clock.now();
        let record = LifecycleRecord::new(LifecycleRecordKind::JobStuck, at)
            .with(Detail { reason, ..Detail::default() }.to_payload());
        let state = NewState {
            status: Status::Stuck,
            wake: None,
            is_owned: false,
            seen: None,
            outcome: instance.outcome.clone(),
            note: Some(note),
            at,
        };
        let turn = Turn {
            lifecycle: vec![record],
            state: Some(state),
            ..Turn::new(instance.num, self.epoch, instance.reported)
        };
        self.committer.submit(Write::Turn(Box::new(turn)), WriteReply::Job(Arc::new(Mailbox::default())));
    }

    /// Notifies an instance of pushed events, or queues a claim for it.
    pub(super) fn pushed(&self, push: &PushWrite, num: InstanceNum, positions: &[u64], before: u64) {
        self.replies.place(push.token, num, positions.first().copied().unwrap_or(0));
        let Some(mailbox) = self.residency.mailbox(num) else { return self.queue_due(num) };
        let is_posted = mailbox.post(|arrivals| {
            if push.place == PushTarget::Queue {
                arrivals.is_pushed = true;
                let rank = push.events.iter().map(rank_of).min();
                let rare = arrivals.rare();
                rare.rank_pushed = [rare.rank_pushed, rank].into_iter().flatten().min();
                return;
            }
            let mut before = before;
            for (event, pos) in push.events.iter().zip(positions).filter(|(_, pos)| **pos > 0) {
                let message = Message::Event(event.clone());
                arrivals.rare().messages.push((Inbound { pos: *pos, at: push.at, message }, before));
                before = *pos;
            }
        });
        if !is_posted {
            self.queue_due(num);
        }
    }

    /// Makes these instances read what is stored for them, or queues claims.
    pub(super) fn look_again(&self, nums: &[InstanceNum]) {
        for num in nums {
            match self.residency.mailbox(*num) {
                Some(mailbox) => self.read_inbox(*num, &mailbox),
                None => self.queue_due(*num),
            }
        }
    }
}

/// Returns the rank of an event, which goes before all of larger rank. One with a key may go before any.
fn rank_of(event: &Event) -> i64 {
    if event.key.is_some() { i64::MIN } else { Spot::rank_of(event.priority) }
}
