//! Writes to a store, each one an all-or-nothing change, and their results.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::checksum::Sum;
use crate::child::{ChildOutcome, Parent};
pub use crate::id::Epoch;
use crate::id::{InstanceNum, Name};
use crate::journal::{Entry, EntryKind};
use crate::lifecycle::LifecycleRecord;
use crate::message::{Inbound, Message};
use crate::origin::RunOrigin;
use crate::output::OutputWrite;
use crate::payload::Payload;
use crate::queue::{Dead, Moved, PushWrite, ResolveDeadLetters};
use crate::status::Status;
use crate::store::expire::{Expire, ExpireMark};
use crate::store::query::Instance;
use crate::time::Timestamp;

/// One change. Writing it again after a lost reply changes nothing and returns the same result as the first time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Write {
    /// Creates an instance.
    Start(StartWrite),
    /// Puts a message into an inbox.
    Message(SendWrite),
    /// Applies everything that one message or outcome changes in a run.
    Commit(Commit),
    /// Claims instances in order to drive them.
    Claim(Claim),
    /// Resumes a failed or stuck instance.
    Reopen(Reopen),
    /// Rewinds a run.
    Rewind(Box<RewindWrite>),
    /// Creates a run from the beginning of another one.
    Fork(Box<ForkWrite>),
    /// Removes everything stored about an ended or stuck instance. With a number, only if the id still belongs to that
    /// instance: another one may have it by now.
    Purge(Name, Option<InstanceNum>),
    /// Pushes events to a job.
    Push(PushWrite),
    /// Applies everything that one turn of a job changes.
    Turn(Box<Turn>),
    /// Retries or discards dead letters.
    ResolveDeadLetters(ResolveDeadLetters),
    /// Stores a number under a name: the position of a feed subscriber.
    Mark(Name, u64),
    /// Removes the oldest lifecycle events from the feed, a few thousand at a time.
    Trim(Trim),
    /// Removes runs that ended long ago.
    Expire(Box<Expire>),
    /// Resets the recoveries of instances because the process did not die while driving them.
    Absolve(Absolve),
    /// Gives something out of a run, for others to read.
    Output(Box<OutputWrite>),
}

impl Write {
    /// Returns `true` if it sends a [notice](Message::is_notice), or is an output that no store refuses.
    #[must_use]
    pub fn is_notice(&self) -> bool {
        match self {
            Self::Message(send) => send.message.is_notice(),
            Self::Output(output) => !output.is_limited(),
            _ => false,
        }
    }
}

/// The part of the feed to remove: everything before its first event within the retention period. Journal entries stay.
///
/// A clock may have been wrong, so an event dated after `now` does not count: it is treated as being as old as the
/// events around it and does not keep them.
///
/// ```
/// use outlive_core::store::commit::{Age, Trim};
/// # use outlive_core::time::Timestamp;
/// let at = Timestamp::from_millis;
/// let trim = Trim { before: at(100), now: at(200) };
/// assert_eq!([50, 150, 250].map(|millis| trim.age(at(millis))), [Age::Old, Age::Kept, Age::Ahead]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trim {
    /// Events before this time are removed.
    pub before: Timestamp,
    /// The current time.
    pub now: Timestamp,
}

/// The age of an event of the feed, as seen by a [`Trim`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Age {
    /// The event is removed, and so is everything before it.
    Old,
    /// The event stays, and so does everything after it.
    Kept,
    /// The event is dated in the future, which says nothing about its age.
    Ahead,
}

impl Trim {
    /// Returns the age of an event with this timestamp.
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
#[derive(Clone, Debug)]
pub struct StartWrite {
    /// The id, unique in the store.
    pub id: Name,
    /// The registered name of the workflow.
    pub workflow: Name,
    /// The input as JSON.
    pub input: Payload,
    /// Where it comes from.
    pub origin: Option<Arc<RunOrigin>>,
    /// The seed of the random streams of the run; chosen once.
    pub seed: u64,
    /// Labels for searching.
    pub tags: BTreeMap<String, String>,
    /// When it was accepted.
    pub at: Timestamp,
    /// When it may start; `at` or earlier means immediately.
    pub due: Timestamp,
    /// What to do if the id is already in use.
    pub on_conflict: OnConflict,
    /// Random; distinguishes this start from another one with the same id when a reply was lost.
    pub token: u64,
    /// The epoch that drives the instance from the start, without a claim, if it is due and there is capacity;
    /// otherwise [`Epoch(0)`](Epoch).
    pub owner: Epoch,
    /// The run that it is a child of, if it is one.
    pub parent: Option<Parent>,
    /// When it is cancelled if it has not ended.
    pub deadline: Option<Timestamp>,
}

impl StartWrite {
    /// Creates the start of the instance a push is for, in case it does not exist.
    #[must_use]
    pub fn of_push(push: &PushWrite) -> Self {
        Self {
            id: push.id.clone(),
            workflow: push.job.clone(),
            input: Payload::recorded("null"),
            origin: None,
            seed: push.seed,
            tags: BTreeMap::new(),
            at: push.at,
            due: Timestamp::AT_ONCE,
            on_conflict: OnConflict::Join,
            token: push.token,
            owner: Epoch(0),
            parent: None,
            deadline: None,
        }
    }
}

/// What a start does if its id is already in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OnConflict {
    /// Returns the existing run if workflow and input are the same; refuses the start if they differ.
    #[default]
    Join,
    /// Refuses the start.
    Reject,
    /// Ends and removes the existing run, whatever its status, and starts this one. Refused if the run is a child that
    /// has not ended, because its parent waits for it.
    Replace,
}

/// A message to an instance. Refused if the instance does not exist or has ended.
///
/// Unless this process drives the instance, the same write makes it due [immediately](Timestamp::AT_ONCE), so no
/// accepted message waits for another event; if another process drives it or the message ends it, it is due [before
/// everything else](crate::store::query::Wake::of_message). A pending run keeps its start time, unless the message ends it. A
/// stuck instance keeps signals but is not woken; a cancel or terminate ends it immediately; pause and resume are
/// refused.
#[derive(Clone, Debug)]
pub struct SendWrite {
    /// The receiving instance.
    pub id: Name,
    /// If set, the message is only for the instance with this number.
    pub num: Option<InstanceNum>,
    /// The message.
    pub message: Message,
    /// When it was accepted.
    pub at: Timestamp,
    /// A second message to the same instance with the same key is dropped.
    pub dedup: Option<Name>,
    /// Random; distinguishes this message from an equal one when a reply was lost.
    pub token: u64,
}

impl SendWrite {
    /// Creates the message by which a parent learns how its child ended.
    #[must_use]
    pub fn child_ended(parent: &Parent, child: &Name, outcome: &ChildOutcome, token: u64, at: Timestamp) -> Self {
        let message = Message::ChildEnded { id: child.clone(), outcome: outcome.to_payload() };
        // The parent may have received the message that ended the child, whose token may be the same.
        let token = Sum::new().number(token).text(child.as_str()).whole();
        Self { id: parent.id.clone(), num: Some(parent.num), message, at, dedup: None, token }
    }

    /// Creates the message by which a run that was rewound learns again how a child ended.
    #[must_use]
    pub fn repeated_end(rewind: &RewindWrite, child: &Name, message: Message) -> Self {
        let token = Sum::new().number(rewind.num.0).number(rewind.entry.seq).text(child.as_str()).whole();
        let (id, num, at) = (rewind.id.clone(), Some(rewind.num), rewind.entry.at);
        Self { id, num, message, at, dedup: None, token }
    }
}

/// Everything that one message or outcome changes in a run, applied completely or not at all. Fenced unless `epoch`
/// holds the lease, the instance exists and is neither ended nor stuck, and `seq_before` is its last sequence number.
/// Entries count as [progress](Commit::is_progress): they reset its recoveries to 0.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The instance.
    pub num: InstanceNum,
    /// The epoch of the lease.
    pub epoch: Epoch,
    /// The last sequence number before these entries.
    pub seq_before: u64,
    /// The new journal entries; dense from `seq_before + 1`.
    pub entries: Vec<Entry>,
    /// Inbox positions of the messages that these entries take.
    pub taken: Vec<u64>,
    /// What it sends to other instances (starts, messages and pushes), and what it gives out. If one is refused, so is the whole commit
    /// ([`Answer::WriteRefused`]), unless it is a [notice](Message::is_notice).
    pub writes: Vec<Write>,
    /// The new state, if it changes.
    pub state: Option<NewState>,
}

impl Commit {
    /// Returns `true` if the instance has recorded something that it need not do again. A heartbeat is not: the attempt
    /// that sent it starts again, and may crash the process again.
    #[must_use]
    pub fn is_progress(&self) -> bool {
        self.entries.iter().any(|entry| entry.kind != EntryKind::Heartbeat)
    }
}

/// The new state of an instance.
#[derive(Clone, Debug)]
pub struct NewState {
    /// The status.
    pub status: Status,
    /// When to wake it if nobody drives it; replaces any earlier wake. Ignored for ended and stuck instances.
    pub wake: Option<Timestamp>,
    /// `true` if the committing epoch keeps driving it; otherwise it is released.
    pub is_owned: bool,
    /// The last inbox position its owner has seen. If there is a later message, the whole commit is refused with
    /// [`Answer::Unseen`], so no instance pauses or ends despite an unseen message. `None` skips the check.
    pub seen: Option<u64>,
    /// The result or failure, once ended.
    pub outcome: Option<Payload>,
    /// A note for people: why it is stuck or was cancelled.
    pub note: Option<String>,
    /// When the state changed.
    pub at: Timestamp,
}

/// Everything that one turn of a job changes, applied completely or not at all. Fenced unless `epoch` holds the lease,
/// the instance exists and is neither ended nor stuck, and `before` is the number of its last lifecycle event.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The instance.
    pub num: InstanceNum,
    /// The epoch of the lease.
    pub epoch: Epoch,
    /// The number of its last lifecycle event so far.
    pub before: u64,
    /// The lifecycle events it reports.
    pub lifecycle: Vec<LifecycleRecord>,
    /// Inbox positions of the messages that are done.
    pub taken: Vec<u64>,
    /// The changes to events in its queue.
    pub queue: Vec<Moved>,
    /// The events that were given up and become dead letters.
    pub dead: Vec<Dead>,
    /// Replies to events that asked for one, by position of the event.
    pub replies: Vec<(u64, Payload)>,
    /// Dedup keys of messages up to this position are removed; 0 removes none.
    pub keys_until: u64,
    /// What it sends: pushes, messages and starts. If one is refused, so is the whole turn ([`Answer::WriteRefused`]). What it sends to itself
    /// makes it due immediately, unless it stays driven.
    pub writes: Vec<Write>,
    /// The new state, if it changes. Its `outcome` is the record of the job. If it releases the instance, and not for a
    /// manual pause, the events in its queue wake it, whether its owner has seen them or not.
    pub state: Option<NewState>,
    /// `true` to remove the instance with its state, inbox, queue and wake.
    pub is_removed: bool,
}

impl Turn {
    /// Creates a turn that changes nothing yet.
    #[must_use]
    pub fn new(num: InstanceNum, epoch: Epoch, before: u64) -> Self {
        Self {
            num,
            epoch,
            before,
            lifecycle: Vec::new(),
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

/// A claim of instances by an epoch that wants to drive them.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The instances to claim. Those that are pending and due, running or paused, and not driven under another epoch,
    /// are claimed; the others are skipped. An instance that the epoch already owns is returned again: the first reply
    /// was lost.
    pub nums: Vec<InstanceNum>,
    /// The claiming epoch.
    pub epoch: Epoch,
    /// When the claim is made.
    pub at: Timestamp,
}

/// Instances that were driven for some time without the process dying: their [recoveries](Instance::recoveries) are
/// reset and they are no longer blamed. Instances that are gone, ended or stuck are skipped.
#[derive(Clone, Debug)]
pub struct Absolve {
    /// The instances.
    pub nums: Vec<InstanceNum>,
    /// The epoch of the owner; fenced unless it holds the lease.
    pub epoch: Epoch,
    /// The number of recoveries that stay. Instances with no more than that are left as they are.
    pub max_recoveries: u32,
}

/// A claimed instance with everything needed to drive it.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// `true` if the instance was never driven before.
    pub is_first: bool,
    /// `true` if it had paused by itself, so its code has run to the end of its journal.
    pub had_paused: bool,
    /// The instance after the claim: status `Running`, unless it is paused manually, which stays.
    pub instance: Instance,
    /// Its journal, or a description of the damage.
    pub journal: Result<Vec<Entry>, String>,
    /// Its inbox in order of arrival, or a description of the damage.
    pub inbox: Result<Vec<Inbound>, String>,
}

/// Resumes a failed or stuck instance: adds [`Entry::reopened`] and makes it pending and due.
#[derive(Clone, Debug)]
pub struct Reopen {
    /// The id of the instance.
    pub id: Name,
    /// If set, only the instance with this number is reopened.
    pub num: Option<InstanceNum>,
    /// When it is reopened.
    pub at: Timestamp,
}

/// Rewinds a run: adds [`Entry::rewound`], gives back the messages that it forgets, and makes it pending and due.
///
/// Refused with [`Refusal::Changed`] if the journal has grown since the rewind was
/// planned, and with the status of the run if it has never begun or is driven. A deadline that has passed is removed.
#[derive(Clone, Debug)]
pub struct RewindWrite {
    /// The id of the run.
    pub id: Name,
    /// The number of the run; the id may belong to another one by now.
    pub num: InstanceNum,
    /// The entry; it follows the last one that the plan was made from.
    pub entry: Entry,
    /// The messages that go back to the inbox, unless they are there.
    pub returned: Vec<Inbound>,
    /// The children that are kept and whose ends are not: the run gets a message for each that has ended, unless it is
    /// there.
    pub children: Vec<KeptChild>,
    /// What is sent to the children that are forgotten: [notices](Message::is_notice) only.
    pub writes: Vec<Write>,
}

/// A child that is kept and whose end is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptChild {
    /// Its id.
    pub id: Name,
    /// Its end as it was recorded, in case it is no longer stored.
    pub outcome: Option<Payload>,
}

impl KeptChild {
    /// Returns the outcome of a child that is no longer stored and whose end was never recorded.
    #[must_use]
    pub fn gone() -> Payload {
        ChildOutcome::Cancelled("it was purged".to_owned()).to_payload()
    }
}

/// Creates a run with the journal that a fork begins with. Refused if the id is in use.
#[derive(Clone, Debug)]
pub struct ForkWrite {
    /// The new run. Nobody drives it from the start.
    pub start: StartWrite,
    /// Its journal.
    pub entries: Vec<Entry>,
    /// Messages that are in its inbox, under the positions they had in another one.
    pub inbox: Vec<Inbound>,
    /// Messages that arrive after those.
    pub arriving: Vec<Message>,
}

/// The result of one write of a batch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// Result of a start or a fork.
    Started {
        /// The instance with that id.
        num: InstanceNum,
        /// `true` if this start created the instance.
        created: bool,
        /// `true` if the owner named in the start holds the lease and drives the instance right away.
        is_driven: bool,
    },
    /// Result of a send: the message is in the inbox.
    Sent {
        /// The owner of the inbox.
        num: InstanceNum,
        /// The position of the message, or of the first one with this dedup key; 0 if that is no longer known.
        pos: u64,
        /// The position of the last message before it that is not taken, or of one that was; 0 if there is none. A
        /// receiver that does not know that message has missed something.
        before: u64,
        /// `true` if this send added the message.
        is_new: bool,
        /// Other instances that it sent something to: the parent and the children of a stuck run that it ended.
        reached: Vec<InstanceNum>,
    },
    /// Result of a commit without writes, a reopen, purge, mark or absolve that was applied.
    Done,
    /// Result of a write that was refused because the writer no longer owns the lease or the instance.
    Fenced,
    /// Result of a commit or turn with a new state that was refused because of these unseen messages.
    Unseen(Vec<Inbound>),
    /// Result of a push: the events are stored with the instance.
    Pushed {
        /// The receiving instance.
        num: InstanceNum,
        /// `true` if this push created the instance.
        created: bool,
        /// The position of each event, in order; 0 if an event with the same dedup key already exists.
        positions: Vec<u64>,
        /// See [`Answer::Sent`].
        before: u64,
    },
    /// Result of a rewind, a turn, or a commit with writes, that was applied: the results of its writes, in order.
    DoneWith(Vec<Answer>),
    /// Result of a turn or commit one of whose writes was refused; nothing was changed.
    WriteRefused {
        /// Which of its writes it was.
        index: usize,
        /// Why.
        refusal: Refusal,
    },
    /// Result of retrying or discarding dead letters.
    DeadLettersResolved {
        /// The number of dead letters.
        count: u64,
        /// The instances that received them again, each one once.
        nums: Vec<InstanceNum>,
    },
    /// Result of an output that was stored: its [place](crate::output::OutputKey::item) under its name.
    Given {
        /// The run.
        num: InstanceNum,
        /// The place.
        item: u64,
    },
    /// Result of a trim: the number of removed events; 0 once nothing older is left.
    Trimmed(u64),
    /// Result of an expiry.
    Expired {
        /// The number of runs that were removed.
        removed: u64,
        /// Where to go on, unless no run is left that ended long ago.
        next: Option<ExpireMark>,
    },
    /// Result of a claim: the claimed instances, in the requested order.
    Claimed(Vec<Claimed>),
    /// The write conflicts with the contents of the store; nothing was changed.
    Refused(Refusal),
}

impl Answer {
    /// Returns `true` if the write added something new to this instance.
    #[must_use]
    pub fn reaches(&self, num: InstanceNum) -> bool {
        match self {
            Self::Sent { num: whose, is_new, .. } => *whose == num && *is_new,
            Self::Pushed { num: whose, positions, .. } => *whose == num && positions.iter().any(|pos| *pos > 0),
            Self::DeadLettersResolved { nums, .. } => nums.contains(&num),
            _ => false,
        }
    }
}

/// Why a write was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such instance.
    NotFound,
    /// The instance has ended or its status does not allow the write.
    Status(Status),
    /// The id belongs to a run of another workflow or with a different input.
    Conflict {
        /// The workflow of that run.
        workflow: Name,
    },
    /// The id is in use and the start specified [`OnConflict::Reject`].
    Taken,
    /// The instance is a child that has not ended, and its parent waits for it.
    Child {
        /// The id of the parent.
        parent: Name,
    },
    /// The journal has grown since the write was planned.
    Changed,
    /// The stream has as many items as it may have.
    Full {
        /// How many.
        max_items: u64,
    },
}
