//! The final state of a world, and the checks that apply to every run in it.

use std::collections::{BTreeMap, BTreeSet};

use outlive::{Engine, Entry, EntryKind, Payload, Status, Timestamp};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::LifecycleRecordKind;
use outlive_core::output::{Output, OutputKind, OutputRead};
use outlive_core::store::query::{FeedContent, Filter, Instance, Query};

use crate::words::{of_inbox, of_journal};

use super::accepted::Acceptance;
use super::acts::{Stand, Told, Wish};
use super::ended_job::{self, EndedJob};
use super::kept::Since;
use super::ledger::Effect;
use super::plan::Sim;

/// The final state of a world.
///
/// ```
/// use outlive_testkit::simulate::{End, simulate};
/// # use outlive::prelude::*;
/// # async fn charge() -> Result<u32> { Ok(42) }
/// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
/// fn all_is_paid(end: &End) -> Result<(), String> {
///     let order = &end.runs["order-1"];
///     if order.output::<u32>() == Some(42) { Ok(()) } else { Err(format!("{:?}", order.status)) }
/// }
/// simulate(0..20, |sim| {
///     sim.engine(|engine| engine.workflow("pay", pay));
///     sim.start("pay", "order-1", &());
///     sim.check(all_is_paid);
/// });
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct End {
    /// Runs by id, with their children and all others that were started.
    pub runs: BTreeMap<String, EndedRun>,
    /// Every time a step body began, in order.
    pub effects: Vec<Effect>,
    /// Job instances that exist or existed, by full name. All of their work is done, except for those that were stopped
    /// or that recur.
    pub jobs: BTreeMap<String, EndedJob>,
}

/// The final state of a run.
///
/// ```
/// use outlive_testkit::simulate::EndedRun;
/// fn steps(run: &EndedRun) -> usize {
///     run.journal.iter().filter(|entry| entry.kind == outlive::EntryKind::StepDone).count()
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct EndedRun {
    /// Final status.
    pub status: Status,
    /// The run's result, or the recorded form of its failure.
    pub outcome: Option<Payload>,
    /// An explanation for people, if there is one.
    pub note: Option<String>,
    /// The run's journal, with those from before its restarts.
    pub journal: Vec<Entry>,
    /// What the run has given out.
    pub(crate) outputs: Vec<Output>,
}

impl EndedRun {
    /// Returns the run's result, if it has one of this type.
    ///
    /// ```
    /// # use outlive_testkit::simulate::EndedRun;
    /// fn total(run: &EndedRun) -> u64 { run.output().unwrap_or_default() }
    /// ```
    #[must_use]
    pub fn output<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        (self.status == Status::Completed).then(|| self.outcome.as_ref()?.decode().ok()).flatten()
    }
}

impl End {
    pub(super) async fn of(
        plan: &Sim,
        store: &dyn Query,
        effects: Vec<Effect>,
        acceptance: &Acceptance,
        since: &Since,
    ) -> Result<Self, String> {
        let mut runs = BTreeMap::new();
        for id in plan.runs() {
            let found = store.instance(&id).await.map_err(|error| error.to_string())?;
            found.ok_or_else(|| format!("run {id} was acknowledged, but is gone"))?;
        }
        for instance in all_runs(store).await? {
            let id = instance.id;
            let journal = store.journal(instance.num, 0, usize::MAX).await.map_err(|error| error.to_string())?;
            if !instance.status.is_ended() {
                let inbox = store.inbox(instance.num, 0, usize::MAX).await.map_err(|error| error.to_string())?;
                return Err(format!(
                    "run {id} has not ended, although nothing blocks it: {} (note {:?}, wake {:?}, owner {:?}, \
                     inbox {}){}",
                    instance.status,
                    instance.note,
                    instance.wake,
                    instance.owner,
                    of_inbox(&inbox),
                    of_journal(&journal)
                ));
            }
            let all = OutputRead::All { after: None };
            let outputs = store.outputs(instance.num, all, usize::MAX).await.map_err(|error| error.to_string())?;
            let journal = if instance.restarts > 0 { with_past(store, instance.num, journal).await? } else { journal };
            let (status, outcome, note) = (instance.status, instance.outcome, instance.note);
            let ended = EndedRun { status, outcome, note, journal, outputs };
            runs.insert(id.to_string(), ended);
        }
        let jobs = ended_job::look(store, plan, acceptance, since).await?;
        Ok(Self { runs, effects, jobs })
    }
}

/// Returns the entries of all journals of a run that has restarted, if the feed still has them; otherwise its last journal.
async fn with_past(store: &dyn Query, num: InstanceNum, last: Vec<Entry>) -> Result<Vec<Entry>, String> {
    let feed = store.feed(0, usize::MAX).await.map_err(|error| error.to_string())?;
    let entries = feed.into_iter().filter(|item| item.num == num).filter_map(|item| match item.content {
        FeedContent::Entry(entry) => Some(entry),
        FeedContent::Lifecycle(_) => None,
    });
    let all: Vec<Entry> = entries.collect();
    let is_whole = all.first().is_some_and(|first| first.seq == 1) && all.last() == last.last();
    Ok(if is_whole { all } else { last })
}

/// Returns all runs of a store.
pub(super) async fn all_runs(store: &dyn Query) -> Result<Vec<Instance>, String> {
    let page = store.list(&Filter::runs(), None, usize::MAX).await.map_err(|error| error.to_string())?;
    Ok(page.instances)
}

/// Checks the rules that hold for every journal, whatever the workflow.
pub(super) fn check_journals(end: &End) -> Result<(), String> {
    for (id, run) in &end.runs {
        let checked = check_journal(&run.journal).and_then(|()| check_outputs(run));
        checked.map_err(|what| format!("run {id}: {what}{}", of_journal(&run.journal)))?;
    }
    Ok(())
}

/// Checks that what a run has given out is what its journal says: each item and answer once, and the last value of each
/// name. What failed attempts appended is marked.
fn check_outputs(run: &EndedRun) -> Result<(), String> {
    let entries = |kind: EntryKind| run.journal.iter().filter(move |entry| entry.kind == kind);
    let outputs = |kind: OutputKind| run.outputs.iter().filter(move |output| output.key.kind == kind);
    let items = outputs(OutputKind::Item).filter(|item| item.origin.is_none()).count();
    let appended = entries(EntryKind::Appended).count();
    if items != appended {
        return Err(format!("{items} items are in its streams, but {appended} were appended"));
    }
    for value in outputs(OutputKind::Value) {
        let published = entries(EntryKind::Published).find(|entry| entry.seq == value.key.item);
        if published.is_none_or(|entry| entry.payload.as_ref() != Some(&value.payload)) {
            return Err(format!("the value {:?} was never published", value.payload));
        }
    }
    for item in outputs(OutputKind::Item) {
        let Some(origin) = &item.origin else { continue };
        let done = entries(EntryKind::StepDone).any(|entry| entry.op == origin.op && entry.attempt == origin.attempt);
        if !item.is_failed && !done {
            return Err(format!(
                "item {} counts, but attempt {} of {} does not",
                item.key.item, origin.attempt, origin.op
            ));
        }
    }
    Ok(())
}

fn check_journal(journal: &[Entry]) -> Result<(), String> {
    let mut ended: BTreeSet<&str> = BTreeSet::new();
    let mut set: BTreeMap<&str, &Entry> = BTreeMap::new();
    let mut failed: BTreeMap<&str, u32> = BTreeMap::new();
    let mut attempts = Attempts::default();
    let first = journal.first().filter(|first| first.kind == EntryKind::Restarted).map_or(1, |first| first.seq);
    for (seq, entry) in (first..).zip(journal) {
        let op = &*entry.op;
        if entry.kind == EntryKind::Restarted {
            (ended, set, failed, attempts) = Default::default();
        }
        if entry.seq != seq {
            return Err(format!("entry {seq} is numbered {}", entry.seq));
        }
        if entry.kind.is_outcome() && !ended.insert(op) {
            return Err(format!("{op} ended twice"));
        }
        attempts.add(entry)?;
        match entry.kind {
            EntryKind::SleepSet | EntryKind::WaitSet if set.insert(op, entry).is_some() => {
                return Err(format!("{op} was set twice"));
            }
            EntryKind::SleepDone | EntryKind::WaitTimedOut => {
                let due = set.get(op).and_then(|entry| entry.due).or(entry.due);
                if due.is_some_and(|due| entry.at < due) {
                    return Err(format!("{op} ended early, at {} instead of {due:?}", entry.at));
                }
            }
            EntryKind::AttemptFailed => {
                let before = failed.entry(op).or_default();
                *before += 1;
                if entry.attempt != *before {
                    return Err(format!("attempt {} of {op} failed as attempt {}", *before, entry.attempt));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Start times of attempts, and due times of the next ones.
#[derive(Default)]
struct Attempts<'a> {
    begun: BTreeMap<(&'a str, u32), Timestamp>,
    due: BTreeMap<&'a str, (u32, Timestamp)>,
}

impl<'a> Attempts<'a> {
    fn add(&mut self, entry: &'a Entry) -> Result<(), String> {
        let (op, attempt) = (&*entry.op, entry.attempt);
        if let Some(started) = entry.started {
            let begun = *self.begun.entry((op, attempt)).or_insert(started);
            if begun != started {
                return Err(format!("attempt {attempt} of {op} began at {begun} and again at {started}"));
            }
            if let Some((_, due)) = self.due.get(op).filter(|(before, due)| attempt > *before && started < *due) {
                return Err(format!("attempt {attempt} of {op} began early, at {started} instead of {due}"));
            }
        }
        match (entry.kind, entry.due) {
            (EntryKind::AttemptFailed, Some(due)) => drop(self.due.insert(op, (attempt, due))),
            // The fallback carries the number of the last attempt, and begins later.
            (EntryKind::FallingBack, _) => drop(self.begun.remove(&(op, attempt))),
            _ => {}
        }
        Ok(())
    }
}

/// Checks that whatever was acknowledged is in effect.
pub(super) fn check_answers(end: &End, plan: &Sim, stands: &[Stand]) -> Result<(), String> {
    for (act, stand) in plan.acts.iter().zip(stands) {
        let Stand::Acknowledged(told) = stand else { return Err(format!("{act:?} got no reply: {stand:?}")) };
        let Some(status) = end.runs.get(&act.run).map(|run| run.status) else {
            match told {
                Told::Done => continue,
                other => return Err(format!("{act:?} got {other:?}")),
            }
        };
        match (&act.wish, told) {
            (_, Told::Wrong(what)) => return Err(what.clone()),
            (Wish::Cancel { .. }, Told::Done) if status != Status::Cancelled => {
                return Err(format!("run {} accepted a cancel, but is {status}", act.run));
            }
            (_, Told::Ended(before)) if *before != status => {
                return Err(format!("run {} was {before}, but is now {status}", act.run));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that the last action on a job that is stopped and started by hand is in effect.
pub(super) fn check_orders(end: &End, plan: &Sim) -> Result<(), String> {
    let is_by_hand = |id: &str| matches!(JobKind::of(&Name::recorded(id)), Some(JobKind::Continuous | JobKind::Pool));
    for (id, job) in end.jobs.iter().filter(|(id, _)| is_by_hand(id)) {
        let acts = plan.acts.iter().rev().filter(|act| act.run == *id);
        let Some(is_to_stop) = acts.filter_map(|act| act.wish.is_to_stop()).next() else { continue };
        let is_stopped = job.record.as_ref().map(|record| record.is_stopped);
        // A handler may have terminated it, or an earlier action took effect later.
        let is_terminated = job.lifecycle.last() == Some(&LifecycleRecordKind::JobTerminated.as_str());
        if is_stopped != is_to_stop && !(is_stopped.is_none() && is_terminated) {
            return Err(format!("{id} should have is_stopped {is_to_stop:?}, but has {:?}", job.record));
        }
    }
    Ok(())
}

/// Checks that a replay gives the same result, with no side effects.
pub(super) async fn check_replays(end: &End, engine: &Engine) -> Result<(), String> {
    for (id, run) in &end.runs {
        let replayed = engine.replay_ended(id).await;
        replayed.map_err(|what| format!("run {id} is {}: {what}{}", run.status, of_journal(&run.journal)))?;
    }
    Ok(())
}
