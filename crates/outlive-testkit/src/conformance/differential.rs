//! Differential testing: the same random writes to two stores must return the same results and leave the same contents.

mod jobs;
mod outputs;
mod repairs;

use std::sync::Arc;

use outlive_core::child::Parent;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::Store;
use outlive_core::store::commit::{
    Absolve, Claim, Commit, Epoch, NewState, OnConflict, Reopen, SendWrite, StartWrite, Write,
};
use outlive_core::time::Timestamp;

use super::pair::{Held, Pair};
use super::world::{BY_HAND, Checked, at, cancel, json, name, signal};
use crate::random::Random;

/// Applies the same random batches of writes to two empty stores, and compares every result and all contents.
///
/// ```
/// use outlive_core::store::memory::MemoryStore;
/// use outlive_testkit::conformance::differential;
/// use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (one, other) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
/// differential(one, other, 7, 50).await.unwrap();
/// # }
/// ```
///
/// # Errors
/// The first difference, with the number of the operation.
pub async fn differential(a: Arc<dyn Store>, b: Arc<dyn Store>, seed: u64, operations: usize) -> Result<(), String> {
    let mut pair = Pair::new(a, b).await?;
    let mut author =
        Author { random: Random::new(seed), held: Vec::new(), dead_letters: Vec::new(), epoch: pair.epoch, ticks: 0 };
    for operation in 0..operations {
        let done = operate(&mut pair, &mut author).await;
        done.map_err(|found| format!("seed {seed}, operation {operation}: {found}"))?;
    }
    Ok(())
}

async fn operate(pair: &mut Pair, author: &mut Author) -> Checked {
    if author.random.is(40) {
        pair.release().await?;
        // Nothing holds a lease now: everything that needs one is fenced.
        pair.write(&author.batch()).await?;
        pair.lease(author.moment()).await?;
        author.epoch = pair.epoch;
    }
    let batch = author.batch();
    pair.write(&batch).await?;
    (author.held, author.dead_letters) = pair.compare().await?;
    if author.random.is(4) && batch.iter().all(can_be_repeated) {
        pair.write(&batch).await?;
        (author.held, author.dead_letters) = pair.compare().await?;
    }
    let (mut filter, limit) = (author.random.filter(), author.random.below(4) + 1);
    filter.parent = author.parent().map(|parent| parent.num);
    let before = author.any_held().map(|held| held.instance.num);
    let before = author.random.maybe(before).flatten();
    pair.query(&filter, before, usize::try_from(limit).unwrap_or(1)).await
}

/// Claims, reopens, purges and the like carry nothing that identifies a repeat.
fn can_be_repeated(write: &Write) -> bool {
    matches!(write, Write::Start(_) | Write::Message(_) | Write::Commit(_) | Write::Push(_) | Write::Turn(_))
        || matches!(write, Write::Fork(_))
}

/// Makes up writes from what both stores contain.
struct Author {
    random: Random,
    held: Vec<Held>,
    /// Positions of the dead dead_letters.
    dead_letters: Vec<u64>,
    epoch: Epoch,
    /// Grows with each write, for writes that must not happen at the same moment twice.
    ticks: i64,
}

impl Author {
    fn batch(&mut self) -> Vec<Write> {
        let count = 1 + self.random.below(4);
        (0..count).map(|_| self.write()).collect()
    }

    fn write(&mut self) -> Write {
        self.ticks += 1;
        match self.random.below(154) {
            140..146 => self.rewind(),
            146..148 => self.fork(),
            148..154 => self.lone_output(),
            100..115 => Write::Push(self.push()),
            115..133 => self.turn(),
            133..138 => Write::ResolveDeadLetters(self.resolve()),
            138..140 => self.of_feed(),
            0..20 => Write::Start(self.start()),
            20..45 => Write::Message(self.send()),
            45..78 => Write::Commit(self.commit()),
            78..90 => Write::Claim(self.claim()),
            90..92 => Write::Absolve(self.absolve()),
            92..96 => Write::Reopen(Reopen { id: self.id(), num: None, at: at(100 + self.ticks) }),
            _ => Write::Purge(self.id(), None),
        }
    }

    fn start(&mut self) -> StartWrite {
        let start = StartWrite {
            deadline: self.some_moment(),
            parent: self.parent(),
            id: self.id(),
            workflow: name(self.random.pick(&["checkout", "refund"])),
            input: self.random.pick(&[json("1"), json("[2]")]),
            origin: self.random.origin(),
            seed: self.random.next(),
            tags: self.random.tags(),
            at: self.moment(),
            due: self.moment(),
            on_conflict: self.random.pick(&[OnConflict::Join, OnConflict::Reject, OnConflict::Replace]),
            token: self.random.next(),
            owner: self.epoch_or_not(3),
        };
        self.named(start)
    }

    /// Makes one in three instances a child, of one that may not exist.
    fn parent(&mut self) -> Option<Parent> {
        if !self.random.is(3) {
            return None;
        }
        let held = self.any_held().map(|held| (held.instance.num, held.instance.id.clone()));
        let (num, id) = held.unwrap_or((InstanceNum(1_000_000_000), name("nobody")));
        Some(Parent { num, id, is_detached: self.random.is(3) })
    }

    fn send(&mut self) -> SendWrite {
        let message = match self.random.below(9) {
            0 => cancel("enough"),
            1 => Message::Terminate { reason: "out".to_owned() },
            2 => Message::Pause,
            3 => Message::Resume,
            4 => Message::ChildEnded { id: self.id(), outcome: json("{\"completed\":1}") },
            _ => signal("hello"),
        };
        let is_signal = matches!(message, Message::Signal { .. });
        let key = self.random.pick(&["one", "two", "ü"]);
        let dedup = self.random.maybe(name(key)).filter(|_| is_signal);
        let (id, num) = self.bearer();
        SendWrite { id, num, message, at: self.moment(), dedup, token: self.random.next() }
    }

    fn commit(&mut self) -> Commit {
        let (num, seq_last, positions) = match self.any_held() {
            Some(held) => (held.instance.num, held.seq_last, held.positions.clone()),
            None => (self.any_num(), 0, Vec::new()),
        };
        let seq_before = if self.random.is(12) { seq_last + 1 } else { seq_last };
        let count = u64::try_from(self.random.below(3)).unwrap_or(0);
        let gap = u64::from(self.random.is(20));
        let entries: Vec<Entry> = (1..=count).map(|more| self.entry(seq_before + more + gap)).collect();
        let mut taken = positions.clone();
        taken.retain(|_| self.random.is(2));
        let has_state = self.random.is(2);
        let state = has_state.then(|| self.state(&positions));
        let mut writes: Vec<Write> = (0..self.random.below(9).saturating_sub(6)).map(|_| self.nested()).collect();
        // Without an entry, a repeated commit cannot be told from the first.
        if !entries.is_empty() && self.random.is(3) {
            writes.push(self.output(num, seq_before + count));
        }
        Commit { num, epoch: self.epoch_or_not(15), seq_before, entries, taken, writes, state }
    }

    fn entry(&mut self, seq: u64) -> Entry {
        Entry {
            op: self.random.pick(&["", "step \"a\"", "ü"]).into(),
            site: self.random.pick(&["", "src/shop.rs:31"]).into(),
            attempt: u32::try_from(self.random.below(3)).unwrap_or(0),
            started: self.some_moment(),
            due: self.some_moment(),
            payload: self.some_payload(),
            ..Entry::of_run(seq, self.moment(), self.random.pick(&EntryKind::ALL))
        }
    }

    fn state(&mut self, positions: &[u64]) -> NewState {
        let why = self.random.pick(&[StatusKind::Sleeping, StatusKind::Retrying, StatusKind::Waiting]);
        let idle = Status::from_parts(why, self.some_moment());
        let ends = [Status::Completed, Status::Failed, Status::Cancelled, Status::Stuck];
        let status = self.random.pick(&[Status::Running, idle, idle, BY_HAND]);
        let status = if self.random.is(3) { self.random.pick(&ends) } else { status };
        let is_open = !status.is_ended() && status != Status::Stuck;
        let is_owned = is_open && self.random.is(2);
        let seen = self.random.pick(&[&[0], positions].concat());
        NewState {
            status,
            wake: self.some_moment().filter(|_| is_open && !is_owned),
            is_owned,
            seen: self.random.maybe(seen),
            outcome: self.some_payload().filter(|_| status.is_ended()),
            note: self.random.maybe("a note".to_owned()),
            at: self.moment(),
        }
    }

    fn claim(&mut self) -> Claim {
        let count = self.random.below(6);
        let nums = (0..count).map(|_| self.any_num()).collect();
        Claim { nums, epoch: self.epoch_or_not(15), at: self.moment() }
    }

    fn absolve(&mut self) -> Absolve {
        let Claim { nums, epoch, .. } = self.claim();
        let max_recoveries = u32::try_from(self.random.below(3)).unwrap_or(0);
        Absolve { nums, epoch, max_recoveries }
    }

    /// Returns an id, and sometimes a number that may or may not belong to it.
    fn bearer(&mut self) -> (Name, Option<InstanceNum>) {
        let (id, num) = (self.id(), self.any_num());
        if self.random.is(10) {
            return (id, Some(num));
        }
        match self.any_held().map(|held| (held.instance.id.clone(), held.instance.num)) {
            Some((id, num)) if self.random.is(4) => (id, Some(num)),
            _ => (id, None),
        }
    }

    /// Returns one of a few ids, so that writes collide.
    fn id(&mut self) -> Name {
        let ids = ["a", "a%1", "a_1", "ü", "Ü", "🦀", "b", "c"];
        name(if self.random.is(5) { self.random.pick(&jobs::IDS) } else { self.random.pick(&ids) })
    }

    fn any_held(&mut self) -> Option<&Held> {
        let index = self.random.next().checked_rem(self.held.len() as u64)?;
        self.held.get(usize::try_from(index).ok()?)
    }

    /// Returns the number of an instance, or sometimes one that does not exist.
    fn any_num(&mut self) -> InstanceNum {
        let nobody = InstanceNum(1_000_000_000);
        if self.random.is(15) { nobody } else { self.any_held().map_or(nobody, |held| held.instance.num) }
    }

    /// Returns the current epoch, except that one in `often` is a different one.
    fn epoch_or_not(&mut self, often: u64) -> Epoch {
        let others = [Epoch(0), Epoch(self.epoch.0 + 1)];
        if self.random.is(often) { self.random.pick(&others) } else { self.epoch }
    }

    fn moment(&mut self) -> Timestamp {
        at(self.random.below(20))
    }

    fn some_moment(&mut self) -> Option<Timestamp> {
        let moment = self.moment();
        self.random.maybe(moment)
    }

    fn some_payload(&mut self) -> Option<Payload> {
        let payload = self.random.pick(&[json("null"), json("{\"a\":[1]}"), json("\"ü\"")]);
        self.random.maybe(payload)
    }
}
