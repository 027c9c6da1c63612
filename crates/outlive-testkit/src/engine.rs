//! The test engine: in memory, on a clock the test controls, with crashes on demand.

use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use outlive::clock::Clock;
use outlive::store::Store;
use outlive::{BoxError, Builder, Engine, Error, Failure, IntoDuration, Payload, Run, Status, StepCall, Timestamp};
use outlive_core::store::memory::MemoryStore;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::TestClock;
use crate::hook::{Steps, failure};
use crate::watched::Watched;

/// Runtime turns without activity after which the engine counts as quiet.
const TURNS: usize = 24;
/// Seed for the random numbers of a test's runs, so that every execution of the test is the same.
const SEED: u64 = 2026;
/// Rounds of activity after which `settle` gives up.
const ROUNDS_MAX: usize = 1_000_000;
/// Due moments after which skipping time gives up.
const MOMENTS_MAX: usize = 100_000;
/// Journal entries one run may write without any time passing.
const ENTRIES_MAX: usize = 100_000;
/// Real time granted to a step that waits for the outside world.
const PATIENCE: Duration = Duration::from_millis(10);

type Setup = Box<dyn Fn(Builder) -> Builder + Send + Sync>;

/// An engine for tests: everything an [`Engine`] can do, with time controlled by the test.
///
/// ```
/// use outlive::prelude::*;
/// use outlive_testkit::TestEngine;
///
/// async fn reminder(ctx: Ctx, to: String) -> Result<String> {
///     ctx.sleep("30 days").await?;
///     Ok(ctx.step("send mail", || async { Ok::<_, BoxError>(format!("mail to {to}")) }).await?)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let mut test = TestEngine::new(|engine| engine.workflow("reminder", reminder)).await;
/// let run = test.start(reminder, &"ada".to_string()).await?;
/// test.advance("29 days").await;
/// assert_eq!(test.executions("send mail"), 0);
/// test.crash().await;
/// test.advance("1 day").await;
/// assert_eq!(test.result(&run).await?, "mail to ada");
/// assert_eq!(test.executions("send mail"), 1);
/// # Ok(()) }
/// ```
pub struct TestEngine {
    engine: Option<Engine>,
    setup: Setup,
    store: Arc<dyn Store>,
    /// The same store, wrapped as the engine sees it.
    watched: Arc<Watched>,
    clock: TestClock,
    steps: Arc<Steps>,
    is_paranoid: bool,
    patience: Duration,
    moments_max: usize,
    lives: u64,
    /// Number of times new code was deployed.
    deploys: u64,
}

/// Builder for a [`TestEngine`], created by [`TestEngine::new`].
///
/// ```
/// use std::time::Duration;
/// # use outlive::prelude::*;
/// # use outlive_testkit::TestEngine;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let test = TestEngine::new(|engine| engine.workflow("double", double)).patience(Duration::ZERO).await;
/// let run = test.start(double, &21).await?;
/// assert_eq!(test.result(&run).await?, 42);
/// # Ok(()) }
/// ```
#[must_use = "a test engine does nothing until it is awaited"]
pub struct TestBuilder {
    /// What to create; `None` once it is being created.
    options: Option<TestOptions>,
    creating: Option<Pin<Box<dyn Future<Output = TestEngine> + Send>>>,
}

struct TestOptions {
    setup: Setup,
    store: Arc<dyn Store>,
    clock: TestClock,
    is_paranoid: bool,
    patience: Duration,
    entries_max: usize,
    moments_max: usize,
}

impl TestBuilder {
    /// Sets how long, in real time, [`settle`](TestEngine::settle) waits for a step that is blocked on the outside
    /// world, such as a socket or a tokio timer. Defaults to 10 ms; use zero if no step of the test does that.
    ///
    /// ```
    /// # use outlive_testkit::TestEngine;
    /// use std::time::Duration;
    /// # use outlive::prelude::*;
    /// async fn ask() -> Result<u32> {
    ///     tokio::time::sleep(Duration::from_millis(20)).await; // a remote service
    ///     Ok(42)
    /// }
    /// async fn asking(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("ask", ask).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("asking", asking)).patience(Duration::from_secs(5)).await;
    /// let run = test.start(asking, &()).await?;
    /// assert_eq!(test.result(&run).await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn patience(self, patience: Duration) -> Self {
        self.set(|options| options.patience = patience)
    }

    /// Sets whether each quiet point is checked by replaying a second copy of the run. On by default.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("double", double)).paranoid(false).await;
    /// let run = test.start(double, &21).await?;
    /// assert_eq!(test.result(&run).await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn paranoid(self, paranoid: bool) -> Self {
        self.set(|options| options.is_paranoid = paranoid)
    }

    /// Uses this store instead of one in memory.
    ///
    /// ```
    /// use outlive_core::store::memory::MemoryStore;
    /// use std::sync::Arc;
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let store = Arc::new(MemoryStore::new());
    /// let test = TestEngine::new(|engine| engine.workflow("double", double)).store(store.clone()).await;
    /// let run = test.start(double, &21).await?;
    /// assert_eq!(test.result(&run).await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn store(self, store: Arc<dyn Store>) -> Self {
        self.set(|options| options.store = store)
    }

    /// Uses this clock, which other engines may share.
    ///
    /// ```
    /// use outlive_testkit::{TestClock, TestEngine};
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let clock = TestClock::new();
    /// let one = TestEngine::new(|engine| engine.workflow("double", double)).clock(clock.clone()).await;
    /// let other = TestEngine::new(|engine| engine.workflow("double", double)).clock(clock).await;
    /// let run = one.start(double, &21).delay("1 hour").await?;
    /// other.advance("1 hour").await;
    /// assert_eq!(run.result().await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn clock(self, clock: TestClock) -> Self {
        self.set(|options| options.clock = clock)
    }

    /// Sets how many journal entries one run may write without any time passing.
    pub(crate) fn entries_max(self, entries_max: usize) -> Self {
        self.set(|options| options.entries_max = entries_max)
    }

    fn set(mut self, change: impl FnOnce(&mut TestOptions)) -> Self {
        self.options.as_mut().map(change);
        self
    }
}

impl Future for TestBuilder {
    type Output = TestEngine;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TestEngine> {
        if let Some(options) = self.options.take() {
            self.creating = Some(Box::pin(options.create()));
        }
        match &mut self.creating {
            Some(creating) => creating.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl TestOptions {
    async fn create(self) -> TestEngine {
        let mut test = TestEngine {
            engine: None,
            setup: self.setup,
            watched: Arc::new(Watched::new(self.store.clone(), self.clock.clone(), self.entries_max)),
            store: self.store,
            clock: self.clock,
            steps: Arc::new(if self.is_paranoid { Steps::warning() } else { Steps::default() }),
            is_paranoid: self.is_paranoid,
            patience: self.patience,
            moments_max: self.moments_max,
            lives: 0,
            deploys: 0,
        };
        test.reopen().await;
        test
    }
}

impl TestEngine {
    #[expect(clippy::new_ret_no_self, reason = "awaiting the builder yields the engine")]
    /// Creates an engine with the workflows, jobs and values that `setup` adds. `setup` is called again after each
    /// [crash](Self::crash).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// struct Prices { tea: u32 }
    /// async fn price(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.get::<Prices>().tea) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("price", price).provide(Prices { tea: 3 })).await;
    /// let run = test.start(price, &()).await?;
    /// assert_eq!(test.result(&run).await?, 3);
    /// # Ok(()) }
    /// ```
    pub fn new(setup: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> TestBuilder {
        let options = TestOptions {
            setup: Box::new(setup),
            store: Arc::new(MemoryStore::new()),
            clock: TestClock::new(),
            is_paranoid: true,
            patience: PATIENCE,
            entries_max: ENTRIES_MAX,
            moments_max: MOMENTS_MAX,
        };
        TestBuilder { options: Some(options), creating: None }
    }

    /// Waits until nothing moves without time passing or a message arriving. Requires tokio's current-thread runtime,
    /// the default of `#[tokio::test]`.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn charge() -> Result<()> { Ok(()) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<()> {
    ///     ctx.step("charge", charge).await?;
    ///     Ok(ctx.sleep("1 day").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    /// let run = test.start(pay, &()).await?;
    /// test.settle().await; // up to the sleep
    /// assert_eq!(run.completed_steps().await?, ["charge"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// If the engine never becomes quiet, for example because a workflow loops without waiting for anything.
    pub async fn settle(&self) {
        let mut outside = Duration::ZERO;
        for _ in 0..ROUNDS_MAX {
            if let Some(sentence) = self.watched.runaway() {
                panic!("the engine does not settle: {sentence}");
            }
            let before = self.activity();
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            // A store may reply from its own thread. Check for pending calls before comparing activity, so that no
            // reply is missed in between.
            let is_asked = self.watched.is_asked();
            if self.activity() != before {
                continue;
            }
            if is_asked {
                self.watched.answered().await;
                continue;
            }
            // A step body may be waiting for something real: a socket, a tokio timer.
            if self.engine().working() == 0 || outside >= self.patience {
                return;
            }
            let pause = Duration::from_millis(1);
            outside += pause;
            tokio::time::sleep(pause).await;
        }
        panic!("the engine does not settle: a workflow loops without waiting for time or a message");
    }

    /// Returns a pair of counters, one of which grows with everything that happens.
    fn activity(&self) -> (u64, u64) {
        (self.engine().activity(), self.watched.answers())
    }

    /// Resolves once a run keeps writing without any time passing, with a message that describes it.
    pub(crate) async fn ran_away(&self) -> String {
        self.watched.ran_away().await
    }

    /// Moves time forward from one due moment to the next, settling at each.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("nap", nap)).await;
    /// let run = test.start(nap, &()).await?;
    /// test.advance("23 hours").await;
    /// assert!(!run.status().await?.is_ended());
    /// test.advance("1 hour").await;
    /// assert_eq!(run.status().await?, Status::Completed);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// If the text is not a valid duration.
    pub async fn advance(&self, duration: impl IntoDuration) {
        let duration = duration.into_duration().unwrap_or_else(|error| panic!("{error}"));
        let end = self.clock.now().after(duration);
        self.settle().await;
        while let Some(due) = self.next_due().await.filter(|due| *due <= end) {
            self.move_to(due).await;
        }
        self.move_to(end).await;
    }

    /// Moves time forward until nothing is due.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// async fn nap(ctx: Ctx, days: u64) -> Result<()> { Ok(ctx.sleep(format!("{days} days")).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("nap", nap)).await;
    /// let (short, long) = (test.start(nap, &1).await?, test.start(nap, &30).await?);
    /// test.skip_time().await;
    /// assert_eq!((short.status().await?, long.status().await?), (Status::Completed, Status::Completed));
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// If something is always due, such as a recurring job or one that keeps scheduling its own next turn.
    pub async fn skip_time(&self) {
        self.settle().await;
        for _ in 0..self.moments_max {
            let Some(due) = self.next_due().await else { return };
            self.move_to(due).await;
        }
        let times = self.moments_max;
        panic!("something is still due after skipping time {times} times; use `advance(..)` instead");
    }

    /// Moves time to the next due moment, or to `end` if that comes first.
    pub(crate) async fn skip_to_next(&self, end: Timestamp) {
        let due = self.next_due().await.unwrap_or(end);
        self.move_to(due.min(end)).await;
    }

    pub(crate) async fn move_to(&self, moment: Timestamp) {
        if moment > self.clock.now() {
            self.clock.set(moment);
        }
        self.settle().await;
    }

    /// Returns the next moment at which something is due, if any.
    ///
    /// ```
    /// use outlive::clock::Clock;
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("nap", nap)).await;
    /// assert_eq!(test.next_due().await, None);
    /// test.start(nap, &()).await?;
    /// test.settle().await;
    /// assert_eq!(test.next_due().await.unwrap().since(test.clock().now()).as_secs(), 24 * 60 * 60);
    /// # Ok(()) }
    /// ```
    pub async fn next_due(&self) -> Option<Timestamp> {
        let now = self.clock.now();
        let stored = self.store.wakes(Timestamp::MAX, 1024).await.unwrap_or_default();
        let stored = stored.into_iter().map(|wake| wake.due).find(|due| *due > now);
        let near = self.engine().next_due();
        [stored, near].into_iter().flatten().min()
    }

    /// Returns the result of a run, moving time as far as needed.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// async fn approve(ctx: Ctx, _: ()) -> Result<bool> {
    ///     ctx.sleep("1 day").await?;
    ///     Ok(ctx.wait("approval").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("approve", approve)).await;
    /// let run = test.start(approve, &()).await?;
    /// assert!(matches!(test.result(&run).await, Err(Error::Status { .. }))); // no amount of time sends a signal
    /// run.signal("approval", &true).await?;
    /// assert!(test.result(&run).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The same as [`Run::result`]; also [`Error::Status`] if the run waits for something that the passing of time does
    /// not bring.
    pub async fn result<O: DeserializeOwned>(&self, run: &Run<O>) -> Result<O, Error> {
        let run: Run<O> = self.engine().get_run(run.id()).await?;
        let mut moments = 0;
        loop {
            self.settle().await;
            let status = run.status().await?;
            if status.is_ended() || status == Status::Stuck {
                return run.result().await;
            }
            let way_out = match self.next_due().await {
                Some(due) if moments < self.moments_max => {
                    moments += 1;
                    self.move_to(due).await;
                    continue;
                }
                Some(_) => "something is always due, but the run does not end",
                None => "nothing is due: it waits for a signal, a person, or a step that does not end",
            };
            return Err(Error::Status { id: run.id().to_owned(), status, way_out });
        }
    }

    /// Drops everything that is not durable, as a process crash does, and reopens the engine on the same store. Handles
    /// created before the crash no longer work: look runs up again with [`run`](outlive::Client::get_run), or use
    /// [`result`](Self::result), which does so.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn charge() -> Result<()> { Ok(()) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<()> {
    ///     ctx.step("charge", charge).await?;
    ///     Ok(ctx.sleep("1 day").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let mut test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    /// let run = test.start(pay, &()).await?;
    /// test.settle().await;
    /// test.crash().await;
    /// test.result(&run).await?;
    /// assert_eq!(test.executions("charge"), 1);
    /// # Ok(()) }
    /// ```
    pub async fn crash(&mut self) {
        self.kill().await;
        self.reopen().await;
    }

    /// Like [`crash`](Self::crash), but restarts with the code of another deploy.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// async fn old(ctx: Ctx, _: ()) -> Result<u32> {
    ///     let paid = ctx.step("charge", charge).await?;
    ///     ctx.sleep("1 day").await?;
    ///     Ok(paid)
    /// }
    /// async fn new(ctx: Ctx, _: ()) -> Result<u32> {
    ///     let paid = ctx.step("charge card", charge).was("charge").await?;
    ///     ctx.sleep("1 day").await?;
    ///     Ok(paid)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let mut test = TestEngine::new(|engine| engine.workflow("pay", old)).await;
    /// let run = test.start(old, &()).await?;
    /// test.settle().await;
    /// test.deploy(|engine| engine.workflow("pay", new)).await;
    /// assert_eq!(test.result(&run).await?, 42);
    /// assert_eq!(test.executions("charge card"), 0);
    /// # Ok(()) }
    /// ```
    pub async fn deploy(&mut self, setup: impl Fn(Builder) -> Builder + Send + Sync + 'static) {
        self.kill().await;
        self.setup = Box::new(setup);
        self.deploys += 1;
        self.reopen().await;
    }

    async fn kill(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.abandon().await;
        }
    }

    async fn reopen(&mut self) {
        // Each process lifetime draws different numbers, or its writes would be taken for repeats of earlier ones.
        self.lives += 1;
        let builder = Engine::with_store(self.watched.clone())
            .clock(self.clock.clone())
            .step_hook(self.steps.clone())
            .seed(SEED ^ (self.lives << 32))
            .paranoid(self.is_paranoid);
        let builder = match self.deploys {
            0 => builder,
            deploys => builder.version(format!("deploy {deploys}")),
        };
        match (self.setup)(builder).start().await {
            Ok(engine) => self.engine = Some(engine),
            Err(error) => panic!("the test engine failed to start: {error}"),
        }
    }

    /// Makes the next attempt of a step fail with this message instead of running. Each further call fails one more
    /// attempt.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).retry(3).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    /// test.fail_next("charge", "the bank is closed");
    /// let run = test.start(pay, &()).await?;
    /// assert_eq!(test.result(&run).await?, 42);
    /// assert_eq!(test.executions("charge"), 2);
    /// # Ok(()) }
    /// ```
    pub fn fail_next(&self, step: &str, message: impl Into<String>) {
        self.steps.fail_next(step, failure(message));
    }

    /// Makes the next attempt of a step fail with this failure.
    ///
    /// ```
    /// use outlive::{Cause, Failure};
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).retry(3).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    /// test.fail_next_with("charge", Failure::new(Cause::Error, "no such card").permanent());
    /// let run = test.start(pay, &()).await?;
    /// assert!(test.result(&run).await.is_err());
    /// assert_eq!(test.executions("charge"), 1);
    /// # Ok(()) }
    /// ```
    pub fn fail_next_with(&self, step: &str, failure: Failure) {
        self.steps.fail_next(step, failure);
    }

    /// Replaces the body of a step: every attempt returns the result of `mock`.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// async fn charge() -> Result<u32> { Err("this charges real money".into()) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    /// test.mock_step("charge", |_call| Ok::<_, BoxError>(42));
    /// let run = test.start(pay, &()).await?;
    /// assert_eq!(test.result(&run).await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn mock_step<T: Serialize, E: Into<BoxError>>(
        &self,
        step: &str,
        mock: impl Fn(&StepCall<'_>) -> Result<T, E> + Send + Sync + 'static,
    ) {
        let mock = move |call: &StepCall<'_>| Ok(Payload::encode(&mock(call).map_err(Into::into)?)?);
        self.steps.mock(step, Arc::new(mock));
    }

    /// Returns how often the body of a step ran or was replaced, over all crashes.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    /// assert_eq!(test.executions("charge"), 0);
    /// let run = test.start(pay, &()).await?;
    /// test.result(&run).await?;
    /// assert_eq!(test.executions("charge"), 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn executions(&self, step: &str) -> u64 {
        self.steps.executions(step)
    }

    /// Returns warnings about what paranoid replay cannot find: call sites that call a step more than once without a
    /// key, so that only call order tells the calls apart. Each is also printed on stderr, which a failing test shows.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn pay(_: &str) -> Result<()> { Ok(()) }
    /// use std::collections::HashMap;
    /// async fn pay_all(ctx: Ctx, bills: HashMap<String, u32>) -> Result<()> {
    ///     for (to, _) in bills {
    ///         ctx.step("pay", || pay(&to)).await?; // a different order after a crash
    ///     }
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("pay all", pay_all)).await;
    /// let run = test.start(pay_all, &HashMap::from([("ada".to_string(), 5), ("bob".to_string(), 7)])).await?;
    /// test.result(&run).await?;
    /// assert!(test.warnings()[0].contains("give each a `.key(..)`"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.steps.warnings()
    }

    /// Returns the clock.
    ///
    /// ```
    /// use outlive::clock::Clock;
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine).await;
    /// let before = test.clock().now();
    /// test.advance("1 hour").await;
    /// assert_eq!(test.clock().now().since(before).as_secs(), 3600);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn clock(&self) -> &TestClock {
        &self.clock
    }

    /// Returns the store.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    /// test.start(double, &21).await?;
    /// assert_eq!(test.store().count(&Filter::runs()).await?.total(), 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("an engine is running between crashes")
    }
}

impl Deref for TestEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        self.engine()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use outlive::job::{Task, TaskCtx};
    use outlive::prelude::*;

    use super::TestEngine;

    async fn loops(ctx: Ctx, _: ()) -> Result<()> {
        while ctx.step("try", || async { Err::<(), _>("not yet") }).await.is_err() {}
        Ok(())
    }

    #[tokio::test]
    #[should_panic(
        expected = "the engine does not settle: the run does not end: it recorded 1001 entries without any time passing"
    )]
    async fn run_that_writes_without_passing_time_does_not_settle() {
        let test = TestEngine::new(|engine| engine.workflow("loops", loops)).entries_max(1_000).await;
        test.start(loops, &()).await.unwrap();
        test.settle().await;
    }

    const REMINDERS: Task<u32, u32> = Task::new("reminders");

    async fn plan(ctx: TaskCtx<u32, u32>, _: u32) -> Result<()> {
        Ok(ctx.schedule_in("1 day")?)
    }

    async fn remind(ctx: TaskCtx<u32, u32>) -> Result<()> {
        Ok(ctx.schedule_in("1 day")?)
    }

    async fn waits(ctx: Ctx, _: ()) -> Result<()> {
        Ok(ctx.wait("never").await?)
    }

    async fn reminding() -> TestEngine {
        let setup =
            |engine: outlive::Builder| engine.job(REMINDERS.on_event(plan).execute(remind)).workflow("waits", waits);
        let test = TestEngine::new(setup).set(|options| options.moments_max = 500).await;
        test.job(REMINDERS).send("ada", &1).await.unwrap();
        test
    }

    #[tokio::test]
    #[should_panic(expected = "something is still due after skipping time 500 times; use `advance(..)` instead")]
    async fn time_is_not_skipped_forever() {
        reminding().await.skip_time().await;
    }

    #[tokio::test]
    async fn result_that_never_comes_is_not_awaited_forever() {
        let test = reminding().await;
        let run = test.start(waits, &()).await.unwrap();
        let error = test.result(&run).await.unwrap_err().to_string();
        assert!(error.contains("something is always due, but the run does not end"), "{error}");
    }
}
