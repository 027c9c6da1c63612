//! What is written: each variant is one all-or-nothing change, and the answer to it.

use std::collections::BTreeMap;

pub use crate::id::Epoch;
use crate::id::{InstanceNum, Name};
use crate::journal::Entry;
use crate::lifecycle::News;
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::query::Instance;
use crate::queue::{Bury, Dead, Moved, Push};
use crate::status::Status;
use crate::time::Timestamp;

/// One change. The same write again, after an answer was lost, changes nothing and is answered as the first time.
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// # let store = outlive_core::memory::MemoryStore::new();
/// use outlive_core::commit::{Answer, Refusal, Write};
/// use outlive_core::id::Name;
/// use outlive_core::store::Store;
/// # use std::sync::Arc;
///
/// let batch = vec![Write::Purge(Name::recorded("order-42"), None)];
/// let answers = store.write(Arc::new(batch)).await?;
/// assert!(matches!(answers[..], [Answer::Refused(Refusal::NotFound)]));
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Write {
    /// Bring an instance into being.
    Start(Start),
    /// Put a message in an inbox.
    Send(Send),
    /// All that one message or completion changes in a run.
    Commit(Commit),
    /// Take instances in order to drive them.
    Claim(Claim),
    /// Have a failed or stuck instance go on.
    Reopen(Reopen),
    /// Remove all that is kept of an ended or stuck instance; with a number, only if it is the one that has it: another
    /// may have its id by now.
    Purge(Name, Option<InstanceNum>),
    /// Give events to a job.
    Push(Push),
    /// All that one turn of a job changes.
    Turn(Box<Turn>),
    /// Try dead letters again, or drop them.
    Bury(Bury),
    /// Remember a number under a name: how far a reader of the feed has come.
    Mark(Name, u64),
    /// Forget the oldest lines of the feed: a few thousand of them at once.
    Trim(Trim),
    /// Set the recoveries of instances back, because the process did not die while it drove them.
    Absolve(Absolve),
}

/// How much of the feed is forgotten: what lies before its first line of the time that is kept. Entries of journals
/// stay.
///
/// A clock may have been wrong, so a line dated after `now` does not count: it is as old as the lines around it, and
/// does not keep them.
///
/// ```
/// use outlive_core::commit::{Age, Trim};
/// # use outlive_core::time::Timestamp;
/// let at = Timestamp::from_millis;
/// let trim = Trim { before: at(100), now: at(200) };
/// assert_eq!([50, 150, 250].map(|millis| trim.age(at(millis))), [Age::Old, Age::Kept, Age::Ahead]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trim {
    /// Lines of an earlier time are forgotten.
    pub before: Timestamp,
    /// What the clock shows.
    pub now: Timestamp,
}

/// The age of a line of the feed, as a [`Trim`] sees it.
///
/// ```
/// # use outlive_core::{commit::{Age, Trim}, time::Timestamp};
/// let all = Trim { before: Timestamp::MAX, now: Timestamp::MAX };
/// assert_eq!(all.age(Timestamp::from_millis(0)), Age::Old);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Age {
    /// It is forgotten, and so is what lies before it.
    Old,
    /// It stays, and so does what lies after it.
    Kept,
    /// Its date is in the future and says nothing.
    Ahead,
}

impl Trim {
    /// Returns the age of a line of this date.
    ///
    /// ```
    /// # use outlive_core::{commit::{Age, Trim}, time::Timestamp};
    /// let trim = Trim { before: Timestamp::from_millis(100), now: Timestamp::from_millis(200) };
    /// assert_eq!(trim.age(Timestamp::from_millis(100)), Age::Kept);
    /// ```
    #[must_use]
    pub fn age(&self, at: Timestamp) -> Age {
        match at {
            _ if at < self.before => Age::Old,
            _ if at <= self.now => Age::Kept,
            _ => Age::Ahead,
        }
    }
}

/// A new instance.
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// # let store = outlive_core::memory::MemoryStore::new();
/// # use outlive_core::commit::{Answer, Epoch, OnConflict, Start, Write};
/// # use outlive_core::{id::Name, payload::Payload, store::Store, time::Timestamp};
/// let at = Timestamp::from_millis(1_700_000_000_000);
/// let start = Start {
///     id: Name::recorded("order-42"),
///     workflow: Name::recorded("checkout"),
///     input: Payload::recorded(r#"{"amount":42}"#),
///     seed: 7,
///     tags: [("shop".to_owned(), "paris".to_owned())].into(),
///     at,
///     due: at,
///     on_conflict: OnConflict::Join,
///     token: 1,
///     owner: Epoch(0),
/// };
/// let answers = store.write(vec![Write::Start(start)].into()).await?;
/// assert!(matches!(answers[..], [Answer::Started { created: true, .. }]));
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
#[derive(Clone, Debug)]
pub struct Start {
    /// The id, unique among what the store holds.
    pub id: Name,
    /// The workflow's registered name.
    pub workflow: Name,
    /// The input as JSON.
    pub input: Payload,
    /// Where the run's random streams begin; chosen once.
    pub seed: u64,
    /// Labels to find it by.
    pub tags: BTreeMap<String, String>,
    /// When it was accepted.
    pub at: Timestamp,
    /// When it may begin; `at` or earlier means at once.
    pub due: Timestamp,
    /// What to do if the id is taken.
    pub on_conflict: OnConflict,
    /// Random; tells this start from another one of the same id when an answer was lost.
    pub token: u64,
    /// The epoch that drives it from birth (no claim needed), if it is due and there is room; else [`Epoch(0)`](Epoch).
    pub owner: Epoch,
}

impl Start {
    /// The birth of the instance that a push is for, if there is none.
    ///
    /// ```
    /// # use outlive_core::{commit::Start, id::Name, queue::{Place, Push}, time::Timestamp};
    /// # let (id, job) = (Name::recorded("task:orders:42"), Name::recorded("task:orders"));
    /// let push = Push { id, job, events: vec![], place: Place::Inbox, at: Timestamp::from_millis(1), seed: 7, token: 1 };
    /// assert_eq!(Start::of_push(&push).workflow, push.job);
    /// ```
    #[must_use]
    pub fn of_push(push: &Push) -> Self {
        Self {
            id: push.id.clone(),
            workflow: push.job.clone(),
            input: Payload::recorded("null"),
            seed: push.seed,
            tags: BTreeMap::new(),
            at: push.at,
            due: Timestamp::AT_ONCE,
            on_conflict: OnConflict::Join,
            token: push.token,
            owner: Epoch(0),
        }
    }
}

/// What a start does when its id is taken.
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
/// # use outlive_core::commit::{Answer, Refusal};
/// let again = Start { token: 2, on_conflict: OnConflict::Reject, ..start };
/// let answers = store.write(vec![Write::Start(again)].into()).await?;
/// assert!(matches!(answers[..], [Answer::Refused(Refusal::Taken)]));
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OnConflict {
    /// Give the existing run if workflow and input are the same; refuse if they differ.
    #[default]
    Join,
    /// Refuse.
    Reject,
    /// End and remove the existing run, whatever its state, and start this one.
    Replace,
}

/// A message for an instance. Refused if there is none or it has ended. Unless somebody in this process drives the
/// instance, it is made due [at once](Timestamp::AT_ONCE) in the same write, so no accepted message waits for another event;
/// if another process drives it or the message is to end it, [ahead of all else](crate::query::Wake::of_message).
/// One that is pending keeps its time, unless the message is to end it.
/// A stuck instance keeps signals but is not woken; a cancel or terminate ends it at once; pause and resume are refused.
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
/// # use outlive_core::commit::{Answer, Send};
/// # use outlive_core::message::Message;
/// let message = Message::Signal { name: Name::recorded("paid"), payload: Payload::recorded("42") };
/// let send = Send { id: start.id, num: None, message, at, dedup: None, token: 2 };
/// let answers = store.write(vec![Write::Send(send)].into()).await?;
/// assert!(matches!(answers[..], [Answer::Sent { is_new: true, .. }]));
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
#[derive(Clone, Debug)]
pub struct Send {
    /// To whom.
    pub id: Name,
    /// If given, only to this bearer of the id.
    pub num: Option<InstanceNum>,
    /// What.
    pub message: Message,
    /// When it was accepted.
    pub at: Timestamp,
    /// A second message to the same instance with the same key is not kept.
    pub dedup: Option<Name>,
    /// Random; tells this message from an equal one when an answer was lost.
    pub token: u64,
}

/// All that one message or completion changes in a run. Applied whole or not at all. Fenced unless `epoch` is that of
/// the current lease, the instance is there, has not ended, is not stuck, and `seq_before` is its last number.
/// Entries are progress: they set its count of recoveries back to 0.
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// # let store = outlive_core::memory::MemoryStore::new();
/// # use outlive_core::commit::{Answer, Commit, Epoch, Write};
/// # use outlive_core::id::InstanceNum;
/// # use outlive_core::store::Store;
/// let commit = Commit {
///     num: InstanceNum(1),
///     epoch: Epoch(1),
///     seq_before: 0,
///     entries: vec![],
///     taken: vec![],
///     state: None,
/// };
/// let answers = store.write(vec![Write::Commit(commit)].into()).await?;
/// assert!(matches!(answers[..], [Answer::Fenced]), "nobody has the lease");
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
#[derive(Clone, Debug)]
pub struct Commit {
    /// Which instance.
    pub num: InstanceNum,
    /// Under which lease.
    pub epoch: Epoch,
    /// The last sequence number before these entries.
    pub seq_before: u64,
    /// What is added to the journal; dense from `seq_before + 1`.
    pub entries: Vec<Entry>,
    /// Inbox positions that these entries take.
    pub taken: Vec<u64>,
    /// The new state, if it changes.
    pub state: Option<State>,
}

/// A new state of an instance.
///
/// ```
/// use outlive_core::commit::State;
/// use outlive_core::payload::Payload;
/// use outlive_core::status::Status;
/// # use outlive_core::time::Timestamp;
///
/// let end = State {
///     status: Status::Completed,
///     wake: None,
///     is_owned: false,
///     seen: Some(3),
///     outcome: Some(Payload::recorded("42")),
///     note: None,
///     at: Timestamp::from_millis(0),
/// };
/// assert!(end.status.is_ended() && !end.is_owned);
/// ```
#[derive(Clone, Debug)]
pub struct State {
    /// Its status.
    pub status: Status,
    /// When to wake it if nobody drives it: replaces any earlier wake. Not for ended or stuck ones.
    pub wake: Option<Timestamp>,
    /// Whether the committing epoch goes on driving it. If not, it is released.
    pub is_owned: bool,
    /// The last inbox position its owner has seen. If there is a later message, the whole commit is refused as
    /// [`Answer::Unseen`], so that no pause and no end passes a message by. `None`: do not look.
    pub seen: Option<u64>,
    /// The result or the failure, once ended.
    pub outcome: Option<Payload>,
    /// A sentence for people: why it is stuck, why it was cancelled.
    pub note: Option<String>,
    /// When this happened.
    pub at: Timestamp,
}

/// All that one turn of a job changes. Applied whole or not at all. Fenced unless `epoch` is that of the current lease,
/// the instance is there, is neither ended nor stuck, and has told the world `before` times so far.
///
/// ```
/// use outlive_core::commit::{Epoch, Turn};
/// use outlive_core::id::InstanceNum;
///
/// let turn = Turn { taken: vec![3], ..Turn::new(InstanceNum(1), Epoch(1), 0) };
/// assert!(turn.news.is_empty() && !turn.is_removed);
/// ```
#[derive(Clone, Debug)]
pub struct Turn {
    /// Which instance.
    pub num: InstanceNum,
    /// Under which lease.
    pub epoch: Epoch,
    /// How often it has told the world of something before: the number of its last news.
    pub before: u64,
    /// What it tells the world.
    pub news: Vec<News>,
    /// Inbox positions that are done with.
    pub taken: Vec<u64>,
    /// What becomes of events in its queue.
    pub queue: Vec<Moved>,
    /// What is given up, and kept for people to look at.
    pub dead: Vec<Dead>,
    /// Answers to events that ask for one, by their position.
    pub replies: Vec<(u64, Payload)>,
    /// Dedup keys of messages up to this position are forgotten; 0 forgets none.
    pub keys_until: u64,
    /// What it sends: pushes, messages and starts. If one is refused, so is the whole turn. What it sends to itself
    /// makes it due at once, unless it is driven on.
    pub writes: Vec<Write>,
    /// The new state, if it changes. Its `outcome` is the record that the job keeps. If it lets the instance go, and not
    /// by hand, what lies in its queue has it wake, whatever its owner has seen of that.
    pub state: Option<State>,
    /// Whether nothing of the instance is to be left: neither state, inbox, queue nor wake.
    pub is_removed: bool,
}

impl Turn {
    /// One that changes nothing yet.
    ///
    /// ```
    /// # use outlive_core::{commit::{Epoch, Turn}, id::InstanceNum};
    /// assert_eq!(Turn::new(InstanceNum(1), Epoch(2), 3).before, 3);
    /// ```
    #[must_use]
    pub fn new(num: InstanceNum, epoch: Epoch, before: u64) -> Self {
        Self {
            num,
            epoch,
            before,
            news: Vec::new(),
            taken: Vec::new(),
            queue: Vec::new(),
            dead: Vec::new(),
            replies: Vec::new(),
            keys_until: 0,
            writes: Vec::new(),
            state: None,
            is_removed: false,
        }
    }
}

/// Instances to be driven by an epoch.
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
/// use outlive_core::commit::{Answer, Claim};
/// use outlive_core::id::InstanceNum;
///
/// let epoch = store.lease(at).await?;
/// let claim = Claim { nums: vec![InstanceNum(1)], epoch, at };
/// let answers = store.write(vec![Write::Claim(claim)].into()).await?;
/// assert!(matches!(&answers[..], [Answer::Claimed(claimed)] if claimed[0].is_first));
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
#[derive(Clone, Debug)]
pub struct Claim {
    /// Which: those that are pending and due, running or paused, and not driven under another epoch, are claimed; the
    /// others are left out. Who asks for what is its own already has lost the answer, and gets it again.
    pub nums: Vec<InstanceNum>,
    /// By whom.
    pub epoch: Epoch,
    /// When.
    pub at: Timestamp,
}

/// Instances that were driven for a while, and the process lives: their [recoveries](Instance::recoveries) are set back,
/// and they are not blamed any more. Those that are gone, ended or stuck are passed over.
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// # let store = outlive_core::memory::MemoryStore::new();
/// # use outlive_core::commit::{Absolve, Answer, Epoch, Write};
/// # use outlive_core::{id::InstanceNum, store::Store, time::Timestamp};
/// let epoch = store.lease(Timestamp::from_millis(0)).await?;
/// let absolve = Absolve { nums: vec![InstanceNum(1)], epoch, recoveries_max: 0 };
/// assert!(matches!(store.write(vec![Write::Absolve(absolve)].into()).await?[..], [Answer::Done]));
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
#[derive(Clone, Debug)]
pub struct Absolve {
    /// Which.
    pub nums: Vec<InstanceNum>,
    /// By whom; fenced unless it is that of the current lease.
    pub epoch: Epoch,
    /// How many recoveries stay. Those that have no more are left as they are.
    pub recoveries_max: u32,
}

/// A claimed instance with all that is needed to drive it.
///
/// ```
/// use outlive_core::commit::Claimed;
///
/// /// Why an instance cannot be driven, if it cannot.
/// fn damage(claimed: &Claimed) -> Option<&str> {
///     claimed.journal.as_ref().err().or(claimed.inbox.as_ref().err()).map(String::as_str)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Claimed {
    /// Whether nobody has driven it before.
    pub is_first: bool,
    /// Whether it had paused by itself: its code has run as far as its journal goes.
    pub had_paused: bool,
    /// Its row, as it is now that it is claimed (status `Running`, unless it was paused by hand: that stays).
    pub instance: Instance,
    /// Its journal, or what is wrong with it.
    pub journal: Result<Vec<Entry>, String>,
    /// Its inbox in order of arrival, or what is wrong with it.
    pub inbox: Result<Vec<Inbound>, String>,
}

/// Has a failed or stuck instance go on: adds [`Entry::reopened`], makes it pending and due.
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
/// # use outlive_core::commit::{Answer, Refusal, Reopen};
/// # use outlive_core::status::Status;
/// let reopen = Reopen { id: start.id, num: None, at };
/// let answers = store.write(vec![Write::Reopen(reopen)].into()).await?;
/// assert!(matches!(answers[..], [Answer::Refused(Refusal::Status(Status::Pending))]), "it has not failed");
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
#[derive(Clone, Debug)]
pub struct Reopen {
    /// Which.
    pub id: Name,
    /// Its number, if another of this id is not meant.
    pub num: Option<InstanceNum>,
    /// When.
    pub at: Timestamp,
}

/// The answer to one write of a batch.
///
/// ```
/// use outlive_core::commit::{Answer, Refusal};
/// use outlive_core::id::InstanceNum;
///
/// fn started(answer: Answer) -> Result<InstanceNum, Option<Refusal>> {
///     match answer {
///         Answer::Started { num, .. } => Ok(num),
///         Answer::Refused(why) => Err(Some(why)),
///         _ => Err(None),
///     }
/// }
/// assert_eq!(started(Answer::Refused(Refusal::Taken)), Err(Some(Refusal::Taken)));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// To a start.
    Started {
        /// The instance of that id.
        num: InstanceNum,
        /// Whether this start brought it into being.
        created: bool,
        /// Whether it is the owner's to drive at once: that owner holds the lease.
        is_driven: bool,
    },
    /// To a message: it lies in the inbox.
    Sent {
        /// Whose inbox.
        num: InstanceNum,
        /// Where in it; of the first message with this dedup key, 0 if that is not known any more.
        pos: u64,
        /// The last message before it that is not taken, or one that was; 0 if there is none. Who does not know that
        /// one has missed something.
        before: u64,
        /// Whether this send put it there.
        is_new: bool,
    },
    /// To a commit, a reopening, a purge: done.
    Done,
    /// To a commit: refused, because the lease or the instance is not the writer's any more.
    Fenced,
    /// To a commit with a new state: refused, because there are messages it has not seen; here they are.
    Unseen(Vec<Inbound>),
    /// To a push: the events lie with the instance.
    Pushed {
        /// Whose they are.
        num: InstanceNum,
        /// Whether this push brought the instance into being.
        created: bool,
        /// The position of each event, in their order; 0 if one with its dedup key is there already.
        positions: Vec<u64>,
        /// As in [`Answer::Sent`].
        before: u64,
    },
    /// To a turn: done, and so is all that it sent, in its order.
    Turned(Vec<Answer>),
    /// To what is to become of dead letters: how many there were, and whose they are again.
    Buried {
        /// How many.
        count: u64,
        /// The instances that have them again, once each.
        nums: Vec<InstanceNum>,
    },
    /// To a trim: how many lines are gone; none once nothing older is left.
    Trimmed(u64),
    /// To a claim: what was claimed, in the order asked for.
    Claimed(Vec<Claimed>),
    /// Refused for what the store holds; nothing was changed.
    Refused(Refusal),
}

impl Answer {
    /// Whether it says that something new lies with this instance.
    ///
    /// ```
    /// use outlive_core::commit::Answer;
    /// use outlive_core::id::InstanceNum;
    ///
    /// let answer = Answer::Sent { num: InstanceNum(1), pos: 7, before: 0, is_new: true };
    /// assert!(answer.reaches(InstanceNum(1)) && !answer.reaches(InstanceNum(2)));
    /// ```
    #[must_use]
    pub fn reaches(&self, num: InstanceNum) -> bool {
        match self {
            Self::Sent { num: whose, is_new, .. } => *whose == num && *is_new,
            Self::Pushed { num: whose, positions, .. } => *whose == num && positions.iter().any(|pos| *pos > 0),
            Self::Buried { nums, .. } => nums.contains(&num),
            _ => false,
        }
    }
}

/// Why a write was refused.
///
/// ```
/// use outlive_core::commit::{Answer, Refusal};
///
/// let answer = Answer::Refused(Refusal::NotFound);
/// assert!(matches!(answer, Answer::Refused(Refusal::NotFound)));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such instance.
    NotFound,
    /// It has ended, or is not in a state for this.
    Status(Status),
    /// The id belongs to a run of another workflow or with another input.
    Conflict {
        /// The workflow it belongs to.
        workflow: Name,
    },
    /// The id is taken and the start said [`OnConflict::Reject`].
    Taken,
}
