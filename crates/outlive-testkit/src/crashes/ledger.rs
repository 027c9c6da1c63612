//! The side effects of a run over all process lifetimes, as seen by invariants.

use std::any::{Any, type_name};
use std::sync::Arc;
use std::time::Duration;

use outlive::{Failure, Payload, Status};
use outlive_core::output::{Output, OutputKind};
use serde::de::DeserializeOwned;

/// One attempt of a step: its body ran, or the fake that replaces it.
///
/// ```
/// use outlive_testkit::crashes::Effect;
/// fn line(effect: &Effect) -> String {
///     format!("life {}: {} attempt {}", effect.life, effect.step, effect.attempt)
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Effect {
    /// The id of the run.
    pub run: String,
    /// Which run it is under that id, from 1.
    pub run_number: u32,
    /// The step's name.
    pub step: String,
    /// The step's key, if it has one.
    pub key: Option<String>,
    /// The step's identity in the journal: scope, name, and key or occurrence.
    pub op: String,
    /// Attempt number, from 1.
    pub attempt: u32,
    /// The key that all attempts of this step share; a receiver that drops duplicates by it sees the step once.
    pub idempotency_key: String,
    /// Whether the body read that key.
    pub has_asked_key: bool,
    /// Process lifetime in which it ran, from 1.
    pub life: u32,
    /// Virtual time since the start.
    pub after: Duration,
    /// Call site of the step.
    pub(super) site: String,
    /// Whether it is known that the body ignores the key: a fake may replace one that reads it.
    pub(super) is_judged: bool,
    pub(super) is_at_most_once: bool,
}

/// The side effects of a run, in order, and how it ended. Passed to each
/// [invariant](super::CrashEverywhere::invariant).
///
/// ```
/// use outlive_testkit::crashes::Ledger;
/// fn charged_once(ledger: &Ledger) -> Result<(), String> {
///     match ledger.count("charge card") {
///         0 | 1 => Ok(()),
///         times => Err(format!("the card was charged {times} times")),
///     }
/// }
/// ```
pub struct Ledger {
    pub(super) effects: Vec<Effect>,
    pub(super) end: End,
    pub(super) others: Vec<OtherRun>,
    /// What the run has given out, without what failed attempts appended.
    pub(super) given: Vec<Output>,
    pub(super) lives: u32,
    pub(super) worlds: Vec<Arc<dyn Any + Send + Sync>>,
}

/// Another run at the end of a trial: a child of the run, or one that it or a job has started.
///
/// ```
/// use outlive_testkit::crashes::OtherRun;
/// fn line(run: &OtherRun) -> String {
///     format!("{} is {}", run.id, run.status)
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct OtherRun {
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: Status,
    pub(super) workflow: String,
    pub(super) end: End,
}

/// State of a run at the end of a trial.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct End {
    pub(super) status: Status,
    pub(super) output: Option<Payload>,
    pub(super) failure: Option<Failure>,
    pub(super) note: Option<String>,
}

impl Ledger {
    /// Returns the attempts of all steps, in the order in which they began.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Ledger;
    /// fn shipped_after_charged(ledger: &Ledger) -> Result<(), String> {
    ///     let first = |step| ledger.effects().iter().position(|effect| effect.step == step);
    ///     if first("ship") < first("charge card") { Err("shipped before it was paid".into()) } else { Ok(()) }
    /// }
    /// ```
    #[must_use]
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// Returns how often the body of a step ran.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Ledger;
    /// fn shipped(ledger: &Ledger) -> Result<(), String> {
    ///     if ledger.count("ship") > 0 { Ok(()) } else { Err("never shipped".into()) }
    /// }
    /// ```
    #[must_use]
    pub fn count(&self, step: &str) -> usize {
        self.effects.iter().filter(|effect| effect.step == step).count()
    }

    /// Returns the run's final status.
    ///
    /// ```
    /// use outlive::Status;
    /// # use outlive_testkit::crashes::Ledger;
    /// fn is_not_lost(ledger: &Ledger) -> Result<(), String> {
    ///     if ledger.status() == Status::Completed { Ok(()) } else { Err("an order was lost".into()) }
    /// }
    /// ```
    #[must_use]
    pub fn status(&self) -> Status {
        self.end.status
    }

    /// Returns the run's result, if it has one that decodes as this type.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Ledger;
    /// fn is_paid_or_lost(ledger: &Ledger) -> Result<(), String> {
    ///     match ledger.output::<String>().as_deref() {
    ///         Some("paid" | "lost") => Ok(()),
    ///         other => Err(format!("it gave {other:?}")),
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn output<T: DeserializeOwned>(&self) -> Option<T> {
        self.end.output.as_ref()?.decode().ok()
    }

    /// Returns all other runs, sorted by id.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Ledger;
    /// fn one_parcel(ledger: &Ledger) -> Result<(), String> {
    ///     let parcels = ledger.others().iter().filter(|run| run.id.starts_with("parcel-")).count();
    ///     if parcels == 1 { Ok(()) } else { Err(format!("{parcels} parcels were sent")) }
    /// }
    /// ```
    #[must_use]
    pub fn others(&self) -> &[OtherRun] {
        &self.others
    }

    /// Returns the value that the run last published under a name, if it decodes as this type.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Ledger;
    /// fn is_done(ledger: &Ledger) -> Result<(), String> {
    ///     match ledger.value::<String>("state").as_deref() {
    ///         Some("done") => Ok(()),
    ///         other => Err(format!("its state is {other:?}")),
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn value<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.outputs(OutputKind::Value, name).next()?.decode().ok()
    }

    /// Returns the items of a stream of the run, without those of failed and interrupted attempts, and without those that do
    /// not decode as this type.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Ledger;
    /// fn all_is_said(ledger: &Ledger) -> Result<(), String> {
    ///     let text = ledger.stream::<String>("tokens").concat();
    ///     if text == "to be or not" { Ok(()) } else { Err(format!("it said {text:?}")) }
    /// }
    /// ```
    #[must_use]
    pub fn stream<T: DeserializeOwned>(&self, name: &str) -> Vec<T> {
        self.outputs(OutputKind::Item, name).filter_map(|payload| payload.decode().ok()).collect()
    }

    fn outputs(&self, kind: OutputKind, name: &str) -> impl Iterator<Item = &Payload> {
        let is_it = move |output: &&Output| output.key.kind == kind && output.key.name.as_str() == name;
        self.given.iter().filter(is_it).map(|output| &output.payload)
    }

    /// Returns how many lifetimes the process had: one more than the number of crashes.
    ///
    /// ```
    /// # use outlive_testkit::crashes::Ledger;
    /// fn once_per_life(ledger: &Ledger) -> Result<(), String> {
    ///     if ledger.count("ship") <= ledger.lives() as usize { Ok(()) } else { Err("shipped too often".into()) }
    /// }
    /// ```
    #[must_use]
    pub fn lives(&self) -> u32 {
        self.lives
    }

    /// Returns the [world](super::CrashEverywhere::world) of this type, as the run left it.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// # use outlive_testkit::crashes::Ledger;
    /// #[derive(Clone, Default)]
    /// struct Bank(Arc<Mutex<Vec<String>>>);
    /// fn paid_once(ledger: &Ledger) -> Result<(), String> {
    ///     let payments = ledger.world::<Bank>().0.lock().unwrap().len();
    ///     if payments <= 1 { Ok(()) } else { Err(format!("{payments} payments")) }
    /// }
    /// ```
    ///
    /// # Panics
    /// If no world of this type was provided.
    #[must_use]
    pub fn world<W: 'static>(&self) -> &W {
        let found = self.worlds.iter().find_map(|world| world.downcast_ref());
        let name = type_name::<W>();
        found.unwrap_or_else(|| panic!("there is no world of type {name}; provide it with `.world(|| ..)`"))
    }
}
