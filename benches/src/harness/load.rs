//! Puts load on an engine: many starts, and waiting for their results.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use outlive::prelude::*;
use outlive::{Counts, Start};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::harness::usage::{Spent, Stopwatch};

/// How often a count is polled.
const LOOK: Duration = Duration::from_millis(10);

/// A number of runs, and how many of them are in flight at a time.
#[derive(Clone, Copy)]
pub(crate) struct Flood {
    pub(crate) n: u64,
    pub(crate) in_flight: u64,
}

impl Flood {
    /// All runs at once.
    pub(crate) fn of(n: u64) -> Self {
        Self { n, in_flight: n }
    }

    /// Starts the runs and waits for their results. Returns how long each took, and the total.
    pub(crate) async fn run(
        self,
        bar: &ProgressBar,
        start: impl Fn(u64) -> Start<u64>,
    ) -> Result<(Vec<Duration>, Spent)> {
        let watch = Stopwatch::start();
        let times = self.each(start, |starting| {
            let bar = bar.clone();
            async move {
                starting.await?.result().await?;
                bar.inc(1);
                Ok(())
            }
        });
        Ok((times.await?, watch.read()))
    }

    /// Starts the runs without waiting for them. Returns how long each start took.
    pub(crate) async fn start<O: Send + 'static>(self, start: impl Fn(u64) -> Start<O>) -> Result<Vec<Duration>> {
        self.each(start, |starting| async move { starting.await.map(|_| ()) }).await
    }

    async fn each<O, F>(self, start: impl Fn(u64) -> Start<O>, then: impl Fn(Start<O>) -> F) -> Result<Vec<Duration>>
    where
        O: Send + 'static,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(usize::try_from(self.in_flight.max(1))?));
        let (mut tasks, mut times) = (VecDeque::new(), Vec::with_capacity(usize::try_from(self.n)?));
        let each = (0..self.n).map(|id| then(start(id)));
        // With all at once, nothing must be left to prepare between two starts.
        let each: Box<dyn Iterator<Item = F>> = match self.in_flight < self.n {
            true => Box::new(each),
            false => Box::new(each.collect::<Vec<_>>().into_iter()),
        };
        for one in each {
            let place = places.clone().acquire_owned().await?;
            tasks.push_back(tokio::spawn(async move {
                let begun = Instant::now();
                one.await?;
                drop(place);
                Ok::<_, Error>(begun.elapsed())
            }));
            // Finished tasks are dropped, so that they do not count as measured memory.
            while tasks.front().is_some_and(|task: &JoinHandle<_>| task.is_finished()) {
                if let Some(ended) = tasks.pop_front() {
                    times.push(ended.await??);
                }
            }
        }
        for task in tasks {
            times.push(task.await??);
        }
        Ok(times)
    }
}

/// Waits until the counts of a filter are as wanted.
pub(crate) async fn until(client: &Client, filter: Filter, is_it: impl Fn(&Counts) -> bool) -> Result<Counts> {
    loop {
        let counts = client.count(filter.clone()).await?;
        if is_it(&counts) {
            return Ok(counts);
        }
        let failed = counts.of(StatusKind::Failed) + counts.of(StatusKind::Stuck);
        if failed > 0 {
            return Err(format!("{failed} runs failed or are stuck; this is a bug, please report it").into());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Shuts an engine down. Returns the size of its file, and of its log if another process still has it open.
pub(crate) async fn close(engine: Engine, path: &Path) -> Result<u64> {
    engine.shutdown().await?;
    // Closing the file merges its log.
    drop(engine);
    Ok(size(path) + size(&log_of(path)))
}

/// Returns the path of a store's log.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Returns the size of a file; 0 if it does not exist.
pub(crate) fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}
