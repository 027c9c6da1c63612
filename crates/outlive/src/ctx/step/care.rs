//! Options of a step that few steps have: a breaker, a retry budget, a limit for silence.

use outlive_core::duration::IntoDuration;
use outlive_core::retry::{Breaker, PolicyError, RetryBudget};
use outlive_core::workflow::StepCare;

use super::{Step, StepBody};
use crate::error::Error;

impl<B, M> Step<'_, B, M>
where
    B: StepBody<M>,
{
    /// Holds attempts back while the breaker is open. It opens after a number of failures in a row, of all the steps
    /// that share it. After its reset time it lets one attempt through, and that one decides if it closes.
    ///
    /// An attempt that is held back has not started: it does not count, its timeout does not run, and the fallback waits
    /// as well. A timeout for all attempts together does run, from the first attempt on.
    ///
    /// Errors that may be retried, panics and timeouts count as failures. An error that is
    /// [permanent](struct@crate::Permanent), or refused by [`retry_if`](Self::retry_if), is an answer and counts as a success.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use std::time::Duration;
    /// use outlive::Breaker;
    ///
    /// static STRIPE: Breaker = Breaker::new(5, Duration::from_secs(30)).named("stripe");
    ///
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> {
    ///     Ok(ctx.step("charge", charge).timeout("10 seconds").retry(5).breaker(&STRIPE).await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("pay", pay); }
    /// ```
    pub fn breaker(mut self, breaker: &Breaker) -> Self {
        if self.accepts(breaker.check()) {
            self.care().breaker = Some(breaker.share());
        }
        self
    }

    /// Delays retries that exceed a fraction of the recent first attempts of all the steps that share the budget, so that
    /// a service in trouble does not get a multiple of its usual load.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// use outlive::RetryBudget;
    ///
    /// /// At most one retry for every five first attempts.
    /// static SEARCH: RetryBudget = RetryBudget::new(0.2).named("search");
    ///
    /// # async fn search() -> Result<u32> { Ok(42) }
    /// async fn index(ctx: Ctx, _: ()) -> Result<u32> {
    ///     Ok(ctx.step("search", search).retry(10).budget(&SEARCH).await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("index", index); }
    /// ```
    pub fn budget(mut self, budget: &RetryBudget) -> Self {
        if self.accepts(budget.check()) {
            self.care().budget = Some(budget.share());
        }
        self
    }

    /// Fails an attempt whose body has sent no [heartbeat](crate::Attempt::heartbeat) for this long, as a timeout does.
    /// The time runs from the start of the attempt, or from its last heartbeat. If the process dies, the attempt starts
    /// again, and so does the time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn encode(attempt: Attempt) -> Result<()> {
    ///     for frame in attempt.progress()?.unwrap_or(0)..10_000 {
    ///         attempt.heartbeat(&frame)?;
    ///     }
    ///     Ok(())
    /// }
    /// async fn publish(ctx: Ctx, _: ()) -> Result<()> {
    ///     // May take hours, but not a minute without a frame.
    ///     Ok(ctx.step("encode", encode).heartbeat_timeout("1 minute").retry(3).await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("publish", publish); }
    /// ```
    pub fn heartbeat_timeout(mut self, duration: impl IntoDuration) -> Self {
        match duration.into_duration() {
            Ok(limit) if limit.as_millis() == 0 => self.plan.operation.refuse(Error::Setup(format!(
                "the heartbeat timeout {limit:?} of a step must be at least one millisecond; leave out \
                 `.heartbeat_timeout` for no limit"
            ))),
            Ok(limit) => self.care().heartbeat_timeout = Some(limit),
            Err(error) => self.plan.operation.refuse(error.into()),
        }
        self
    }

    fn accepts(&mut self, checked: Result<(), PolicyError>) -> bool {
        let problem = checked.err();
        let is_valid = problem.is_none();
        problem.into_iter().for_each(|error| self.plan.operation.refuse(error.into()));
        is_valid
    }

    fn care(&mut self) -> &mut StepCare {
        let operation = &self.plan.operation;
        self.plan.spec.care.get_or_insert_with(|| {
            let bell = operation.slot().map(|slot| operation.resident.bell(slot));
            let care = StepCare::default();
            Box::new(StepCare { bell: bell.unwrap_or_else(|| care.bell.clone()), ..care })
        })
    }
}
