//! Sinks: deliver lifecycle events to an outside receiver, batch by batch, from a position that the store keeps. At
//! least once, in order, and never in the way of a run.

mod http;

use std::sync::Arc;
use std::time::Duration;

use outlive_core::id::Name;
use outlive_core::retry::Retry;
use outlive_core::store::Store;
use outlive_core::store::commit::Write;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use http::HttpSink;

use crate::error::Error;
use crate::events::{Cursor, Events, LifecycleEvent, Subscribe};
use crate::runtime::shared::Shared;

/// How long to wait after the store could not be read or written.
const STORE_RETRY: Duration = Duration::from_millis(200);

/// How a sink delivers events.
struct SinkPlan {
    /// The name under which the store keeps the sink's position.
    name: Name,
    from_start: bool,
    /// The maximum number of events in a batch.
    batch: usize,
    /// How long a batch that is not full waits for more.
    every: Duration,
    retry: Retry,
}

/// Returns where each sink starts. Determined before anything is executed.
pub(crate) async fn begins(store: &dyn Store, sinks: &[HttpSink]) -> Result<Vec<Cursor>, Error> {
    let mut begins = Vec::with_capacity(sinks.len());
    for sink in sinks {
        begins.push(sink.plan.begin(store).await?);
    }
    Ok(begins)
}

impl SinkPlan {
    /// Returns where to start. A position that is not stored yet is stored now, so that a later crash loses nothing.
    async fn begin(&self, store: &dyn Store) -> Result<Cursor, Error> {
        if let Some(mark) = store.mark(Some(&self.name)).await? {
            return Ok(Cursor::from_mark(mark));
        }
        let now = store.mark(None).await?.unwrap_or(0);
        let cursor = if self.from_start { Cursor::START } else { Cursor::after(now) };
        store.write(vec![Write::Mark(self.name.clone(), cursor.to_mark())].into()).await?;
        Ok(cursor)
    }
}

/// The running sinks of an engine.
pub(crate) struct Sinks {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Sinks {
    /// Starts delivering, each sink from its position.
    pub(crate) fn new(sinks: Vec<HttpSink>, begins: Vec<Cursor>, shared: &Arc<Shared>) -> Self {
        let stop = watch::Sender::new(false);
        let tasks = sinks.into_iter().zip(begins).map(|(sink, from)| {
            let (shared, stop) = (shared.clone(), stop.subscribe());
            tokio::spawn(async move {
                match Subscribe::new(shared.clone()).committed().since(from).await {
                    Ok(events) => SinkDelivery { sink, shared, events, stop, failed: 0 }.run().await,
                    Err(error) => tracing::warn!("could not start a sink: {error}"),
                }
            })
        });
        Self { tasks: tasks.collect(), stop }
    }

    /// Makes the sinks deliver what there is, once, and waits for that.
    pub(crate) async fn flush(&self) {
        self.stop.send_replace(true);
        self.stop.closed().await;
    }

    /// Stops the sinks at once.
    pub(crate) fn abort(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// One running sink.
struct SinkDelivery {
    sink: HttpSink,
    shared: Arc<Shared>,
    events: Events,
    stop: watch::Receiver<bool>,
    /// How often the current batch has failed.
    failed: u32,
}

impl SinkDelivery {
    async fn run(mut self) {
        loop {
            let is_last = *self.stop.borrow();
            let batch = match self.gather(is_last).await {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::warn!("sink {}: {error}", self.sink.plan.name);
                    self.rest(STORE_RETRY).await;
                    continue;
                }
            };
            match batch.as_slice() {
                [] if is_last || self.shared.committer.is_closed() => return,
                [] => {}
                [.., last] => {
                    if !self.hand_over(&batch).await || !self.keep(last.cursor()).await {
                        return;
                    }
                }
            }
        }
    }

    /// Returns the next batch to deliver: a full one, or what arrived in time.
    async fn gather(&mut self, is_last: bool) -> Result<Vec<LifecycleEvent>, Error> {
        let (size, every) = (self.sink.plan.batch, self.sink.plan.every);
        let mut batch = self.events.read(size).await?;
        if batch.is_empty() && !is_last {
            tokio::select! {
                changed = self.events.changed() => changed?,
                _ = self.stop.changed() => {}
            }
            return Ok(batch);
        }
        if batch.len() < size && !is_last {
            self.rest(every).await;
            batch.extend(self.events.read(size - batch.len()).await.unwrap_or_default());
        }
        Ok(batch)
    }

    /// Delivers a batch until it is accepted. Returns `false` if it was not: when the engine stops, it is tried once.
    async fn hand_over(&mut self, batch: &[LifecycleEvent]) -> bool {
        self.failed = 0;
        loop {
            let problem = match self.sink.post(batch).await {
                Ok(()) => return true,
                Err(problem) => problem,
            };
            self.failed = self.failed.saturating_add(1);
            let name = &self.sink.plan.name;
            if *self.stop.borrow() {
                tracing::warn!("sink {name}: {} events are left for the next start: {problem}", batch.len());
                return false;
            }
            let seed = self.events.cursor().to_mark();
            let delay = self.sink.plan.retry.delay(self.failed, seed);
            tracing::warn!("sink {name}: attempt {} failed, retrying in {delay:?}: {problem}", self.failed);
            self.rest(delay).await;
        }
    }

    /// Stores the position. Returns `false` if it could not be stored because the engine has ended.
    async fn keep(&mut self, cursor: Cursor) -> bool {
        loop {
            let mark = Write::Mark(self.sink.plan.name.clone(), cursor.to_mark());
            match self.shared.committer.write(mark).await {
                Ok(_) => return true,
                Err(Error::Shutdown | Error::Fenced { .. }) => return false,
                Err(error) => tracing::warn!("sink {}: {error}", self.sink.plan.name),
            }
            self.rest(STORE_RETRY).await;
        }
    }

    /// Waits in real time, whatever clock the runs see, because it waits for something outside. Ends early when the
    /// engine stops.
    async fn rest(&mut self, delay: Duration) {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = self.stop.changed() => {}
        }
    }
}
