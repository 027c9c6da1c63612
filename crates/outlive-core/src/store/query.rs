//! The read path of a store, separate from the write path.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::child::Parent;
use crate::id::{Epoch, InstanceNum, Name};
use crate::journal::Entry;
use crate::kind::Kinds;
use crate::lifecycle::LifecycleRecord;
use crate::message::{Inbound, Message};
use crate::origin::{RunOrigin, TraceContext};
use crate::output::{Output, OutputRead};
use crate::payload::Payload;
use crate::queue::{Dead, Depth, QueuePage, QueueRead};
use crate::status::{Status, StatusKind};
use crate::store::error::Answered;
use crate::time::Timestamp;

/// A stored instance.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// The number assigned by the store.
    pub num: InstanceNum,
    /// The id.
    pub id: Name,
    /// The registered name of the workflow.
    pub workflow: Name,
    /// The status.
    pub status: Status,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it was first driven.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The input as JSON.
    pub input: Payload,
    /// The result or failure, once ended.
    pub outcome: Option<Payload>,
    /// A note for people: why it is stuck or was cancelled.
    pub note: Option<String>,
    /// Where it comes from.
    pub origin: Option<Arc<RunOrigin>>,
    /// The seed of its random streams.
    pub seed: u64,
    /// Labels for searching.
    pub tags: BTreeMap<String, String>,
    /// How often a process died while driving it, since it last made progress or was driven for some time without a
    /// crash.
    pub recoveries: u32,
    /// How many of those deaths it alone can be blamed for, because no equally suspicious instance was being driven.
    pub blamed: u32,
    /// The epoch that drives it; [`Epoch(0)`](Epoch) if nobody does.
    pub owner: Epoch,
    /// When to wake it, if nobody drives it.
    pub wake: Option<Timestamp>,
    /// The number of its lifecycle events, not counting journal entries.
    pub reported: u64,
    /// The run that it is a child of, if it is one.
    pub parent: Option<Parent>,
    /// When it is cancelled if it has not ended.
    pub deadline: Option<Timestamp>,
    /// How often it has restarted.
    pub restarts: u32,
}

/// With this many recoveries without progress, an instance is suspected of crashing the process.
const SUSPECT_RECOVERIES: u32 = 2;

impl Instance {
    /// Returns `true` if the instance may be crashing the process. Suspects are resumed a few at a time, so that the
    /// culprit is found and no other instance is blamed.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.recoveries >= SUSPECT_RECOVERIES
    }

    /// Returns the version of the code that started it, if that had one.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.origin.as_ref()?.version.as_ref().map(Name::as_str)
    }

    /// Returns the trace that its start belongs to, if there is one.
    #[must_use]
    pub fn trace(&self) -> Option<&TraceContext> {
        self.origin.as_ref()?.trace.as_ref()
    }

    /// Returns `true` if its start is in the future. Until then it is not claimed, and only a message that ends it
    /// wakes it.
    #[must_use]
    pub fn is_early(&self, now: Timestamp) -> bool {
        self.status == Status::Pending && self.wake.is_some_and(|wake| wake > now)
    }
}

/// A stored wake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wake {
    /// When the instance is due.
    pub due: Timestamp,
    /// The instance to wake.
    pub num: InstanceNum,
}

/// Start of the timestamps that stand for messages, far before any time a clock shows.
const MESSAGES_FROM: i64 = -(1 << 62);

impl Wake {
    /// Before all other wakes.
    pub const FIRST: Self = Self { due: Timestamp::MIN, num: InstanceNum(0) };
    /// After all wakes that stand for [messages](Self::of_message), before all wakes at a clock time.
    pub const PAST_MESSAGES: Self = Self { due: Timestamp::from_millis(MESSAGES_FROM / 2), num: InstanceNum(0) };

    /// Returns when an instance is due because of an [urgent](Urgency::High) message: far in the past, in message
    /// order. So a worker finds each such message once, before everything else that is due, and can leave the wake in
    /// place.
    #[must_use]
    pub fn of_message(pos: u64) -> Timestamp {
        Timestamp::from_millis(MESSAGES_FROM.saturating_add_unsigned(pos))
    }

    /// Returns when an instance that was due at `before` is due after a message at `pos`.
    ///
    /// ```
    /// # use outlive_core::{store::query::{Urgency, Wake}, time::Timestamp};
    /// let in_an_hour = Some(Timestamp::from_millis(3_600_000));
    /// assert_eq!(Wake::by_message(in_an_hour, 3, Urgency::Low), Timestamp::AT_ONCE);
    /// assert_eq!(Wake::by_message(in_an_hour, 3, Urgency::High), Wake::of_message(3));
    /// assert_eq!(Wake::by_message(Some(Wake::of_message(3)), 4, Urgency::Low), Wake::of_message(3));
    /// ```
    #[must_use]
    pub fn by_message(before: Option<Timestamp>, pos: u64, urgency: Urgency) -> Timestamp {
        match (urgency, before) {
            (Urgency::High, _) => Self::of_message(pos),
            (Urgency::Low, Some(due)) if due < Self::PAST_MESSAGES.due => due,
            (Urgency::Low, _) => Timestamp::AT_ONCE,
        }
    }

    /// Returns the position of the urgent message that made the instance due, if one did.
    #[must_use]
    pub fn message(&self) -> Option<u64> {
        let is_message = self.due >= Timestamp::from_millis(MESSAGES_FROM) && *self < Self::PAST_MESSAGES;
        is_message.then(|| MESSAGES_FROM.abs_diff(self.due.as_millis()))
    }

    /// Returns `true` if the instance may be due because of a message.
    #[must_use]
    pub fn is_of_message(&self) -> bool {
        self.due == Timestamp::AT_ONCE || *self < Self::PAST_MESSAGES
    }
}

/// How urgently a message makes its receiver due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// Together with everything else that is due immediately.
    Low,
    /// Before everything else that is due: the message ends the receiver, or another process drives the receiver.
    High,
}

impl Urgency {
    /// Returns the urgency of a message to an instance that nobody drives.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        if message.is_end() { Self::High } else { Self::Low }
    }
}

/// An instance that may be crashing the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspect {
    /// The instance.
    pub num: InstanceNum,
    /// Its [recoveries](Instance::recoveries).
    pub recoveries: u32,
}

/// Which instances to list or count. The default is all runs and no jobs. An instance must meet every condition that is
/// set, and have one of the statuses.
///
/// ```
/// use outlive_core::store::query::Filter;
/// use outlive_core::status::StatusKind;
/// // Failed or stuck runs of `checkout` that have both tags.
/// let broken = Filter::runs()
///     .workflow("checkout")
///     .status(StatusKind::Failed)
///     .status(StatusKind::Stuck)
///     .tag("shop", "paris")
///     .tag("tier", "gold");
/// assert_eq!((broken.statuses.len(), broken.tags.len()), (2, 2));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Filter {
    /// Runs, instances of jobs, or both.
    pub kinds: Kinds,
    /// The name of the workflow, or of the job with its kind, such as `task:orders`.
    pub workflow: Option<String>,
    /// The allowed statuses; empty means any.
    pub statuses: Vec<StatusKind>,
    /// The prefix of the id.
    pub id_prefix: Option<String>,
    /// The earliest time of creation, inclusive.
    pub created_from: Option<Timestamp>,
    /// The latest time of creation, exclusive.
    pub created_before: Option<Timestamp>,
    /// Tags that the instance must have, all of them.
    pub tags: BTreeMap<String, String>,
    /// The version of the code that started it.
    pub version: Option<String>,
    /// The number of the run whose children to select.
    pub parent: Option<InstanceNum>,
}

impl Filter {
    /// Selects all runs.
    #[must_use]
    pub fn runs() -> Self {
        Self::default()
    }

    /// Selects all instances of jobs.
    #[must_use]
    pub fn jobs() -> Self {
        Self { kinds: Kinds::Jobs, ..Self::default() }
    }

    /// Selects all runs and all instances of jobs.
    #[must_use]
    pub fn all() -> Self {
        Self { kinds: Kinds::All, ..Self::default() }
    }

    /// Selects instances of one workflow or one job.
    #[must_use]
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.workflow = Some(name.into());
        self
    }

    /// Selects instances with this status. Further calls allow further statuses.
    #[must_use]
    pub fn status(mut self, kind: StatusKind) -> Self {
        self.statuses.push(kind);
        self
    }

    /// Selects instances whose id starts with this prefix.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Selects instances created at or after this time.
    #[must_use]
    pub fn created_from(mut self, from: impl Into<Timestamp>) -> Self {
        self.created_from = Some(from.into());
        self
    }

    /// Selects instances created before this time.
    #[must_use]
    pub fn created_before(mut self, before: impl Into<Timestamp>) -> Self {
        self.created_before = Some(before.into());
        self
    }

    /// Selects instances with this tag. Further calls require further tags.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// Selects instances that were started by this version of the code.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Selects the children of a run, by its number.
    #[must_use]
    pub fn children_of(mut self, parent: InstanceNum) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Returns `true` if the instance matches.
    #[must_use]
    pub fn matches(&self, instance: &Instance) -> bool {
        self.kinds.has(&instance.workflow)
            && self.workflow.as_deref().is_none_or(|name| name == instance.workflow.as_str())
            && (self.statuses.is_empty() || self.statuses.contains(&instance.status.kind()))
            && self.id_prefix.as_deref().is_none_or(|prefix| instance.id.as_str().starts_with(prefix))
            && self.created_from.is_none_or(|from| instance.created_at >= from)
            && self.created_before.is_none_or(|before| instance.created_at < before)
            && self.tags.iter().all(|(key, value)| instance.tags.get(key) == Some(value))
            && self.version.as_deref().is_none_or(|version| instance.version() == Some(version))
            && self.parent.is_none_or(|num| instance.parent.as_ref().is_some_and(|parent| parent.num == num))
    }
}

/// A page of a list, newest first. It may be short or even empty although more instances follow; check `next`.
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// # let store = outlive_core::store::memory::MemoryStore::new();
/// use outlive_core::store::query::{Filter, Query};
///
/// let (mut before, mut seen) = (None, 0);
/// loop {
///     let page = store.list(&Filter::runs(), before, 100).await?;
///     seen += page.instances.len();
///     before = page.next;
///     if before.is_none() {
///         break;
///     }
/// }
/// # assert_eq!(seen, 0);
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    /// The instances.
    pub instances: Vec<Instance>,
    /// Where the next page starts, if there is one: instances with a smaller number.
    pub next: Option<InstanceNum>,
}

/// The number of instances per status.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts(pub BTreeMap<StatusKind, u64>);

impl Counts {
    /// Returns the total.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the number of instances with one status.
    #[must_use]
    pub fn of(&self, kind: StatusKind) -> u64 {
        self.0.get(&kind).copied().unwrap_or(0)
    }
}

/// One item of the feed: something that happened to an instance.
#[derive(Clone, PartialEq, Debug)]
pub struct FeedItem {
    /// Position in the feed; increases.
    pub pos: u64,
    /// The instance.
    pub num: InstanceNum,
    /// The id of the instance.
    pub id: Name,
    /// The name of its workflow, or of its job with the kind.
    pub workflow: Name,
    /// Number of the item among all items of this instance, from 1, without gaps.
    pub number: u64,
    /// What happened.
    pub content: FeedContent,
}

/// The content of a feed item.
#[derive(Clone, PartialEq, Debug)]
pub enum FeedContent {
    /// A journal entry of the instance.
    Entry(Entry),
    /// A lifecycle event.
    Lifecycle(LifecycleRecord),
}

/// The read path of a store. Everything it returns was durable when it was read.
pub trait Query: Send + Sync {
    /// Returns the instance with this id.
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>>;

    /// Reads the journal of an instance after `after`, since its last restart: one [page](crate::store::page) of at most `limit` entries. A damaged
    /// entry is an error of kind `Corrupt`.
    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>>;

    /// Reads the messages of an instance that are not taken yet, in order of arrival: one [page](crate::store::page) of at most
    /// `limit` messages after position `after`.
    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>>;

    /// Returns at most `limit` wakes due at or before `until`, earliest first, then by number.
    fn wakes(&self, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>> {
        self.wakes_after(Wake::FIRST, until, limit)
    }

    /// Like [`wakes`](Self::wakes), but only wakes after `after`: the next page, whatever happened to the previous one.
    fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>>;

    /// Returns the [suspects](Instance::is_suspect) among the instances due at or before `until`.
    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>>;

    /// Lists matching instances with numbers below `before`, newest (largest number) first: one [page](crate::store::page) of
    /// at most `limit`. A store may end the page early after scanning many that do not match.
    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page>;

    /// Counts matching instances by status.
    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts>;

    /// Reads the next events in the queue of an instance.
    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage>;

    /// Counts the events of a job by place.
    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth>;

    /// Reads the dead letters of a job after position `after`, in order: one [page](crate::store::page) of at most `limit`.
    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>>;

    /// Returns the names of the jobs that have instances or dead letters, in order.
    fn jobs(&self) -> Answered<'_, Vec<Name>>;

    /// Reads the feed after a position, in order: one [page](crate::store::page) of at most `limit` items.
    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<FeedItem>>;

    /// Returns the current position of the feed, or the number stored under a name.
    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>>;

    /// Returns the reply to the event at a position, if it exists and has not been removed yet.
    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>>;

    /// Reads what a run has given out, in order: one [page](crate::store::page) of at most `limit` outputs. A damaged one
    /// is an error of kind `Corrupt`.
    fn outputs(&self, num: InstanceNum, read: OutputRead, limit: usize) -> Answered<'_, Vec<Output>>;
}
