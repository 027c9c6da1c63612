//! Trials of code changes: a run of one version stops somewhere, another version is checked, and then actually
//! deployed.
//!
//! The rule: if the check says that all is well, no recorded effect is repeated, no finished wait waits again, and the
//! run completes. Unkeyed operations in a loop are excluded: only their count identifies them, and what happens to them
//! is documented.

mod perform;
mod script;
mod stops;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use outlive::check::{Report, Verdict};
use outlive::store::Store;
use outlive::{Engine, Entry, EntryKind, Status};
use outlive_core::id::Name;

use crate::random::Random;
use perform::{Effect, NAME, Stage, effect_of};
use script::{Change, Line, bases, has_unkeyed_loop, ops, sketch};
use stops::{ID, Recorded, Stop, engine, finish, signals};

/// Totals of some trials.
///
/// ```
/// # use outlive_testkit::proof::PlayReport;
/// let report = PlayReport::default();
/// assert_eq!((report.plays, report.false_alarms()), (0, 0));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PlayReport {
    /// Number of trials.
    pub plays: u64,
    /// Trials in which a received signal does not decode as the type of a wait behind a step that had not run: the
    /// check cannot see behind such a step.
    pub unseen_signals: u64,
    /// Trials of versions with an unkeyed loop.
    pub unkeyed: u64,
    /// Of these, how many were reported as fine but were not.
    pub unkeyed_missed: u64,
    /// Trials reported as fine that were.
    pub fine: u64,
    /// Trials reported as not fine that were not.
    pub alarms: u64,
    /// Trials reported as not fine that were, by verdict.
    pub false_alarms: BTreeMap<&'static str, u64>,
    /// Descriptions of trials in which the check was wrong: reported as fine but not fine, or harmful to follow.
    pub missed: Vec<String>,
    /// How often `.was(..)` was suggested for the step that was recorded; following it then worked.
    pub suggestions: u64,
    /// How often it was suggested for a different step: the message asks whether it is the same one.
    pub questions: u64,
}

impl PlayReport {
    /// Returns how many trials were reported as not fine but were fine.
    ///
    /// ```
    /// assert_eq!(outlive_testkit::proof::PlayReport::default().false_alarms(), 0);
    /// ```
    #[must_use]
    pub fn false_alarms(&self) -> u64 {
        self.false_alarms.values().sum()
    }
}

/// Changes of a script, in order.
type Changes = Vec<(Change, usize)>;

/// Tries pairs of changes to several workflows, stopped at every point: as many trials as requested, chosen by the
/// seed, or all of them. Requires tokio's current-thread runtime.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let report = outlive_testkit::proof::plays(1, 200, |_| {}).await.unwrap();
/// assert!(report.plays >= 200);
/// # }
/// ```
///
/// # Errors
/// If a trial cannot be carried out.
pub async fn plays(seed: u64, count: u64, mut on_plays: impl FnMut(u64)) -> Result<PlayReport, String> {
    let mut report = PlayReport::default();
    let mut order = Vec::new();
    let mut recorded = Vec::new();
    for (number, base) in bases().into_iter().enumerate() {
        order.extend(pairs(&base.lines).into_iter().map(|changes| (number, changes)));
        let run = Recorded::of(&base).await.map_err(|error| error.to_string())?;
        recorded.push((base, run));
    }
    let mut random = Random::new(seed);
    while report.plays < count && !order.is_empty() {
        let (number, changes) = order.swap_remove(random.index(order.len()));
        let (base, run) = &recorded[number];
        let before = report.plays;
        let Some(lines) = changed(&base.lines, &changes) else { continue };
        let pair = Pair { before: &base.lines, after: &lines, run };
        if pair.is_sound().await {
            pair.play(&mut report).await?;
        }
        on_plays(report.plays - before);
    }
    Ok(report)
}

/// Returns every change, and every pair of them.
fn pairs(lines: &[Line]) -> Vec<Changes> {
    // The first change may add an operation.
    let places = ops(lines).len() + 1;
    let ones: Vec<_> = Change::ALL.iter().flat_map(|change| (0..places).map(|place| (*change, place))).collect();
    let twos = ones.iter().flat_map(|one| ones.iter().map(|other| vec![*one, *other]));
    ones.iter().map(|one| vec![*one]).chain(twos).collect()
}

fn changed(lines: &[Line], changes: &Changes) -> Option<Vec<Line>> {
    let first = lines.to_vec();
    changes.iter().zip(100..).try_fold(first, |lines, ((change, place), what)| change.at(*place, &lines, what))
}

/// Two versions of a script.
struct Pair<'a> {
    before: &'a [Line],
    after: &'a [Line],
    run: &'a Recorded,
}

/// The result of a deploy.
#[derive(Debug)]
struct Deployed {
    status: Status,
    note: String,
    repeated: Vec<Effect>,
    waited_again: Vec<Effect>,
}

impl Deployed {
    fn is_well(&self) -> bool {
        self.status == Status::Completed && self.repeated.is_empty() && self.waited_again.is_empty()
    }

    /// Whether it is stuck because a signal does not decode.
    fn is_by_signal(&self) -> bool {
        self.status == Status::Stuck && self.note.starts_with("signal ")
    }
}

impl fmt::Display for Deployed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, note, repeated, waited_again } = self;
        write!(f, "{status} ({note}), effects repeated: {repeated:?}, waits repeated: {waited_again:?}")
    }
}

impl Pair<'_> {
    /// Whether the new version is a working workflow: a run that starts with it completes.
    async fn is_sound(&self) -> bool {
        let store: Arc<dyn Store> = Arc::new(outlive::MemoryStore::new());
        let test = engine(&Stage::new(self.after, self.run.is_strict), store, None).await;
        let is_started = test.start_json(NAME, "null").id(ID).await.is_ok();
        let end = finish(&test, signals(self.after).into_iter(), async |_| {}).await;
        is_started && matches!(end, Ok(Status::Completed))
    }

    /// Tries every stop.
    async fn play(&self, report: &mut PlayReport) -> Result<(), String> {
        let is_unkeyed = has_unkeyed_loop(self.before) || has_unkeyed_loop(self.after);
        for stop in self.run.stops() {
            report.plays += 1;
            let checked = check(self.run, stop, self.after).await?;
            let came = self.deploy(stop, self.after).await.map_err(|error| error.to_string())?;
            let word = checked.runs().first().map_or("not there", |run| run.verdict.word());
            report.unkeyed += u64::from(is_unkeyed);
            match (checked.is_fine(), came.is_well()) {
                (true, true) => report.fine += 1,
                (true, false) if is_unkeyed => report.unkeyed_missed += 1,
                (true, false) if came.is_by_signal() => report.unseen_signals += 1,
                (true, false) => report.missed.push(self.told(stop, &checked, self.after, &came)),
                (false, false) => report.alarms += 1,
                (false, true) => *report.false_alarms.entry(word).or_default() += 1,
            }
            if !is_unkeyed {
                self.follow(stop, &checked, report).await?;
            }
        }
        Ok(())
    }

    /// Follows a suggestion where it is right, and checks that it helps.
    async fn follow(&self, stop: Stop, checked: &Report, report: &mut PlayReport) -> Result<(), String> {
        let Some(Verdict::Renamed { renames }) = checked.runs().first().map(|run| &run.verdict) else { return Ok(()) };
        let mut lines = self.after.to_vec();
        for rename in renames {
            let Some(was) = &rename.was else { return Ok(()) };
            let old = ops(self.before).into_iter().find(|(op, _)| op.name == *was).map(|(op, _)| op.what);
            let is_new = |op: &script::Op| rename.to.name.contains(&format!("step:{}", op.name));
            let new = ops(&lines).into_iter().filter(|(op, _)| is_new(op)).max_by_key(|(op, _)| op.name.len());
            let new = new.map(|(op, _)| op.what);
            if old != new {
                report.questions += 1;
                return Ok(());
            }
            lines = script::saying(&lines, new, was);
        }
        report.suggestions += 1;
        let again = check(self.run, stop, &lines).await?;
        let came = self.deploy(stop, &lines).await.map_err(|error| error.to_string())?;
        let is_missed = again.is_fine() && came.status == Status::Stuck && !came.is_by_signal();
        let is_harmful = !came.repeated.is_empty() || is_missed;
        if is_harmful {
            report.missed.push(self.told(stop, checked, &lines, &came));
        }
        Ok(())
    }

    fn told(&self, stop: Stop, checked: &Report, after: &[Line], came: &Deployed) -> String {
        let (before, after) = (sketch(self.before), sketch(after));
        format!("{before} -> {after}, stopped at {stop:?}: {checked}; and then: {came}")
    }

    /// Deploys a version on a run that has stopped, and returns the result.
    async fn deploy(&self, stop: Stop, lines: &[Line]) -> Result<Deployed, outlive::Error> {
        let store = self.run.store(stop).await?;
        let stage = Stage::new(lines, self.run.is_strict);
        let test = engine(&stage, store.clone(), Some(self.run.time(stop))).await;
        // A parked run is replayed once with new code.
        test.get_run::<serde_json::Value>(ID).await?.signal("a poke", &()).await?;
        let status = finish(&test, signals(lines).into_iter(), async |_| {}).await?;
        let instance = store.instance(&Name::recorded(ID)).await?;
        let journal = match &instance {
            Some(instance) => store.journal(instance.num, 0, usize::MAX).await?,
            None => Vec::new(),
        };
        let (old, new) = journal.split_at(stop.entries);
        let done = values(old, EntryKind::StepDone);
        let got = values(old, EntryKind::SignalTaken);
        let repeated = stage.ledger().into_iter().filter(|effect| done.contains(effect)).collect();
        let waited_again = values(new, EntryKind::SignalTaken).into_iter().filter(|wait| got.contains(wait)).collect();
        let note = instance.and_then(|instance| instance.note).unwrap_or_default();
        Ok(Deployed { status, note, repeated, waited_again })
    }
}

/// Checks a version against a run that has stopped.
async fn check(run: &Recorded, stop: Stop, lines: &[Line]) -> Result<Report, String> {
    let store = run.store(stop).await.map_err(|error| error.to_string())?;
    let builder = Stage::new(lines, run.is_strict).register(Engine::open("memory:"));
    builder.check(store).await.map_err(|error| error.to_string())
}

/// Returns the values of entries of a kind.
fn values(entries: &[Entry], kind: EntryKind) -> Vec<Effect> {
    let payloads = entries.iter().filter(|entry| entry.kind == kind).filter_map(|entry| entry.payload.as_ref());
    payloads.filter_map(|payload| effect_of(&payload.decode().ok()?)).collect()
}
