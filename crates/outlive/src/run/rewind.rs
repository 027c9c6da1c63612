//! Rewinds a run: it forgets what it did after a point, and continues from there.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::{Entry, SentTo};
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::store::commit::{Answer, Epoch, Refusal, RewindWrite, SendWrite, Write};
use outlive_core::store::page::whole_journal;
use outlive_core::store::query::Instance;
use outlive_core::workflow::{PointProblem, RewindCut, RewindPoint};

use super::{Run, refused};
use crate::error::Error;
use crate::runtime::call::PendingCall;
use crate::runtime::shared::Shared;

/// How often a rewind is planned again because the run has moved in the meantime.
const PLANS_MAX: u32 = 16;

pub(super) const BUSY: &str = "it is being executed; `pause` it, wait until it is paused, then rewind it";
const NOT_BEGUN: &str = "it has not begun, so there is nothing to rewind or fork";

/// What a rewind or a fork keeps, and what runs again.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive_testkit::TestEngine;
/// # async fn reserve() -> Result<u32> { Ok(1) }
/// # async fn charge() -> Result<u32> { Ok(2) }
/// # async fn order(ctx: Ctx, _: ()) -> Result<u32> {
/// #     Ok(ctx.step("reserve", reserve).await? + ctx.step("charge", charge).await?)
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let test = TestEngine::new(|engine| engine.workflow("order", order)).await;
/// # let run = test.start(order, &()).await?;
/// # test.result(&run).await?;
/// let plan = run.rewind("charge").dry_run().await?;
/// assert_eq!((plan.kept, plan.runs_again), (vec!["step:reserve".to_owned()], vec!["step:charge".to_owned()]));
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RewindPlan {
    /// The run's id.
    pub id: String,
    /// The last journal entry that is kept; 0 if none is.
    pub kept_to: u64,
    /// The operations whose outcomes are kept, in order.
    pub kept: Vec<String>,
    /// The operations that are forgotten, in order: they run again if the code asks for them.
    pub runs_again: Vec<String>,
    /// The names of the signals that go back to the inbox, in order of arrival.
    pub signals: Vec<String>,
    /// The ids of the children that were started before the point and ended after it, or have not ended: the run waits
    /// for them again, without starting others.
    pub children_kept: Vec<String>,
    /// The ids of the children that were started after the point. A rewind cancels those that have not ended and are
    /// not detached. The run starts others in their place, under other ids.
    pub children_forgotten: Vec<String>,
}

impl RewindPlan {
    pub(super) fn of(id: &Name, cut: &RewindCut) -> Self {
        let texts = |ops: &[Arc<str>]| ops.iter().map(ToString::to_string).collect();
        Self {
            id: id.to_string(),
            kept_to: cut.kept_to,
            kept: texts(&cut.kept),
            runs_again: texts(&cut.forgotten),
            signals: cut.signals().map(ToOwned::to_owned).collect(),
            children_kept: cut.kept_children.iter().map(|child| child.id.to_string()).collect(),
            children_forgotten: cut.forgotten_children.iter().map(|to| to.id.clone()).collect(),
        }
    }
}

impl fmt::Display for RewindPlan {
    /// Writes a line for each thing that the plan concerns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {:?} keeps its journal up to entry {}", self.id, self.kept_to)?;
        let lists = [
            ("kept", &self.kept),
            ("runs again", &self.runs_again),
            ("signal given back", &self.signals),
            ("child kept", &self.children_kept),
            ("child forgotten", &self.children_forgotten),
        ];
        for (what, list) in lists {
            list.iter().try_for_each(|name| write!(f, "\n  {what}: {name}"))?;
        }
        Ok(())
    }
}

/// A rewind, created by [`Run::rewind`]. Nothing is changed until it is awaited.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive_testkit::TestEngine;
/// # async fn charge() -> Result<u32> { Ok(2) }
/// # async fn order(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let test = TestEngine::new(|engine| engine.workflow("order", order)).await;
/// # let run = test.start(order, &()).await?;
/// # test.result(&run).await?;
/// let rewind: outlive::Rewind = run.rewind("charge");
/// let plan = rewind.await?; // it is rewound here
/// println!("{plan}");
/// # assert_eq!(test.result(&run).await?, 2);
/// # Ok(()) }
/// ```
#[must_use = "a run is not rewound until this is awaited"]
pub struct Rewind {
    planning: Planning,
    call: PendingCall<Planning, Result<RewindPlan, Error>>,
}

/// A run and the point it is rewound to or forked at.
#[derive(Clone)]
pub(crate) struct Planning {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: Name,
    pub(crate) num: InstanceNum,
    pub(crate) point: RewindPoint,
}

/// A run as it was read, and how its journal is cut.
pub(super) struct PlannedCut {
    pub(super) instance: Instance,
    pub(super) journal: Vec<Entry>,
    pub(super) cut: RewindCut,
}

impl<O> Run<O> {
    /// Rewinds the run to a point: before an operation, before a journal entry, or to its start. What was recorded up to
    /// there is kept, everything after it is forgotten, and the run continues from there in one commit.
    ///
    /// The run may have ended, or be stuck, paused, sleeping or waiting. An operation is given by its name, its key, or
    /// its identity in the journal. Signals that were taken after the point are given back. A step that runs again is a new
    /// execution, with another [idempotency key](crate::Attempt::idempotency_key). Children that were started after the
    /// point and are attached are cancelled, and the run starts others under other ids. A deadline that has passed no
    /// longer counts. What the run has sent elsewhere is not taken back, and is sent again.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # static PRICE: AtomicU32 = AtomicU32::new(7);
    /// # async fn look_up() -> Result<u32> { Ok(PRICE.load(Ordering::Relaxed)) }
    /// # async fn order(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("price", look_up).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("order", order)).await;
    /// let run = test.start(order, &()).await?;
    /// assert_eq!(test.result(&run).await?, 7); // the price list was wrong
    /// # PRICE.store(9, Ordering::Relaxed);
    /// run.rewind("price").await?;
    /// assert_eq!(test.result(&run).await?, 9);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoRewindPoint`] if the run has recorded no such operation or entry, [`Error::AmbiguousPoint`] if several
    /// operations match, [`Error::Status`] if the run has not begun or is being executed.
    pub fn rewind(&self, to: impl Into<RewindPoint>) -> Rewind {
        let planning = self.planning(to.into());
        Rewind { call: PendingCall::new(planning.clone()), planning }
    }

    pub(super) fn planning(&self, point: RewindPoint) -> Planning {
        Planning { shared: self.shared.clone(), id: self.id.clone(), num: self.num, point }
    }
}

impl Rewind {
    /// Returns what the rewind would keep and what would run again, and changes nothing.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn approve(ctx: Ctx, _: ()) -> Result<bool> { Ok(ctx.wait("approval").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("approve", approve)).await;
    /// # let run = test.start(approve, &()).await?;
    /// run.signal("approval", &true).await?;
    /// # test.result(&run).await?;
    /// let plan = run.rewind("approval").dry_run().await?;
    /// assert_eq!(plan.signals, ["approval"], "the run would take it again");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Run::rewind`].
    pub async fn dry_run(self) -> Result<RewindPlan, Error> {
        self.planning.dry_run().await
    }
}

impl Future for Rewind {
    type Output = Result<RewindPlan, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, async |planning: Planning| planning.rewind().await)
    }
}

impl Planning {
    pub(crate) async fn dry_run(&self) -> Result<RewindPlan, Error> {
        let planned = self.plan().await?;
        planned.check_idle()?;
        Ok(RewindPlan::of(&self.id, &planned.cut))
    }

    pub(crate) async fn rewind(&self) -> Result<RewindPlan, Error> {
        for _ in 0..PLANS_MAX {
            let planned = self.plan().await?;
            planned.check_idle()?;
            let plan = RewindPlan::of(&self.id, &planned.cut);
            let write = Write::Rewind(Box::new(self.write(planned).await?));
            match self.shared.committer.write(write).await? {
                Answer::DoneWith(_) => return Ok(plan),
                Answer::Refused(Refusal::Changed) => {}
                Answer::Refused(refusal) => return Err(refused(&self.id, refusal, BUSY)),
                _ => return Err(Error::Shutdown),
            }
        }
        let status = self.shared.instance(&self.id).await?.status;
        Err(Error::Status { id: self.id.to_string(), status, way_out: BUSY })
    }

    /// Reads the run and cuts its journal.
    pub(super) async fn plan(&self) -> Result<PlannedCut, Error> {
        let id = || self.id.to_string();
        let instance = self.shared.instance(&self.id).await?;
        if instance.num != self.num {
            return Err(Error::NotFound { id: id() });
        }
        if JobKind::of(&instance.workflow).is_some() {
            return Err(Error::JobKind { job: id(), problem: "cannot be rewound or forked; only runs can" });
        }
        if instance.started_at.is_none() {
            return Err(Error::Status { id: id(), status: instance.status, way_out: NOT_BEGUN });
        }
        let journal = whole_journal(&*self.shared.store, self.num, 0).await?;
        let cut = RewindCut::of(&journal, &self.point).map_err(|problem| match problem {
            PointProblem::Missing(known) => Error::NoRewindPoint { id: id(), point: self.point.to_string(), known },
            PointProblem::Ambiguous(candidates) => {
                Error::AmbiguousPoint { id: id(), point: self.point.to_string(), candidates }
            }
        })?;
        Ok(PlannedCut { instance, journal, cut })
    }

    async fn write(&self, planned: PlannedCut) -> Result<RewindWrite, Error> {
        let PlannedCut { journal, cut, .. } = planned;
        let at = self.shared.clock.now();
        let mut writes = Vec::new();
        for to in cut.forgotten_children.iter().filter(|to| to.detached == Some(false)) {
            writes.extend(self.cancel_child(to).await?);
        }
        let seq = journal.last().map_or(0, |last| last.seq) + 1;
        Ok(RewindWrite {
            id: self.id.clone(),
            num: self.num,
            entry: cut.rewound(seq, at),
            returned: cut.returned,
            children: cut.kept_children,
            writes,
        })
    }

    /// Returns the message that cancels a child, if that is still a child of this run and has not ended.
    async fn cancel_child(&self, to: &SentTo) -> Result<Option<Write>, Error> {
        let child = self.shared.store.instance(&Name::recorded(&to.id)).await?;
        let is_its = |child: &Instance| child.parent.as_ref().is_some_and(|parent| parent.num == self.num);
        let Some(child) = child.filter(|child| is_its(child) && !child.status.is_ended()) else { return Ok(None) };
        let message = Message::Cancel { reason: format!("its parent {:?} was rewound", self.id.as_str()) };
        let (at, token) = (self.shared.clock.now(), self.shared.random.token());
        Ok(Some(Write::Message(SendWrite { id: child.id, num: Some(child.num), message, at, dedup: None, token })))
    }
}

impl PlannedCut {
    fn check_idle(&self) -> Result<(), Error> {
        match self.instance.owner {
            Epoch(0) => Ok(()),
            _ => Err(Error::Status { id: self.instance.id.to_string(), status: self.instance.status, way_out: BUSY }),
        }
    }
}
