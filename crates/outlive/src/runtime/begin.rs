//! Calls workflow functions, which may refuse their recorded input or panic.

use std::sync::Arc;

use outlive_core::payload::Payload;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::instance::panics;
use crate::instance::resident::ResidentRun;
use crate::runtime::stuck;
use crate::workflow::{Handler, WorkflowFuture};

/// Why a workflow function did not start.
pub(crate) enum NotBegun {
    /// The recorded input does not decode as its type.
    Input(String),
    /// It panicked.
    Panicked(String),
}

impl NotBegun {
    /// Returns the sentence for people.
    pub(crate) fn into_sentence(self) -> String {
        match self {
            Self::Input(sentence) | Self::Panicked(sentence) => sentence,
        }
    }
}

/// Calls the workflow function.
pub(crate) fn begin(
    handler: &dyn Handler,
    resident: &Arc<ResidentRun>,
    input: &Payload,
) -> Result<WorkflowFuture, NotBegun> {
    let ctx = Ctx::new(resident.clone());
    let begun = resident.polling(|| panics::catch(|| handler.begin(ctx, input)));
    match begun {
        Ok(Ok(future)) => Ok(future),
        Ok(Err(error)) => Err(NotBegun::Input(format!(
            "the recorded input does not read as the workflow's type: {}; fix the type and restart the program",
            Error::decode("it".into(), input, &error)
        ))),
        Err(panic) => Err(NotBegun::Panicked(stuck::panicked(&panic))),
    }
}
