//! Step behavior set by a test: which steps fail, which are replaced, and how often each ran.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use outlive::{BoxError, Cause, Failure, HookAction, Payload, StepCall, StepHook};

use crate::words::{unkeyed, unnumbered};

/// Produces the result of a step in place of its body.
pub(crate) type Mock = Arc<dyn Fn(&StepCall<'_>) -> Result<Payload, BoxError> + Send + Sync>;

/// The steps of a test.
#[derive(Default)]
pub(crate) struct Steps(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    executions: BTreeMap<String, u64>,
    failures: BTreeMap<String, VecDeque<Failure>>,
    mocks: BTreeMap<String, Mock>,
    /// Warnings about steps that only call order tells apart, one for each call site; `None` if not wanted.
    warnings: Option<Vec<String>>,
}

impl Steps {
    /// Creates a hook that also warns about what a replay cannot show.
    pub(crate) fn warning() -> Self {
        Self(Mutex::new(Inner { warnings: Some(Vec::new()), ..Inner::default() }))
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.lock().warnings.clone().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn executions(&self, step: &str) -> u64 {
        self.lock().executions.get(step).copied().unwrap_or(0)
    }

    pub(crate) fn fail_next(&self, step: &str, failure: Failure) {
        self.lock().failures.entry(step.to_owned()).or_default().push_back(failure);
    }

    pub(crate) fn mock(&self, step: &str, mock: Mock) {
        self.lock().mocks.insert(step.to_owned(), mock);
    }

    /// Whether the body of a step is replaced.
    pub(crate) fn is_mocked(&self, step: &str) -> bool {
        self.lock().mocks.contains_key(step)
    }
}

impl Inner {
    #[expect(clippy::print_stderr, reason = "the test harness captures it and shows it on failure")]
    fn warn(&mut self, call: &StepCall<'_>) {
        let Some(warnings) = &mut self.warnings else { return };
        if call.key.is_some() || unnumbered(call.op) == call.op {
            return;
        }
        let warning = unkeyed(call.step, &format!("{}:{}", call.location.file(), call.location.line()));
        if !warnings.contains(&warning) {
            eprintln!("warning: {warning}");
            warnings.push(warning);
        }
    }
}

impl StepHook for Steps {
    fn before(&self, call: &StepCall<'_>) -> HookAction {
        let mut inner = self.lock();
        inner.warn(call);
        *inner.executions.entry(call.step.to_owned()).or_insert(0) += 1;
        if let Some(failure) = inner.failures.get_mut(call.step).and_then(VecDeque::pop_front) {
            return HookAction::Fail(failure);
        }
        let Some(mock) = inner.mocks.get(call.step).cloned() else { return HookAction::Run };
        drop(inner);
        instead(&mock, call)
    }
}

/// Returns the result of a replaced step.
pub(crate) fn instead(mock: &Mock, call: &StepCall<'_>) -> HookAction {
    match mock(call) {
        Ok(value) => HookAction::Value(value),
        Err(error) => HookAction::Fail(Failure::of(&*error)),
    }
}

/// Creates a retryable failure with this message.
pub(crate) fn failure(message: impl Into<String>) -> Failure {
    Failure::new(Cause::Error, message)
}
