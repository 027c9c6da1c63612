//! A stored run, and what a copy of it does when it is replayed with the current code.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlive_core::journal::Entry;
use outlive_core::message::{Inbound, Message};
use outlive_core::status::Status;
use outlive_core::store::beginning::Beginning;
use outlive_core::store::query::Instance;
use outlive_core::workflow::{Asked, OpKind, ParsedIdentity};

use super::verdict::{Operation, Verdict};
use crate::instance::env::Env;
use crate::instance::info::Info;
use crate::instance::resident::Guesses;
use crate::runtime::begin::NotBegun;
use crate::runtime::registry::Registered;
use crate::runtime::replay::{self, Copy, CopyEnd};
use crate::runtime::stuck;

/// A run, and the code to replay it with.
pub(super) struct Original<'a> {
    pub(super) instance: &'a Instance,
    pub(super) journal: &'a [Entry],
    pub(super) inbox: &'a [Inbound],
    pub(super) registered: &'a Registered,
    pub(super) env: &'a Arc<Env>,
}

/// Where a copy is once everything recorded is delivered, if nothing is wrong with it.
#[derive(Clone)]
pub(super) struct ReachedFrontier {
    /// What is recorded and was not asked for, in the order in which it was recorded.
    pub(super) orphans: Vec<Operation>,
    /// What the copy asks for at the end of the journal that is not recorded.
    pub(super) unrecorded: Vec<Asked>,
    /// The same for where the copy has got to: what keeps it from what is recorded.
    pub(super) last: Vec<Asked>,
}

impl Original<'_> {
    /// Replays a copy to the end of the journal, and on to where a step or a signal yet to come decides.
    pub(super) fn replay(&self, guesses: Guesses) -> Result<Copy, Verdict> {
        let instance = self.instance;
        let beginning = Beginning::of(instance, self.journal);
        let info = Info::of(instance, &beginning);
        let resident = replay::cell_of(info, self.env.clone(), self.journal).map_err(stuck)?;
        let resident = Arc::new(resident.guessing(guesses));
        let is_awaited =
            |inbound: &&Inbound| matches!(inbound.message, Message::Signal { .. } | Message::ChildEnded { .. });
        for inbound in self.inbox.iter().filter(is_awaited) {
            resident.lock().machine.inbox_mut().receive(inbound.clone());
        }
        // A cancel takes effect where the journal ends, and a strict run is stuck there if something is not asked for.
        let is_ending = self.inbox.iter().any(|inbound| inbound.message.is_end());
        let is_strict = self.registered.is_strict;
        let copy = replay::replay(&*self.registered.handler, &resident, &beginning.input, |machine| {
            !(is_ending || is_strict && machine.records().has_orphans())
        });
        if let Some(type_name) = resident.lock().findings().and_then(|findings| findings.unmade) {
            return Err(Verdict::NeedsValue { type_name: type_name.to_owned() });
        }
        copy.map_err(|problem| match problem {
            NotBegun::Input(sentence) => Verdict::TypeChanged { what: "the input".to_owned(), sentence },
            NotBegun::Panicked(sentence) => stuck(sentence),
        })
    }

    /// Returns the verdict on a run that would end.
    pub(super) fn ended(&self, copy: &Copy, end: &CopyEnd) -> Result<Verdict, Verdict> {
        self.check_end(end)?;
        self.check_strict(copy, &[])?;
        let is_cancelled = copy.resident.lock().machine.inbox().cancel_reason().is_some();
        match end {
            // A run that was executing may have been about to fail.
            CopyEnd::Failed(failure) if self.is_quiet() && !is_cancelled => {
                return Err(Verdict::Fails { failure: failure.to_string() });
            }
            _ => {}
        }
        let recorded = self.orphans(copy);
        Ok(if recorded.is_empty() { Verdict::Fine } else { Verdict::Orphaned { recorded } })
    }

    /// Checks that a copy unwinds if the run has begun to, and that a run that was paused would not fail and unwind at once.
    pub(super) fn check_unwinding(&self, copy: &Copy) -> Result<(), Verdict> {
        let state = copy.resident.lock();
        if let Some(sentence) = stuck::turned_back(&state.machine) {
            return Err(stuck(sentence));
        }
        let is_known = state.machine.undos().has_unwound() || state.machine.inbox().cancel_reason().is_some();
        match &copy.returned {
            Some(CopyEnd::Failed(failure)) if self.is_quiet() && !is_known && !copy.is_ahead => {
                Err(Verdict::Fails { failure: failure.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the undos that are recorded and that the code does not have.
    pub(super) fn lost_undos(&self, copy: &Copy) -> Vec<Operation> {
        let undos = copy.resident.lock().machine.undos().lost();
        undos.iter().map(|undo| Operation { name: undo.op.to_string(), site: undo.site.to_string() }).collect()
    }

    /// Checks that a copy may end this way.
    fn check_end(&self, end: &CopyEnd) -> Result<(), Verdict> {
        match end {
            CopyEnd::Panicked(panic) => Err(stuck(stuck::panicked(panic))),
            CopyEnd::Restless => Err(stuck(format!("the workflow has {end}; await something that actually waits"))),
            CopyEnd::Completed(output) => {
                stuck::too_long(output.len(), self.env.max_payload).map_or(Ok(()), |sentence| Err(stuck(sentence)))
            }
            CopyEnd::Failed(_) => Ok(()),
        }
    }

    /// Returns the frontier of a copy that has not ended where the journal does.
    ///
    /// # Errors
    /// The verdict, if it cannot continue from there.
    pub(super) fn frontier(&self, copy: &Copy) -> Result<ReachedFrontier, Verdict> {
        let state = copy.resident.lock();
        if let Some(trouble) = state.machine.trouble() {
            let sentence = trouble.0.clone();
            return Err(match state.findings().and_then(|findings| findings.mistyped.clone()) {
                Some(what) => Verdict::TypeChanged { what, sentence },
                None => stuck(sentence),
            });
        }
        if let Some((what, sentence)) = copy.unread.clone() {
            return Err(Verdict::TypeChanged { what, sentence });
        }
        let is_idle = copy.end.is_none() && copy.last.is_empty();
        let foreign = is_idle.then(|| stuck::foreign(&state.machine, "waits for"));
        drop(state);
        self.check_strict(copy, &replay::names(&copy.asked))?;
        if let Some(sentence) = foreign {
            return Err(stuck(sentence));
        }
        copy.end.as_ref().map_or(Ok(()), |end| self.check_end(end))?;
        let unrecorded =
            |asked: &[Asked]| -> Vec<_> { asked.iter().filter(|asked| !asked.is_recorded).cloned().collect() };
        let (first, last) = (unrecorded(&copy.asked), unrecorded(&copy.last));
        let last = if last.is_empty() { first.clone() } else { last };
        Ok(ReachedFrontier { orphans: self.orphans(copy), unrecorded: first, last })
    }

    fn check_strict(&self, copy: &Copy, asked: &[Arc<str>]) -> Result<(), Verdict> {
        if !self.registered.is_strict {
            return Ok(());
        }
        stuck::strict(&copy.resident.lock().machine, asked).map_or(Ok(()), |sentence| Err(stuck(sentence)))
    }

    fn orphans(&self, copy: &Copy) -> Vec<Operation> {
        let state = copy.resident.lock();
        if !state.machine.records().has_orphans() {
            return Vec::new();
        }
        let mut firsts = BTreeMap::new();
        for entry in self.journal {
            firsts.entry(&*entry.op).or_insert(entry.seq);
        }
        let mut orphans: Vec<_> = state.machine.records().orphans().collect();
        orphans.sort_by_key(|(op, _)| firsts.get(op));
        orphans.into_iter().map(|(op, site)| Operation { name: op.to_owned(), site: site.to_owned() }).collect()
    }

    /// Returns `true` if nothing of the run was executing when it was last written: then every step and every sleep
    /// that it had asked for is recorded.
    pub(super) fn is_quiet(&self) -> bool {
        self.instance.status.is_idle() && self.instance.status != Status::Paused
    }
}

impl ReachedFrontier {
    /// Returns `true` if nothing that matters can come after what is new: a sleep runs no code and has no type, so a
    /// step or an effect before it is only one more.
    pub(super) fn hides_nothing(&self) -> bool {
        let is_deed = |asked: &Asked| asked.kind != OpKind::Sleep && !asked.kind.is_wait();
        self.unrecorded.iter().chain(&self.last).all(is_deed)
            && self.orphans.iter().all(|orphan| ParsedIdentity::of(&orphan.name).kind == "sleep")
    }
}

pub(super) fn stuck(sentence: String) -> Verdict {
    Verdict::Stuck { sentence }
}

/// Describes an operation that is asked for.
pub(super) fn operation(asked: &Asked) -> Operation {
    Operation { name: asked.op.to_string(), site: asked.site.to_string() }
}
