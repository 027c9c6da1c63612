//! Loads job instances and pools.

use std::sync::Arc;

use outlive_core::job::{Job, Pool, PoolRules, PoolSetup, Record, Rules};
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::{Detail, LifecycleRecord, LifecycleRecordKind};
use outlive_core::message::Inbound;
use outlive_core::status::Status;
use outlive_core::store::commit::{Claimed, NewState, Turn, Write};
use outlive_core::store::query::Instance;

use super::Loader;
use crate::instance::mailbox::Mailbox;
use crate::instance::meters;
use crate::runtime::committer::WriteReply;
use crate::runtime::drivers::job::JobDriver;
use crate::runtime::drivers::pool::{PoolCaller, PoolDriver};
use crate::runtime::drivers::turns::TurnLog;
use crate::runtime::handlers::{Definition, Work};
use crate::runtime::stuck;

/// How many more deaths a pool is allowed: the first, for which nothing was blamed, the last, and one in `on_dead`.
const POOL_PATIENCE: u32 = 3;

impl Loader {
    /// Loads a claimed job instance into memory, or marks it stuck if that is not possible.
    pub(super) fn bring_back_job(&self, claimed: Claimed) {
        let Claimed { instance, inbox, .. } = claimed;
        let record = instance.outcome.as_ref().map(Record::from_payload).transpose();
        let problem = match (&inbox, &record, self.registry.job(&instance.workflow)) {
            (Err(problem), ..) => stuck::damaged(problem),
            (_, Err(problem), _) => stuck::damaged(&format!("its record does not decode: {problem}")),
            _ if instance.blamed > self.recoveries_max_of(&instance) => {
                self.services.due.admit_all();
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
        let services = self.services.clone();
        let (num, id, mailbox) = (instance.num, instance.id.clone(), Arc::new(Mailbox::default()));
        self.services.residency.enter(num, id.to_string(), mailbox.clone());
        mailbox.post(|arrivals| {
            arrivals.rare().inbox = inbox;
            arrivals.is_stopping = self.services.is_stopping();
        });
        let task = match &definition.work {
            Work::Single(rules) => {
                let job = self.job_of(rules, instance, record);
                let turns = JobDriver {
                    services,
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
                let running = self.services.pools.enter(definition.job.clone(), mailbox.clone());
                let pool = self.pool_of(rules, instance, record);
                let caller = PoolCaller {
                    handlers: handlers.clone(),
                    call_policy: definition.call_policy.clone(),
                    env: self.services.handler_env.clone(),
                    id,
                    judge: pool.judge(),
                };
                let pooling = PoolDriver {
                    services,
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
        self.services.residency.set_abort(num, task.abort_handle());
    }

    /// Restores the machine of an instance.
    fn job_of(&self, rules: &Rules, instance: &Instance, record: Option<Record>) -> Job {
        let is_new = record.is_none();
        let mut job = Job::new(rules.clone(), instance.id.clone(), record.unwrap_or_default(), instance.seed);
        if is_new {
            let state = (rules.kind() == JobKind::Continuous).then(|| instance.input.clone());
            job.begin(state, instance.created_at);
        }
        if let Some(before) = job.adopt_schedule(self.services.now()) {
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

    /// Marks a job instance stuck, with all it has.
    fn set_job_aside(&self, instance: &Instance, note: String) {
        self.services.unreserve(1);
        tracing::warn!(job = instance.id.as_str(), "job is stuck: {note}");
        meters::stuck(instance.workflow.as_str());
        let reason = Some(note.clone().into());
        let at = self.services.now();
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
            ..Turn::new(instance.num, self.services.epoch, instance.reported)
        };
        self.services.committer.submit(Write::Turn(Box::new(turn)), WriteReply::Job(Arc::new(Mailbox::default())));
    }
}
