//! The environment shared by all runs of an engine.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

use outlive_core::failure::Failure;
use outlive_core::origin::RunOrigin;
use outlive_core::payload::Payload;

use crate::clock::Clock;
use crate::error::Error;
use crate::instance::attempts::Attempts;
use crate::instance::layers::Layer;
use crate::instance::logs::Silence;
use crate::instance::outlet::Outlet;
use crate::instance::target::Names;

/// The default limit for an input, signal or result, in bytes of JSON.
#[cfg(feature = "tokio")]
pub(crate) const PAYLOAD_MAX: usize = 1 << 20;

/// The default limit for the number of entries of a journal.
#[cfg(feature = "tokio")]
pub(crate) const ENTRIES_MAX: u64 = 50_000;

/// Values by type.
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

    /// Lists the provided types, for people.
    fn known(&self) -> String {
        let mut names: Vec<_> = self.0.values().map(|value| value.type_name).collect();
        names.sort_unstable();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

/// The environment shared by all runs of an engine.
pub(crate) struct Env {
    pub(crate) clock: Arc<dyn Clock>,
    /// The workflows and jobs that runs can start and send to.
    pub(crate) names: Arc<dyn Names>,
    pub(crate) provided: Values,
    /// Types that are provided only when an engine starts, and so not in a check.
    pub(crate) unmade: Vec<TypeId>,
    pub(crate) max_payload: usize,
    /// The origin of runs that are started here, if they are not part of a trace.
    pub(crate) origin: Option<Arc<RunOrigin>>,
    /// Code around runs, steps and handlers, outermost first.
    pub(crate) layers: Vec<Box<dyn Layer>>,
    /// The number of entries that a journal may have.
    pub(crate) max_entries: u64,
    /// Called before the body of a step runs. Used only in tests.
    pub(crate) hook: Option<Arc<dyn StepHook>>,
    /// Whether each quiet point is checked by replaying a copy of the run.
    pub(crate) is_paranoid: bool,
    /// Listeners to attempts as they start.
    pub(crate) attempts: Arc<Attempts>,
    /// Where replays log to.
    pub(crate) silence: Silence,
    /// Where attempts append to; `None` in a check, which runs no step.
    pub(crate) outlet: Option<Arc<dyn Outlet>>,
}

#[cfg(feature = "tokio")]
impl Env {
    pub(crate) fn new(clock: Arc<dyn Clock>, names: Arc<dyn Names>, provided: Values, max_payload: usize) -> Self {
        Self {
            clock,
            names,
            provided,
            unmade: Vec::new(),
            max_payload,
            origin: None,
            layers: Vec::new(),
            max_entries: ENTRIES_MAX,
            hook: None,
            is_paranoid: false,
            attempts: Arc::default(),
            silence: Silence::default(),
            outlet: None,
        }
    }
}

/// Intercepts steps before their bodies run. For test kits.
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
#[cfg_attr(not(feature = "testing"), expect(unreachable_pub, reason = "only test kits install hooks"))]
pub trait StepHook: Send + Sync {
    /// Called when an attempt of a step is about to run.
    fn before(&self, call: &StepCall<'_>) -> HookAction;

    /// Called when the body of a step has asked for its idempotency key.
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
#[cfg_attr(not(feature = "testing"), expect(dead_code, unreachable_pub, reason = "only test kits install hooks"))]
pub struct StepCall<'a> {
    /// The id of the run.
    pub run: &'a str,
    /// Which run it is under that id, from 1.
    pub run_number: u32,
    /// The step's name.
    pub step: &'a str,
    /// The step's identity in the journal: scope, name, and key or occurrence.
    pub op: &'a str,
    /// The call site of the step.
    pub location: &'static Location<'static>,
    /// The step's key, if it has one.
    pub key: Option<&'a str>,
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// The key that all attempts of this step share.
    pub idempotency_key: &'a str,
    /// Whether the body takes the [`Attempt`](crate::Attempt), and so can see that key.
    pub takes_attempt: bool,
    /// Whether the step is [run at most once](crate::ctx::Step::at_most_once).
    pub is_at_most_once: bool,
    /// The waker that has the hook called again after [`HookAction::Wait`].
    pub waker: &'a std::task::Waker,
}

/// What to do in place of a step's body.
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
#[cfg_attr(not(feature = "testing"), expect(dead_code, unreachable_pub, reason = "only test kits install hooks"))]
pub enum HookAction {
    /// Run the body.
    Run,
    /// Do not run the body yet. The hook is called again when it wakes [`StepCall::waker`].
    Wait,
    /// Complete the attempt with this value.
    Value(Payload),
    /// Fail the attempt.
    Fail(Failure),
}
