//! Replays every unfinished run of a store with the current code, to show before a deploy what would happen to each.
//!
//! No step runs, nothing is written, no lease is taken: the store may be executed meanwhile. What does run is the
//! workflow function itself, between its steps, as in every replay, and on to the next step that is not recorded. One
//! that loops without awaiting anything never returns, here as there.
//!
//! A check knows what is recorded, and what follows from it up to the next step, effect or signal: it assumes that sleeps
//! end, and that signals and outcomes of children that have arrived are delivered to their waits. What comes after a new
//! step is unknown until the step has run, so if a new operation comes before something recorded, a check [cannot
//! tell](Verdict::NewBeforeRecorded) it from the recorded one. A child or an effect under a new name would be started or
//! sent again, and is treated like a step. A wait without a timeout leaves no record until its signal arrives, so a change
//! of its name is not noticed. Operations of one name without a key are identified by their
//! count alone, so removing one from a loop, or adding one to it, is not noticed either.

mod judge;
mod order;
mod original;
mod renames;
mod report;
mod verdict;

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::join_all;
use outlive_core::status::StatusKind;
use outlive_core::store::query::Filter;

pub(crate) use judge::Judge;
pub(crate) use order::EnvCheck;
pub use order::{CHECK, REPORT, ReportLine, is_check};
pub use report::{Checked, Report};
pub use verdict::{Allow, Operation, Rename, Verdict};

use crate::error::Error;
use crate::export::{ExportProgress, Exported, Feed, Reread, Source};
use crate::instance::panics;
use crate::runtime::call::PendingCall;

/// How often a run is read again that makes progress while it is checked.
const LOOKS_MAX: u32 = 3;

type OnProgress = Box<dyn FnMut(ExportProgress) + Send>;

/// A check, created by [`Builder::check`](crate::Builder::check). Await it for the [`Report`].
///
/// ```
/// use outlive::check::Check;
/// # use outlive::prelude::*;
/// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.db");
/// # let engine = Engine::open(&path).workflow("nap", nap).start().await?;
/// # engine.start(nap, &()).id("n-1").await?;
/// let check: Check = Engine::open("memory:").workflow("nap", nap).check(&path);
/// let report = check.on_progress(|progress| assert!(progress.done <= 1)).await?;
/// assert!(report.is_fine());
/// # Ok(()) }
/// ```
#[must_use = "a check does nothing until it is awaited"]
pub struct Check {
    call: PendingCall<CheckCall, Result<Report, Error>>,
}

struct CheckCall {
    judge: Result<Judge, Error>,
    source: Source,
    on_progress: OnProgress,
}

impl Check {
    pub(crate) fn new(judge: Result<Judge, Error>, source: Source) -> Self {
        Self { call: PendingCall::new(CheckCall { judge, source, on_progress: Box::new(|_| {}) }) }
    }

    /// Sets a function to call whenever some runs are done.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let store: std::sync::Arc<dyn outlive::store::Store> = std::sync::Arc::new(outlive::MemoryStore::new());
    /// let check = Engine::open("memory:").check(store);
    /// check.on_progress(|progress| println!("{} of {}", progress.done, progress.total)).await?;
    /// # Ok(()) }
    /// ```
    pub fn on_progress(mut self, tell: impl FnMut(ExportProgress) + Send + 'static) -> Self {
        self.call.set(|call| call.on_progress = Box::new(tell));
        self
    }
}

impl Future for Check {
    type Output = Result<Report, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // With a cooperative budget, tokio's own macros would wake a copy again and again.
        self.call.poll(cx, |call| tokio::task::unconstrained(call.run()))
    }
}

impl CheckCall {
    async fn run(mut self) -> Result<Report, Error> {
        panics::note_places();
        let judge = self.judge?;
        let mut feed = Feed::open(self.source, unfinished()).await?;
        let (mut runs, mut done) = (Vec::new(), 0);
        loop {
            let some = feed.next().await?;
            if some.is_empty() {
                break;
            }
            done += some.len() as u64;
            let looks = join_all(some.into_iter().map(|run| look(&judge, &feed, run))).await;
            for look in looks {
                runs.extend(look?);
            }
            (self.on_progress)(ExportProgress { done, total: feed.total().max(done) });
        }
        Ok(runs.into_iter().collect())
    }
}

fn unfinished() -> Filter {
    let open = StatusKind::ALL.into_iter().filter(|kind| !kind.is_ended());
    open.fold(Filter::runs(), Filter::status)
}

/// Judges a run. One that makes progress meanwhile may have been read half before and half after, so a finding counts
/// only if the run has not changed.
async fn look(judge: &Judge, feed: &Feed, mut run: Exported) -> Result<Option<Checked>, Error> {
    let mut verdict = judge.verdict(&run);
    for _ in 0..LOOKS_MAX {
        if verdict == Verdict::Fine {
            break;
        }
        match feed.again(&run).await? {
            Reread::Same => break,
            Reread::Gone => return Ok(None),
            Reread::Changed(now) => run = *now,
        }
        verdict = judge.verdict(&run);
    }
    let (id, workflow) = (run.instance.id.to_string(), run.instance.workflow.to_string());
    let version = run.instance.version().map(str::to_owned);
    Ok(Some(Checked { id, workflow, version, verdict }))
}
