//! Effects of a workflow on other runs and on jobs, each exactly once, in the commit of the run's own entry.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::event::Event;
use outlive_core::id::Name;
use outlive_core::journal::SentTo;
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::origin::RunOrigin;
use outlive_core::queue::PushTarget;
use outlive_core::store::commit::Refusal;
use outlive_core::time::Timestamp;
use outlive_core::workflow::{EffectSpec, OpKind, Outcome, Polled, RefusedEffect, Spec, StartEffect};
use serde::Serialize;

use crate::ctx::Ctx;
use crate::ctx::operation::OpenOperation;
use crate::ctx::sleep::cancelled;
use crate::error::Error;
use crate::instance::codec;
use crate::instance::tags::Tags;
use crate::instance::target::{EventTarget, POOL_INSTANCE, QueueTarget, Target, deadline, run_id};

/// An effect that has not been recorded, or whose outcome has not been delivered.
pub(super) struct OpenEffect {
    operation: OpenOperation,
    /// What to do, until it begins.
    effect: Option<EffectSpec>,
    /// Why it cannot begin with the workflows and jobs that are registered here.
    unfit: Option<Error>,
}

impl OpenEffect {
    /// Opens an effect. `key` tells apart effects with one name on different instances.
    pub(super) fn open(
        ctx: &Ctx,
        (kind, name): (OpKind, &str),
        key: Option<&str>,
        effect: Result<EffectSpec, Error>,
        location: &'static Location<'static>,
    ) -> Self {
        let mut operation = OpenOperation::open(ctx, kind, name, location);
        if let Some(key) = key.filter(|_| effect.is_ok()) {
            operation.set_key(key);
        }
        match effect {
            Ok(effect) => Self { operation, effect: Some(effect), unfit: None },
            Err(error) => {
                operation.refuse(error);
                Self { operation, effect: None, unfit: None }
            }
        }
    }

    /// Notes that what is registered here does not fit. Not an error that user code sees: it would not be recorded, and
    /// the next deploy may register what is missing.
    fn fits(mut self, fit: Result<(), Error>) -> Self {
        self.unfit = fit.err();
        self
    }

    pub(super) fn set_key(&mut self, key: &str) {
        self.operation.set_key(key);
    }

    /// Changes what to do; an error fails the operation.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut EffectSpec) -> Result<(), Error>) {
        if let Some(Err(error)) = self.effect.as_mut().map(change) {
            self.operation.refuse(error);
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.operation.resident.now()
    }

    pub(super) fn max_payload(&self) -> usize {
        self.operation.resident.env.max_payload
    }

    pub(super) fn refuse(&mut self, error: Error) {
        self.operation.refuse(error);
    }

    /// Polls it until the effect is durable.
    pub(super) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<SentTo, Error>> {
        let Self { operation, effect, unfit } = self;
        if let Some(error) = unfit.take()
            && !operation.is_recorded()
        {
            operation.resident.lock().machine.fail(error.to_string());
        }
        let nothing = || EffectSpec::Message { id: Name::recorded(""), message: Message::Resume };
        let spec = || Spec::Effect(Box::new(effect.take().unwrap_or_else(nothing)));
        match operation.poll(cx, spec, |_, _| Ok(()))? {
            Polled::Ready(Outcome::Sent(to)) => Poll::Ready(Ok(*to)),
            Polled::Ready(Outcome::Given(_)) => Poll::Ready(Ok(SentTo { id: String::new(), detached: None })),
            Polled::Ready(Outcome::Refused(refused)) => Poll::Ready(Err(error_of(*refused))),
            Polled::Ready(Outcome::Cancelled) => Poll::Ready(Err(cancelled(operation))),
            Polled::Ready(_) => {
                let name = operation.name();
                operation.get_stuck(format!("what is recorded for {name:?} is not an effect; give it another key"));
                Poll::Pending
            }
            _ => Poll::Pending,
        }
    }
}

/// Returns the error of an effect that the store refused.
fn error_of(refused: RefusedEffect) -> Error {
    let RefusedEffect { id, refusal } = refused;
    match refusal {
        Refusal::Status(status) => Error::Status { id, status, way_out: "it no longer accepts messages" },
        Refusal::Conflict { workflow } => Error::Conflict { id, workflow: workflow.to_string(), how: "already" },
        Refusal::Taken => Error::Conflict { id, workflow: "another".to_owned(), how: "workflow or parent" },
        Refusal::Full { max_items } => Error::StreamFull { stream: id, max_items },
        Refusal::Child { parent } => Error::ChildOf { id, parent: parent.to_string() },
        _ => Error::NotFound { id },
    }
}

/// A message to another run or an event for a job, created by [`Ctx::signal`], [`Ctx::send`] and
/// [`Child::cancel`](super::Child::cancel). It is sent exactly once, in the commit that records it.
///
/// ```
/// # use outlive::prelude::*;
/// async fn approve(ctx: Ctx, orders: Vec<String>) -> Result<()> {
///     for order in &orders {
///         let approval = ctx.signal(order, "approval", "ada");
///         match approval.await {
///             Err(error) if error.is_not_found() => continue, // the order was removed
///             sent => sent?,
///         }
///     }
///     Ok(())
/// }
/// # fn main() { let _ = Engine::open("memory:").workflow("approve", approve); }
/// ```
#[must_use = "nothing is sent until this is awaited"]
pub struct Effect<'a> {
    effect: OpenEffect,
    ctx: PhantomData<&'a Ctx>,
}

impl Effect<'_> {
    #[track_caller]
    pub(super) fn signal<T: Serialize + ?Sized>(ctx: &Ctx, id: &str, name: &str, value: &T) -> Self {
        let message = || {
            let payload = codec::encode("the signal", value, ctx.resident.env.max_payload)?;
            Ok(Message::Signal { name: Name::new("signal name", name)?, payload })
        };
        Self::message(ctx, OpKind::Signal, name, id, message())
    }

    #[track_caller]
    pub(super) fn message(ctx: &Ctx, kind: OpKind, name: &str, id: &str, message: Result<Message, Error>) -> Self {
        let effect = message.and_then(|message| Ok(EffectSpec::Message { id: run_id(id)?, message }));
        let effect = OpenEffect::open(ctx, (kind, name), Some(id), effect, Location::caller());
        Self { effect, ctx: PhantomData }
    }

    #[track_caller]
    pub(super) fn send<J: EventTarget>(ctx: &Ctx, job: J, id: &str, event: &J::Event) -> Self {
        let job = job.job_name();
        let name = job.as_ref().map_or_else(|_| String::new(), Name::to_string);
        let effect = job.and_then(|job| push(ctx, job, id, event, PushTarget::Inbox));
        let fit = takes_event(ctx, &effect);
        let effect = OpenEffect::open(ctx, (OpKind::Send, &name), Some(id), effect, Location::caller()).fits(fit);
        Self { effect, ctx: PhantomData }
    }

    /// Sets a key that distinguishes effects with one name that are outstanding at the same time; by default, the id of
    /// the receiver.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn vote(ctx: Ctx, run: String) -> Result<()> {
    ///     tokio::try_join!(
    ///         ctx.signal(&run, "vote", &1).key("mine"),
    ///         ctx.signal(&run, "vote", &2).key("yours"),
    ///     )?;
    ///     Ok(())
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("vote", vote); }
    /// ```
    pub fn key(mut self, key: impl ToString) -> Self {
        self.effect.set_key(&key.to_string());
        self
    }
}

impl Future for Effect<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.effect.poll(cx).map_ok(drop)
    }
}

fn push<E: Serialize>(ctx: &Ctx, job: Name, id: &str, event: &E, place: PushTarget) -> Result<EffectSpec, Error> {
    let env = &ctx.resident.env;
    let event = Event::new(codec::encode("the event", event, env.max_payload)?);
    Ok(EffectSpec::Push { id: JobKind::instance(&job, id)?, job, event, place })
}

/// Returns an error if the job is not registered here or does not take the event.
fn takes_event(ctx: &Ctx, effect: &Result<EffectSpec, Error>) -> Result<(), Error> {
    match effect {
        Ok(EffectSpec::Push { job, event, .. }) => ctx.resident.env.names.check_event(job, &event.payload),
        _ => Ok(()),
    }
}

/// An event for a worker pool, created by [`Ctx::push`]. It is pushed exactly once, in the commit that records it.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::WorkerPool;
/// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
/// async fn welcome(ctx: Ctx, to: String) -> Result<()> {
///     Ok(ctx.push(MAIL, &to).priority(5).delay("1 minute").await?)
/// }
/// # fn main() { let _ = Engine::open("memory:").workflow("welcome", welcome); }
/// ```
#[must_use = "nothing is pushed until this is awaited"]
pub struct PushEffect<'a> {
    effect: OpenEffect,
    ctx: PhantomData<&'a Ctx>,
}

impl PushEffect<'_> {
    #[track_caller]
    pub(super) fn new<J: QueueTarget>(ctx: &Ctx, pool: J, event: &J::Event) -> Self {
        let job = pool.job_name();
        let name = job.as_ref().map_or_else(|_| String::new(), Name::to_string);
        let effect = job.and_then(|job| push(ctx, job, POOL_INSTANCE, event, PushTarget::Queue));
        let fit = takes_event(ctx, &effect);
        let effect = OpenEffect::open(ctx, (OpKind::Push, &name), None, effect, Location::caller()).fits(fit);
        Self { effect, ctx: PhantomData }
    }

    fn change(mut self, change: impl FnOnce(&mut Event) -> Result<(), Error>) -> Self {
        self.effect.change(|effect| match effect {
            EffectSpec::Push { event, .. } => change(event),
            _ => Ok(()),
        });
        self
    }

    /// Sets the priority; 0 by default, larger first.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive::job::WorkerPool;
    /// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
    /// async fn welcome(ctx: Ctx, to: String) -> Result<()> {
    ///     Ok(ctx.push(MAIL, &to).priority(10).await?) // before the newsletters
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("welcome", welcome); }
    /// ```
    pub fn priority(self, priority: i32) -> Self {
        self.change(|event| {
            event.priority = priority;
            Ok(())
        })
    }

    /// Delays the event by this time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive::job::WorkerPool;
    /// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
    /// async fn welcome(ctx: Ctx, to: String) -> Result<()> {
    ///     Ok(ctx.push(MAIL, &to).delay("1 day").await?) // this run need not wait for it
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("welcome", welcome); }
    /// ```
    pub fn delay(self, delay: impl IntoDuration) -> Self {
        let now = self.effect.now();
        self.change(|event| {
            event.due = Some(now.after(delay.into_duration()?));
            Ok(())
        })
    }

    /// Delays the event until this time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive::job::WorkerPool;
    /// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
    /// async fn welcome(ctx: Ctx, to: String) -> Result<()> {
    ///     Ok(ctx.push(MAIL, &to).at(ctx.info().started_at.after(std::time::Duration::from_secs(60))).await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("welcome", welcome); }
    /// ```
    pub fn at(self, moment: impl Into<Timestamp>) -> Self {
        self.change(|event| {
            event.due = Some(moment.into());
            Ok(())
        })
    }

    /// Drops the event if one with this key is in the queue.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive::job::WorkerPool;
    /// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
    /// async fn welcome(ctx: Ctx, to: String) -> Result<()> {
    ///     Ok(ctx.push(MAIL, &to).dedup_key(&to).await?) // another run may have pushed the same
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("welcome", welcome); }
    /// ```
    pub fn dedup_key(self, key: &str) -> Self {
        self.change(|event| {
            event.dedup = Some(Name::new("dedup key", key)?);
            Ok(())
        })
    }

    /// Puts the event into a lane: lanes take turns.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive::job::WorkerPool;
    /// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
    /// async fn welcome(ctx: Ctx, to: String) -> Result<()> {
    ///     Ok(ctx.push(MAIL, &to).lane("shop-7").await?) // a shop with much mail does not hold up the others
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("welcome", welcome); }
    /// ```
    pub fn lane(self, lane: &str) -> Self {
        self.change(|event| {
            event.key = Some(Name::new("lane", lane)?);
            Ok(())
        })
    }

    /// Sets a key that distinguishes pushes to one pool that are outstanding at the same time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive::job::WorkerPool;
    /// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
    /// async fn welcome(ctx: Ctx, to: String) -> Result<()> {
    ///     tokio::try_join!(ctx.push(MAIL, &to).key("to"), ctx.push(MAIL, &"office".to_string()).key("copy"))?;
    ///     Ok(())
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("welcome", welcome); }
    /// ```
    pub fn key(mut self, key: impl ToString) -> Self {
        self.effect.set_key(&key.to_string());
        self
    }
}

impl Future for PushEffect<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.effect.poll(cx).map_ok(drop)
    }
}

/// The start of a run, of a child or not, with its options.
pub(super) struct StartOptions {
    effect: OpenEffect,
    tags: Tags,
}

impl StartOptions {
    #[track_caller]
    pub(super) fn new<T: Target<M>, M>(ctx: &Ctx, kind: OpKind, target: &T, input: &T::Input) -> Self {
        let env = &ctx.resident.env;
        let (workflow, unnamed) = match env.names.name_of(target.reference()) {
            Ok(workflow) => (workflow, None),
            Err(error) => (Name::recorded(""), Some(error)),
        };
        let mut fit = unnamed.map_or(Ok(()), Err);
        let effect = codec::encode("the input", input, env.max_payload).map(|input| {
            fit = std::mem::replace(&mut fit, Ok(())).and_then(|()| env.names.check_input(&workflow, &input));
            let (workflow, tags, due) = (workflow.clone(), Default::default(), Timestamp::AT_ONCE);
            let origin = RunOrigin::inherited(env.origin.as_ref(), ctx.resident.info.origin.as_ref());
            EffectSpec::Start(StartEffect {
                workflow,
                input,
                id: None,
                origin,
                tags,
                due,
                parent: None,
                deadline: None,
            })
        });
        let effect = OpenEffect::open(ctx, (kind, workflow.as_str()), None, effect, Location::caller()).fits(fit);
        Self { effect, tags: Tags::default() }
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut StartEffect) -> Result<(), Error>) {
        self.effect.change(|effect| match effect {
            EffectSpec::Start(start) => change(start),
            _ => Ok(()),
        });
    }

    /// Sets the id, which also tells this start apart from others.
    pub(super) fn set_id(&mut self, id: &str) {
        self.change(|start| {
            start.id = Some(run_id(id)?);
            Ok(())
        });
        self.effect.set_key(id);
    }

    pub(super) fn set_key(&mut self, key: &str) {
        self.effect.set_key(key);
    }

    pub(super) fn add_tag(&mut self, key: &str, value: &str) {
        let max_payload = self.effect.max_payload();
        if let Err(error) = self.tags.add(key, value) {
            return self.effect.refuse(error);
        }
        let tags = self.tags.clone();
        self.change(|start| {
            tags.check(&start.input, max_payload)?;
            start.tags = tags.into_map();
            Ok(())
        });
    }

    pub(super) fn set_delay(&mut self, delay: impl IntoDuration) {
        let (now, delay) = (self.effect.now(), delay.into_duration());
        self.change(|start| {
            let delay: Duration = delay?;
            start.due = now.after(delay);
            Ok(())
        });
    }

    pub(super) fn set_deadline(&mut self, limit: impl IntoDuration) {
        let limit = deadline(limit);
        self.change(|start| {
            start.deadline = Some(limit?);
            Ok(())
        });
    }

    /// Returns the operation, to declare undos.
    pub(super) fn operation_mut(&mut self) -> &mut OpenOperation {
        &mut self.effect.operation
    }

    pub(super) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<SentTo, Error>> {
        if self.effect.operation.has_undos() {
            self.change(|start| match &start.parent {
                Some(parent) if parent.is_detached => Err(Error::Setup(
                    "a detached child cannot have an undo: it outlives the run that would run it".into(),
                )),
                _ => Ok(()),
            });
        }
        self.effect.poll(cx)
    }
}

/// A run to start that is not a child, created by [`Ctx::start`]. Returns its id. It is started exactly once, in the
/// commit that records it.
///
/// ```
/// # use outlive::prelude::*;
/// # async fn remind(_: Ctx, _: String) -> Result<()> { Ok(()) }
/// async fn checkout(ctx: Ctx, order: String) -> Result<String> {
///     let reminder = ctx.start(remind, &order).id(&format!("remind-{order}")).delay("3 days").await?;
///     Ok(reminder)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("checkout", checkout).workflow("remind", remind).start().await?;
/// let run = engine.start(checkout, &"42".to_string()).await?;
/// assert_eq!(run.result().await?, "remind-42");
/// assert_eq!(engine.get_run::<()>("remind-42").await?.status().await?, Status::Pending);
/// # Ok(()) }
/// ```
#[must_use = "nothing is started until this is awaited"]
pub struct StartRun<'a> {
    start: StartOptions,
    ctx: PhantomData<&'a Ctx>,
}

impl StartRun<'_> {
    #[track_caller]
    pub(super) fn new<T: Target<M>, M>(ctx: &Ctx, target: &T, input: &T::Input) -> Self {
        Self { start: StartOptions::new(ctx, OpKind::Start, target, input), ctx: PhantomData }
    }

    /// Sets the id. If a run of the same workflow with the same input has it, nothing is started; if another run has it,
    /// this returns [`Error::Conflict`]. By default, the run gets a new id.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn remind(_: Ctx, _: String) -> Result<()> { Ok(()) }
    /// async fn checkout(ctx: Ctx, order: String) -> Result<String> {
    ///     Ok(ctx.start(remind, &order).id(&format!("remind-{order}")).await?) // one reminder per order
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("checkout", checkout).workflow("remind", remind); }
    /// ```
    pub fn id(mut self, id: &str) -> Self {
        self.start.set_id(id);
        self
    }

    /// Adds a tag to find the run by.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn remind(_: Ctx, _: String) -> Result<()> { Ok(()) }
    /// async fn checkout(ctx: Ctx, order: String) -> Result<String> {
    ///     Ok(ctx.start(remind, &order).tag("order", &order).await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("checkout", checkout).workflow("remind", remind); }
    /// ```
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.start.add_tag(key, value);
        self
    }

    /// Delays the start by this time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn remind(_: Ctx, _: String) -> Result<()> { Ok(()) }
    /// async fn checkout(ctx: Ctx, order: String) -> Result<String> {
    ///     Ok(ctx.start(remind, &order).delay("3 days").await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("checkout", checkout).workflow("remind", remind); }
    /// ```
    pub fn delay(mut self, delay: impl IntoDuration) -> Self {
        self.start.set_delay(delay);
        self
    }

    /// Starts the run at this time; a time in the past means now.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn remind(_: Ctx, _: String) -> Result<()> { Ok(()) }
    /// async fn checkout(ctx: Ctx, (order, due): (String, Timestamp)) -> Result<String> {
    ///     Ok(ctx.start(remind, &order).at(due).await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("checkout", checkout).workflow("remind", remind); }
    /// ```
    pub fn at(mut self, moment: impl Into<Timestamp>) -> Self {
        self.start.change(|start| {
            start.due = moment.into();
            Ok(())
        });
        self
    }

    /// Cancels the run if it has not ended after this time, which counts from its start.
    pub fn deadline(mut self, limit: impl IntoDuration) -> Self {
        self.start.set_deadline(limit);
        self
    }

    /// Sets a key that distinguishes starts of one workflow that are outstanding at the same time; by default, the id.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn remind(_: Ctx, _: String) -> Result<()> { Ok(()) }
    /// async fn checkout(ctx: Ctx, order: String) -> Result<String> {
    ///     let (first, _) = tokio::try_join!(
    ///         ctx.start(remind, &order).key("first").delay("1 day"),
    ///         ctx.start(remind, &order).key("second").delay("1 week"),
    ///     )?;
    ///     Ok(first)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("checkout", checkout).workflow("remind", remind); }
    /// ```
    pub fn key(mut self, key: impl ToString) -> Self {
        self.start.set_key(&key.to_string());
        self
    }
}

impl Future for StartRun<'_> {
    type Output = Result<String, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.start.poll(cx).map_ok(|to| to.id)
    }
}
