//! The model: a memory store that performs the same steps, and thus holds what the real store must hold.

use std::fmt::Debug;
use std::sync::Arc;

use outlive_core::journal::Entry;
use outlive_core::message::Inbound;
use outlive_core::store::commit::{Answer, Epoch, Write};
use outlive_core::store::memory::MemoryStore;
use outlive_core::store::query::{Counts, Filter, Instance, Query, Wake};
use outlive_core::store::{Error, Store};
use outlive_core::time::Timestamp;

use crate::wait::wait;

/// Limit on the characters shown of a value.
const BRIEF_MAX: usize = 600;

/// One thing that a store is asked for, all or nothing.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Opens the file, and creates a store in it if there is none.
    Open,
    Lease(Timestamp),
    Write(Arc<Vec<Write>>),
    Release(Epoch),
}

/// Everything that a store shows.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) held: Vec<Held>,
    wakes: Vec<Wake>,
    counts: Counts,
}

/// An instance, and everything stored for it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Held {
    pub(crate) instance: Instance,
    pub(crate) journal: Vec<Entry>,
    pub(crate) inbox: Vec<Inbound>,
}

/// A memory store that performs each step.
#[derive(Debug, Default)]
pub(crate) struct Model {
    store: MemoryStore,
    /// The last lease.
    pub(crate) epoch: Epoch,
}

impl Model {
    /// Creates the model after these steps.
    ///
    /// # Errors
    /// Only if the memory store fails.
    pub(crate) fn after(steps: &[Step]) -> Result<Self, String> {
        let mut model = Self::default();
        for step in steps {
            model.tell(step)?;
        }
        Ok(model)
    }

    /// Performs a step, and returns the result as text.
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

    /// Writes a batch, and returns the results.
    pub(crate) fn write(&mut self, batch: &Arc<Vec<Write>>) -> Result<Vec<Answer>, String> {
        told(wait(self.store.write(Arc::clone(batch)))?)
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, String> {
        told(Snapshot::of(&self.store)?)
    }
}

impl Snapshot {
    /// Reads everything a store shows. The outer error means that it does not reply.
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

    /// Returns the first difference as an error, if there is one.
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

/// Formats as much of a value as helps.
fn brief(value: &impl Debug) -> String {
    format!("{value:?}").chars().take(BRIEF_MAX).collect()
}

/// Formats the results, except for what a store may have forgotten when a write is repeated.
pub(crate) fn shown(answers: Vec<Answer>) -> String {
    let comparable = answers.into_iter().map(|answer| match answer {
        Answer::Sent { num, pos, is_new, .. } => Answer::Sent { reached: Vec::new(), num, pos, before: 0, is_new },
        answer => answer,
    });
    format!("{:?}", comparable.collect::<Vec<_>>())
}

/// Turns an error into text.
pub(crate) fn told<T>(answer: Result<T, Error>) -> Result<T, String> {
    answer.map_err(|error| format!("{:?}: {error}", error.kind))
}
