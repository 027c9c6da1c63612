//! Forks a run: a new run continues from a point of its journal.

use std::pin::Pin;
use std::task::{Context, Poll};

use outlive_core::child::ChildOutcome;
use outlive_core::duration::IntoDuration;
use outlive_core::id::Name;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::store::beginning::Beginning;
use outlive_core::store::commit::{Answer, Epoch, ForkWrite, KeptChild, OnConflict, Refusal, StartWrite, Write};
use outlive_core::time::Timestamp;
use outlive_core::workflow::RewindPoint;
use serde::Serialize;

use super::Run;
use super::rewind::{PlannedCut, Planning, RewindPlan};
use crate::error::Error;
use crate::instance::codec;
use crate::instance::target::Names as _;
use crate::runtime::call::PendingCall;
use crate::runtime::shared::Gives;

/// A fork, created by [`Run::fork`]. Nothing is created until it is awaited.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive_testkit::TestEngine;
/// # async fn charge(amount: u32) -> Result<u32> { Ok(amount) }
/// # async fn order(ctx: Ctx, amount: u32) -> Result<u32> { Ok(ctx.step("charge", || charge(amount)).await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let test = TestEngine::new(|engine| engine.workflow("order", order)).await;
/// # let run = test.start(order, &7).id("order-42").await?;
/// # test.result(&run).await?;
/// let fork: outlive::Fork<u32> = run.fork("charge");
/// let again = fork.input(&9).id("order-42-corrected").await?; // it is created here
/// assert_eq!(test.result(&again).await?, 9);
/// # Ok(()) }
/// ```
#[must_use = "a run is not forked until this is awaited"]
pub struct Fork<O> {
    planning: Planning,
    call: PendingCall<ForkCall<O>, Result<Run<O>, Error>>,
}

struct ForkCall<O> {
    planning: Planning,
    input: Option<Payload>,
    id: Option<Name>,
    deadline: Option<std::time::Duration>,
    problem: Option<Error>,
    output: Gives<O>,
}

impl<O> Run<O> {
    /// Creates a new run that continues from a point of this one, which stays as it is: with what was recorded up to
    /// there, the same tags, and the same input unless [another](Fork::input) is given. The point is given as for
    /// [`rewind`](Self::rewind).
    ///
    /// Random numbers and times are the same in what is kept. Signals that this run took after the point are in the inbox
    /// of the fork, and so are the results of children that were started before it. The fork is nobody's child and has no
    /// deadline. If what is kept does not fit the input, the fork becomes stuck, as with changed code.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn reserve() -> Result<u32> { Ok(1) }
    /// # async fn charge(amount: u32) -> Result<u32> { Ok(amount) }
    /// # async fn order(ctx: Ctx, amount: u32) -> Result<u32> {
    /// #     ctx.step("reserve", reserve).await?;
    /// #     Ok(ctx.step("charge", || charge(amount)).await?)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("order", order)).await;
    /// let run = test.start(order, &7).id("order-42").await?; // the amount should have been 9
    /// # test.result(&run).await?;
    /// let fork = run.fork("charge").input(&9).id("order-42-corrected").await?;
    /// assert_eq!(test.result(&fork).await?, 9);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoRewindPoint`] and [`Error::AmbiguousPoint`] as for a rewind, [`Error::Conflict`] if the id is taken,
    /// [`Error::PayloadTooLarge`] if the input is, [`Error::Status`] if the run has not begun, [`Error::ForkChild`] if a
    /// child that was started before the point has not ended.
    pub fn fork(&self, at: impl Into<RewindPoint>) -> Fork<O> {
        let planning = self.planning(at.into());
        let call = ForkCall {
            planning: planning.clone(),
            input: None,
            id: None,
            deadline: None,
            problem: None,
            output: Gives::default(),
        };
        Fork { planning, call: PendingCall::new(call) }
    }
}

impl<O> Fork<O> {
    /// Sets the input of the new run.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// # let run = engine.start(double, &7).await?;
    /// # run.result().await?;
    /// let corrected = run.fork(outlive::RewindPoint::Start).input(&21).await?;
    /// assert_eq!(corrected.result().await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn input<T: Serialize + ?Sized>(self, input: &T) -> Self {
        self.with_input(codec::encode("the input", input, usize::MAX))
    }

    /// Sets the input of the new run as JSON text: for tools that do not know its type.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// # let run = engine.start(double, &7).await?;
    /// # run.result().await?;
    /// let typed_in = "21";
    /// let corrected = run.fork(outlive::RewindPoint::Start).input_json(typed_in).await?;
    /// assert_eq!(corrected.result().await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn input_json(self, input: &str) -> Self {
        let parsed = Payload::parse(input).map_err(|error| Error::Payload {
            what: format!("the input {:?} is not JSON that can be stored", input.chars().take(60).collect::<String>()),
            problem: error.to_string(),
        });
        self.with_input(parsed)
    }

    fn with_input(mut self, input: Result<Payload, Error>) -> Self {
        self.call.set(|call| match input {
            Ok(input) => call.input = Some(input),
            Err(error) => drop(call.problem.get_or_insert(error)),
        });
        self
    }

    /// Sets the id of the new run. Without one, it gets a new id.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// # let run = engine.start(double, &7).id("order-42").await?;
    /// # run.result().await?;
    /// let again = || run.fork(outlive::RewindPoint::Start).id("order-42-again");
    /// again().await?;
    /// assert!(again().await.unwrap_err().is_conflict()); // a fork never joins a run
    /// # Ok(()) }
    /// ```
    pub fn id(mut self, id: &str) -> Self {
        self.call.set(|call| match Name::new("run id", id) {
            Ok(id) => call.id = Some(id),
            Err(error) => drop(call.problem.get_or_insert(error.into())),
        });
        self
    }

    /// Cancels the new run if it has not ended after this time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// # let run = engine.start(double, &7).await?;
    /// # run.result().await?;
    /// let again = run.fork(outlive::RewindPoint::Start).deadline("1 hour").await?;
    /// assert!(again.info().await?.deadline.is_some());
    /// # Ok(()) }
    /// ```
    pub fn deadline(mut self, limit: impl IntoDuration) -> Self {
        self.call.set(|call| match limit.into_duration() {
            Ok(limit) => call.deadline = Some(limit),
            Err(error) => drop(call.problem.get_or_insert(error.into())),
        });
        self
    }

    /// Returns what the fork would keep and what would run again, and creates nothing.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// # let run = engine.start(double, &7).await?;
    /// # run.result().await?;
    /// let plan = run.fork(outlive::RewindPoint::Start).dry_run().await?;
    /// assert_eq!(plan.kept_to, 0, "a fork at the start is a new run with the same input");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Run::fork`], apart from those about its id and input.
    pub async fn dry_run(self) -> Result<RewindPlan, Error> {
        let planned = self.planning.plan().await?;
        ends_of_children(&self.planning, &planned).await?;
        Ok(RewindPlan::of(&self.planning.id, &planned.cut))
    }
}

impl<O: Send + 'static> Future for Fork<O> {
    type Output = Result<Run<O>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, ForkCall::fork)
    }
}

impl<O> ForkCall<O> {
    async fn fork(self) -> Result<Run<O>, Error> {
        if let Some(error) = self.problem {
            return Err(error);
        }
        let shared = self.planning.shared.clone();
        if let Some(input) = &self.input {
            shared.check_size("the input", input)?;
        }
        let planned = self.planning.plan().await?;
        let arriving = ends_of_children(&self.planning, &planned).await?;
        let PlannedCut { instance, journal, cut } = planned;
        let input = self.input.unwrap_or_else(|| Beginning::of(&instance, &journal).input);
        if shared.services.is_some() {
            shared.registry.check_input(&instance.workflow, &input)?;
        }
        let at = shared.clock.now();
        let new_id = || Name::recorded(shared.random.id(at).hyphenated().encode_lower(&mut [0; 36]));
        let id = self.id.unwrap_or_else(new_id);
        let workflow = instance.workflow.to_string();
        let start = StartWrite {
            id: id.clone(),
            workflow: instance.workflow,
            input: input.clone(),
            // The random streams of what is kept have to repeat.
            seed: instance.seed,
            tags: instance.tags,
            at,
            due: Timestamp::AT_ONCE,
            on_conflict: OnConflict::Reject,
            token: shared.random.token(),
            owner: Epoch(0),
            parent: None,
            deadline: self.deadline.map(|limit| at.after(limit)),
            origin: shared.services.as_ref().and_then(|services| services.env.origin.clone()),
        };
        let entries = cut.fork(&journal, &input, &self.planning.id, instance.started_at, at);
        let fork = ForkWrite { start, entries, inbox: cut.returned, arriving };
        match shared.committer.write(Write::Fork(Box::new(fork))).await? {
            Answer::Started { num, .. } => Ok(Run::new(shared, id, num)),
            Answer::Refused(Refusal::Taken) => Err(Error::Conflict { id: id.to_string(), workflow, how: "already" }),
            _ => Err(Error::Shutdown),
        }
    }
}

/// Returns the messages by which the fork learns how the children have ended that it keeps.
async fn ends_of_children(planning: &Planning, planned: &PlannedCut) -> Result<Vec<Message>, Error> {
    let mut ends = Vec::new();
    for KeptChild { id, outcome } in &planned.cut.kept_children {
        let child = planning.shared.store.instance(id).await?;
        let child = child.filter(|child| child.parent.as_ref().is_some_and(|parent| parent.num == planning.num));
        let outcome = match child {
            Some(child) => ChildOutcome::of(child.status, child.outcome.as_ref(), child.note.as_deref())
                .map(|outcome| outcome.to_payload())
                .ok_or_else(|| Error::ForkChild { id: planning.id.to_string(), child: id.to_string() })?,
            None => outcome.clone().unwrap_or_else(KeptChild::gone),
        };
        ends.push(Message::ChildEnded { id: id.clone(), outcome });
    }
    Ok(ends)
}
