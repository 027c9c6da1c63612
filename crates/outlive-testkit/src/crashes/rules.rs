//! The rules every trial must satisfy, whatever the workflow. Each is a promise of the engine, or one that a workflow
//! breaks by asking the outside world instead of its context.

use std::collections::{BTreeMap, BTreeSet};

use outlive::{Cause, Entry, EntryKind, Status};
use outlive_core::id::InstanceNum;
use outlive_core::output::Output;
use outlive_core::store::commit::{Commit, Write};

use crate::words;

use super::ledger::{Effect, End, OtherRun};
use super::stage::{Played, Waits};
use super::tape::What;

/// A broken rule.
pub(super) struct Breach {
    pub(super) rule: Rule,
    pub(super) sentence: String,
}

/// The rules. A smaller schedule is the same finding only if it breaks the same rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    Playable,
    NeverStuck,
    NoRerun,
    AtMostOnce,
    RanBeforeRecorded,
    Ends,
    Expected,
    SameOutcome,
    SameOthers,
    SameOutputs,
    SameSteps,
    AtLeastOnceBound,
    ReplayStable,
    Invariant(String),
    NoWarnings,
}

fn breach<T>(rule: Rule, sentence: impl Into<String>) -> Result<T, Breach> {
    Err(Breach { rule, sentence: sentence.into() })
}

/// Checks the rules that concern a single trial.
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

/// Checks that a trial without a crash ends as expected.
pub(super) fn check_expected(played: &Played, expects_failure: bool, is_cancelled: bool) -> Result<(), Breach> {
    let end = &played.ledger.end;
    let way_out = match (end.status, expects_failure) {
        (Status::Failed, true) | (Status::Completed, false) => return Ok(()),
        (Status::Cancelled, false) if is_cancelled => return Ok(()),
        (_, true) => "it was expected to fail; remove `.expect_failure()` if it should not",
        (Status::Failed, false) => "fix the workflow, or add `.expect_failure()` if it should fail",
        (_, false) => "it was expected to complete",
    };
    breach(Rule::Expected, format!("the run {}; {way_out}", told(end)))
}

/// Compares a trial with one it must agree with: the one without a crash, or one in which the same steps were
/// interrupted.
pub(super) fn compare(played: &Played, whole: &Played) -> Result<(), Breach> {
    let (ours, theirs) = (&played.ledger, &whole.ledger);
    let without = match whole.schedule.crashes.is_empty() {
        true => "without a crash".to_owned(),
        false => format!("with schedule {:?}", whole.schedule.to_string()),
    };
    if ours.end != theirs.end {
        let (ours, theirs) = (told(&ours.end), told(&theirs.end));
        let sentence = format!(
            "the outcome differs: {ours} with these crashes, but {theirs} {without}; \
             add `.races()` if the workflow races on purpose"
        );
        return breach(Rule::SameOutcome, sentence);
    }
    compare_others(&ours.others, &theirs.others, &without)?;
    compare_outputs(&ours.given, &theirs.given, &without)?;
    let interrupted = interrupted(played);
    let (ours, theirs) = (counts(&ours.effects), counts(&theirs.effects));
    // Whether the body of an interrupted step ran depends on the crash alone.
    let missing = theirs.keys().find(|op| !ours.contains_key(*op) && !is_in(&interrupted, **op));
    if let Some((.., op)) = missing {
        return breach(Rule::SameSteps, format!("step {:?} did not run, but does {without}", name(op)));
    }
    let crashes = played.ledger.lives - 1;
    for (op, times) in ours.into_iter().filter(|(op, _)| !is_in(&interrupted, *op)) {
        let name = name(op.2);
        let Some(count) = theirs.get(&op) else {
            return breach(Rule::SameSteps, format!("step {name:?} ran, but does not {without}"));
        };
        if times > count + crashes {
            let sentence =
                format!("step {name:?} ran {times} times with {crashes} crashes, but {count} times {without}");
            return breach(Rule::AtLeastOnceBound, sentence);
        }
    }
    Ok(())
}

/// Compares the other runs: each is there, and ended or waits in the same way.
fn compare_others(ours: &[OtherRun], theirs: &[OtherRun], without: &str) -> Result<(), Breach> {
    let ids = |runs: &[OtherRun]| runs.iter().map(|run| format!("{:?}", run.id)).collect::<Vec<_>>().join(", ");
    if ours.iter().map(|run| &run.id).ne(theirs.iter().map(|run| &run.id)) {
        let (ours, theirs) = (ids(ours), ids(theirs));
        let sentence = format!("other runs are started: {ours} with these crashes, but {theirs} {without}");
        return breach(Rule::SameOthers, sentence);
    }
    match ours.iter().zip(theirs).find(|(our, their)| our != their) {
        None => Ok(()),
        Some((our, their)) => {
            let (id, ours, theirs) = (&our.id, told(&our.end), told(&their.end));
            let sentence =
                format!("the outcome of run {id:?} differs: {ours} with these crashes, but {theirs} {without}");
            breach(Rule::SameOthers, sentence)
        }
    }
}

/// Compares what was given out: the same values and answers, and the same items in each stream. Branches that append to
/// one stream may take turns differently.
fn compare_outputs(ours: &[Output], theirs: &[Output], without: &str) -> Result<(), Breach> {
    let words = |given: &[Output]| {
        let of = |output: &Output| {
            let (kind, name) = (output.key.kind, output.key.name.as_str());
            format!("{kind:?} {name:?} {}", output.payload).to_lowercase()
        };
        let mut words: Vec<String> = given.iter().map(of).collect();
        words.sort();
        words.join(", ")
    };
    let (ours, theirs) = (words(ours), words(theirs));
    if ours == theirs {
        return Ok(());
    }
    let sentence = format!("what the run gives out differs: {ours} with these crashes, but {theirs} {without}");
    breach(Rule::SameOutputs, sentence)
}

/// Compares a trial in which at-most-once steps were interrupted with the one without a crash: it may take a different
/// path from there on, but the interruption must not make it fail.
pub(super) fn compare_interrupted(played: &Played, whole: &Played) -> Result<(), Breach> {
    let (ours, theirs) = (&played.ledger.end, &whole.ledger.end);
    if theirs.status == Status::Completed && ours.status != Status::Completed {
        let sentence = format!(
            "the run {} when an at-most-once step was interrupted, but {} without a crash; \
             handle `Error::Interrupted`, or add `.races()` if the run may end this way",
            told(ours),
            told(theirs)
        );
        return breach(Rule::SameOutcome, sentence);
    }
    let without = counts(&whole.ledger.effects);
    for event in &played.events {
        match &event.what {
            What::Body(effect) if !without.contains_key(&place(effect)) => {
                let name = name(&effect.op);
                return breach(Rule::SameSteps, format!("step {name:?} ran, but does not without a crash"));
            }
            What::Written { batch, .. } if entries(batch).any(is_interruption) => return Ok(()),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the attempts of at-most-once steps that a crash interrupted.
pub(super) fn interrupted(played: &Played) -> BTreeSet<(Place<'_>, u32)> {
    let batches = played.events.iter().filter_map(|event| match &event.what {
        What::Written { batch, .. } => Some(batch),
        _ => None,
    });
    let mut numbers = RunNumbers::default();
    let mut all = BTreeSet::new();
    for commit in batches.flat_map(|batch| commits(batch)) {
        for entry in &commit.entries {
            let number = numbers.after(commit.num, entry);
            if is_interruption(entry) {
                all.insert(((run_of(played, commit.num), number, &*entry.op), entry.attempt));
            }
        }
    }
    all
}

fn is_in(interrupted: &BTreeSet<(Place<'_>, u32)>, op: Place<'_>) -> bool {
    interrupted.iter().any(|(other, _)| *other == op)
}

/// An operation: the id and the number of its run, and its identity there.
type Place<'a> = (&'a str, u32, &'a str);

fn place(effect: &Effect) -> Place<'_> {
    (&effect.run, effect.run_number, &effect.op)
}

/// The number of each run that has restarted.
#[derive(Default)]
struct RunNumbers(BTreeMap<InstanceNum, u32>);

impl RunNumbers {
    /// Returns the number of a run after this entry of it.
    fn after(&mut self, num: InstanceNum, entry: &Entry) -> u32 {
        if entry.kind == EntryKind::Restarted {
            self.0.insert(num, entry.attempt);
        }
        self.0.get(&num).copied().unwrap_or(1)
    }
}

fn run_of(played: &Played, num: InstanceNum) -> &str {
    played.ids.get(&num).map_or("", String::as_str)
}

fn commits(batch: &[Write]) -> impl Iterator<Item = &Commit> {
    batch.iter().filter_map(|write| match write {
        Write::Commit(commit) => Some(commit),
        _ => None,
    })
}

fn entries(batch: &[Write]) -> impl Iterator<Item = &Entry> {
    commits(batch).flat_map(|commit| &commit.entries)
}

fn is_interruption(entry: &Entry) -> bool {
    entry.failure().is_some_and(|failure| failure.cause == Cause::Interrupted)
}

fn counts(effects: &[Effect]) -> BTreeMap<Place<'_>, u32> {
    let mut counts = BTreeMap::new();
    effects.iter().for_each(|effect| *counts.entry(place(effect)).or_insert(0) += 1);
    counts
}

/// Formats an operation for people.
fn name(op: &str) -> String {
    op.replacen("step:", "", 1)
}

/// Describes how a run ended.
pub(super) fn told(end: &End) -> String {
    let mut text = match end.status {
        Status::Cancelled => "was cancelled".to_owned(),
        status => status.kind().as_str().to_owned(),
    };
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
        status if status.is_idle() => {
            breach(Rule::Ends, format!("the run does not end: {}", why_it_waits(&played.waits)))
        }
        _ => breach(
            Rule::Ends,
            "the run does not end: a step is still running; replace its body with `.step(..)`, or grant it real time \
             with `.patience(..)`",
        ),
    }
}

fn why_it_waits(Waits { ops, signals }: &Waits) -> String {
    let waits = ops.iter().filter(|(op, _)| op.contains("wait:"));
    let waits: Vec<_> = waits.map(|(op, site)| format!("{:?} ({site})", words::name(op))).collect();
    if ops.is_empty() {
        return "it waits for a future that is not part of the workflow, such as `tokio::time::sleep`; await timers, \
                channels and tasks inside a step, and use `ctx.sleep` for time"
            .to_owned();
    }
    let waits = waits.join(" and ");
    if signals.is_empty() {
        return format!("it waits for {waits}, which never arrives; send it with `.signal(..)`");
    }
    let signals: Vec<_> = signals.iter().map(|name| format!("{name:?}")).collect();
    let signals = signals.join(" and ");
    format!(
        "it waits for {waits}, which never arrives, while nothing waits for {signals}, which did; use the same name \
         for both"
    )
}

/// Everything known about the steps at one position of the tape.
#[derive(Default)]
struct Known<'a> {
    /// Steps whose end is durable.
    ended: BTreeSet<Place<'a>>,
    /// Attempts whose start is durable, and those whose failure is durable.
    started: BTreeSet<(Place<'a>, u32)>,
    failed: BTreeSet<(Place<'a>, u32)>,
    /// Attempts that ran, with the process lifetime they last ran in.
    ran: BTreeMap<(Place<'a>, u32), u32>,
    numbers: RunNumbers,
}

fn check_tape(played: &Played) -> Result<(), Breach> {
    let mut known = Known::default();
    for event in &played.events {
        match &event.what {
            What::Body(effect) => known.run(effect)?,
            What::Written { batch, refused, .. } => {
                for (write, _) in batch.iter().zip(refused).filter(|(_, is_refused)| !**is_refused) {
                    known.write(played, write)?;
                }
            }
            What::Died { .. } => {}
        }
    }
    Ok(())
}

impl<'a> Known<'a> {
    fn run(&mut self, effect: &'a Effect) -> Result<(), Breach> {
        let (op, attempt) = (place(effect), effect.attempt);
        let (name, once) = (name(op.2), effect.is_at_most_once);
        if self.ended.contains(&op) {
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
            Some(_) if once => breach(Rule::AtMostOnce, format!("step {name:?} ran twice, but may run at most once")),
            Some(life) if life == effect.life => {
                breach(Rule::AtLeastOnceBound, format!("attempt {attempt} of step {name:?} ran twice in one process"))
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, played: &'a Played, write: &'a Write) -> Result<(), Breach> {
        let Write::Commit(commit) = write else { return Ok(()) };
        let run = run_of(played, commit.num);
        for entry in &commit.entries {
            let number = self.numbers.after(commit.num, entry);
            self.record((run, number, &entry.op), entry)?;
        }
        match &commit.state {
            Some(state) if state.status == Status::Stuck => {
                breach(Rule::NeverStuck, format!("the run is stuck: {}", state.note.as_deref().unwrap_or("?")))
            }
            _ => Ok(()),
        }
    }

    fn record(&mut self, op: Place<'a>, entry: &'a Entry) -> Result<(), Breach> {
        match entry.kind {
            EntryKind::StepStarted => drop(self.started.insert((op, entry.attempt))),
            EntryKind::AttemptFailed | EntryKind::FallingBack => drop(self.failed.insert((op, entry.attempt))),
            EntryKind::StepDone if !self.ran.keys().any(|(ran, _)| *ran == op) => {
                let sentence = format!("step {:?} is recorded as done, but never ran", name(op.2));
                return breach(Rule::RanBeforeRecorded, sentence);
            }
            EntryKind::StepDone | EntryKind::StepFailed | EntryKind::OpCancelled => drop(self.ended.insert(op)),
            _ => {}
        }
        Ok(())
    }
}
