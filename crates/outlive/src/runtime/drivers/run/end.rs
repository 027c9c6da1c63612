//! How a run ends.

use outlive_core::failure::Failure;
use outlive_core::payload::Payload;

use crate::error::{BoxError, failure_of};
#[cfg(feature = "tokio")]
use crate::instance::layers::RunExit;
use crate::instance::panics;
use crate::runtime::stuck;

/// How a run ends.
#[derive(Clone)]
pub(crate) enum RunEnd {
    Completed(Payload),
    Failed(Failure),
    Terminated(String),
    Stuck(String),
    /// It continues with a fresh journal and this input.
    Restarted(Payload),
}

impl RunEnd {
    /// Returns how layers see the end of an execution; `None` if the run has only left memory.
    #[cfg(feature = "tokio")]
    pub(crate) fn exit(end: Option<&Self>) -> RunExit<'_> {
        match end {
            Some(Self::Completed(_)) => RunExit::Completed,
            Some(Self::Failed(failure)) => RunExit::Failed(failure),
            Some(Self::Terminated(_)) => RunExit::Cancelled,
            Some(Self::Stuck(sentence)) => RunExit::Stuck(sentence),
            Some(Self::Restarted(_)) => RunExit::Restarted,
            None => RunExit::Left,
        }
    }

    /// Converts what the user's future returned, or its panic.
    pub(super) fn of(returned: Result<Result<Payload, BoxError>, Failure>) -> Self {
        match returned {
            Ok(Ok(output)) => Self::Completed(output),
            Ok(Err(error)) => Self::of_error(error),
            Err(panic) => Self::Stuck(stuck::panicked(&panic)),
        }
    }

    /// Converts the error of a workflow. Formatting it is user code too.
    fn of_error(error: BoxError) -> Self {
        let failure = panics::catch(move || failure_of(&error));
        failure.map_or_else(
            |panic| Self::Stuck(format!("the workflow's error {panic}; fix it and restart the program")),
            Self::Failed,
        )
    }
}
