//! Makes up random writes for a store, most of which make sense.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::{Claim, Commit, Epoch, NewState, OnConflict, Reopen, SendWrite, StartWrite, Write};
use outlive_core::time::Timestamp;

use crate::chance::Chance;
use crate::model::{Held, Snapshot};

const WRITES_MAX: usize = 5;

/// Makes up writes for a store that contains `held`, under the lease `epoch`.
pub(crate) struct Author<'a> {
    pub(crate) chance: &'a mut Chance,
    pub(crate) held: &'a Snapshot,
    pub(crate) epoch: Epoch,
    /// Number of steps so far, for writes that must not happen at the same moment twice.
    pub(crate) tick: usize,
}

impl Author<'_> {
    pub(crate) fn batch(&mut self) -> Arc<Vec<Write>> {
        let count = 1 + self.chance.below(WRITES_MAX);
        Arc::new((0..count).map(|_| self.write()).collect())
    }

    pub(crate) fn moment(&mut self) -> Timestamp {
        let millis = self.tick * 100 + self.chance.below(100);
        Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
    }

    fn write(&mut self) -> Write {
        match self.chance.below(100) {
            0..20 => Write::Start(self.start()),
            20..40 => Write::Message(self.send()),
            40..80 => Write::Commit(self.commit()),
            80..92 => Write::Claim(self.claim()),
            92..95 => Write::Reopen(Reopen { id: self.id(), num: None, at: self.moment() }),
            _ => Write::Purge(self.id(), None),
        }
    }

    fn start(&mut self) -> StartWrite {
        StartWrite {
            deadline: None,
            parent: None,
            id: self.id(),
            workflow: Name::recorded(self.chance.pick(&["checkout", "refund"])),
            input: self.payload(),
            origin: None,
            seed: self.chance.next(),
            tags: self.chance.maybe(BTreeMap::from([("shop".to_owned(), "paris".to_owned())])).unwrap_or_default(),
            at: self.moment(),
            due: self.moment(),
            on_conflict: self.chance.pick(&[OnConflict::Join, OnConflict::Reject, OnConflict::Replace]),
            token: self.chance.next(),
            owner: self.chance.pick(&[Epoch(0), self.epoch]),
        }
    }

    fn send(&mut self) -> SendWrite {
        let message = match self.chance.below(12) {
            0 => Message::Cancel { reason: "enough".to_owned() },
            1 => Message::Pause,
            2 => Message::Resume,
            _ => Message::Signal { name: Name::recorded("approved"), payload: self.payload() },
        };
        let key = Name::recorded(self.chance.pick(&["one", "two"]));
        let dedup = self.chance.maybe(key).filter(|_| matches!(message, Message::Signal { .. }));
        SendWrite { id: self.id(), num: None, message, at: self.moment(), dedup, token: self.chance.next() }
    }

    fn commit(&mut self) -> Commit {
        let held = self.any_held();
        let num = held.map_or(InstanceNum(1), |held| held.instance.num);
        let seq_before = held.and_then(|held| held.journal.last()).map_or(0, |last| last.seq);
        let positions = held.map_or_else(Vec::new, |held| held.inbox.iter().map(|inbound| inbound.pos).collect());
        let count = u64::try_from(self.chance.below(4)).unwrap_or(0);
        let entries = (1..=count).map(|more| self.entry(seq_before + more)).collect();
        let taken = positions.iter().copied().filter(|_| self.chance.is(2)).collect();
        let has_state = self.chance.is(3);
        let state = has_state.then(|| self.state(positions.last().copied()));
        Commit { writes: Vec::new(), num, epoch: self.epoch, seq_before, entries, taken, state }
    }

    fn entry(&mut self, seq: u64) -> Entry {
        let payload = self.payload();
        Entry {
            op: "step \"charge\"".into(),
            site: "src/shop.rs:31".into(),
            payload: self.chance.maybe(payload),
            ..Entry::of_run(seq, self.moment(), self.chance.pick(&EntryKind::ALL))
        }
    }

    fn state(&mut self, seen: Option<u64>) -> NewState {
        let moment = self.moment();
        let paused = Status::Sleeping { until: moment };
        let open = [Status::Running, paused];
        let ends = [Status::Completed, Status::Failed, Status::Cancelled, Status::Stuck];
        let status = if self.chance.is(3) { self.chance.pick(&ends) } else { self.chance.pick(&open) };
        let is_owned = status == Status::Running;
        let outcome = self.payload();
        NewState {
            status,
            wake: (status == paused).then_some(moment),
            is_owned,
            seen,
            outcome: status.is_ended().then_some(outcome),
            note: self.chance.maybe("a note".to_owned()),
            at: moment,
        }
    }

    fn claim(&mut self) -> Claim {
        let count = self.chance.below(5);
        let nums = (0..count).filter_map(|_| self.any_held().map(|held| held.instance.num)).collect();
        Claim { nums, epoch: self.epoch, at: self.moment() }
    }

    /// Returns one of a few ids, so that writes collide.
    fn id(&mut self) -> Name {
        Name::recorded(self.chance.pick(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]))
    }

    fn any_held(&mut self) -> Option<&Held> {
        self.held.held.get(self.chance.below(self.held.held.len()))
    }

    /// Returns a payload. Most fit into a page; some take several.
    fn payload(&mut self) -> Payload {
        let len = match self.chance.below(12) {
            0 => 5_000 + self.chance.below(5_000),
            1..4 => self.chance.below(2_000),
            _ => self.chance.below(60),
        };
        let letter = self.chance.pick(&["a", "b", "ü"]);
        Payload::recorded(&format!("\"{}\"", letter.repeat(len)))
    }
}
