//! Writes anything to a store in any order: journals have no gap, nothing is written without the lease, and ended runs
//! have no wake.

use std::collections::BTreeMap;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::{
    Answer, Claim, Commit, Epoch, NewState, OnConflict, Reopen, SendWrite, StartWrite, Write,
};
use outlive_core::store::memory::MemoryStore;
use outlive_core::store::query::{Filter, Instance, Query};
use outlive_core::store::{Answered, Error, Store};
use outlive_core::time::Timestamp;

use crate::bytes::Bytes;

/// Writes to a memory store.
///
/// ```
/// outlive_fuzz::store::run(&[9; 100]);
/// ```
///
/// # Panics
/// If the store accepts a write that it must not, or loses one that it accepted.
pub fn run(bytes: &[u8]) {
    let mut author = Author { bytes: Bytes::new(bytes), store: MemoryStore::new(), epochs: vec![], is_leased: false };
    let mut before = Shape::of(&author.store);
    while !author.bytes.is_empty() {
        let write = author.write();
        let answers = now(author.store.write(vec![write.clone()].into()));
        assert_eq!(answers.len(), 1);
        let after = Shape::of(&author.store);
        author.check(&write, &answers[0], &before, &after);
        if author.bytes.is(6) {
            author.change_hands();
        }
        before = Shape::of(&author.store);
    }
}

/// Polls once: the memory store replies immediately.
fn now<T>(answer: Answered<'_, T>) -> T {
    let mut answer = answer;
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match answer.as_mut().poll(&mut cx) {
        std::task::Poll::Ready(Ok(value)) => value,
        std::task::Poll::Ready(Err(Error { message, .. })) => panic!("the memory store failed: {message}"),
        std::task::Poll::Pending => panic!("the memory store does not wait"),
    }
}

/// Everything that a store holds.
#[derive(PartialEq, Debug)]
struct Shape(BTreeMap<InstanceNum, (Instance, Vec<Entry>, Vec<u64>)>);

impl Shape {
    fn of(store: &MemoryStore) -> Self {
        let all = now(store.list(&Filter::all(), None, usize::MAX)).instances;
        assert_eq!(all.len() as u64, now(store.count(&Filter::all())).total());
        let wakes = now(store.wakes(Timestamp::MAX, usize::MAX));
        assert!(wakes.is_sorted(), "wakes come in order: {wakes:?}");
        assert_eq!(wakes.len(), all.iter().filter(|instance| instance.wake.is_some()).count());
        let whole = |instance: Instance| {
            let entries = now(store.journal(instance.num, 0, usize::MAX));
            let restart = entries.first().filter(|first| first.kind == EntryKind::Restarted);
            let first = restart.map_or(1, |restart| restart.seq);
            assert!(
                entries.iter().map(|entry| entry.seq).eq(first..first + entries.len() as u64),
                "gap in {entries:?}"
            );
            let inbox: Vec<u64> =
                now(store.inbox(instance.num, 0, usize::MAX)).iter().map(|inbound| inbound.pos).collect();
            assert!(inbox.is_sorted());
            let is_open = !instance.status.is_ended() && instance.status != Status::Stuck;
            assert!(is_open || instance.wake.is_none() && instance.owner == Epoch(0), "{instance:?}");
            assert!(!instance.status.is_ended() || inbox.is_empty(), "an ended run has no messages: {instance:?}");
            (instance.num, (instance, entries, inbox))
        };
        Self(all.into_iter().map(whole).collect())
    }

    fn any(&self, bytes: &mut Bytes<'_>) -> Option<&(Instance, Vec<Entry>, Vec<u64>)> {
        let count = self.0.len() as u64;
        (count > 0).then(|| self.0.values().nth(usize::try_from(bytes.below(count)).unwrap_or(0))).flatten()
    }
}

struct Author<'a> {
    bytes: Bytes<'a>,
    store: MemoryStore,
    /// All leases so far; the last is the current one.
    epochs: Vec<Epoch>,
    is_leased: bool,
}

impl Author<'_> {
    fn check(&self, write: &Write, answer: &Answer, before: &Shape, after: &Shape) {
        let epoch = match write {
            Write::Commit(commit) => Some(commit.epoch),
            Write::Claim(claim) => Some(claim.epoch),
            _ => None,
        };
        if let Some(epoch) = epoch {
            let is_holder = self.is_leased && self.epochs.last() == Some(&epoch);
            assert!(is_holder || matches!(answer, Answer::Fenced), "{write:?} without a lease: {answer:?}");
        }
        if matches!(answer, Answer::Fenced | Answer::Unseen(_) | Answer::Refused(_)) {
            assert_eq!(before, after, "{write:?} returned {answer:?}, but changed something");
        }
        for (num, (old, entries, _)) in &before.0 {
            let Some((new, more, _)) = after.0.get(num) else {
                let may_go = matches!(write, Write::Purge(..) | Write::Start(_));
                assert!(may_go, "{write:?} removed {num}");
                continue;
            };
            // A restart begins the next journal.
            if more.first().map(|first| first.seq) == entries.first().map(|first| first.seq) {
                assert_eq!(more.get(..entries.len()), Some(&entries[..]), "{write:?} changed the journal");
            }
            let is_reopened = matches!(write, Write::Reopen(_));
            assert!(!old.status.is_ended() || is_reopened || old == new, "{write:?} changed an ended run: {new:?}");
        }
    }

    fn change_hands(&mut self) {
        if self.is_leased && self.bytes.is(3) {
            self.is_leased = false;
            let epoch = self.epoch();
            now(self.store.release(epoch));
            self.is_leased = self.epochs.last() != Some(&epoch);
        } else {
            let epoch = now(self.store.lease(self.bytes.moment()));
            assert!(self.epochs.last().is_none_or(|last| *last < epoch), "epochs grow");
            self.epochs.push(epoch);
            self.is_leased = true;
        }
    }

    fn write(&mut self) -> Write {
        match self.bytes.below(8) {
            0 | 1 => Write::Start(self.start()),
            2 => Write::Message(self.send()),
            3..=5 => Write::Commit(self.commit()),
            6 => Write::Claim(self.claim()),
            _ if self.bytes.is(2) => Write::Reopen(Reopen { id: self.id(), num: None, at: self.bytes.moment() }),
            _ => Write::Purge(self.id(), None),
        }
    }

    fn start(&mut self) -> StartWrite {
        StartWrite {
            deadline: None,
            parent: None,
            id: self.id(),
            workflow: Name::recorded(self.bytes.pick(&["checkout", "refund"])),
            input: Payload::recorded("1"),
            origin: None,
            seed: 1,
            tags: BTreeMap::new(),
            at: self.bytes.moment(),
            due: self.bytes.moment(),
            on_conflict: self.bytes.pick(&[OnConflict::Join, OnConflict::Reject, OnConflict::Replace]),
            token: self.bytes.below(200),
            owner: self.epoch(),
        }
    }

    fn send(&mut self) -> SendWrite {
        let reason = || "enough".to_owned();
        let messages = [Message::Pause, Message::Resume, Message::Cancel { reason: reason() }];
        let signal = Message::Signal { name: Name::recorded("go"), payload: Payload::recorded("1") };
        let message = if self.bytes.is(2) { signal } else { self.bytes.pick(&messages) };
        let dedup = self.bytes.is(3).then(|| Name::recorded("once"));
        SendWrite { id: self.id(), num: None, message, at: self.bytes.moment(), dedup, token: self.bytes.below(200) }
    }

    fn commit(&mut self) -> Commit {
        let shape = Shape::of(&self.store);
        let held = shape.any(&mut self.bytes);
        let num = held.map_or(InstanceNum(self.bytes.any()), |(instance, ..)| instance.num);
        let last = held.map_or(0, |(_, entries, _)| entries.len() as u64);
        let seq_before = if self.bytes.is(8) { self.bytes.any() } else { last };
        let positions = held.map_or(&[][..], |(_, _, inbox)| inbox);
        let entries = (1..=self.bytes.below(3)).map(|more| self.entry(seq_before.wrapping_add(more))).collect();
        let taken = positions.iter().copied().filter(|_| self.bytes.is(2)).collect();
        Commit {
            writes: Vec::new(),
            num,
            epoch: self.epoch(),
            seq_before,
            entries,
            taken,
            state: self.state(positions),
        }
    }

    fn entry(&mut self, seq: u64) -> Entry {
        let seq = if self.bytes.is(20) { self.bytes.any() } else { seq };
        Entry::of_run(seq, self.bytes.moment(), self.bytes.pick(&EntryKind::ALL))
    }

    fn state(&mut self, positions: &[u64]) -> Option<NewState> {
        if self.bytes.is(2) {
            return None;
        }
        let paused = Status::Sleeping { until: self.bytes.moment() };
        let statuses = [Status::Running, paused, Status::Completed, Status::Failed, Status::Cancelled, Status::Stuck];
        let status = self.bytes.pick(&statuses);
        let is_owned = status == Status::Running && self.bytes.is(2);
        let seen = self.bytes.pick(&[&[0], positions].concat());
        Some(NewState {
            status,
            wake: (!is_owned && matches!(status, Status::Running | Status::Sleeping { .. }))
                .then(|| self.bytes.moment()),
            is_owned,
            seen: self.bytes.is(2).then_some(seen),
            outcome: None,
            note: None,
            at: self.bytes.moment(),
        })
    }

    fn claim(&mut self) -> Claim {
        let shape = Shape::of(&self.store);
        let nums = (0..self.bytes.below(4))
            .map(|_| shape.any(&mut self.bytes).map_or(InstanceNum(7), |(instance, ..)| instance.num))
            .collect();
        Claim { nums, epoch: self.epoch(), at: self.bytes.moment() }
    }

    fn id(&mut self) -> Name {
        Name::recorded(self.bytes.pick(&["a", "b", "c"]))
    }

    /// Returns the current lease, or another.
    fn epoch(&mut self) -> Epoch {
        let last = self.epochs.last().copied().unwrap_or_default();
        let others = [&self.epochs[..], &[Epoch(0), Epoch(last.0 + 1), Epoch(u64::MAX)]].concat();
        if self.bytes.is(6) { self.bytes.pick(&others) } else { last }
    }
}
