//! Operations shared by the clients of all job kinds: push, send, ask and read.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use outlive_core::event::Event;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::job::Record;
use outlive_core::kind::JobKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::{PushTarget, PushWrite, ResolveDeadLetters, WhichDeadLetters};
use outlive_core::status::Status;
use outlive_core::store::commit::{self, Answer, Refusal, Write};
use outlive_core::store::page::whole_inbox;
use outlive_core::store::query::Instance;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::outcome::{DeadLetter, JobInfo, JobStatus};
use crate::client::Client;
use crate::error::Error;
use crate::instance::codec;
use crate::instance::target::Names;
use crate::runtime::replies::MessageOutcome;
use crate::runtime::shared::Shared;
use crate::runtime::waiters::Until;

/// The way out for a stuck instance.
const STUCK: &str = "it keeps what it was sent; fix the code, then `outlive retry` it, or `terminate` it";

/// The number of dead letters per page.
const PAGE: usize = 100;

/// The client of one job, without its types.
#[derive(Clone)]
pub(crate) struct JobClient {
    pub(crate) shared: Arc<Shared>,
    job: Result<Name, Error>,
}

/// The standing of an instance, including orders it has not acted on yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InstanceStanding {
    Goes,
    Stopped,
    Ending,
}

/// The combined effect of the orders in an inbox.
#[derive(Default)]
struct PendingOrders {
    ends: Option<Ends>,
    is_stopped: Option<bool>,
}

/// What an order to end leaves behind.
enum Ends {
    ForGood,
    /// A fresh instance, because events were accepted after the order.
    Anew,
}

impl PendingOrders {
    fn of(inbox: &[Inbound]) -> Self {
        let mut ordered = Self::default();
        for inbound in inbox {
            match &inbound.message {
                message if message.is_end() => ordered = Self { ends: Some(Ends::ForGood), is_stopped: None },
                Message::Event(_) if ordered.ends.is_some() => ordered.ends = Some(Ends::Anew),
                Message::Pause => ordered.is_stopped = Some(true),
                Message::Resume => ordered.is_stopped = Some(false),
                _ => {}
            }
        }
        ordered
    }
}

/// How long to wait for the outcome of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// Until an event is handled or given up.
    Handled,
    /// Until an order is taken.
    Taken,
    /// Until it is taken, or is known to wait for something that comes first.
    Heard,
}

impl Patience {
    /// Returns which changes to watch for. The feed reports that an event was handled or given up, but not always that
    /// an order was taken.
    fn until(self) -> Until {
        match self {
            Self::Handled => Until::Reported,
            Self::Taken | Self::Heard => Until::Changed,
        }
    }

    /// Returns `true` if a message that is held up is still waited for.
    fn outlasts_holds(self) -> bool {
        self != Self::Heard
    }
}

/// A token and the reply that comes under it.
pub(crate) type Expected = (u64, oneshot::Receiver<MessageOutcome>);

/// Messages that were accepted.
pub(crate) struct Accepted {
    pub(crate) num: InstanceNum,
    pub(crate) id: Name,
    pub(crate) created: bool,
    pub(crate) positions: Vec<u64>,
    /// The outcome of the first of them, if this process executes.
    reply: Option<oneshot::Receiver<MessageOutcome>>,
}

impl JobClient {
    pub(crate) fn new(client: &Client, job: Result<Name, Error>) -> Self {
        Self { shared: client.shared.clone(), job }
    }

    pub(crate) fn job(&self) -> Result<&Name, Error> {
        self.job.as_ref().map_err(Clone::clone)
    }

    /// Encodes an event as JSON. A process that does not execute cannot check it against the job, so it must decode as
    /// the client's type.
    pub(crate) fn encode<E: Serialize + DeserializeOwned>(&self, what: &str, event: &E) -> Result<Payload, Error> {
        let payload = self.shared.encode(what, event)?;
        if self.shared.services.is_none() {
            codec::check::<E>(what, &payload)?;
        }
        Ok(payload)
    }

    /// Returns an error if an event cannot be accepted: it is too large, or is not what the job registered here takes.
    pub(crate) fn check(&self, event: &Payload) -> Result<(), Error> {
        self.shared.check_size("the event", event)?;
        let Some(services) = &self.shared.services else { return Ok(()) };
        if services.is_stopping() {
            return Err(Error::Shutdown);
        }
        self.shared.registry.check_event(self.job()?, event)
    }

    pub(crate) async fn push(&self, id: &str, events: Vec<Event>, place: PushTarget) -> Result<Accepted, Error> {
        let job = self.job()?;
        let id = JobKind::instance(job, id)?;
        for event in &events {
            self.check(&event.payload)?;
        }
        let (random, token) = (&self.shared.random, self.shared.random.token());
        let at = self.shared.clock.now();
        let is_awaited = self.shared.services.is_some() && place == PushTarget::Inbox;
        let reply = is_awaited.then(|| self.shared.replies.expect(token));
        let push = PushWrite { id: id.clone(), job: job.clone(), events, place, at, seed: random.number(), token };
        let answer = self.shared.committer.write(Write::Push(push)).await;
        match answer {
            Ok(Answer::Pushed { num, created, positions, .. }) => Ok(Accepted { num, id, created, positions, reply }),
            other => {
                self.shared.replies.forget(token);
                Err(refused(&id, other))
            }
        }
    }

    /// Sends a message to an instance, which acts on it now or later. With a limit, waits until it has.
    pub(super) async fn send_message(&self, id: &str, message: Message, limit: Option<Duration>) -> Result<(), Error> {
        let Some(limit) = limit else { return self.leave(id, message, None).await.map(drop) };
        let token = self.shared.random.token();
        let reply = self.shared.services.is_some().then(|| self.shared.replies.expect(token));
        let accepted = self.leave(id, message, reply.map(|reply| (token, reply))).await?;
        self.outcome_within(accepted, Patience::Taken, limit).await.map(drop)
    }

    /// Waits for the outcome of a message, up to a limit.
    pub(crate) async fn outcome_within(
        &self,
        accepted: Accepted,
        patience: Patience,
        limit: Duration,
    ) -> Result<MessageOutcome, Error> {
        let id = accepted.id.to_string();
        match tokio::time::timeout(limit, self.outcome(accepted, patience)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::NotHandled { id, limit }),
        }
    }

    /// Sends a message to an instance without waiting for its outcome. Pass the expected reply to wait for it later.
    pub(crate) async fn leave(
        &self,
        id: &str,
        message: Message,
        expected: Option<Expected>,
    ) -> Result<Accepted, Error> {
        let id = JobKind::instance(self.job()?, id)?;
        let (token, reply) =
            expected.map_or_else(|| (self.shared.random.token(), None), |(token, reply)| (token, Some(reply)));
        let at = self.shared.clock.now();
        if JobKind::of(&id) == Some(JobKind::Pool) && self.shared.store.instance(&id).await?.is_none() {
            self.open_pool(&id).await?;
        }
        let send = commit::SendWrite { id: id.clone(), num: None, message, at, dedup: None, token };
        match self.shared.committer.write(Write::Message(send)).await {
            Ok(Answer::Sent { num, pos, .. }) => Ok(Accepted { num, id, created: false, positions: vec![pos], reply }),
            other => {
                self.shared.replies.forget(token);
                Err(refused(&id, other))
            }
        }
    }

    /// Creates a pool that nothing was pushed to yet, so that it can be paused before its first event.
    async fn open_pool(&self, id: &Name) -> Result<(), Error> {
        let (job, at, random) = (self.job()?.clone(), self.shared.clock.now(), &self.shared.random);
        let (events, place) = (Vec::new(), PushTarget::Queue);
        let push = PushWrite { id: id.clone(), job, events, place, at, seed: random.number(), token: random.token() };
        self.shared.committer.write(Write::Push(push)).await.map(drop)
    }

    /// Waits for the outcome of the first accepted message.
    pub(crate) async fn outcome(&self, accepted: Accepted, patience: Patience) -> Result<MessageOutcome, Error> {
        let pos = accepted.positions.first().copied().unwrap_or(0);
        if let Some(reply) = accepted.reply {
            match reply.await {
                Ok(MessageOutcome::Held { .. }) if patience.outlasts_holds() => {}
                Ok(reply) => return Ok(reply),
                // No reply will come: the instance is stuck or gone, or this engine is.
                Err(_) => self.shared.committer.check()?,
            }
        }
        loop {
            // Subscribed before the store is read, so no change in between is missed.
            let wait = self.shared.waiters.wait_for(accepted.num, patience.until());
            match self.look(&accepted.id, accepted.num, pos).await? {
                Some(MessageOutcome::Held { .. }) if patience.outlasts_holds() => {}
                Some(reply) => return Ok(reply),
                None => {}
            }
            self.shared.committer.check()?;
            wait.await;
        }
    }

    /// Reads the outcome of a message from the store.
    async fn look(&self, id: &Name, num: InstanceNum, pos: u64) -> Result<Option<MessageOutcome>, Error> {
        let instance = async || Ok::<_, Error>(self.shared.store.instance(id).await?.filter(|found| found.num == num));
        let before = instance().await?;
        let inbox = self.shared.store.inbox(num, pos.saturating_sub(1), 1).await?;
        if inbox.first().is_none_or(|inbound| inbound.pos != pos) {
            // Read only now: the outcome is written when the message is taken.
            let record = instance().await?.map(|instance| record_of(&instance)).unwrap_or_default();
            let answer = self.shared.store.reply(pos).await?;
            let dead = self.shared.store.dead(self.job()?, pos.saturating_sub(1), 1).await?;
            if let Some(dead) = dead.into_iter().find(|dead| dead.pos == pos && answer.is_none()) {
                return Ok(Some(MessageOutcome::GivenUp { failure: dead.failure }));
            }
            return Ok(Some(MessageOutcome::Taken { answer, event_count: record.events, next: record.next }));
        }
        let Some(instance) = before else { return Ok(None) };
        if instance.status == Status::Stuck {
            return Err(Error::Status { id: id.to_string(), status: instance.status, way_out: STUCK });
        }
        let record = record_of(&instance);
        if record.retry.is_none() && record.flush.is_none() && record.trouble.is_none() {
            return Ok(None);
        }
        let inbox = whole_inbox(&*self.shared.store, num).await?;
        let event_count = inbox.iter().filter(|inbound| inbound.pos <= pos).count() as u64;
        Ok(Some(MessageOutcome::Held { event_count }))
    }

    /// Waits, from now on, until a pool may be empty.
    pub(crate) fn drained(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        match &self.shared.services {
            Some(services) => {
                let mut rested = Box::pin(services.pools.rested.notified());
                rested.as_mut().enable();
                rested
            }
            None => {
                // No instance has this number, so only a change of the store ends the wait.
                let wait = self.shared.waiters.wait_for(InstanceNum(0), Until::Changed);
                Box::pin(async move { drop(wait.await) })
            }
        }
    }

    pub(crate) async fn instance(&self, id: &str) -> Result<Option<Instance>, Error> {
        let id = JobKind::instance(self.job()?, id)?;
        Ok(self.shared.store.instance(&id).await?.filter(|instance| !instance.status.is_ended()))
    }

    /// Returns an instance and the orders it has not acted on yet. Orders count from the moment they are accepted.
    async fn ordered(&self, id: &str) -> Result<Option<(PendingOrders, Instance)>, Error> {
        let Some(instance) = self.instance(id).await? else { return Ok(None) };
        // The messages first: the effect of one that is taken in between is in the instance read after it.
        let ordered = PendingOrders::of(&whole_inbox(&*self.shared.store, instance.num).await?);
        Ok(self.instance(id).await?.map(|instance| (ordered, instance)))
    }

    /// Returns the standing of an instance, or the one it is about to have. The status alone does not show it: a
    /// stopped instance is running while triggered.
    pub(crate) async fn standing(&self, id: &str) -> Result<Option<InstanceStanding>, Error> {
        let of = |(ordered, instance): (PendingOrders, Instance)| match ordered {
            PendingOrders { ends: Some(_), .. } => InstanceStanding::Ending,
            PendingOrders { is_stopped: Some(true), .. } => InstanceStanding::Stopped,
            PendingOrders { is_stopped: None, .. } if record_of(&instance).is_stopped => InstanceStanding::Stopped,
            _ => InstanceStanding::Goes,
        };
        Ok(self.ordered(id).await?.map(of))
    }

    /// Waits until an instance that is about to end has ended.
    pub(crate) async fn until_ended(&self, id: &str, limit: Duration) -> Result<(), Error> {
        let wait = async {
            while let Some(instance) = self.instance(id).await? {
                // Subscribed before the inbox is read, so no change in between is missed.
                let wait = self.shared.waiters.wait_for(instance.num, Until::Changed);
                let Some((PendingOrders { ends: Some(_), .. }, _)) = self.ordered(id).await? else { break };
                self.shared.committer.check()?;
                wait.await;
            }
            Ok(())
        };
        match tokio::time::timeout(limit, wait).await {
            Ok(ended) => ended,
            Err(_) => Err(Error::NotHandled { id: JobKind::instance(self.job()?, id)?.to_string(), limit }),
        }
    }

    pub(crate) async fn info(&self, id: &str) -> Result<JobInfo, Error> {
        let Some((ordered, instance)) = self.ordered(id).await? else { return Ok(JobInfo::not_found()) };
        let mut info = JobInfo::of(&instance, &record_of(&instance));
        match ordered {
            PendingOrders { ends: Some(Ends::ForGood), .. } => info = JobInfo::not_found(),
            PendingOrders { ends: Some(Ends::Anew), .. } => {
                info = JobInfo { status: JobStatus::Running, ..JobInfo::not_found() };
            }
            PendingOrders { is_stopped: Some(true), .. } => (info.status, info.next_run) = (JobStatus::Stopped, None),
            PendingOrders { is_stopped: Some(false), .. } if info.status == JobStatus::Stopped => {
                info.status = JobStatus::Running;
            }
            _ => {}
        }
        Ok(info)
    }

    /// Reads the state without waiting for running handlers.
    pub(crate) async fn state<S: DeserializeOwned>(&self, id: &str) -> Result<Option<S>, Error> {
        let Some((PendingOrders { ends: None, .. }, instance)) = self.ordered(id).await? else { return Ok(None) };
        let id = instance.id.clone();
        let Some(payload) = state_of(instance) else { return Ok(None) };
        codec::decode(&format!("the state of {id}"), &payload).map(Some)
    }

    pub(crate) async fn dead<E>(&self) -> Result<Vec<DeadLetter<E>>, Error> {
        let (mut dead_letters, mut after) = (Vec::new(), 0);
        loop {
            let page = self.shared.store.dead(self.job()?, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(dead_letters) };
            after = last.pos;
            dead_letters.extend(page.into_iter().map(DeadLetter::of));
        }
    }

    /// Retries or drops all dead letters that exist now, and returns how many. Those added in the meantime stay, as
    /// this might never end otherwise.
    pub(crate) async fn resolve_all(&self, is_retry: bool) -> Result<u64, Error> {
        let left = self.shared.store.depth(self.job()?, self.shared.clock.now()).await?.dead;
        let (mut total, mut seen, mut after) = (0, 0, 0);
        while seen < left {
            let page = self.shared.store.dead(self.job()?, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.pos;
            let meant = usize::try_from(left - seen).unwrap_or(usize::MAX);
            seen += page.len() as u64;
            let resolved = page.iter().take(meant).map(|dead| self.resolve(dead.pos, is_retry));
            for one in join_all(resolved).await {
                match one {
                    Ok(is_done) => total += u64::from(is_done),
                    // Another caller was faster.
                    Err(Error::NoDeadLetter { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(total)
    }

    /// Retries or drops a dead letter. Returns `false` if it stays because another event has its key.
    pub(crate) async fn resolve(&self, number: u64, is_retry: bool) -> Result<bool, Error> {
        let job = self.job()?;
        let resolve = ResolveDeadLetters {
            job: job.clone(),
            which: WhichDeadLetters::One(number),
            is_retry,
            at: self.shared.clock.now(),
        };
        match self.shared.committer.write(Write::ResolveDeadLetters(resolve)).await? {
            Answer::DeadLettersResolved { count, .. } => Ok(count > 0),
            Answer::Refused(_) => Err(Error::NoDeadLetter { job: job.to_string(), number }),
            _ => Err(Error::Shutdown),
        }
    }
}

/// Returns the record of an instance, which is empty before the instance has begun.
pub(crate) fn record_of(instance: &Instance) -> Record {
    let record = instance.outcome.as_ref().map(Record::from_payload);
    record.and_then(Result::ok).unwrap_or_default()
}

/// Returns the state of an instance. Before a continuous job has begun, that is its input.
pub(crate) fn state_of(instance: Instance) -> Option<Payload> {
    let is_begun = instance.outcome.is_some();
    let state = record_of(&instance).state;
    let initial = Some(instance.input).filter(|_| JobKind::of(&instance.id) == Some(JobKind::Continuous) && !is_begun);
    state.or(initial)
}

/// Adds a dedup key to an event.
pub(super) fn add_dedup_key(event: &mut Result<Event, Error>, key: &str) {
    match (Name::new("dedup key", key), &mut *event) {
        (Ok(key), Ok(event)) => event.dedup = Some(key),
        (Err(problem), Ok(_)) => *event = Err(problem.into()),
        (_, Err(_)) => {}
    }
}

fn refused(id: &Name, answer: Result<Answer, Error>) -> Error {
    match answer {
        Ok(Answer::Refused(Refusal::NotFound)) => Error::NotFound { id: id.to_string() },
        Ok(Answer::Refused(Refusal::Status(status))) => Error::Status { id: id.to_string(), status, way_out: STUCK },
        Err(error) => error,
        Ok(_) => Error::Shutdown,
    }
}
