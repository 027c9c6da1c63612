//! Reading what a store holds, beside and never through the write path.

use std::collections::BTreeMap;

use crate::fault::Answered;
use crate::id::{Epoch, InstanceNum, Name};
use crate::journal::Entry;
use crate::message::Inbound;
use crate::payload::Payload;
use crate::status::{Status, StatusKind};
use crate::time::Timestamp;

/// An instance as it is kept.
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
    /// How often a process died while driving it since it last got on.
    pub recoveries: u32,
    /// Who drives it; [`Epoch(0)`](Epoch) is nobody.
    pub owner: Epoch,
    /// When it is to be woken if nobody drives it.
    pub wake: Option<Timestamp>,
}

/// From this many recoveries without getting on, an instance may be what takes the process down.
const SUSPECT_RECOVERIES: u32 = 2;

impl Instance {
    /// Whether it may be what takes the process down: it is brought back alone, so that no other is blamed for it.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.recoveries >= SUSPECT_RECOVERIES
    }

    /// Whether its beginning lies ahead: until then it is not claimed, and only what ends it wakes it.
    #[must_use]
    pub fn is_early(&self, now: Timestamp) -> bool {
        self.status == Status::Pending && self.wake.is_some_and(|wake| wake > now)
    }
}

/// A wake that a store holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wake {
    /// When.
    pub due: Timestamp,
    /// Whom.
    pub num: InstanceNum,
}

/// Which instances to list or count. The default is all of them.
///
/// ```
/// use outlive_core::query::Filter;
/// use outlive_core::status::StatusKind;
/// let open = Filter::new().workflow("checkout").status(StatusKind::Paused).tag("shop", "paris");
/// assert_eq!(open.workflow.as_deref(), Some("checkout"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Filter {
    /// Of this workflow.
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
    /// All instances.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Of one workflow.
    #[must_use]
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.workflow = Some(name.into());
        self
    }

    /// In this status, or another one given.
    #[must_use]
    pub fn status(mut self, kind: StatusKind) -> Self {
        self.statuses.push(kind);
        self
    }

    /// Whose id begins with this.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Accepted at or after this moment.
    #[must_use]
    pub fn created_from(mut self, from: impl Into<Timestamp>) -> Self {
        self.created_from = Some(from.into());
        self
    }

    /// Accepted before this moment.
    #[must_use]
    pub fn created_before(mut self, before: impl Into<Timestamp>) -> Self {
        self.created_before = Some(before.into());
        self
    }

    /// With this tag.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// Whether an instance is meant.
    #[must_use]
    pub fn matches(&self, instance: &Instance) -> bool {
        self.workflow.as_deref().is_none_or(|name| name == instance.workflow.as_str())
            && (self.statuses.is_empty() || self.statuses.contains(&instance.status.kind()))
            && self.id_prefix.as_deref().is_none_or(|prefix| instance.id.as_str().starts_with(prefix))
            && self.created_from.is_none_or(|from| instance.created_at >= from)
            && self.created_before.is_none_or(|before| instance.created_at < before)
            && self.tags.iter().all(|(key, value)| instance.tags.get(key) == Some(value))
    }
}

/// A part of a list, newest first.
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    /// The instances.
    pub instances: Vec<Instance>,
    /// Where the next page begins, if there is more: those with a smaller number.
    pub next: Option<InstanceNum>,
}

/// How many instances there are in each status.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts(pub BTreeMap<StatusKind, u64>);

impl Counts {
    /// All together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// In one status.
    #[must_use]
    pub fn of(&self, kind: StatusKind) -> u64 {
        self.0.get(&kind).copied().unwrap_or(0)
    }
}

/// The read path of a store. What it answers was durable when it was read.
pub trait Query: Send + Sync {
    /// The instance of this id.
    fn instance<'a>(&'a self, id: &'a Name) -> Answered<'a, Option<Instance>>;

    /// The journal of an instance from `after` on, at most `limit` entries. A damaged entry is an error of kind `Corrupt`.
    fn journal(&self, num: InstanceNum, after: u64, limit: usize) -> Answered<'_, Vec<Entry>>;

    /// The messages of an instance that are not taken yet, after position `after`, in order of arrival.
    fn inbox(&self, num: InstanceNum, after: u64) -> Answered<'_, Vec<Inbound>>;

    /// The earliest wakes due at or before `until`, in order of due time, then number; at most `limit`.
    fn wakes(&self, until: Timestamp, limit: usize) -> Answered<'_, Vec<Wake>>;

    /// Those that match, newest (largest number) first, with numbers below `before`; at most `limit`.
    fn list<'a>(&'a self, filter: &'a Filter, before: Option<InstanceNum>, limit: usize) -> Answered<'a, Page>;

    /// How many match, by status.
    fn count<'a>(&'a self, filter: &'a Filter) -> Answered<'a, Counts>;
}
