//! From one run and the code at hand to a verdict.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlive_core::id::Name;
use outlive_core::journal::Entry;
use outlive_core::query::Instance;
use outlive_core::status::{Pause, Status};
use outlive_core::workflow::{Asked, OpKind};

use super::renames;
use super::verdict::{Operation, Verdict};
use crate::aside;
use crate::cell::Guesses;
use crate::env::Env;
use crate::export::Exported;
use crate::info::Info;
use crate::panics;
use crate::registry::{Registered, Registry};
use crate::shadow::{self, Copy, CopyEnd, NotBegun};

/// What runs are judged by: the registered workflows, and what they are given.
pub(crate) struct Judge {
    registry: Registry,
    env: Arc<Env>,
    recoveries_max: u32,
}

impl Judge {
    pub(crate) fn new(registry: Registry, env: Arc<Env>, recoveries_max: u32) -> Self {
        Self { registry, env, recoveries_max }
    }

    /// What would become of a run.
    pub(crate) fn verdict(&self, run: &Exported) -> Verdict {
        panics::quietly(|| self.judge(run).unwrap_or_else(|verdict| verdict))
    }

    /// In the order in which a live run meets these troubles.
    fn judge(&self, run: &Exported) -> Result<Verdict, Verdict> {
        let instance = &run.instance;
        let (journal, inbox) = match (&run.journal, &run.inbox) {
            (Ok(journal), Ok(inbox)) => (journal, inbox),
            (Err(problem), _) | (_, Err(problem)) => return Err(stuck(aside::damaged(problem))),
        };
        if instance.blamed > self.recoveries_max {
            return Err(stuck(aside::deadly(instance.blamed)));
        }
        let is_untouched = instance.started_at.is_none() && journal.is_empty();
        if is_untouched && inbox.iter().any(|inbound| inbound.message.is_end()) {
            return Ok(Verdict::Fine); // It ends before any code of it runs.
        }
        let registered = self.registry.get(&Name::recorded(instance.workflow.as_str()));
        let registered = registered.ok_or_else(|| stuck(aside::unregistered(instance.workflow.as_str())))?;
        let original = Original { instance, journal, registered, env: &self.env };
        let copy = original.replay(Guesses::new())?;
        match &copy.end {
            Some(end) => original.ended(&copy, end),
            None => original.judge_frontier(&copy),
        }
    }
}

/// A run, and the code that it is replayed with.
pub(super) struct Original<'a> {
    instance: &'a Instance,
    pub(super) journal: &'a [Entry],
    registered: &'a Registered,
    env: &'a Arc<Env>,
}

/// Where a copy stands when all that is recorded is delivered, and nothing is wrong with it.
pub(super) struct Frontier {
    /// What is recorded and was not asked for, in the order in which it was recorded.
    pub(super) orphans: Vec<Operation>,
    /// What it asks for and is not recorded.
    pub(super) unrecorded: Vec<Asked>,
}

impl Original<'_> {
    /// Has a copy go as far as the journal goes.
    pub(super) fn replay(&self, guesses: Guesses) -> Result<Copy, Verdict> {
        let instance = self.instance;
        let info = Info::of(instance);
        let cell = shadow::cell_of(info, self.env.clone(), self.journal).map_err(stuck)?;
        let copy = shadow::replay(&*self.registered.handler, Arc::new(cell.guessing(guesses)), &instance.input);
        copy.map_err(|problem| match problem {
            NotBegun::Input(sentence) => Verdict::TypeChanged { what: "the input".to_owned(), sentence },
            NotBegun::Panicked(sentence) => stuck(sentence),
        })
    }

    /// The verdict on a run that would end.
    fn ended(&self, copy: &Copy, end: &CopyEnd) -> Result<Verdict, Verdict> {
        match end {
            CopyEnd::Panicked(panic) => return Err(stuck(aside::panicked(panic))),
            CopyEnd::Restless => {
                return Err(stuck(format!("the workflow has {end}; await something that takes its time")));
            }
            CopyEnd::Completed(_) | CopyEnd::Failed(_) => self.check_strict(copy, &[])?,
        }
        let is_cancelled = copy.cell.lock().machine.cancel_reason().is_some();
        match end {
            CopyEnd::Completed(output) => {
                if let Some(sentence) = aside::too_long(output.len(), self.env.payload_max) {
                    return Err(stuck(sentence));
                }
            }
            // One that was at work may have been about to fail.
            CopyEnd::Failed(failure) if self.is_quiet() && !is_cancelled => {
                return Err(Verdict::Fails { failure: failure.to_string() });
            }
            _ => {}
        }
        let recorded = self.orphans(copy);
        Ok(if recorded.is_empty() { Verdict::Fine } else { Verdict::Orphaned { recorded, asked: Vec::new() } })
    }

    /// The verdict on a run that would go on.
    fn judge_frontier(&self, copy: &Copy) -> Result<Verdict, Verdict> {
        let frontier = self.frontier(copy)?;
        let renames = renames::find(self, &frontier);
        if !renames.is_empty() {
            return Ok(Verdict::Renamed { renames });
        }
        let asked: Vec<_> = frontier.unrecorded.iter().map(operation).collect();
        let are_all_waits = frontier.unrecorded.iter().all(|asked| asked.kind == OpKind::Wait);
        Ok(match (asked.is_empty(), frontier.orphans.is_empty()) {
            (true, true) => Verdict::Fine,
            // Nobody may ever send what is newly waited for: that is no step which runs and is over.
            (_, false) if are_all_waits => Verdict::Orphaned { recorded: frontier.orphans, asked },
            (_, false) => Verdict::NewSteps { asked, unreached: frontier.orphans },
            (false, true) => {
                let is_new = |asked: &&Asked| self.is_quiet() && asked.kind != OpKind::Wait;
                let asked: Vec<_> = frontier.unrecorded.iter().filter(is_new).map(operation).collect();
                if asked.is_empty() { Verdict::Fine } else { Verdict::NewSteps { asked, unreached: Vec::new() } }
            }
        })
    }

    /// Where a copy stands that has not ended.
    ///
    /// # Errors
    /// The verdict, if it cannot go on from there.
    pub(super) fn frontier(&self, copy: &Copy) -> Result<Frontier, Verdict> {
        let state = copy.cell.lock();
        if let Some(trouble) = state.machine.trouble() {
            let sentence = trouble.0.clone();
            return Err(match state.mistyped.clone() {
                Some(what) => Verdict::TypeChanged { what, sentence },
                None => stuck(sentence),
            });
        }
        let foreign = copy.asked.is_empty().then(|| aside::foreign(&state.machine, "waits for"));
        drop(state);
        self.check_strict(copy, &shadow::names(&copy.asked))?;
        if let Some(sentence) = foreign {
            return Err(stuck(sentence));
        }
        let unrecorded = copy.asked.iter().filter(|asked| !asked.is_recorded).cloned().collect();
        Ok(Frontier { orphans: self.orphans(copy), unrecorded })
    }

    fn check_strict(&self, copy: &Copy, asked: &[Arc<str>]) -> Result<(), Verdict> {
        if !self.registered.is_strict {
            return Ok(());
        }
        aside::strict(&copy.cell.lock().machine, asked).map_or(Ok(()), |sentence| Err(stuck(sentence)))
    }

    fn orphans(&self, copy: &Copy) -> Vec<Operation> {
        let state = copy.cell.lock();
        if !state.machine.has_orphans() {
            return Vec::new();
        }
        let mut firsts = BTreeMap::new();
        for entry in self.journal {
            firsts.entry(&*entry.op).or_insert(entry.seq);
        }
        let mut orphans: Vec<_> = state.machine.orphans().collect();
        orphans.sort_by_key(|(op, _)| firsts.get(op));
        orphans.into_iter().map(|(op, site)| Operation { name: op.to_owned(), site: site.to_owned() }).collect()
    }

    /// Whether nothing of the run was at work when it was last written: then every step and every sleep that it had
    /// asked for is recorded.
    fn is_quiet(&self) -> bool {
        matches!(self.instance.status, Status::Paused { why, .. } if why != Pause::Hand)
    }
}

fn stuck(sentence: String) -> Verdict {
    Verdict::Stuck { sentence }
}

/// An operation that is asked for, for people.
pub(super) fn operation(asked: &Asked) -> Operation {
    Operation { name: asked.op.to_string(), site: asked.site.to_string() }
}
