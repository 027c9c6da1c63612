//! The client: starts, finds and signals runs, whether this process executes them or another.

use std::sync::Arc;

use outlive_core::id::Name;
use outlive_core::payload::Payload;
use outlive_core::store::Store;
use outlive_core::store::commit::{Answer, OnConflict, Write};
use outlive_core::store::query::{Counts, Filter};
use outlive_core::store::touched::Touch;
use serde::de::DeserializeOwned;

use crate::clock::SystemClock;
use crate::error::Error;
use crate::events::Subscribe;
use crate::instance::codec;
use crate::instance::env::PAYLOAD_MAX;
use crate::instance::random::RandomSource;
use crate::instance::target::Names as _;
use crate::run::{PageMark, Run, RunPage};
use crate::runtime::committer::{Committer, WriteListener};
use crate::runtime::follower::Follower;
use crate::runtime::open;
use crate::runtime::shared::{Shared, Tasks};
use crate::runtime::waiters::Waiters;
use crate::start::Start;
use crate::workflow::Target;

/// A client of a store: starts, finds and signals runs. An [`Engine`](crate::Engine) is one too.
///
/// ```
/// use outlive::{Client, Workflow};
/// const CHECKOUT: Workflow<u32, String> = Workflow::new("checkout");
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> outlive::prelude::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.db");
/// let client = Client::open(&path)?; // another process executes this file, now or later
/// let run = client.start(CHECKOUT, &42).id("order-42").await?;
/// run.signal("approval", &"ada").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.durability())
    }
}

/// The router of a process that executes nothing.
struct Nobody {
    waiters: Arc<Waiters>,
    follower: Arc<Follower>,
}

impl WriteListener for Nobody {
    fn written(&self, write: &Write, _: &mut Answer) {
        let removes = match write {
            Write::Start(start) => start.on_conflict == OnConflict::Replace,
            write => matches!(write, Write::Purge(..)),
        };
        if removes {
            self.follower.look_again();
        }
    }

    fn stopped(&self) {
        self.waiters.ask_all();
    }
}

impl Client {
    /// Opens a store without executing anything. The file is created if it does not exist. All clients that one process
    /// opens on a file share its connections, and their writes are applied in the order of the calls.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("shop.db");
    /// let client = Client::open(&path)?;
    /// assert_eq!(client.count(Filter::runs()).await?.total(), 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub fn open(place: impl AsRef<std::path::Path>) -> Result<Self, Error> {
        Ok(Self::with_store(open::shared(place.as_ref())?))
    }

    /// Opens an existing store for reading: lists, counts, journals and lifecycle events. Every call that would write
    /// fails with [`Error::Store`]. Use it where the file, its folder or its disk is read-only.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("shop.db");
    /// # let engine = Engine::open(&path).workflow("double", double).start().await?;
    /// # engine.start(double, &21).id("twice").await?.result().await?;
    /// let reader = Client::open_read_only(&path)?; // a backup, a snapshot, another user's file
    /// assert_eq!(reader.count(Filter::runs()).await?.of(StatusKind::Completed), 1);
    /// let run: Run<u32> = reader.get_run("twice").await?;
    /// assert_eq!(run.result().await?, 42);
    /// assert!(run.purge().await.is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If there is no store, or it cannot be read.
    pub fn open_read_only(place: impl AsRef<std::path::Path>) -> Result<Self, Error> {
        Ok(Self::with_store(open::read_only(place.as_ref())?))
    }

    /// Creates a client of a store that is already open, as [`Engine::on`](crate::Engine::with_store) does for an engine.
    ///
    /// ```
    /// use outlive_core::store::memory::MemoryStore;
    /// use std::sync::Arc;
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let store = Arc::new(MemoryStore::new());
    /// let run = Client::with_store(store.clone()).start_json("double", "21").id("twice").await?;
    /// let engine = Engine::with_store(store).workflow("double", double).start().await?; // executes what is already there
    /// assert_eq!(engine.get_run::<u32>("twice").await?.result().await?, 42);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_store(store: Arc<dyn Store>) -> Self {
        let (committer, waiters) = (Committer::new(), Arc::new(Waiters::default()));
        let follower = Follower::new(store.clone(), waiters.clone(), committer.bell.clone(), Touch::Reported);
        let router = Arc::new(Nobody { waiters: waiters.clone(), follower: follower.clone() });
        let task = tokio::spawn(committer.clone().run(store.clone(), router));
        let watch = tokio::spawn(follower.run());
        let shared = Shared {
            store,
            committer,
            clock: Arc::new(SystemClock),
            registry: Arc::default(),
            waiters,
            max_payload: PAYLOAD_MAX,
            replies: Arc::default(),
            random: Arc::new(RandomSource::new(None)),
            services: None,
            tasks: Tasks { committer: task.abort_handle(), finders: vec![watch.abort_handle()] },
        };
        Self { shared: Arc::new(shared) }
    }

    /// Starts a run of a workflow, given by its function, if that is registered here, or by a
    /// [`Workflow`](crate::Workflow) contract.
    ///
    /// ```
    /// use outlive::prelude::*;
    /// async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let run = engine.start(double, &21).id("twice").tag("team", "maths").await?;
    /// assert_eq!(run.result().await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn start<T: Target<M>, M>(&self, target: T, input: &T::Input) -> Start<T::Output> {
        let name = self.shared.registry.name_of(target.reference());
        let input = codec::encode("the input", input, usize::MAX);
        Start::new(self.shared.clone(), name, input)
    }

    /// Starts a run by name, with the input as JSON text: for tools that know neither function nor types.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let run = engine.start_json("double", "21").await?;
    /// assert_eq!(run.result().await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn start_json(&self, workflow: &str, input: &str) -> Start<serde_json::Value> {
        let name = Name::new("workflow name", workflow).map_err(Error::from);
        let input = Payload::parse(input).map_err(|error| Error::Payload {
            what: format!("the input {:?} is not JSON that can be stored", input.chars().take(60).collect::<String>()),
            problem: error.to_string(),
        });
        Start::new(self.shared.clone(), name, input)
    }

    /// Returns the client of a job, given its contract.
    ///
    /// ```
    /// use outlive::job::{Task, TaskCtx};
    /// use outlive::prelude::*;
    /// const ORDERS: Task<u32, u32> = Task::new("orders");
    /// # async fn handle(ctx: TaskCtx<u32, u32>, n: u32) -> Result<()> { ctx.set_state(n); Ok(()) }
    /// # async fn check(_: TaskCtx<u32, u32>) -> Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").job(ORDERS.on_event(handle).execute(check)).start().await?;
    /// let orders = engine.job(ORDERS);
    /// orders.send("42", &7).await?;
    /// # Ok(()) }
    /// ```
    pub fn job<C: Contract>(&self, contract: C) -> C::Client {
        contract.client(self)
    }

    /// Finds a run by its id.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// engine.start(double, &21).id("twice").await?;
    /// let run: Run<u32> = engine.get_run("twice").await?; // the type annotation says what the run returns
    /// assert_eq!(run.result().await?, 42);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if no run has that id.
    pub async fn get_run<O: DeserializeOwned>(&self, id: &str) -> Result<Run<O>, Error> {
        let instance = self.shared.instance(&Name::new("run id", id)?).await?;
        Ok(Run::new(self.shared.clone(), instance.id, instance.num))
    }

    /// Lists runs, newest first, one page at a time.
    ///
    /// An id prefix, a tag, a workflow and a status other than `Completed` are looked up in an index. Any other filter
    /// scans from the newest run, and a page ends early if many runs do not match: it may be short although more
    /// follow, so rely on its [`next`](RunPage::next). A page with large inputs and results is short as well. Dropping
    /// the future stops the search.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").start().await?;
    /// let page = engine.list(Filter::runs().workflow("checkout").status(StatusKind::Failed)).await?;
    /// assert!(page.runs.is_empty() && page.next.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list(&self, filter: Filter) -> Result<RunPage, Error> {
        self.list_after(filter, None).await
    }

    /// Lists the runs that follow a page; pass its [`next`](RunPage::next).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// # for n in 0..120 { engine.start(double, &n).await?; }
    /// let mut page = engine.list(Filter::runs()).await?;
    /// let mut count = page.runs.len();
    /// while let Some(next) = page.next {
    ///     page = engine.list_after(Filter::runs(), Some(next)).await?;
    ///     count += page.runs.len();
    /// }
    /// assert_eq!(count, 120);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list_after(&self, filter: Filter, next: Option<PageMark>) -> Result<RunPage, Error> {
        RunPage::read(&self.shared, &filter, next).await
    }

    /// Counts runs by status.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").start().await?;
    /// let counts = engine.count(Filter::runs()).await?;
    /// assert_eq!((counts.of(StatusKind::Stuck), counts.total()), (0, 0));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn count(&self, filter: Filter) -> Result<Counts, Error> {
        Ok(self.shared.store.count(&filter).await?)
    }

    /// Follows the lifecycle events of all runs and jobs in the store, whichever process executes them: from now on, or
    /// from where [`Subscribe`] is set to begin. In the process that executes them, this includes step attempts as they
    /// [begin](crate::LifecycleKind::StepStarted), which are not committed.
    ///
    /// ```
    /// use outlive::LifecycleKind;
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let mut events = engine.events().await?;
    /// engine.start(double, &21).await?;
    /// while events.next().await?.kind != LifecycleKind::RunCompleted {}
    /// # Ok(()) }
    /// ```
    pub fn events(&self) -> Subscribe {
        Subscribe::new(self.shared.clone())
    }

    /// Describes how durable an acknowledged write is, as read back from the store.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").start().await?;
    /// assert_eq!(engine.durability(), "memory: none");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn durability(&self) -> String {
        self.shared.store.durability()
    }
}

/// A contract: names a job and its types, for clients and definitions alike.
///
/// ```
/// use outlive::job::{Contract, Task};
/// const ORDERS: Task<u32, u32> = Task::new("orders");
/// fn is_contract(_: impl Contract) {}
/// is_contract(ORDERS);
/// ```
pub trait Contract {
    /// The client of such a job.
    type Client;

    /// Returns the client of this job.
    #[doc(hidden)]
    fn client(self, client: &Client) -> Self::Client;
}
