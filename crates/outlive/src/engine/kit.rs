//! Engine internals for test kits.

use outlive_core::id::Name;
use outlive_core::store::page::whole_journal;
use outlive_core::time::Timestamp;

use super::Engine;
use crate::runtime::replay;

/// For test kits; with the feature `testing` only.
impl Engine {
    /// Returns a number that grows with everything the engine does.
    #[must_use]
    pub fn activity(&self) -> u64 {
        self.services.activity() + self.services.committer.activity()
    }

    /// Returns when something is due next, according to the engine's memory.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let (now, deadline) = (self.services.now(), self.services.handler_env.deadlines.first());
        let admission = self.services.due.next_admission();
        [self.services.wakes.first_after(now), deadline, admission].into_iter().flatten().min()
    }

    /// Returns the number of wakes in memory.
    #[must_use]
    pub fn wakes_held(&self) -> usize {
        self.services.wakes.len()
    }

    /// Returns the number of resident runs that are not paused.
    #[must_use]
    pub fn working(&self) -> usize {
        self.services.residency.working()
    }

    /// Replays an ended run from its journal, without side effects, and compares its end with the recorded one. For
    /// test kits.
    ///
    /// # Errors
    /// A sentence that says how they differ, or why they cannot be compared.
    pub async fn replay_ended(&self, id: &str) -> Result<(), String> {
        let shared = &self.client.shared;
        let ended = shared.instance(&Name::recorded(id)).await.map_err(|error| error.to_string())?;
        let journal = whole_journal(&*shared.store, ended.num, 0).await.map_err(|error| error.to_string())?;
        let Some(registered) = shared.registry.get(&ended.workflow) else {
            return Err(shared.registry.unknown(format!("workflow {:?}", ended.workflow.as_str())).to_string());
        };
        replay::compare_end(&*registered.handler, &ended, &self.services.env, &journal)
    }

    /// Returns the operations an unfinished run waits for, according to a replay of its journal, each with the place
    /// where it is called. Empty if the run waits for something that is not an operation of its own. For test kits.
    ///
    /// # Errors
    /// A sentence that says why the run cannot be replayed.
    pub async fn asked(&self, id: &str) -> Result<Vec<(String, String)>, String> {
        let shared = &self.client.shared;
        let found = shared.instance(&Name::recorded(id)).await.map_err(|error| error.to_string())?;
        let journal = whole_journal(&*shared.store, found.num, 0).await.map_err(|error| error.to_string())?;
        let Some(registered) = shared.registry.get(&found.workflow) else {
            return Err(shared.registry.unknown(format!("workflow {:?}", found.workflow.as_str())).to_string());
        };
        replay::asked(&*registered.handler, &found, &self.services.env, &journal)
    }

    /// Stops everything at once, as a crash of the process does, and releases nothing.
    pub async fn abandon(self) {
        self.halt();
        while !self.services.residency.mailboxes().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}
