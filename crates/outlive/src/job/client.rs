//! What the clients of all kinds have in common: pushing, telling, asking and reading.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use outlive_core::commit::{self, Answer, Refusal, Write};
use outlive_core::event::Event;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::job::Record;
use outlive_core::kind::JobKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::page::whole_inbox;
use outlive_core::payload::Payload;
use outlive_core::query::Instance;
use outlive_core::queue::{Bury, Letters, Place, Push};
use outlive_core::status::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::answer::{DeadLetter, JobInfo, JobStatus};
use super::order::{Limit, Order};
use crate::client::Client;
use crate::codec;
use crate::error::Error;
use crate::replies::Reply;
use crate::shared::Shared;
use crate::waiters::Until;

/// The way out for an instance that does not go on.
const STUCK: &str = "it keeps what it was sent; `outlive retry` has it go on once it is mended, `terminate` removes it";

/// How many dead letters are on a page.
const PAGE: usize = 100;

/// The client of one job, without its types.
#[derive(Clone)]
pub(crate) struct JobClient {
    pub(crate) shared: Arc<Shared>,
    job: Result<Name, Error>,
}

/// How an instance stands, with what it was ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    Goes,
    Stopped,
    Ending,
}

/// What the orders in an inbox come to.
#[derive(Default)]
struct Ordered {
    ends: Option<Ends>,
    is_stopped: Option<bool>,
}

/// What an order to end leaves.
enum Ends {
    ForGood,
    /// Events were accepted after it.
    Anew,
}

impl Ordered {
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

/// How long to wait for what becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// Until an event is handled or given up.
    Handled,
    /// Until an order is taken.
    Taken,
    /// Until it is dealt with, or is known to wait for something that comes first.
    Heard,
}

impl Patience {
    /// When there may be something to see. That an event was handled or given up is reported; that an order was taken is
    /// not always.
    fn until(self) -> Until {
        match self {
            Self::Handled => Until::Reported,
            Self::Taken | Self::Heard => Until::Changed,
        }
    }

    /// Whether a message that waits for something else is to be waited for.
    fn outlasts_holds(self) -> bool {
        self != Self::Heard
    }
}

/// A reply that comes under a token.
pub(crate) type Expected = (u64, oneshot::Receiver<Reply>);

/// Events that were accepted.
pub(crate) struct Accepted {
    pub(crate) num: InstanceNum,
    pub(crate) id: Name,
    pub(crate) created: bool,
    pub(crate) positions: Vec<u64>,
    /// What becomes of the first of them, if this process executes.
    reply: Option<oneshot::Receiver<Reply>>,
}

impl JobClient {
    pub(crate) fn new(client: &Client, job: Result<Name, Error>) -> Self {
        Self { shared: client.shared.clone(), job }
    }

    pub(crate) fn job(&self) -> Result<&Name, Error> {
        self.job.as_ref().map_err(Clone::clone)
    }

    /// Writes an event as JSON. Where no job is registered that would check it, it must read back as the client's type.
    pub(crate) fn encode<E: Serialize + DeserializeOwned>(&self, what: &str, event: &E) -> Result<Payload, Error> {
        let payload = self.shared.encode(what, event)?;
        if self.shared.worker.is_none() {
            codec::check::<E>(what, &payload)?;
        }
        Ok(payload)
    }

    /// Whether an event can be accepted: it is not too long, and reads as what the job takes if that is known here.
    pub(crate) fn check(&self, event: &Payload) -> Result<(), Error> {
        self.shared.check_size("the event", event)?;
        let Some(worker) = &self.shared.worker else { return Ok(()) };
        if worker.is_stopping() {
            return Err(Error::Shutdown);
        }
        match self.shared.registry.job(self.job()?) {
            Some(definition) => definition.handlers.check(event),
            None => Err(self.shared.registry.unknown_job(self.job()?)),
        }
    }

    pub(crate) async fn push(&self, id: &str, events: Vec<Event>, place: Place) -> Result<Accepted, Error> {
        let job = self.job()?;
        let id = JobKind::instance(job, id)?;
        for event in &events {
            self.check(&event.payload)?;
        }
        let (chance, token) = (&self.shared.chance, self.shared.chance.token());
        let at = self.shared.clock.now();
        let is_awaited = self.shared.worker.is_some() && place == Place::Inbox;
        let reply = is_awaited.then(|| self.shared.replies.expect(token));
        let push = Push { id: id.clone(), job: job.clone(), events, place, at, seed: chance.number(), token };
        let answer = self.shared.committer.write(Write::Push(push)).await;
        match answer {
            Ok(Answer::Pushed { num, created, positions, .. }) => Ok(Accepted { num, id, created, positions, reply }),
            other => {
                self.shared.replies.forget(token);
                Err(refused(&id, other))
            }
        }
    }

    /// An order to an instance, for the caller to await.
    pub(crate) fn order(&self, id: &str, message: Message) -> Order {
        Order { client: self.clone(), id: id.to_owned(), message, limit: Limit::default() }
    }

    /// Leaves a message for an instance that acts on it, now or later; waits for that if it is expected.
    pub(super) async fn tell(&self, id: &str, message: Message, limit: Option<Duration>) -> Result<(), Error> {
        let Some(limit) = limit else { return self.leave(id, message, None).await.map(drop) };
        let token = self.shared.chance.token();
        let reply = self.shared.worker.is_some().then(|| self.shared.replies.expect(token));
        let accepted = self.leave(id, message, reply.map(|reply| (token, reply))).await?;
        self.outcome_within(accepted, Patience::Taken, limit).await.map(drop)
    }

    /// What becomes of a message, if that is known within a limit.
    pub(crate) async fn outcome_within(
        &self,
        accepted: Accepted,
        patience: Patience,
        limit: Duration,
    ) -> Result<Reply, Error> {
        let id = accepted.id.to_string();
        match tokio::time::timeout(limit, self.outcome(accepted, patience)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::NotHandled { id, limit }),
        }
    }

    /// Leaves a message for an instance, and does not wait for what becomes of it unless a reply is expected.
    pub(crate) async fn leave(
        &self,
        id: &str,
        message: Message,
        expected: Option<Expected>,
    ) -> Result<Accepted, Error> {
        let id = JobKind::instance(self.job()?, id)?;
        let (token, reply) =
            expected.map_or_else(|| (self.shared.chance.token(), None), |(token, reply)| (token, Some(reply)));
        let at = self.shared.clock.now();
        if JobKind::of(&id) == Some(JobKind::Pool) && self.shared.store.instance(&id).await?.is_none() {
            self.open_pool(&id).await?;
        }
        let send = commit::Send { id: id.clone(), num: None, message, at, dedup: None, token };
        match self.shared.committer.write(Write::Send(send)).await {
            Ok(Answer::Sent { num, pos, .. }) => Ok(Accepted { num, id, created: false, positions: vec![pos], reply }),
            other => {
                self.shared.replies.forget(token);
                Err(refused(&id, other))
            }
        }
    }

    /// Makes a pool that was never pushed to, so that it can be paused before its first event.
    async fn open_pool(&self, id: &Name) -> Result<(), Error> {
        let (job, at, chance) = (self.job()?.clone(), self.shared.clock.now(), &self.shared.chance);
        let (events, place) = (Vec::new(), Place::Queue);
        let push = Push { id: id.clone(), job, events, place, at, seed: chance.number(), token: chance.token() };
        self.shared.committer.write(Write::Push(push)).await.map(drop)
    }

    /// Waits for what becomes of the first event that was accepted.
    pub(crate) async fn outcome(&self, accepted: Accepted, patience: Patience) -> Result<Reply, Error> {
        let pos = accepted.positions.first().copied().unwrap_or(0);
        if let Some(reply) = accepted.reply {
            match reply.await {
                Ok(Reply::Held { .. }) if patience.outlasts_holds() => {}
                Ok(reply) => return Ok(reply),
                // Nobody will tell: it is stuck, or gone, or this engine is.
                Err(_) => self.shared.committer.check()?,
            }
        }
        loop {
            // From here on, news of the store are not missed.
            let news = self.shared.waiters.news(accepted.num, patience.until());
            match self.look(&accepted.id, accepted.num, pos).await? {
                Some(Reply::Held { .. }) if patience.outlasts_holds() => {}
                Some(reply) => return Ok(reply),
                None => {}
            }
            self.shared.committer.check()?;
            news.await;
        }
    }

    /// What has become of a message, as the store has it.
    async fn look(&self, id: &Name, num: InstanceNum, pos: u64) -> Result<Option<Reply>, Error> {
        let instance = async || Ok::<_, Error>(self.shared.store.instance(id).await?.filter(|found| found.num == num));
        let before = instance().await?;
        let inbox = self.shared.store.inbox(num, pos.saturating_sub(1), 1).await?;
        if inbox.first().is_none_or(|inbound| inbound.pos != pos) {
            // Only now: what becomes of a message is written when it is taken.
            let record = instance().await?.map(|instance| record_of(&instance)).unwrap_or_default();
            let answer = self.shared.store.reply(pos).await?;
            return Ok(Some(Reply::Taken { answer, event_count: record.events, next: record.next }));
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
        Ok(Some(Reply::Held { event_count }))
    }

    /// Waits until a pool may have nothing left, from now on.
    pub(crate) fn drained(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        match &self.shared.worker {
            Some(worker) => {
                let mut rested = Box::pin(worker.rested.notified());
                rested.as_mut().enable();
                rested
            }
            None => {
                // No instance has this number: only a change of the store tells of it.
                let news = self.shared.waiters.news(InstanceNum(0), Until::Changed);
                Box::pin(async move { drop(news.await) })
            }
        }
    }

    pub(crate) async fn instance(&self, id: &str) -> Result<Option<Instance>, Error> {
        let id = JobKind::instance(self.job()?, id)?;
        Ok(self.shared.store.instance(&id).await?.filter(|instance| !instance.status.is_ended()))
    }

    /// What an instance was ordered and has not acted on yet, and the instance. Orders count from the moment they are
    /// accepted.
    async fn ordered(&self, id: &str) -> Result<Option<(Ordered, Instance)>, Error> {
        let Some(instance) = self.instance(id).await? else { return Ok(None) };
        // The messages first: one that is taken meanwhile is then in what is read after.
        let ordered = Ordered::of(&whole_inbox(&*self.shared.store, instance.num).await?);
        Ok(self.instance(id).await?.map(|instance| (ordered, instance)))
    }

    /// How an instance stands, or is about to. Its status alone does not say: a stopped one is at work when triggered.
    pub(crate) async fn standing(&self, id: &str) -> Result<Option<Standing>, Error> {
        let of = |(ordered, instance): (Ordered, Instance)| match ordered {
            Ordered { ends: Some(_), .. } => Standing::Ending,
            Ordered { is_stopped: Some(true), .. } => Standing::Stopped,
            Ordered { is_stopped: None, .. } if record_of(&instance).is_stopped => Standing::Stopped,
            _ => Standing::Goes,
        };
        Ok(self.ordered(id).await?.map(of))
    }

    /// Waits until an instance that is about to end has ended.
    pub(crate) async fn until_ended(&self, id: &str, limit: Duration) -> Result<(), Error> {
        let wait = async {
            while let Some(instance) = self.instance(id).await? {
                // From here on, news of it are not missed.
                let news = self.shared.waiters.news(instance.num, Until::Changed);
                let Some((Ordered { ends: Some(_), .. }, _)) = self.ordered(id).await? else { break };
                self.shared.committer.check()?;
                news.await;
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
            Ordered { ends: Some(Ends::ForGood), .. } => info = JobInfo::not_found(),
            Ordered { ends: Some(Ends::Anew), .. } => {
                info = JobInfo { status: JobStatus::Running, ..JobInfo::not_found() };
            }
            Ordered { is_stopped: Some(true), .. } => (info.status, info.next_run) = (JobStatus::Stopped, None),
            Ordered { is_stopped: Some(false), .. } if info.status == JobStatus::Stopped => {
                info.status = JobStatus::Running;
            }
            _ => {}
        }
        Ok(info)
    }

    /// The state, read beside the handlers and without waiting for them.
    pub(crate) async fn state<S: DeserializeOwned>(&self, id: &str) -> Result<Option<S>, Error> {
        let Some((Ordered { ends: None, .. }, instance)) = self.ordered(id).await? else { return Ok(None) };
        let id = instance.id.clone();
        let Some(payload) = state_of(instance) else { return Ok(None) };
        codec::decode(&format!("the state of {id}"), &payload).map(Some)
    }

    pub(crate) async fn dead<E>(&self) -> Result<Vec<DeadLetter<E>>, Error> {
        let (mut letters, mut after) = (Vec::new(), 0);
        loop {
            let page = self.shared.store.dead(self.job()?, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(letters) };
            after = last.pos;
            letters.extend(page.into_iter().map(DeadLetter::of));
        }
    }

    /// Has all dead letters that there are now tried again, or drops them. Answers how many. Those that are given up
    /// meanwhile stay, or there might be no end.
    pub(crate) async fn bury_all(&self, is_retry: bool) -> Result<u64, Error> {
        let left = self.shared.store.depth(self.job()?, self.shared.clock.now()).await?.dead;
        let (mut total, mut seen, mut after) = (0, 0, 0);
        while seen < left {
            let page = self.shared.store.dead(self.job()?, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.pos;
            let meant = usize::try_from(left - seen).unwrap_or(usize::MAX);
            seen += page.len() as u64;
            let buried = page.iter().take(meant).map(|dead| self.bury(dead.pos, is_retry));
            for one in join_all(buried).await {
                match one {
                    Ok(is_done) => total += u64::from(is_done),
                    // Somebody else was faster.
                    Err(Error::NoDeadLetter { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(total)
    }

    /// Has a dead letter tried again, or drops it. Answers whether that was done: one whose key another event has stays.
    pub(crate) async fn bury(&self, number: u64, is_retry: bool) -> Result<bool, Error> {
        let job = self.job()?;
        let bury = Bury { job: job.clone(), letters: Letters::One(number), is_retry, at: self.shared.clock.now() };
        match self.shared.committer.write(Write::Bury(bury)).await? {
            Answer::Buried { count, .. } => Ok(count > 0),
            Answer::Refused(_) => Err(Error::NoDeadLetter { job: job.to_string(), number }),
            _ => Err(Error::Shutdown),
        }
    }
}

/// What an instance keeps. One that has not begun keeps nothing yet.
pub(crate) fn record_of(instance: &Instance) -> Record {
    let record = instance.outcome.as_ref().map(Record::from_payload);
    record.and_then(Result::ok).unwrap_or_default()
}

/// The state of an instance. One that has not begun has what it was given.
pub(crate) fn state_of(instance: Instance) -> Option<Payload> {
    let is_begun = instance.outcome.is_some();
    let state = record_of(&instance).state;
    let given = Some(instance.input).filter(|_| JobKind::of(&instance.id) == Some(JobKind::Continuous) && !is_begun);
    state.or(given)
}

fn refused(id: &Name, answer: Result<Answer, Error>) -> Error {
    match answer {
        Ok(Answer::Refused(Refusal::NotFound)) => Error::NotFound { id: id.to_string() },
        Ok(Answer::Refused(Refusal::Status(status))) => Error::Status { id: id.to_string(), status, way_out: STUCK },
        Err(error) => error,
        Ok(_) => Error::Shutdown,
    }
}
