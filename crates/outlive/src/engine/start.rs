//! Starts an engine: opens its store, takes the lease on it, and spawns its tasks.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::id::{Epoch, Name};
use outlive_core::origin::RunOrigin;
use outlive_core::status::StatusKind;
use outlive_core::store::Store;
use outlive_core::store::query::Filter;

use super::{Builder, Engine, StoreSource};
use crate::check::EnvCheck;
use crate::client::Client;
use crate::clock::Clock;
use crate::error::Error;
use crate::instance::env::Env;
use crate::instance::meters;
use crate::instance::outlet::Outlet;
use crate::instance::panics;
use crate::instance::random::RandomSource;
use crate::runtime::committer::Committer;
use crate::runtime::deploy::{self, Deploy};
use crate::runtime::expiry::Expiry;
use crate::runtime::handlers::HandlerEnv;
use crate::runtime::outlet::CommitterOutlet;
use crate::runtime::registry::Registry;
use crate::runtime::replies::Replies;
use crate::runtime::retention::Retention;
use crate::runtime::services::{ServiceSetup, Services};
use crate::runtime::shared::{Shared, Tasks};
use crate::runtime::waiters::Waiters;
use crate::runtime::worker::Worker;
use crate::runtime::worker::loader::Loader;
#[cfg(feature = "http")]
use crate::sink::{self, Sinks};

/// How often to try for the lease of a store that another process executes.
const LOCK_LOOK: Duration = Duration::from_millis(50);

const UNCHECKABLE: &str = "OUTLIVE_CHECK is set, but this program cannot be checked, so nothing was checked or executed; \
     add `.check_from_env()` before `.start()`, or unset the variable";

impl Builder {
    /// Opens the store, takes the lease on it, and starts executing.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("shop.db");
    /// let engine = Engine::open(&path).start().await?;
    /// let second = Engine::open(&path).start().await; // only one process can execute a store
    /// assert!(second.is_err_and(|error| error.is_locked()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the engine is misconfigured, the store cannot be opened, or another process executes it ([`Error::Locked`]).
    /// [`Error::Checked`] if the environment asked for a check instead; an error too if it did and the program does not
    /// call [`check_from_env`](Self::check_from_env).
    pub async fn start(self) -> Result<Engine, Error> {
        if let Some(order) = EnvCheck::from_env() {
            return Err(self.answer_check(order).await);
        }
        self.problem.clone().map_or(Ok(()), Err)?;
        panics::note_places();
        meters::describe();
        let (code, is_owner) = (self.code(), matches!(self.place, StoreSource::Path(_)));
        let (provided, store) = (self.provided.make().await?, self.place.open(self.durability)?);
        let registry = Arc::new(self.registry);
        let env = Env::new(self.clock.clone(), registry.clone(), provided, self.max_payload);
        let (committer, waiters, replies) = (Committer::new(), Arc::<Waiters>::default(), Arc::<Replies>::default());
        let random = Arc::new(RandomSource::new(self.seed));
        let epoch = lease(&*store, &*self.clock, self.lock_wait).await?;
        let outlet = CommitterOutlet { committer: committer.clone(), random: random.clone(), epoch };
        let (hook, origin, layers) = (self.hook, RunOrigin::new(self.version, None), self.layers);
        let (is_paranoid, max_entries) = (self.is_paranoid, self.long_lives.max_entries);
        let outlet: Option<Arc<dyn Outlet>> = Some(Arc::new(outlet));
        let env = Arc::new(Env { hook, origin, layers, is_paranoid, max_entries, outlet, ..env });
        let services = Services::new(ServiceSetup {
            store: store.clone(),
            committer: committer.clone(),
            waiters: waiters.clone(),
            replies: replies.clone(),
            handler_env: HandlerEnv { shared: env, random: random.clone(), deadlines: Default::default() },
            epoch,
            max_resident: self.max_resident,
        });
        log_start(&*store, &registry).await;
        #[cfg(feature = "http")]
        let begins = sink::begins(&*store, &self.sinks).await?;
        let retention = Retention { services: services.clone(), keep: self.keep_events };
        let max_recoveries = self.max_recoveries;
        let deploy = Deploy { services: services.clone(), registry: registry.clone(), max_recoveries };
        let expiry = Expiry { services: services.clone(), rules: self.long_lives.keep };
        let tasks = spawn_tasks(deploy, code, retention, expiry);
        let shared = Shared {
            store,
            committer,
            clock: self.clock,
            registry,
            waiters,
            replies,
            max_payload: self.max_payload,
            random,
            services: Some(services.clone()),
            tasks,
        };
        let client = Client { shared: Arc::new(shared) };
        Ok(Engine {
            #[cfg(feature = "http")]
            sinks: Sinks::new(self.sinks, begins, &client.shared),
            client,
            services,
            grace: self.grace,
            is_owner,
            ending: tokio::sync::Mutex::default(),
        })
    }

    /// Checks instead of starting, as the environment says, and returns the error that says so.
    async fn answer_check(self, order: EnvCheck) -> Error {
        match self.is_checkable {
            true => order.carry_out(|source| self.check(source)).await,
            // Somebody wants to know what this program would do, not have it done.
            false => Error::Setup(UNCHECKABLE.to_owned()),
        }
    }
}

/// Logs the state the engine starts with.
async fn log_start(store: &dyn Store, registry: &Registry) {
    if !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let counts = store.count(&Filter::all()).await.unwrap_or_default();
    let ended: u64 = StatusKind::ALL.into_iter().filter(|kind| kind.is_ended()).map(|kind| counts.of(kind)).sum();
    let (unfinished, stuck) = (counts.total() - ended, counts.of(StatusKind::Stuck));
    let (store, workflows, jobs) = (store.name(), registry.known(), registry.known_jobs());
    tracing::info!(store, workflows, jobs, unfinished, stuck, pid = std::process::id(), "engine started");
}

/// Spawns the engine's tasks.
fn spawn_tasks(deploy: Deploy, code: Option<u64>, retention: Retention, expiry: Expiry) -> Tasks {
    let Deploy { services, registry, max_recoveries } = deploy.clone();
    let worker = Worker::new(services.clone(), Loader { services: services.clone(), registry, max_recoveries });
    let finders = [
        tokio::spawn(retention.run()),
        tokio::spawn(expiry.run()),
        tokio::spawn(deploy.clone().look_at_parked(code)),
        tokio::spawn(worker.clone().run()),
        tokio::spawn(deploy.clone().reopen_stuck()),
        tokio::spawn(deploy.look_at_schedules()),
    ];
    let committer = tokio::spawn(services.committer.clone().run(services.store.clone(), worker));
    Tasks { committer: committer.abort_handle(), finders: finders.map(|task| task.abort_handle()).into() }
}

/// Takes the lease on a store, waiting for the current owner to release it. It polls: a released lock is not announced.
async fn lease(store: &dyn Store, clock: &dyn Clock, patience: Duration) -> Result<Epoch, Error> {
    let mut is_told = false;
    let end = tokio::time::Instant::now() + patience;
    loop {
        let error = match store.lease(clock.now()).await {
            Ok(epoch) => return Ok(epoch),
            Err(error) => Error::from(error),
        };
        if !error.is_locked() || tokio::time::Instant::now() >= end {
            return Err(error);
        }
        if !std::mem::replace(&mut is_told, true) {
            tracing::info!("waiting up to {patience:?} for the process that executes the store to end: {error}");
        }
        tokio::time::sleep(LOCK_LOOK.min(end - tokio::time::Instant::now())).await;
    }
}

impl Builder {
    /// Returns a number that identifies this version of the code. A test that brings its own store names the version
    /// itself.
    fn code(&self) -> Option<u64> {
        let has_file = matches!(self.place, StoreSource::Path(_));
        if has_file || self.version.is_some() { deploy::code(self.version.as_ref().map(Name::as_str)) } else { None }
    }
}
