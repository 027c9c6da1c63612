//! Finds the event of a pool that crashes the process.
//!
//! If the process died while the pool was running, one of its events may be the cause. So the next events start only
//! once it is durable that they do, with one more death counted for each. An event that comes back with deaths runs
//! alone, so that no other is blamed, and is given up after too many.

use super::outcome::Handling;
use super::read_ahead::HELD_MAX;
use crate::failure::{Cause, Failure};
use crate::queue::Queued;

/// The events that may crash the process.
#[derive(Clone, Debug)]
pub(super) struct PoolSuspects {
    max_recoveries: u32,
    /// How many events are still to be started with care, because the process died while the pool was running.
    wary: usize,
    /// Events of calls that start once that is durable.
    marked: Vec<Vec<Queued>>,
    /// Events of calls that may start, because their marks are durable.
    cleared: Vec<Vec<Queued>>,
    /// Whether the event being handled was also being handled when the process died.
    is_alone: bool,
}

impl PoolSuspects {
    /// Creates the suspects of a pool that handles at most `at_once` events at a time.
    pub(super) fn new(recoveries: u32, max_recoveries: u32, at_once: usize) -> Self {
        // The events that were being handled when the process died are among the first.
        let wary = if recoveries > 0 { HELD_MAX.saturating_add(at_once) } else { 0 };
        Self { max_recoveries, wary, marked: Vec::new(), cleared: Vec::new(), is_alone: false }
    }

    /// Returns `true` if an event must wait for the calls that are running or about to start, because one that may be
    /// deadly runs alone.
    pub(super) fn must_wait(&self, next: &Queued, at_work: usize) -> bool {
        at_work > 0 && (deaths_of(next) > 0 || self.is_alone)
    }

    /// Returns how many of the next events are handled together.
    pub(super) fn together<'a>(&self, next: impl Iterator<Item = &'a Queued>) -> usize {
        next.take_while(|queued| deaths_of(queued) == 0).count().max(1)
    }

    /// Decides how events start. Returns `None` if they are marked: they start once that is durable.
    pub(super) fn admit(&mut self, mut events: Vec<Queued>) -> Option<(Vec<Queued>, Handling)> {
        let deaths = first_deaths(&events);
        self.is_alone = deaths > 0;
        if deaths > self.max_recoveries.saturating_add(1) {
            // It crashes the process even when `on_dead` looks at it.
            return Some((events, Handling::GiveUp(deadly(deaths))));
        }
        let is_unreadable = events.iter().all(|queued| queued.event.is_err());
        if is_unreadable || (self.wary == 0 && deaths == 0) {
            return Some((events, Handling::Execute));
        }
        self.wary = self.wary.saturating_sub(events.len());
        for event in events.iter_mut().filter_map(|queued| queued.event.as_mut().ok()) {
            event.deaths = event.deaths.saturating_add(1);
        }
        self.marked.push(events);
        None
    }

    /// Notes that the marks of these calls are durable.
    pub(super) fn clear(&mut self, begins: Vec<Vec<Queued>>) {
        self.cleared.extend(begins);
    }

    /// Decides how the events start whose marks are durable.
    pub(super) fn admit_cleared(&mut self) -> Vec<(Vec<Queued>, Handling)> {
        let max_recoveries = self.max_recoveries;
        let admit = |events: Vec<Queued>| {
            let deaths = first_deaths(&events).saturating_sub(1);
            let is_deadly = deaths > max_recoveries;
            (events, if is_deadly { Handling::Fail(deadly(deaths)) } else { Handling::Execute })
        };
        std::mem::take(&mut self.cleared).into_iter().map(admit).collect()
    }

    /// Returns the number of calls whose marks are not submitted yet.
    pub(super) fn marked(&self) -> usize {
        self.marked.len()
    }

    /// Takes the events to mark.
    pub(super) fn take_marked(&mut self) -> Vec<Vec<Queued>> {
        std::mem::take(&mut self.marked)
    }

    /// Takes the events to mark without their marks, in order, because they do not start after all.
    pub(super) fn unmark(&mut self) -> Vec<Queued> {
        let mut events: Vec<Queued> = std::mem::take(&mut self.marked).into_iter().flatten().collect();
        self.wary += events.len();
        for event in events.iter_mut().filter_map(|queued| queued.event.as_mut().ok()) {
            event.deaths = event.deaths.saturating_sub(1);
        }
        events
    }
}

/// Returns how many times the process is known to have died while an event was being handled.
fn deaths_of(queued: &Queued) -> u32 {
    queued.event.as_ref().map_or(0, |event| event.deaths)
}

/// Returns the deaths of a call, which are those of its first event: one that has any runs alone.
fn first_deaths(events: &[Queued]) -> u32 {
    events.first().map_or(0, deaths_of)
}

/// Returns the failure of an event that crashes the process.
fn deadly(deaths: u32) -> Failure {
    let problem = format!(
        "the process died {deaths} times while handling this event; fix the handler, then retry the dead letter"
    );
    Failure::new(Cause::Error, problem).permanent()
}
