//! Helpers for cases: an open store with a lease, and short ways to write to it and read from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::kind::JobKind;
use outlive_core::message::{Inbound, Message};
use outlive_core::payload::Payload;
use outlive_core::queue::{Dead, Depth, QueuePage, QueueRead};
use outlive_core::status::Status;
use outlive_core::store::Store;
use outlive_core::store::commit::{
    Answer, Claim, Claimed, Commit, Epoch, NewState, OnConflict, Refusal, Reopen, SendWrite, StartWrite, Write,
};
use outlive_core::store::query::{FeedItem, Filter, Instance, Wake};
use outlive_core::time::Timestamp;

use super::Home;

/// The expected value, or what was found instead.
pub(crate) type Checked<T = ()> = Result<T, String>;

/// The moment at which everything happens by default.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_000);

/// A store under test.
pub(crate) struct World {
    home: Box<dyn Home>,
    /// `None` only while it is being reopened.
    store: Option<Arc<dyn Store>>,
    /// The current lease.
    pub(crate) epoch: Epoch,
    /// The last token used.
    token: AtomicU64,
}

/// Everything a store shows; equal before and after a write that changes nothing.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Snapshot {
    instances: Vec<(Instance, Vec<Entry>, Vec<Inbound>, QueuePage)>,
    wakes: Vec<Wake>,
    feed: Vec<FeedItem>,
    /// For each job that exists or existed.
    jobs: Vec<(Name, Depth, Vec<Dead>)>,
}

impl Snapshot {
    /// Removes the lifecycle events of an instance that is gone.
    pub(crate) fn without_events_of(mut self, num: InstanceNum) -> Self {
        self.feed.retain(|item| item.num != num);
        self
    }
}

/// Opening, leasing, and crashing.
impl World {
    pub(crate) async fn open(home: Box<dyn Home>) -> Checked<Self> {
        let store = Some(home.open().await?);
        let mut world = Self { home, store, epoch: Epoch(0), token: AtomicU64::new(0) };
        world.lease(at(0)).await?;
        Ok(world)
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("a case ends when opening the store fails")
    }

    pub(crate) async fn lease(&mut self, now: Timestamp) -> Checked<Epoch> {
        self.epoch = in_words(self.store().lease(now).await)?;
        Ok(self.epoch)
    }

    pub(crate) async fn release(&self, epoch: Epoch) -> Checked {
        in_words(self.store().release(epoch).await)
    }

    /// Reopens the store without a lease, as if the process had died.
    pub(crate) async fn die(&mut self) -> Checked {
        self.store = None;
        self.store = Some(self.home.open().await?);
        Ok(())
    }

    /// Crashes and leases again at `now`.
    pub(crate) async fn restart(&mut self, now: Timestamp) -> Checked<Epoch> {
        self.die().await?;
        self.lease(now).await
    }
}

/// Writing.
impl World {
    pub(crate) async fn batch(&self, writes: Vec<Write>) -> Checked<Vec<Answer>> {
        let count = writes.len();
        let answers = in_words(self.store().write(Arc::new(writes)).await)?;
        same(&answers.len(), &count)?;
        Ok(answers)
    }

    pub(crate) async fn write(&self, write: Write) -> Checked<Answer> {
        self.batch(vec![write]).await?.pop().ok_or_else(|| "no result".to_owned())
    }

    pub(crate) async fn start(&self, start: &StartWrite) -> Checked<Answer> {
        self.write(Write::Start(start.clone())).await
    }

    pub(crate) async fn send(&self, send: &SendWrite) -> Checked<Answer> {
        self.write(Write::Message(send.clone())).await
    }

    pub(crate) async fn commit(&self, commit: &Commit) -> Checked<Answer> {
        self.write(Write::Commit(commit.clone())).await
    }

    pub(crate) async fn reopen(&self, id: &str, at: Timestamp) -> Checked<Answer> {
        self.write(Write::Reopen(Reopen { id: name(id), num: None, at })).await
    }

    pub(crate) async fn purge(&self, id: &str) -> Checked<Answer> {
        self.write(Write::Purge(name(id), None)).await
    }

    pub(crate) async fn claim(&self, nums: &[InstanceNum]) -> Checked<Vec<Claimed>> {
        let claim = Claim { nums: nums.to_vec(), epoch: self.epoch, at: NOW };
        match self.write(Write::Claim(claim)).await? {
            Answer::Claimed(claimed) => Ok(claimed),
            other => Err(format!("a claim returned {other:?}")),
        }
    }
}

/// Values to write.
impl World {
    pub(crate) fn token(&self) -> u64 {
        self.token.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A start of `id` that is due and has no owner.
    pub(crate) fn new_start(&self, id: &str) -> StartWrite {
        StartWrite {
            deadline: None,
            parent: None,
            id: name(id),
            workflow: name("checkout"),
            input: json("1"),
            origin: None,
            seed: 7,
            tags: BTreeMap::new(),
            at: NOW,
            due: NOW,
            on_conflict: OnConflict::Join,
            token: self.token(),
            owner: Epoch(0),
        }
    }

    pub(crate) fn new_send(&self, id: &str, message: Message) -> SendWrite {
        SendWrite { id: name(id), num: None, message, at: NOW, dedup: None, token: self.token() }
    }

    /// `count` entries after `seq_before`, without a new state.
    pub(crate) fn new_commit(&self, num: InstanceNum, seq_before: u64, count: u64) -> Commit {
        let entries = (1..=count).map(|more| step_done(seq_before + more)).collect();
        Commit { writes: Vec::new(), num, epoch: self.epoch, seq_before, entries, taken: Vec::new(), state: None }
    }

    /// A new state without entries.
    pub(crate) fn new_state(&self, num: InstanceNum, seq_before: u64, state: NewState) -> Commit {
        Commit { state: Some(state), ..self.new_commit(num, seq_before, 0) }
    }
}

/// Instances in a given state.
impl World {
    async fn started(&self, start: StartWrite) -> Checked<InstanceNum> {
        match self.start(&start).await? {
            Answer::Started { num, created: true, .. } => Ok(num),
            other => Err(format!("the start of {:?} returned {other:?}", start.id)),
        }
    }

    pub(crate) async fn pending(&self, id: &str) -> Checked<InstanceNum> {
        self.started(self.new_start(id)).await
    }

    pub(crate) async fn driven(&self, id: &str) -> Checked<InstanceNum> {
        self.started(StartWrite { owner: self.epoch, ..self.new_start(id) }).await
    }

    /// An instance with an empty journal, in the given state.
    pub(crate) async fn with_state(&self, id: &str, state: NewState) -> Checked<InstanceNum> {
        let num = self.driven(id).await?;
        same(&self.commit(&self.new_state(num, 0, state)).await?, &Answer::Done)?;
        Ok(num)
    }

    pub(crate) async fn with_status(&self, id: &str, status: Status) -> Checked<InstanceNum> {
        self.with_state(id, released(status)).await
    }

    pub(crate) async fn paused_until(&self, id: &str, until: Timestamp) -> Checked<InstanceNum> {
        self.with_state(id, asleep(until)).await
    }

    /// Sends a signal, which must be accepted, and returns its position.
    pub(crate) async fn signalled(&self, id: &str, text: &str) -> Checked<u64> {
        match self.send(&self.new_send(id, signal(text))).await? {
            Answer::Sent { pos, is_new: true, .. } => Ok(pos),
            other => Err(format!("a signal to {id:?} returned {other:?}")),
        }
    }
}

/// Reading.
impl World {
    pub(crate) async fn find(&self, id: &str) -> Checked<Option<Instance>> {
        in_words(self.store().instance(&name(id)).await)
    }

    pub(crate) async fn held(&self, id: &str) -> Checked<Instance> {
        self.find(id).await?.ok_or_else(|| format!("{id:?} does not exist"))
    }

    pub(crate) async fn journal(&self, num: InstanceNum) -> Checked<Vec<Entry>> {
        in_words(self.store().journal(num, 0, usize::MAX).await)
    }

    pub(crate) async fn inbox(&self, num: InstanceNum) -> Checked<Vec<Inbound>> {
        in_words(self.store().inbox(num, 0, usize::MAX).await)
    }

    /// Returns the payloads of the signals in an inbox.
    pub(crate) async fn signals(&self, num: InstanceNum) -> Checked<Vec<String>> {
        Ok(self.inbox(num).await?.iter().map(|inbound| text_of(&inbound.message)).collect())
    }

    pub(crate) async fn wakes(&self) -> Checked<Vec<Wake>> {
        in_words(self.store().wakes(Timestamp::MAX, usize::MAX).await)
    }

    pub(crate) async fn all(&self) -> Checked<Vec<Instance>> {
        Ok(in_words(self.store().list(&Filter::all(), None, 1_000_000).await)?.instances)
    }

    pub(crate) async fn snapshot(&self) -> Checked<Snapshot> {
        let mut instances = Vec::new();
        for instance in self.all().await? {
            let (entries, inbox) = (self.journal(instance.num).await?, self.inbox(instance.num).await?);
            let read = QueueRead { now: Timestamp::MAX, after: None, limit: 1_000 };
            let queue = in_words(self.store().queue(instance.num, read).await)?;
            instances.push((instance, entries, inbox, queue));
        }
        let feed = in_words(self.store().feed(0, 1_000_000).await)?;
        let names: BTreeSet<&Name> = (feed.iter().map(|item| &item.workflow))
            .chain(instances.iter().map(|(instance, ..)| &instance.workflow))
            .filter(|workflow| JobKind::of(workflow).is_some())
            .collect();
        let mut jobs = Vec::new();
        for job in names {
            let depth = in_words(self.store().depth(job, NOW).await)?;
            jobs.push((job.clone(), depth, in_words(self.store().dead(job, 0, 1_000).await)?));
        }
        Ok(Snapshot { instances, wakes: self.wakes().await?, feed, jobs })
    }
}

/// Checks that two values are the same by their debug output: not all of them can be compared.
#[track_caller]
pub(crate) fn same<T: Debug + ?Sized>(got: &T, want: &T) -> Checked {
    let (got, want) = (format!("{got:?}"), format!("{want:?}"));
    ensure(got == want, || format!("found {}, expected {}", short(&got), short(&want)))
}

#[track_caller]
pub(crate) fn ensure(is_so: bool, found: impl FnOnce() -> String) -> Checked {
    let place = Location::caller();
    if is_so { Ok(()) } else { Err(format!("{}:{}: {}", place.file(), place.line(), found())) }
}

#[track_caller]
pub(crate) fn refused(answer: &Answer, why: Refusal) -> Checked {
    same(answer, &Answer::Refused(why))
}

/// Turns a store's error into a finding.
pub(crate) fn in_words<T>(answered: Result<T, outlive_core::store::Error>) -> Checked<T> {
    answered.map_err(|error| format!("{:?}: {}", error.kind, error.message))
}

fn short(text: &str) -> String {
    match text.char_indices().nth(1_500) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn name(text: &str) -> Name {
    Name::recorded(text)
}

pub(crate) fn json(text: &str) -> Payload {
    Payload::recorded(text)
}

pub(crate) fn signal(text: &str) -> Message {
    Message::Signal { name: name("paid"), payload: json(&format!("\"{text}\"")) }
}

pub(crate) fn cancel(reason: &str) -> Message {
    Message::Cancel { reason: reason.to_owned() }
}

fn text_of(message: &Message) -> String {
    match message {
        Message::Signal { payload, .. } => payload.as_str().trim_matches('"').to_owned(),
        other => format!("{other:?}"),
    }
}

pub(crate) fn step_done(seq: u64) -> Entry {
    Entry { op: format!("step {seq}").into(), attempt: 1, payload: Some(json("true")), ..of_run(seq) }
}

pub(crate) fn of_run(seq: u64) -> Entry {
    Entry::of_run(seq, NOW, EntryKind::StepDone)
}

/// A state without an owner or a wake.
pub(crate) fn released(status: Status) -> NewState {
    NewState { status, wake: None, is_owned: false, seen: None, outcome: None, note: None, at: NOW }
}

/// A running state that keeps its owner.
pub(crate) fn driven_on() -> NewState {
    NewState { is_owned: true, ..released(Status::Running) }
}

/// A sleeping state with a wake.
pub(crate) fn asleep(until: Timestamp) -> NewState {
    let status = Status::Sleeping { until };
    NewState { wake: Some(until), ..released(status) }
}

pub(crate) const BY_HAND: Status = Status::Paused;
pub(crate) const WAITING: Status = Status::Waiting { until: None };
