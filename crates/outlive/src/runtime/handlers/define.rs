//! Job definitions as registered with an engine: rules and handlers.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::id::Name;
use outlive_core::job::{Exhausted, Policy, PoolRules, Rules};
use outlive_core::kind::JobKind;

use super::handler::{CallPolicy, Handlers, PoolHandlers};
use crate::error::Error;
use crate::instance::panics;

/// A job that can be registered: a contract with its rules and handlers.
///
/// ```
/// use outlive::job::{Continuous, ContinuousCtx, JobDefinition};
/// use outlive::prelude::*;
/// const BEAT: Continuous<()> = Continuous::new("heartbeat");
/// async fn beat(_: ContinuousCtx<()>) -> Result<()> { Ok(()) }
/// fn is_complete(_: impl JobDefinition) {}
/// is_complete(BEAT.every("1 minute").execute(beat));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be registered as a job",
    label = "this is not a complete definition",
    note = "a contract needs its rules and an `.execute(handler)`, as in `TOKENS.every(\"30 minutes\").execute(refresh)`"
)]
pub trait JobDefinition {
    /// Builds the definition that the engine uses.
    #[doc(hidden)]
    fn definition(self) -> Result<Definition, Error>;
}

/// Marks a builder without an `execute` handler.
#[derive(Debug)]
pub struct Unfinished;

/// Marks a builder with its `execute` handler.
#[derive(Debug)]
pub struct Executes;

/// A registered job.
pub struct Definition {
    pub(crate) job: Name,
    pub(crate) work: Work,
    pub(crate) handlers: Arc<dyn Handlers>,
    pub(crate) call_policy: CallPolicy,
    on_exhausted: Option<OnExhausted>,
}

/// Callback for exhausted retries.
type OnExhausted = Box<dyn Fn(&Exhausted) + Send + Sync>;

/// Settings that the builders of all kinds collect.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    pub(crate) call_policy: CallPolicy,
    pub(crate) on_exhausted: Option<OnExhausted>,
    problem: Option<Error>,
}

impl Settings {
    /// Keeps the first error, to report it when the job is registered.
    pub(crate) fn refuse(&mut self, problem: impl Into<Error>) {
        self.problem.get_or_insert(problem.into());
    }

    /// Returns a duration that is greater than zero. Otherwise keeps an error, which is `what` if the duration is zero.
    pub(crate) fn time(&mut self, time: impl IntoDuration, what: impl FnOnce() -> String) -> Option<Duration> {
        match time.into_duration() {
            Ok(time) if time.is_zero() => self.refuse(Error::Setup(what())),
            Ok(time) => return Some(time),
            Err(error) => self.refuse(error),
        }
        None
    }

    pub(crate) fn finish(
        self,
        job: Result<Name, Error>,
        work: impl FnOnce(Policy) -> Work,
        handlers: Arc<dyn Handlers>,
    ) -> Result<Definition, Error> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if let Some(retry) = &self.policy.retry {
            retry.check()?;
        }
        Ok(Definition {
            job: job?,
            work: work(self.policy),
            handlers,
            call_policy: self.call_policy,
            on_exhausted: self.on_exhausted,
        })
    }
}

/// How a job is driven.
pub(crate) enum Work {
    /// One handler at a time per instance.
    Single(Rules),
    /// Many handlers at a time.
    Pool(PoolRules, Arc<dyn PoolHandlers>),
}

impl std::fmt::Debug for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Definition({})", self.job)
    }
}

impl Definition {
    /// Reports exhausted retries to the `on_exhausted` callback.
    pub(crate) fn report_exhausted(&self, exhausted: &[Exhausted]) {
        for info in exhausted {
            if let Some(tell) = &self.on_exhausted
                && let Err(panic) = panics::catch(|| tell(info))
            {
                tracing::warn!(job = self.job.as_str(), "on_exhausted {panic}");
            }
        }
    }

    pub(crate) fn kind(&self) -> JobKind {
        match &self.work {
            Work::Single(rules) => rules.kind(),
            Work::Pool(..) => JobKind::Pool,
        }
    }
}
