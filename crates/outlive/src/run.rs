//! The handle to one run: its status, journal and result, and the ways to act on it.

mod ask;
mod children;
mod dead;
mod fork;
mod outputs;
mod page;
mod progress;
mod rewind;
mod stream;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use outlive_core::failure::Failure;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Refusal, Reopen, SendWrite, Write};
use outlive_core::store::page::whole_journal;
use outlive_core::store::query::Instance;
use outlive_core::time::Timestamp;
use outlive_core::workflow::counted;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::instance::codec;
use crate::runtime::call::PendingCall;
use crate::runtime::shared::{Gives, Shared};
use crate::runtime::waiters::{RunOutcome, Until};
use crate::signal::SignalNamed;

pub use ask::RunQuestion;
pub use children::Children;
pub use dead::DeadSignal;
pub use fork::Fork;
pub use page::{PageMark, RunPage};
pub use progress::{Branch, Progress};
pub(crate) use rewind::Planning;
pub use rewind::{Rewind, RewindPlan};
pub use stream::{ItemAttempt, ItemStream, StreamItem, ValueWatch};

/// A handle to a run that returns an `O`.
///
/// ```
/// use outlive::prelude::*;
/// async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
/// let run: Run<u32> = engine.start(double, &21).id("twice").await?;
/// assert_eq!(run.result().await?, 42);
/// let found: Run<u32> = engine.get_run("twice").await?; // the same run
/// assert_eq!(found.status().await?, Status::Completed);
/// # Ok(()) }
/// ```
pub struct Run<O> {
    shared: Arc<Shared>,
    id: Name,
    num: InstanceNum,
    output: Gives<O>,
}

impl<O> Clone for Run<O> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), id: self.id.clone(), num: self.num, output: self.output }
    }
}

impl<O> std::fmt::Debug for Run<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Run({})", self.id)
    }
}

/// Information about a run.
///
/// ```
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
/// let run = engine.start(double, &21).tag("team", "maths").await?;
/// run.result().await?;
/// let info = run.info().await?;
/// assert_eq!((info.workflow.as_str(), info.status), ("double", Status::Completed));
/// assert_eq!((info.input.as_str(), info.output.unwrap().as_str()), ("21", "42"));
/// assert_eq!(info.tags["team"], "maths");
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct RunInfo {
    /// The run's id.
    pub id: String,
    /// The name its workflow is registered under.
    pub workflow: String,
    /// The run's status.
    pub status: Status,
    /// The input, as JSON.
    pub input: Payload,
    /// The result, as JSON, once the run has completed.
    pub output: Option<Payload>,
    /// The failure, once the run has failed.
    pub failure: Option<Failure>,
    /// Why it is stuck, why it was cancelled, what it waits for, or what is recorded that its code did not ask for.
    pub note: Option<String>,
    /// When the run was accepted.
    pub created_at: Timestamp,
    /// When the run began.
    pub started_at: Option<Timestamp>,
    /// When the run ended.
    pub ended_at: Option<Timestamp>,
    /// The run's tags.
    pub tags: BTreeMap<String, String>,
    /// How often a process died while driving the run since it last made progress.
    pub recoveries: u32,
    /// The id of the run that this one is a child of, if it is one.
    pub parent: Option<String>,
    /// Whether this is a child that continues when its parent ends.
    pub is_detached: bool,
    /// The version of the code that started the run, if the engine that started it
    /// [had one](crate::Builder::version).
    pub version: Option<String>,
    /// The trace that the start of the run belongs to, as a W3C `traceparent`, if it was started as part of one.
    pub traceparent: Option<String>,
    /// When the run is cancelled if it has not ended.
    pub deadline: Option<Timestamp>,
    /// Which run it is under its id, from 1: one more after each [restart](crate::Ctx::restart). `input` is that of the
    /// first one.
    pub run_number: u32,
}

impl RunInfo {
    pub(crate) fn of(instance: Instance) -> Self {
        let version = instance.version().map(str::to_owned);
        let traceparent = instance.trace().map(|trace| trace.parent().to_owned());
        let is_failed = instance.status == Status::Failed;
        let (output, failure) = match instance.outcome {
            Some(outcome) if is_failed => (None, Some(recorded_failure(&outcome))),
            outcome => (outcome, None),
        };
        Self {
            version,
            traceparent,
            id: instance.id.to_string(),
            workflow: instance.workflow.to_string(),
            status: instance.status,
            input: instance.input,
            output,
            failure,
            note: instance.note,
            created_at: instance.created_at,
            started_at: instance.started_at,
            ended_at: instance.ended_at,
            tags: instance.tags,
            recoveries: instance.recoveries,
            deadline: instance.deadline,
            run_number: instance.restarts.saturating_add(1),
            is_detached: instance.parent.as_ref().is_some_and(|parent| parent.is_detached),
            parent: instance.parent.map(|parent| parent.id.to_string()),
        }
    }
}

impl RunInfo {
    /// Returns the status with what is due first: `waiting (approval, 2d 23h left)`, `waiting (child order-42/ship)`,
    /// `retrying (charge card, attempt 3 in 12 s)`, `sleeping (until 2026-01-02T00:00:00Z)`. [`Run::progress`] lists all
    /// branches.
    ///
    /// ```
    /// # use outlive::{clock::Clock as _, prelude::*};
    /// # use outlive_testkit::TestEngine;
    /// # async fn approve(ctx: Ctx, _: ()) -> Result<String> { Ok(ctx.wait("approval").timeout("3 days").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("approve", approve)).await;
    /// # test.start(approve, &()).await?;
    /// # test.settle().await;
    /// # let now = test.clock().now();
    /// for run in test.list(Filter::runs()).await?.runs {
    ///     println!("{} is {}", run.id, run.status_text(now));
    /// #   assert_eq!(run.status_text(now), "waiting (approval, 3d left)");
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn status_text(&self, now: Timestamp) -> String {
        progress::status_text(self.status, self.note.as_deref(), now)
    }
}

fn recorded_failure(outcome: &Payload) -> Failure {
    Failure::from_payload(outcome)
        .unwrap_or_else(|problem| Failure::new(outlive_core::failure::Cause::Error, format!("{problem}: {outcome}")))
}

/// The outcome of a request to end a run.
///
/// ```
/// use outlive::CancelOutcome;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
/// let run = engine.start(double, &21).await?;
/// run.result().await?;
/// assert_eq!(run.cancel("too late").await?, CancelOutcome::Ended(Status::Completed));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The run will end as cancelled, whatever it does from here on.
    Taken,
    /// The run was stuck, and has ended as cancelled. Its code could not resume, so none of its clean-up has run: undo
    /// by hand what it would have undone. A stuck run that is fixed and [retried](Run::retry) before it is cancelled
    /// does clean up.
    TakenStuck,
    /// The run had already ended; nothing was changed.
    Ended(Status),
}

impl<O> Run<O> {
    pub(crate) fn new(shared: Arc<Shared>, id: Name, num: InstanceNum) -> Self {
        Self { shared, id, num, output: Gives::default() }
    }

    /// Returns the run's id.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let run = engine.start(double, &21).id("twice").await?;
    /// assert_eq!(run.id(), "twice");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Returns the run's status.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("nap", nap)).await;
    /// let run = test.start(nap, &()).await?;
    /// # test.settle().await;
    /// assert!(matches!(run.status().await?, Status::Sleeping { .. }));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if the run was purged.
    pub async fn status(&self) -> Result<Status, Error> {
        Ok(self.instance().await?.status)
    }

    /// Returns what is stored about the run, except for its journal.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let run = engine.start(double, &21).await?;
    /// run.result().await?;
    /// let info = run.info().await?;
    /// assert!(info.ended_at >= info.started_at && info.failure.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if the run was purged.
    pub async fn info(&self) -> Result<RunInfo, Error> {
        Ok(RunInfo::of(self.instance().await?))
    }

    /// Returns how far the run is: what each branch waits for, the attempt, when something is due next, the last
    /// failure and how many operations have ended. Also works for a run that another process executes.
    ///
    /// ```
    /// use outlive::Branch;
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn charge() -> Result<()> { Ok(()) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<()> {
    ///     Ok(ctx.step("charge card", charge).retry(Retry::times(5).constant("12 seconds")).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    /// # test.fail_next("charge card", "the bank is closed");
    /// let run = test.start(pay, &()).await?;
    /// # test.settle().await;
    /// let progress = run.progress().await?;
    /// assert_eq!(progress.to_string(), "retrying (charge card, attempt 2 in 12 s)");
    /// assert!(matches!(&progress.branches[..], [Branch::Retry { attempt: 2, .. }]));
    /// assert_eq!(progress.last_failure.unwrap().message, "the bank is closed");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`journal`](Self::journal).
    pub async fn progress(&self) -> Result<Progress, Error> {
        let instance = self.instance().await?;
        let journal = counted(whole_journal(&*self.shared.store, self.num, 0).await?);
        Ok(Progress::of(&instance, &journal, self.shared.clock.now()))
    }

    /// Returns the run's journal: what it has done, in order.
    ///
    /// ```
    /// use outlive::EntryKind;
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("pay", pay).start().await?;
    /// let run = engine.start(pay, &()).await?;
    /// run.result().await?;
    /// let journal = run.journal().await?;
    /// assert_eq!((journal[0].kind, &*journal[0].op), (EntryKind::StepDone, "step:charge"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if the run was purged, [`Error::Store`] if an entry is damaged.
    pub async fn journal(&self) -> Result<Vec<Entry>, Error> {
        self.journal_since(0).await
    }

    /// Returns the journal entries after `seq`.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("pay", pay).start().await?;
    /// # let run = engine.start(pay, &()).await?;
    /// # run.result().await?;
    /// let seen = run.journal().await?.last().map_or(0, |entry| entry.seq);
    /// assert!(run.journal_since(seen).await?.is_empty()); // nothing new
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`journal`](Self::journal).
    pub async fn journal_since(&self, seq: u64) -> Result<Vec<Entry>, Error> {
        self.instance().await?;
        Ok(whole_journal(&*self.shared.store, self.num, seq).await?)
    }

    /// Returns the journal entries after `seq`, up to about 4 MiB of them: for journals of any length. Returns at least
    /// one entry if there is one.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("pay", pay).start().await?;
    /// # let run = engine.start(pay, &()).await?;
    /// # run.result().await?;
    /// let mut seen = 0;
    /// while let Some(last) = {
    ///     let page = run.journal_page(seen).await?;
    ///     page.iter().for_each(|entry| println!("{} {}", entry.seq, entry.op));
    ///     page.last().map(|entry| entry.seq)
    /// } {
    ///     seen = last;
    /// }
    /// # assert_eq!(seen, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`journal`](Self::journal).
    pub async fn journal_page(&self, seq: u64) -> Result<Vec<Entry>, Error> {
        self.instance().await?;
        Ok(self.shared.store.journal(self.num, seq, usize::MAX).await?)
    }

    /// Returns the steps that have completed, in the order in which they did, by their identity in the journal.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<()> { Ok(()) }
    /// # async fn ship() -> Result<()> { Ok(()) }
    /// async fn checkout(ctx: Ctx, _: ()) -> Result<()> {
    ///     ctx.step("charge", charge).await?;
    ///     Ok(ctx.step("ship", ship).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("checkout", checkout).start().await?;
    /// let run = engine.start(checkout, &()).await?;
    /// run.result().await?;
    /// assert_eq!(run.completed_steps().await?, ["charge", "ship"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`journal`](Self::journal).
    pub async fn completed_steps(&self) -> Result<Vec<String>, Error> {
        let journal = counted(self.journal().await?);
        let done = journal.iter().filter(|entry| entry.kind == EntryKind::StepDone);
        Ok(done.map(|entry| entry.op.replacen("step:", "", 1)).collect())
    }

    /// Sends a named value to the run. A [`wait`](crate::Ctx::wait) receives it, now or whenever the run gets to one.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn approve(ctx: Ctx, _: ()) -> Result<String> { Ok(ctx.wait("approval").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("approve", approve).start().await?;
    /// let run = engine.start(approve, &()).await?;
    /// run.signal("approval", "ada").await?;
    /// assert_eq!(run.result().await?, "ada");
    /// # Ok(()) }
    /// ```
    pub fn signal<T: Serialize + ?Sized>(&self, name: impl SignalNamed<T>, value: &T) -> Signal {
        let message = Name::new("signal name", name.as_name()).map_err(Error::from).and_then(|name| {
            let payload = self.shared.encode(&format!("signal {:?}", name.as_str()), value)?;
            Ok(Message::Signal { name, payload })
        });
        let (shared, id) = (self.shared.clone(), self.id.clone());
        Signal { call: PendingCall::new(SignalCall { shared, id, num: self.num, message, dedup: None }) }
    }

    /// Asks the run to end: what it waits for returns [`Error::Cancelled`], and it may clean up in steps.
    ///
    /// ```
    /// # use outlive::{CancelOutcome, prelude::*};
    /// # async fn undo() -> Result<()> { Ok(()) }
    /// async fn approve(ctx: Ctx, _: ()) -> Result<()> {
    ///     match ctx.wait("approval").await {
    ///         Err(error) if error.is_cancelled() => Ok(ctx.step("undo", undo).await?),
    ///         other => Ok(other?),
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("approve", approve).start().await?;
    /// let run = engine.start(approve, &()).await?;
    /// assert_eq!(run.cancel("order withdrawn").await?, CancelOutcome::Taken);
    /// assert!(run.result().await.unwrap_err().is_cancelled());
    /// assert_eq!(run.completed_steps().await?, ["undo"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if the run was purged.
    pub async fn cancel(&self, reason: &str) -> Result<CancelOutcome, Error> {
        self.check_reason(reason)?;
        self.ask_to_end(Message::Cancel { reason: reason.to_owned() }).await
    }

    /// Ends the run at once, without clean-up.
    ///
    /// ```
    /// # use outlive::{CancelOutcome, prelude::*};
    /// # async fn approve(ctx: Ctx, _: ()) -> Result<bool> { Ok(ctx.wait("approval").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("approve", approve).start().await?;
    /// let run = engine.start(approve, &()).await?;
    /// assert_eq!(run.terminate("gone wrong").await?, CancelOutcome::Taken);
    /// assert_eq!(run.result().await.unwrap_err().to_string(), "cancelled: gone wrong");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if the run was purged.
    pub async fn terminate(&self, reason: &str) -> Result<CancelOutcome, Error> {
        self.check_reason(reason)?;
        self.ask_to_end(Message::Terminate { reason: reason.to_owned() }).await
    }

    fn check_reason(&self, reason: &str) -> Result<(), Error> {
        let (bytes, max_bytes) = (reason.len(), self.shared.max_payload);
        match bytes > max_bytes {
            true => Err(Error::PayloadTooLarge { what: "the reason".to_owned(), bytes, max_bytes }),
            false => Ok(()),
        }
    }

    async fn ask_to_end(&self, message: Message) -> Result<CancelOutcome, Error> {
        let was_stuck = matches!(message, Message::Cancel { .. }) && self.status().await? == Status::Stuck;
        match send(&self.shared, &self.id, self.num, message, None).await {
            Ok(_) if was_stuck => Ok(CancelOutcome::TakenStuck),
            Ok(_) => Ok(CancelOutcome::Taken),
            Err(Error::Status { status, .. }) => Ok(CancelOutcome::Ended(status)),
            Err(error) => Err(error),
        }
    }

    /// Pauses the run until it is [resumed](Self::resume). A step that is running finishes and is recorded.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("nap", nap)).await;
    /// let run = test.start(nap, &()).await?;
    /// run.pause().await?;
    /// # test.settle().await;
    /// assert_eq!(run.status().await?, Status::Paused);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Status`] if the run has ended or is stuck.
    pub async fn pause(&self) -> Result<(), Error> {
        send(&self.shared, &self.id, self.num, Message::Pause, None).await.map(drop)
    }

    /// Resumes the run after a [pause](Self::pause).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn nap(ctx: Ctx, _: ()) -> Result<u32> { ctx.sleep("1 day").await?; Ok(42) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("nap", nap)).await;
    /// let run = test.start(nap, &()).await?;
    /// run.pause().await?;
    /// run.resume().await?;
    /// assert_eq!(test.result(&run).await?, 42);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Status`] if the run has ended or is stuck.
    pub async fn resume(&self) -> Result<(), Error> {
        send(&self.shared, &self.id, self.num, Message::Resume, None).await.map(drop)
    }

    /// Resumes a failed or stuck run from its last recorded point. Completed steps are kept; failures at the end of the
    /// journal are dropped, and what failed is tried again.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    /// # test.fail_next("charge", "the bank is closed");
    /// let run = test.start(pay, &()).await?;
    /// assert_eq!(run.result().await.unwrap_err().code(), "failed");
    /// run.retry().await?; // the bank is open again
    /// assert_eq!(run.result().await?, 42);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Status`] if the run is neither failed nor stuck.
    pub async fn retry(&self) -> Result<(), Error> {
        self.instance().await?;
        let reopen = Reopen { id: self.id.clone(), num: Some(self.num), at: self.shared.clock.now() };
        let answer = self.shared.committer.write(Write::Reopen(reopen)).await?;
        self.done(answer, "only a failed or stuck run can be retried")
    }

    /// Removes everything stored about the run, which must have ended or be stuck. Its id can be used again.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let run = engine.start(double, &21).await?;
    /// run.result().await?;
    /// run.purge().await?;
    /// assert!(run.status().await.unwrap_err().is_not_found());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Status`] if the run has not ended and is not stuck, [`Error::ChildOf`] if it is a stuck child whose parent
    /// waits for it.
    pub async fn purge(&self) -> Result<(), Error> {
        self.instance().await?;
        let answer = self.shared.committer.write(Write::Purge(self.id.clone(), Some(self.num))).await?;
        self.shared.waiters.ask(self.num);
        self.done(answer, "cancel or terminate it first")
    }

    fn done(&self, answer: Answer, way_out: &'static str) -> Result<(), Error> {
        match answer {
            Answer::Refused(refusal) => Err(refused(&self.id, refusal, way_out)),
            _ => Ok(()),
        }
    }

    async fn instance(&self) -> Result<Instance, Error> {
        let instance = self.shared.instance(&self.id).await?;
        if instance.num != self.num {
            return Err(Error::NotFound { id: self.id.to_string() });
        }
        Ok(instance)
    }
}

impl<O: DeserializeOwned> Run<O> {
    /// Waits for the run to end and returns its result.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn halve(_: Ctx, n: u32) -> Result<u32> {
    ///     if n % 2 == 0 { Ok(n / 2) } else { Err(format!("{n} is odd").into()) }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("halve", halve).start().await?;
    /// assert_eq!(engine.start(halve, &84).await?.result().await?, 42);
    /// let error = engine.start(halve, &7).await?.result().await.unwrap_err();
    /// assert_eq!(error.failure().unwrap().message, "7 is odd");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Failed`], [`Error::Cancelled`] or [`Error::Stuck`], depending on how the run ended; [`Error::Payload`]
    /// if the result does not deserialize as an `O`; [`Error::NotFound`] if the run was purged.
    pub async fn result(&self) -> Result<O, Error> {
        loop {
            // Subscribe before reading the store: a later end is reported, an earlier one is in the store.
            let wait = self.shared.waiters.wait_for(self.num, Until::Reported);
            if !self.shared.services.as_ref().is_some_and(|services| services.hears_of(self.num)) {
                let instance = self.instance().await?;
                if RunOutcome::is_in(instance.status) {
                    return self.outcome(instance.into());
                }
            }
            self.shared.committer.check()?;
            if let Some(end) = wait.await {
                return self.outcome(end);
            }
        }
    }

    fn outcome(&self, end: RunOutcome) -> Result<O, Error> {
        let id = self.id.to_string();
        match end.status {
            Status::Completed => {
                let output = end.outcome.unwrap_or_else(|| Payload::recorded("null"));
                codec::decode(&format!("the result of run {id:?}"), &output)
            }
            Status::Failed => Err(Error::Failed {
                id,
                failure: recorded_failure(&end.outcome.unwrap_or_else(|| Payload::recorded("null"))),
            }),
            Status::Cancelled => Err(Error::Cancelled { reason: end.note.unwrap_or_default() }),
            _ => Err(Error::Stuck { id, reason: end.note.unwrap_or_default() }),
        }
    }
}

/// A signal, created by [`Run::signal`]. Nothing is sent until it is awaited.
///
/// Awaiting it returns `true` if the signal was kept, and `false` if an earlier signal to the run had the same
/// [dedup key](Self::dedup_key).
///
/// ```
/// # use outlive::prelude::*;
/// # async fn approve(ctx: Ctx, _: ()) -> Result<bool> { Ok(ctx.wait("approval").await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("approve", approve).start().await?;
/// # let run = engine.start(approve, &()).await?;
/// let signal: outlive::Signal = run.signal("approval", &true);
/// signal.await?; // it is sent here
/// assert!(run.result().await?);
/// # Ok(()) }
/// ```
#[must_use = "a signal is not sent until this is awaited"]
pub struct Signal {
    call: PendingCall<SignalCall, Result<bool, Error>>,
}

struct SignalCall {
    shared: Arc<Shared>,
    id: Name,
    num: InstanceNum,
    message: Result<Message, Error>,
    dedup: Option<Result<Name, Error>>,
}

impl Signal {
    /// Sets a deduplication key: a second signal to the run with the same key is not kept.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn sum(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.wait::<u32>("n").await? + ctx.wait::<u32>("n").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("sum", sum).start().await?;
    /// # let run = engine.start(sum, &()).await?;
    /// assert!(run.signal("n", &1).dedup_key("request-1").await?);
    /// assert!(!run.signal("n", &1).dedup_key("request-1").await?); // sent again after a lost reply: not kept
    /// run.signal("n", &2).dedup_key("request-2").await?;
    /// assert_eq!(run.result().await?, 3);
    /// # Ok(()) }
    /// ```
    pub fn dedup_key(mut self, key: &str) -> Self {
        self.call.set(|call| call.dedup = Some(Name::new("dedup key", key).map_err(Error::from)));
        self
    }
}

impl Future for Signal {
    type Output = Result<bool, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, async |SignalCall { shared, id, num, message, dedup }: SignalCall| {
            let dedup = dedup.transpose()?;
            send(&shared, &id, num, message?, dedup).await
        })
    }
}

/// Sends a message. Returns `false` if an earlier one had the same dedup key.
pub(crate) async fn send(
    shared: &Shared,
    id: &Name,
    num: InstanceNum,
    message: Message,
    dedup: Option<Name>,
) -> Result<bool, Error> {
    let at = shared.clock.now();
    let send = SendWrite { id: id.clone(), num: Some(num), message, at, dedup, token: shared.random.token() };
    match shared.committer.write(Write::Message(send)).await? {
        Answer::Refused(refusal) => Err(refused(id, refusal, "it no longer accepts messages")),
        Answer::Sent { is_new, .. } => Ok(is_new),
        _ => Err(Error::Shutdown),
    }
}

pub(crate) fn refused(id: &Name, refusal: Refusal, way_out: &'static str) -> Error {
    match refusal {
        Refusal::Status(status) => Error::Status { id: id.to_string(), status, way_out },
        Refusal::Child { parent } => Error::ChildOf { id: id.to_string(), parent: parent.to_string() },
        _ => Error::NotFound { id: id.to_string() },
    }
}
