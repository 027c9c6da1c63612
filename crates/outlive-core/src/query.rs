//! Reading what a store holds, beside and never through the write path.

use std::collections::BTreeMap;

use crate::fault::Answered;
use crate::id::{Epoch, InstanceNum, Name};
use crate::journal::Entry;
use crate::kind::Kinds;
use crate::lifecycle::News;
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::queue::{Dead, Depth, QueuePage, QueueRead};
use crate::status::{Status, StatusKind};
use crate::time::Timestamp;

/// An instance as it is kept.
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// # let store = outlive_core::memory::MemoryStore::new();
/// # use outlive_core::commit::{Epoch, OnConflict, Start, Write};
/// # use outlive_core::{id::Name, payload::Payload, store::Store, time::Timestamp};
/// # let (id, workflow, at) = (Name::recorded("order-42"), Name::recorded("checkout"), Timestamp::from_millis(1));
/// # let (input, tags, on_conflict) = (Payload::recorded("42"), Default::default(), OnConflict::Join);
/// # let start = Start { id, workflow, input, seed: 7, tags, at, due: at, on_conflict, token: 1, owner: Epoch(0) };
/// # store.write(vec![Write::Start(start.clone())].into()).await?;
/// use outlive_core::query::Query;
/// use outlive_core::status::Status;
///
/// let order = store.instance(&Name::recorded("order-42")).await?.unwrap();
/// assert_eq!((order.workflow.as_str(), order.status), ("checkout", Status::Pending));
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// The store's number for it.
    pub num: InstanceNum,
    /// Its id.
    pub id: Name,
    /// The workflow's registered name.
    pub workflow: Name,
    /// Where it is in its life.
    pub status: Status,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it was first driven.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its input as JSON.
    pub input: Payload,
    /// The result or the failure, once ended.
    pub outcome: Option<Payload>,
    /// A sentence for people: why it is stuck, why it was cancelled.
    pub note: Option<String>,
    /// Where its random streams begin.
    pub seed: u64,
    /// Labels to find it by.
    pub tags: BTreeMap<String, String>,
    /// How often a process died while driving it, since it last made progress or survived for a while.
    pub recoveries: u32,
    /// How many of those deaths it alone can be blamed for: no other instance that was as suspicious was driven.
    pub blamed: u32,
    /// Who drives it; [`Epoch(0)`](Epoch) is nobody.
    pub owner: Epoch,
    /// When it is to be woken if nobody drives it.
    pub wake: Option<Timestamp>,
    /// How often the world was told of it, beside the entries of its journal.
    pub news: u64,
}

/// From this many recoveries without progress, an instance may be what takes the process down.
const SUSPECT_RECOVERIES: u32 = 2;

impl Instance {
    /// Returns `true` if it may be what takes the process down: it is brought back with some of its kind at a time, so
    /// that the culprit is found and no other one is blamed.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::commit::{Epoch, OnConflict, Start, Write};
    /// # use outlive_core::{id::Name, payload::Payload, store::Store, time::Timestamp};
    /// # let (id, workflow, at) = (Name::recorded("order-42"), Name::recorded("checkout"), Timestamp::from_millis(1));
    /// # let (input, tags, on_conflict) = (Payload::recorded("42"), Default::default(), OnConflict::Join);
    /// # let start = Start { id, workflow, input, seed: 7, tags, at, due: at, on_conflict, token: 1, owner: Epoch(0) };
    /// # store.write(vec![Write::Start(start.clone())].into()).await?;
    /// # use outlive_core::query::Query;
    /// # let order = store.instance(&Name::recorded("order-42")).await?.unwrap();
    /// assert!(!order.is_suspect(), "no process died while driving it");
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.recoveries >= SUSPECT_RECOVERIES
    }

    /// Whether its beginning lies ahead: until then it is not claimed, and only what ends it wakes it.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::commit::{Epoch, OnConflict, Start, Write};
    /// # use outlive_core::{id::Name, payload::Payload, store::Store, time::Timestamp};
    /// # let (id, workflow, at) = (Name::recorded("order-42"), Name::recorded("checkout"), Timestamp::from_millis(1));
    /// # let (input, tags, on_conflict) = (Payload::recorded("42"), Default::default(), OnConflict::Join);
    /// # let start = Start { id, workflow, input, seed: 7, tags, at, due: at, on_conflict, token: 1, owner: Epoch(0) };
    /// # store.write(vec![Write::Start(start.clone())].into()).await?;
    /// # use outlive_core::query::Query;
    /// # let order = store.instance(&Name::recorded("order-42")).await?.unwrap();
    /// assert!(!order.is_early(at), "it was to begin at once");
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    #[must_use]
    pub fn is_early(&self, now: Timestamp) -> bool {
        self.status == Status::Pending && self.wake.is_some_and(|wake| wake > now)
    }
}

/// A wake that a store holds.
///
/// ```
/// use outlive_core::id::InstanceNum;
/// use outlive_core::query::Wake;
/// # use outlive_core::time::Timestamp;
/// let wake = |due, num| Wake { due: Timestamp::from_millis(due), num: InstanceNum(num) };
/// assert!(wake(1, 9) < wake(2, 1), "the earlier comes first");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wake {
    /// When.
    pub due: Timestamp,
    /// Whom.
    pub num: InstanceNum,
}

/// Where the moments begin that stand for messages, far before any that a clock shows.
const MESSAGES_FROM: i64 = -(1 << 62);

impl Wake {
    /// Before all others.
    pub const FIRST: Self = Self { due: Timestamp::MIN, num: InstanceNum(0) };
    /// After all that stand for [messages](Self::of_message), before all that a clock shows.
    pub const PAST_MESSAGES: Self = Self { due: Timestamp::from_millis(MESSAGES_FROM / 2), num: InstanceNum(0) };

    /// When an instance is due by an [urgent](Urgency::High) message: long ago, in the order of messages. So whoever drives
    /// instances finds each such message once, ahead of all else that is due, and may leave the wake where it is.
    ///
    /// ```
    /// # use outlive_core::{id::InstanceNum, query::Wake, time::Timestamp};
    /// assert!(Wake::of_message(3) < Wake::of_message(4) && Wake::of_message(4) < Timestamp::AT_ONCE);
    /// ```
    #[must_use]
    pub fn of_message(pos: u64) -> Timestamp {
        Timestamp::from_millis(MESSAGES_FROM.saturating_add_unsigned(pos))
    }

    /// When an instance is due that was to wake at `before`, by a message at `pos`.
    ///
    /// ```
    /// # use outlive_core::{query::{Urgency, Wake}, time::Timestamp};
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

    /// The position of the urgent message by which it is due, if it is.
    ///
    /// ```
    /// # use outlive_core::{id::InstanceNum, query::Wake, time::Timestamp};
    /// assert_eq!(Wake { due: Wake::of_message(3), num: InstanceNum(1) }.message(), Some(3));
    /// assert_eq!(Wake { due: Timestamp::AT_ONCE, num: InstanceNum(1) }.message(), None);
    /// ```
    #[must_use]
    pub fn message(&self) -> Option<u64> {
        let is_message = self.due >= Timestamp::from_millis(MESSAGES_FROM) && *self < Self::PAST_MESSAGES;
        is_message.then(|| MESSAGES_FROM.abs_diff(self.due.as_millis()))
    }

    /// Returns `true` if it may be due because of a message.
    ///
    /// ```
    /// # use outlive_core::{id::InstanceNum, query::Wake, time::Timestamp};
    /// assert!(Wake { due: Wake::of_message(3), num: InstanceNum(1) }.is_of_message());
    /// assert!(!Wake { due: Timestamp::from_millis(1_700_000_000_000), num: InstanceNum(1) }.is_of_message());
    /// ```
    #[must_use]
    pub fn is_of_message(&self) -> bool {
        self.due == Timestamp::AT_ONCE || *self < Self::PAST_MESSAGES
    }
}

/// How a message makes its receiver due.
///
/// ```
/// # use outlive_core::{message::Message, query::Urgency};
/// assert_eq!(Urgency::of(&Message::Cancel { reason: "withdrawn".into() }), Urgency::High);
/// assert_eq!(Urgency::of(&Message::Pause), Urgency::Low);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// As all else that is due at once.
    Low,
    /// Ahead of all else that is due: it ends the receiver, or the receiver is driven by another process.
    High,
}

impl Urgency {
    /// The urgency of a message to an instance that nobody drives.
    ///
    /// ```
    /// # use outlive_core::{message::Message, query::Urgency};
    /// assert_eq!(Urgency::of(&Message::Resume), Urgency::Low);
    /// ```
    #[must_use]
    pub fn of(message: &Message) -> Self {
        if message.is_end() { Self::High } else { Self::Low }
    }
}

/// An instance that may be what takes the process down.
///
/// ```
/// # use outlive_core::{id::InstanceNum, query::Suspect};
/// let mut suspects = [(7, 2), (8, 5)].map(|(num, recoveries)| Suspect { num: InstanceNum(num), recoveries });
/// suspects.sort_by_key(|suspect| std::cmp::Reverse(suspect.recoveries));
/// assert_eq!(suspects[0].num, InstanceNum(8), "the most suspicious first");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspect {
    /// Which.
    pub num: InstanceNum,
    /// Its [recoveries](Instance::recoveries).
    pub recoveries: u32,
}

/// Which instances to list or count. The default is all runs, and no jobs.
///
/// ```
/// use outlive_core::query::Filter;
/// use outlive_core::status::StatusKind;
/// let open = Filter::new().workflow("checkout").status(StatusKind::Waiting).tag("shop", "paris");
/// assert_eq!(open.workflow.as_deref(), Some("checkout"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Filter {
    /// Runs, jobs, or both.
    pub kinds: Kinds,
    /// Of this workflow, or this job, as `task:orders`.
    pub workflow: Option<String>,
    /// In one of these statuses; none given means any.
    pub statuses: Vec<StatusKind>,
    /// Whose id begins with this.
    pub id_prefix: Option<String>,
    /// Accepted at or after this moment.
    pub created_from: Option<Timestamp>,
    /// Accepted before this moment.
    pub created_before: Option<Timestamp>,
    /// With all these tags.
    pub tags: BTreeMap<String, String>,
}

impl Filter {
    /// All runs.
    ///
    /// ```
    /// # use outlive_core::query::Filter;
    /// assert!(Filter::new().statuses.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All instances of jobs.
    ///
    /// ```
    /// # use outlive_core::{kind::Kinds, query::Filter};
    /// assert_eq!(Filter::jobs().workflow("task:orders").kinds, Kinds::Jobs);
    /// ```
    #[must_use]
    pub fn jobs() -> Self {
        Self { kinds: Kinds::Jobs, ..Self::default() }
    }

    /// All runs, and all instances of jobs.
    ///
    /// ```
    /// # use outlive_core::{kind::Kinds, query::Filter};
    /// assert_eq!(Filter::all().kinds, Kinds::All);
    /// ```
    #[must_use]
    pub fn all() -> Self {
        Self { kinds: Kinds::All, ..Self::default() }
    }

    /// Of one workflow, or of one job.
    ///
    /// ```
    /// # use outlive_core::query::Filter;
    /// assert_eq!(Filter::new().workflow("checkout").workflow.as_deref(), Some("checkout"));
    /// ```
    #[must_use]
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.workflow = Some(name.into());
        self
    }

    /// In this status, or another one given.
    ///
    /// ```
    /// # use outlive_core::query::Filter;
    /// # use outlive_core::status::StatusKind;
    /// let bad = Filter::new().status(StatusKind::Failed).status(StatusKind::Stuck);
    /// assert_eq!(bad.statuses, [StatusKind::Failed, StatusKind::Stuck]);
    /// ```
    #[must_use]
    pub fn status(mut self, kind: StatusKind) -> Self {
        self.statuses.push(kind);
        self
    }

    /// Whose id begins with this.
    ///
    /// ```
    /// # use outlive_core::query::Filter;
    /// assert_eq!(Filter::new().id_prefix("order-").id_prefix.as_deref(), Some("order-"));
    /// ```
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Accepted at or after this moment.
    ///
    /// ```
    /// # use outlive_core::query::Filter;
    /// use std::time::{Duration, SystemTime};
    /// let today = Filter::new().created_from(SystemTime::now() - Duration::from_secs(86_400));
    /// assert!(today.created_from.is_some());
    /// ```
    #[must_use]
    pub fn created_from(mut self, from: impl Into<Timestamp>) -> Self {
        self.created_from = Some(from.into());
        self
    }

    /// Accepted before this moment.
    ///
    /// ```
    /// # use outlive_core::query::Filter;
    /// # use outlive_core::time::Timestamp;
    /// let old = Filter::new().created_before(Timestamp::from_millis(1_700_000_000_000));
    /// assert_eq!(old.created_before.unwrap().to_string(), "2023-11-14T22:13:20Z");
    /// ```
    #[must_use]
    pub fn created_before(mut self, before: impl Into<Timestamp>) -> Self {
        self.created_before = Some(before.into());
        self
    }

    /// With this tag.
    ///
    /// ```
    /// # use outlive_core::query::Filter;
    /// assert_eq!(Filter::new().tag("shop", "paris").tags["shop"], "paris");
    /// ```
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// Whether an instance is meant.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::commit::{Epoch, OnConflict, Start, Write};
    /// # use outlive_core::{id::Name, payload::Payload, store::Store, time::Timestamp};
    /// # let (id, workflow, at) = (Name::recorded("order-42"), Name::recorded("checkout"), Timestamp::from_millis(1));
    /// # let (input, tags, on_conflict) = (Payload::recorded("42"), Default::default(), OnConflict::Join);
    /// # let start = Start { id, workflow, input, seed: 7, tags, at, due: at, on_conflict, token: 1, owner: Epoch(0) };
    /// # store.write(vec![Write::Start(start.clone())].into()).await?;
    /// # use outlive_core::query::{Filter, Query};
    /// # let order = store.instance(&Name::recorded("order-42")).await?.unwrap();
    /// assert!(Filter::new().id_prefix("order-").matches(&order));
    /// assert!(!Filter::new().workflow("refund").matches(&order));
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    #[must_use]
    pub fn matches(&self, instance: &Instance) -> bool {
        self.kinds.has(&instance.workflow)
            && self.workflow.as_deref().is_none_or(|name| name == instance.workflow.as_str())
            && (self.statuses.is_empty() || self.statuses.contains(&instance.status.kind()))
            && self.id_prefix.as_deref().is_none_or(|prefix| instance.id.as_str().starts_with(prefix))
            && self.created_from.is_none_or(|from| instance.created_at >= from)
            && self.created_before.is_none_or(|before| instance.created_at < before)
            && self.tags.iter().all(|(key, value)| instance.tags.get(key) == Some(value))
    }
}

/// A part of a list, newest first. It may be short, or even empty, though more follows: only `next` says that.
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// # let store = outlive_core::memory::MemoryStore::new();
/// use outlive_core::query::{Filter, Query};
///
/// let (mut before, mut seen) = (None, 0);
/// loop {
///     let page = store.list(&Filter::new(), before, 100).await?;
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
    /// Where the next page begins, if there is more: those with a smaller number.
    pub next: Option<InstanceNum>,
}

/// How many instances there are in each status.
///
/// ```
/// use outlive_core::query::Counts;
/// use outlive_core::status::StatusKind;
/// let counts = Counts([(StatusKind::Running, 2), (StatusKind::Stuck, 1)].into());
/// assert_eq!((counts.total(), counts.of(StatusKind::Stuck)), (3, 1));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts(pub BTreeMap<StatusKind, u64>);

impl Counts {
    /// All together.
    ///
    /// ```
    /// # use outlive_core::query::Counts;
    /// assert_eq!(Counts::default().total(), 0);
    /// ```
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// In one status.
    ///
    /// ```
    /// # use outlive_core::query::Counts;
    /// # use outlive_core::status::StatusKind;
    /// assert_eq!(Counts::default().of(StatusKind::Failed), 0);
    /// ```
    #[must_use]
    pub fn of(&self, kind: StatusKind) -> u64 {
        self.0.get(&kind).copied().unwrap_or(0)
    }
}

/// One line of the feed: something that happened to an instance.
///
/// ```
/// use outlive_core::query::{Line, Told};
/// fn words(told: &Told) -> &'static str {
///     match &told.line {
///         Line::Entry(entry) => entry.kind.as_str(),
///         Line::News(news) => news.kind.as_str(),
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Told {
    /// Its place among all that is told; grows.
    pub pos: u64,
    /// Which instance.
    pub num: InstanceNum,
    /// Its id.
    pub id: Name,
    /// Its workflow, or its job with the kind.
    pub workflow: Name,
    /// Its number among all that is told of this instance, from 1, without a gap.
    pub number: u64,
    /// What.
    pub line: Line,
}

/// What a line of the feed says.
///
/// ```
/// use outlive_core::lifecycle::{News, NewsKind};
/// use outlive_core::query::Line;
/// # use outlive_core::time::Timestamp;
/// let line = Line::News(News::new(NewsKind::JobStarted, Timestamp::from_millis(0)));
/// assert!(matches!(line, Line::News(_)));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Line {
    /// An entry of its journal.
    Entry(Entry),
    /// Anything else.
    News(News),
}

/// The read path of a store. What it answers was durable when it was read.
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// # let store = outlive_core::memory::MemoryStore::new();
/// # use outlive_core::commit::{Epoch, OnConflict, Start, Write};
/// # use outlive_core::{id::Name, payload::Payload, store::Store, time::Timestamp};
/// # let (id, workflow, at) = (Name::recorded("order-42"), Name::recorded("checkout"), Timestamp::from_millis(1));
/// # let (input, tags, on_conflict) = (Payload::recorded("42"), Default::default(), OnConflict::Join);
/// # let start = Start { id, workflow, input, seed: 7, tags, at, due: at, on_conflict, token: 1, owner: Epoch(0) };
/// # store.write(vec![Write::Start(start.clone())].into()).await?;
/// use outlive_core::query::{Filter, Query};
/// use outlive_core::status::StatusKind;
///
/// let counts = store.count(&Filter::new().workflow("checkout")).await?;
/// assert_eq!(counts.of(StatusKind::Pending), 1);
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
pub trait Query: Send + Sync {
    /// The instance of this id.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::{id::Name, query::Query};
    /// assert_eq!(store.instance(&Name::recorded("order-42")).await?, None);
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>>;

    /// Reads the journal of an instance from `after` on: one [page](crate::page) of at most `limit` entries. A damaged
    /// entry is an error of kind `Corrupt`.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::{id::InstanceNum, query::Query};
    /// assert!(store.journal(InstanceNum(1), 0, 100).await?.is_empty());
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>>;

    /// Reads the messages of an instance that are not taken yet, in order of arrival: one [page](crate::page) of at most
    /// `limit` of them, from position `after` on.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::{id::InstanceNum, query::Query};
    /// assert!(store.inbox(InstanceNum(1), 0, usize::MAX).await?.is_empty());
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn inbox(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Inbound>>;

    /// The earliest wakes due at or before `until`, in order of due time, then number; at most `limit`.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::commit::{Epoch, OnConflict, Start, Write};
    /// # use outlive_core::{id::Name, payload::Payload, store::Store, time::Timestamp};
    /// # let (id, workflow, at) = (Name::recorded("order-42"), Name::recorded("checkout"), Timestamp::from_millis(1));
    /// # let (input, tags, on_conflict) = (Payload::recorded("42"), Default::default(), OnConflict::Join);
    /// # let start = Start { id, workflow, input, seed: 7, tags, at, due: at, on_conflict, token: 1, owner: Epoch(0) };
    /// # store.write(vec![Write::Start(start.clone())].into()).await?;
    /// # use outlive_core::query::Query;
    /// assert_eq!(store.wakes(at, 100).await?.len(), 1);
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn wakes(&self, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>> {
        self.wakes_after(Wake::FIRST, until, limit)
    }

    /// As [`wakes`](Self::wakes), but only those after one: the next page, whatever became of the one before.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::{query::{Query, Wake}, time::Timestamp};
    /// let mut last = Wake::FIRST;
    /// while let Some(wake) = store.wakes_after(last, Timestamp::MAX, 100).await?.last() {
    ///     last = *wake;
    /// }
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn wakes_after(&self, after: Wake, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>>;

    /// The [suspects](Instance::is_suspect) among those due at or before `until`.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::{query::Query, time::Timestamp};
    /// assert!(store.suspects(Timestamp::MAX).await?.is_empty(), "no process died");
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn suspects(&self, until: Timestamp) -> Answered<'_, Vec<Suspect>>;

    /// Lists those that match, newest (largest number) first, with numbers below `before`: one [page](crate::page) of at
    /// most `limit`. A store may end it early if it has looked at many that do not match.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::commit::{Epoch, OnConflict, Start, Write};
    /// # use outlive_core::{id::Name, payload::Payload, store::Store, time::Timestamp};
    /// # let (id, workflow, at) = (Name::recorded("order-42"), Name::recorded("checkout"), Timestamp::from_millis(1));
    /// # let (input, tags, on_conflict) = (Payload::recorded("42"), Default::default(), OnConflict::Join);
    /// # let start = Start { id, workflow, input, seed: 7, tags, at, due: at, on_conflict, token: 1, owner: Epoch(0) };
    /// # store.write(vec![Write::Start(start.clone())].into()).await?;
    /// # use outlive_core::query::{Filter, Query};
    /// let page = store.list(&Filter::new().id_prefix("order-"), None, 100).await?;
    /// assert_eq!((page.instances.len(), page.next), (1, None));
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page>;

    /// How many match, by status.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::commit::{Epoch, OnConflict, Start, Write};
    /// # use outlive_core::{id::Name, payload::Payload, store::Store, time::Timestamp};
    /// # let (id, workflow, at) = (Name::recorded("order-42"), Name::recorded("checkout"), Timestamp::from_millis(1));
    /// # let (input, tags, on_conflict) = (Payload::recorded("42"), Default::default(), OnConflict::Join);
    /// # let start = Start { id, workflow, input, seed: 7, tags, at, due: at, on_conflict, token: 1, owner: Epoch(0) };
    /// # store.write(vec![Write::Start(start.clone())].into()).await?;
    /// # use outlive_core::query::{Filter, Query};
    /// assert_eq!(store.count(&Filter::new()).await?.total(), 1);
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts>;

    /// What is next in the queue of an instance.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::{id::InstanceNum, query::Query, queue::QueueRead, time::Timestamp};
    /// let read = QueueRead { now: Timestamp::from_millis(0), after: None, limit: 100 };
    /// assert!(store.queue(InstanceNum(1), read).await?.events.is_empty());
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn queue(&self, num: InstanceNum, read: QueueRead) -> Answered<'_, QueuePage>;

    /// How many events a job has where.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::{id::Name, query::Query, queue::Depth, time::Timestamp};
    /// let depth = store.depth(&Name::recorded("pool:mail"), Timestamp::from_millis(0)).await?;
    /// assert_eq!(depth, Depth::default());
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn depth<'a>(&'a self, job: &'a Name, now: Timestamp) -> Answered<'a, Depth>;

    /// Reads the dead letters of a job past a number, in order: one [page](crate::page) of at most `limit`.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::{id::Name, query::Query};
    /// assert!(store.dead(&Name::recorded("pool:mail"), 0, 100).await?.is_empty());
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn dead<'a>(&'a self, job: &'a Name, after: u64, limit: usize) -> Answered<'a, Vec<Dead>>;

    /// The names of the jobs that have instances or dead letters, in order.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::query::Query;
    /// assert!(store.jobs().await?.is_empty());
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn jobs(&self) -> Answered<'_, Vec<Name>>;

    /// Reads the feed after a position, in order: one [page](crate::page) of at most `limit` lines.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::query::Query;
    /// assert!(store.feed(0, 100).await?.is_empty());
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn feed(&self, after: u64, limit: usize) -> Answered<'_, Vec<Told>>;

    /// The position of the feed as it is now, or the number kept under a name.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::{id::Name, query::Query};
    /// assert_eq!(store.mark(Some(&Name::recorded("sink"))).await?, None);
    /// assert_eq!(store.mark(None).await?, Some(0));
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn mark<'a>(&'a self, name: Option<&'a Name>) -> Answered<'a, Option<u64>>;

    /// The answer to the event at a position, if it has come and is not forgotten yet.
    ///
    /// ```
    /// # async fn example() -> Result<(), outlive_core::store::Error> {
    /// # let store = outlive_core::memory::MemoryStore::new();
    /// # use outlive_core::query::Query;
    /// assert_eq!(store.reply(7).await?, None);
    /// # Ok(())
    /// # }
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
    /// ```
    fn reply(&self, pos: u64) -> Answered<'_, Option<Payload>>;
}
