//! Runs a workflow once, from start to end, with the process dying where the schedule says.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use outlive::clock::Clock;
use outlive::{Builder, Error, IgnoredAny, OnConflict, Payload, Run, Status};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::message::Message as Inbox;
use outlive_core::output::{Output, OutputKind, OutputRead};
use outlive_core::store::memory::MemoryStore;
use outlive_core::store::query::{Filter, Instance};
use serde_json::value::RawValue;

use crate::clock::TestClock;
use crate::engine::TestEngine;
use crate::faults::Faults;
use crate::hook::{Mock, Steps};

use super::ledger::{Effect, End, Ledger, OtherRun};
use super::schedule::Schedule;
use super::tape::{Event, Tape, What};

/// The id of the single run.
const ID: &str = "run";
/// Seed for random numbers, so that every trial is the same.
const SEED: u64 = 2026;
/// Limit on due moments of one run.
const MOMENTS_MAX: usize = 500;
/// Limit on journal entries without any time passing.
const ENTRIES_MAX: usize = 10_000;
/// The number of runs that are read at once.
const PAGE: usize = 100;
/// How often an engine recovers a run that makes no progress, by default.
const RECOVERIES_MAX: usize = 3;

pub(super) type Setup = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;
/// Creates the outside world of one trial: how to provide it to each process lifetime, and the world itself for later
/// inspection.
pub(super) type MakeWorld = Arc<dyn Fn() -> (Setup, Arc<dyn Any + Send + Sync>) + Send + Sync>;

/// The workflow to run, with its inputs and messages.
pub(super) struct Plan {
    pub(super) workflow: String,
    pub(super) input: Payload,
    pub(super) setups: Vec<Setup>,
    pub(super) worlds: Vec<MakeWorld>,
    /// Messages from outside, earliest first.
    pub(super) messages: Vec<Message>,
    pub(super) fakes: Vec<(String, Mock)>,
    pub(super) patience: Duration,
}

/// A message from outside.
pub(super) struct Message {
    /// Time after the start.
    pub(super) after: Duration,
    pub(super) kind: Kind,
}

/// The content of a message.
pub(super) enum Kind {
    Signal { name: String, value: Box<RawValue> },
    Question { name: String, value: Box<RawValue> },
    Cancel { reason: String },
}

/// The result of a trial.
pub(super) struct Played {
    pub(super) schedule: Schedule,
    pub(super) started: outlive::Timestamp,
    pub(super) events: Vec<Event>,
    pub(super) ledger: Ledger,
    /// The ids of all runs.
    pub(super) ids: BTreeMap<InstanceNum, String>,
    /// Number of commits, over all process lifetimes.
    pub(super) commits: u64,
    /// Why the trial could not be carried out, if so.
    pub(super) trouble: Option<String>,
    /// The result of replaying the ended run.
    pub(super) replayed: Result<(), String>,
    /// What a run that has not ended waits for.
    pub(super) waits: Waits,
}

/// Everything an unfinished run waits for.
#[derive(Default)]
pub(super) struct Waits {
    /// Operations, each with its call site.
    pub(super) ops: Vec<(String, String)>,
    /// Names of signals that arrived but that nothing waits for.
    pub(super) signals: Vec<String>,
}

struct Stage<'a> {
    plan: &'a Plan,
    schedule: &'a Schedule,
    test: TestEngine,
    faults: Arc<Faults>,
    tape: Arc<Tape>,
    /// Whether the start of the run was acknowledged.
    is_started: AtomicBool,
    /// Number of messages that were acknowledged.
    sent: AtomicUsize,
}

/// Runs the plan once.
pub(super) async fn play(plan: &Plan, schedule: &Schedule) -> Played {
    let worlds: Vec<_> = plan.worlds.iter().map(|make| make()).collect();
    let (provided, worlds): (Vec<_>, Vec<_>) = worlds.into_iter().unzip();
    let mut stage = Stage::new(plan, schedule, provided).await;
    let told = loop {
        if let Some(told) = stage.live().await {
            break told;
        }
        stage.faults.revive();
        stage.tape.next_life();
        stage.test.crash().await;
    };
    stage.finish(told, worlds).await
}

impl<'a> Stage<'a> {
    async fn new(plan: &'a Plan, schedule: &'a Schedule, provided: Vec<Setup>) -> Self {
        let clock = TestClock::new();
        let steps = Steps::default();
        plan.fakes.iter().for_each(|(step, fake)| steps.mock(step, fake.clone()));
        let tape = Arc::new(Tape::new(clock.clone(), steps));
        let faults = Arc::new(Faults::witnessed(Arc::new(MemoryStore::new()), tape.clone()));
        schedule.crashes.iter().for_each(|crash| faults.add(crash.fault()));
        let recoveries = u32::try_from(schedule.crashes.len().max(RECOVERIES_MAX)).unwrap_or(u32::MAX);
        let (setups, hook) = ([plan.setups.clone(), provided].concat(), tape.clone());
        let setup = move |builder: Builder| {
            // Each process lifetime draws different numbers, or its writes would be taken for repeats of earlier ones.
            // But a run whose start was lost must be the same run when it is started again.
            let life = if hook.is_started() { hook.life() } else { 1 };
            let seed = SEED ^ (u64::from(life) << 32);
            let builder = builder.step_hook(hook.clone()).seed(seed).max_recoveries(recoveries);
            setups.iter().fold(builder, |builder, setup| setup(builder))
        };
        let test = TestEngine::new(setup).store(faults.clone()).clock(clock).patience(plan.patience);
        let test = test.entries_max(ENTRIES_MAX).await;
        Self { plan, schedule, test, faults, tape, is_started: AtomicBool::new(false), sent: AtomicUsize::new(0) }
    }

    /// Runs one process lifetime. Returns `None` if the process dies.
    async fn live(&self) -> Option<Result<(), String>> {
        tokio::select! {
            biased;
            () = self.faults.died() => None,
            sentence = self.test.ran_away() => {
                self.faults.kill();
                Some(Err(sentence))
            }
            told = self.story() => Some(told),
        }
    }

    /// Sends the messages from outside that were not acknowledged in an earlier lifetime, and waits for the run to end.
    async fn story(&self) -> Result<(), String> {
        let workflow = &self.plan.workflow;
        if !self.is_started.load(Ordering::Relaxed) {
            let start = self.test.start_json(workflow, self.plan.input.as_str()).id(ID);
            start.on_conflict(OnConflict::Join).await.map_err(told)?;
            self.is_started.store(true, Ordering::Relaxed);
        }
        let run = self.test.get_run(ID).await.map_err(told)?;
        for (n, message) in self.plan.messages.iter().enumerate().skip(self.sent.load(Ordering::Relaxed)) {
            if !self.schedule.without.contains(&(n + 1)) {
                self.send(&run, n, message).await.map_err(told)?;
            }
            self.sent.store(n + 1, Ordering::Relaxed);
        }
        self.play_out(&run).await
    }

    async fn send(&self, run: &Run<Box<RawValue>>, n: usize, message: &Message) -> Result<(), Error> {
        if !message.after.is_zero() {
            let moment = self.tape.started().after(message.after);
            self.test.advance(moment.since(self.test.clock().now())).await;
        }
        let sent = match &message.kind {
            Kind::Signal { name, value } => {
                run.signal(name, value).dedup_key(&format!("message {}", n + 1)).await.map(drop)
            }
            Kind::Question { name, value } => {
                // It is stored before the wait; the answer is in the ledger.
                let asked = run.ask::<Box<RawValue>, IgnoredAny>(name, value).dedup_key(&format!("message {}", n + 1));
                match asked.wait(Duration::ZERO).await {
                    Err(Error::NotHandled { .. } | Error::Unanswered { .. } | Error::QuestionRefused { .. }) => Ok(()),
                    asked => asked.map(drop),
                }
            }
            Kind::Cancel { reason } => run.cancel(reason).await.map(|_| ()),
        };
        match sent {
            // The message arrived too late, which is legitimate.
            Err(Error::Status { .. }) => Ok(()),
            sent => sent,
        }
    }

    /// Moves time until the run has ended or nothing is due, and then until the same is true of all others.
    async fn play_out(&self, run: &Run<Box<RawValue>>) -> Result<(), String> {
        for _ in 0..MOMENTS_MAX {
            self.test.settle().await;
            let status = run.status().await.map_err(told)?;
            let is_over = status.is_ended() || status == Status::Stuck;
            let due = if is_over { self.others_due().await } else { self.test.next_due().await };
            match due {
                Some(due) => self.test.move_to(due).await,
                None => return Ok(()),
            }
        }
        Err(format!(
            "the run does not end: it was due {MOMENTS_MAX} times and is due again; cancel it with `.cancel_at(..)`"
        ))
    }

    /// Returns when the first of the other runs is due.
    async fn others_due(&self) -> Option<outlive::Timestamp> {
        let others = others(&self.test).await;
        others.iter().filter(|one| !one.status.is_ended()).filter_map(|one| one.wake).min()
    }

    async fn finish(self, told: Result<(), String>, worlds: Vec<Arc<dyn Any + Send + Sync>>) -> Played {
        let end = end_of(&self.test, ID).await;
        let mut others_ended = Vec::new();
        for Instance { id, workflow, status, .. } in others(&self.test).await {
            let (end, workflow, id) = (end_of(&self.test, id.as_str()).await, workflow.to_string(), id.to_string());
            others_ended.push(OtherRun { id, status, workflow, end });
        }
        let given = given(&self.test).await;
        let (lives, commits) = (self.tape.life(), self.faults.writes());
        let events = self.tape.take();
        let is_ended = end.status.is_ended();
        let waits = if is_ended || told.is_err() { Waits::default() } else { self.waits().await };
        let mut replayed = if is_ended { self.test.replay_ended(ID).await } else { Ok(()) };
        for other in others_ended.iter().filter(|other| other.status.is_ended()) {
            replayed = replayed.and(self.test.replay_ended(&other.id).await);
        }
        if !self.tape.take().is_empty() {
            replayed = replayed.and(Err("replaying the ended run wrote to the store or ran a step".to_owned()));
        }
        let effects = events.iter().filter_map(effect).cloned().collect();
        Played {
            schedule: self.schedule.clone(),
            started: self.tape.started(),
            events,
            ledger: Ledger { effects, end, others: others_ended, given, lives, worlds },
            ids: self.tape.ids(),
            commits,
            trouble: told.err(),
            replayed,
            waits,
        }
    }

    async fn waits(&self) -> Waits {
        let (id, store) = (Name::recorded(ID), self.test.store());
        let inbox = match store.instance(&id).await {
            Ok(Some(run)) => store.inbox(run.num, 0, usize::MAX).await.unwrap_or_default(),
            _ => Vec::new(),
        };
        let signals = inbox.into_iter().filter_map(|inbound| match inbound.message {
            Inbox::Signal { name, .. } => Some(name.to_string()),
            _ => None,
        });
        Waits { ops: self.test.asked(ID).await.unwrap_or_default(), signals: signals.collect() }
    }
}

fn told(error: Error) -> String {
    error.to_string()
}

fn effect(event: &Event) -> Option<&Effect> {
    match &event.what {
        What::Body(effect) => Some(effect),
        _ => None,
    }
}

/// Returns all runs but the one that is crashed, sorted by id.
async fn others(test: &TestEngine) -> Vec<Instance> {
    let (mut others, mut before) = (Vec::new(), None);
    while let Ok(page) = test.store().list(&Filter::runs(), before, PAGE).await {
        others.extend(page.instances);
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    others.retain(|one| one.id.as_str() != ID);
    others.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
    others
}

/// Returns what the run that is crashed has given out, without what failed attempts appended.
async fn given(test: &TestEngine) -> Vec<Output> {
    let Ok(Some(run)) = test.store().instance(&Name::recorded(ID)).await else { return Vec::new() };
    let mut given = Vec::new();
    let mut after = None;
    while let Ok(page) = test.store().outputs(run.num, OutputRead::All { after }, PAGE).await {
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        given.extend(page);
    }
    given.retain(|output| !output.is_failed && output.key.kind != OutputKind::AttemptEnd);
    given
}

async fn end_of(test: &TestEngine, id: &str) -> End {
    let info = match test.get_run::<Box<RawValue>>(id).await {
        Ok(run) => run.info().await.ok(),
        Err(_) => None,
    };
    match info {
        Some(info) => End { status: info.status, output: info.output, failure: info.failure, note: info.note },
        None => End { status: Status::Pending, output: None, failure: None, note: None },
    }
}
