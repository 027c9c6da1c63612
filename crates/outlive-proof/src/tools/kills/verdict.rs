//! Checks that everything acknowledged has happened, once the kills have stopped.

use std::collections::BTreeMap;
use std::path::Path;

use outlive::{EntryKind, StatusKind};
use serde_json::Value;

use super::effects::{self, ByStep, Effect};
use super::plan::Kind;
use super::records::{self, Records};
use super::tally::{Promise, Promises};

/// How a run ended, according to the file.
struct Ended {
    status: StatusKind,
    outcome: Value,
    /// Values of the signals it took, in order.
    taken: Vec<u64>,
    /// Steps that returned a value.
    done: Vec<String>,
}

/// Totals over all runs.
pub(super) struct Counted {
    pub(super) effects: u64,
    /// Effects of an attempt after its first.
    pub(super) repeated: u64,
    pub(super) completed: u64,
    pub(super) cancelled: u64,
    pub(super) interrupted: u64,
    pub(super) entries: u64,
}

pub(super) fn judge(folder: &Path, promises: &Promises, records: &Records) -> Result<Counted, String> {
    let runs = read(folder).map_err(|e| format!("failed to read the store: {e}"))?;
    let effects = effects::read(folder)?;
    let mut counted = Counted {
        effects: 0,
        repeated: 0,
        completed: 0,
        cancelled: 0,
        interrupted: 0,
        entries: records.over.len() as u64,
    };
    if let Some(id) = runs.keys().find(|id| !promises.contains_key(*id)) {
        return Err(format!("run {id} exists but was never acknowledged, although every client finished"));
    }
    for (id, promise) in promises {
        let run =
            runs.get(id).ok_or_else(|| format!("the start of run {id} was acknowledged, but it does not exist"))?;
        judge_end(id, promise, run)?;
        judge_signals(id, promise, run)?;
        judge_once(id, promise, run, &effects, &mut counted)?;
        for op in &run.done {
            if !effects.contains_key(&(id.clone(), op.clone())) {
                return Err(format!("{op} of run {id} is recorded, but its body never ran"));
            }
        }
        match run.status {
            StatusKind::Completed => counted.completed += 1,
            _ => counted.cancelled += 1,
        }
    }
    for ((run, op), effects) in &effects {
        judge_effects(run, op, effects, records)?;
        counted.effects += effects.len() as u64;
        let attempts: std::collections::BTreeSet<u32> = effects.iter().map(|effect| effect.attempt).collect();
        counted.repeated += (effects.len() - attempts.len()) as u64;
    }
    Ok(counted)
}

fn judge_end(id: &str, promise: &Promise, run: &Ended) -> Result<(), String> {
    let status = run.status.as_str();
    match (&promise.cancel, run.status) {
        (None, StatusKind::Completed) => {}
        (Some(answer), StatusKind::Cancelled) if answer == "taken" => {}
        (Some(answer), _) if *answer == format!("ended {status}") => {}
        (answer, _) => return Err(format!("run {id} is {status}, but its cancel returned {answer:?}")),
    }
    match promise.input.result() {
        Some(expected) if run.status == StatusKind::Completed && run.outcome != expected => {
            Err(format!("run {id} returned {}, but {expected} is right for {:?}", run.outcome, promise.input))
        }
        _ => Ok(()),
    }
}

/// Checks that each signal is taken once and in order; all of them, unless the run was cancelled.
fn judge_signals(id: &str, promise: &Promise, run: &Ended) -> Result<(), String> {
    let sent: Vec<u64> = (0..promise.input.signals()).map(|nth| promise.input.value(nth)).collect();
    let mut taken = run.taken.clone();
    if promise.input.kind == Kind::Race {
        // A wait that lost the race has given the signal back, and another wait got it again.
        taken.dedup();
    }
    let is_right = if run.status == StatusKind::Completed { taken == sent } else { sent.starts_with(&taken) };
    if !is_right {
        return Err(format!("run {id} ({}) took {:?} of {sent:?}", run.status.as_str(), run.taken));
    }
    if run.status == StatusKind::Completed && promise.signals > taken.len() as u64 {
        return Err(format!("run {id} was sent {} signals, but took {taken:?}", promise.signals));
    }
    Ok(())
}

fn judge_once(id: &str, promise: &Promise, run: &Ended, effects: &ByStep, counted: &mut Counted) -> Result<(), String> {
    if promise.input.kind != Kind::Once {
        return Ok(());
    }
    let times = effects.get(&(id.to_owned(), "step:pay".to_owned())).map_or(0, Vec::len);
    let is_paid = run.outcome == Value::Bool(true);
    counted.interrupted += u64::from(run.outcome == Value::Bool(false));
    match times {
        0 if is_paid => Err(format!("run {id} reports that it paid, but it never did")),
        0 | 1 => Ok(()),
        _ => Err(format!("run {id} paid {times} times with an at-most-once step")),
    }
}

/// Checks that no body runs again once it is recorded, and that no process runs one attempt twice.
fn judge_effects(run: &str, op: &str, effects: &[Effect], records: &Records) -> Result<(), String> {
    let step = (run.to_owned(), op.to_owned());
    let mut seen: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    for effect in effects {
        if records.over.get(&step).is_some_and(|over| effect.offset >= *over) {
            return Err(format!("{op} of run {run} ran again after it was recorded: {effect:?}"));
        }
        let attempt = (step.0.clone(), step.1.clone(), effect.attempt);
        if records.failed.get(&attempt).is_some_and(|failed| effect.offset >= *failed) {
            return Err(format!("attempt {} of {op} of run {run} ran again after it had failed", effect.attempt));
        }
        if seen.insert((effect.generation, effect.attempt), effect.offset).is_some() {
            return Err(format!("one process ran attempt {} of {op} of run {run} twice", effect.attempt));
        }
        if effect.key != effects[0].key {
            return Err(format!("{op} of run {run} has two keys: {:?} and {:?}", effects[0].key, effect.key));
        }
    }
    Ok(())
}

fn read(folder: &Path) -> rusqlite::Result<BTreeMap<String, Ended>> {
    let connection = records::open(folder)?;
    let mut runs = BTreeMap::new();
    let mut statement = connection.prepare("SELECT id, status, outcome FROM instance")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let outcome: Option<String> = row.get(2)?;
        let outcome = outcome.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let status = StatusKind::from_code(row.get(1)?).unwrap_or(StatusKind::Stuck);
        runs.insert(row.get(0)?, Ended { status, outcome, taken: Vec::new(), done: Vec::new() });
    }
    let sql = "SELECT id, kind, op, payload FROM entry JOIN instance ON num = entry.instance ORDER BY num, seq";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Some(run) = runs.get_mut(row.get_ref(0)?.as_str()?) else { continue };
        match EntryKind::from_code(row.get(1)?) {
            Some(EntryKind::SignalTaken) => run.taken.extend(row.get::<_, String>(3)?.parse::<u64>()),
            Some(EntryKind::StepDone) => run.done.push(row.get(2)?),
            _ => {}
        }
    }
    Ok(runs)
}
