//! Drives one job instance: calls its handlers one at a time, and commits the outcome of each.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use outlive_core::failure::{Cause, Failure};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::job::{Call, Change, End, HandlerKind, Job, Next};
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, NewState, Refusal, Turn, Write};
use outlive_core::time::Timestamp;
use tracing::Instrument;
use tracing::instrument::Instrumented;

use crate::instance::logs;
use crate::instance::mailbox::{Arrivals, Mailbox};
use crate::instance::meters::{self, HandlerMeasure};
use crate::runtime::handlers::{CallEnded, Calling, Definition, HandlerCall};
use crate::runtime::replies;
use crate::runtime::services::Services;

use super::turns::{ReceiveInOrder, Receivers, TurnLog};

/// How long an idle instance stays in memory, as a sender of one event often sends another.
const LINGER: Duration = Duration::from_secs(1);

/// A job instance in memory.
pub(crate) struct JobDriver {
    pub(crate) services: Arc<Services>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) num: InstanceNum,
    pub(crate) id: Name,
    pub(crate) created_at: Timestamp,
    pub(crate) job: Job,
    pub(crate) turns: TurnLog,
    /// Whether the store records it as ours.
    pub(crate) is_owned: bool,
    /// What has arrived and is not handled yet.
    pub(crate) arrivals: Arrivals,
    /// Replies to send when the next commit is durable.
    pub(crate) replies: Vec<(u64, replies::MessageOutcome)>,
}

/// The driver must stop.
struct JobIsOver;

/// However the driver ends, even if its task is aborted, the instance is no longer in memory.
impl Drop for JobDriver {
    fn drop(&mut self) {
        self.mailbox.close();
        // Messages since the last commit went to a mailbox that nobody reads: their senders ask the store.
        self.services.replies.drop_all_of(self.num);
        self.services.job_gone(self.num, &self.mailbox);
    }
}

impl JobDriver {
    /// Drives the instance until there is nothing more to do, or it is no longer ours.
    pub(crate) async fn drive(mut self) {
        let _ = self.go_on().await;
    }

    async fn go_on(&mut self) -> Result<(), JobIsOver> {
        // Whether a call has ended whose changes are not durable yet.
        let mut has_called = false;
        loop {
            self.read_now()?;
            if let Some(problem) = self.arrivals.rare().damage.take() {
                self.job.mark_stuck(problem, self.now());
            }
            let now = self.now();
            let next = self.job.next(now);
            match next {
                Next::Call(call) if self.arrivals.is_stopping && !self.job.is_begun_tick(&call) => {
                    return self.release(now).await;
                }
                Next::Call(call) => {
                    // Nothing begins before what it depends on is durable: a crash repeats one call, not all since the
                    // last commit.
                    let must_commit = self.job.begin_tick(&call) || (has_called && self.job.has_change());
                    has_called = !must_commit;
                    match must_commit {
                        true => drop(self.commit(Standing::at_work(), Vec::new()).await?),
                        false => self.call(call, now).await?,
                    }
                }
                Next::Over => {
                    has_called = false;
                    if self.end().await? {
                        return Err(JobIsOver);
                    }
                }
                Next::Wait(status) => {
                    has_called = false;
                    self.rest(status).await?;
                }
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.services.now()
    }

    // ---- mailbox ----

    /// Reads the mailbox without waiting.
    fn read_now(&mut self) -> Result<(), JobIsOver> {
        let mut arrivals = Arrivals::default();
        if !self.mailbox.take_now(&mut arrivals) {
            return Ok(());
        }
        self.read(arrivals)
    }

    fn read(&mut self, mut arrivals: Arrivals) -> Result<(), JobIsOver> {
        if arrivals.is_fenced {
            return Err(JobIsOver);
        }
        self.arrivals.is_stopping |= arrivals.is_stopping;
        self.arrivals.is_evicted |= arrivals.is_evicted;
        self.arrivals.is_claimed |= arrivals.is_claimed;
        let Some(new) = arrivals.take_rare() else { return Ok(()) };
        let kept = self.arrivals.rare();
        kept.answers.extend(new.answers);
        kept.damage = kept.damage.take().or(new.damage);
        new.inbox.into_iter().for_each(|inbound| self.job.receive(inbound));
        if self.job.receive_until_gap(new.messages) {
            // Order counts, so the whole inbox is read.
            self.services.read_inbox(self.num, &self.mailbox);
        }
        self.notify_held();
        Ok(())
    }

    /// Notifies callers whose messages are held up.
    fn notify_held(&self) {
        for (pos, event_count) in self.job.held() {
            self.services.replies.send(pos, || replies::MessageOutcome::Held { event_count });
        }
    }

    /// Waits until something is posted to the mailbox.
    async fn wait(&mut self) -> Result<(), JobIsOver> {
        let mut arrivals = Arrivals::default();
        let mailbox = self.mailbox.clone();
        std::future::poll_fn(|cx| match mailbox.take(cx, &mut arrivals) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        self.read(arrivals)
    }

    // ---- handlers ----

    /// Calls a handler. A message that ends the instance does not wait for it.
    async fn call(&mut self, call: Call, began: Timestamp) -> Result<(), JobIsOver> {
        self.is_owned |= std::mem::take(&mut self.arrivals.is_claimed);
        let mut call_policy = self.definition.call_policy.clone();
        if call.handler == HandlerKind::Error {
            // `retry_if` decides about the errors that lead to `on_error`, not about its own.
            call_policy.retry_if = None;
        }
        let input = HandlerCall {
            env: self.services.handler_env.clone(),
            call_policy,
            num: self.num,
            id: self.id.clone(),
            call: call.clone(),
            record: self.job.record().clone(),
            created_at: self.created_at,
            started_at: began,
        };
        let handlers = self.definition.handlers.clone();
        let span = logs::job(self.id.as_str(), call.handler.as_str(), call.attempt);
        let calling = span.in_scope(|| Calling::begin(|| handlers.call(input)));
        let Some(CallEnded { end, writes }) = self.end_of(calling.instrument(span)).await? else { return Ok(()) };
        if writes.is_empty() {
            self.ended(&call, end, began);
            return Ok(());
        }
        // The writes it asked for may be refused, which fails the call, so nothing else may be in the same commit.
        if self.job.has_change() {
            self.commit(Standing::at_work(), Vec::new()).await?;
        }
        let (before, replies, receivers) = (self.job.checkpoint(), self.replies.clone(), Receivers::of(&writes));
        self.ended(&call, end, began);
        if let Some((index, refusal)) = self.commit(Standing::at_work(), writes).await? {
            self.job.roll_back(before, &call);
            self.replies = replies;
            let failure = Failure::new(Cause::Error, receivers.refused(index, &refusal));
            self.ended(&call, End::Failed(failure), began);
        }
        Ok(())
    }

    /// Waits for a call to end. Returns `None` if the instance is ended in the meantime.
    async fn end_of(&mut self, mut calling: Instrumented<Calling>) -> Result<Option<CallEnded>, JobIsOver> {
        if let Poll::Ready(ended) = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut calling).poll(cx))).await {
            return Ok(Some(ended));
        }
        if self.job.has_change() {
            // Earlier changes do not wait for a slow handler.
            self.commit(Standing::at_work(), Vec::new()).await?;
        }
        while !self.job.inbox().has_end() {
            tokio::select! {
                biased;
                ended = &mut calling => return Ok(Some(ended)),
                heard = self.wait() => heard?,
            }
        }
        Ok(None)
    }

    fn ended(&mut self, call: &Call, end: End, began: Timestamp) {
        let now = self.now();
        meters::handler(call.handler.as_str(), || HandlerMeasure {
            job: self.definition.job.to_string(),
            is_ok: matches!(end, End::Done(_)),
            took: now.since(began),
        });
        if let End::Failed(failure) = &end {
            logs::handler_failed(self.id.as_str(), call.handler.as_str(), call.attempt, failure);
        }
        let event = call.event.as_ref().map(|inbound| inbound.pos);
        self.job.ended(call, end, began, now);
        if let Some(pos) = event {
            let record = self.job.record();
            let reply = replies::MessageOutcome::Taken { answer: None, event_count: record.events, next: record.next };
            self.replies.push((pos, reply));
        }
    }

    // ---- commits ----

    /// Commits what has changed. If one of the writes was refused, returns which one and why.
    async fn commit(&mut self, standing: Standing, writes: Vec<Write>) -> Result<Option<(usize, Refusal)>, JobIsOver> {
        let change = self.job.take_change();
        match self.submit(&change, &standing, writes).await? {
            Answer::DoneWith(_) => {
                self.turns.committed();
                self.is_owned = standing.is_owned;
                self.notify(&change);
                if change.stuck.is_some() {
                    meters::stuck(self.definition.job.as_str());
                }
                if change.is_removed || change.stuck.is_some() {
                    self.services.replies.drop_all_of(self.num);
                    return Err(JobIsOver);
                }
                Ok(None)
            }
            Answer::Unseen(messages) => {
                self.job.put_back(change);
                messages.into_iter().for_each(|inbound| self.job.receive(inbound));
                Ok(None)
            }
            Answer::WriteRefused { index, refusal } => Ok(Some((index, refusal))),
            _ => Err(JobIsOver),
        }
    }

    async fn submit(&mut self, change: &Change, standing: &Standing, writes: Vec<Write>) -> Result<Answer, JobIsOver> {
        let stuck = change.stuck.clone();
        let state = NewState {
            status: if stuck.is_some() { Status::Stuck } else { standing.status },
            wake: standing.status.until(),
            is_owned: standing.is_owned && stuck.is_none(),
            seen: (!standing.is_owned && !change.is_terminated && stuck.is_none()).then(|| self.job.inbox().seen()),
            outcome: Some(self.job.record().to_payload()),
            note: stuck,
            at: self.now(),
        };
        let fill = |turn| Turn {
            lifecycle: change.lifecycle.clone(),
            taken: change.taken.clone(),
            dead: change.dead.clone(),
            replies: change.replies.clone(),
            keys_until: change.keys_until,
            writes,
            state: Some(state),
            is_removed: change.is_removed,
            ..turn
        };
        self.turns.submit(&self.services, &self.mailbox, fill);
        loop {
            if let Some(answer) = self.arrivals.rare().answers.pop() {
                return Ok(answer);
            }
            if self.services.committer.is_closed() {
                return Err(JobIsOver);
            }
            self.wait().await?;
        }
    }

    /// Notifies those who wait for what is durable now.
    fn notify(&mut self, change: &Change) {
        self.services.waiters.ask(self.num);
        change.dead.iter().for_each(logs::dead);
        self.definition.report_exhausted(&change.exhausted);
        let mut replies: Vec<_> = std::mem::take(&mut self.replies);
        for pos in &change.taken {
            let known = replies.iter().position(|(other, _)| other == pos).map(|place| replies.swap_remove(place).1);
            let answer = change.replies.iter().find(|(other, _)| other == pos).map(|(_, answer)| answer.clone());
            let dead = change.dead.iter().find(|dead| dead.pos == *pos && answer.is_none());
            let record = self.job.record();
            self.services.replies.send(*pos, || match (dead, known) {
                (Some(dead), _) => replies::MessageOutcome::GivenUp { failure: dead.failure.clone() },
                (None, Some(replies::MessageOutcome::Taken { event_count, next, .. })) => {
                    replies::MessageOutcome::Taken { answer, event_count, next }
                }
                _ => replies::MessageOutcome::Taken { answer, event_count: record.events, next: record.next },
            });
        }
        // Events that were tried and stay are reported too.
        self.notify_held();
    }

    /// Releases the instance until a time or a message, and keeps it in memory briefly.
    async fn rest(&mut self, status: Status) -> Result<(), JobIsOver> {
        // A message or its wake led to a claim while it was in memory, so the store records it as ours again.
        self.is_owned |= std::mem::take(&mut self.arrivals.is_claimed);
        if self.is_owned || self.job.has_change() {
            let seen = self.job.inbox().seen();
            self.commit(Standing { status, is_owned: false }, Vec::new()).await?;
            // An extra wake does no harm, and what came in the meantime may have nothing to do with it.
            self.keep_wake(status);
            if self.job.inbox().seen() != seen || self.job.has_change() || self.arrivals.is_claimed {
                return Ok(());
            }
        }
        // The wake was removed when the instance was last woken.
        self.keep_wake(status);
        if self.arrivals.is_stopping || self.arrivals.is_evicted {
            return self.leave();
        }
        let now = self.now();
        let stays = !self.services.is_stopping()
            && self.services.residency.pause(self.num, status.until(), Some(now.after(LINGER)));
        if !stays {
            return self.leave();
        }
        self.services.due.wakeup.notify_one();
        self.wait().await?;
        self.services.resume(self.num);
        Ok(())
    }

    /// Keeps the wake in memory, if it is near.
    fn keep_wake(&self, status: Status) {
        status.until().into_iter().for_each(|due| self.services.wakes.add_stored(due, self.num));
    }

    /// Leaves memory, unless something has just arrived.
    fn leave(&mut self) -> Result<(), JobIsOver> {
        self.arrivals.is_evicted = false;
        if self.mailbox.close_if_empty() { Err(JobIsOver) } else { Ok(()) }
    }

    /// Removes an instance with nothing worth keeping. Returns `false` if it stays because a message came in time.
    async fn end(&mut self) -> Result<bool, JobIsOver> {
        let seen = self.job.inbox().seen();
        self.job.remove();
        self.commit(Standing { status: Status::Completed, is_owned: false }, Vec::new()).await?;
        if self.job.inbox().seen() != seen {
            self.job.keep(self.now());
        }
        Ok(false)
    }

    /// Releases the instance because the engine stops. What has not started is left for the next engine.
    async fn release(&mut self, now: Timestamp) -> Result<(), JobIsOver> {
        let status = Status::Sleeping { until: now };
        while self.is_owned || self.job.has_change() {
            // If a message came just before, it is received and the commit is repeated.
            self.commit(Standing { status, is_owned: false }, Vec::new()).await?;
        }
        Err(JobIsOver)
    }
}

/// The standing of an instance after a commit.
struct Standing {
    status: Status,
    is_owned: bool,
}

impl Standing {
    fn at_work() -> Self {
        Self { status: Status::Running, is_owned: true }
    }
}
