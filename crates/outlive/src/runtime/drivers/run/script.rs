//! What a run is replayed from: its code, its input, and what is durable.

use std::sync::Arc;

use outlive_core::journal::Entry;
use outlive_core::payload::Payload;
use outlive_core::workflow::Machine;

use crate::instance::resident::ResidentRun;
use crate::runtime::begin::{NotBegun, begin};
use crate::runtime::{replay, stuck};
use crate::workflow::{Handler, WorkflowFuture};

/// The code of a run, and what it is given.
pub(crate) struct Script {
    pub(crate) handler: Arc<dyn Handler>,
    /// Whether the code must ask for all that is recorded.
    pub(crate) is_strict: bool,
    pub(crate) input: Payload,
    /// Everything that is durable, kept to replay a copy of the run. Empty unless paranoid.
    pub(crate) journal: Vec<Entry>,
}

impl Script {
    /// Calls the workflow function.
    pub(super) fn begin(&self, resident: &Arc<ResidentRun>) -> Result<WorkflowFuture, NotBegun> {
        begin(&*self.handler, resident, &self.input)
    }

    /// Compares what a quiet run asks for with what a copy of it asks for.
    pub(super) fn compare(&self, live: &Arc<ResidentRun>) -> Result<(), String> {
        replay::compare(&*self.handler, live, &self.input, &self.journal)
    }

    /// Compares the result of a run with the result of a copy.
    pub(super) fn compare_result(&self, live: &Arc<ResidentRun>, output: &Payload) -> Result<(), String> {
        replay::compare_result(&*self.handler, live, &self.input, &self.journal, output)
    }

    /// Checks that a copy of a run restarts where the run does.
    pub(super) fn compare_restart(&self, live: &Arc<ResidentRun>) -> Result<(), String> {
        replay::compare_restart(&*self.handler, live, &self.input, &self.journal)
    }

    /// Returns what is wrong with a strict run that has reached the end of its journal.
    pub(super) fn strict_trouble(&self, machine: &Machine) -> Option<String> {
        if self.is_strict { stuck::strict(machine, &machine.operations().outstanding()) } else { None }
    }
}
