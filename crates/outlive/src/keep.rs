//! How long ended runs are kept.

use std::collections::BTreeMap;
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::id::Name;
use outlive_core::store::expire::{Cutoffs, Expire};
use outlive_core::time::Timestamp;

use crate::error::Error;

/// How long runs are kept after their end, by how they ended. What is not set is kept for ever.
///
/// ```
/// use outlive::KeepRuns;
/// # use outlive::prelude::*;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let engine = Engine::open("memory:")
///     .keep("30 days")
///     .keep_of("heartbeat", KeepRuns::forever().completed("1 hour")) // failures are for people to look at
///     .start()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it is passed to `Builder::keep` or `Builder::keep_of`"]
pub struct KeepRuns {
    completed: Option<Duration>,
    failed: Option<Duration>,
    cancelled: Option<Duration>,
    /// The first duration that is not one.
    problem: Option<Error>,
}

impl KeepRuns {
    /// Keeps all runs for ever, unless one of the other methods says otherwise.
    ///
    /// ```
    /// # use outlive::{KeepRuns, prelude::*};
    /// let _ = Engine::open("memory:").keep("7 days").keep_of("audit", KeepRuns::forever());
    /// ```
    pub fn forever() -> Self {
        Self::default()
    }

    /// Sets how long completed runs are kept.
    ///
    /// ```
    /// # use outlive::{KeepRuns, prelude::*};
    /// let _ = Engine::open("memory:").keep(KeepRuns::forever().completed("1 day")); // what failed stays
    /// ```
    pub fn completed(mut self, duration: impl IntoDuration) -> Self {
        self.completed = self.read(duration);
        self
    }

    /// Sets how long failed runs are kept. They cannot be retried after that.
    ///
    /// ```
    /// # use outlive::{KeepRuns, prelude::*};
    /// let _ = Engine::open("memory:").keep(KeepRuns::forever().completed("1 day").failed("90 days"));
    /// ```
    pub fn failed(mut self, duration: impl IntoDuration) -> Self {
        self.failed = self.read(duration);
        self
    }

    /// Sets how long cancelled runs are kept.
    ///
    /// ```
    /// # use outlive::{KeepRuns, prelude::*};
    /// let _ = Engine::open("memory:").keep(KeepRuns::forever().cancelled("1 hour"));
    /// ```
    pub fn cancelled(mut self, duration: impl IntoDuration) -> Self {
        self.cancelled = self.read(duration);
        self
    }

    fn read(&mut self, duration: impl IntoDuration) -> Option<Duration> {
        match duration.into_duration() {
            Ok(duration) => Some(duration),
            Err(error) => {
                self.problem.get_or_insert(error.into());
                None
            }
        }
    }

    fn cutoffs(&self, now: Timestamp) -> Cutoffs {
        let before = |keep: Option<Duration>| {
            let keep = i64::try_from(keep?.as_millis()).unwrap_or(i64::MAX);
            Some(Timestamp::from_millis(now.as_millis().saturating_sub(keep)))
        };
        Cutoffs { completed: before(self.completed), failed: before(self.failed), cancelled: before(self.cancelled) }
    }

    fn is_forever(&self) -> bool {
        self.completed.is_none() && self.failed.is_none() && self.cancelled.is_none()
    }
}

/// A duration, which holds for all ended runs, or a [`KeepRuns`].
///
/// ```
/// use outlive::{IntoKeepRuns, KeepRuns};
/// fn accepts(_: impl IntoKeepRuns) {}
/// accepts("7 days");
/// accepts(KeepRuns::forever().completed("1 day"));
/// ```
pub trait IntoKeepRuns {
    /// Returns it as a [`KeepRuns`].
    fn into_keep(self) -> KeepRuns;
}

impl<D: IntoDuration> IntoKeepRuns for D {
    fn into_keep(self) -> KeepRuns {
        match self.into_duration() {
            Ok(duration) => {
                let keep = Some(duration);
                KeepRuns { completed: keep, failed: keep, cancelled: keep, problem: None }
            }
            Err(error) => KeepRuns { problem: Some(error.into()), ..KeepRuns::default() },
        }
    }
}

impl IntoKeepRuns for KeepRuns {
    fn into_keep(self) -> KeepRuns {
        self
    }
}

/// How long the runs of each workflow are kept.
#[derive(Clone, Default)]
pub(crate) struct KeepRules {
    default: KeepRuns,
    by_workflow: BTreeMap<Name, KeepRuns>,
}

impl KeepRules {
    pub(crate) fn set_default(&mut self, keep: KeepRuns) -> Result<(), Error> {
        keep.problem.clone().map_or(Ok(()), Err)?;
        self.default = keep;
        Ok(())
    }

    pub(crate) fn set(&mut self, workflow: &str, keep: KeepRuns) -> Result<(), Error> {
        keep.problem.clone().map_or(Ok(()), Err)?;
        self.by_workflow.insert(Name::new("workflow name", workflow)?, keep);
        Ok(())
    }

    pub(crate) fn is_forever(&self) -> bool {
        self.default.is_forever() && self.by_workflow.values().all(KeepRuns::is_forever)
    }

    /// Returns the write that removes what is not to be kept any longer.
    pub(crate) fn expire(&self, now: Timestamp, limit: u32) -> Expire {
        let by_workflow = self.by_workflow.iter().map(|(name, keep)| (name.clone(), keep.cutoffs(now))).collect();
        Expire { default: self.default.cutoffs(now), by_workflow, after: None, limit }
    }
}
