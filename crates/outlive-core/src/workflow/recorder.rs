//! New journal entries: numbered when they are made, handed out to be committed, and then durable.

use std::sync::Arc;

use crate::journal::{Entry, EntryKind};
use crate::store::commit::Write;
use crate::time::Timestamp;

/// Journal entries, the messages they take from the inbox and what they send, to be made durable together.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// The last sequence number before these entries.
    pub seq_before: u64,
    /// The entries, numbered without gaps.
    pub entries: Vec<Entry>,
    /// The inbox positions of the messages that they take.
    pub taken: Vec<u64>,
    /// What they send to other instances.
    pub writes: Vec<Write>,
    /// The number of the entry that each write belongs to, in the same order.
    pub write_seqs: Vec<u64>,
}

/// Returns a count as stored in the due time of an entry that has no other use for one.
fn count_mark(count: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Numbers the entries of a run.
pub struct Recorder {
    /// The last number in use.
    seq: u64,
    /// The last number that is durable.
    durable: u64,
    outgoing: Outgoing,
    /// What was handed out with effects, one of which may be refused. Nothing else is handed out until it is durable.
    sending: Option<Box<Outgoing>>,
    limit: JournalLimit,
}

/// How long a journal may get.
#[derive(Clone, Copy, Debug)]
struct JournalLimit {
    /// The last number before the first entry of the journal.
    seq_before: u64,
    /// At this number, the journal is nearly full; 0 once that is recorded.
    warn_at: u64,
    max_entries: u64,
}

impl JournalLimit {
    const NONE: Self = Self { seq_before: 0, warn_at: 0, max_entries: u64::MAX };
}

impl Recorder {
    /// Continues after the last entry of a journal.
    pub(super) fn new(seq: u64) -> Self {
        Self {
            seq,
            durable: seq,
            outgoing: Outgoing { seq_before: seq, ..Outgoing::default() },
            sending: None,
            limit: JournalLimit::NONE,
        }
    }

    /// Returns the last sequence number in use.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Limits the number of entries of a journal whose first one follows `seq_before`.
    pub(super) fn set_limit(&mut self, seq_before: u64, max_entries: u64) {
        let warn_at = seq_before.saturating_add(max_entries / 5 * 4 + max_entries % 5 * 4 / 5);
        // A journal that is longer than that has recorded it, or belongs to a run that had another limit.
        let warn_at = if self.seq < warn_at { warn_at } else { 0 };
        self.limit = JournalLimit { seq_before, warn_at, max_entries };
    }

    /// Records, once, that the journal is nearly full.
    fn warn(&mut self) {
        if self.limit.warn_at != 0
            && self.seq >= self.limit.warn_at
            && let Some(at) = self.outgoing.entries.last().map(|last| last.at)
        {
            self.limit.warn_at = 0;
            self.push_of_run(EntryKind::NearlyFull, at).due = Some(count_mark(self.limit.max_entries));
        }
    }

    /// Returns what is wrong with a journal that has too many entries.
    pub(super) fn excess(&self) -> Option<String> {
        let max = self.limit.max_entries;
        (self.seq - self.limit.seq_before > max).then(|| {
            format!(
                "its journal has more than {max} entries; let long loops `ctx.restart` with a fresh journal, or raise \
                 `max_entries` of the engine, then restart the program"
            )
        })
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns `true` if every entry is durable.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.durable == self.seq
    }

    /// Marks everything up to `seq` as durable. Returns what was handed out with effects, once it is.
    pub(super) fn set_durable(&mut self, seq: u64) -> Option<Box<Outgoing>> {
        debug_assert!(seq <= self.seq, "only entries that were handed out can become durable");
        self.durable = self.durable.max(seq);
        self.sending.take_if(|sending| sending.entries.last().is_none_or(|last| last.seq <= seq))
    }

    /// Returns `true` if effects were handed out and are not durable yet.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// Returns `true` if there are effects that are not durable yet, one of which may be refused.
    pub(super) fn has_effects(&self) -> bool {
        self.is_sending() || !self.outgoing.writes.iter().all(Write::is_notice)
    }

    /// Returns the effects that were handed out, to change what was refused.
    pub(super) fn sending_mut(&mut self) -> Option<&mut Outgoing> {
        self.sending.as_deref_mut()
    }

    /// Appends an entry about an operation and returns it, for the rest of its content.
    pub(super) fn push(&mut self, kind: EntryKind, op: &Arc<str>, site: &Arc<str>, at: Timestamp) -> &mut Entry {
        let (op, site) = (op.clone(), site.clone());
        self.add(Entry { seq: 0, at, kind, op, site, attempt: 0, started: None, due: None, payload: None })
    }

    /// Appends an entry about the run itself.
    pub(super) fn push_of_run(&mut self, kind: EntryKind, at: Timestamp) -> &mut Entry {
        self.add(Entry::of_run(0, at, kind))
    }

    /// Appends the first entry of the next journal, whose number is set here.
    pub(super) fn push_restart(&mut self, entry: Entry) {
        self.limit = JournalLimit::NONE;
        self.add(entry);
    }

    fn add(&mut self, entry: Entry) -> &mut Entry {
        self.seq += 1;
        let entries = &mut self.outgoing.entries;
        // Nearly every commit has a single entry.
        entries.reserve_exact(usize::from(entries.is_empty()));
        entries.push(Entry { seq: self.seq, ..entry });
        let last = entries.len() - 1;
        &mut entries[last]
    }

    /// Takes a message from the inbox with the next commit.
    pub(super) fn take_message(&mut self, pos: u64) {
        self.outgoing.taken.push(pos);
    }

    /// Sends something with the next commit, on behalf of the last entry.
    pub(super) fn send(&mut self, writes: impl IntoIterator<Item = Write>) {
        self.outgoing.writes.extend(writes);
        self.outgoing.write_seqs.resize(self.outgoing.writes.len(), self.seq);
    }

    /// Returns `true` if there is something to make durable.
    #[must_use]
    pub fn has_outgoing(&self) -> bool {
        !self.is_sending() && (!self.outgoing.entries.is_empty() || !self.outgoing.taken.is_empty())
    }

    /// Takes what has to be made durable now.
    pub(super) fn take_outgoing(&mut self) -> Option<Outgoing> {
        if !self.has_outgoing() {
            return None;
        }
        self.warn();
        let next = Outgoing { seq_before: self.seq, ..Outgoing::default() };
        let outgoing = std::mem::replace(&mut self.outgoing, next);
        if !outgoing.writes.iter().all(Write::is_notice) {
            self.sending = Some(Box::new(outgoing.clone()));
        }
        Some(outgoing)
    }
}
