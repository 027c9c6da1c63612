//! Nodes that take care of what they call: steps with heartbeats, or with a breaker and a retry budget.

use std::collections::BTreeSet;
use std::time::Duration;

use outlive::prelude::*;
use outlive::{Breaker, RetryBudget};

/// A step with heartbeats, or one that a breaker may hold back.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Care {
    /// Sends its attempt as a heartbeat, and fails this often before it succeeds.
    Beat(String, u32),
    /// Never ends, and sends no heartbeat.
    Silent(String),
    /// Fails this often before it succeeds, and has a breaker and a budget.
    Guarded(String, u32),
}

/// The breaker and the budget of a process.
pub(super) struct Guards {
    breaker: Breaker,
    budget: RetryBudget,
}

impl Guards {
    pub(super) fn new() -> Self {
        let (breaker, budget) = (Breaker::new(2, Duration::from_secs(5)), RetryBudget::new(0.5).reserve(2));
        Self { breaker, budget }
    }
}

impl Care {
    /// Returns its name, and how many attempts it makes at most.
    pub(super) fn attempts(&self) -> (&String, u32) {
        match self {
            Self::Beat(name, times) | Self::Guarded(name, times) => (name, times + 1),
            Self::Silent(name) => (name, 1),
        }
    }

    /// Returns how many items of the list this may have produced.
    pub(super) fn accepts(&self, output: &[String]) -> BTreeSet<usize> {
        let text = match self {
            Self::Beat(name, _) | Self::Guarded(name, _) => name.clone(),
            Self::Silent(name) => format!("{name} fell silent"),
        };
        output.first().filter(|first| **first == text).map(|_| 1).into_iter().collect()
    }

    pub(super) async fn perform(&self, ctx: &Ctx, guards: &Guards) -> Result<String, Error> {
        let retry = Retry::times(4).constant("1 s");
        match self {
            Self::Beat(name, times) => {
                ctx.step(name, |attempt: Attempt| beat(attempt, name, *times)).retry(retry).await
            }
            Self::Silent(name) => {
                match ctx.step(name, std::future::pending::<Result<String>>).heartbeat_timeout("2 s").await {
                    Err(Error::Timeout { step, .. }) => Ok(format!("{step} fell silent")),
                    other => other,
                }
            }
            Self::Guarded(name, times) => {
                let body = |attempt: Attempt| async move {
                    if attempt.number > *times { outlive::Ok(name.clone()) } else { Err("no".into()) }
                };
                ctx.step(name, body).retry(retry).breaker(&guards.breaker).budget(&guards.budget).await
            }
        }
    }
}

/// Checks that it was handed the heartbeat of the attempt before it, or its own if the process has died in it.
async fn beat(attempt: Attempt, name: &str, times: u32) -> Result<String> {
    let (number, found) = (attempt.number, attempt.progress::<u32>()?);
    if found != Some(number) && found != number.checked_sub(1).filter(|last| *last > 0) {
        return Err(Permanent(format!("attempt {number} was handed {found:?}")).into());
    }
    attempt.heartbeat(&0)?;
    attempt.heartbeat(&number)?;
    // Only what comes last is sure to be recorded, and only with a failure.
    if number > times { Ok(name.to_owned()) } else { Err("no".into()) }
}
