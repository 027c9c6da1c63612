//! Writes that a handler asks for, committed together with its own result or not at all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive_core::commit::{self, OnConflict, Write};
use outlive_core::event::Event;
use outlive_core::id::{Epoch, Name};
use outlive_core::job::Planned;
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::queue::{Push, PushTarget};
use outlive_core::time::Timestamp;
use serde::Serialize;

use super::deadline::Deadlines;
use crate::codec::encode;
use crate::env::Env;
use crate::error::Error;
use crate::random::RandomSource;
use crate::workflow::{Reference, Target};

/// The environment of handlers.
pub(crate) struct HandlerEnv {
    pub(crate) env: Arc<Env>,
    pub(crate) names: Arc<dyn Names>,
    pub(crate) chance: Arc<RandomSource>,
    pub(crate) deadlines: Deadlines,
}

/// Resolves workflow names and checks events.
pub(crate) trait Names: Send + Sync {
    /// Returns the name of a workflow to start.
    fn name_of(&self, reference: Reference) -> Result<Name, Error>;
    /// Returns an error if the job is registered here and does not take this event.
    fn check_event(&self, job: &Name, event: &Payload) -> Result<(), Error>;
}

/// What a handler has asked for so far.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) writes: Vec<Write>,
    pub(crate) plan: Option<Planned>,
    /// Why the instance should end.
    pub(crate) terminate: Option<String>,
    /// What was wrong with an option, which fails the call.
    pub(crate) problem: Option<Error>,
}

/// Collects what a handler asks for.
pub(crate) struct Outbox {
    surroundings: Arc<HandlerEnv>,
    asked: Mutex<Asked>,
}

impl Outbox {
    pub(crate) fn new(surroundings: Arc<HandlerEnv>) -> Self {
        Self { surroundings, asked: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn env(&self) -> &Env {
        &self.surroundings.env
    }

    /// Waits for a deadline.
    pub(crate) async fn deadline(&self, at: Timestamp) {
        let _known = self.surroundings.deadlines.add(at);
        self.surroundings.env.clock.sleep_until(at).await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.surroundings.env.clock.now()
    }

    fn encode<T: Serialize + ?Sized>(&self, what: &str, value: &T) -> Result<Payload, Error> {
        encode(what, value, self.surroundings.env.max_payload)
    }

    pub(crate) fn push_value<E: Serialize>(
        &self,
        job: &Name,
        id: &str,
        event: &E,
        place: PushTarget,
    ) -> Result<usize, Error> {
        self.push(job, id, Event::new(self.encode("the event", event)?), place)
    }

    /// Changes the event that was pushed as the write at an index. If that cannot be, the call fails.
    pub(crate) fn change_push(&self, index: usize, change: impl FnOnce(&mut Event) -> Result<(), Error>) {
        let mut asked = self.lock();
        let Some(Write::Push(push)) = asked.writes.get_mut(index) else { return };
        let changed = push.events.first_mut().map_or(Ok(()), change);
        if let Err(problem) = changed {
            asked.problem.get_or_insert(problem);
        }
    }

    /// Pushes an event with the commit. Returns the index of the write.
    pub(crate) fn push(&self, job: &Name, id: &str, event: Event, place: PushTarget) -> Result<usize, Error> {
        self.surroundings.names.check_event(job, &event.payload)?;
        let chance = &self.surroundings.chance;
        let push = Push {
            id: JobKind::instance(job, id)?,
            job: job.clone(),
            events: vec![event],
            place,
            at: self.now(),
            seed: chance.number(),
            token: chance.token(),
        };
        let mut asked = self.lock();
        asked.writes.push(Write::Push(push));
        Ok(asked.writes.len() - 1)
    }

    pub(crate) fn start<T: Target<M>, M>(&self, target: T, input: &T::Input, id: &str) -> Result<(), Error> {
        let workflow = self.surroundings.names.name_of(target.reference())?;
        let input = self.encode("the input", input)?;
        let (now, chance) = (self.now(), &self.surroundings.chance);
        let start = commit::Start {
            id: run_id(id)?,
            workflow,
            input,
            seed: chance.number(),
            tags: Default::default(),
            at: now,
            due: Timestamp::AT_ONCE,
            on_conflict: OnConflict::Join,
            token: chance.token(),
            owner: Epoch(0),
        };
        self.lock().writes.push(Write::Start(start));
        Ok(())
    }

    pub(crate) fn signal<T: Serialize + ?Sized>(&self, run: &str, name: &str, value: &T) -> Result<(), Error> {
        let message =
            Message::Signal { name: Name::new("signal name", name)?, payload: self.encode("the signal", value)? };
        let (id, token) = (Name::new("run id", run)?, self.surroundings.chance.token());
        let send = commit::Send { id, num: None, message, at: self.now(), dedup: None, token };
        self.lock().writes.push(Write::Send(send));
        Ok(())
    }
}

/// Parses the id of a run, which must not look like the id of a job instance.
pub(crate) fn run_id(id: &str) -> Result<Name, Error> {
    let id = Name::new("run id", id)?;
    match JobKind::of(&id) {
        Some(kind) => Err(Error::Setup(format!(
            "run id {:?} starts with \"{kind}:\", which is reserved for jobs; use another id",
            id.as_str()
        ))),
        None => Ok(id),
    }
}
