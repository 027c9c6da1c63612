//! Records everything that happens in one trial, in order: what was written, which step bodies ran, and where the
//! process died.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use outlive::clock::Clock;
use outlive::{HookAction, StepCall, StepHook, Timestamp};
use outlive_core::id::InstanceNum;
use outlive_core::store::commit::{Answer, Write};

use crate::clock::TestClock;
use crate::faults::{Fault, Witness};
use crate::hook::Steps;

use super::ledger::Effect;

/// One thing that happened.
pub(super) struct Event {
    pub(super) at: Timestamp,
    /// Process lifetime, from 1.
    pub(super) life: u32,
    pub(super) what: What,
}

/// A kind of event.
pub(super) enum What {
    /// A batch is durable; `refused` says which of its writes had no effect.
    Written { commit: u64, batch: Arc<Vec<Write>>, refused: Vec<bool> },
    /// The process died at a batch.
    Died { fault: Fault, batch: Arc<Vec<Write>> },
    /// A step body began.
    Body(Effect),
}

/// Records what happens.
pub(super) struct Tape {
    inner: Mutex<Inner>,
    clock: TestClock,
    started: Timestamp,
    /// Fakes that replace step bodies.
    steps: Steps,
}

#[derive(Default)]
struct Inner {
    /// The number of process lifetimes that are over.
    lives: u32,
    /// Whether the start of the run is durable.
    is_started: bool,
    events: Vec<Event>,
    /// The ids of all runs that were started.
    ids: BTreeMap<InstanceNum, String>,
}

impl Inner {
    /// Notes the ids of the runs that a write has started, also with what it carries.
    fn note_ids(&mut self, write: &Write, answer: &Answer) {
        match (write, answer) {
            (Write::Start(start), Answer::Started { num, .. }) => {
                self.ids.insert(*num, start.id.to_string());
            }
            (Write::Commit(commit), Answer::DoneWith(answers)) => {
                commit.writes.iter().zip(answers).for_each(|(write, answer)| self.note_ids(write, answer));
            }
            (Write::Turn(turn), Answer::DoneWith(answers)) => {
                turn.writes.iter().zip(answers).for_each(|(write, answer)| self.note_ids(write, answer));
            }
            _ => {}
        }
    }
}

impl Tape {
    pub(super) fn new(clock: TestClock, steps: Steps) -> Self {
        let started = clock.now();
        Self { inner: Mutex::new(Inner::default()), clock, started, steps }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn push(&self, what: What) {
        let at = self.clock.now();
        let mut inner = self.lock();
        let life = inner.lives + 1;
        inner.events.push(Event { at, life, what });
    }

    /// Returns when the trial began.
    pub(super) fn started(&self) -> Timestamp {
        self.started
    }

    pub(super) fn life(&self) -> u32 {
        self.lock().lives + 1
    }

    pub(super) fn is_started(&self) -> bool {
        self.lock().is_started
    }

    pub(super) fn next_life(&self) {
        self.lock().lives += 1;
    }

    /// Returns the ids of all runs that were started.
    pub(super) fn ids(&self) -> BTreeMap<InstanceNum, String> {
        self.lock().ids.clone()
    }

    /// Takes all recorded events, leaving the tape empty.
    pub(super) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().events)
    }
}

impl Witness for Tape {
    fn written(&self, commit: u64, batch: &Arc<Vec<Write>>, answers: &[Answer]) {
        let is_refused = |answer: &Answer| {
            use Answer::{Fenced, Refused, Unseen, WriteRefused};
            matches!(answer, Fenced | Unseen(_) | Refused(_) | WriteRefused { .. })
        };
        let refused = answers.iter().map(is_refused).collect();
        self.lock().is_started |= batch.iter().any(|write| matches!(write, Write::Start(_)));
        batch.iter().zip(answers).for_each(|(write, answer)| self.lock().note_ids(write, answer));
        self.push(What::Written { commit, batch: batch.clone(), refused });
    }

    fn died(&self, fault: Fault, batch: &Arc<Vec<Write>>) {
        self.push(What::Died { fault, batch: batch.clone() });
    }
}

impl StepHook for Tape {
    fn before(&self, call: &StepCall<'_>) -> HookAction {
        let is_fake = self.steps.is_mocked(call.step);
        self.push(What::Body(Effect {
            run: call.run.to_owned(),
            run_number: call.run_number,
            step: call.step.to_owned(),
            key: call.key.map(ToOwned::to_owned),
            op: call.op.to_owned(),
            attempt: call.attempt,
            idempotency_key: call.idempotency_key.to_owned(),
            has_asked_key: false,
            life: self.life(),
            after: self.clock.now().since(self.started),
            site: format!("{}:{}", call.location.file(), call.location.line()),
            is_judged: !(call.takes_attempt && is_fake),
            is_at_most_once: call.is_at_most_once,
        }));
        self.steps.before(call)
    }

    fn key_asked(&self, idempotency_key: &str) {
        let mut inner = self.lock();
        let bodies = inner.events.iter_mut().rev().filter_map(|event| match &mut event.what {
            What::Body(effect) => Some(effect),
            _ => None,
        });
        if let Some(effect) = bodies.into_iter().find(|effect| effect.idempotency_key == idempotency_key) {
            effect.has_asked_key = true;
        }
    }
}
