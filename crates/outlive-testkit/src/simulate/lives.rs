//! Checks the lifecycle events of a job, whatever its handlers do.

use std::collections::{BTreeMap, BTreeSet};

use outlive::Timestamp;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::job::{FlushReason, HandlerKind};
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::{Detail, LifecycleRecord, LifecycleRecordKind};
use outlive_core::queue::Dead;
use outlive_core::store::query::{FeedContent, FeedItem};

use super::accepted::Acceptance;
use super::kept::Kept;
use super::skew::shifted;

/// A job instance id and everything known about it. Several instances may have had that id.
pub(super) struct Life<'a> {
    pub(super) id: &'a Name,
    pub(super) lines: &'a [&'a FeedItem],
    pub(super) kept: Option<&'a Kept>,
    pub(super) dead: &'a [Dead],
    pub(super) acceptance: &'a Acceptance,
    /// The largest clock error. One worker may find that a batch is due, and another may act on it.
    pub(super) skew_max_ms: i64,
}

/// The history of one instance, according to its lifecycle events.
#[derive(Default)]
struct Instance {
    /// Number of its last lifecycle event.
    number: u64,
    /// For each event position, how often it failed and when it may be retried; 0 stands for `execute`.
    tried: BTreeMap<u64, (u32, Timestamp)>,
    /// How often `execute` finished, including when it was given up.
    runs: u64,
    /// Number of events handled.
    handled: u64,
    /// The earliest time the batch is due.
    flush_at: Option<Timestamp>,
    is_terminated: bool,
    /// How often it was terminated: an event accepted after that starts it anew, under the same number.
    terminations: usize,
}

/// How the events of an id ended.
#[derive(Default)]
struct Ends {
    done: BTreeSet<u64>,
    /// Events that were given up, with their number of attempts.
    given_up: BTreeMap<u64, u32>,
    /// Number of events that left in batches.
    flushed: u64,
    cleared: u64,
}

impl Life<'_> {
    pub(super) fn check(&self) -> Result<(), String> {
        let mut instances: BTreeMap<InstanceNum, Instance> = BTreeMap::new();
        let mut ends = Ends::default();
        for item in self.lines {
            let one = instances.entry(item.num).or_default();
            one.number += 1;
            if item.number != one.number {
                return Err(format!("lifecycle event {} is numbered {}", one.number, item.number));
            }
            if let FeedContent::Lifecycle(news) = &item.content {
                one.tell(news, self, &mut ends)?;
            }
        }
        self.check_counts(&instances)?;
        self.check_starts(&instances)?;
        match JobKind::of(self.id) {
            Some(JobKind::Debounce) => self.check_batches(&instances, &ends),
            _ => self.check_events(&instances, &ends),
        }
    }

    /// Checks that the counts of an instance match its lifecycle events.
    fn check_counts(&self, instances: &BTreeMap<InstanceNum, Instance>) -> Result<(), String> {
        let Some(Kept { instance, record, .. }) = self.kept else { return Ok(()) };
        let Some(item) = instances.get(&instance.num) else { return Ok(()) };
        if item.is_terminated {
            return Err("it was terminated, but still exists".to_owned());
        }
        let kind = JobKind::of(self.id);
        if matches!(kind, Some(JobKind::Continuous | JobKind::Task)) && record.runs != item.runs {
            return Err(format!("it counts {} runs, but reported {}", record.runs, item.runs));
        }
        if kind == Some(JobKind::Task) && record.events != item.handled {
            return Err(format!("it counts {} events, but reported {}", record.events, item.handled));
        }
        Ok(())
    }

    /// Checks that every started instance exists or was terminated.
    fn check_starts(&self, instances: &BTreeMap<InstanceNum, Instance>) -> Result<(), String> {
        let started = self.acceptance.started.get(self.id).copied().unwrap_or(0);
        let terminated: usize = instances.values().map(|item| item.terminations).sum();
        match terminated + usize::from(self.kept.is_some()) {
            found if JobKind::of(self.id) != Some(JobKind::Continuous) || found == started => Ok(()),
            _ => Err(format!("it was started {started} times and terminated {terminated} times")),
        }
    }

    /// Checks that each event is done once, or is a dead letter.
    fn check_events(&self, instances: &BTreeMap<InstanceNum, Instance>, ends: &Ends) -> Result<(), String> {
        let dead: BTreeMap<u64, u32> = self.dead.iter().map(|dead| (dead.pos, dead.attempts)).collect();
        let queued = self.kept.map_or(0, |kept| kept.queued);
        let is_retried = self.acceptance.retried.contains(&JobKind::job_of(self.id));
        let mut accepted_count = 0;
        for (pos, accepted) in self.acceptance.events.iter().filter(|(_, accepted)| accepted.id == *self.id) {
            accepted_count += 1;
            let is_gone = instances.get(&accepted.num).is_some_and(|item| item.terminations > 0);
            if ends.done.contains(pos) || is_gone {
                continue;
            }
            match (ends.given_up.get(pos), dead.get(pos)) {
                (None, None) if queued == 0 => return Err(format!("event {pos} was accepted, but is nowhere")),
                (Some(_), None) if !is_retried => {
                    return Err(format!("event {pos} was given up, but is not a dead letter"));
                }
                (Some(attempts), Some(item)) if attempts != item => {
                    return Err(format!(
                        "event {pos} was given up after {attempts} attempts, but its dead letter says {item}"
                    ));
                }
                _ => {}
            }
        }
        if let Some(pos) = dead.keys().find(|pos| ends.done.contains(pos)) {
            return Err(format!("event {pos} was handled, but is a dead letter"));
        }
        // A retried dead letter is a new event that replaces the old one. A terminated instance takes its events with
        // it.
        let (done, dead) = (ends.done.len() as u64, dead.len() as u64);
        let is_terminated = instances.values().any(|item| item.terminations > 0);
        match done + dead + queued {
            found if found == accepted_count || (is_terminated && found < accepted_count) => Ok(()),
            _ => Err(format!("{accepted_count} events were accepted: {done} done, {dead} given up, {queued} queued")),
        }
    }

    /// Checks that each event left in one batch.
    fn check_batches(&self, instances: &BTreeMap<InstanceNum, Instance>, ends: &Ends) -> Result<(), String> {
        let accepted = self.acceptance.events.values().filter(|accepted| accepted.id == *self.id).count() as u64;
        let dead: u64 = self.dead.iter().map(|dead| dead.event.batch.max(1)).sum();
        let (flushed, cleared) = (ends.flushed, ends.cleared);
        // A terminated instance takes its events with it.
        let is_terminated = instances.values().any(|item| item.terminations > 0);
        match flushed + cleared + dead {
            left if left == accepted || (is_terminated && left < accepted) => Ok(()),
            _ => Err(format!("{accepted} events were accepted: {flushed} flushed, {cleared} cleared, {dead} given up")),
        }
    }
}

impl Instance {
    fn tell(&mut self, news: &LifecycleRecord, life: &Life<'_>, ends: &mut Ends) -> Result<(), String> {
        let (kind, skew_max_ms) = (JobKind::of(life.id), life.skew_max_ms);
        let detail: Detail = news.detail.as_ref().and_then(|detail| detail.decode().ok()).unwrap_or_default();
        let hooks = [HandlerKind::Error, HandlerKind::Idle].map(HandlerKind::as_str);
        let is_hook = detail.handler.as_deref().is_some_and(|handler| hooks.contains(&handler));
        let pos = detail.event.unwrap_or(0);
        match news.kind {
            LifecycleRecordKind::JobFailed if is_hook => {}
            LifecycleRecordKind::JobFailed => self.failed(news, &detail, ends)?,
            LifecycleRecordKind::JobExecuted | LifecycleRecordKind::EventHandled => {
                self.next_attempt(pos, news)?;
                if pos > 0 && (!ends.done.insert(pos) || ends.given_up.contains_key(&pos)) {
                    return Err(format!("event {pos} was done twice"));
                }
                self.runs += u64::from(news.kind == LifecycleRecordKind::JobExecuted);
                self.handled += u64::from(news.kind == LifecycleRecordKind::EventHandled);
                let is_counted = matches!(kind, Some(JobKind::Continuous | JobKind::Task));
                if is_counted && detail.run.is_some_and(|run| run != self.runs) {
                    return Err(format!("run {} is reported as number {:?}", self.runs, detail.run));
                }
            }
            LifecycleRecordKind::JobTerminated => {
                let (number, terminations) = (self.number, self.terminations + 1);
                *self = Self { number, terminations, is_terminated: true, ..Self::default() };
            }
            LifecycleRecordKind::JobStarted => self.is_terminated = false,
            // A failed execution is not retried.
            LifecycleRecordKind::JobStopped if kind == Some(JobKind::Continuous) => self.tried.clear(),
            LifecycleRecordKind::DebounceStarted => self.flush_at = detail.at.map(|due| shifted(due, -2 * skew_max_ms)),
            LifecycleRecordKind::DebounceFlushed => {
                let timed = [FlushReason::Window, FlushReason::Quiet].map(FlushReason::as_str);
                let is_timed = detail.reason.as_deref().is_some_and(|reason| timed.contains(&reason));
                if let Some(due) = self.flush_at.take().filter(|due| is_timed && news.at < *due) {
                    return Err(format!("a batch was flushed early, at {} instead of {due}", news.at));
                }
                ends.flushed += detail.events.unwrap_or(0);
            }
            LifecycleRecordKind::DebounceCleared => {
                self.tried.clear();
                ends.cleared += detail.events.unwrap_or(0);
            }
            _ => {}
        }
        Ok(())
    }

    fn failed(&mut self, news: &LifecycleRecord, detail: &Detail, ends: &mut Ends) -> Result<(), String> {
        let pos = detail.event.unwrap_or(0);
        self.next_attempt(pos, news)?;
        match detail.retry_at {
            Some(due) => drop(self.tried.insert(pos, (news.attempt, due))),
            None if pos == 0 => self.runs += 1,
            None if ends.done.contains(&pos) || ends.given_up.insert(pos, news.attempt).is_some() => {
                return Err(format!("event {pos} was done, but also given up"));
            }
            None => {}
        }
        Ok(())
    }

    /// Checks that a finished attempt is the one after the last, and not early.
    fn next_attempt(&mut self, pos: u64, news: &LifecycleRecord) -> Result<(), String> {
        let (failed, due) = self.tried.remove(&pos).unwrap_or((0, Timestamp::AT_ONCE));
        let what = if pos == 0 { "execute".to_owned() } else { format!("event {pos}") };
        if news.attempt != failed + 1 {
            return Err(format!("attempt {} of {what} is reported as number {}", failed + 1, news.attempt));
        }
        if news.at < due {
            return Err(format!("attempt {} of {what} came early, at {} instead of {due}", news.attempt, news.at));
        }
        Ok(())
    }
}
