//! What all runs of an engine have in common.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

use outlive_core::failure::Failure;
use outlive_core::payload::Payload;

use crate::attempts::Attempts;
use crate::clock::Clock;
use crate::error::Error;
use crate::logs::Silence;

/// The largest input, signal or result in bytes of JSON, unless said otherwise.
#[cfg(feature = "tokio")]
pub(crate) const PAYLOAD_MAX: usize = 1 << 20;

/// Values by their types.
#[derive(Default)]
pub(crate) struct Values(HashMap<TypeId, Value>);

struct Value {
    type_name: &'static str,
    value: Box<dyn Any + Send + Sync>,
}

impl Values {
    pub(crate) fn insert(&mut self, id: TypeId, type_name: &'static str, value: Box<dyn Any + Send + Sync>) {
        self.0.insert(id, Value { type_name, value });
    }

    pub(crate) fn get<T: 'static>(&self) -> Result<&T, Error> {
        let found = self.0.get(&TypeId::of::<T>()).and_then(|found| found.value.downcast_ref());
        found.ok_or_else(|| Error::NotProvided { type_name: std::any::type_name::<T>(), known: self.known() })
    }

    /// The types that there are, for people.
    fn known(&self) -> String {
        let mut names: Vec<_> = self.0.values().map(|value| value.type_name).collect();
        names.sort_unstable();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

/// What all runs of an engine have in common.
pub(crate) struct Env {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) provided: Values,
    /// What is provided once an engine starts, and so not in a check.
    pub(crate) unmade: Vec<TypeId>,
    pub(crate) payload_max: usize,
    /// Who is asked before a step's body runs; nobody outside tests.
    pub(crate) hook: Option<Arc<dyn StepHook>>,
    /// Whether each quiet point is checked by replaying a second copy of the run.
    pub(crate) is_paranoid: bool,
    /// Who is told of attempts as they begin.
    pub(crate) attempts: Arc<Attempts>,
    /// What replays log to.
    pub(crate) silence: Silence,
}

/// Stands between a step and its body. For test kits.
///
/// ```
/// use outlive::{HookAction, StepCall, StepHook};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// #[derive(Default)]
/// struct Attempts(AtomicU32);
/// impl StepHook for Attempts {
///     fn before(&self, _: &StepCall<'_>) -> HookAction {
///         self.0.fetch_add(1, Ordering::Relaxed);
///         HookAction::Run
///     }
/// }
/// # let _ = outlive::Engine::open("memory:").step_hook(std::sync::Arc::new(Attempts::default()));
/// ```
pub trait StepHook: Send + Sync {
    /// An attempt of a step is about to run.
    fn before(&self, call: &StepCall<'_>) -> HookAction;

    /// The body of a step has asked for its idempotency key, which is this one.
    fn key_asked(&self, _idempotency_key: &str) {}
}

/// An attempt that is about to run.
///
/// ```
/// use outlive::StepCall;
/// fn line(call: &StepCall<'_>) -> String {
///     format!("run {}: step {:?}, attempt {}", call.run, call.step, call.attempt)
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct StepCall<'a> {
    /// The run.
    pub run: &'a str,
    /// The step's name.
    pub step: &'a str,
    /// The step's identity in the journal: scope, name, and key or occurrence.
    pub op: &'a str,
    /// Where the step is called.
    pub location: &'static Location<'static>,
    /// Its key, if it has one.
    pub key: Option<&'a str>,
    /// Which attempt.
    pub attempt: u32,
    /// The key that all attempts of this step share.
    pub idempotency_key: &'a str,
    /// Whether the body takes the [`Attempt`](crate::Attempt), and so can know that key.
    pub takes_attempt: bool,
    /// Whether the step is [never run twice](crate::ctx::Step::at_most_once).
    pub is_at_most_once: bool,
    /// Has the hook asked again after [`HookAction::Wait`].
    pub waker: &'a std::task::Waker,
}

/// What is to happen instead of a step's body.
///
/// ```
/// use outlive::{Cause, Failure, HookAction, Payload, StepCall};
/// fn instead(call: &StepCall<'_>) -> HookAction {
///     match call.step {
///         "charge" => HookAction::Value(Payload::recorded("42")),
///         "ship" => HookAction::Fail(Failure::new(Cause::Error, "no ship in the harbour")),
///         _ => HookAction::Run,
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HookAction {
    /// Nothing: run the body.
    Run,
    /// The body does not begin yet: the hook is asked again when it wakes [`StepCall::waker`].
    Wait,
    /// The attempt gives this value.
    Value(Payload),
    /// The attempt fails.
    Fail(Failure),
}
