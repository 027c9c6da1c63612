//! What a run did to the world, over all lives of the process, for those who say what must hold of it.

use std::any::{Any, type_name};
use std::sync::Arc;
use std::time::Duration;

use outlive::{Failure, Payload, Status};
use serde::de::DeserializeOwned;

/// One attempt of a step: its body ran, or the fake that stands for it.
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
    /// The step's name.
    pub step: String,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// Its identity in the journal: scope, name, and key or occurrence.
    pub op: String,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The key that all attempts of this step share: who drops a second request by it sees this step once.
    pub idempotency_key: String,
    /// Whether the body asked for that key.
    pub has_asked_key: bool,
    /// In which life of the process, from 1.
    pub life: u32,
    /// How long after the start, in virtual time.
    pub after: Duration,
    /// Where the step is called.
    pub(super) site: String,
    /// Whether it can be told that the body does not use the key: a fake may stand for one that does.
    pub(super) is_judged: bool,
    pub(super) is_at_most_once: bool,
}

/// What a run did to the world, in order, and how it ended. An [invariant](super::CrashEverywhere::invariant) is told it.
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
    pub(super) lives: u32,
    pub(super) worlds: Vec<Arc<dyn Any + Send + Sync>>,
}

/// How a run stands at the end of a play.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct End {
    pub(super) status: Status,
    pub(super) output: Option<Payload>,
    pub(super) failure: Option<Failure>,
    pub(super) note: Option<String>,
}

impl Ledger {
    /// The attempts of all steps, in the order in which they began.
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

    /// How often the body of a step ran.
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

    /// The run's status at the end.
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

    /// The run's result, if it has one that reads as this type.
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

    /// How many lives the process had: one more than crashes.
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

    /// The [world](super::CrashEverywhere::world) of this type, as the run left it.
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
    /// If no world of this type was made.
    #[must_use]
    pub fn world<W: 'static>(&self) -> &W {
        let found = self.worlds.iter().find_map(|world| world.downcast_ref());
        let name = type_name::<W>();
        found.unwrap_or_else(|| panic!("there is no world of type {name}; make it with `.world(|| ..)`"))
    }
}
