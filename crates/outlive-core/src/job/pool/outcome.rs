//! Calls of a pool's handler, and what becomes of their events.

use crate::event::Event;
use crate::failure::{Cause, Failure};
use crate::id::Name;
use crate::job::call::End;
use crate::job::policy::{FailureVerdict, Policy};
use crate::kind::JobKind;
use crate::payload::Payload;
use crate::queue::{Dead, PushTarget, Queued};
use crate::store::commit::Write;
use crate::time::Timestamp;

/// Events to handle in one call.
#[derive(Clone, PartialEq, Debug)]
pub struct Dispatch {
    /// The events. All of them decode, if the handler is called.
    pub events: Vec<Queued>,
    /// When the call starts.
    pub began: Timestamp,
    /// What to do with the events.
    pub handling: Handling,
}

impl Dispatch {
    /// Creates a call of the handler, or the failure of a call for an event whose row does not decode.
    pub(super) fn new(events: Vec<Queued>, began: Timestamp) -> Self {
        let damage = events.iter().find_map(|queued| queued.event.as_ref().err());
        let handling = damage.map_or(Handling::Execute, |problem| Handling::Fail(unreadable(problem.clone())));
        Self { events, began, handling }
    }

    /// Returns the number of the attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        let first = self.events.first().and_then(|queued| queued.event.as_ref().ok());
        first.map_or(1, |event| event.failed.saturating_add(1))
    }
}

/// What to do with the events of a call.
#[derive(Clone, PartialEq, Debug)]
pub enum Handling {
    /// Call the handler.
    Execute,
    /// Do not call the handler: the call has failed already. What is given up is shown to `on_dead`.
    Fail(Failure),
    /// Do not call anything: the events are given up, and not even `on_dead` may see them.
    GiveUp(Failure),
}

/// The end of a call: the fate of each event, and the writes it asked for.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The events and their fates.
    pub events: Vec<(Queued, Fate)>,
    /// When the call started.
    pub began: Timestamp,
    /// When it ended.
    pub at: Timestamp,
    /// What the handler and `on_dead` send. If one write is refused, so is the whole call.
    pub writes: Vec<Write>,
}

impl Finished {
    /// Returns `true` if the handler failed, so that all writes come from `on_dead`.
    pub(super) fn is_failed(&self) -> bool {
        self.events.iter().any(|(_, fate)| matches!(fate, Fate::Failed { .. }))
    }

    /// Returns the events that are given up, each with its dead letter.
    pub fn dead(&self) -> impl Iterator<Item = (&Queued, &Dead)> {
        self.events.iter().filter_map(|(queued, fate)| match fate {
            Fate::Failed { dead: Some(dead), .. } => Some((queued, &**dead)),
            _ => None,
        })
    }
}

/// The fate of an event.
#[derive(Clone, Debug)]
pub enum Fate {
    /// Done.
    Done,
    /// Failed. It is retried or becomes a dead letter.
    Failed {
        /// The failure.
        failure: Failure,
        /// The number of failed attempts, including this one.
        failed: u32,
        /// When the first attempt started.
        since: Timestamp,
        /// Whether there is another attempt.
        verdict: FailureVerdict,
        /// The dead letter, if the event is given up.
        dead: Option<Box<Dead>>,
    },
}

/// Decides the fate of events. Shared by all calls of a pool, which end on their own.
#[derive(Clone, Debug)]
pub struct EventJudge {
    pub(super) policy: Policy,
    pub(super) id: Name,
    pub(super) seed: u64,
}

impl EventJudge {
    /// Decides the fate of all events of a call.
    #[must_use]
    pub fn decide(&self, events: Vec<Queued>, end: End, began: Timestamp, at: Timestamp) -> Finished {
        let failure = match end {
            End::Done(_) => None,
            End::Failed(failure) => Some(failure),
            End::Unreadable(problem) => Some(unreadable(problem)),
        };
        let fate = |queued: &Queued| match &failure {
            Some(failure) => self.fate(queued, failure, began, at),
            None => Fate::Done,
        };
        let with_fate = |queued: Queued| {
            let fate = fate(&queued);
            (queued, fate)
        };
        Finished { events: events.into_iter().map(with_fate).collect(), began, at, writes: Vec::new() }
    }

    fn fate(&self, queued: &Queued, failure: &Failure, began: Timestamp, now: Timestamp) -> Fate {
        let tried = queued.event.as_ref().ok();
        let failed = tried.map_or(0, |event| event.failed).saturating_add(1);
        let since = tried.and_then(|event| event.tried_at).unwrap_or(began);
        let verdict = self.policy.judge(failure, failed, since, now, self.seed ^ queued.pos);
        let dead = matches!(verdict, FailureVerdict::GiveUp(_)).then(|| {
            Box::new(Dead {
                pos: queued.pos,
                job: JobKind::job_of(&self.id),
                id: self.id.clone(),
                at: now,
                attempts: failed,
                failure: failure.to_payload(),
                event: readable(queued.event.clone()),
                place: PushTarget::Queue,
            })
        });
        Fate::Failed { failure: failure.clone(), failed, since, verdict, dead }
    }
}

/// Returns the event, or an empty one if its row does not decode.
pub(super) fn readable(event: Result<Event, String>) -> Event {
    event.unwrap_or_else(|_| Event::new(Payload::recorded("null")))
}

/// Returns the failure of an event that does not decode.
fn unreadable(problem: String) -> Failure {
    Failure::new(Cause::Error, problem).permanent()
}
