//! Writes that a handler asks for, committed together with its own result or not at all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive_core::event::Event;
use outlive_core::id::{Epoch, Name};
use outlive_core::job::Planned;
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::origin::RunOrigin;
use outlive_core::payload::Payload;
use outlive_core::queue::{PushTarget, PushWrite};
use outlive_core::store::commit::{self, OnConflict, Write};
use outlive_core::time::Timestamp;
use serde::Serialize;

use super::deadline::Deadlines;
use crate::error::Error;
use crate::instance::codec::encode;
use crate::instance::env::Env;
use crate::instance::random::RandomSource;
use crate::instance::target::{Target, run_id};
use crate::instance::traces;

/// The environment of handlers.
pub(crate) struct HandlerEnv {
    /// The environment that handlers share with runs.
    pub(crate) shared: Arc<Env>,
    pub(crate) random: Arc<RandomSource>,
    pub(crate) deadlines: Deadlines,
}

/// What a handler has asked for so far.
#[derive(Default)]
pub(crate) struct HandlerRequests {
    pub(crate) writes: Vec<Write>,
    pub(crate) plan: Option<Planned>,
    /// Why the instance should end.
    pub(crate) terminate: Option<String>,
    /// What was wrong with an option, which fails the call.
    pub(crate) problem: Option<Error>,
    /// Whether the handler has returned, so that nothing it asks for can be committed with it.
    is_over: bool,
}

/// Collects what a handler asks for.
pub(crate) struct Outbox {
    env: Arc<HandlerEnv>,
    asked: Mutex<HandlerRequests>,
}

impl Outbox {
    pub(crate) fn new(env: Arc<HandlerEnv>) -> Self {
        Self { env, asked: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HandlerRequests> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the handler has asked for, when it has returned.
    pub(crate) fn close(&self) -> HandlerRequests {
        std::mem::replace(&mut *self.lock(), HandlerRequests { is_over: true, ..HandlerRequests::default() })
    }

    /// Adds a write to the commit of the call. Returns its index.
    fn write(&self, write: Write) -> Result<usize, Error> {
        let mut asked = self.lock();
        if asked.is_over {
            return Err(Error::HandlerReturned);
        }
        asked.writes.push(write);
        Ok(asked.writes.len() - 1)
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env.shared
    }

    /// Waits for a deadline.
    pub(crate) async fn deadline(&self, at: Timestamp) {
        let _known = self.env.deadlines.add(at);
        self.env.shared.clock.sleep_until(at).await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.env.shared.clock.now()
    }

    fn encode<T: Serialize + ?Sized>(&self, what: &str, value: &T) -> Result<Payload, Error> {
        encode(what, value, self.env.shared.max_payload)
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
        self.env.shared.names.check_event(job, &event.payload)?;
        let random = &self.env.random;
        let push = PushWrite {
            id: JobKind::instance(job, id)?,
            job: job.clone(),
            events: vec![event],
            place,
            at: self.now(),
            seed: random.number(),
            token: random.token(),
        };
        self.write(Write::Push(push))
    }

    pub(crate) fn start<T: Target<M>, M>(&self, target: T, input: &T::Input, id: &str) -> Result<(), Error> {
        let workflow = self.env.shared.names.name_of(target.reference())?;
        let input = self.encode("the input", input)?;
        self.env.shared.names.check_input(&workflow, &input)?;
        let (now, random) = (self.now(), &self.env.random);
        let start = commit::StartWrite {
            deadline: None,
            parent: None,
            id: run_id(id)?,
            workflow,
            input,
            origin: RunOrigin::traced(self.env.shared.origin.as_ref(), traces::current()),
            seed: random.number(),
            tags: Default::default(),
            at: now,
            due: Timestamp::AT_ONCE,
            on_conflict: OnConflict::Join,
            token: random.token(),
            owner: Epoch(0),
        };
        self.write(Write::Start(start)).map(drop)
    }

    pub(crate) fn signal<T: Serialize + ?Sized>(&self, run: &str, name: &str, value: &T) -> Result<(), Error> {
        let message =
            Message::Signal { name: Name::new("signal name", name)?, payload: self.encode("the signal", value)? };
        let (id, token) = (Name::new("run id", run)?, self.env.random.token());
        let send = commit::SendWrite { id, num: None, message, at: self.now(), dedup: None, token };
        self.write(Write::Message(send)).map(drop)
    }
}
