//! Events on their way to the handlers of a job: pushed, queued, and given up.

use std::collections::BTreeMap;

use crate::event::Event;
use crate::id::Name;
use crate::mutant::{Mutant, is_on};
use crate::payload::Payload;
use crate::time::Timestamp;

/// Events for an instance of a job, which is brought into being if there is none. They lie in its inbox, in their
/// order, or in its queue. Unless somebody in this process drives the instance, it is made due in the same write.
/// Refused if the instance has ended, or is not of this job; a stuck one keeps them and is not woken.
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// # let store = outlive_core::memory::MemoryStore::new();
/// # use outlive_core::{id::Name, payload::Payload, store::Store, time::Timestamp};
/// use outlive_core::commit::{Answer, Write};
/// use outlive_core::event::Event;
/// use outlive_core::queue::{Place, Push};
///
/// let push = Push {
///     id: Name::recorded("task:orders:42"),
///     job: Name::recorded("task:orders"),
///     events: vec![Event::new(Payload::recorded(r#""paid""#))],
///     place: Place::Inbox,
///     at: Timestamp::from_millis(1),
///     seed: 7,
///     token: 1,
/// };
/// let answers = store.write(vec![Write::Push(push)].into()).await?;
/// assert!(matches!(answers[..], [Answer::Pushed { created: true, .. }]));
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
#[derive(Clone, Debug)]
pub struct Push {
    /// To whom.
    pub id: Name,
    /// The job's name with its kind, as `task:orders`.
    pub job: Name,
    /// What, in order.
    pub events: Vec<Event>,
    /// Where they lie until they are taken.
    pub place: Place,
    /// When they were accepted.
    pub at: Timestamp,
    /// Where the random numbers of the instance begin, if it is brought into being.
    pub seed: u64,
    /// Random; tells this push from an equal one when an answer was lost.
    pub token: u64,
}

/// Where pushed events lie.
///
/// ```
/// use outlive_core::queue::Place;
/// assert_ne!(Place::Inbox, Place::Queue);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// With the messages of the instance: one after the other, all of them in memory while it is driven.
    Inbox,
    /// In a queue that is read a page at a time, by priority, fairly between keys.
    Queue,
}

/// What becomes of an event in a queue.
///
/// ```
/// use outlive_core::event::Event;
/// use outlive_core::payload::Payload;
/// use outlive_core::queue::{Moved, Spot};
///
/// let event = Event::new(Payload::recorded("42"));
/// let done = Moved { pos: 7, from: Spot::of(&event), key: event.dedup.clone(), to: None };
/// assert!(done.to.is_none());
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Moved {
    /// Which.
    pub pos: u64,
    /// Where it lies.
    pub from: Spot,
    /// Its dedup key, which is free again unless the event stays.
    pub key: Option<Name>,
    /// The event as it is from now on; `None` if it is done with.
    pub to: Option<Event>,
}

/// Where in a queue an event lies, so that what is next is found without looking at the rest.
///
/// ```
/// use outlive_core::event::Event;
/// use outlive_core::payload::Payload;
/// use outlive_core::queue::Spot;
///
/// let urgent = Event { priority: 5, ..Event::new(Payload::recorded("1")) };
/// assert!(Spot::of(&urgent) < Spot::of(&Event::new(Payload::recorded("2"))));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Spot {
    /// The smaller, the sooner; [`Spot::DELAYED`] for those that wait for a time.
    pub rank: i64,
    /// Those of one rank take turns by lane; of the delayed, it is the time.
    pub lane: String,
}

impl Spot {
    /// The rank of events that wait for a time.
    pub const DELAYED: i64 = i64::MAX;

    /// Where an event belongs.
    ///
    /// ```
    /// # use outlive_core::{event::Event, payload::Payload, queue::Spot, time::Timestamp};
    /// let later = Event { due: Some(Timestamp::from_millis(60_000)), ..Event::new(Payload::recorded("1")) };
    /// assert_eq!(Spot::of(&later), Spot::delayed_until(Timestamp::from_millis(60_000)));
    /// ```
    #[must_use]
    pub fn of(event: &Event) -> Self {
        match event.due {
            Some(due) => Self::delayed_until(due),
            None => {
                let lane = event.key.as_ref().map_or_else(String::new, ToString::to_string);
                Self { rank: Self::rank_of(event.priority), lane }
            }
        }
    }

    /// The rank of a priority: never 0, which is the inbox.
    ///
    /// ```
    /// # use outlive_core::queue::Spot;
    /// assert!(Spot::rank_of(i32::MAX) > 0 && Spot::rank_of(1) < Spot::rank_of(0));
    /// ```
    #[must_use]
    pub fn rank_of(priority: i32) -> i64 {
        1 + i64::from(i32::MAX) - i64::from(priority)
    }

    /// Where events lie that wait until a time.
    ///
    /// ```
    /// # use outlive_core::{time::Timestamp, queue::Spot};
    /// let spots = [5, 60].map(|millis| Spot::delayed_until(Timestamp::from_millis(millis)));
    /// assert!(spots[0] < spots[1]);
    /// ```
    #[must_use]
    pub fn delayed_until(due: Timestamp) -> Self {
        Self { rank: Self::DELAYED, lane: format!("{:020}", due.as_millis().max(0)) }
    }

    /// When an event here has its owner wake: at once, or when its time comes.
    ///
    /// ```
    /// # use outlive_core::{queue::Spot, time::Timestamp};
    /// let due = Timestamp::from_millis(60_000);
    /// assert_eq!(Spot::delayed_until(due).wake(), due);
    /// assert_eq!(Spot { rank: 1, lane: String::new() }.wake(), Timestamp::AT_ONCE);
    /// ```
    #[must_use]
    pub fn wake(&self) -> Timestamp {
        if self.rank == Self::DELAYED { self.due() } else { Timestamp::AT_ONCE }
    }

    /// Until when a delayed event waits.
    ///
    /// ```
    /// # use outlive_core::{queue::Spot, time::Timestamp};
    /// let due = Timestamp::from_millis(60_000);
    /// assert_eq!(Spot::delayed_until(due).due(), due);
    /// ```
    #[must_use]
    pub fn due(&self) -> Timestamp {
        Timestamp::from_millis(self.lane.parse().unwrap_or(0))
    }
}

/// An event, or a batch of them, that was given up.
///
/// ```
/// use outlive_core::queue::Dead;
/// fn line(dead: &Dead) -> String {
///     format!("{} of {} after {} attempts: {}", dead.pos, dead.id, dead.attempts, dead.failure)
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Dead {
    /// Its position when it was accepted, which is its number among the dead letters.
    pub pos: u64,
    /// The job's name with its kind.
    pub job: Name,
    /// The instance it was for.
    pub id: Name,
    /// When it was given up.
    pub at: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
    /// The last failure, as [`Failure::to_payload`](crate::failure::Failure::to_payload) writes it.
    pub failure: Payload,
    /// The event as it was accepted, or the batch.
    pub event: Event,
    /// Where it goes if it is tried again.
    pub place: Place,
}

/// What is to become of dead letters.
///
/// ```
/// # use outlive_core::{id::Name, time::Timestamp};
/// use outlive_core::queue::{Bury, Letters};
/// let all = Bury { job: Name::recorded("pool:mail"), letters: Letters::All, is_retry: true, at: Timestamp::from_millis(1) };
/// assert!(all.is_retry);
/// ```
#[derive(Clone, Debug)]
pub struct Bury {
    /// The job's name with its kind.
    pub job: Name,
    /// Which of its dead letters.
    pub letters: Letters,
    /// Whether they are tried again, as new; else they are dropped.
    pub is_retry: bool,
    /// When.
    pub at: Timestamp,
}

/// Which dead letters.
///
/// ```
/// use outlive_core::queue::Letters;
/// assert_ne!(Letters::All, Letters::One(7));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Letters {
    /// All of the job.
    All,
    /// The one with this number.
    One(u64),
}

impl Letters {
    /// Whether the letter of this number is among them.
    ///
    /// ```
    /// # use outlive_core::queue::Letters;
    /// assert!(Letters::All.has(7) && !Letters::One(3).has(7));
    /// ```
    #[must_use]
    pub fn has(self, pos: u64) -> bool {
        self == Self::All || self == Self::One(pos)
    }
}

/// A part of a queue to be read.
///
/// ```
/// use outlive_core::queue::QueueRead;
/// # use outlive_core::time::Timestamp;
/// let read = QueueRead { now: Timestamp::from_millis(0), after: None, limit: 100 };
/// assert!(read.after.is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueRead {
    /// Events that wait for a time are ready if it has come.
    pub now: Timestamp,
    /// The lane that had its turn last: the one after it is next.
    pub after: Option<String>,
    /// The most that are wanted; of a long queue a store may give fewer.
    pub limit: usize,
}

/// What is next in a queue.
///
/// ```
/// use outlive_core::queue::QueuePage;
/// assert!(QueuePage::default().events.is_empty());
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct QueuePage {
    /// Those that are ready: by priority, lanes taking turns, in order of arrival.
    pub events: Vec<Queued>,
    /// When the next of those is ready that wait for a time.
    pub next_due: Option<Timestamp>,
}

/// An event in a queue.
///
/// ```
/// use outlive_core::queue::Queued;
/// fn is_new(queued: &Queued) -> bool {
///     queued.event.as_ref().is_ok_and(|event| event.failed == 0)
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Queued {
    /// Its position.
    pub pos: u64,
    /// Where it lies.
    pub spot: Spot,
    /// When it was accepted.
    pub at: Timestamp,
    /// The event, or what is wrong with its row.
    pub event: Result<Event, String>,
}

impl Queued {
    /// Its rank and lane for [`take_turns`]: one that waited for a time is ready as any other of its priority.
    ///
    /// ```
    /// # use outlive_core::{event::Event, payload::Payload, queue::{Queued, Spot}, time::Timestamp};
    /// let event = Event { due: Some(Timestamp::from_millis(5)), ..Event::new(Payload::recorded("1")) };
    /// let queued = Queued { pos: 1, spot: Spot::of(&event), at: Timestamp::from_millis(1), event: Ok(event) };
    /// assert_eq!(queued.turn(), (Spot::rank_of(0), String::new()));
    /// ```
    #[must_use]
    pub fn turn(&self) -> (i64, String) {
        match &self.event {
            Ok(event) => (Spot::rank_of(event.priority), event.key.as_ref().map_or_else(String::new, Name::to_string)),
            Err(_) => (self.spot.rank, self.spot.lane.clone()),
        }
    }
}

/// How many events are where.
///
/// ```
/// use outlive_core::queue::Depth;
/// assert_eq!(Depth::default().queued, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Depth {
    /// In the queue, the delayed and those that are handled just now among them.
    pub queued: u64,
    /// Waiting for a time.
    pub delayed: u64,
    /// Given up.
    pub dead: u64,
}

/// The most of `ranked` in turns: by rank, then one of each lane after another, beginning after the lane `after`.
///
/// ```
/// use outlive_core::queue::take_turns;
/// let waiting = [(1, "a", 1), (1, "a", 2), (1, "b", 3), (0, "c", 4)];
/// let turns = take_turns(waiting.to_vec(), None, 3, |one| (one.0, one.1.to_owned()));
/// assert_eq!(turns.iter().map(|one| one.2).collect::<Vec<_>>(), [4, 1, 3]);
/// ```
pub fn take_turns<T>(ranked: Vec<T>, after: Option<&str>, limit: usize, place: impl Fn(&T) -> (i64, String)) -> Vec<T> {
    let mut lanes: BTreeMap<(i64, bool, String), u64> = BTreeMap::new();
    let mut turns: Vec<_> = ranked
        .into_iter()
        .map(|one| {
            let (rank, lane) = place(&one);
            // Those up to the one that had its turn last come after the others.
            let lane = (rank, after.is_some_and(|after| lane.as_str() <= after), lane);
            let nth = lanes.entry(lane.clone()).or_default();
            *nth += u64::from(!is_on(Mutant::LanesUnfair));
            ((lane.0, *nth, lane.1, lane.2), one)
        })
        .collect();
    turns.sort_by(|one, other| one.0.cmp(&other.0));
    turns.truncate(limit);
    turns.into_iter().map(|(_, one)| one).collect()
}
