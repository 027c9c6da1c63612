//! The engine: a store, a worker that drives its runs, and the client to reach them.

#[cfg(feature = "testing")]
mod kit;
mod long_lives;
mod observe;
mod provide;
mod start;

use std::any::TypeId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use outlive_core::duration::IntoDuration;
use outlive_core::id::Name;
use outlive_core::store::Store;
use outlive_core::store::query::{Counts, Filter};
use serde::de::DeserializeOwned;

use crate::check::{Check, Judge};
use crate::client::{Client, Contract};
use crate::clock::{Clock, SystemClock};
use crate::engine::long_lives::LongLives;
use crate::engine::provide::Provided;
use crate::error::{BoxError, Error};
use crate::events::Subscribe;
use crate::export::Source;
use crate::instance::env::{Env, PAYLOAD_MAX, StepHook};
use crate::instance::layers::Layer;
use crate::job::{AnyJob, JobPage, JobSummary};
use crate::run::{PageMark, Run, RunPage};
use crate::runtime::handlers::JobDefinition;
use crate::runtime::open::{self, Durability};
use crate::runtime::registry::{Registered, Registry};
use crate::runtime::services::Services;
#[cfg(feature = "http")]
use crate::sink::{HttpSink, Sinks};
use crate::start::Start;
use crate::workflow::{Target, Typed, WorkflowFn};

/// Default maximum number of resident runs.
const RESIDENTS_MAX: usize = 32_768;
/// Default number of times a run may crash the process without making progress.
const RECOVERIES_MAX: u32 = 3;
/// Default time a shutdown waits for step bodies.
const GRACE: Duration = Duration::from_secs(10);
/// Default time lifecycle events are kept.
const KEEP_EVENTS: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A running engine. Executes the store's runs, and is a [`Client`] of them.
///
/// ```
/// use outlive::prelude::*;
/// async fn hello(ctx: Ctx, name: String) -> Result<String> {
///     Ok(ctx.step("greet", || async { Ok::<_, BoxError>(format!("hello {name}")) }).await?)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let engine = Engine::open("memory:").workflow("hello", hello).start().await?;
/// let run = engine.start(hello, &"ada".to_string()).await?;
/// assert_eq!(run.result().await?, "hello ada");
/// engine.shutdown().await?;
/// # Ok(()) }
/// ```
pub struct Engine {
    client: Client,
    services: Arc<Services>,
    grace: Duration,
    /// `true` if the engine opened the store itself, so that nobody else executes through this handle.
    is_owner: bool,
    /// Held by the caller that is shutting the engine down.
    ending: tokio::sync::Mutex<()>,
    #[cfg(feature = "http")]
    sinks: Sinks,
}

/// Configures an engine; created by [`Engine::open`].
///
/// ```
/// # use outlive::prelude::*;
/// # struct Stripe;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let builder: outlive::Builder = Engine::open("memory:");
/// let engine = builder.workflow("double", double).provide(Stripe).grace("30 seconds").start().await?;
/// assert_eq!(engine.start(double, &21).await?.result().await?, 42);
/// # Ok(()) }
/// ```
#[must_use = "an engine does nothing until it is started"]
pub struct Builder {
    place: StoreSource,
    registry: Registry,
    provided: Provided,
    layers: Vec<Box<dyn Layer>>,
    clock: Arc<dyn Clock>,
    hook: Option<Arc<dyn StepHook>>,
    is_paranoid: bool,
    max_resident: usize,
    max_recoveries: u32,
    max_payload: usize,
    grace: Duration,
    durability: Durability,
    keep_events: Duration,
    long_lives: LongLives,
    #[cfg(feature = "http")]
    sinks: Vec<HttpSink>,
    seed: Option<u64>,
    version: Option<Name>,
    lock_wait: Duration,
    /// `true` if the environment may ask it to check instead of executing.
    is_checkable: bool,
    /// The first configuration error.
    problem: Option<Error>,
}

enum StoreSource {
    Path(PathBuf),
    Store(Arc<dyn Store>),
}

impl StoreSource {
    fn open(self, durability: Durability) -> Result<Arc<dyn Store>, Error> {
        match self {
            Self::Path(path) => open::store(&path, durability),
            Self::Store(store) => Ok(store),
        }
    }
}

impl Engine {
    /// Configures an engine on the store that a path or URL names: a file, created if missing, or `memory:` for tests.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("shop.db");
    /// let engine = Engine::open(&path).workflow("double", double).start().await?;
    /// engine.shutdown().await?;
    /// assert!(path.exists());
    /// # Ok(()) }
    /// ```
    pub fn open(place: impl AsRef<Path>) -> Builder {
        Builder::new(StoreSource::Path(place.as_ref().to_owned()))
    }

    /// Configures an engine on a store that is already open.
    ///
    /// ```
    /// use outlive_core::store::memory::MemoryStore;
    /// use std::sync::Arc;
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let store = Arc::new(MemoryStore::new());
    /// let engine = Engine::with_store(store.clone()).workflow("double", double).start().await?;
    /// assert_eq!(engine.start(double, &21).await?.result().await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn with_store(store: Arc<dyn Store>) -> Builder {
        Builder::new(StoreSource::Store(store))
    }

    /// Stops taking work, waits up to the grace period for running step bodies to finish, and releases the store.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let client = engine.client();
    /// engine.shutdown().await?;
    /// assert_eq!(client.start(double, &21).await.unwrap_err().code(), "shutdown");
    /// # Ok(()) }
    /// ```
    ///
    /// It can be called through an `Arc`, and more than once: every call waits until the engine has stopped.
    ///
    /// # Errors
    /// If the store cannot be released. It is released anyway when the process exits.
    pub async fn shutdown(&self) -> Result<(), Error> {
        let _ending = self.ending.lock().await;
        self.services.stop();
        // Nothing more is claimed. What is still executing needs the committer.
        self.client.shared.tasks.abort_finders();
        let all_gone = async {
            while !self.services.residency.mailboxes().is_empty() {
                self.services.due.wakeup.notified().await;
            }
        };
        // The grace period is in real time, whatever clock the runs see: it is the process that has to exit.
        let end = tokio::time::Instant::now() + self.grace;
        let in_time = tokio::time::timeout_at(end, all_gone).await;
        if in_time.is_err() {
            tracing::warn!("{} runs were still executing after {:?}", self.services.residency.len(), self.grace);
        }
        #[cfg(feature = "http")]
        if tokio::time::timeout_at(end, self.sinks.flush()).await.is_err() {
            tracing::warn!("a sink had not sent all events after {:?}; the next start sends the rest", self.grace);
        }
        let shared = &self.client.shared;
        self.halt();
        Ok(shared.store.release(self.services.epoch).await?)
    }

    /// Aborts all tasks at once and notifies waiters.
    fn halt(&self) {
        let shared = &self.client.shared;
        shared.tasks.abort();
        #[cfg(feature = "http")]
        self.sinks.abort();
        self.services.residency.abort();
        shared.committer.close(Error::Shutdown);
        self.services.stopped();
    }

    /// Returns the number of runs in memory.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// assert_eq!(engine.resident(), 0);
    /// engine.start(double, &21).delay("1 day").await?; // waits in the store
    /// assert_eq!(engine.resident(), 0);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn resident(&self) -> usize {
        self.services.residency.len()
    }

    /// Returns a client that can be kept and cloned. It does not keep the engine running.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let client = engine.client();
    /// let handler = tokio::spawn(async move { client.start(double, &21).await });
    /// assert_eq!(handler.await??.result().await?, 42);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }
}

/// The calls of a [`Client`], on an engine.
impl Engine {
    /// Starts a run; see [`Client::start`].
    pub fn start<T: Target<M>, M>(&self, target: T, input: &T::Input) -> Start<T::Output> {
        self.client.start(target, input)
    }

    /// Starts a run of a workflow by its name, with JSON as its input; see [`Client::start_json`].
    pub fn start_json(&self, workflow: &str, input: &str) -> Start<serde_json::Value> {
        self.client.start_json(workflow, input)
    }

    /// Returns the client of a job; see [`Client::job`].
    pub fn job<C: Contract>(&self, contract: C) -> C::Client {
        self.client.job(contract)
    }

    /// Finds a run; see [`Client::get_run`].
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such run.
    pub async fn get_run<O: DeserializeOwned>(&self, id: &str) -> Result<Run<O>, Error> {
        self.client.get_run(id).await
    }

    /// Lists runs, newest first; see [`Client::list`].
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list(&self, filter: Filter) -> Result<RunPage, Error> {
        self.client.list(filter).await
    }

    /// Lists the next page of runs; see [`Client::list_after`].
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list_after(&self, filter: Filter, next: Option<PageMark>) -> Result<RunPage, Error> {
        self.client.list_after(filter, next).await
    }

    /// Counts runs by status; see [`Client::count`].
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn count(&self, filter: Filter) -> Result<Counts, Error> {
        self.client.count(filter).await
    }

    /// Subscribes to lifecycle events; see [`Client::events`].
    pub fn events(&self) -> Subscribe {
        self.client.events()
    }

    /// Describes how durable an acknowledged write is; see [`Client::durability`].
    #[must_use]
    pub fn durability(&self) -> String {
        self.client.durability()
    }

    /// Returns the jobs of the store; see [`Client::jobs`].
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn jobs(&self) -> Result<Vec<JobSummary>, Error> {
        self.client.jobs().await
    }

    /// Lists instances of jobs; see [`Client::job_instances`].
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn job_instances(&self, filter: Filter, next: Option<PageMark>) -> Result<JobPage, Error> {
        self.client.job_instances(filter, next).await
    }

    /// Returns a job by its name alone; see [`Client::job_by_name`].
    ///
    /// # Errors
    /// If the name is not the name of a job.
    pub fn job_by_name(&self, name: &str) -> Result<AnyJob, Error> {
        self.client.job_by_name(name)
    }
}

/// Dropping an engine without a [shutdown](Engine::shutdown) stops it at once, as a crash does: unfinished work is
/// repeated next time. The store is released, although clients of it may live on.
impl Drop for Engine {
    fn drop(&mut self) {
        self.halt();
        if self.is_owner {
            // A client may keep the store open. Dropping cannot wait, so the release is only polled once.
            let _ = self.client.shared.store.release(self.services.epoch).now_or_never();
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({} runs in memory)", self.services.residency.len())
    }
}

impl Builder {
    fn new(place: StoreSource) -> Self {
        Self {
            place,
            registry: Registry::default(),
            provided: Provided::default(),
            layers: Vec::new(),
            clock: Arc::new(SystemClock),
            hook: None,
            is_paranoid: false,
            max_resident: RESIDENTS_MAX,
            max_recoveries: RECOVERIES_MAX,
            max_payload: PAYLOAD_MAX,
            grace: GRACE,
            durability: Durability::Full,
            keep_events: KEEP_EVENTS,
            long_lives: LongLives::default(),
            #[cfg(feature = "http")]
            sinks: Vec::new(),
            seed: None,
            version: None,
            lock_wait: Duration::ZERO,
            is_checkable: false,
            problem: None,
        }
    }

    fn refuse(&mut self, error: Error) {
        self.problem.get_or_insert(error);
    }

    /// Registers a workflow. The name is what is stored on disk: keep it when the function is renamed.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn double_it(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").workflow("double", double_it).start().await?;
    /// let run = engine.start(double_it, &21).await?;
    /// assert_eq!(run.info().await?.workflow, "double");
    /// # Ok(()) }
    /// ```
    pub fn workflow<F, M>(mut self, name: &str, function: F) -> Self
    where
        F: WorkflowFn<M>,
        M: 'static,
    {
        let registered = Registered { handler: Arc::new(Typed::new(function)), is_strict: F::IS_STRICT };
        if let Err(error) = self.registry.add(name, TypeId::of::<F::Function>(), registered) {
            self.refuse(error);
        }
        self
    }

    /// Registers a job. See [`job`](crate::job).
    ///
    /// ```
    /// use outlive::job::{Continuous, ContinuousCtx};
    /// use outlive::prelude::*;
    /// const BEAT: Continuous<u32> = Continuous::new("heartbeat");
    /// async fn beat(ctx: ContinuousCtx<u32>) -> Result<()> { ctx.update_state(|beats| *beats += 1); Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").job(BEAT.every("1 minute").execute(beat)).start().await?;
    /// # Ok(()) }
    /// ```
    pub fn job(mut self, job: impl JobDefinition) -> Self {
        let added = job.definition().and_then(|definition| self.registry.add_job(definition));
        if let Err(error) = added {
            self.refuse(error);
        }
        self
    }

    /// Provides a value that workflows get by its type, with [`Ctx::get`](crate::Ctx::get).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// struct Prices { tea: u32 }
    /// async fn price(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.get::<Prices>().tea) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").workflow("price", price).provide(Prices { tea: 3 }).start().await?;
    /// assert_eq!(engine.start(price, &()).await?.result().await?, 3);
    /// # Ok(()) }
    /// ```
    pub fn provide<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.provided.add(value);
        self
    }

    /// Provides a value like [`provide`](Self::provide), but creates it when the engine starts, before any run begins.
    ///
    /// A [check](Self::check) does not create it, so checking a program's code opens no connections. For that to work,
    /// get the value only inside step bodies; a run whose workflow gets it elsewhere cannot be checked.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// struct Mailer(String);
    /// async fn connect(url: &str) -> Result<Mailer> { Ok(Mailer(url.to_owned())) }
    ///
    /// async fn welcome(ctx: Ctx, name: String) -> Result<String> {
    ///     let send = || async { Ok::<_, BoxError>(format!("{name}, by {}", ctx.get::<Mailer>().0)) };
    ///     Ok(ctx.step("send mail", send).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:")
    ///     .workflow("welcome", welcome)
    ///     .provide_with(|| async { connect("smtp://localhost").await })
    ///     .start()
    ///     .await?;
    /// let run = engine.start(welcome, &"ada".to_string()).await?;
    /// assert_eq!(run.result().await?, "ada, by smtp://localhost");
    /// # Ok(()) }
    /// ```
    ///
    /// [`start`](Self::start) returns [`Error::Provide`] if the value cannot be created.
    pub fn provide_with<T, E, F, Fut>(mut self, make: F) -> Self
    where
        T: Send + Sync + 'static,
        E: Into<BoxError>,
        F: FnOnce() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.provided.add_maker(make);
        self
    }

    /// Sets the clock; for tests.
    ///
    /// ```
    /// use outlive::clock::Clock;
    /// use outlive_testkit::TestClock;
    /// # use outlive::prelude::*;
    /// async fn when(ctx: Ctx, _: ()) -> Result<Timestamp> { Ok(ctx.now()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let clock = TestClock::new();
    /// let engine = Engine::open("memory:").clock(clock.clone()).workflow("when", when).start().await?;
    /// assert_eq!(engine.start(when, &()).await?.result().await?, clock.now());
    /// # Ok(()) }
    /// ```
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets how many runs are held in memory at most; the others wait in the store. If all of them are in steps and
    /// none leaves for a second while others are due, one more is admitted, because they may be waiting for each other.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").workflow("double", double).max_resident(1_000).start().await?;
    /// assert!(engine.resident() <= 1_000);
    /// assert!(Engine::open("memory:").max_resident(0).start().await.is_err());
    /// # Ok(()) }
    /// ```
    pub fn max_resident(mut self, runs: usize) -> Self {
        if runs == 0 {
            self.refuse(Error::Setup("max_resident must be at least 1".into()));
        }
        self.max_resident = runs;
        self
    }

    /// Sets how often a run may crash the process without making progress before it becomes stuck. Only crashes that
    /// can be blamed on this run alone count.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").max_recoveries(5).start().await?;
    /// for run in engine.list(Filter::runs().status(StatusKind::Stuck)).await?.runs {
    ///     println!("{} is stuck: {:?}", run.id, run.note);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn max_recoveries(mut self, times: u32) -> Self {
        self.max_recoveries = times;
        self
    }

    /// Sets the maximum size of an input, signal or result, in bytes of JSON.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn measure(_: Ctx, text: String) -> Result<usize> { Ok(text.len()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").workflow("measure", measure).max_payload(64).start().await?;
    /// let error = engine.start(measure, &"long ".repeat(20)).await.unwrap_err();
    /// assert_eq!(error.code(), "payload_too_large");
    /// # Ok(()) }
    /// ```
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.max_payload = bytes;
        self
    }

    /// Sets how long [`Engine::shutdown`] waits for step bodies.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").grace("30 seconds").start().await?;
    /// engine.shutdown().await?; // waits 30 seconds at most
    /// # Ok(()) }
    /// ```
    pub fn grace(mut self, duration: impl IntoDuration) -> Self {
        match duration.into_duration() {
            Ok(grace) => self.grace = grace,
            Err(error) => self.refuse(error.into()),
        }
        self
    }

    /// Sets the minimum time that [lifecycle events](Client::events) are kept; 7 days by default.
    ///
    /// A subscriber that resumes from a cursor, and every sink, must come back within this time. The journal of a run
    /// is kept as long as the run is; what it recorded before a [restart](crate::Ctx::restart), as long as an event.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").keep_events("30 days").start().await?;
    /// # Ok(()) }
    /// ```
    pub fn keep_events(mut self, duration: impl IntoDuration) -> Self {
        match duration.into_duration() {
            Ok(keep) => self.keep_events = keep,
            Err(error) => self.refuse(error.into()),
        }
        self
    }

    /// Also sends all [lifecycle events](Client::events) to an HTTP endpoint. Several sinks need
    /// [names](HttpSink::name).
    ///
    /// ```
    /// use outlive::HttpSink;
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let sink = HttpSink::new("http://127.0.0.1:9/events").env("test").service_key("shop");
    /// let engine = Engine::open("memory:").sink(sink).start().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "http")]
    pub fn sink(mut self, sink: HttpSink) -> Self {
        match sink.ready(&self.sinks) {
            Ok(sink) => self.sinks.push(sink),
            Err(error) => self.refuse(error),
        }
        self
    }

    /// Sets how durable an acknowledged write is.
    ///
    /// ```
    /// use outlive::Durability;
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("shop.db");
    /// let engine = Engine::open(&path).durability(Durability::Relaxed).start().await?;
    /// assert!(engine.durability().ends_with("synchronous=normal"));
    /// # Ok(()) }
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Installs a hook that is called before each step body; for test kits.
    ///
    /// ```
    /// use outlive::{HookAction, StepCall, StepHook};
    /// use std::sync::{Arc, Mutex};
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    ///
    /// #[derive(Default)]
    /// struct Seen(Mutex<Vec<String>>);
    /// impl StepHook for Seen {
    ///     fn before(&self, call: &StepCall<'_>) -> HookAction {
    ///         self.0.lock().unwrap().push(call.step.to_owned());
    ///         HookAction::Run
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let seen = Arc::new(Seen::default());
    /// let engine = Engine::open("memory:").workflow("pay", pay).step_hook(seen.clone()).start().await?;
    /// engine.start(pay, &()).await?.result().await?;
    /// assert_eq!(*seen.0.lock().unwrap(), ["charge"]);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "testing")]
    pub fn step_hook(mut self, hook: Arc<dyn StepHook>) -> Self {
        self.hook = Some(hook);
        self
    }

    /// Derives ids, and the random numbers of runs, from a seed; for tests.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn dice(ctx: Ctx, _: ()) -> Result<u64> { Ok(ctx.random()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let one = Engine::open("memory:").workflow("dice", dice).seed(7).start().await?;
    /// let other = Engine::open("memory:").workflow("dice", dice).seed(7).start().await?;
    /// assert_eq!(one.start(dice, &()).await?.result().await?, other.start(dice, &()).await?.result().await?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "testing")]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets whether each quiet point is verified by replaying a second copy of the run; for tests.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn wait(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.wait("n").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").workflow("wait", wait).paranoid(true).start().await?;
    /// let run = engine.start(wait, &()).await?;
    /// run.signal("n", &42).await?;
    /// assert_eq!(run.result().await?, 42);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "testing")]
    pub fn paranoid(mut self, paranoid: bool) -> Self {
        self.is_paranoid = paranoid;
        self
    }

    /// Replays every unfinished run of a store or an export with the workflows registered here, and reports what would
    /// happen to each. Nothing is written and no step runs; the store this builder names is not opened.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// async fn old(ctx: Ctx, _: ()) -> Result<()> {
    ///     ctx.step("charge", charge).await?;
    ///     Ok(ctx.sleep("1 day").await?)
    /// }
    /// async fn new(ctx: Ctx, _: ()) -> Result<()> {
    ///     ctx.step("charge card", charge).await?;
    ///     Ok(ctx.sleep("1 day").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("pay", old)).await;
    /// test.start(old, &()).await?;
    /// test.settle().await;
    /// let report = Engine::open("memory:").workflow("pay", new).check(test.store()).await?;
    /// assert!(report.to_string().contains("add `.was(\"charge\")`"), "{report}");
    /// # Ok(()) }
    /// ```
    pub fn check(self, source: impl Into<Source>) -> Check {
        let judge = match self.problem {
            Some(error) => Err(error),
            None => {
                let registry = Arc::new(self.registry);
                let unmade = self.provided.unmade();
                let env = Env::new(self.clock, registry.clone(), self.provided.values, self.max_payload);
                let env = Env { unmade, ..env };
                Ok(Judge::new(registry, Arc::new(env), self.max_recoveries))
            }
        };
        Check::new(judge, source.into())
    }

    /// Lets the environment ask this program about its code: with it, `outlive check FILE -- PROGRAM` works.
    ///
    /// If the environment variable `OUTLIVE_CHECK` names a store or an export, [`start`](Self::start) then
    /// [checks](Self::check) that with the workflows registered here, writes the verdicts to the file that
    /// `OUTLIVE_CHECK_REPORT` names, and returns [`Error::Checked`]. The store that the program names is not opened.
    /// Without this call, `start` returns an error if `OUTLIVE_CHECK` is set, and executes nothing.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").workflow("double", double).check_from_env().start().await?;
    /// # Ok(()) }
    /// ```
    pub fn check_from_env(mut self) -> Self {
        self.is_checkable = true;
        self
    }

    /// Sets how long [`start`](Self::start) waits for another process that executes the store to end; by default it
    /// does not wait. For deploys that start the new process before the old one has ended.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("shop.db");
    /// let old = Engine::open(&path).start().await?;
    /// let new = tokio::spawn(Engine::open(&path).wait_for_lock("30 s").start());
    /// old.shutdown().await?;
    /// new.await??;
    /// # Ok(()) }
    /// ```
    pub fn wait_for_lock(mut self, duration: impl IntoDuration) -> Self {
        match duration.into_duration() {
            Ok(wait) => self.lock_wait = wait,
            Err(error) => self.refuse(error.into()),
        }
        self
    }
}
