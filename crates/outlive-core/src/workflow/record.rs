//! The journal indexed by operation, for replay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::checksum::Sum;
use crate::failure::{self, Failure};
use crate::journal::{Entry, EntryKind, SentTo};
use crate::payload::Payload;
use crate::restart::{CarriedSignal, RestartRecord};
use crate::retry::Reason;
use crate::time::Timestamp;

use super::care::OpCare;
use super::children::LiveChildren;
use super::effect::RefusedEffect;
use super::parsed::ParsedIdentity;
use super::rewound::Rewinds;
use super::spec::{FailedStep, OpKind, Outcome, StepEnding};
use super::undos::Undos;

/// What the journal says about one operation.
#[derive(Default, Debug)]
pub(super) struct OpRecord {
    /// The start of its first attempt.
    pub(super) first_started: Option<Timestamp>,
    /// The last recorded start of an attempt: its number and time.
    pub(super) started: Option<(u32, Timestamp)>,
    /// The number of failed attempts.
    pub(super) failed: u32,
    /// The failure of the last attempt.
    pub(super) last: Option<Box<Failure>>,
    /// When its next attempt is due, or when its sleep or wait ends.
    pub(super) due: Option<Timestamp>,
    /// The final failure of the attempts, if the fallback runs.
    pub(super) falling_back: Option<Box<Failure>>,
    /// What only some steps have.
    pub(super) care: Option<Box<OpCare>>,
}

/// A recorded operation that the code has not asked for.
#[derive(Default, Debug)]
struct Unasked {
    /// The call site when it was recorded.
    site: Arc<str>,
    record: OpRecord,
    /// Its outcome, once it has one.
    outcome: Option<Recorded>,
    /// The number of its first entry.
    first: u64,
    /// Whether it followed a failure that was retried, such as a clean-up, so that the code need not ask for it again.
    is_excused: bool,
}

/// A recorded outcome with its delivery number and time.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) outcome: Outcome,
}

/// A journal, by operation.
#[derive(Default)]
pub struct Records {
    /// The operations in the order of their first entry, each with its record until the code asks for it.
    ops: Vec<(Arc<str>, Option<Unasked>)>,
    /// The index of each operation in `ops`. The hash comes first because it compares faster than the text.
    places: BTreeMap<(u64, Arc<str>), usize>,
    /// The index of the operation that the code most likely asks for next.
    next: usize,
    /// The number of records that the code has not asked for.
    unasked: usize,
    /// Old names under which renamed operations are recorded. No other operation may use them.
    renamed: BTreeSet<Arc<str>>,
    pub(super) seq: u64,
    pub(super) cancel: Option<String>,
    /// Signals bound to a wait: inbox position and number of the binding entry, in journal order.
    pub(super) given: Vec<(u64, u64)>,
    /// The inbox positions of refused signals.
    pub(super) refused: Vec<u64>,
    /// The children that were started and have not ended, as far as the journal says.
    pub(super) children: LiveChildren,
    /// The undos that were planned, and those that are done.
    pub(super) undos: Undos,
    /// The number before its first entry: 0, unless the run has restarted.
    pub(super) seq_before: u64,
    /// What the run took along when it restarted.
    pub(super) restart: Option<Box<Restarted>>,
    /// The entries that refused a signal which was not discarded.
    pub(super) dead: Vec<Entry>,
    /// What the run has forgotten, if it was rewound or forked.
    pub(super) rewinds: Option<Box<Rewinds>>,
}

/// What a journal that begins with a restart says about it.
pub(super) struct Restarted {
    pub(super) run_number: u32,
    pub(super) signals: Vec<CarriedSignal>,
}

impl Records {
    /// Indexes a journal.
    ///
    /// # Errors
    /// Returns a description of the problem if the journal is damaged.
    pub(super) fn fold(entries: &[Entry]) -> Result<Self, String> {
        let mut records = Self::default();
        let mut ends: Vec<RecordedEnd> = Vec::new();
        let mut rewinds = Rewinds::of(entries);
        for (place, entry) in entries.iter().enumerate() {
            if records.seq == 0 && records.begin_with(entry)? {
                continue;
            }
            if entry.seq != records.seq + 1 {
                return Err(format!("entry {} follows entry {} in the journal", entry.seq, records.seq));
            }
            records.seq = entry.seq;
            if entry.kind == EntryKind::SignalRefused {
                records.refused.push(signal_pos(entry));
                records.dead.push(entry.clone());
            }
            if let Some(seq) = entry.discarded() {
                records.dead.retain(|dead| dead.seq != seq);
            }
            if rewinds.as_ref().is_some_and(|rewinds| !rewinds.counts(place)) {
                continue;
            }
            if matches!(entry.kind, EntryKind::SignalTaken | EntryKind::ChildEnded | EntryKind::QuestionTaken) {
                records.given.push((signal_pos(entry), entry.seq));
            }
            if entry.kind.is_outcome() {
                let is_failure = is_failure(entry);
                ends.push(RecordedEnd { seq: entry.seq, op: entry.op.clone(), is_failure });
            }
            records.add(entry, &mut ends).map_err(|problem| format!("entry {} is damaged: {problem}", entry.seq))?;
        }
        records.next = 0;
        rewinds.iter_mut().for_each(|rewinds| rewinds.forget_journal());
        records.rewinds = rewinds;
        Ok(records)
    }

    /// Begins with the first entry of a journal if it is that of a restart.
    fn begin_with(&mut self, entry: &Entry) -> Result<bool, String> {
        let Some(restart) = RestartRecord::of_entry(entry) else { return Ok(false) };
        let restart = restart.map_err(|problem| format!("entry {} is damaged: {problem}", entry.seq))?;
        self.seq_before = entry.seq.checked_sub(1).ok_or("a restart has number 0")?;
        self.seq = entry.seq;
        self.children = LiveChildren::carried(restart.children);
        self.dead = restart.dead;
        self.restart = Some(Restarted { run_number: entry.attempt, signals: restart.signals }.into());
        Ok(true)
    }

    fn add(&mut self, entry: &Entry, ends: &mut Vec<RecordedEnd>) -> Result<(), String> {
        match entry.kind {
            EntryKind::Restarted => return Err("the run restarted here, so it belongs to another journal".to_owned()),
            EntryKind::Retried => self.forget_failures(ends, entry.failed_at()),
            EntryKind::Reopened => self.forget_failed_undos(ends),
            EntryKind::SignalDiscarded | EntryKind::NearlyFull => {}
            EntryKind::Rewound | EntryKind::Forked if entry.rewound_to().is_some_and(|kept| kept < entry.seq) => {}
            EntryKind::Rewound | EntryKind::Forked => return Err("it does not say which entries count".to_owned()),
            EntryKind::UndoPlanned => self.undos.follow(entry)?,
            EntryKind::CancelTaken => self.cancel = Some(text_of(entry)?),
            _ => {
                self.children.follow(entry)?;
                self.undos.follow(entry)?;
                let record = self.of(&entry.op);
                record.site = entry.site.clone();
                record.first = if record.first == 0 { entry.seq } else { record.first };
                record.add(entry)?;
            }
        }
        Ok(())
    }

    /// Forgets the failure that made a run fail and all failures after it, so that they are retried. If that one is not
    /// known, those at the end of the journal are forgotten. Values stay, wherever they are, unless they were undone.
    fn forget_failures(&mut self, ends: &mut Vec<RecordedEnd>, failed_at: Option<u64>) {
        for op in self.undos.start_round(failed_at) {
            drop(self.take(&op));
        }
        let at_the_end = || ends.iter().rev().take_while(|end| end.is_failure).last().map(|end| end.seq);
        let Some(from) = failed_at.or_else(at_the_end) else { return };
        let is_forgotten = |end: &RecordedEnd| end.is_failure && end.seq >= from;
        ends.iter().filter(|end| is_forgotten(end)).for_each(|end| drop(self.take(&end.op)));
        let later = self.ops.iter_mut().filter_map(|(_, record)| record.as_mut()).filter(|record| record.first > from);
        later.for_each(|record| record.is_excused = true);
        ends.retain(|end| !is_forgotten(end));
    }

    /// Forgets the undos that have failed, so that a run that is stuck with one tries it again.
    fn forget_failed_undos(&mut self, ends: &mut Vec<RecordedEnd>) {
        let is_forgotten =
            |end: &RecordedEnd| end.is_failure && ParsedIdentity::of(&end.op).kind == OpKind::Undo.prefix();
        ends.iter().filter(|end| is_forgotten(end)).for_each(|end| drop(self.take(&end.op)));
        ends.retain(|end| !is_forgotten(end));
    }

    /// Returns the record of an operation, creating it if necessary.
    fn of(&mut self, op: &Arc<str>) -> &mut Unasked {
        let place = *self.places.entry(numbered(op)).or_insert_with(|| {
            self.ops.push((op.clone(), None));
            self.ops.len() - 1
        });
        let record = &mut self.ops[place].1;
        self.unasked += usize::from(record.is_none());
        record.get_or_insert_default()
    }

    /// Returns `true` if an operation has a record that the code has not asked for.
    pub(super) fn has(&self, op: &Arc<str>) -> bool {
        self.places.get(&numbered(op)).is_some_and(|place| self.ops[*place].1.is_some())
    }

    /// Takes the record of an operation that the code asks for.
    pub(super) fn take(&mut self, op: &Arc<str>) -> Option<(OpRecord, Option<Recorded>)> {
        let place = match self.ops.get(self.next) {
            None if self.unasked == 0 => return None,
            Some((next, _)) if next == op => self.next,
            _ => *self.places.get(&numbered(op))?,
        };
        let Unasked { record, outcome, .. } = self.ops[place].1.take()?;
        self.next = place + 1;
        self.unasked -= 1;
        if self.unasked == 0 {
            // Nothing is left to replay: frees the memory.
            (self.ops, self.places) = Default::default();
        }
        Some((record, outcome))
    }

    /// Takes the record of an operation that the code asks for, under the first of its old names that has one if there
    /// is none under `op`, which is then set to the old name.
    #[inline]
    pub(super) fn find(
        &mut self,
        op: &mut Arc<str>,
        old_names: impl Iterator<Item = Arc<str>>,
    ) -> Option<(OpRecord, Option<Recorded>)> {
        let mut found = self.take(op);
        for old in old_names {
            if found.is_some() {
                break;
            }
            found = self.take(&old);
            if found.is_some() {
                self.renamed.insert(old.clone());
                *op = old;
            }
        }
        found
    }

    /// Returns `true` if another operation is recorded under this name, as its old one.
    pub(super) fn is_renamed(&self, op: &Arc<str>) -> bool {
        self.renamed.contains(op)
    }

    /// Returns `true` if there are records that the code has not asked for yet.
    pub(super) fn has_unasked(&self) -> bool {
        self.unasked > 0
    }

    /// Returns `true` if there are [orphans](Self::orphans).
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        self.has_unasked() && self.orphans().next().is_some()
    }

    /// Returns the recorded operations that the code has not asked for, each with its call site. A patch is removed once
    /// it has served its purpose, and what followed a retried failure may not be needed: those do not count.
    pub fn orphans(&self) -> impl Iterator<Item = (&str, &str)> {
        let unasked = self.ops.iter().filter_map(|(op, record)| Some((op, record.as_ref()?)));
        let orphans = unasked.filter(|(_, record)| !record.is_excused).map(|(op, record)| (&**op, &*record.site));
        orphans.filter(|(op, _)| ParsedIdentity::of(op).kind != OpKind::Patch.prefix())
    }
}

/// An outcome in the journal.
struct RecordedEnd {
    seq: u64,
    op: Arc<str>,
    is_failure: bool,
}

/// Returns `true` if an outcome is a failure, which a retry of the run forgets.
fn is_failure(entry: &Entry) -> bool {
    match entry.kind {
        EntryKind::StepFailed | EntryKind::WaitTimedOut | EntryKind::SendRefused | EntryKind::AppendRefused => true,
        EntryKind::ChildEnded => entry.failure().is_some(),
        _ => false,
    }
}

fn numbered(op: &Arc<str>) -> (u64, Arc<str>) {
    (Sum::new().text(op).whole(), op.clone())
}

impl Unasked {
    fn add(&mut self, entry: &Entry) -> Result<(), String> {
        let outcome = match entry.kind {
            EntryKind::StepStarted => {
                self.record.started = Some((entry.attempt, entry.at));
                self.record.first_started.get_or_insert(entry.at);
                return Ok(());
            }
            EntryKind::AttemptFailed => {
                self.record.failed = entry.attempt;
                self.record.first_started.get_or_insert(entry.started.unwrap_or(entry.at));
                self.record.last = Some(Failure::from_payload(payload_of(entry)?)?.into());
                self.record.due = Some(entry.due.ok_or("failed attempt has no retry time")?);
                return Ok(());
            }
            EntryKind::FallingBack => {
                self.record.failed = entry.attempt;
                self.record.falling_back = Some(Failure::from_payload(payload_of(entry)?)?.into());
                return Ok(());
            }
            EntryKind::Heartbeat => {
                self.record.care.get_or_insert_default().progress = Some(payload_of(entry)?.clone());
                return Ok(());
            }
            EntryKind::SleepSet | EntryKind::WaitSet => {
                self.record.due = Some(entry.due.ok_or("sleep or wait has no due time")?);
                return Ok(());
            }
            EntryKind::StepDone => Outcome::Value(payload_of(entry)?.clone()),
            EntryKind::StepFailed => Outcome::Failed(failed_from(payload_of(entry)?, entry.attempt)?.into()),
            EntryKind::SleepDone => Outcome::Slept,
            EntryKind::SignalTaken | EntryKind::QuestionTaken => {
                Outcome::Signal { pos: signal_pos(entry), payload: payload_of(entry)?.clone() }
            }
            EntryKind::WaitTimedOut => Outcome::TimedOut,
            EntryKind::OpCancelled => Outcome::Cancelled,
            EntryKind::Sent => Outcome::Sent(SentTo::from_payload(payload_of(entry)?)?.into()),
            EntryKind::Patched => Outcome::Patched(true),
            EntryKind::Unwinding => Outcome::Unwinding(payload_of(entry)?.clone()),
            EntryKind::Published | EntryKind::Appended | EntryKind::Answered => Outcome::Given(None),
            EntryKind::SendRefused | EntryKind::AppendRefused => {
                Outcome::Refused(RefusedEffect::from_payload(payload_of(entry)?)?.into())
            }
            EntryKind::ChildEnded => Outcome::Signal { pos: signal_pos(entry), payload: payload_of(entry)?.clone() },
            EntryKind::SignalRefused | EntryKind::SignalDiscarded | EntryKind::UndoPlanned => return Ok(()),
            EntryKind::CancelTaken | EntryKind::Retried | EntryKind::Reopened => return Ok(()),
            EntryKind::Restarted | EntryKind::NearlyFull => return Ok(()),
            EntryKind::Rewound | EntryKind::Forked => return Ok(()),
        };
        if self.outcome.is_some() {
            return Err(format!("{} has already ended", entry.op));
        }
        self.outcome = Some(Recorded { seq: entry.seq, at: entry.at, outcome });
        Ok(())
    }
}

fn payload_of(entry: &Entry) -> Result<&Payload, String> {
    entry.payload.as_ref().ok_or_else(|| format!("{} has no payload", entry.kind.as_str()))
}

fn text_of(entry: &Entry) -> Result<String, String> {
    payload_of(entry)?.decode().map_err(|error| format!("not a string: {error}"))
}

/// Returns a signal's inbox position, which is stored as the due time: these entries have no other use for one.
fn signal_pos(entry: &Entry) -> u64 {
    entry.signal_pos().unwrap_or(0)
}

/// The inverse of [`signal_pos`].
pub(super) fn signal_mark(pos: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(pos).unwrap_or(i64::MAX))
}

/// Encodes a signal that no wait could read, with the reason.
pub(super) fn refused_to(value: &Payload, problem: &str) -> Payload {
    let problem = Payload::encode(problem).unwrap_or_else(|_| Payload::recorded("\"\""));
    Payload::recorded(&format!("{{\"value\":{value},\"problem\":{problem}}}"))
}

pub(super) fn failed_to(failed: &FailedStep) -> Payload {
    failure::for_step(ended_to(failed.ended), &failed.failure)
}

pub(super) fn ended_to(ended: StepEnding) -> &'static str {
    match ended {
        StepEnding::Error => "error",
        StepEnding::Timeout => "timeout",
        StepEnding::Interrupted => "interrupted",
        StepEnding::Exhausted(reason) => reason.as_str(),
    }
}

fn failed_from(payload: &Payload, attempts: u32) -> Result<FailedStep, String> {
    let (ended, failure) = failure::of_step(payload)?;
    let ended = match ended.as_str() {
        "error" => StepEnding::Error,
        "timeout" => StepEnding::Timeout,
        "interrupted" => StepEnding::Interrupted,
        other => {
            StepEnding::Exhausted(Reason::from_text(other).ok_or_else(|| format!("unknown step ending {other:?}"))?)
        }
    };
    Ok(FailedStep { ended, attempts, failure })
}
