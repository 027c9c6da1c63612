//! Hands what happens to somebody outside, batch after batch, from a place that the store keeps: at least once, in
//! order, and never in the way of a run.

mod http;

use std::sync::Arc;
use std::time::Duration;

use outlive_core::commit::Write;
use outlive_core::id::Name;
use outlive_core::retry::Retry;
use outlive_core::store::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use http::HttpSink;

use crate::error::Error;
use crate::events::{Cursor, Events, LifecycleEvent, Subscribe};
use crate::shared::Shared;

/// The wait before the store is asked again that could not be read or written.
const STORE_RETRY: Duration = Duration::from_millis(200);

/// How a sink takes what there is.
struct Plan {
    /// The name under which the store keeps how far it is.
    name: Name,
    from_start: bool,
    /// How many events are handed over at once, at most.
    batch: usize,
    /// How long fewer of them are waited for.
    every: Duration,
    retry: Retry,
}

/// Where each sink begins, asked before anything is executed.
pub(crate) async fn begins(store: &dyn Store, sinks: &[HttpSink]) -> Result<Vec<Cursor>, Error> {
    let mut begins = Vec::with_capacity(sinks.len());
    for sink in sinks {
        begins.push(sink.plan.begin(store).await?);
    }
    Ok(begins)
}

impl Plan {
    /// Where to begin. What is not kept yet is kept now, so that a crash later loses nothing.
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

/// The sinks of an engine at work.
pub(crate) struct Sinks {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Sinks {
    /// Begins to hand over, each from where it is.
    pub(crate) fn new(sinks: Vec<HttpSink>, begins: Vec<Cursor>, shared: &Arc<Shared>) -> Self {
        let stop = watch::Sender::new(false);
        let tasks = sinks.into_iter().zip(begins).map(|(sink, from)| {
            let (shared, stop) = (shared.clone(), stop.subscribe());
            tokio::spawn(async move {
                match Subscribe::new(shared.clone()).committed().since(from).await {
                    Ok(events) => Delivery { sink, shared, events, stop, failed: 0 }.run().await,
                    Err(error) => tracing::warn!("a sink does not begin: {error}"),
                }
            })
        });
        Self { tasks: tasks.collect(), stop }
    }

    /// Has them hand over what there is, once, and waits for that.
    pub(crate) async fn flush(&self) {
        self.stop.send_replace(true);
        self.stop.closed().await;
    }

    /// Ends them at once.
    pub(crate) fn abort(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// One sink at work.
struct Delivery {
    sink: HttpSink,
    shared: Arc<Shared>,
    events: Events,
    stop: watch::Receiver<bool>,
    /// How often the batch at hand has failed.
    failed: u32,
}

impl Delivery {
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

    /// What is to be handed over next: a whole batch, or what has come in time.
    async fn gather(&mut self, is_last: bool) -> Result<Vec<LifecycleEvent>, Error> {
        let (size, every) = (self.sink.plan.batch, self.sink.plan.every);
        let mut batch = self.events.read(size).await?;
        if batch.is_empty() && !is_last {
            tokio::select! {
                news = self.events.news() => news?,
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

    /// Hands over until it is taken. Says whether it was: at the end of the engine it is tried once.
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
                tracing::warn!("sink {name}: {} events wait for the next start: {problem}", batch.len());
                return false;
            }
            let seed = self.events.cursor().to_mark();
            let delay = self.sink.plan.retry.delay(self.failed, seed);
            tracing::warn!("sink {name}: attempt {} failed, the next is in {delay:?}: {problem}", self.failed);
            self.rest(delay).await;
        }
    }

    /// Keeps how far it is. Says whether that could be kept; else the engine has ended.
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

    /// Waits. Real time, whatever clock the runs see: what it waits for is outside. The engine's end ends it.
    async fn rest(&mut self, delay: Duration) {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = self.stop.changed() => {}
        }
    }
}
