//! Judges one run against the current code.

use std::sync::Arc;

use outlive_core::id::Name;
use outlive_core::workflow::Asked;

use super::original::{Original, operation, stuck};
use super::renames;
use super::verdict::Verdict;
use crate::export::Exported;
use crate::instance::env::Env;
use crate::instance::panics;
use crate::instance::resident::Guesses;
use crate::runtime::registry::Registry;
use crate::runtime::replay::Copy;
use crate::runtime::stuck;

/// What runs are judged against: the registered workflows and their environment.
pub(crate) struct Judge {
    registry: Arc<Registry>,
    env: Arc<Env>,
    max_recoveries: u32,
}

impl Judge {
    pub(crate) fn new(registry: Arc<Registry>, env: Arc<Env>, max_recoveries: u32) -> Self {
        Self { registry, env, max_recoveries }
    }

    /// Returns what would happen to a run.
    pub(crate) fn verdict(&self, run: &Exported) -> Verdict {
        panics::quietly(|| self.judge(run).unwrap_or_else(|verdict| verdict))
    }

    /// Checks for problems in the order in which a live run meets them.
    fn judge(&self, run: &Exported) -> Result<Verdict, Verdict> {
        let instance = &run.instance;
        let (journal, inbox) = match (&run.journal, &run.inbox) {
            (Ok(journal), Ok(inbox)) => (journal, inbox),
            (Err(problem), _) | (_, Err(problem)) => return Err(stuck(stuck::damaged(problem))),
        };
        if instance.blamed > self.max_recoveries {
            return Err(stuck(stuck::deadly(instance.blamed)));
        }
        let is_untouched = instance.started_at.is_none() && journal.is_empty();
        if is_untouched && inbox.iter().any(|inbound| inbound.message.is_end()) {
            return Ok(Verdict::Fine); // It ends before any of its code runs.
        }
        let registered = self.registry.get(&Name::recorded(instance.workflow.as_str()));
        let unregistered = || stuck(stuck::unregistered(instance.workflow.as_str(), &self.registry.known()));
        let registered = registered.ok_or_else(unregistered)?;
        let original = Original { instance, journal, inbox, registered, env: &self.env };
        let copy = original.replay(Guesses::new())?;
        original.check_unwinding(&copy)?;
        match &copy.end {
            Some(end) if !copy.is_ahead => original.ended(&copy, end),
            _ => judge_frontier(&original, &copy),
        }
    }
}

/// Returns the verdict on a run that would continue.
///
/// What comes after a new operation is not seen. It may be what is recorded, under the name it has or under a new
/// one: then a step runs again, a wait waits again, and a value may not deserialize. None of this is safe to call
/// fine.
fn judge_frontier(original: &Original<'_>, copy: &Copy) -> Result<Verdict, Verdict> {
    let frontier = original.frontier(copy)?;
    let undos = original.lost_undos(copy);
    if !undos.is_empty() && (frontier.orphans.is_empty() || frontier.unrecorded.is_empty()) {
        return Ok(Verdict::LostUndos { undos });
    }
    if frontier.orphans.is_empty() {
        let is_new = |asked: &&Asked| original.is_quiet() && !asked.kind.is_wait();
        let asked: Vec<_> = frontier.unrecorded.iter().filter(is_new).map(operation).collect();
        return Ok(if asked.is_empty() { Verdict::Fine } else { Verdict::NewSteps { asked, unreached: Vec::new() } });
    }
    if frontier.unrecorded.is_empty() {
        return Ok(Verdict::Orphaned { recorded: frontier.orphans });
    }
    let asked = frontier.last.iter().map(operation).collect();
    if frontier.hides_nothing() {
        return Ok(Verdict::NewSteps { asked, unreached: frontier.orphans });
    }
    let renames = renames::find(original, &frontier);
    Ok(if renames.is_empty() {
        Verdict::NewBeforeRecorded { asked, unreached: frontier.orphans }
    } else {
        Verdict::Renamed { renames }
    })
}
