//! Retries, rewinds, cancels or purges all runs that a filter selects.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::kind::Kinds;
use outlive_core::message::Message;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Answer, Reopen, Write};
use outlive_core::store::query::{Filter, Instance};
use outlive_core::workflow::RewindPoint;

use crate::client::Client;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::run::{self, Planning};
use crate::runtime::call::PendingCall;
use crate::runtime::shared::Shared;

/// How many runs are read at a time.
const PAGE: usize = 500;
/// How many runs are changed at the same time. Their writes share commits.
const AT_ONCE: usize = 256;
/// How many problems an outcome lists.
const PROBLEMS_MAX: usize = 100;

/// A change of all runs that a filter selects, created by [`Client::retry_where`] and its siblings. Nothing is changed
/// until it is awaited. Dropping it stops it: what is done stays done.
///
/// Runs are taken newest first, and each one at most once. A run that has changed in the meantime, so that the change no
/// longer applies, is skipped.
///
/// ```
/// # use outlive::prelude::*;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").start().await?;
/// let bulk: outlive::Bulk = engine.retry_where(Filter::runs().workflow("checkout")).limit(1_000);
/// let outcome = bulk.on_progress(|progress| println!("{} of {}", progress.done, progress.total)).await?;
/// println!("{outcome}");
/// # Ok(()) }
/// ```
#[must_use = "nothing is changed until this is awaited"]
pub struct Bulk {
    call: PendingCall<BulkCall, Result<BulkOutcome, Error>>,
}

type ReportProgress = Box<dyn FnMut(BulkProgress) + Send>;

struct BulkCall {
    shared: Arc<Shared>,
    filter: Filter,
    act: BulkAct,
    limit: usize,
    on_progress: Option<ReportProgress>,
    is_dry: bool,
}

/// What is done to each run.
#[derive(Clone)]
enum BulkAct {
    Retry,
    Rewind(RewindPoint),
    Cancel(Arc<str>),
    Purge,
}

/// How far a [`Bulk`] has come.
///
/// ```
/// fn percent(progress: &outlive::BulkProgress) -> u64 {
///     (progress.done + progress.skipped) * 100 / progress.total.max(1)
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BulkProgress {
    /// The number of runs that were changed.
    pub done: u64,
    /// The number of runs that were skipped.
    pub skipped: u64,
    /// The number of runs that were selected when it began, or the limit.
    pub total: u64,
}

/// The outcome of a [`Bulk`].
///
/// ```
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
/// # for n in 0..3 { engine.start(double, &n).await?.result().await?; }
/// let outcome = engine.purge_where(Filter::runs().workflow("double")).await?;
/// assert_eq!((outcome.done, outcome.skipped), (3, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BulkOutcome {
    /// The number of runs that were changed, or would be in a dry run.
    pub done: u64,
    /// The number of runs that were skipped.
    pub skipped: u64,
    /// Why runs were skipped, each with its id; the first hundred.
    pub problems: Vec<(String, String)>,
}

impl fmt::Display for BulkOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs changed, {} skipped", self.done, self.skipped)?;
        self.problems.iter().try_for_each(|(_, problem)| write!(f, "\n  {problem}"))
    }
}

impl Client {
    /// Retries all runs that a filter selects. Unless it names statuses, these are the failed and stuck ones.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    /// # test.fail_next("charge", "the bank is closed");
    /// let run = test.start(pay, &()).await?;
    /// assert!(run.result().await.is_err());
    /// let outcome = test.retry_where(Filter::runs().workflow("pay")).await?; // the bank is open again
    /// assert_eq!(outcome.done, 1);
    /// assert_eq!(run.result().await?, 42);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn retry_where(&self, filter: Filter) -> Bulk {
        Bulk::new(self, filter, BulkAct::Retry)
    }

    /// Rewinds all runs that a filter selects, each to the point given as for [`Run::rewind`](crate::Run::rewind). Runs
    /// that have no such point, or are being executed, are skipped.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    /// # let run = test.start(pay, &()).await?;
    /// # test.result(&run).await?;
    /// let completed = Filter::runs().workflow("pay").status(StatusKind::Completed);
    /// let outcome = test.rewind_where(completed, "charge").dry_run().await?;
    /// assert_eq!(outcome.done, 1, "would be charged again");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn rewind_where(&self, filter: Filter, to: impl Into<RewindPoint>) -> Bulk {
        Bulk::new(self, filter, BulkAct::Rewind(to.into()))
    }

    /// Cancels all runs that a filter selects. Unless it names statuses, these are all that have not ended.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn approve(ctx: Ctx, _: ()) -> Result<bool> { Ok(ctx.wait("approval").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("approve", approve)).await;
    /// let run = test.start(approve, &()).tag("tenant", "acme").await?;
    /// test.cancel_where(Filter::runs().tag("tenant", "acme"), "the tenant has left").await?;
    /// assert!(test.result(&run).await.unwrap_err().is_cancelled());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the reason is too large, or the store cannot be read or written.
    pub fn cancel_where(&self, filter: Filter, reason: &str) -> Bulk {
        Bulk::new(self, filter, BulkAct::Cancel(reason.into()))
    }

    /// Purges all runs that a filter selects. Unless it names statuses, these are all that have ended.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// # engine.start(double, &1).await?.result().await?;
    /// let month_ago = Timestamp::from_millis(1_900_000_000_000);
    /// let old = Filter::runs().status(StatusKind::Completed).created_before(month_ago);
    /// assert_eq!(engine.purge_where(old).await?.done, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn purge_where(&self, filter: Filter) -> Bulk {
        Bulk::new(self, filter, BulkAct::Purge)
    }
}

/// The bulk calls of a [`Client`], on an engine.
impl Engine {
    /// Retries all runs that a filter selects; see [`Client::retry_where`].
    pub fn retry_where(&self, filter: Filter) -> Bulk {
        self.client().retry_where(filter)
    }

    /// Rewinds all runs that a filter selects; see [`Client::rewind_where`].
    pub fn rewind_where(&self, filter: Filter, to: impl Into<RewindPoint>) -> Bulk {
        self.client().rewind_where(filter, to)
    }

    /// Cancels all runs that a filter selects; see [`Client::cancel_where`].
    pub fn cancel_where(&self, filter: Filter, reason: &str) -> Bulk {
        self.client().cancel_where(filter, reason)
    }

    /// Purges all runs that a filter selects; see [`Client::purge_where`].
    pub fn purge_where(&self, filter: Filter) -> Bulk {
        self.client().purge_where(filter)
    }
}

impl Bulk {
    fn new(client: &Client, mut filter: Filter, act: BulkAct) -> Self {
        filter.kinds = Kinds::Runs;
        if filter.statuses.is_empty() && !matches!(act, BulkAct::Rewind(_)) {
            filter.statuses = StatusKind::ALL.into_iter().filter(|kind| act.applies_to(*kind)).collect();
        }
        let shared = client.shared.clone();
        let call = BulkCall { shared, filter, act, limit: usize::MAX, on_progress: None, is_dry: false };
        Self { call: PendingCall::new(call) }
    }

    /// Sets the maximum number of runs.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// # for n in 0..3 { engine.start(double, &n).await?.result().await?; }
    /// let outcome = engine.purge_where(Filter::runs()).limit(2).await?;
    /// assert_eq!(outcome.done, 2);
    /// # Ok(()) }
    /// ```
    pub fn limit(mut self, max: usize) -> Self {
        self.call.set(|call| call.limit = max);
        self
    }

    /// Calls a function with the counts as they grow.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").start().await?;
    /// let bulk = engine.purge_where(Filter::runs());
    /// bulk.on_progress(|progress| eprint!("\r{} of {}", progress.done + progress.skipped, progress.total)).await?;
    /// # Ok(()) }
    /// ```
    pub fn on_progress(mut self, report: impl FnMut(BulkProgress) + Send + 'static) -> Self {
        self.call.set(|call| call.on_progress = Some(Box::new(report)));
        self
    }

    /// Counts the runs that would be changed, and changes nothing.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// # engine.start(double, &1).await?.result().await?;
    /// assert_eq!(engine.purge_where(Filter::runs()).dry_run().await?.done, 1);
    /// assert_eq!(engine.count(Filter::runs()).await?.total(), 1, "it is still there");
    /// # Ok(()) }
    /// ```
    pub fn dry_run(mut self) -> Self {
        self.call.set(|call| call.is_dry = true);
        self
    }
}

impl Future for Bulk {
    type Output = Result<BulkOutcome, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, BulkCall::run)
    }
}

impl BulkAct {
    /// Returns `true` if it may apply to a run in this status.
    fn applies_to(&self, kind: StatusKind) -> bool {
        match self {
            Self::Retry => matches!(kind, StatusKind::Failed | StatusKind::Stuck),
            Self::Rewind(_) => true,
            Self::Cancel(_) => !kind.is_ended(),
            Self::Purge => kind.is_ended(),
        }
    }

    /// Changes one run.
    async fn apply(&self, shared: &Arc<Shared>, id: &Name, num: InstanceNum) -> Result<(), Error> {
        let at = shared.clock.now();
        let (write, way_out) = match self {
            Self::Retry => {
                let reopen = Reopen { id: id.clone(), num: Some(num), at };
                (Write::Reopen(reopen), "only a failed or stuck run can be retried")
            }
            Self::Purge => (Write::Purge(id.clone(), Some(num)), "cancel or terminate it first"),
            Self::Rewind(point) => return self.planning(shared, id, num, point).rewind().await.map(drop),
            Self::Cancel(reason) => {
                let message = Message::Cancel { reason: reason.to_string() };
                return run::send(shared, id, num, message, None).await.map(drop);
            }
        };
        match shared.committer.write(write).await? {
            Answer::Refused(refusal) => return Err(run::refused(id, refusal, way_out)),
            _ => shared.waiters.ask(num),
        }
        Ok(())
    }

    /// Checks if one run would be changed.
    async fn check(&self, shared: &Arc<Shared>, instance: &Instance) -> Result<(), Error> {
        if let Self::Rewind(point) = self {
            return self.planning(shared, &instance.id, instance.num, point).dry_run().await.map(drop);
        }
        let is_stuck = instance.status == Status::Stuck && matches!(self, Self::Purge);
        if self.applies_to(instance.status.kind()) || is_stuck {
            return Ok(());
        }
        let (id, status) = (instance.id.to_string(), instance.status);
        Err(Error::Status { id, status, way_out: "it would be skipped" })
    }

    fn planning(&self, shared: &Arc<Shared>, id: &Name, num: InstanceNum, point: &RewindPoint) -> Planning {
        Planning { shared: shared.clone(), id: id.clone(), num, point: point.clone() }
    }
}

impl BulkCall {
    async fn run(mut self) -> Result<BulkOutcome, Error> {
        if let BulkAct::Cancel(reason) = &self.act {
            self.shared.encode("the reason", &**reason)?;
        }
        let mut progress = BulkProgress::default();
        if self.on_progress.is_some() {
            let selected = self.shared.store.count(&self.filter).await?.total();
            progress.total = selected.min(self.limit as u64);
        }
        let mut selected = Selected::new(self.shared.clone(), self.filter.clone(), self.limit);
        let mut changes = FuturesUnordered::new();
        let mut outcome = BulkOutcome::default();
        loop {
            while changes.len() < AT_ONCE
                && let Some(instance) = selected.next().await?
            {
                let (act, shared, is_dry) = (self.act.clone(), self.shared.clone(), self.is_dry);
                changes.push(async move {
                    let changed = match is_dry {
                        true => act.check(&shared, &instance).await,
                        false => act.apply(&shared, &instance.id, instance.num).await,
                    };
                    (instance.id, changed)
                });
            }
            let Some((id, changed)) = changes.next().await else { return Ok(outcome) };
            outcome.add(&id, changed)?;
            (progress.done, progress.skipped) = (outcome.done, outcome.skipped);
            if let Some(report) = &mut self.on_progress {
                report(progress);
            }
        }
    }
}

impl BulkOutcome {
    /// Counts a run. An error that is not about the run ends everything.
    fn add(&mut self, id: &Name, changed: Result<(), Error>) -> Result<(), Error> {
        match changed {
            Ok(()) => self.done += 1,
            Err(error) if matches!(error.kind(), ErrorKind::Store | ErrorKind::Shutdown) => return Err(error),
            Err(error) => {
                self.skipped += 1;
                if self.problems.len() < PROBLEMS_MAX {
                    self.problems.push((id.to_string(), error.to_string()));
                }
            }
        }
        Ok(())
    }
}

/// The selected runs, read page by page. Their numbers fall, so none comes twice, whatever happens to it.
struct Selected {
    shared: Arc<Shared>,
    filter: Filter,
    read: VecDeque<Instance>,
    before: Option<InstanceNum>,
    is_last: bool,
    left: usize,
}

impl Selected {
    fn new(shared: Arc<Shared>, filter: Filter, left: usize) -> Self {
        Self { shared, filter, read: VecDeque::new(), before: None, is_last: false, left }
    }

    async fn next(&mut self) -> Result<Option<Instance>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.read.is_empty() && !self.is_last {
            let page = self.shared.list(&self.filter, self.before, PAGE.min(self.left)).await?;
            (self.before, self.is_last) = (page.next, page.next.is_none());
            self.read.extend(page.instances);
        }
        self.left -= usize::from(!self.read.is_empty());
        Ok(self.read.pop_front())
    }
}
