//! One life of a store: from opening the file to the power cut, with everything it was asked for.

use std::sync::Arc;

use outlive_core::store::Store;
use outlive_core::store::commit::Epoch;
use outlive_sqlite::SqliteStore;

use crate::author::Author;
use crate::chance::Chance;
use crate::log::{Image, Op};
use crate::model::{Model, Snapshot, Step, shown, told};
use crate::stage::{EMPTY, Look, Stage};
use crate::wait::{wait, wait_for_ack};

/// Limit on the steps of a life, which has at least half as many.
const STEPS_MAX: usize = 32;

/// The steps a store was asked for, and its contents after each. Step 0 is the empty disk.
#[derive(Clone, Debug)]
pub(crate) struct History {
    steps: Vec<Step>,
    digests: Vec<u64>,
    snapshots: Vec<Snapshot>,
}

/// One life of a disk: its initial contents and the operations on it.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) base: Image,
    /// The step after which the disk holds `base`.
    pub(crate) step: usize,
    pub(crate) log: Vec<Op>,
    pub(crate) history: History,
}

impl Life {
    /// Returns how often the database file was synced. It is the first file of a disk: SQLite creates it first, and the
    /// name of its log begins with its own.
    pub(crate) fn checkpoints(&self) -> u64 {
        self.log.iter().filter(|op| matches!(op, Op::Sync { file: 0 })).count() as u64
    }
}

impl Default for History {
    fn default() -> Self {
        Self { steps: Vec::new(), digests: vec![EMPTY], snapshots: vec![Snapshot::default()] }
    }
}

impl History {
    /// Returns the history up to and including a step.
    pub(crate) fn up_to(&self, step: usize) -> Self {
        Self {
            steps: self.steps[..step].to_vec(),
            digests: self.digests[..=step].to_vec(),
            snapshots: self.snapshots[..=step].to_vec(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn snapshot(&self, step: usize) -> &Snapshot {
        &self.snapshots[step]
    }

    /// Returns the step after which the file has this digest: one in the range if possible, otherwise any.
    pub(crate) fn find(&self, digest: u64, from: usize, to: usize) -> Option<usize> {
        let is_it = |step: &usize| self.digests.get(*step) == Some(&digest);
        (from..=to).find(is_it).or_else(|| (0..self.digests.len()).rev().find(is_it))
    }

    fn push(&mut self, step: Step, digest: u64, snapshot: Snapshot) {
        self.steps.push(step);
        self.digests.push(digest);
        self.snapshots.push(snapshot);
    }
}

/// A life in progress.
struct Living<'a> {
    stage: &'a Stage,
    /// `None` only while it is being reopened.
    store: Option<SqliteStore>,
    model: Model,
    history: History,
    chance: Chance,
}

/// Runs a store on the contents of a disk until the power goes.
///
/// # Errors
/// If it behaves differently from the memory store, although nothing fails.
pub(crate) fn live(stage: &Stage, base: Image, history: History, chance: Chance) -> Result<Life, String> {
    let step = history.len();
    let model = Model::after(history.steps())?;
    stage.disk().insert(base.clone(), stage.syncs());
    stage.disk().record();
    let mut living = Living { stage, store: None, model, history, chance };
    let lived = living.live();
    let log = stage.disk().stop();
    lived?;
    let Living { store, history, .. } = living;
    drop(store);
    Ok(Life { base, step, log, history })
}

impl Living<'_> {
    fn live(&mut self) -> Result<(), String> {
        self.open()?;
        self.lease()?;
        let steps = STEPS_MAX / 2 + self.chance.below(STEPS_MAX / 2);
        for _ in 0..steps {
            match self.chance.below(24) {
                0 => {
                    self.ask(Step::Release(self.model.epoch))?;
                    self.lease()?;
                }
                1 => {
                    // A process that ends cleanly: SQLite tidies up.
                    self.store = None;
                    self.open()?;
                    self.lease()?;
                }
                _ => {
                    let batch = self.author().batch();
                    self.ask(Step::Write(batch))?;
                }
            }
        }
        Ok(())
    }

    fn author(&mut self) -> Author<'_> {
        let tick = self.history.len();
        let held = self.history.snapshot(tick);
        Author { chance: &mut self.chance, held, epoch: self.model.epoch, tick }
    }

    fn open(&mut self) -> Result<(), String> {
        let step = self.history.len() + 1;
        self.stage.disk().mark(Op::Begun(step));
        self.store = Some(self.stage.open()?);
        self.stage.disk().mark(Op::Acked(step));
        self.settle(Step::Open)
    }

    fn lease(&mut self) -> Result<(), String> {
        let now = self.author().moment();
        self.ask(Step::Lease(now))
    }

    /// Performs a step, and compares the result with the model's.
    fn ask(&mut self, step: Step) -> Result<(), String> {
        let (disk, number) = (self.stage.disk(), self.history.len() + 1);
        let store = self.store.as_ref().ok_or("the store is closed")?;
        let answer = match &step {
            Step::Open => String::new(),
            Step::Lease(now) => format!("{:?}", told(wait_for_ack(disk, number, store.lease(*now))?)?),
            Step::Write(batch) => shown(told(wait_for_ack(disk, number, store.write(Arc::clone(batch)))?)?),
            Step::Release(epoch) => {
                told(wait_for_ack(disk, number, store.release(*epoch))?)?;
                String::new()
            }
        };
        // Releasing a lease that nothing holds changes nothing, and waits for the checkpoint that may follow a write.
        told(wait(store.release(Epoch(0)))?)?;
        let expected = self.model.tell(&step)?;
        if answer != expected {
            return Err(format!("step {number} returned {answer}, but the model {expected}"));
        }
        self.settle(step)
    }

    /// Checks the contents of the store after a step.
    fn settle(&mut self, step: Step) -> Result<(), String> {
        let snapshot = self.model.snapshot()?;
        let store = self.store.as_ref().ok_or("the store is closed")?;
        told(Snapshot::of(store)?)?.compare(&snapshot)?;
        let digest = self.stage.digest(Look::Quick)?;
        self.history.push(step, digest, snapshot);
        Ok(())
    }
}
