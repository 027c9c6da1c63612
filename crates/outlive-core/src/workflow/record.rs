//! What a journal says, put in order by operation, for replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::failure::{self, Failure};
use crate::journal::{Entry, EntryKind};
use crate::mutant::{Mutant, is_on};
use crate::payload::Payload;
use crate::retry::Reason;
use crate::sum::Sum;
use crate::time::Timestamp;

use super::op::{Ended, FailedStep, Outcome};

/// What is known of one operation.
#[derive(Default, Debug)]
pub(super) struct Record {
    /// Where it was called when it was recorded.
    pub(super) site: Arc<str>,
    /// When its first attempt began.
    pub(super) first_started: Option<Timestamp>,
    /// The attempt that began last, if that was recorded, and when.
    pub(super) started: Option<(u32, Timestamp)>,
    /// How many attempts have failed.
    pub(super) failed: u32,
    /// What the last attempt failed with.
    pub(super) last: Option<Box<Failure>>,
    /// When it is to go on.
    pub(super) due: Option<Timestamp>,
    /// What all attempts together failed with, if the fallback is to give the value.
    pub(super) falling_back: Option<Box<Failure>>,
    /// How it ended.
    pub(super) outcome: Option<Recorded>,
}

/// A recorded outcome.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) outcome: Outcome,
}

/// A journal, by operation.
#[derive(Default)]
pub(super) struct Records {
    /// Each operation in the order of its first entry, with its record until that is asked for.
    ops: Vec<(Arc<str>, Option<Record>)>,
    /// Where the record of an operation is, by a number for its text, which is compared faster, and the text.
    places: BTreeMap<(u64, Arc<str>), usize>,
    /// Where the next operation that is asked for most likely is.
    next: usize,
    /// How many have not been asked for.
    unasked: usize,
    pub(super) seq: u64,
    pub(super) cancel: Option<String>,
    /// Each signal that was given to a wait, with the entry that did; later ones last.
    pub(super) given: Vec<(u64, u64)>,
    /// Each signal that was refused.
    pub(super) refused: Vec<u64>,
}

impl Records {
    /// Puts a journal in order.
    ///
    /// # Errors
    /// A sentence, if an entry cannot be what was written.
    pub(super) fn fold(entries: &[Entry]) -> Result<Self, String> {
        let mut records = Self::default();
        let mut ends: Vec<(Arc<str>, EntryKind)> = Vec::new();
        for entry in entries {
            if entry.seq != records.seq + 1 {
                return Err(format!("entry {} follows entry {} in the journal", entry.seq, records.seq));
            }
            records.seq = entry.seq;
            if entry.kind == EntryKind::SignalTaken {
                records.given.push((signal_pos(entry), entry.seq));
            }
            if entry.kind == EntryKind::SignalRefused {
                records.refused.push(signal_pos(entry));
            }
            if entry.kind.is_outcome() {
                ends.push((entry.op.clone(), entry.kind));
            }
            records.add(entry, &mut ends).map_err(|problem| format!("entry {} is damaged: {problem}", entry.seq))?;
        }
        records.next = 0;
        Ok(records)
    }

    fn add(&mut self, entry: &Entry, ends: &mut Vec<(Arc<str>, EntryKind)>) -> Result<(), String> {
        match entry.kind {
            EntryKind::Retried => self.forget_last_failures(ends),
            EntryKind::Reopened | EntryKind::SignalDiscarded => {}
            EntryKind::CancelTaken => self.cancel = Some(text_of(entry)?),
            _ => {
                let record = self.of(&entry.op);
                record.site = entry.site.clone();
                record.add(entry)?;
            }
        }
        Ok(())
    }

    /// What failed last is tried again; what came before it stays as it was.
    fn forget_last_failures(&mut self, ends: &mut Vec<(Arc<str>, EntryKind)>) {
        while let Some((op, EntryKind::StepFailed | EntryKind::WaitTimedOut)) = ends.last() {
            self.take(op);
            ends.pop();
        }
    }

    /// The record of an operation, made if there is none.
    fn of(&mut self, op: &Arc<str>) -> &mut Record {
        let place = *self.places.entry(numbered(op)).or_insert_with(|| {
            self.ops.push((op.clone(), None));
            self.ops.len() - 1
        });
        let record = &mut self.ops[place].1;
        self.unasked += usize::from(record.is_none());
        record.get_or_insert_default()
    }

    /// The record of an operation, which is now asked for.
    pub(super) fn take(&mut self, op: &Arc<str>) -> Option<Record> {
        let place = match self.ops.get(self.next) {
            None if self.unasked == 0 => return None,
            Some((next, _)) if next == op => self.next,
            _ => *self.places.get(&numbered(op))?,
        };
        let record = self.ops[place].1.take()?;
        self.next = place + 1;
        self.unasked -= 1;
        if self.unasked == 0 {
            // The replay is over, and what it took is not needed any more.
            (self.ops, self.places) = Default::default();
        }
        Some(record)
    }

    /// Whether anything is recorded that nobody has asked for.
    pub(super) fn has_unasked(&self) -> bool {
        self.unasked > 0
    }

    /// The operations that nobody has asked for, and where they were called.
    pub(super) fn unasked(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.ops.iter().filter_map(|(op, record)| Some((op, &record.as_ref()?.site)))
    }
}

fn numbered(op: &Arc<str>) -> (u64, Arc<str>) {
    (Sum::new().text(op).whole(), op.clone())
}

impl Record {
    fn add(&mut self, entry: &Entry) -> Result<(), String> {
        let outcome = match entry.kind {
            EntryKind::StepStarted => {
                self.started = Some((entry.attempt, entry.at));
                self.first_started.get_or_insert(entry.at);
                return Ok(());
            }
            EntryKind::AttemptFailed => {
                self.failed = entry.attempt;
                self.first_started.get_or_insert(entry.started.unwrap_or(entry.at));
                self.last = Some(Failure::from_payload(payload_of(entry)?)?.into());
                self.due = Some(entry.due.ok_or("a failed attempt without the time of the next")?);
                return Ok(());
            }
            EntryKind::StepFailed if is_on(Mutant::FailureForgotten) => return Ok(()),
            EntryKind::FallingBack if is_on(Mutant::FallbackForgotten) => return Ok(()),
            EntryKind::FallingBack => {
                self.failed = entry.attempt;
                self.falling_back = Some(Failure::from_payload(payload_of(entry)?)?.into());
                return Ok(());
            }
            EntryKind::SleepSet | EntryKind::WaitSet => {
                self.due = Some(entry.due.ok_or("a pause without an end")?);
                return Ok(());
            }
            EntryKind::StepDone => Outcome::Value(payload_of(entry)?.clone()),
            EntryKind::StepFailed => Outcome::Failed(failed_from(payload_of(entry)?, entry.attempt)?.into()),
            EntryKind::SleepDone => Outcome::Slept,
            EntryKind::SignalTaken => Outcome::Signal { pos: signal_pos(entry), payload: payload_of(entry)?.clone() },
            EntryKind::WaitTimedOut => Outcome::TimedOut,
            EntryKind::OpCancelled => Outcome::Cancelled,
            EntryKind::SignalRefused | EntryKind::SignalDiscarded => return Ok(()),
            EntryKind::CancelTaken | EntryKind::Retried | EntryKind::Reopened => return Ok(()),
        };
        if self.outcome.is_some() {
            return Err(format!("{} has ended before", entry.op));
        }
        self.outcome = Some(Recorded { seq: entry.seq, at: entry.at, outcome });
        Ok(())
    }
}

fn payload_of(entry: &Entry) -> Result<&Payload, String> {
    entry.payload.as_ref().ok_or_else(|| format!("{} without a payload", entry.kind.as_str()))
}

fn text_of(entry: &Entry) -> Result<String, String> {
    payload_of(entry)?.decode().map_err(|error| format!("not a text: {error}"))
}

/// A signal's place in the inbox is kept in the column of due times, which a taken signal has no other use for.
fn signal_pos(entry: &Entry) -> u64 {
    entry.due.map_or(0, |due| u64::try_from(due.as_millis()).unwrap_or(0))
}

/// The inverse of [`signal_pos`].
pub(super) fn signal_mark(pos: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(pos).unwrap_or(i64::MAX))
}

/// A signal that could not be read, and why.
pub(super) fn refused_to(value: &Payload, problem: &str) -> Payload {
    let problem = Payload::encode(problem).unwrap_or_else(|_| Payload::recorded("\"\""));
    Payload::recorded(&format!("{{\"value\":{value},\"problem\":{problem}}}"))
}

pub(super) fn failed_to(failed: &FailedStep) -> Payload {
    failure::for_step(ended_to(failed.ended), &failed.failure)
}

pub(super) fn ended_to(ended: Ended) -> &'static str {
    match ended {
        Ended::Error => "error",
        Ended::Timeout => "timeout",
        Ended::Interrupted => "interrupted",
        Ended::Exhausted(reason) => reason.as_str(),
    }
}

fn failed_from(payload: &Payload, attempts: u32) -> Result<FailedStep, String> {
    let (ended, failure) = failure::of_step(payload)?;
    let ended = match ended.as_str() {
        "error" => Ended::Error,
        "timeout" => Ended::Timeout,
        "interrupted" => Ended::Interrupted,
        other => Ended::Exhausted(Reason::from_text(other).ok_or_else(|| format!("a step cannot end by {other:?}"))?),
    };
    Ok(FailedStep { ended, attempts, failure })
}
