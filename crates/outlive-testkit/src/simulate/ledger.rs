//! Tracks which step bodies really began, in which process, and whether they were allowed to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use outlive::clock::Clock;
use outlive::{HookAction, StepCall, StepHook, Timestamp};
use outlive_core::id::InstanceNum;
use outlive_core::journal::EntryKind;
use outlive_core::store::commit::{Answer, Write};

use crate::clock::TestClock;
use crate::hook::Mock;
use crate::random::Random;

/// One time that a step body began.
///
/// ```
/// use outlive_testkit::simulate::{Effect, simulate};
/// # use outlive::prelude::*;
/// # async fn charge() -> Result<u32> { Ok(42) }
/// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
/// simulate(0..20, |sim| {
///     sim.engine(|engine| engine.workflow("pay", pay));
///     sim.start("pay", "order-1", &());
///     sim.check(|end| {
///         let charges: Vec<&Effect> = end.effects.iter().filter(|effect| effect.step == "charge").collect();
///         let keys: std::collections::BTreeSet<_> = charges.iter().map(|effect| &effect.idempotency_key).collect();
///         if keys.len() == 1 { Ok(()) } else { Err(format!("{} keys for one charge", keys.len())) }
///     });
/// });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Effect {
    /// The run's id.
    pub run: String,
    /// The step's name.
    pub step: String,
    /// The step's key, if it has one.
    pub key: Option<String>,
    /// Attempt number.
    pub attempt: u32,
    /// The key that all attempts of this step share.
    pub idempotency_key: String,
    /// The worker process, numbered over all workers.
    pub life: u64,
    /// Time by the world's clock.
    pub at: Timestamp,
    /// Number of journal entries of its run that were durable by then.
    pub after: u64,
    /// Number of those that the process was given to replay when it first took over the run.
    pub replayed: u64,
}

/// A step body that waits for its turn.
struct Waiting {
    life: u64,
    key: String,
    attempt: u32,
    waker: Waker,
}

/// The ledger of a world.
pub(super) struct Ledger(Mutex<Inner>);

struct Inner {
    clock: TestClock,
    random: Random,
    mocks: BTreeMap<String, Mock>,
    effects: Vec<Effect>,
    /// Processes in which the body of an attempt began.
    begun: BTreeSet<(String, u32, u64)>,
    /// Steps whose outcome is durable.
    recorded: BTreeSet<String>,
    /// Attempts whose failure is durable.
    failed: BTreeSet<(String, u32)>,
    /// The last durable journal entry of each run.
    seqs: BTreeMap<String, u64>,
    /// Which run it is under its id, for those that have restarted.
    numbers: BTreeMap<InstanceNum, u32>,
    /// The process that holds the lease.
    owner: u64,
    dead: BTreeSet<u64>,
    /// Which processes were given which runs, with how many entries.
    given: BTreeMap<(String, u64), u64>,
    waiting: Vec<Waiting>,
    open: BTreeSet<(u64, String, u32)>,
    /// Whether bodies no longer wait.
    is_calm: bool,
    broken: Option<String>,
}

impl Ledger {
    pub(super) fn new(clock: TestClock, seed: u64, mocks: BTreeMap<String, Mock>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inner {
            clock,
            random: Random::new(seed),
            mocks,
            effects: Vec::new(),
            begun: BTreeSet::new(),
            recorded: BTreeSet::new(),
            failed: BTreeSet::new(),
            seqs: BTreeMap::new(),
            numbers: BTreeMap::new(),
            owner: 0,
            dead: BTreeSet::new(),
            given: BTreeMap::new(),
            waiting: Vec::new(),
            open: BTreeSet::new(),
            is_calm: false,
            broken: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a process has taken the lease.
    pub(super) fn owns(&self, life: u64) {
        self.lock().owner = life;
    }

    /// Records that a process has died.
    pub(super) fn died(&self, life: u64) {
        let mut inner = self.lock();
        inner.dead.insert(life);
        inner.waiting.retain(|waiting| waiting.life != life);
    }

    /// Records durable writes.
    pub(super) fn written(&self, batch: &[Write], answers: &[Answer]) {
        let mut inner = self.lock();
        for (write, answer) in batch.iter().zip(answers) {
            let (Write::Commit(commit), Answer::Done | Answer::DoneWith(_)) = (write, answer) else { continue };
            if let Some(last) = commit.entries.last() {
                inner.seqs.insert(commit.num.to_string(), last.seq);
            }
            for entry in &commit.entries {
                if entry.kind == EntryKind::Restarted {
                    inner.numbers.insert(commit.num, entry.attempt);
                }
                let number = inner.numbers.get(&commit.num).map_or_else(String::new, |number| format!("#{number}"));
                let place = || format!("{}{number}/{}", commit.num, entry.op);
                match entry.kind {
                    EntryKind::StepDone | EntryKind::StepFailed => drop(inner.recorded.insert(place())),
                    EntryKind::AttemptFailed | EntryKind::FallingBack => {
                        inner.failed.insert((place(), entry.attempt));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Records that a process was given a run to drive, up to this entry. Only the first time counts: later, it
    /// may have the run in memory.
    pub(super) fn gave(&self, num: InstanceNum, life: u64, seq: u64) {
        self.lock().given.entry((num.to_string(), life)).or_insert(seq);
    }

    /// Returns the indices of waiting bodies in processes that are not cut off.
    pub(super) fn waiting(&self, is_cut: impl Fn(u64) -> bool) -> Vec<usize> {
        let inner = self.lock();
        (0..inner.waiting.len()).filter(|i| !is_cut(inner.waiting[*i].life)).collect()
    }

    /// Lets a body begin. Returns its description.
    pub(super) fn open(&self, index: usize) -> String {
        let mut inner = self.lock();
        let Waiting { life, key, attempt, waker } = inner.waiting.swap_remove(index);
        let name = format!("{key} attempt {attempt} in process {life}");
        inner.open.insert((life, key, attempt));
        drop(inner);
        waker.wake();
        name
    }

    /// Lets all bodies begin from now on.
    pub(super) fn calm(&self) {
        let waiting = {
            let mut inner = self.lock();
            inner.is_calm = true;
            std::mem::take(&mut inner.waiting)
        };
        waiting.into_iter().for_each(|waiting| waiting.waker.wake());
    }

    pub(super) fn broken(&self) -> Option<String> {
        self.lock().broken.clone()
    }

    pub(super) fn effects(&self) -> Vec<Effect> {
        std::mem::take(&mut self.lock().effects)
    }
}

/// The step hook of one worker process.
pub(super) struct Hook {
    pub(super) life: u64,
    pub(super) ledger: Arc<Ledger>,
}

impl StepHook for Hook {
    fn before(&self, call: &StepCall<'_>) -> HookAction {
        let mut inner = self.ledger.lock();
        if inner.must_wait(self.life, call) {
            return HookAction::Wait;
        }
        inner.begin(self.life, call);
        let Some(mock) = inner.mocks.get(call.step).cloned() else { return HookAction::Run };
        drop(inner);
        crate::hook::instead(&mock, call)
    }
}

impl Inner {
    fn must_wait(&mut self, life: u64, call: &StepCall<'_>) -> bool {
        let same = |waiting: &&mut Waiting| {
            waiting.life == life && waiting.attempt == call.attempt && waiting.key == call.idempotency_key
        };
        if let Some(waiting) = self.waiting.iter_mut().find(same) {
            waiting.waker = call.waker.clone();
            return true;
        }
        if self.is_calm
            || (!self.open.is_empty() && self.open.remove(&(life, call.idempotency_key.to_owned(), call.attempt)))
        {
            return false;
        }
        if self.random.is(2) {
            return false;
        }
        let key = call.idempotency_key.to_owned();
        self.waiting.push(Waiting { life, key, attempt: call.attempt, waker: call.waker.clone() });
        true
    }

    fn begin(&mut self, life: u64, call: &StepCall<'_>) {
        let key = call.idempotency_key;
        // The key continues after the run's id with the instance number and the operation as recorded in the journal.
        let place = &key[call.run.len() + 1..];
        let num = place.split(['/', '#']).next().unwrap_or_default();
        let after = self.seqs.get(num).copied().unwrap_or(0);
        let replayed = self.given.get(&(num.to_owned(), life)).copied();
        let has_failed = self.failed.contains(&(place.to_owned(), call.attempt));
        let what = if self.dead.contains(&life) {
            Some("began in a dead process")
        } else if replayed.is_none() {
            Some("began in a process that was never given the run")
        } else if life == self.owner && (has_failed || self.recorded.contains(place)) {
            Some("is recorded, but ran again")
        } else if !self.begun.insert((key.to_owned(), call.attempt, life)) {
            Some("began twice in one process")
        } else {
            None
        };
        if let Some(what) = what {
            self.broken.get_or_insert_with(|| format!("step {key} attempt {} {what} (process {life})", call.attempt));
        }
        self.effects.push(Effect {
            run: call.run.to_owned(),
            step: call.step.to_owned(),
            key: call.key.map(str::to_owned),
            attempt: call.attempt,
            idempotency_key: key.to_owned(),
            life,
            at: self.clock.now(),
            after,
            replayed: replayed.unwrap_or(0),
        });
    }
}
