//! A snapshot of the order, taken from outside the process that executes it.

use outlive::{Entry, EntryKind, Run, RunInfo, Status};

use super::execution_log::{ExecutionLog, StepExecution};
use super::folder::DemoFolder;
use crate::error::CliError;

/// The id of the run.
pub(crate) const RUN_ID: &str = "order-1";
/// The steps of the order.
pub(crate) const STEPS: [&str; 3] = ["charge card", "reserve stock", "ship"];

/// A snapshot of the order.
pub(crate) struct OrderSnapshot {
    pub(crate) info: RunInfo,
    pub(crate) journal: Vec<Entry>,
    pub(crate) executions: Vec<StepExecution>,
}

impl OrderSnapshot {
    pub(crate) async fn look(run: &Run<String>, folder: &DemoFolder) -> Result<Self, CliError> {
        // The status is read first: if the order has ended, the other two are then complete.
        let info = run.info().await?;
        let journal = run.journal().await?;
        let executions = ExecutionLog::at(folder.steps())
            .read()
            .map_err(|error| CliError::message(format!("cannot read execution log {:?}: {error}", folder.steps())))?;
        Ok(Self { info, journal, executions })
    }

    /// Returns `true` if nothing more will happen.
    pub(crate) fn is_over(&self) -> bool {
        self.info.status.is_ended() || self.info.status == Status::Stuck
    }

    pub(crate) fn entry(&self, kind: EntryKind) -> Option<&Entry> {
        self.journal.iter().find(|entry| entry.kind == kind)
    }

    pub(crate) fn executions_of<'a>(&'a self, step: &'a str) -> impl Iterator<Item = &'a StepExecution> {
        self.executions.iter().filter(move |execution| execution.step == step)
    }
}
