//! Decides what happens to events after a call, and shows those that are given up to `on_dead`.

use std::sync::Arc;

use outlive_core::event::Event;
use outlive_core::failure::{Cause, Failure};
use outlive_core::id::Name;
use outlive_core::job::{End, Verdict};
use outlive_core::kind::JobKind;
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, PushTarget, Queued};
use outlive_core::store::commit::Write;
use outlive_core::time::Timestamp;
use tracing::Instrument;

use crate::instance::logs;
use crate::runtime::handlers::{CallPolicy, Ended, HandlerEnv, PoolCall, PoolHandlers, PoolRules};

/// The end of a call: the fate of each event, and the writes it asked for.
#[derive(Clone)]
pub(super) struct Finished {
    pub(super) events: Vec<(Queued, Fate)>,
    pub(super) began: Timestamp,
    pub(super) at: Timestamp,
    pub(super) writes: Vec<Write>,
}

/// The fate of an event.
#[derive(Clone)]
pub(super) enum Fate {
    /// Done.
    Done,
    /// Failed, this many times by now. It is retried, or becomes this dead letter.
    Failed { failure: Failure, failed: u32, since: Timestamp, verdict: Verdict, letter: Option<Box<Dead>> },
}

/// Who is shown an event that is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    ToUser,
    ToNobody,
}

/// Decides the fate of events.
pub(super) struct OutcomeJudge {
    pub(super) handlers: Arc<dyn PoolHandlers>,
    pub(super) care: CallPolicy,
    pub(super) rules: PoolRules,
    pub(super) around: Arc<HandlerEnv>,
    pub(super) id: Name,
    pub(super) seed: u64,
    pub(super) shown: Shown,
}

impl OutcomeJudge {
    /// Decides the fate of all events of a call.
    pub(super) async fn decide(&self, queued: Vec<Queued>, ended: Ended, began: Timestamp) -> Finished {
        let now = || self.around.env.clock.now();
        let (at, mut writes, mut events) = (now(), ended.writes, Vec::with_capacity(queued.len()));
        let failure = match ended.end {
            End::Done(_) => None,
            End::Failed(failure) => Some(failure),
            End::Unreadable(problem) => Some(Failure::new(Cause::Error, problem).permanent()),
        };
        for queued in queued {
            let fate = failure.as_ref().map_or(Fate::Done, |failure| self.fate(&queued, failure, began, at));
            if let (Fate::Failed { letter: Some(letter), .. }, Shown::ToUser) = (&fate, self.shown) {
                writes.extend(self.show(&queued, letter, now()).await);
            }
            events.push((queued, fate));
        }
        Finished { events, began, at, writes }
    }

    fn fate(&self, queued: &Queued, failure: &Failure, began: Timestamp, now: Timestamp) -> Fate {
        let event = event_of(queued);
        let (failed, since) = (event.failed.saturating_add(1), event.tried_at.unwrap_or(began));
        let verdict = self.rules.policy.judge(failure, failed, since, now, self.seed ^ queued.pos);
        let letter = matches!(verdict, Verdict::GiveUp(_)).then(|| {
            let (job, failure) = (JobKind::job_of(&self.id), failure.to_payload());
            let (id, place) = (self.id.clone(), PushTarget::Queue);
            Box::new(Dead { pos: queued.pos, job, id, at: now, attempts: failed, failure, event, place })
        });
        Fate::Failed { failure: failure.clone(), failed, since, verdict, letter }
    }

    /// Shows a dead letter to the user. Returns the writes that `on_dead` asked for.
    async fn show(&self, queued: &Queued, letter: &Dead, now: Timestamp) -> Vec<Write> {
        let given = PoolCall {
            around: self.around.clone(),
            care: CallPolicy { retry_if: None, ..self.care.clone() },
            id: self.id.clone(),
            handler: "on_dead",
            events: vec![(queued.pos, letter.event.clone())],
            pushed_at: queued.at,
            started_at: now,
        };
        let span = logs::job(self.id.as_str(), "on_dead", 1);
        let Some(calling) = span.in_scope(|| self.handlers.dead(given, letter)) else { return Vec::new() };
        let Ended { end, writes } = calling.instrument(span).await;
        if let End::Failed(failure) = end {
            logs::handler_failed(self.id.as_str(), "on_dead", 1, &failure);
        }
        writes
    }
}

/// Returns the event, or an empty one if its row does not decode.
pub(super) fn event_of(queued: &Queued) -> Event {
    queued.event.clone().unwrap_or_else(|_| Event::new(Payload::recorded("null")))
}
