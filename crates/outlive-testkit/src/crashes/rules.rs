//! What must hold of every play, whatever the workflow: each rule is a promise of the engine, or one that a workflow
//! breaks by asking the world instead of its context.

use std::collections::{BTreeMap, BTreeSet};

use outlive::{Entry, EntryKind, Status};
use outlive_core::commit::Write;

use super::ledger::{Effect, End};
use super::report::Warning;
use super::stage::Played;
use super::tape::What;

/// A rule that was broken.
pub(super) struct Breach {
    pub(super) rule: Rule,
    pub(super) sentence: String,
}

/// Which rule it was: a smaller schedule is the same finding only if it breaks the same one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    Playable,
    NeverStuck,
    NoRerun,
    AtMostOnce,
    RanBeforeRecorded,
    Ends,
    SameOutcome,
    SameSteps,
    AtLeastOnceBound,
    ReplayStable,
    Invariant(String),
    NoWarnings,
}

fn breach<T>(rule: Rule, sentence: impl Into<String>) -> Result<T, Breach> {
    Err(Breach { rule, sentence: sentence.into() })
}

/// What must hold of a play by itself.
pub(super) fn check(played: &Played) -> Result<(), Breach> {
    if let Some(trouble) = &played.trouble {
        return breach(Rule::Playable, trouble);
    }
    check_tape(played)?;
    check_end(played)?;
    match &played.replayed {
        Ok(()) => Ok(()),
        Err(sentence) => breach(Rule::ReplayStable, sentence),
    }
}

/// What must hold of a play, given the one without a crash, if the workflow does not race.
pub(super) fn compare(played: &Played, whole: &Played) -> Result<(), Breach> {
    let (ours, theirs) = (&played.ledger, &whole.ledger);
    if ours.end != theirs.end {
        let (ours, theirs) = (told(&ours.end), told(&theirs.end));
        let sentence = format!(
            "the outcome differs: {ours} with these crashes, {theirs} without; \
             if the workflow races on purpose, or has a step that runs at most once, say `.races()`"
        );
        return breach(Rule::SameOutcome, sentence);
    }
    let (ours, theirs) = (counts(&ours.effects), counts(&theirs.effects));
    let missing = theirs.keys().find(|op| !ours.contains_key(*op));
    if let Some(op) = missing {
        return breach(Rule::SameSteps, format!("step {:?} did not run, which it does without a crash", name(op)));
    }
    let crashes = played.ledger.lives - 1;
    for (op, times) in ours {
        let name = name(op);
        let Some(without) = theirs.get(op) else {
            return breach(Rule::SameSteps, format!("step {name:?} ran, which it does not without a crash"));
        };
        if times > without + crashes {
            let sentence = format!("step {name:?} ran {times} times with {crashes} crashes, and {without} without");
            return breach(Rule::AtLeastOnceBound, sentence);
        }
    }
    Ok(())
}

/// The steps whose bodies ran twice and never asked for the key by which the other side could tell.
pub(super) fn warnings(played: &Played) -> Vec<Warning> {
    let mut by_op: BTreeMap<&str, Vec<&Effect>> = BTreeMap::new();
    played.ledger.effects.iter().for_each(|effect| by_op.entry(&effect.op).or_default().push(effect));
    let is_bare = |effects: &&Vec<&Effect>| {
        effects.len() > 1 && effects.iter().all(|effect| effect.is_judged && !effect.has_asked_key)
    };
    let warning = |effects: &Vec<&Effect>| Warning {
        step: effects[0].step.clone(),
        site: effects[0].site.clone(),
        times: effects.len(),
        schedule: played.schedule.to_string(),
    };
    by_op.values().filter(is_bare).map(warning).collect()
}

fn counts(effects: &[Effect]) -> BTreeMap<&str, u32> {
    let mut counts = BTreeMap::new();
    effects.iter().for_each(|effect| *counts.entry(effect.op.as_str()).or_insert(0) += 1);
    counts
}

/// An operation for people.
fn name(op: &str) -> String {
    op.replacen("step:", "", 1)
}

fn told(end: &End) -> String {
    let mut text = end.status.kind().as_str().to_owned();
    if let Some(output) = &end.output {
        text += &format!(" with {output}");
    }
    if let Some(failure) = &end.failure {
        text += &format!(" with {failure:?}", failure = failure.to_string());
    }
    if let Some(note) = &end.note {
        text += &format!(" ({note})");
    }
    text
}

fn check_end(played: &Played) -> Result<(), Breach> {
    let status = played.ledger.end.status;
    match status {
        status if status.is_ended() => Ok(()),
        Status::Paused { .. } => breach(
            Rule::Ends,
            "the run does not end: it waits for something that does not come; send it with `.signal(..)`",
        ),
        _ => breach(
            Rule::Ends,
            "the run does not end: a step is at work; replace its body with `.step(..)`, or give it real time with `.patience(..)`",
        ),
    }
}

/// What is known of the steps at one place of the tape.
#[derive(Default)]
struct Known<'a> {
    /// Steps whose end is durable.
    ended: BTreeSet<&'a str>,
    /// Attempts whose start is durable, and those whose end is.
    started: BTreeSet<(&'a str, u32)>,
    failed: BTreeSet<(&'a str, u32)>,
    /// Attempts that ran, and in which life last.
    ran: BTreeMap<(&'a str, u32), u32>,
}

fn check_tape(played: &Played) -> Result<(), Breach> {
    let mut known = Known::default();
    for event in &played.events {
        match &event.what {
            What::Body(effect) => known.run(effect)?,
            What::Written { batch, refused, .. } => {
                for (write, _) in batch.iter().zip(refused).filter(|(_, is_refused)| !**is_refused) {
                    known.write(write)?;
                }
            }
            What::Died { .. } => {}
        }
    }
    Ok(())
}

impl<'a> Known<'a> {
    fn run(&mut self, effect: &'a Effect) -> Result<(), Breach> {
        let (op, attempt) = (effect.op.as_str(), effect.attempt);
        let (name, once) = (name(op), effect.is_at_most_once);
        if self.ended.contains(op) {
            return breach(Rule::NoRerun, format!("step {name:?} ran again after its end was recorded"));
        }
        if self.failed.contains(&(op, attempt)) {
            let sentence = format!("attempt {attempt} of step {name:?} ran again after its failure was recorded");
            return breach(Rule::NoRerun, sentence);
        }
        if once && !self.started.contains(&(op, attempt)) {
            return breach(Rule::AtMostOnce, format!("step {name:?} ran before its start was recorded"));
        }
        match self.ran.insert((op, attempt), effect.life) {
            Some(_) if once => breach(Rule::AtMostOnce, format!("step {name:?} ran twice, and may run once at most")),
            Some(life) if life == effect.life => {
                breach(Rule::AtLeastOnceBound, format!("attempt {attempt} of step {name:?} ran twice in one life"))
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, write: &'a Write) -> Result<(), Breach> {
        let Write::Commit(commit) = write else { return Ok(()) };
        commit.entries.iter().try_for_each(|entry| self.record(entry))?;
        match &commit.state {
            Some(state) if state.status == Status::Stuck => {
                breach(Rule::NeverStuck, format!("the run is stuck: {}", state.note.as_deref().unwrap_or("?")))
            }
            _ => Ok(()),
        }
    }

    fn record(&mut self, entry: &'a Entry) -> Result<(), Breach> {
        let op = &*entry.op;
        match entry.kind {
            EntryKind::StepStarted => drop(self.started.insert((op, entry.attempt))),
            EntryKind::AttemptFailed | EntryKind::FallingBack => drop(self.failed.insert((op, entry.attempt))),
            EntryKind::StepDone if !self.ran.keys().any(|(ran, _)| *ran == op) => {
                let sentence = format!("step {:?} is recorded as done, and never ran", name(op));
                return breach(Rule::RanBeforeRecorded, sentence);
            }
            EntryKind::StepDone | EntryKind::StepFailed | EntryKind::OpCancelled => drop(self.ended.insert(op)),
            _ => {}
        }
        Ok(())
    }
}
