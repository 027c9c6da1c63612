//! The builder for starting a run: its id, due time and tags, and what to do if the id is taken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use outlive_core::duration::IntoDuration;
use outlive_core::id::Name;
use outlive_core::origin::RunOrigin;
use outlive_core::payload::Payload;
use outlive_core::store::commit::{self, Answer, Epoch, OnConflict, Refusal, Write};
use outlive_core::time::Timestamp;

use crate::error::Error;
use crate::instance::tags::Tags;
use crate::instance::target::{Names, deadline, run_id};
use crate::instance::traces::StartSpan;
use crate::run::Run;
use crate::runtime::call::PendingCall;
use crate::runtime::shared::Shared;

/// A run to start, created by [`Client::start`](crate::Client::start). Nothing is written until it is awaited.
///
/// ```
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
/// let start: outlive::Start<u32> = engine.start(double, &21).id("twice").tag("team", "maths");
/// assert!(engine.get_run::<u32>("twice").await.is_err()); // not yet
/// let run = start.await?;
/// assert_eq!(run.result().await?, 42);
/// # Ok(()) }
/// ```
#[must_use = "a run is not started until this is awaited"]
pub struct Start<O> {
    call: PendingCall<StartCall, Result<Run<O>, Error>>,
}

struct StartCall {
    shared: Arc<Shared>,
    workflow: Name,
    input: Payload,
    id: Option<Name>,
    due: Due,
    tags: Tags,
    deadline: Option<std::time::Duration>,
    on_conflict: OnConflict,
    /// The first error in the options.
    problem: Option<Error>,
}

enum Due {
    Now,
    After(std::time::Duration),
    At(Timestamp),
}

impl Due {
    /// Returns when the run is due.
    fn at(&self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => Timestamp::AT_ONCE,
            Self::After(delay) => now.after(*delay),
            Self::At(moment) => *moment,
        }
    }
}

impl<O> Start<O> {
    pub(crate) fn new(shared: Arc<Shared>, workflow: Result<Name, Error>, input: Result<Payload, Error>) -> Self {
        let mut problem = None;
        let workflow = workflow.unwrap_or_else(|error| {
            problem = Some(error);
            Name::recorded("")
        });
        let input = input.unwrap_or_else(|error| {
            problem.get_or_insert(error);
            Payload::recorded("null")
        });
        let call = StartCall {
            shared,
            workflow,
            input,
            id: None,
            due: Due::Now,
            tags: Tags::default(),
            deadline: None,
            on_conflict: OnConflict::default(),
            problem,
        };
        Self { call: PendingCall::new(call) }
    }

    /// Sets the run's id. Starting the same workflow with the same input again under one id returns the same run.
    /// Without this, a new id is generated.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let run = engine.start(double, &21).id("order-42").await?;
    /// let again = engine.start(double, &21).id("order-42").await?; // the same run
    /// assert!(engine.start(double, &7).id("order-42").await.unwrap_err().is_conflict());
    /// # assert_eq!((engine.count(Filter::runs()).await?.total(), run.id()), (1, again.id()));
    /// # Ok(()) }
    /// ```
    pub fn id(mut self, id: &str) -> Self {
        self.call.set(|call| match run_id(id) {
            Ok(id) => call.id = Some(id),
            Err(error) => call.refuse(error),
        });
        self
    }

    /// Delays the start by this time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    /// let run = test.start(double, &21).delay("1 hour").await?;
    /// test.advance("59 minutes").await;
    /// assert_eq!(run.status().await?, Status::Pending);
    /// test.advance("1 minute").await;
    /// assert_eq!(run.status().await?, Status::Completed);
    /// # Ok(()) }
    /// ```
    pub fn delay(mut self, delay: impl IntoDuration) -> Self {
        self.call.set(|call| match delay.into_duration() {
            Ok(delay) => call.due = Due::After(delay),
            Err(error) => call.refuse(error),
        });
        self
    }

    /// Starts the run at this time; a time in the past means now.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    /// let spring = Timestamp::from_millis(1_774_224_000_000);
    /// let run = test.start(double, &21).at(spring).await?;
    /// assert_eq!(test.result(&run).await?, 42); // a test engine advances time as far as needed
    /// assert_eq!(run.info().await?.started_at, Some(spring));
    /// # Ok(()) }
    /// ```
    pub fn at(mut self, moment: impl Into<Timestamp>) -> Self {
        self.call.set(|call| call.due = Due::At(moment.into()));
        self
    }

    /// Adds a tag to find the run by.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// engine.start(double, &1).tag("customer", "ada").await?;
    /// engine.start(double, &2).tag("customer", "bob").await?;
    /// let page = engine.list(Filter::runs().tag("customer", "ada")).await?;
    /// assert_eq!(page.runs.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.call.set(|call| call.add_tag(key, value));
        self
    }

    /// Cancels the run if it has not ended after this time, which counts from its start, through restarts and while it
    /// sleeps. Its clean-up may still run, as after [`cancel`](Run::cancel).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// async fn approve(ctx: Ctx, _: ()) -> Result<bool> { Ok(ctx.wait("approval").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("approve", approve)).await;
    /// let run = test.start(approve, &()).deadline("3 days").await?;
    /// test.advance("3 days").await;
    /// assert_eq!(run.status().await?, Status::Cancelled);
    /// # Ok(()) }
    /// ```
    pub fn deadline(mut self, limit: impl IntoDuration) -> Self {
        self.call.set(|call| match deadline(limit) {
            Ok(limit) => call.deadline = Some(limit),
            Err(error) => call.refuse(error),
        });
        self
    }

    /// Sets what to do if the id is taken; [`OnConflict::Join`] by default.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// engine.start(double, &1).id("latest").await?;
    /// let refused = engine.start(double, &1).id("latest").on_conflict(OnConflict::Reject).await;
    /// assert!(refused.unwrap_err().is_conflict());
    /// let run = engine.start(double, &21).id("latest").on_conflict(OnConflict::Replace).await?;
    /// assert_eq!(run.result().await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.call.set(|call| call.on_conflict = on_conflict);
        self
    }
}

impl<O: Send + 'static> Future for Start<O> {
    type Output = Result<Run<O>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, StartCall::start)
    }
}

impl StartCall {
    fn refuse(&mut self, error: impl Into<Error>) {
        self.problem.get_or_insert(error.into());
    }

    fn add_tag(&mut self, key: &str, value: &str) {
        if let Err(error) = self.tags.add(key, value) {
            self.refuse(error);
        }
    }

    /// Checks everything that can be checked before anything is written.
    fn check(&mut self) -> Result<(), Error> {
        if let Some(error) = self.problem.take() {
            return Err(error);
        }
        let shared = &self.shared;
        self.tags.check(&self.input, shared.max_payload)?;
        let Some(services) = &shared.services else { return Ok(()) };
        if services.is_stopping() {
            return Err(Error::Shutdown);
        }
        shared.registry.check_input(&self.workflow, &self.input)
    }

    async fn start<O>(mut self) -> Result<Run<O>, Error> {
        self.check()?;
        let shared = self.shared.clone();
        let now = shared.clock.now();
        let due = self.due.at(now);
        let deadline = self.deadline.map(|limit| now.after(limit));
        let due = deadline.map_or(due, |deadline| due.min(deadline));
        let id =
            self.id.unwrap_or_else(|| Name::recorded(shared.random.id(now).hyphenated().encode_lower(&mut [0; 36])));
        // Due at once, and there is room for it: it is driven from the start, without a claim.
        let owner = match &shared.services {
            Some(services) if due <= now && services.due.is_empty() && services.residency.reserve(1) == 1 => {
                services.epoch
            }
            _ => Epoch(0),
        };
        let span = StartSpan::begin(&self.workflow, &id);
        let trace = span.trace();
        let start = commit::StartWrite {
            parent: None,
            id: id.clone(),
            workflow: self.workflow,
            input: self.input,
            origin: RunOrigin::traced(
                shared.services.as_ref().and_then(|services| services.env.origin.as_ref()),
                trace,
            ),
            seed: shared.random.number(),
            tags: self.tags.into_map(),
            deadline,
            at: now,
            due,
            on_conflict: self.on_conflict,
            token: shared.random.token(),
            owner,
        };
        let (workflow, input) = (start.workflow.clone(), start.input.clone());
        let answer = shared.committer.write(Write::Start(start)).await;
        span.end();
        match answer? {
            Answer::Started { num, created, is_driven } => {
                if created && !is_driven && owner != Epoch(0) {
                    // It was to be driven here, but another engine has the store: its end would not be reported here.
                    shared.committer.check()?;
                }
                Ok(Run::new(self.shared, id, num))
            }
            Answer::Refused(refusal) => refused(self.shared, id, &workflow, &input, refusal).await,
            _ => Err(Error::Shutdown),
        }
    }
}

/// Returns the run that has the id, if it is the same one after all: the store compares text, and the same JSON may be
/// formatted differently.
async fn refused<O>(
    shared: Arc<Shared>,
    id: Name,
    workflow: &Name,
    input: &Payload,
    refusal: Refusal,
) -> Result<Run<O>, Error> {
    if matches!(&refusal, Refusal::Conflict { workflow: other } if other == workflow) {
        let there = shared.instance(&id).await?;
        if is_same_json(&there.input, input) {
            return Ok(Run::new(shared, id, there.num));
        }
    }
    Err(conflict(&id, workflow, refusal))
}

fn is_same_json(one: &Payload, other: &Payload) -> bool {
    let value = |payload: &Payload| payload.decode::<serde_json::Value>().ok();
    value(one).is_some() && value(one) == value(other)
}

fn conflict(id: &Name, workflow: &Name, refusal: Refusal) -> Error {
    let (taken_by, how) = match refusal {
        Refusal::Child { parent } => return Error::ChildOf { id: id.to_string(), parent: parent.to_string() },
        Refusal::Conflict { workflow: other } if other == *workflow => (other, "with another input"),
        Refusal::Conflict { workflow: other } => (other, "already"),
        _ => (workflow.clone(), "already"),
    };
    Error::Conflict { id: id.to_string(), workflow: taken_by.to_string(), how }
}
