//! The change of an instance: everything that the next commit contains.

use super::call::Exhausted;
use crate::lifecycle::{Detail, LifecycleRecord, LifecycleRecordKind};
use crate::payload::Payload;
use crate::queue::Dead;
use crate::time::Timestamp;

/// Everything to commit for an instance, collected until the commit.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Change {
    /// Lifecycle events.
    pub lifecycle: Vec<LifecycleRecord>,
    /// Inbox positions of messages that are done.
    pub taken: Vec<u64>,
    /// Dead letters.
    pub dead: Vec<Dead>,
    /// Replies to events, by inbox position.
    pub replies: Vec<(u64, Payload)>,
    /// Dedup keys of messages up to this position are released.
    pub keys_until: u64,
    /// Exhausted retries, for the `on_exhausted` hook.
    pub exhausted: Vec<Exhausted>,
    /// Why the instance is stuck, if it is.
    pub stuck: Option<String>,
    /// Whether the instance is removed.
    pub is_removed: bool,
    /// Whether a handler (or, for a continuous job, a message) ended the instance: messages that arrived meanwhile are
    /// removed with it.
    pub is_terminated: bool,
    /// Whether a message ended the instance: events accepted after that message start a new one.
    pub is_ended: bool,
    /// Whether the record changed.
    pub is_touched: bool,
}

impl Change {
    /// Returns `true` if there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Notes that the record changed.
    pub(super) fn touch(&mut self) {
        self.is_touched = true;
    }

    /// Adds a lifecycle event.
    pub(super) fn report(&mut self, kind: LifecycleRecordKind, at: Timestamp, detail: Detail) {
        self.report_attempt(kind, 0, at, detail);
    }

    /// Adds a lifecycle event about an attempt.
    pub(super) fn report_attempt(&mut self, kind: LifecycleRecordKind, attempt: u32, at: Timestamp, detail: Detail) {
        let detail = (detail != Detail::default()).then(|| detail.to_payload());
        self.lifecycle.push(LifecycleRecord { at, kind, attempt, detail });
    }

    /// Releases the dedup keys of messages up to a position.
    pub(super) fn release_keys(&mut self, until: u64) {
        self.keys_until = self.keys_until.max(until);
    }
}
