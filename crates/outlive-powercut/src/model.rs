//! What the store must hold: the same told to the store in memory.

use std::fmt::Debug;
use std::sync::Arc;

use outlive_core::commit::{Answer, Epoch, Write};
use outlive_core::journal::Entry;
use outlive_core::memory::MemoryStore;
use outlive_core::message::Inbound;
use outlive_core::query::{Counts, Filter, Instance, Query, Wake};
use outlive_core::store::{Error, Store};
use outlive_core::time::Timestamp;

use crate::wait::wait;

/// How many letters of a value are shown to people.
const BRIEF_MAX: usize = 600;

/// One thing that a store is asked for, all or nothing.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Open the file, and make it a store if it is none.
    Open,
    Lease(Timestamp),
    Write(Arc<Vec<Write>>),
    Release(Epoch),
}

/// All that a store shows.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) held: Vec<Held>,
    wakes: Vec<Wake>,
    counts: Counts,
}

/// An instance, and all that is kept for it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Held {
    pub(crate) instance: Instance,
    pub(crate) journal: Vec<Entry>,
    pub(crate) inbox: Vec<Inbound>,
}

/// A store in memory that is told each step.
#[derive(Debug, Default)]
pub(crate) struct Model {
    store: MemoryStore,
    /// The lease given last.
    pub(crate) epoch: Epoch,
}

impl Model {
    /// What a store is after these steps.
    ///
    /// # Errors
    /// None that the store in memory would give.
    pub(crate) fn after(steps: &[Step]) -> Result<Self, String> {
        let mut model = Self::default();
        for step in steps {
            model.tell(step)?;
        }
        Ok(model)
    }

    /// Does a step, and says how it was answered.
    pub(crate) fn tell(&mut self, step: &Step) -> Result<String, String> {
        match step {
            Step::Open => Ok(String::new()),
            Step::Lease(now) => {
                self.epoch = told(wait(self.store.lease(*now))?)?;
                Ok(format!("{:?}", self.epoch))
            }
            Step::Write(batch) => Ok(shown(self.write(batch)?)),
            Step::Release(epoch) => told(wait(self.store.release(*epoch))?).map(|()| String::new()),
        }
    }

    /// Writes a batch, and gives the answers.
    pub(crate) fn write(&mut self, batch: &Arc<Vec<Write>>) -> Result<Vec<Answer>, String> {
        told(wait(self.store.write(Arc::clone(batch)))?)
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, String> {
        told(Snapshot::of(&self.store)?)
    }
}

impl Snapshot {
    /// Asks a store for all it shows. The outer error is that it does not answer.
    pub(crate) fn of(store: &dyn Query) -> Result<Result<Self, Error>, String> {
        let page = match wait(store.list(&Filter::all(), None, usize::MAX))? {
            Ok(page) => page,
            Err(error) => return Ok(Err(error)),
        };
        let mut held = Vec::with_capacity(page.instances.len());
        for instance in page.instances {
            let (journal, inbox) =
                (wait(store.journal(instance.num, 0, usize::MAX))?, wait(store.inbox(instance.num, 0, usize::MAX))?);
            match (journal, inbox) {
                (Ok(journal), Ok(inbox)) => held.push(Held { instance, journal, inbox }),
                (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
            }
        }
        let wakes = wait(store.wakes(Timestamp::MAX, usize::MAX))?;
        let counts = wait(store.count(&Filter::all()))?;
        Ok(wakes.and_then(|wakes| Ok(Self { held, wakes, counts: counts? })))
    }

    /// Says the first difference, if there is one.
    pub(crate) fn compare(&self, expected: &Self) -> Result<(), String> {
        if self == expected {
            return Ok(());
        }
        let differs = self.held.iter().zip(&expected.held).find(|(found, expected)| found != expected);
        Err(match differs {
            Some((found, expected)) => format!("found {}, expected {}", brief(found), brief(expected)),
            None => format!("found {} instances, expected {}", self.held.len(), expected.held.len()),
        })
    }
}

/// As much of a value as helps.
fn brief(value: &impl Debug) -> String {
    format!("{value:?}").chars().take(BRIEF_MAX).collect()
}

/// The answers, but for what a store may have forgotten when it is asked the same again.
pub(crate) fn shown(answers: Vec<Answer>) -> String {
    let comparable = answers.into_iter().map(|answer| match answer {
        Answer::Sent { num, pos, is_new, .. } => Answer::Sent { num, pos, before: 0, is_new },
        answer => answer,
    });
    format!("{:?}", comparable.collect::<Vec<_>>())
}

/// An answer, or what is wrong in words.
pub(crate) fn told<T>(answer: Result<T, Error>) -> Result<T, String> {
    answer.map_err(|error| format!("{:?}: {error}", error.kind))
}
